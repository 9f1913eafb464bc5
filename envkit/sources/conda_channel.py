"""Which channel a package came from: by its address, or by the name in its record."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from envkit.model.conda_channel import full_channel_name
from envkit.sources.redacted import clipped, escape_control, without_credentials

MAX_CHARS: Final = 300
_ARCHIVE = re.compile(r"/[^/]+\.(?:conda|tar\.bz2)$")


def channel_of(url: str, channel: str = "") -> str:
    """Return the short name of a well-known channel, else its address without credentials.

    Args:
        url: address of the package; decides where it is there.
        channel: what the record itself says, a name or an address with or without the platform.

    """
    address = url if "://" in url else channel
    # Packages of one channel and platform share everything up to the last slash.
    folder, _, file = address.rpartition("/")
    if "?" in file or "#" in file or not file.endswith((".conda", ".tar.bz2")):
        return _shown(address)
    return _shown(folder)


@lru_cache(maxsize=1024)
def _shown(address: str) -> str:
    plain = _ARCHIVE.sub("", without_credentials(address).strip())
    return clipped(escape_control(full_channel_name(plain)), MAX_CHARS)

"""How a conda channel is called: from the address of a package, or from the name in its record."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from envkit.sources.redacted import clipped, escape_control, without_credentials

MAX_CHARS: Final = 300
_ARCHIVE = re.compile(r"/[^/]+\.(?:conda|tar\.bz2)$")
#: The last folder of an address: the platform.
_SUBDIR = re.compile(r"/(?:noarch|(?:linux|osx|win|freebsd|zos|emscripten|wasi)-[a-z0-9]{1,12})/?$")
_NAMED_HOST = re.compile(r"^https?://(?:conda|conda-static)\.anaconda\.org/(.+)$")
#: Anaconda's own channels; conda calls them `defaults` together.
_DEFAULTS = re.compile(r"^(?:https?://repo\.(?:anaconda\.com|continuum\.io)/)?pkgs/[a-z0-9]{1,10}$")


def channel_name(url: str, channel: str = "") -> str:
    """Return the short name of a well-known channel, else its address without credentials.

    Args:
        url: address of the package; decides where it is there.
        channel: what the record itself says, a name or an address with or without the platform.

    """
    address = url if "://" in url else channel
    # Packages of one channel and platform share everything up to the last slash.
    folder, _, file = address.rpartition("/")
    if "?" in file or "#" in file or not file.endswith((".conda", ".tar.bz2")):
        return _named(address)
    return _named(folder)


@lru_cache(maxsize=1024)
def _named(address: str) -> str:
    address = _ARCHIVE.sub("", without_credentials(address).strip())
    address = _SUBDIR.sub("", address).rstrip("/")
    named = _NAMED_HOST.match(address)
    name = named.group(1) if named else address
    if _DEFAULTS.match(name):
        return "defaults"
    return clipped(escape_control(name), MAX_CHARS)

"""Which channels a lock takes packages from; read line by line, since that is all lint needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from envkit.model.conda_channel import channel_name
from envkit.model.lock_reading import MAX_LOCK_BYTES

_URL: Final = re.compile(
    rb"^[ \t]*(?:- )?url:[ \t]*['\"]?(\S+)/[^/\s]+\.(?:conda|tar\.bz2)\b", re.MULTILINE
)


def channels_of_lock(path: Path) -> frozenset[str] | None:
    """Return the names of the channels of a conda-lock.yml; None if there is no such file.

    A file that cannot be read, is too large or holds no conda package counts as no lock: lint says
    nothing about locks, `envkit lock --check` does.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_LOCK_BYTES + 1)
    except OSError:
        return None
    if len(content) > MAX_LOCK_BYTES:
        return None
    found = frozenset(
        channel_name(url.decode("utf-8", "replace")) for url in set(_URL.findall(content))
    )
    return found or None

"""Where the packages of a channel are listed: at its address, or in a folder on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

#: What a channel without an address is short for, as in conda.
UPSTREAM: Final = "https://conda.anaconda.org"


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A channel and where to look at it."""

    url: str
    """Its canonical address, which is what a lock records."""
    folder: Path | None
    """Where its `SUBDIR/repodata.json` are on disk; None: ask the address."""


def locate(channel: str, mirror: Path | None) -> Channel:
    """Find a channel: a name, an address, or a folder as `file://`.

    Args:
        channel: as it stands in a spec.
        mirror: folder that holds the channels of conda.anaconda.org by name; None: none does.

    """
    if channel.startswith("file://"):
        return Channel(url=channel.rstrip("/"), folder=folder_of(channel))
    url = channel if "://" in channel else f"{UPSTREAM}/{channel}"
    url = url.rstrip("/")
    if mirror is None:
        return Channel(url=url, folder=None)
    return Channel(url=url, folder=mirrored(url, mirror))


def folder_of(url: str) -> Path:
    """Return the folder or file that a `file://` address names."""
    return Path(unquote(urlsplit(url).path))


def mirrored(url: str, mirror: Path) -> Path:
    """Return where a mirror has what is at an address of conda.anaconda.org.

    An address elsewhere is looked for by its path; what is not there is not found later.
    """
    path = unquote(urlsplit(url).path).strip("/")
    return mirror.joinpath(*(part for part in path.split("/") if part not in {"", ".", ".."}))

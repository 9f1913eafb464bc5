"""How a conda channel is called, however it is written: by name, by address, with a platform."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_PLATFORM: Final = r"noarch|(?:linux|osx|win|freebsd|zos|emscripten|wasi)-[a-z0-9]{1,12}"
_SUBDIR: Final = re.compile(rf"/(?:{_PLATFORM})/?$")
_NAMED_HOST: Final = re.compile(r"^https?://(?:conda|conda-static)\.anaconda\.org/(.+)$")
#: Anaconda's own channels; conda calls them `defaults` together.
_DEFAULTS: Final = re.compile(
    r"^(?:https?://repo\.(?:anaconda\.com|continuum\.io)/)?pkgs/[a-z0-9]{1,10}$"
)


def is_platform(text: str) -> bool:
    """Say whether a text is what a folder of a channel is called: `linux-64`, `noarch`."""
    return re.fullmatch(_PLATFORM, text) is not None


@lru_cache(maxsize=1024)
def full_channel_name(channel: str) -> str:
    """Return the name of a channel of anaconda.org or `defaults`, else its address.

    `https://conda.anaconda.org/conda-forge/linux-64` -> `conda-forge`;
    `https://repo.anaconda.com/pkgs/main` -> `defaults`.
    """
    address = _SUBDIR.sub("", channel.strip()).rstrip("/")
    named = _NAMED_HOST.match(address)
    name = named.group(1) if named else address
    return "defaults" if _DEFAULTS.match(name) else name


def channel_name(channel: str) -> str:
    """Return what a spec calls a channel, which is one for all its mirrors: an address's last part.

    `https://mirror.example/cloud/conda-forge` -> `conda-forge`.
    """
    name = full_channel_name(channel)
    is_address = "://" in name or name.startswith(("/", "."))
    return name.rpartition("/")[2] if is_address else name

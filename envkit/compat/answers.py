"""The words in which the tables answer, above all the one for "the tables do not say"."""

from __future__ import annotations

import enum
from typing import Literal, NoReturn

import msgspec

#: Whose driver numbering counts. Under WSL2 it is `windows`: the driver is the Windows one.
System = Literal["linux", "windows"]
#: What a build was made for.
Platform = Literal["linux_x86_64", "linux_aarch64", "windows"]


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """The tables do not say. Never a guess; neither true nor false."""

    why: str
    #: The thing asked about is newer than the tables, so it may well be fine.
    newer: bool = False

    def __bool__(self) -> NoReturn:
        """Refuse: `if companion_fits(...)` would take "the tables do not say" for a yes."""
        message = f"unknown is neither true nor false ({self.why}); ask isinstance(..., Unknown)"
        raise TypeError(message)


class Fit(enum.Enum):
    """Whether a build's code runs on a GPU."""

    NATIVE = "native"
    """Machine code for this GPU is in the build."""
    PTX = "ptx"
    """The driver has to compile PTX first, and must be new enough for it."""
    NO = "no"
    UNKNOWN = "unknown"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a build's code runs on a GPU, and by which of its architectures."""

    fit: Fit
    #: The entry of the architecture list that decides, None for no and unknown.
    via: str | None = None
    #: Why it is unknown or no, empty otherwise.
    why: str = ""


def system_of(platform: Platform) -> System:
    """Return whose driver numbering counts for a build's platform."""
    return "windows" if platform == "windows" else "linux"

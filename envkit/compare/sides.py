"""One of the things compared: what it says about a machine, its packages, its measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from envkit.model.facts import Facts
from envkit.model.fingerprint import Fingerprint

if TYPE_CHECKING:  # a side is never decoded; reading what specs ask for costs time at the start
    from envkit.model.match_spec import MatchSpec

Manager = Literal["conda", "pip"]


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A package that is installed or locked; empty where the input does not say it."""

    name: str
    manager: Manager
    version: str = ""
    build: str = ""
    channel: str = ""
    md5: str = ""
    sha256: str = ""
    platform: str = ""
    """Platform it is locked for; empty for what is installed."""
    match: MatchSpec | None = None
    """What a spec asks of a conda package, where this is no package but a wish."""
    specifier: str | None = None
    """What a spec asks of a pip package (PEP 440); None where this is no wish."""

    @property
    def wished(self) -> bool:
        """Whether this is what a spec asks for, not a package that is there."""
        return self.match is not None or self.specifier is not None


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """The packages that an input lists."""

    listed: tuple[Package, ...]
    conda: bool
    """Whether it lists conda packages at all."""
    pip: bool
    """Whether it lists Python distributions at all."""
    complete: bool = True
    """Whether what is not listed is not there; a paste lists only what matters to torch."""
    never_listed: frozenset[str] = frozenset()
    """Packages that this kind of list leaves out although they are there."""
    platforms: tuple[str, ...] = ()
    """Platforms of a lock; empty for lists that are of one platform."""
    platform: str = ""
    """Platform of such a list, where it says it."""
    conda_owned: tuple[Package, ...] = ()
    """Python distributions that conda packages installed: the same thing from pip's side."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One input of a comparison."""

    label: str
    kind: str
    path: str
    facts: Facts | None = None
    fingerprint: Fingerprint | None = None
    packages: Packages | None = None

"""What the command line says about the spec and the lock that an environment is judged by."""

from __future__ import annotations

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `envkit verify`."""

    spec: str | None = None
    """A path, or a name of the registry."""
    lock: str | None = None
    """Path of a conda-lock.yml or of an explicit lock."""
    strict: bool = False
    """Whether satisfying the spec is not enough."""
    deep: bool = False
    """Whether every file is compared with its record."""

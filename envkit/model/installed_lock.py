"""How an environment says which lock it was made from.

`envkit create` leaves two files in the environment's `conda-meta`. Neither ends in `.json`: conda
takes every such file there for the record of a package.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

#: An `envkit.installed/1` document as JSON; written last, so that it is there only in a whole one.
INSTALLED_FILE: Final = "envkit-installed"
#: The lock itself, byte for byte.
LOCK_FILE: Final = "envkit-lock.yml"


class InstalledLock(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment says about the lock that it was installed from."""

    schema: Literal["envkit.installed/1"] = "envkit.installed/1"
    envkit_version: str
    spec: str
    """`vit`; empty where the lock does not say."""
    spec_version: str
    content_hash: str
    """Of the spec, as the lock has it."""
    platform: str
    packages: int
    lock_sha256: str
    """SHA-256 of the bytes of the lock, and so of `LOCK_FILE`, as hexadecimal digits."""
    scripts_not_run: tuple[str, ...] = ()
    """Packages with a post-link script: conda runs those, `envkit create` runs none."""

"""What a build folder of an image says about itself."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Mode: TypeAlias = Literal["base", "jupyter", "ssh"]
#: The file of a build folder that says what it was written from, and which files are envkit's.
IMAGE_FILE: Final = "envkit-image.json"


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.image/1`."""

    schema: Literal["envkit.image/1"] = "envkit.image/1"
    envkit_version: str
    spec: str
    """`vit@1.0.0`, or the name that the lock has for it; empty where it has none."""
    mode: Mode
    base: str
    """The image that it starts from."""
    platform: str
    """conda's, `linux-64`."""
    packages: int
    lock_sha256: str
    """SHA-256 of the lock, byte for byte, as hexadecimal digits."""
    files: dict[str, str]
    """SHA-256 of each file by its path in the folder, this one left out."""

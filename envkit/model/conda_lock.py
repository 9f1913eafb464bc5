"""What a lock says: which package files make up an environment, on which platform, with hashes.

The fields are those of conda-lock's format 1 (https://schemas.conda.org/conda-lock-v1.schema.json).
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

#: The file that conda installs: name, version and build are in it, none of them with a slash.
PACKAGE_FILE: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_.+-]+)-(?P<version>[A-Za-z0-9_.+!]+)-(?P<build>[A-Za-z0-9_.+]+)"
    r"(?P<format>\.conda|\.tar\.bz2)"
)


class PackageHash(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hashes of a package file, as hexadecimal digits; None where the lock has none."""

    md5: str | None = None
    sha256: str | None = None


class LockedPackage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One package on one platform."""

    name: str
    version: str
    manager: Literal["conda", "pip"]
    platform: str
    """Platform it is locked for; a package of its `noarch` folder is listed for each."""
    dependencies: dict[str, str] = {}
    """Name to version constraint; builds that a dependency asks for are not in the format."""
    url: str
    hash: PackageHash
    source: dict[str, Any] | None = None
    """Of pip packages from an address."""
    build: str | None = None
    category: str = "main"
    optional: bool = False

    @property
    def file_name(self) -> str:
        """Name of the package file."""
        return self.url.partition("#")[0].rpartition("/")[2]

    @property
    def build_string(self) -> str:
        """Build of a conda package, empty for others: written down, or read from its file name."""
        found = PACKAGE_FILE.fullmatch(self.file_name) if self.manager == "conda" else None
        return self.build or (found["build"] if found else "")

    @property
    def subdir(self) -> str:
        """Folder of the channel that the package is in: its platform, or `noarch`."""
        return self.url.rpartition("/")[0].rpartition("/")[2]

    @property
    def channel_url(self) -> str:
        """Address of the channel, without the folder of the platform."""
        return self.url.rpartition("/")[0].rpartition("/")[0]

    @property
    def channel(self) -> str:
        """Name of the channel: the last part of its address."""
        return self.channel_url.rpartition("/")[2]


class LockChannel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A channel that was asked, in the order of priority."""

    url: str
    used_env_vars: tuple[str, ...] = ()


class LockMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the lock came to be."""

    content_hash: dict[str, str]
    """conda-lock's hash of what was asked, by platform."""
    channels: tuple[LockChannel, ...]
    platforms: tuple[str, ...]
    sources: tuple[str, ...]
    """Specs, relative to the lock."""
    time_metadata: dict[str, Any] | None = None
    git_metadata: dict[str, Any] | None = None
    inputs_metadata: dict[str, Any] | None = None
    custom_metadata: dict[str, str] | None = None


class CondaLock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conda-lock.yml of format 1."""

    version: Literal[1] = 1
    metadata: LockMetadata
    package: tuple[LockedPackage, ...]

    def packages(self, platform: str) -> tuple[LockedPackage, ...]:
        """Return the packages of one platform, those of conda and of pip."""
        return tuple(one for one in self.package if one.platform == platform)

    def noted(self, key: str) -> str | None:
        """Return an entry of `custom_metadata`."""
        return (self.metadata.custom_metadata or {}).get(key)

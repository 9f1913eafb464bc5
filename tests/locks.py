"""Locks for tests: made here, so that no test depends on a file of somebody else."""

from __future__ import annotations

from envkit.model.conda_lock import (
    CondaLock,
    LockChannel,
    LockedPackage,
    LockMetadata,
    PackageHash,
)


def package(
    name: str,
    version: str = "1.0",
    build: str = "h0_0",
    *,
    platform: str = "linux-64",
    dependencies: dict[str, str] | None = None,
) -> LockedPackage:
    """A conda package with hashes that follow from its name."""
    digit = f"{sum(map(ord, name + version)) % 16:x}"
    return LockedPackage(
        name=name,
        version=version,
        manager="conda",
        platform=platform,
        dependencies=dependencies or {},
        url=f"https://conda.anaconda.org/conda-forge/{platform}/{name}-{version}-{build}.conda",
        hash=PackageHash(md5=digit * 32, sha256=digit * 64),
    )


def lock(*packages: LockedPackage, noted: dict[str, str] | None = None) -> CondaLock:
    """A lock of these packages."""
    platforms = sorted({one.platform for one in packages} or {"linux-64"})
    return CondaLock(
        metadata=LockMetadata(
            content_hash=dict.fromkeys(platforms, "0" * 64),
            channels=(LockChannel(url="conda-forge"),),
            platforms=tuple(platforms),
            sources=("spec.yml",),
            custom_metadata=noted,
        ),
        package=packages,
    )

"""Small conda environments with true records, written by tests, and their locks."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from envkit.model.conda_lock import (
    CondaLock,
    LockChannel,
    LockedPackage,
    LockMetadata,
    PackageHash,
)
from envkit.model.lock_writing import write_conda_lock

FORGE = "https://conda.anaconda.org/conda-forge"
SITE = "lib/python3.12/site-packages"
#: Name, version, build and platform of what an environment of these tests has.
PACKAGES = (
    ("cudnn", "9.10.1.4", "h7646684_0", "linux-64"),
    ("numpy", "2.2.6", "py312h72c5963_0", "linux-64"),
    ("python", "3.12.11", "h9e4cc4f_0_cpython", "linux-64"),
    ("pytorch", "2.7.1", "cuda126_py312_h1_300", "linux-64"),
    ("tqdm", "4.67.1", "pyhd8ed1ab_1", "noarch"),
)


def locked(name: str, version: str, build: str, subdir: str = "linux-64") -> LockedPackage:
    stem = f"{name}-{version}-{build}"
    return LockedPackage(
        name=name,
        version=version,
        manager="conda",
        platform="linux-64",
        url=f"{FORGE}/{subdir}/{stem}.conda",
        hash=PackageHash(
            md5=hashlib.md5(stem.encode(), usedforsecurity=False).hexdigest(),
            sha256=hashlib.sha256(stem.encode()).hexdigest(),
        ),
    )


def write_lock(path: Path, *packages: LockedPackage, **metadata: str) -> Path:
    """Write a conda-lock.yml, by default of `PACKAGES`; keywords become its custom metadata."""
    chosen = packages or tuple(locked(*one) for one in PACKAGES)
    lock = CondaLock(
        metadata=LockMetadata(
            content_hash={"linux-64": "0" * 64},
            channels=(LockChannel(url="conda-forge"),),
            platforms=("linux-64",),
            sources=("environment.yml",),
            custom_metadata=metadata or None,
        ),
        package=chosen,
    )
    path.write_bytes(write_conda_lock(lock, header="Written by a test."))
    return path


def write_prefix(folder: Path) -> Path:
    """Write an environment of `PACKAGES`, without an interpreter, each with three files."""
    for one in PACKAGES:
        package = locked(*one)
        content = {
            f"lib/{package.name}/f{number}.bin": f"{package.name} {number}\n".encode() * 50
            for number in range(2)
        }
        content[f"{SITE}/{package.name}/__init__.py"] = b"VALUE = 1\n"
        write_package(folder, package, content)
    return folder


def write_package(prefix: Path, package: LockedPackage, content: dict[str, bytes]) -> Path:
    """Write files and the record of a package; returns the record."""
    paths: list[dict[str, Any]] = []
    for name, text in content.items():
        place = prefix / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text)
        digest = hashlib.sha256(text).hexdigest()
        paths.append(
            {
                "_path": name,
                "path_type": "hardlink",
                "sha256": digest,
                "sha256_in_prefix": digest,
                "size_in_bytes": len(text),
            }
        )
    record = {
        "name": package.name,
        "version": package.version,
        "build": package.build_string,
        "channel": package.channel_url,
        "subdir": package.subdir,
        "fn": package.file_name,
        "url": package.url,
        "md5": package.hash.md5,
        "sha256": package.hash.sha256,
        "depends": [],
        "files": list(content),
        "paths_data": {"paths_version": 1, "paths": paths},
        "link": {"source": "", "type": 1},
        "requested_spec": "None",
    }
    path = prefix / "conda-meta" / f"{package.file_name.removesuffix('.conda')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


def record_of(prefix: Path, name: str) -> Path:
    return next((prefix / "conda-meta").glob(f"{name}-[0-9]*.json"))


def edit(prefix: Path, name: str, **changes: Any) -> None:
    """Change a record."""
    path = record_of(prefix, name)
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, **changes}), encoding="utf-8")


def write_wheel(
    prefix: Path,
    name: str,
    version: str,
    *,
    files: tuple[str, ...] = (),
    installer: str = "pip",
) -> Path:
    """Write the metadata of a distribution, with a RECORD of files relative to site-packages."""
    folder = prefix / SITE / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )
    (folder / "INSTALLER").write_text(f"{installer}\n", encoding="utf-8")
    own = [f"{folder.name}/{one}" for one in ("METADATA", "INSTALLER", "RECORD")]
    (folder / "RECORD").write_text("".join(f"{one},,\n" for one in (*files, *own)))
    return folder

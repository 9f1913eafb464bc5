"""Small conda packages and channels for tests, written byte for byte here."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

#: What a package has in place of the prefix until it is installed.
PLACEHOLDER = "/placeholder" + "_p" * 60
STAMP_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Package:
    """A package with a script and a binary that hold the prefix."""

    name: str
    version: str = "1.0"
    build: str = "h0_0"
    depends: tuple[str, ...] = ()
    subdir: str = "linux-64"
    noarch: str | None = None
    ending: str = ".conda"
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"

    def content(self) -> dict[str, bytes]:
        if self.noarch == "python":
            return {f"site-packages/{self.name}.py": b"VALUE = 1\n", **self.files}
        return {
            f"bin/{self.name}": f"#!/bin/sh\necho {PLACEHOLDER}/share\n".encode(),
            f"share/{self.name}.bin": b"\0" + PLACEHOLDER.encode() + b"/lib\0end",
            **self.files,
        }

    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": 0,
            "depends": list(self.depends),
            "constrains": [f"{self.name}-extra >=2"],
            "license": "MIT",
            "subdir": self.subdir,
            "timestamp": STAMP_MS,
        }
        return found if self.noarch is None else {**found, "noarch": self.noarch}


def write_channel(folder: Path, *packages: Package) -> Path:
    """Write packages and their index; returns the folder of the channel."""
    listed: dict[str, dict[str, Any]] = {"linux-64": {}, "noarch": {}}
    for package in packages:
        made = _archive(package)
        place = folder / package.subdir
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{package.stem}{package.ending}").write_bytes(made)
        listed[package.subdir][f"{package.stem}{package.ending}"] = {
            **package.index(),
            "md5": hashlib.md5(made, usedforsecurity=False).hexdigest(),
            "sha256": hashlib.sha256(made).hexdigest(),
            "size": len(made),
        }
    for subdir, records in listed.items():
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        index = {
            "info": {"subdir": subdir},
            "packages": {k: v for k, v in records.items() if k.endswith(".tar.bz2")},
            "packages.conda": {k: v for k, v in records.items() if k.endswith(".conda")},
        }
        (folder / subdir / "repodata.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def _archive(package: Package) -> bytes:
    content = package.content()
    paths = {"paths": [_path(name, body) for name, body in content.items()], "paths_version": 1}
    info = {
        "info/index.json": json.dumps(package.index()).encode(),
        "info/paths.json": json.dumps(paths).encode(),
    }
    if package.noarch == "python":
        link = {"package_metadata_version": 1, "noarch": {"type": "python"}}
        info["info/link.json"] = json.dumps(link).encode()
    if package.ending == ".tar.bz2":
        return _tar({**info, **content}, "w:bz2")
    zstandard = pytest.importorskip("zstandard")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, body in (
            ("metadata.json", b'{"conda_pkg_format_version": 2}'),
            (f"pkg-{package.stem}.tar.zst", zstandard.compress(_tar(content, "w:"))),
            (f"info-{package.stem}.tar.zst", zstandard.compress(_tar(info, "w:"))),
        ):
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), body)
    return made.getvalue()


def _path(name: str, body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {
        "_path": name,
        "path_type": "hardlink",
        "sha256": hashlib.sha256(body).hexdigest(),
        "size_in_bytes": len(body),
    }
    if PLACEHOLDER.encode() in body:
        found["prefix_placeholder"] = PLACEHOLDER
        found["file_mode"] = "binary" if b"\0" in body else "text"
    return found


def _tar(files: dict[str, bytes], mode: Any) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            member.mode = 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(body))
    return made.getvalue()

"""Recorded trees: files by their path, and the states of facts in short."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from envkit.model.observed import Known, Observed, T


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder; a name that ends in `/` is an empty folder."""
    for name, content in files.items():
        place = root / name
        if name.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def known(fact: Observed[T]) -> T:
    assert isinstance(fact, Known), fact
    return fact.value


def conda_record(name: str, version: str, build: str, **more: object) -> dict[str, str]:
    """Return the file of one record, as `plant` takes it."""
    base = "https://conda.anaconda.org/conda-forge/linux-64"
    record = {
        "name": name,
        "version": version,
        "build": build,
        "build_number": 0,
        "channel": base,
        "subdir": "linux-64",
        "url": f"{base}/{name}-{version}-{build}.conda",
        "md5": "0" * 32,
        "sha256": "f" * 64,
        "depends": ["libgcc >=13"],
        "files": [f"share/{name}/readme"],
        **more,
    }
    return {f"conda-meta/{name}-{version}-{build}.json": json.dumps(record)}


def dist_info(
    folder: str, name: str, version: str, *, installer: str = "pip", **more: str
) -> dict[str, str]:
    """Return the files of one distribution's metadata; `more`: further files, by name."""
    place = f"{folder}/{name.replace('-', '_')}-{version}.dist-info"
    extra_headers = more.pop("headers", "")
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extra_headers}\n"
        "Requires-Dist: this line is part of the description\n",
        "INSTALLER": f"{installer}\n",
        **more,
    }
    return {f"{place}/{file}": content for file, content in files.items()}

"""The wheel that an image gets can be installed, and is the same whenever it is packed."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from build_folders import working_wheel

import envkit
from envkit.errors import UsageError
from envkit.workflows.own_wheel import given_wheel, packed_wheel


def test_wheel_lists_each_file_with_its_hash(tmp_path: Path) -> None:
    with zipfile.ZipFile(working_wheel(tmp_path)) as archive:
        names = set(archive.namelist())
        record = next(name for name in names if name.endswith("/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert {row[0] for row in rows} == names
        for name, digest, size in rows:
            if name == record:
                assert (digest, size) == ("", "")
                continue
            content = archive.read(name)
            made = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            assert (digest, int(size)) == (f"sha256={made.decode()}", len(content))


def test_wheel_holds_the_package_with_its_folders_and_no_leftovers(tmp_path: Path) -> None:
    with zipfile.ZipFile(working_wheel(tmp_path)) as archive:
        names = archive.namelist()
    for name in (
        "envkit/__main__.py",
        "envkit/probes/child/main.py",
        "envkit/render/container/entry/ssh.sh",
        "envkit/_environments/vit.conda-lock.yml",
        "envkit/_environments/archive/vit/1.0.0/envkit.toml",
    ):
        assert name in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert len(names) == len(set(names))


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    assert working_wheel(tmp_path).read_bytes() == working_wheel(tmp_path / "again").read_bytes()


def test_pip_installs_it_and_the_command_runs(tmp_path: Path) -> None:
    wheel = given_wheel(working_wheel(tmp_path))
    venv.EnvBuilder(with_pip=False).create(tmp_path / "env")
    python = tmp_path / "env/bin/python"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"),
            *("--no-deps", "--no-index", str(tmp_path / wheel.name)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = "import envkit, sys; print(envkit.__version__, envkit.__file__)"
    asked = subprocess.run([python, "-I", "-c", said], capture_output=True, text=True, check=True)
    assert asked.stdout.split()[0] == envkit.__version__
    assert str(tmp_path) in asked.stdout
    assert (tmp_path / "env/bin/envkit").is_file()


def test_an_envkit_that_is_installed_is_packed_with_its_licence() -> None:
    try:
        importlib.metadata.distribution("envkit-torch")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("envkit is not installed here")
    wheel = packed_wheel()
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        assert "Requires-Dist: msgspec" in archive.read(metadata).decode()
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert not [name for name in names if "direct_url" in name or "INSTALLER" in name]


def test_an_envkit_that_is_not_installed_asks_for_a_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(UsageError) as caught:
        packed_wheel()
    assert "--envkit-wheel" in caught.value.next_step

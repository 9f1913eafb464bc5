"""Package files and mirrors that try to have `envkit create` write what was not locked."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from envkit.errors import EnvkitError, RefusedError
from envkit.model.conda_lock import CondaLock, LockChannel, LockedPackage, LockMetadata, PackageHash
from envkit.model.lock_writing import write_conda_lock
from envkit.specs import package_files, prefix_records
from envkit.specs.installer import Installation, install_packages
from envkit.workflows.create import CreateRequest, create

pytest.importorskip("rattler", reason="needs the extra: pip install -e '.[lock]'")
if sys.platform != "linux":
    pytest.skip("the packages of the test are for linux-64", allow_module_level=True)

CHANNEL = "https://conda.anaconda.org/conda-forge"
X_SHA256 = hashlib.sha256(b"x").hexdigest()
Members = list[tuple[str, bytes | str]]
"""Names with a content, or with what a symbolic link leads to."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


def _path(name: str, kind: str = "hardlink") -> dict[str, Any]:
    return {"_path": name, "path_type": kind, "sha256": X_SHA256, "size_in_bytes": 1}


def _archive(name: str, members: Members, paths: list[dict[str, Any]], **link: Any) -> bytes:
    index = {"name": name, "version": "1.0", "build": "h0_0", "build_number": 0, "depends": []}
    if link:
        index["noarch"] = "python"
    info: Members = [
        ("info/index.json", json.dumps({**index, "subdir": "linux-64"}).encode()),
        ("info/paths.json", json.dumps({"paths": paths, "paths_version": 1}).encode()),
        ("info/link.json", json.dumps({"package_metadata_version": 1, **link}).encode()),
    ]
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:bz2") as archive:
        for path, content in [*info[: 3 if link else 2], *members]:
            member = tarfile.TarInfo(path)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def _mirror(folder: Path, **archives: bytes) -> Path:
    """Write archives into a mirror, and the lock of them; returns the lock."""
    place = folder / "mirror" / "conda-forge" / "linux-64"
    place.mkdir(parents=True, exist_ok=True)
    packages = []
    for name, content in archives.items():
        (place / f"{name}-1.0-h0_0.tar.bz2").write_bytes(content)
        packages.append(
            LockedPackage(
                name=name,
                version="1.0",
                manager="conda",
                platform="linux-64",
                url=f"{CHANNEL}/linux-64/{name}-1.0-h0_0.tar.bz2",
                hash=PackageHash(sha256=hashlib.sha256(content).hexdigest()),
            )
        )
    metadata = LockMetadata(
        content_hash={},
        channels=(LockChannel(url="conda-forge"),),
        platforms=("linux-64",),
        sources=(),
    )
    lock = folder / "conda-lock.yml"
    made = CondaLock(metadata=metadata, package=tuple(packages))
    lock.write_bytes(write_conda_lock(made, header="x"))
    return lock


def _create(lock: Path) -> Path:
    prefix = lock.parent / "envs" / "made"
    mirror = lock.parent / "mirror"
    create(CreateRequest(spec=str(lock), prefix=prefix, mirror=mirror), lambda *_: None)
    return prefix


def _everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _refused(lock: Path, match: str) -> None:
    """The lock is refused, and afterwards nothing is there that was not there before."""
    (lock.parent / "envs").mkdir(exist_ok=True)
    before = _everything(lock.parent)
    with pytest.raises(RefusedError, match=match) as caught:
        _create(lock)
    assert caught.value.exit_code == 1
    assert _everything(lock.parent) == before


def test_a_plain_package_is_installed_and_no_copy_stays(tmp_path: Path) -> None:
    lock = _mirror(tmp_path, tool=_archive("tool", [("bin/x", b"x")], [_path("bin/x")]))
    prefix = _create(lock)
    assert (prefix / "bin" / "x").read_bytes() == b"x"
    assert [path.name for path in prefix.parent.iterdir()] == ["made"]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_file_changed_after_it_was_hashed_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = _mirror(tmp_path, tool=_archive("tool", [("bin/x", b"x")], [_path("bin/x")]))
    file = next((tmp_path / "mirror").rglob("*.tar.bz2"))
    evil = [{**_path("bin/x"), "sha256": hashlib.sha256(b"y").hexdigest()}]

    def changed_first(wanted: Installation, tell: Any) -> None:
        file.write_bytes(_archive("tool", [("bin/x", b"y")], evil))
        install_packages(wanted, tell)

    monkeypatch.setattr("envkit.workflows.create.install_packages", changed_first)
    assert (_create(lock) / "bin" / "x").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "a\\..\\out", "C:/out"])
def test_a_path_that_leaves_the_environment_is_refused(name: str, tmp_path: Path) -> None:
    listed = str(tmp_path / "out") if name == "/out" else name
    _refused(
        _mirror(tmp_path, tool=_archive("tool", [("f", b"x")], [_path(listed)])),
        "leaves the environment",
    )


def test_the_old_list_of_files_is_looked_at_too(tmp_path: Path) -> None:
    members: Members = [("f", b"x"), ("info/files", b"f\n../out\n")]
    lock = _mirror(tmp_path, tool=_archive("tool", members, [_path("f")]))
    _refused(lock, "'../out' leaves the environment")


@pytest.mark.parametrize("name", ["info/paths.json", "./info/paths.json", "info//./paths.json"])
def test_a_second_list_of_files_is_refused(name: str, tmp_path: Path) -> None:
    evil = json.dumps({"paths": [_path("../out")], "paths_version": 1}).encode()
    lock = _mirror(tmp_path, tool=_archive("tool", [("f", b"x"), (name, evil)], [_path("f")]))
    _refused(lock, "is in it twice")


def test_a_script_of_python_stays_in_its_folder(tmp_path: Path) -> None:
    noarch = {"type": "python", "entry_points": ["../../out = os:getcwd"]}
    archive = _archive("tool", [("f", b"x")], [_path("f")], noarch=noarch)
    _refused(_mirror(tmp_path, tool=archive), "leaves the environment")


@pytest.mark.parametrize("noarch", [7, {"entry_points": 5}, {"entry_points": [5]}])
def test_a_list_that_cannot_be_read_is_refused(noarch: Any, tmp_path: Path) -> None:
    archive = _archive("tool", [("f", b"x")], [_path("f")], noarch=noarch)
    _refused(_mirror(tmp_path, tool=archive), "its list of files cannot be read")


@pytest.mark.parametrize(
    "name",
    ["envkit-lock.yml", "envkit-installed", "state", "pinned", "history", "tool-1.0-h0_0.json"],
)
def test_what_is_conda_s_or_ours_is_no_package_s(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    path = f"conda-meta/{name}"
    archive = _archive("tool", [(path, str(victim))], [_path(path, "softlink")])
    _refused(_mirror(tmp_path, tool=archive), "is the environment's own")
    assert victim.read_text(encoding="utf-8") == "precious"


def test_conda_meta_is_no_link(tmp_path: Path) -> None:
    archive = _archive("tool", [("conda-meta", str(tmp_path))], [_path("conda-meta", "softlink")])
    _refused(_mirror(tmp_path, tool=archive), "is the environment's own")


@pytest.mark.parametrize("target", ["ABSOLUTE", "../../outside", "a/../../../outside"])
def test_a_file_behind_another_package_s_link_is_refused(target: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    to = str(tmp_path / "outside") if target == "ABSOLUTE" else target
    one = _archive("one", [("share/out", to)], [_path("share/out", "softlink")])
    two = _archive("two", [("share/out/f", b"x")], [_path("share/out/f")])
    _refused(_mirror(tmp_path, one=one, two=two), "behind links that lead out")


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_only_a_plain_file_is_a_package(kind: str, tmp_path: Path) -> None:
    lock = _mirror(tmp_path, tool=b"x")
    file = next((tmp_path / "mirror").rglob("*.tar.bz2"))
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    _refused(lock, "is not a plain file")


def test_a_file_without_end_is_not_read_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_files, "MAX_PACKAGE_BYTES", 100)
    _refused(_mirror(tmp_path, tool=b"x" * 101), "has more than")


def test_our_files_replace_a_link_and_do_not_follow_it(tmp_path: Path) -> None:
    meta = tmp_path / "env" / "conda-meta"
    meta.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (meta / "state").symlink_to(victim)
    prefix_records.write_state(tmp_path / "env", {"A": "b"})
    assert victim.read_text(encoding="utf-8") == "precious"
    assert json.loads((meta / "state").read_bytes())["env_vars"] == {"A": "b"}


def test_our_files_are_not_written_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "env" / "conda-meta").symlink_to(tmp_path / "outside")
    with pytest.raises(EnvkitError, match="conda-meta is not a folder"):
        prefix_records.write_state(tmp_path / "env", {"A": "b"})
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_interrupt_while_packages_are_linked_leaves_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = _mirror(tmp_path, tool=_archive("tool", [("bin/x", b"x")], [_path("bin/x")]))
    seen: list[Path] = []

    def interrupted(wanted: Installation, tell: Any) -> None:
        del tell
        seen.extend(Path(copy) for copy in wanted.copies.values())
        assert seen[0].is_file()
        assert str(seen[0]).startswith(wanted.scratch)
        assert wanted.cache.startswith(wanted.scratch)
        raise KeyboardInterrupt

    monkeypatch.setattr("envkit.workflows.create.install_packages", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _create(lock)
    assert not (tmp_path / "envs").exists()  # it made that folder too
    assert list((tmp_path / "temporary").iterdir()) == []

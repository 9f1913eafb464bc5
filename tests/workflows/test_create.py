"""Environments made for real from locks, with packages that the test writes."""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conda_channel import PLACEHOLDER, Package, write_channel

import envkit
from envkit.errors import CannotCheckError, InputError, RefusedError, UsageError
from envkit.model import codec
from envkit.model.conda_lock import CondaLock, LockChannel, LockedPackage, LockMetadata, PackageHash
from envkit.model.installed_lock import INSTALLED_FILE, LOCK_FILE, InstalledLock
from envkit.model.lock_reading import read_conda_lock
from envkit.model.lock_writing import write_conda_lock
from envkit.model.observed import Known
from envkit.sources.conda_prefix import read_conda
from envkit.workflows.create import CreateRequest, create
from envkit.workflows.lock import LockRequest, lock

pytest.importorskip("conda_lock", reason="needs the extra: pip install -e '.[lock]'")
pytest.importorskip("rattler", reason="needs the extra: pip install -e '.[lock]'")
if sys.platform != "linux":
    pytest.skip("the packages of the test are for linux-64", allow_module_level=True)

UPSTREAM = "https://conda.anaconda.org/conda-forge"
SPEC = """\
name: small
channels: [conda-forge]
dependencies:
  - tool=1
  - python=3.12
  - module
variables:
  ENVKIT_SPEC: small@1.0.0
"""
PYTHON = Package(
    "python", "3.12.1", "h0_0_cpython", files={"bin/python3.12": b"#!/bin/sh\n"}
)  # as much of a Python as a noarch package needs


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    write_channel(
        tmp_path / "mirror" / "conda-forge",
        Package("tool", "1.0", depends=("base >=2",)),
        Package("base", "2.5", ending=".tar.bz2"),
        PYTHON,
        Package("module", "3.0", "py_0", ("python",), "noarch", "python"),
    )
    return tmp_path / "mirror"


@pytest.fixture
def spec(tmp_path: Path, mirror: Path) -> Path:
    path = tmp_path / "small.yml"
    path.write_text(SPEC, encoding="utf-8")
    lock(LockRequest(specs=(str(path),), mirror=mirror), os.environ, _silent)
    return path


def _silent(done: int, total: int, name: str) -> None:
    del done, total, name


def _create(spec: Path, prefix: Path, mirror: Path | None) -> InstalledLock:
    return create(CreateRequest(spec=str(spec), prefix=prefix, mirror=mirror), _silent)


def _lock_of(spec: Path) -> Path:
    return spec.with_name("small.conda-lock.yml")


def _left(folder: Path) -> list[str]:
    """What is in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def test_the_locked_packages_are_installed_and_nothing_else(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "envs" / "small"
    _create(spec, prefix, mirror)
    facts = read_conda(prefix)
    locked = read_conda_lock(_lock_of(spec).read_bytes(), origin="lock").package
    assert isinstance(facts.packages, Known)
    assert facts.packages.source == "conda-meta"  # every record can be read
    assert {(p.name, p.version, p.build, p.url, p.sha256) for p in facts.packages.value} == {
        (p.name, p.version, p.build_string, p.url, p.hash.sha256) for p in locked
    }
    assert [p.name for p in facts.packages.value if p.requested] == ["module", "python", "tool"]
    assert _left(prefix.parent) == ["small"]


def test_every_file_is_as_its_record_says_with_the_prefix_inside(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "small"
    _create(spec, prefix, mirror)
    script = prefix / "bin" / "tool"
    assert script.read_text(encoding="utf-8") == f"#!/bin/sh\necho {prefix}/share\n"
    assert script.stat().st_mode & stat.S_IXUSR
    assert str(prefix).encode() in (prefix / "share" / "tool.bin").read_bytes()
    assert (prefix / "lib/python3.12/site-packages/module.py").is_file()
    for record in (prefix / "conda-meta").glob("*.json"):
        for path in json.loads(record.read_bytes())["paths_data"]["paths"]:
            content = (prefix / path["_path"]).read_bytes()
            digest = path.get("sha256_in_prefix") or path["sha256"]
            assert hashlib.sha256(content).hexdigest() == digest
            assert PLACEHOLDER.encode() not in content


def test_no_hidden_folder_is_named_in_the_environment(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "small"
    _create(spec, prefix, mirror)
    for path in prefix.rglob("*"):
        if path.is_file():
            assert b".small.envkit-" not in path.read_bytes(), path


def test_records_have_what_only_the_package_knows(spec: Path, mirror: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "small"
    _create(spec, prefix, mirror)
    record = json.loads((prefix / "conda-meta" / "tool-1.0-h0_0.json").read_bytes())
    assert record["license"] == "MIT"
    assert record["constrains"] == ["tool-extra >=2"]
    assert record["depends"] == ["base >=2"]
    assert record["requested_spec"] == "tool=1"
    assert (record["url"], record["channel"]) == (
        f"{UPSTREAM}/linux-64/tool-1.0-h0_0.conda",
        f"{UPSTREAM}/",
    )


def test_the_environment_says_which_lock_it_is(spec: Path, mirror: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "small"
    told = _create(spec, prefix, mirror)
    meta = prefix / "conda-meta"
    kept = codec.decode((meta / INSTALLED_FILE).read_bytes(), InstalledLock, origin="installed")
    assert kept == told
    assert (kept.spec, kept.platform, kept.packages) == ("small", "linux-64", 4)
    lock_bytes = _lock_of(spec).read_bytes()
    assert (meta / LOCK_FILE).read_bytes() == lock_bytes
    assert kept.lock_sha256 == hashlib.sha256(lock_bytes).hexdigest()
    state = json.loads((meta / "state").read_bytes())
    assert state["env_vars"] == {"ENVKIT_SPEC": "small@1.0.0"}


def test_a_lock_can_be_installed_without_its_spec(spec: Path, mirror: Path, tmp_path: Path) -> None:
    spec.unlink()
    assert _create(_lock_of(spec), tmp_path / "small", mirror).packages == 4


def test_an_empty_folder_is_taken_a_full_one_is_not(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "small"
    prefix.mkdir()
    _create(spec, prefix, mirror)
    with pytest.raises(UsageError, match="is there already"):
        _create(spec, prefix, mirror)
    with pytest.raises(UsageError, match="path without spaces"):
        _create(spec, tmp_path / "a b", mirror)


def test_a_post_link_script_is_named_and_not_run(tmp_path: Path) -> None:
    script = {"bin/.tool-post-link.sh": b"#!/bin/sh\ntouch $PREFIX/was-run\n"}
    mirror = tmp_path / "mirror"
    write_channel(mirror / "conda-forge", Package("tool", files=script))
    spec = tmp_path / "small.yml"
    spec.write_text("name: s\nchannels: [conda-forge]\ndependencies: [tool]\n", encoding="utf-8")
    lock(LockRequest(specs=(str(spec),), mirror=mirror), os.environ, _silent)
    told = _create(spec, tmp_path / "env", mirror)
    assert told.scripts_not_run == ("tool",)
    assert not (tmp_path / "env" / "was-run").exists()


def _with(spec: Path, **changes: Any) -> None:
    """Change the hash of the first package in the lock."""
    path = _lock_of(spec)
    old = read_conda_lock(path.read_bytes(), origin="lock")
    first, *rest = old.package
    new = msgspec.structs.replace(first, hash=msgspec.structs.replace(first.hash, **changes))
    path.write_bytes(
        write_conda_lock(msgspec.structs.replace(old, package=(new, *rest)), header="x")
    )


@pytest.mark.parametrize(
    "changes", [{"sha256": "0" * 64}, {"sha256": None, "md5": "0" * 32}], ids=["sha256", "md5"]
)
def test_a_wrong_hash_is_refused_and_nothing_is_left(
    spec: Path, mirror: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    _with(spec, **changes)
    (tmp_path / "envs").mkdir()
    with pytest.raises(RefusedError, match="not the file that was locked") as caught:
        _create(spec, tmp_path / "envs" / "small", mirror)
    assert caught.value.exit_code == 1
    assert _left(tmp_path / "envs") == []


def test_a_lock_that_is_not_that_of_the_spec_is_refused(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    spec.write_text(SPEC.replace("tool=1", "tool=2"), encoding="utf-8")
    with pytest.raises(RefusedError, match="the spec has changed"):
        _create(spec, tmp_path / "small", mirror)


def test_a_file_that_the_mirror_lacks_is_not_the_fault_of_the_lock(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    (mirror / "conda-forge/linux-64/base-2.5-h0_0.tar.bz2").unlink()
    with pytest.raises(CannotCheckError, match=r"base-2.5-h0_0.tar.bz2 cannot be read"):
        _create(spec, tmp_path / "small", mirror)


def test_a_missing_lock_is_named(spec: Path, mirror: Path, tmp_path: Path) -> None:
    _lock_of(spec).unlink()
    with pytest.raises(InputError, match="There is no lock") as caught:
        _create(spec, tmp_path / "small", mirror)
    assert f"envkit lock {spec}" in caught.value.next_step


def test_another_machine_s_lock_is_refused(spec: Path, tmp_path: Path) -> None:
    text = _lock_of(spec).read_text(encoding="utf-8").replace("linux-64", "osx-arm64")
    other = tmp_path / "mac.conda-lock.yml"
    other.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"no packages for this machine \(linux-"):
        _create(other, tmp_path / "small", None)


def test_an_archive_that_holds_another_package_is_refused(tmp_path: Path) -> None:
    channel = write_channel(tmp_path / "mirror" / "conda-forge", Package("evil"), Package("tool"))
    folder = channel / "linux-64"
    content = (folder / "evil-1.0-h0_0.conda").read_bytes()
    (folder / "tool-1.0-h0_0.conda").write_bytes(content)
    spec = tmp_path / "tool.conda-lock.yml"
    spec.write_bytes(_one_package(UPSTREAM, hashlib.sha256(content).hexdigest()))
    with pytest.raises(RefusedError, match=r"cannot be installed|would not be the locked one"):
        _create(spec, tmp_path / "small", tmp_path / "mirror")
    assert not (tmp_path / "small").exists()


def test_what_fails_leaves_no_folder_above_the_prefix_either(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    (tmp_path / "envs").mkdir()
    _with(spec, sha256="0" * 64)
    with pytest.raises(RefusedError):
        _create(spec, tmp_path / "envs" / "a" / "b" / "small", mirror)
    assert _left(tmp_path / "envs") == []
    too_long = tmp_path / "envs" / "a" / ("b" * 230) / "small"
    with pytest.raises(UsageError):
        _create(spec, too_long, mirror)
    assert _left(tmp_path / "envs") == []


def test_a_folder_that_others_use_meanwhile_stays(spec: Path, mirror: Path, tmp_path: Path) -> None:
    parent = tmp_path / "envs" / "a"

    def interrupted(*_: Any) -> None:
        (parent / "theirs").write_text("")
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("envkit.workflows.create.write_origin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _create(spec, parent / "b" / "small", mirror)
    assert _left(parent) == ["theirs"]


def test_an_interrupt_leaves_nothing(spec: Path, mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()

    def interrupted(folder: Path, origin: Any, *rest: Any) -> None:
        del folder, origin, rest
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("envkit.workflows.create.write_origin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _create(spec, tmp_path / "envs" / "small", mirror)
    assert _left(tmp_path / "envs") == []


def _one_package(channel: str, sha256: str) -> bytes:
    package = LockedPackage(
        name="tool",
        version="1.0",
        manager="conda",
        platform="linux-64",
        url=f"{channel}/linux-64/tool-1.0-h0_0.conda",
        hash=PackageHash(sha256=sha256),
    )
    metadata = LockMetadata(
        content_hash={}, channels=(LockChannel(url=channel),), platforms=("linux-64",), sources=()
    )
    return write_conda_lock(CondaLock(metadata=metadata, package=(package,)), header="x")


class _Server:
    """A channel on this machine's own network; `stall` holds every answer back."""

    def __init__(self, folder: Path) -> None:
        self.stall = threading.Event()
        self.asked = threading.Event()
        server = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(folder))

            def do_GET(self) -> None:
                server.asked.set()
                if server.stall.is_set():
                    time.sleep(30)
                super().do_GET()

            def log_message(self, *args: Any) -> None:
                del args

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.socket.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Server]:
    write_channel(tmp_path / "served" / "channel", Package("tool"))
    running = _Server(tmp_path / "served")
    yield running
    running.close()


def _served_lock(server: _Server, tmp_path: Path, sha256: str | None = None) -> Path:
    content = (tmp_path / "served/channel/linux-64/tool-1.0-h0_0.conda").read_bytes()
    path = tmp_path / "tool.conda-lock.yml"
    path.write_bytes(
        _one_package(f"{server.url}/channel", sha256 or hashlib.sha256(content).hexdigest())
    )
    return path


def test_a_package_is_downloaded(server: _Server, tmp_path: Path) -> None:
    told = _create(_served_lock(server, tmp_path), tmp_path / "small", None)
    assert (told.packages, told.spec) == (1, "")
    assert (tmp_path / "small" / "bin" / "tool").is_file()


def test_a_download_with_another_hash_is_refused(server: _Server, tmp_path: Path) -> None:
    # Also where the right file is in the cache already.
    _create(_served_lock(server, tmp_path), tmp_path / "first", None)
    with pytest.raises(RefusedError, match="not the file that was locked"):
        _create(_served_lock(server, tmp_path, "0" * 64), tmp_path / "small", None)
    assert not (tmp_path / "small").exists()


def test_a_changed_file_in_the_cache_is_not_installed(server: _Server, tmp_path: Path) -> None:
    path = _served_lock(server, tmp_path)
    _create(path, tmp_path / "first", None)
    (kept,) = (tmp_path / "cache" / "envkit" / "packages").iterdir()
    content = kept.read_bytes()
    kept.write_bytes(b"MALICE" + content)
    _create(path, tmp_path / "second", None)
    assert (tmp_path / "second" / "bin" / "tool").is_file()
    assert kept.read_bytes() == content


def test_what_was_downloaded_once_is_not_downloaded_again(server: _Server, tmp_path: Path) -> None:
    path = _served_lock(server, tmp_path)
    _create(path, tmp_path / "first", None)
    server.close()
    assert _create(path, tmp_path / "second", None).packages == 1


def test_a_download_that_would_write_what_is_not_its_own_is_refused(
    server: _Server, tmp_path: Path
) -> None:
    evil = Package("tool", files={"conda-meta/other.json": b"{}"})
    write_channel(tmp_path / "served" / "channel", evil)
    with pytest.raises(RefusedError, match="is the environment's own"):
        _create(_served_lock(server, tmp_path), tmp_path / "envs" / "small", None)
    assert not (tmp_path / "envs").exists()


def test_a_download_without_end_is_given_up(
    server: _Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envkit.specs import download  # noqa: PLC0415

    path = _served_lock(server, tmp_path)
    packages = read_conda_lock(path.read_bytes(), origin="lock").package
    monkeypatch.setattr(download, "MAX_PACKAGE_BYTES", 100)
    with pytest.raises(download.DownloadError, match="more than"):
        asyncio.run(download.download(packages, tmp_path / "x", tmp_path / "kept", lambda *_: None))
    assert not (tmp_path / "kept").exists()


def test_a_channel_in_a_folder_is_installed_from(server: _Server, tmp_path: Path) -> None:
    channel = (tmp_path / "served" / "channel").as_uri()
    content = (tmp_path / "served/channel/linux-64/tool-1.0-h0_0.conda").read_bytes()
    path = tmp_path / "tool.conda-lock.yml"
    path.write_bytes(_one_package(channel, hashlib.sha256(content).hexdigest()))
    assert _create(path, tmp_path / "small", None).packages == 1
    server.close()


def test_without_a_network_it_cannot_be_installed(server: _Server, tmp_path: Path) -> None:
    path = _served_lock(server, tmp_path)
    server.close()
    with pytest.raises(CannotCheckError, match="cannot be downloaded") as caught:
        _create(path, tmp_path / "small", None)
    assert caught.value.exit_code == 3
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_stopped_leaves_no_prefix(
    number: signal.Signals, server: _Server, tmp_path: Path
) -> None:
    server.stall.set()
    path = _served_lock(server, tmp_path)
    (tmp_path / "envs").mkdir()
    prefix = tmp_path / "envs" / "small"
    root = str(Path(envkit.__file__).parent.parent)
    with subprocess.Popen(
        [sys.executable, "-m", "envkit", "create", str(path), "-p", str(prefix)],
        env={**os.environ, "PYTHONPATH": root},
        stderr=subprocess.PIPE,
    ) as process:
        assert server.asked.wait(30)
        process.send_signal(number)
        process.communicate(timeout=30)
    assert not prefix.exists()
    if number is not signal.SIGKILL:
        assert process.returncode == 130
        assert _left(prefix.parent) == []
    assert all(name.startswith(".small.envkit-") for name in _left(prefix.parent))

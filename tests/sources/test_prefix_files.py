from __future__ import annotations

import base64
import contextlib
import hashlib
import mmap
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conda_prefix import SITE, edit, locked, record_of, write_package, write_prefix, write_wheel

from envkit.model.facts import CondaPackage
from envkit.model.observed import Known
from envkit.sources import file_turns
from envkit.sources.conda_prefix import read_conda
from envkit.sources.file_records import RecordedFile, files_of, recorded_files
from envkit.sources.file_turns import Checked, RunningCheck, check_files
from envkit.sources.overlaps import foreign_entries, overlaps_by_file, overlaps_by_name
from envkit.sources.pip_packages import read_pip
from envkit.sources.prefix_files import FileCheck
from envkit.sources.wheel_records import files_by_pip

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads hash")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_prefix(tmp_path / "env")


def check(prefix: Path, workers: int = 2) -> Checked:
    recorded = recorded_files(prefix)
    assert recorded.failures == ()
    return check_files(prefix, recorded.files, lambda *_: None, workers=workers)


def problems(prefix: Path) -> list[tuple[str, str]]:
    return [(one.file.path, one.problem) for one in check(prefix).found]


def recorded(path: str | None, **more: object) -> RecordedFile:
    standard = {"package": "p", "sha256": "0" * 64, "is_link": False, "links_allowed": False}
    return RecordedFile(path=path, **{**standard, **more})  # type: ignore[arg-type]


def packages(prefix: Path) -> tuple[CondaPackage, ...]:
    found = read_conda(prefix).packages
    assert isinstance(found, Known)
    return found.value


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_an_environment_as_installed_is_clean(prefix: Path, workers: int) -> None:
    checked = check(prefix, workers)
    assert (checked.count, checked.unhashed, checked.found, checked.unreadable) == (15, 0, (), ())
    assert checked.size_bytes == sum(
        one.stat().st_size for one in (prefix / "lib").rglob("*") if one.is_file()
    )


def test_altered_and_missing_files(prefix: Path) -> None:
    with (prefix / "lib/numpy/f1.bin").open("r+b") as file:
        file.write(b"XX")
    (prefix / "lib/tqdm/f0.bin").unlink()
    (prefix / "lib/cudnn/f0.bin").write_bytes(b"")
    assert problems(prefix) == [
        ("lib/cudnn/f0.bin", "altered"),
        ("lib/numpy/f1.bin", "altered"),
        ("lib/tqdm/f0.bin", "missing"),
    ]


def test_a_file_that_grew_is_altered(prefix: Path) -> None:
    with (prefix / "lib/numpy/f1.bin").open("ab") as file:
        file.write(b"\0" * (3 << 20))
    assert problems(prefix) == [("lib/numpy/f1.bin", "altered")]


def test_a_large_file_is_read_in_blocks(tmp_path: Path) -> None:
    content = os.urandom((5 << 20) + 17)
    write_package(tmp_path, locked("big", "1.0", "0"), {"lib/big.bin": content})
    assert check(tmp_path).size_bytes == len(content)
    (tmp_path / "lib/big.bin").write_bytes(content[:-1] + b"\0")
    assert problems(tmp_path) == [("lib/big.bin", "altered")]


@pytest.mark.parametrize("change", ["none", "other", "longer", "shorter"])
def test_a_file_so_large_that_it_is_mapped(tmp_path: Path, change: str) -> None:
    content = os.urandom((17 << 20) + 5)
    write_package(tmp_path, locked("big", "1.0", "0"), {"lib/big.bin": content})
    now = {
        "none": content,
        "other": content[:-1] + bytes([content[-1] ^ 1]),
        "longer": content + b"\0",
        "shorter": content[:-1],
    }[change]
    (tmp_path / "lib/big.bin").write_bytes(now)
    assert problems(tmp_path) == ([] if change == "none" else [("lib/big.bin", "altered")])


@LINUX
def test_a_large_file_that_is_cut_off_meanwhile_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"lib/big.bin": os.urandom(17 << 20), "lib/small.bin": b"1"}
    write_package(tmp_path, locked("big", "1.0", "0"), files)
    hash_mapped = FileCheck._hash_mapped

    def cut_off(self: FileCheck, descriptor: int, *others: Any) -> None:
        os.truncate(tmp_path / "lib/big.bin", 1 << 20)
        hash_mapped(self, descriptor, *others)

    def mapped(*_: Any, **__: Any) -> Any:
        """A mapping that was made before the file was cut off."""
        return kept

    with (tmp_path / "lib/big.bin").open("rb") as file:
        kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    monkeypatch.setattr(FileCheck, "_hash_mapped", cut_off)
    monkeypatch.setattr(mmap, "mmap", mapped)
    checked = check(tmp_path)
    assert checked.unreadable == ("1 files: the process that was to hash them was ended by SIGBUS",)
    assert (checked.count, checked.found) == (1, ())


def test_what_has_the_prefix_in_it_is_compared_with_the_hash_in_the_prefix(tmp_path: Path) -> None:
    written = b"#!/my/env/bin/python\n"
    record = write_package(tmp_path, locked("tool", "1.0", "0"), {"bin/tool": written})
    text = record.read_text(encoding="utf-8")
    digest = recorded_files(tmp_path).files[0].sha256
    other = text.replace(f'"sha256": "{digest}"', f'"sha256": "{"1" * 64}"')
    record.write_text(other, encoding="utf-8")
    assert problems(tmp_path) == []
    bare = other.replace(f', "sha256_in_prefix": "{digest}"', ', "prefix_placeholder": "/o"')
    record.write_text(bare, encoding="utf-8")
    assert check(tmp_path).unhashed == 1  # the hash in the package says nothing of this file


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/hosts", "lib/../../outside", "a\0b", "lib/", "link/inside"]
)
def test_nothing_outside_of_the_environment_is_opened(prefix: Path, path: str) -> None:
    outside = prefix.parent / "outside"
    outside.write_bytes(b"secret")
    (prefix.parent / "elsewhere").mkdir()
    (prefix.parent / "elsewhere" / "inside").write_bytes(b"secret")
    (prefix / "link").symlink_to(prefix.parent / "elsewhere")
    checked = check_files(prefix, [recorded(path)], lambda *_: None)
    assert [one.problem for one in checked.found] == ["leads_outside"]
    assert checked.size_bytes == 0


def test_a_link_in_the_place_of_a_file(prefix: Path) -> None:
    outside = prefix.parent / "outside"
    outside.write_bytes((prefix / "lib/numpy/f0.bin").read_bytes())
    (prefix / "lib/numpy/f0.bin").unlink()
    (prefix / "lib/numpy/f0.bin").symlink_to(outside)
    (prefix / "lib/numpy/f1.bin").unlink()
    (prefix / "lib/numpy/f1.bin").symlink_to(prefix / "lib/tqdm/f1.bin")
    assert problems(prefix) == [
        ("lib/numpy/f0.bin", "leads_outside"),
        ("lib/numpy/f1.bin", "not_a_file"),
    ]


def test_a_package_that_was_linked_softly_cannot_be_checked(prefix: Path) -> None:
    cache = prefix.parent / "cache"
    (prefix / "lib/numpy/f0.bin").rename(cache)
    (prefix / "lib/numpy/f0.bin").symlink_to(cache)
    edit(prefix, "numpy", link={"source": "", "type": 2})
    checked = check(prefix)
    assert checked.found == ()
    assert "package cache" in checked.unreadable[0]


def test_links_that_a_package_has_are_looked_at_and_not_read(prefix: Path) -> None:
    (prefix / "lib/good.so").symlink_to("numpy/f0.bin")
    (prefix / "lib/bad.so").symlink_to("/etc/hosts")
    (prefix / "lib/broken.so").symlink_to("nowhere")
    links = [recorded(f"lib/{one}.so", is_link=True) for one in ("good", "bad", "broken", "gone")]
    checked = check_files(prefix, links, lambda *_: None)
    assert [(one.file.path, one.problem) for one in checked.found] == [
        ("lib/bad.so", "leads_outside"),
        ("lib/broken.so", "missing"),
        ("lib/gone.so", "missing"),
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_and_a_folder_make_nobody_wait(prefix: Path) -> None:
    (prefix / "lib/numpy/f0.bin").unlink()
    os.mkfifo(prefix / "lib/numpy/f0.bin")
    (prefix / "lib/numpy/f1.bin").unlink()
    (prefix / "lib/numpy/f1.bin").mkdir()
    assert problems(prefix) == [
        ("lib/numpy/f0.bin", "not_a_file"),
        ("lib/numpy/f1.bin", "not_a_file"),
    ]


def test_byte_code_that_python_rewrote_is_no_fault(tmp_path: Path) -> None:
    path = f"{SITE}/m/__pycache__/m.cpython-312.pyc"
    write_package(tmp_path, locked("m", "1.0", "0"), {path: b"old", f"{SITE}/m/m.py": b""})
    (tmp_path / path).write_bytes(b"new")
    assert (problems(tmp_path), check(tmp_path).unhashed) == ([], 1)
    (tmp_path / path).unlink()
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"name": 1}', '{"name": "x", "paths_data": {"paths": [{}]}}']
)
def test_a_record_that_cannot_be_read_is_told(prefix: Path, content: str) -> None:
    record_of(prefix, "numpy").write_text(content, encoding="utf-8")
    found = recorded_files(prefix)
    assert len(found.failures) == 1
    assert found.failures[0].startswith("numpy-2.2.6-")
    assert len(found.files) == 12


def test_records_of_old_conda_name_files_without_hashes(prefix: Path) -> None:
    edit(prefix, "numpy", paths_data=None, files=["lib/numpy/f0.bin", "lib/numpy/gone"])
    assert problems(prefix) == [("lib/numpy/gone", "missing")]
    assert check(prefix).unhashed == 1


def test_progress_ends_with_the_last_file_and_comes_from_one_thread(prefix: Path) -> None:
    told: list[tuple[int, int]] = []
    threads = set()

    def tell(done: int, total: int, _: str) -> None:
        told.append((done, total))
        threads.add(threading.get_ident())

    check_files(prefix, recorded_files(prefix).files, tell, workers=3)
    assert told[-1] == (15, 15)
    assert threads == {threading.get_ident()}


def test_what_goes_wrong_in_a_thread_is_raised(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(AttributeError):
        check_files(prefix, _broken(), lambda *_: None)


def _broken() -> list[RecordedFile]:
    return [recorded(None)]


@LINUX
def test_a_process_that_fails_leaves_files_unchecked_and_says_so(prefix: Path) -> None:
    checked = check_files(prefix, _broken(), lambda *_: None)
    assert checked.unreadable == ("1 files: the process that was to hash them failed",)


@LINUX
def test_a_process_that_is_killed_leaves_files_unchecked_and_says_so(tmp_path: Path) -> None:
    os.truncate(_empty(tmp_path / "big.bin"), 40 << 30)  # a hole: hashing it takes half a minute
    big = recorded("big.bin", size_bytes=40 << 30)
    with contextlib.closing(RunningCheck(tmp_path, [big], workers=1)) as running:
        (worker,) = running._team._workers  # type: ignore[union-attr]
        os.kill(worker, signal.SIGKILL)
        checked = running.result(lambda *_: None)
    assert "ended by SIGKILL" in checked.unreadable[0]


@LINUX
def test_a_check_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    os.truncate(_empty(tmp_path / "big.bin"), 40 << 30)
    running = RunningCheck(tmp_path, [recorded("big.bin", size_bytes=40 << 30)], workers=2)
    (worker,) = running._team._workers  # type: ignore[union-attr]
    running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


@LINUX
def test_without_room_for_a_process_threads_do_it(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    checked = check(prefix)
    assert (checked.count, checked.found, checked.unreadable) == (15, (), ())


def test_a_thousand_files_and_a_thousand_large_ones_are_each_checked_once() -> None:
    files = [recorded(f"f{number}", size_bytes=(number % 2) << 24) for number in range(2000)]
    turns = list(file_turns._turns(files))
    assert sorted(index for turn in turns for index in turn) == list(range(2000))
    assert len(list(file_turns._turns(files * 50))) <= 1024


def _empty(path: Path) -> Path:
    path.touch()
    return path


# -- what pip recorded --------------------------------------------------------------------------


def _record(folder: Path, *lines: str) -> None:
    (folder / "RECORD").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _entry(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}"


def _by_pip(prefix: Path) -> list[tuple[str, str, str]]:
    found = files_by_pip(prefix, ())
    assert found.failures == ()
    checked = check_files(prefix, found.files, lambda *_: None)
    return [(one.file.package, one.file.path, one.problem) for one in checked.found]


def test_files_of_pip_are_compared_with_its_record(prefix: Path) -> None:
    folder = write_wheel(prefix, "einops", "0.8.1")
    (prefix / SITE / "einops").mkdir()
    for name in ("good.py", "bad.py", "with, comma.py"):
        (prefix / SITE / "einops" / name).write_bytes(b"x = 1\n")
    _record(
        folder,
        _entry("einops/good.py", b"x = 1\n"),
        _entry("einops/bad.py", b"x = 2\n"),
        _entry('"einops/with, comma.py"', b"x = 1\n"),
        _entry("einops/gone.py", b""),
        "einops/__pycache__/good.cpython-312.pyc,,",
        f"{folder.name}/RECORD,,",
    )
    assert _by_pip(prefix) == [
        ("einops", f"{SITE}/einops/bad.py", "altered"),
        ("einops", f"{SITE}/einops/gone.py", "missing"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "../../../../outside,sha256=AAAA,1",
        "/etc/hosts,,",
        "numpy/__init__.py,sha256=" + "A" * 5000 + ",9",
        "numpy/__init__.py,sha256=\u00e4,x",
        "numpy/__init__.py,sha512=AAAA," + "9" * 400,
        "numpy/__init__.py",
        ",,,,",
    ],
)
def test_a_hostile_record_of_pip_opens_nothing_outside(prefix: Path, line: str) -> None:
    (prefix.parent / "outside").write_bytes(b"secret")
    _record(write_wheel(prefix, "evil", "1"), line)
    assert _by_pip(prefix) == []


def test_a_record_of_pip_that_is_no_table_is_told(prefix: Path) -> None:
    _record(write_wheel(prefix, "evil", "1"), '"' + "x" * 200_000 + '",,')
    assert files_by_pip(prefix, ()).failures[0].startswith("RECORD of evil: it is not CSV")


def test_what_conda_brought_is_not_compared_with_its_record_too(prefix: Path) -> None:
    folder = write_wheel(prefix, "numpy", "2.2.6", installer="conda")
    _record(folder, _entry("numpy/__init__.py", b"of another build"))
    metadata = (folder / "METADATA").relative_to(prefix).as_posix()
    assert files_by_pip(prefix, {metadata}).files == ()


# -- pip over conda, and files of nobody --------------------------------------------------------


def test_a_wheel_over_a_package_by_its_name(prefix: Path) -> None:
    write_wheel(prefix, "torch", "2.11.0+cu130")
    write_wheel(prefix, "einops", "0.8.1")
    pip = read_pip(prefix, {}).distributions
    assert isinstance(pip, Known)
    found = overlaps_by_name(prefix, packages(prefix), pip.value)
    assert [(one.name, one.package, one.package_version) for one in found] == [
        ("torch", "pytorch", "2.7.1")
    ]


def test_a_package_of_conda_that_says_pip_is_none(prefix: Path) -> None:
    folder = write_wheel(prefix, "numpy", "2.2.6")
    metadata = (folder / "METADATA").relative_to(prefix).as_posix()
    edit(prefix, "numpy", files=[metadata])
    pip = read_pip(prefix, {}).distributions
    assert isinstance(pip, Known)
    assert metadata in files_of(record_of(prefix, "numpy"))
    assert overlaps_by_name(prefix, packages(prefix), pip.value) == ()


def test_a_wheel_that_lists_files_of_a_package(prefix: Path) -> None:
    write_wheel(prefix, "my-tools", "1.0", files=("numpy/__init__.py", "../../numpy/f0.bin"))
    owners = {one.path: one.package for one in recorded_files(prefix).files}
    found = overlaps_by_file(prefix, packages(prefix), owners)
    assert [(one.name, one.package, one.files) for one in found] == [("my-tools", "numpy", 2)]


def test_files_of_nobody(prefix: Path) -> None:
    write_wheel(prefix, "mine", "1.0", files=("mine/__init__.py",))
    (prefix / SITE / "mine").mkdir()
    (prefix / SITE / "mine/__init__.py").touch()
    (prefix / SITE / "mine/__pycache__").mkdir()
    (prefix / SITE / "mine/__pycache__/x.pyc").touch()
    (prefix / SITE / "numpy/patched.py").touch()
    (prefix / SITE / "evil.pth").touch()
    (prefix / SITE / "copied/deep").mkdir(parents=True)
    (prefix / SITE / "copied/deep/a.py").touch()
    owned = [one.path for one in recorded_files(prefix).files]
    assert sorted(foreign_entries(prefix, owned)) == [
        f"{SITE}/copied/",
        f"{SITE}/evil.pth",
        f"{SITE}/numpy/patched.py",
    ]

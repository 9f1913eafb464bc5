from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envkit
from envkit.errors import UsageError
from envkit.model import codec
from envkit.model.facts import Facts, HostFacts
from envkit.model.observed import Known
from envkit.model.report import Report
from envkit.workflows import save
from envkit.workflows.save import choose_destination, file_stem, save_report, write_atomically

EXAMPLE = Path(envkit.__file__).parent / "schemas" / "examples" / "report-1.json"


@pytest.fixture
def report() -> Report:
    return codec.decode(EXAMPLE.read_bytes(), Report, origin="example")


def test_a_file_is_itself_and_a_folder_gets_one_file_a_label(tmp_path: Path) -> None:
    assert choose_destination(str(tmp_path / "a.json"), None).path == tmp_path / "a.json"
    assert choose_destination(str(tmp_path), "lab 1").path == tmp_path / "lab-1.json"
    made = choose_destination(f"{tmp_path}/new/team/", "x")
    assert made.path.parent.is_dir()
    assert choose_destination(str(tmp_path), None).path == tmp_path / "machine.json"


@pytest.mark.parametrize(
    ("label", "stem"),
    [
        ("lab-1", "lab-1"),
        ("../../etc/passwd", "etc-passwd"),
        ("a b/c\\d:e", "a-b-c-d-e"),
        ("...", "machine"),
        ("CON", "CON-"),
        ("nul.x", "nul.x-"),
        ("é", "machine"),
        (".hidden", "hidden"),
    ],
)
def test_labels_become_safe_file_names(label: str, stem: str) -> None:
    assert file_stem(label) == stem


@given(st.text())
def test_no_label_leaves_the_folder(label: str) -> None:
    stem = file_stem(label)
    assert Path(stem).name == stem
    assert 0 < len(stem) <= 101


@pytest.mark.parametrize("place", ["missing/a.json", "file/a.json", "file/sub/", "-"])
def test_an_impossible_place_is_refused_before_the_work(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError) as raised:
        choose_destination(place if place == "-" else f"{tmp_path}/{place}", None)
    assert raised.value.exit_code == 2
    assert raised.value.next_step


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc on this system")
def test_a_folder_that_takes_no_files_is_found_out_before_the_work() -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        choose_destination("/proc/report.json", None)


def test_trying_leaves_nothing_behind(tmp_path: Path) -> None:
    choose_destination(str(tmp_path / "a.json"), None)
    assert list(tmp_path.iterdir()) == []


def test_the_mode_is_the_umask_and_an_old_file_keeps_its_own(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", b"1")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    write_atomically(tmp_path / "new", b"2")
    assert (tmp_path / "new").read_bytes() == b"2"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"through")
    reader.join(timeout=10)
    assert seen == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_atomically(tmp_path / "report", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("report", b"old")]


def test_a_machine_without_a_label_overwrites_only_itself(tmp_path: Path, report: Report) -> None:
    place = choose_destination(str(tmp_path), None)
    save_report(report, "1", place)
    with pytest.raises(UsageError, match="not this machine's"):
        save_report(report, "2", place)  # "1" is no report of anybody
    save_report(report, codec.encode(report).decode(), choose_destination(str(place.path), None))
    save_report(report, codec.encode(report).decode(), place)
    other = HostFacts(cpu_model=Known(value="another", source="x"))
    stranger = msgspec.structs.replace(report, facts=Facts(host=other))
    with pytest.raises(UsageError) as raised:
        save_report(stranger, "3", place)
    assert "--label" in raised.value.next_step
    save_report(stranger, "3", choose_destination(str(tmp_path), "machine"))
    assert place.path.read_text() == "3"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "is neither"),
        ("a" * 300, "(?i)name too long"),
        ("a\0b", "null"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said) as caught:
        choose_destination(name, "lab")
    assert len(caught.value.message) < 300


def test_a_pipe_that_nobody_reads_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "READER_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="a pipe that nobody reads"):
        write_atomically(tmp_path / "pipe", b"x")

"""Reading files that are missing, huge, not files at all, or that never end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envkit.model.observed import Absent, Unreadable
from envkit.sources.files import (
    NotRead,
    as_state,
    is_file,
    is_folder,
    list_folder,
    read_bytes,
    read_head,
    read_text,
)


def reason(result: object) -> str:
    assert isinstance(result, NotRead), result
    return result.reason


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    content = os.urandom(200_000)
    (tmp_path / "x").write_bytes(content)
    assert read_bytes(tmp_path / "x") == content
    assert read_head(tmp_path / "x", 70_000) == content[:70_000]


def test_files_that_say_they_are_empty_are_read() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system has no /proc")
    text = read_text(Path("/proc/self/status"))
    assert isinstance(text, str)
    assert text.startswith("Name:")


def test_the_limit_is_exact(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a" * 100)
    assert read_bytes(tmp_path / "x", limit_bytes=100) == b"a" * 100
    assert "larger than 99 bytes" in reason(read_bytes(tmp_path / "x", limit_bytes=99))


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    missing = read_bytes(tmp_path / "nothing")
    assert isinstance(missing, NotRead)
    assert missing.kind == "missing"
    assert "not a regular file" in reason(read_bytes(tmp_path))
    assert "\0" not in reason(read_bytes(tmp_path / "a\0b"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in reason(read_bytes(tmp_path / "pipe"))


def test_a_loop_of_links_is_an_unreadable_file_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    failed = read_bytes(tmp_path / "a")
    assert isinstance(failed, NotRead)
    assert failed.kind == "failed"
    assert not is_folder(tmp_path / "a")
    assert not is_file(tmp_path / "a")
    assert isinstance(list_folder(tmp_path / "a"), NotRead)


def test_a_folder_is_listed_in_order_and_a_file_is_none(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).touch()
    assert list_folder(tmp_path) == ("a", "b", "c")
    listed = list_folder(tmp_path / "a")
    assert isinstance(listed, NotRead)


def test_reasons_hold_no_control_characters(tmp_path: Path) -> None:
    assert "\x1b" not in reason(read_bytes(tmp_path / "\x1b[31mred"))


def test_missing_is_absent_and_failed_is_unreadable() -> None:
    missing = as_state(NotRead(kind="missing", reason="not there"), source="f")
    failed = as_state(NotRead(kind="failed", reason="broken"), source="f")
    assert missing == Absent(source="f", reason="not there")
    assert failed == Unreadable(source="f", reason="broken")

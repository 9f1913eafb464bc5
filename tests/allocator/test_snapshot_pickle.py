"""A pickled snapshot is read, and nothing that is in it is carried out."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_process import busy

from envkit.allocator.snapshot_pickle import (
    MAX_MEMO,
    MAX_TUPLES,
    check_instructions,
    read_pickle,
)
from envkit.errors import InputError


class Evil:
    """Writes a file when it is read by an unpickler that allows it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_snapshot_is_read(protocol: int) -> None:
    snapshot = busy(1).snapshot()
    content = pickle.dumps(snapshot, protocol)
    assert read_pickle(content, origin="x") == snapshot


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_classes_are_refused_before_anything_is_carried_out(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "touched"
    content = pickle.dumps({"segments": [Evil(target)]}, protocol)
    with pytest.raises(InputError, match="is in no snapshot"):
        read_pickle(content, origin="x")
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\x80\x04",
        b"\x80\x04]",
        b"\x80\x02]r" + (MAX_MEMO + 1).to_bytes(4, "little") + b".",
        b"\x80\x04X\xff\xff\xff\x7f.",
        b"\x80\x04\x8d" + b"\xff" * 8 + b".",
        b"\x80\x04\x8a\xff" + b"\x01" * 255 + b".",
        b"\x80\x04cos\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x04h\x05.",
        b"\x80\x04t.",
        b"\x80\x04}]s.",
        b"\x80\x04Ppersistent\n.",
        b"\x80\x04\x8c\x02\xff\xfe.",
    ],
)
def test_damaged_and_hostile_content_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="x is not a memory snapshot"):
        read_pickle(content, origin="x")


def test_the_unpickler_refuses_classes_even_if_the_check_missed_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "envkit.allocator.snapshot_pickle.check_instructions", lambda *_, **__: None
    )
    with pytest.raises(InputError, match="it asks for pathlib"):
        read_pickle(pickle.dumps(Evil(tmp_path / "touched")), origin="x")


CONTENT = pickle.dumps(busy(2, steps=30).snapshot(), 4)


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(CONTENT) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(at: int, byte: int) -> None:
    content = CONTENT[:at] + bytes([byte]) + CONTENT[at + 1 :]
    with contextlib.suppress(InputError):
        read_pickle(content, origin="x")


@given(st.binary(max_size=300))
def test_the_check_ends_on_anything(content: bytes) -> None:
    with contextlib.suppress(InputError):
        check_instructions(content, origin="x")


@pytest.mark.parametrize("pool", [(0, 0), (0, 300), (300, 0), (70_000, 0), (0, 70_000)])
def test_any_number_of_pools_is_read(pool: tuple[int, int]) -> None:
    entries = [list(pool) for _ in range(2 * MAX_TUPLES)]
    pools = [(first, second) for first, second in entries]
    assert read_pickle(pickle.dumps(pools, 4), origin="x") == pools


@pytest.mark.parametrize("step", [b"\x85", b"K\x00\x86", b"K\x00K\x00\x87", b"\x85\x94"])
def test_tuples_in_tuples_without_end_are_refused(step: bytes) -> None:
    """As a key of a dictionary such a tuple ended Python itself."""
    content = b"\x80\x04}K\x00" + step * 1_000_000 + b"K\x00s."
    with pytest.raises(InputError, match="tuples"):
        read_pickle(content, origin="x")

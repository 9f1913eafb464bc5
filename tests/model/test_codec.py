"""Reading hostile JSON, and digests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.errors import InputError
from envkit.model.codec import MAX_DEPTH, decode, digest, encode, read_json
from envkit.model.documents import ErrorDocument, Machine

SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()
JSON = st.recursive(SCALARS, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=20)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 123456789012345678901234567890}', "too large"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 100_000, "nested deeper"),
        (b'["' + b'\\"' * 200_000, "Unterminated"),
        (b"\xff\xfe", "decode"),
        (b"[" + b"[]," * 10_000_000 + b"1]", "more than 500000 values"),
        (b"{" + b'"a":{},' * 5_000_000 + b"}", "more than 500000 values"),
        (b"[" + b"1," * 20_000_000 + b"1]", "more than 500000 values"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b'{"a\\uDFff": 1}', "half a character"),
    ],
)
def test_hostile_json_is_an_error_with_its_reason(content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_json(content, origin="x.json")


def test_two_halves_of_a_character_are_one() -> None:
    for text in ("\U0001f600", "\\ud800", "\u20ac"):
        assert read_json(json.dumps([text]).encode(), origin="x") == [text]


def test_brackets_in_strings_are_not_nesting() -> None:
    assert read_json(json.dumps(["[" * 1000]).encode(), origin="x") == ["[" * 1000]


def test_deepest_allowed_nesting() -> None:
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, origin="x")
    with pytest.raises(InputError, match="nested deeper"):
        read_json(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), origin="x")


def test_a_wrong_value_is_named_by_its_path() -> None:
    content = b'{"schema":"envkit.machine/1","gpus":[{"name":"x","memory_bytes":"many"}]}'
    with pytest.raises(InputError, match=r"\$\.gpus\[0\]\.memory_bytes"):
        decode(content, Machine, origin="m.json")


def test_encode_ends_with_one_newline_and_keeps_the_order() -> None:
    error = ErrorDocument(code="A", message="b", next_step="c", exit_code=2)
    text = encode(error).decode()
    assert text.endswith("}\n")
    assert list(json.loads(text)) == ["schema", "code", "message", "next_step", "exit_code"]


@given(JSON)
def test_digest_ignores_key_order(value: Any) -> None:
    shuffled = json.loads(json.dumps(value), object_pairs_hook=lambda p: dict(reversed(p)))
    assert digest(shuffled) == digest(value)


@given(JSON, JSON)
def test_digests_differ_when_values_do(one: Any, other: Any) -> None:
    if json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True):
        assert digest(one) != digest(other)


@given(JSON)
def test_read_json_reads_what_json_writes(value: Any) -> None:
    assert read_json(json.dumps(value).encode(), origin="x") == value

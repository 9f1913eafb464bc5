"""Challenges: what they say of themselves, and what they seed."""

from __future__ import annotations

import time

import pytest

from envkit.errors import UsageError
from envkit.probes.child.challenge import SEED, seed_from
from envkit.workflows import nonce
from envkit.workflows.nonce import made_s, make_nonce, parse_duration
from envkit.workflows.request import read_challenge


def test_a_nonce_says_when_it_was_made_and_is_a_challenge() -> None:
    before = int(time.time())
    text = make_nonce()
    made = made_s(text)
    assert made is not None
    assert before <= made <= time.time()
    assert read_challenge(text.upper()) == text


def test_two_nonces_differ_and_seed_otherwise() -> None:
    one, other = make_nonce(), make_nonce()
    assert one != other
    assert len({seed_from(one), seed_from(other), seed_from(None)}) == 3
    assert seed_from(None) == SEED


@pytest.mark.parametrize("text", ["", "ab" * 21, "02" + "0" * 40, "01" + "0" * 38])
def test_other_numbers_do_not_say_when(text: str) -> None:
    assert made_s(text) is None


def test_a_trace_that_leaves_a_choice_to_addresses_is_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the first 60 numbers 2 lead to such a trace, by the model."""
    choosing = [n for n in range(60) if nonce.depends_on_addresses(f"{n:08x}")]
    assert 1 <= len(choosing) <= 4
    drawn = iter([True, True, False])
    monkeypatch.setattr(nonce, "depends_on_addresses", lambda _: next(drawn))
    make_nonce()
    assert list(drawn) == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("24h", 86400), ("7d", 604800)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "24", "-1h", "1w", "1.5h", "9999999999s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(UsageError, match="no duration"):
        parse_duration(text)

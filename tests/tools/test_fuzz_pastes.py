"""A small run of the fuzzer over our own pastes, and proof that it would see what it looks for."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import fuzz_pastes
from fuzz_pastes import KINDS, LAYOUT, compare, judged, read_texts, run

PASTES = Path(__file__).parents[1] / "data" / "pastes"
TEXTS = read_texts([PASTES])
BY_NAME = dict(TEXTS)


def test_damaged_pastes_do_not_crash_hang_or_gain_a_pass() -> None:
    seen = run(TEXTS, 4000, 7, limit_s=20)
    assert not [what for what in seen if what.startswith("VIOLATION")]
    assert sum(seen.values()) == 4000
    assert seen["layout: nothing gained"] > 800
    assert seen["value: judged"] > 800


@pytest.mark.parametrize("how", LAYOUT)
@pytest.mark.parametrize("name", BY_NAME)
def test_a_changed_layout_changes_no_exit_code(name: str, how: str) -> None:
    whole = judged(BY_NAME[name])
    pick = random.Random(3)  # noqa: S311  (repeatable, not secret)
    left = judged(LAYOUT[how](BY_NAME[name], pick))
    assert whole is not None
    assert left is not None
    assert left.status == whole.status


def test_every_mutation_changes_some_paste() -> None:
    pick = random.Random(1)  # noqa: S311  (repeatable, not secret)
    for mutations in KINDS.values():
        for how, mutate in mutations.items():
            assert any(mutate(text, pick) != text for _, text in TEXTS), how


def test_a_gained_pass_and_another_value_are_seen() -> None:
    whole = judged(BY_NAME["old-driver"])
    newer = judged(BY_NAME["old-driver"].replace("470.129.06", "570.124.06"))
    assert whole is not None
    assert newer is not None
    assert compare(whole, newer, "layout").startswith("VIOLATION another value: driver.version")
    assert "cut short" in compare(whole, newer, "loss")
    blind = newer._replace(facts=whole.facts)
    assert compare(whole, blind, "loss") == "VIOLATION a pass gained: DRV002"


def test_a_crash_and_a_hang_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, **_: Any) -> Any:
        if text not in BY_NAME.values():
            raise RuntimeError(text[:1])

    monkeypatch.setattr(fuzz_pastes, "judged", broken)
    assert all("crash" in what for what in run(TEXTS[:1], 5, 1, limit_s=20))

    def endless(text: str, **_: Any) -> Any:
        while text not in BY_NAME.values():
            pass

    monkeypatch.setattr(fuzz_pastes, "judged", endless)
    assert all("hang" in what for what in run(TEXTS[:1], 2, 1, limit_s=0.05))

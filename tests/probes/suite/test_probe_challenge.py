"""A challenge: what it adds to a suite, and that nothing it decides can be known before."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Child = Callable[[str], ModuleType]


def plan(child: Child, device: str, challenge: str | None) -> Any:
    request = {"suite": "quick", "device": device, "challenge": challenge}
    return child("suite").plan(request)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_challenge_adds_one_probe_and_takes_none_away(child: Child, device: str) -> None:
    without = [one.name for one in plan(child, device, None).probes]
    challenged = [one.name for one in plan(child, device, "ab" * 8).probes]
    assert challenged == [*without, "numerics.challenge"]


def test_only_where_it_was_measured_to_repeat_may_it_accuse(child: Child) -> None:
    steady = {
        device: plan(child, device, "ab" * 8).probes[-1].must_repeat for device in ("cpu", "cuda:0")
    }
    assert steady == {"cpu": True, "cuda:0": False}


def test_shapes_follow_from_the_seed_alone_and_differ(child: Child) -> None:
    shapes = child("challenge").shapes
    assert shapes(7) == shapes(7)
    drawn = [shapes(seed) for seed in range(50)]
    assert len({(batch, *widths) for batch, widths in drawn}) == 50
    assert {len(widths) for _, widths in drawn} == {3, 4, 5}
    assert all(16 <= batch <= 64 for batch, _ in drawn)
    assert all(64 <= width <= 512 and width % 8 == 0 for _, widths in drawn for width in widths)


def test_the_probe_repeats_and_another_seed_gives_another_answer(child: Child, torch: Any) -> None:
    place = child("place").Place(torch, child("torch_api"), "cpu")
    found: list[Any] = []
    for seed in (1, 1, 2):
        child("numerics.probes").measure(
            place, "challenge", seed, lambda **answer: found.append(answer["runs"])
        )
    assert found[0][0] == found[0][1] == found[1][0]
    assert found[0][0] != found[2][0]
    _, widths = child("challenge").shapes(1)
    assert len(found[0][0]) == len(widths)  # a gradient for each pair, and the output

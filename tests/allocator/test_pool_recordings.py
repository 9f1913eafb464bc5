"""Private pools on a GPU: programs recorded by tools/gpu_pools.py, replayed in the model."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.allocator import CachingAllocator, OutOfMemory
from envkit.allocator.blocks import DEFAULT_POOL
from envkit.allocator.sizes import MIB

RECORDED = Path(__file__).parents[1] / "data/allocator/pools.json.xz"
DEFAULT = [0, 0]
OPTIONS: dict[str, dict[str, bool]] = {
    "": {},
    "oom": {"use_on_oom": True},
    "nosplit": {"no_split": True},
}


class Player:
    """Does in the model what a recorded step did in torch."""

    def __init__(self, total: int, version: tuple[int, int]) -> None:
        self.total = total
        self.allocator = CachingAllocator(total_memory=total, version=version)
        self.ids: dict[str, tuple[int, int]] = {}

    def step(self, step: dict[str, Any]) -> None:
        """Carry out an operation and what torch allocated and freed in it.

        Torch puts tensors of its own beside a capture, for random numbers: those outside of the
        capture's pool are made before it begins.
        """
        verb, *words = step["op"].split()
        if "id" in step:
            self.ids[words[0]] = (step["id"][0], step["id"][1])
        before = [row for row in step["events"] if verb == "capture" and row[4] in (DEFAULT, None)]
        self._requests(before)
        self._act(verb, words, step)
        self._requests([row for row in step["events"] if row not in before])

    def _act(self, verb: str, words: list[str], step: dict[str, Any]) -> None:
        allocator = self.allocator
        pool = self.ids.get(words[0], DEFAULT_POOL) if words else DEFAULT_POOL
        if verb == "alloc" and step.get("oom"):
            with pytest.raises(OutOfMemory):
                allocator.malloc(int(words[1]) * MIB)
        elif verb == "limit":
            allocator.set_memory_fraction(int(words[0]) * MIB / self.total or 1.0)
        elif verb == "capture":
            allocator.begin_pool(pool, [step["stream"]])
        for act in {
            "empty": [allocator.empty_cache],
            "peaks": [allocator.reset_peak],
            "pool": [lambda: allocator.create_pool(pool, **OPTIONS["".join(words[1:])])],
            "enter": [lambda: allocator.begin_pool(pool)],
            "exit": [lambda: allocator.end_pool(pool), lambda: allocator.release_pool(pool)],
            "drop": [lambda: allocator.drop_pool(pool)],
            "endcapture": [lambda: allocator.end_pool(pool)],
            "reset": [lambda: allocator.release_pool(pool)],
        }.get(verb, []):
            act()

    def _requests(self, events: list[list[Any]]) -> None:
        hint = None
        for action, address, size, stream, _ in events:
            if action == "segment_alloc":
                hint = address
            elif action == "alloc":
                assert self.allocator.malloc(size, stream, hint) == address
                hint = None
            elif action == "free_requested":
                self.allocator.free(address)


def recorded() -> Iterator[Any]:
    document = json.loads(lzma.decompress(RECORDED.read_bytes()))
    for name, found in document["programs"].items():
        yield pytest.param(document, found, id=name)


@pytest.mark.parametrize(("document", "program"), list(recorded()))
def test_the_model_does_what_torch_did(document: Any, program: Any) -> None:
    assert "failed" not in program
    version = tuple(int(part) for part in document["torch"].split(".")[:2])
    player = Player(document["total_memory"], (version[0], version[1]))
    assert not program["start"], "the allocator was not empty"
    for number, step in enumerate(program["steps"]):
        player.step(step)
        mine = player.allocator.memory_stats()
        unlike = {
            key: (value, mine[key]) for key, value in step["stats"].items() if mine[key] != value
        }
        assert not unlike, f"step {number} {step['op']}: (torch, model)"

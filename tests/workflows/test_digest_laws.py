"""Digests: what never moves one, and that every changed byte count does."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import child_run, known, readers

from envkit.model import codec
from envkit.model.facts import Gpu, GpuFacts, HostFacts
from envkit.model.fingerprint import Fingerprint
from envkit.model.report import Report
from envkit.probes.events import Probe, SuiteStart
from envkit.specs.folders import baselines
from envkit.workflows.fingerprint import build_fingerprint
from envkit.workflows.request import VerifyRequest
from envkit.workflows.verify import verify

#: One probe a layer with real values, small ones so that a hundred fingerprints take seconds.
CHOSEN = {
    "allocator": "exercises.five_tensors",
    "tensors": "vit.bf16.tensors",
    "workspaces": "vit.bf16.workspaces",
    "numerics": "numerics.random.cpu",
}
SUITE = SuiteStart(name="quick", version=1, seed=1, probes=tuple(CHOSEN.values()))
TEXT = st.text(max_size=20)
SOME = settings(max_examples=30)


def _baseline() -> Report:
    path = baselines() / "h200-torch2.11.0.json"
    return codec.decode(path.read_bytes(), Report, origin=path.name)


BASELINE = _baseline()


def _probe(layer: Any, name: str) -> Probe:
    assert BASELINE.fingerprint is not None
    result = getattr(BASELINE.fingerprint.layers, layer)[name]
    return Probe(name=name, layer=layer, status="exact", values=result.values)


PROBES = tuple(_probe(layer, name) for layer, name in CHOSEN.items())


def _key() -> dict[str, Any]:
    assert BASELINE.fingerprint is not None
    key = msgspec.to_builtins(BASELINE.fingerprint.key)
    return {**key, "device": "cuda:0"}


KEY = _key()


def built(
    probes: tuple[Probe, ...] = PROBES, processor: str | None = None, **fields: Any
) -> Fingerprint:
    run = child_run(**{"suite": SUITE, "key": KEY, "probes": probes, **fields})
    found = build_fingerprint(run, challenge=None, processor=processor)
    assert found is not None
    return found


BUILT = built()


def shuffled(value: Any, order: random.Random) -> Any:
    """Return the same JSON value with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = order.sample(list(value), len(value))
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(one, order) for one in value] if isinstance(value, list) else value


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every whole number."""
    items: Any = value.items() if isinstance(value, dict) else None
    items = enumerate(value) if isinstance(value, list) else items
    if items is not None:
        for key, child in items:
            yield from numbers(child, (*path, key))
    elif type(value) is int:
        yield path


COUNTS = [(at, path) for at, one in enumerate(PROBES) for path in numbers(one.values)]


def digests(found: Fingerprint) -> tuple[Any, ...]:
    return found.digests, found.short


def test_the_digests_are_those_that_the_baseline_was_written_with() -> None:
    assert BASELINE.fingerprint is not None
    for layer, name in CHOSEN.items():
        ours = getattr(BUILT.layers, layer)[name].digest
        assert ours == getattr(BASELINE.fingerprint.layers, layer)[name].digest
    assert set(BUILT.digests) == set(CHOSEN)
    assert None not in (BUILT.short.mem, BUILT.short.num)


@SOME
@given(st.randoms(use_true_random=False))
def test_neither_the_order_of_keys_nor_that_of_probes_moves_a_digest(order: random.Random) -> None:
    probes = tuple(
        msgspec.structs.replace(one, values=shuffled(one.values, order))
        for one in order.sample(PROBES, len(PROBES))
    )
    assert digests(built(probes)) == digests(BUILT)


@SOME
@given(name=TEXT, path=TEXT, seconds=st.floats(0, 1e6), index=st.integers(0, 7))
def test_where_when_and_how_long_never_move_a_digest(
    name: str, path: str, seconds: float, index: int
) -> None:
    probes = tuple(
        msgspec.structs.replace(one, seconds=seconds, reason=path, family=name) for one in PROBES
    )
    facts = {
        "torch": {"devices": [{"index": index, "name": name, "uuid": name}], "path": path},
        "python": {"executable": path},
    }
    key = {**KEY, "device": f"cuda:{index}"}
    assert digests(built(probes, name, key=key, facts=facts)) == digests(BUILT)


@SOME
@given(host=TEXT, uuid=TEXT, label=st.sampled_from(["lab-1", "lab-2", None]), year=TEXT)
def test_a_machine_s_name_its_card_and_the_label_never_move_a_digest(
    host: str, uuid: str, label: str | None, year: str
) -> None:
    run = child_run(suite=SUITE, key=KEY, probes=PROBES)
    card = Gpu(index=0, uuid_hash=known(uuid))

    def files(_: Any) -> Any:
        plain = readers().files(readers().choose())
        return msgspec.structs.replace(plain, host=HostFacts(cpu_model=known(host)))

    report = verify(
        VerifyRequest(label=label),
        readers(
            child=lambda *_: run,
            fingerprint=build_fingerprint,
            files=files,
            driver_and_gpus=lambda: (
                readers().driver_and_gpus()[0],
                GpuFacts(devices=known((card,))),
            ),
            clock=lambda: f"{year}T00:00:00Z",
        ),
        lambda *_: None,
    )
    assert report.fingerprint is not None
    assert report.label == label
    assert digests(report.fingerprint) == digests(BUILT)


@given(st.sampled_from(COUNTS), st.integers(1, 1 << 30))
def test_every_changed_byte_count_moves_the_digests_of_its_probe_layer_and_short_form(
    count: tuple[int, tuple[Any, ...]], by: int
) -> None:
    at, path = count
    probe = PROBES[at]
    values = copy.deepcopy(probe.values)
    inner: Any = values
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] += by
    bent = msgspec.structs.replace(probe, values=values)
    found = built((*PROBES[:at], bent, *PROBES[at + 1 :]))
    moved = {layer for layer in CHOSEN if found.digests[layer] != BUILT.digests[layer]}
    assert moved == {probe.layer}
    own = [getattr(one.layers, probe.layer)[probe.name].digest for one in (found, BUILT)]
    assert own[0] != own[1]
    assert (found.short.mem != BUILT.short.mem) == (probe.layer != "numerics")
    assert (found.short.num != BUILT.short.num) == (probe.layer == "numerics")


def test_there_are_enough_counts_to_change() -> None:
    assert len(COUNTS) > 3000

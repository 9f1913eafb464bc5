from __future__ import annotations

from typing import Any

import msgspec
import pytest
from machines import child_run, fingerprint

from envkit.allocator import CachingAllocator, OutOfMemory
from envkit.model.facts import RequestFacts
from envkit.model.fingerprint import Fingerprint, Layers, ProbeResult
from envkit.model.observed import Known, NotApplicable, Unreadable, value_of
from envkit.probes.child.challenge import seed_from
from envkit.probes.child.exercises.catalogue import random_trace
from envkit.probes.child.exercises.operations import carry_out
from envkit.probes.child.membership import SUITES
from envkit.probes.events import ChildError, Probe, SuiteStart
from envkit.probes.launch import Crashed, TimedOut
from envkit.workflows.conclude import how_probes_went
from envkit.workflows.fingerprint import build_fingerprint, conformity_of, must_hold
from envkit.workflows.nonce import ShuffledAddresses, depends_on_addresses

SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False}
TOTAL_BYTES = 80 << 30
OPERATIONS: list[list[Any]] = [["malloc", 0, 2 << 20, 0], ["free", 0], ["empty_cache"]]
STEPS = carry_out(
    OPERATIONS, CachingAllocator("", total_memory=TOTAL_BYTES, version=(2, 9)), TOTAL_BYTES,
    OutOfMemory,
).steps  # fmt: skip
ASKED = RequestFacts(suite=Known(value="quick", source="--suite"))


def key(**changes: Any) -> dict[str, Any]:
    standard = {
        "device": "cuda:0",
        "torch": "2.9.1+cu130",
        "cuda": "13.0",
        "cudnn": 91300,
        "cublas": "13.0",
        "capability": "9.0",
        "sm_count": 132,
        "settings": SETTINGS,
        "flags": {},
        "threads": 8,
    }
    return {**standard, **changes}


def probe(name: str, **changes: Any) -> Probe:
    member = next(one for one in SUITES["quick"].probes["cuda"] if one.name == name)
    fields: dict[str, Any] = {
        "name": name,
        "layer": member.layer,
        "status": "exact",
        "values": {"n": 1},
        "must_repeat": member.must_repeat,
    }
    if member.layer == "allocator":
        fields.update(
            values={"steps": STEPS},
            operations=OPERATIONS,
            observed={"total_memory_bytes": TOTAL_BYTES},
        )
    return Probe(**{**fields, **changes})


NAMES = tuple(member.name for member in SUITES["quick"].probes["cuda"])
WHOLE = tuple(probe(name) for name in NAMES)


def built(probes: tuple[Probe, ...] = WHOLE, **fields: Any) -> Fingerprint:
    suite = SuiteStart(name="quick", version=2, seed=1, probes=NAMES)
    standard: dict[str, Any] = {"suite": suite, "key": key(), "probes": probes}
    run = child_run(**{**standard, **fields})
    found = build_fingerprint(run, challenge=None, processor=None)
    assert found is not None
    return found


def exercise(**changes: Any) -> Fingerprint:
    return built((probe("exercises.streams", **changes),))


def test_a_whole_suite_has_every_digest_and_is_complete() -> None:
    found = built()
    assert sorted(found.digests) == ["allocator", "numerics", "tensors", "workspaces"]
    assert found.short.mem is not None
    assert found.short.num is not None
    assert how_probes_went(ASKED, found).outcome == "complete"
    assert conformity_of(found) == Known(value=True, source=conformity_of(found).source)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outcome": Crashed(signal="SIGKILL")}, "SIGKILL"),
        ({"errors": (ChildError(stage="vit", type="OSError", message="gone"),)}, "OSError: gone"),
        ({}, "did not tell"),
    ],
)
def test_probes_that_were_promised_and_never_reported_have_failed(
    fields: dict[str, Any], said: str
) -> None:
    found = built(WHOLE[:-1], **fields)
    lost = found.layers.numerics[NAMES[-1]]
    assert lost.status == "failed"
    assert said in lost.reason
    assert sorted(found.digests) == ["allocator", "tensors", "workspaces"]
    assert how_probes_went(ASKED, found).outcome == "incomplete"


def test_exercises_of_the_cpu_are_the_model_s_even_where_the_child_ran_out_of_time() -> None:
    """The model answers them there: nothing was to be measured, so nothing is lost."""
    late = probe("exercises.streams", status="failed", values=None, operations=None)
    suite = SuiteStart(name="quick", version=2, seed=1, probes=(late.name, NAMES[-1]))
    for probes in ((), (late,)):
        run: dict[str, Any] = {"outcome": TimedOut(stage="x", limit_s=1.0), "suite": suite}
        found = built(probes, **run, key=key(device="cpu", capability=None, sm_count=None))
        answered = found.layers.allocator["exercises.streams"]
        assert (answered.status, answered.modelled) == ("exact", True)
        assert answered.values
        assert "exercises" not in how_probes_went(ASKED, found).reason
    on_gpu = built((late,), **run)
    assert on_gpu.layers.allocator["exercises.streams"].status == "failed"


def test_what_may_be_missing_has_a_digest_of_its_own_and_no_part_in_its_layer_s() -> None:
    own = Probe(
        name="call.train:step.tensors",
        layer="tensors",
        status="exact",
        values={"requests": [512, -1], "streams": {}},
        optional=True,
    )
    with_it, without = built((*WHOLE, own)), built()
    assert with_it.layers.tensors[own.name].digest is not None
    assert with_it.layers.tensors[own.name].optional
    assert with_it.digests == without.digests
    must_hold(with_it)
    lost = msgspec.structs.replace(own, status="not_run", values=None, reason="not installed")
    assert built((*WHOLE, lost)).digests == without.digests


def test_a_step_of_the_user_s_that_was_never_reported_has_failed() -> None:
    suite = SuiteStart(name="quick", version=2, seed=1, probes=(*NAMES, "call.train:step.outputs"))
    found = built(suite=suite, outcome=Crashed(signal="SIGSEGV"))
    assert "SIGSEGV" in found.layers.numerics["call.train:step.outputs"].reason
    assert sorted(found.digests) == sorted(built().digests)
    went = how_probes_went(ASKED, found)
    assert went.outcome == "incomplete"
    assert went.reason.startswith("your step train:step could not be measured: ")
    assert "SIGSEGV" in went.reason


def test_a_suite_that_never_began_is_no_fingerprint() -> None:
    assert build_fingerprint(child_run(key=key()), challenge=None, processor=None) is None


def test_an_answer_of_the_model_alone_is_nothing_measured() -> None:
    modelled = ProbeResult(status="exact", values={}, digest=None, modelled=True)
    skipped = ProbeResult(status="not_run", values=None, digest=None)
    layers: dict[str, dict[str, ProbeResult]] = {name: {} for name in Layers.__struct_fields__}
    layers.update(allocator={"exercises.streams": modelled}, numerics={"matmul": skipped})
    found = fingerprint()
    answered = Fingerprint(
        suite=found.suite,
        key=found.key,
        challenge=None,
        device=found.device,
        layers=Layers(**layers),
        digests={},
        short=found.short,
    )
    assert how_probes_went(ASKED, answered).reason == "no probe could be run"


def test_a_counter_that_differs_does_not_conform_and_says_which() -> None:
    first, *rest = STEPS
    other = {**first, "counters": {**first["counters"], "segment.all.current": 7}}
    found = exercise(values={"steps": [other, *rest]})
    result = found.layers.allocator["exercises.streams"]
    assert result.conforms is False
    assert "segment.all.current is 7, by the model 1" in result.reason
    answer = conformity_of(found)
    assert isinstance(answer, Known)
    assert answer.value is False


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"operations": []}, "no operation"),
        ({"observed": {}}, "total memory"),
        ({"values": {"steps": STEPS[:-1]}}, None),
    ],
)
def test_too_little_to_compare_is_never_conform(changes: dict[str, Any], said: str | None) -> None:
    found = exercise(**changes)
    result = found.layers.allocator["exercises.streams"]
    assert result.conforms is (False if said is None else None)
    assert (said or "different number of operations") in result.reason


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"unreadable": "no snapshot"}}, "settings in effect could not be read"),
        ({"settings": {**SETTINGS, "expandable_segments": True}}, "expandable_segments is True"),
        ({"torch": "1.13.1+cu117"}, "the model describes torch 2.1 to"),
    ],
)
def test_what_the_model_does_not_describe_is_not_compared(
    changes: dict[str, Any], said: str
) -> None:
    answer = conformity_of(built((probe("exercises.streams"),), key=key(**changes)))
    assert isinstance(answer, Unreadable)
    assert said in answer.reason


def test_without_a_gpu_the_model_answers_and_nothing_conforms() -> None:
    on_cpu = key(device="cpu", capability=None, cudnn=None, cublas=None, settings={})
    skipped = probe("exercises.streams", status="not_run", values=None, observed=None)
    found = built((skipped,), key=on_cpu)
    assert found.layers.allocator["exercises.streams"].modelled
    assert "allocator" not in found.digests
    assert isinstance(conformity_of(found), NotApplicable)


RECORDED = {"requests": [512, 3 << 20], "streams": {}, "segments": [], "foreign_frees": 0}
PEAKS = {"allocated_bytes": (3 << 20) + 512, "reserved_bytes": 22 << 20, "segments": 2}


def with_peaks(**changes: Any) -> Fingerprint:
    fields = {"values": PEAKS, "observed": RECORDED, **changes}
    peaks = probe("vit.bf16.peaks", **fields)
    return built(tuple(peaks if one.name == peaks.name else one for one in WHOLE))


def test_peaks_come_with_the_replay_of_their_requests() -> None:
    found = with_peaks()
    result = found.layers.peaks["vit.bf16.peaks"]
    assert (result.conforms, result.reason, result.values) == (True, "", PEAKS)
    assert result.replay is not None
    assert result.replay.observed == result.replay.canonical == PEAKS
    assert value_of(conformity_of(found)) is True


def test_a_peak_that_the_replay_does_not_give_does_not_conform() -> None:
    found = with_peaks(values={**PEAKS, "segments": 3})
    assert found.layers.peaks["vit.bf16.peaks"].reason == ("segments is 3, by the model's replay 2")
    assert value_of(conformity_of(found)) is False


def test_peaks_that_did_not_repeat_are_replayed_as_the_run_that_was_recorded() -> None:
    spread = {"runs": 2, "differences": 1, "differs": [{"path": "/segments", "values": [2, 3]}]}
    result = with_peaks(status="unstable", spread=spread).layers.peaks["vit.bf16.peaks"]
    assert (result.status, result.conforms) == ("unstable", True)
    assert result.values == {"spread": spread}


def test_peaks_that_did_not_start_from_nothing_are_not_replayed() -> None:
    result = with_peaks(family="call").layers.peaks["vit.bf16.peaks"]
    assert (result.conforms, result.replay) == (None, None)


def test_peaks_without_a_recording_say_so_and_accuse_nobody() -> None:
    found = with_peaks(observed=None)
    result = found.layers.peaks["vit.bf16.peaks"]
    assert (result.conforms, result.reason) == (None, "the requests were not recorded")
    assert value_of(conformity_of(found)) is True


def scattered(layout: int) -> tuple[list[list[Any]], dict[str, Any], dict[str, Any]]:
    """Return a trace whose counters depend on addresses, and what an allocator answers to it."""
    nonce = next(f"{n:08x}" for n in range(60) if depends_on_addresses(f"{n:08x}"))
    operations = random_trace(seed_from(nonce))
    model = CachingAllocator(
        total_memory=TOTAL_BYTES, version=(2, 9), addresses=ShuffledAddresses(layout)
    )
    walk = carry_out(operations, model, TOTAL_BYTES, OutOfMemory)
    observed = {"total_memory_bytes": TOTAL_BYTES, "addresses": walk.addresses}
    return operations, {"steps": walk.steps}, observed


@pytest.mark.parametrize("layout", range(4))
def test_a_trace_of_a_challenge_conforms_wherever_the_driver_put_its_segments(layout: int) -> None:
    operations, values, observed = scattered(layout)
    found = exercise(operations=operations, values=values, observed=observed)
    assert found.layers.allocator["exercises.streams"].conforms is True


def test_without_the_addresses_such_a_trace_would_accuse_a_machine() -> None:
    answers = []
    for layout in range(4):
        operations, values, observed = scattered(layout)
        del observed["addresses"]
        found = exercise(operations=operations, values=values, observed=observed)
        answers.append(found.layers.allocator["exercises.streams"].conforms)
    assert set(answers) == {True, False}


def test_addresses_that_cannot_be_say_where_the_model_needed_a_segment() -> None:
    operations = [["malloc", 0, 2 << 20, 0], ["malloc", 1, 30 << 20, 0]]
    model = CachingAllocator(total_memory=TOTAL_BYTES, version=(2, 9))
    walk = carry_out(operations, model, TOTAL_BYTES, OutOfMemory)
    observed = {"total_memory_bytes": TOTAL_BYTES, "addresses": [1 << 40, 1 << 40]}
    found = exercise(operations=operations, values={"steps": walk.steps}, observed=observed)
    result = found.layers.allocator["exercises.streams"]
    assert result.conforms is False
    assert "the model needs a segment" in result.reason


def test_a_challenge_has_its_own_probe_even_if_the_child_never_told_of_it() -> None:
    suite = SuiteStart(name="quick", version=1, seed=1, probes=(*NAMES, "numerics.challenge"))
    run = child_run(suite=suite, key=key(), probes=WHOLE)
    found = build_fingerprint(run, challenge="ab" * 8, processor=None)
    assert found is not None
    assert found.challenge == "ab" * 8
    assert found.layers.numerics["numerics.challenge"].status == "failed"

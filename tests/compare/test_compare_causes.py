from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from compared import (
    A100_WORKSPACE,
    CONDA,
    FLAGS,
    H200_WORKSPACE,
    MODELS,
    changed,
    facts,
    fingerprint,
    known,
    seal,
    side,
)

from envkit.compare.causes import BY_CODE, CAUSES
from envkit.compare.compare import compare
from envkit.compare.find_causes import is_claimed
from envkit.model.documents import Cause, Diff

BASE = fingerprint()


def diff(plain: dict[str, Any], found: Any = None, **options: Any) -> Diff:
    return compare((side("mine", BASE), side("hers", plain, found)), **options).document


def flagged(plain: dict[str, Any], **flags: Any) -> dict[str, Any]:
    plain["key"]["flags"] = {**FLAGS, **{k.replace("__", "."): v for k, v in flags.items()}}
    return plain


def moved(document: Diff) -> set[str]:
    return {name for name, answer in document.agreement.items() if answer == "different"}


def codes(document: Diff) -> list[str]:
    return [cause.code for cause in document.causes if is_claimed(cause)]


def first(document: Diff) -> Cause:
    return document.causes[0]


def test_every_code_is_there_once() -> None:
    assert sorted(BY_CODE) == [f"CAU{n:03}" for n in range(1, 18)]
    assert len(CAUSES) == len(BY_CODE)


def test_expandable_segments_are_found_and_proved_in_the_model() -> None:
    conf = "expandable_segments:True"
    found = facts(variables={"PYTORCH_CUDA_ALLOC_CONF": conf})
    document = diff(fingerprint(conf=conf), found)
    assert moved(document) == {"allocator", "peaks", "software"}
    assert codes(document) == ["CAU001"]
    proof = first(document).evidence[-1]
    assert proof.what == "replay in the model"
    assert proof.seen.startswith("proved: ")
    assert document.verdict.exit_code == 1


def test_counters_that_no_setting_explains_are_not_proved() -> None:
    plain = fingerprint(conf="expandable_segments:True")
    step = plain["layers"]["allocator"]["exercises.size_ladder"]["values"]["steps"][4]
    step["counters"]["reserved_bytes.all.current"] = 12345
    proof = first(diff(seal(plain))).evidence[-1]
    assert "not in exercises.size_ladder at operation 5" in proof.seen


PLANTED: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    "CAU003": (["numerics"], "matmul", {"matmul__allow_tf32": True}),
    "CAU004": (["workspaces", "numerics", "peaks"], "resnet", {"cudnn__benchmark": True}),
    "CAU006": (["workspaces", "numerics", "peaks"], "resnet", {"cudnn__enabled": False}),
    "CAU007": (["tensors", "workspaces", "numerics"], "vit", {"sdp__flash": False}),
    "CAU005": (["workspaces"], "", {"deterministic_algorithms": True}),
    "CAU002": (["workspaces"], "", {"preferred_blas_library": "cublaslt"}),
}


@pytest.mark.parametrize("code", PLANTED)
def test_a_flag_that_moves_its_layers_is_the_cause(code: str) -> None:
    layers, pattern, flags = PLANTED[code]
    plain = BASE
    for layer in layers:
        plain = changed(plain, layer, pattern)
    document = diff(flagged(plain, **flags))
    assert set(layers) <= moved(document)
    assert codes(document) == [code]


def test_a_flag_that_moves_something_else_is_a_candidate_only() -> None:
    plain = flagged(changed(BASE, "tensors"), matmul__allow_tf32=True)
    document = diff(plain)
    assert codes(document) == []
    candidates = {cause.code: cause for cause in document.causes}
    assert candidates["CAU003"].evidence[0].what == "candidate"
    assert "CAU007" in candidates, "attention could move tensors, and nothing is recorded"


def test_tf32_claims_no_numbers_of_reductions() -> None:
    plain = flagged(changed(BASE, "numerics", "reductions"), matmul__allow_tf32=True)
    assert codes(diff(plain)) == []


def test_a_difference_without_any_record_has_candidates_and_no_claim() -> None:
    document = diff(changed(BASE, "workspaces"))
    assert document.causes
    assert codes(document) == []
    assert document.verdict.status == "different"


def test_a_recorded_difference_without_effect_is_a_candidate() -> None:
    document = diff(flagged(fingerprint(), cudnn__benchmark=True))
    assert [cause.code for cause in document.causes] == ["CAU004"]
    assert "nothing that was measured moved" in document.causes[0].evidence[0].seen
    assert document.verdict.exit_code == 0


def test_a_variable_names_cublas() -> None:
    found = facts(variables={"CUBLAS_WORKSPACE_CONFIG": ":16:8"})
    assert codes(diff(changed(BASE, "workspaces"), found)) == ["CAU002"]


def test_a_busy_card_moves_the_context_only() -> None:
    plain = fingerprint()
    neighbour = 130 << 30
    values = plain["layers"]["context"]["context.memory"]["values"]
    values["used_outside_this_allocator_bytes"] += neighbour
    values["free_bytes"] -= neighbour
    found = facts(free_bytes=150_754_820_096 - 900_000_000 - neighbour)
    document = diff(plain, found)
    assert moved(document) == {"context"}
    assert codes(document) == ["CAU013"]


def test_another_driver_is_never_a_difference() -> None:
    plain = changed(BASE, "context")
    document = diff(plain, facts(driver="570.124.06"))
    assert codes(document) == ["CAU016"]
    assert document.verdict.exit_code == 0
    assert {d.kind for d in document.differences} == {"expected"}


def test_another_torch_explains_every_layer() -> None:
    plain = changed(changed(BASE, "tensors"), "numerics")
    plain["key"]["torch"] = "2.12.0+cu130"
    found = facts()
    torch = msgspec.structs.replace(found.torch, version=known("2.12.0+cu130"))
    document = diff(plain, msgspec.structs.replace(found, torch=torch))
    assert first(document).code == "CAU008"
    assert is_claimed(first(document))


def test_mig_comes_before_the_model() -> None:
    plain = changed(BASE, "workspaces")
    plain["device"] = "NVIDIA H200 MIG 1g.18gb"
    plain["key"]["sm_count"] = 16
    assert codes(diff(plain, facts()))[:2] == ["CAU014", "CAU009"]


def test_threads_on_the_cpu() -> None:
    def on_cpu(plain: dict[str, Any], threads: int) -> dict[str, Any]:
        plain["key"].update(capability=None, sm_count=None, threads=threads, settings={})
        return plain

    one = side("mine", on_cpu(fingerprint(), 2))
    other = side("hers", on_cpu(changed(BASE, "workspaces"), 1))
    assert codes(compare((one, other)).document) == ["CAU010"]


def test_another_package_set() -> None:
    found = facts()
    packages = (CONDA[0], msgspec.structs.replace(CONDA[1], version="2.2.0"))
    conda = msgspec.structs.replace(found.conda, packages=known(packages))
    document = diff(fingerprint(), msgspec.structs.replace(found, conda=conda))
    assert codes(document) == ["CAU015"]
    assert document.verdict.exit_code == 1


def test_caching_that_is_off_is_seen_by_exercises_without_a_value() -> None:
    plain = fingerprint()
    for probe in plain["layers"]["allocator"].values():
        probe.update(status="not_run", values=None, digest=None)
        probe["reason"] = "torch counts nothing: its caching is off (…?)"
    plain["digests"].pop("allocator")
    found = facts(variables={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    document = diff(plain, found)
    assert first(document).code == "CAU011"
    assert is_claimed(first(document))
    assert document.verdict.exit_code == 3


def test_a_mixed_team_gets_an_answer() -> None:
    """Workspaces, numbers, peaks differ as the hardware has it; what torch asks for agrees."""
    hers = side("hers", fingerprint("NVIDIA A100-SXM4-80GB"))
    result = compare((side("mine", BASE), hers))
    document = result.document
    assert document.verdict.exit_code == 0
    assert document.agreement["allocator"] == document.agreement["tensors"] == "same"
    assert moved(document) == {"workspaces", "numerics", "context"}
    assert {d.kind for d in document.differences} == {"expected"}
    assert codes(document) == ["CAU009", "CAU002"]
    shapes = next(d for d in document.differences if d.layer == "workspaces").values
    assert [s["first"]["bytes"] for s in shapes] == [H200_WORKSPACE, A100_WORKSPACE]
    assert shapes[1]["only_here"] == {str(A100_WORKSPACE): 2}
    assert "not measured" in first(document).evidence[0].source
    fits = {room.label: room.times for room in result.rooms}
    assert fits == {"mine": 49, "hers": 28}


def test_named_layers_must_agree_whatever_the_hardware_is() -> None:
    pair = (side("mine", BASE), side("hers", fingerprint("NVIDIA A100-SXM4-80GB")))
    assert compare(pair, ("workspaces",)).document.verdict.exit_code == 1
    assert compare(pair, ("tensors",)).document.verdict.exit_code == 0


def test_a_small_card_is_told_that_it_would_run_out() -> None:
    mine = fingerprint()
    mine["layers"]["peaks"]["vit.bf16.peaks"]["values"]["reserved_bytes"] = 30_000_000_000
    pair = (side("mine", seal(mine)), side("hers", fingerprint("NVIDIA GeForce RTX 4090")))
    document = compare(pair).document
    assert "hers would run out at the peak of mine" in document.verdict.headline


@pytest.mark.parametrize("model", [model for model in MODELS if model != "NVIDIA H200"])
def test_the_first_sentence_names_what_the_hardware_does_not_explain(model: str) -> None:
    document = diff(fingerprint(model, conf="expandable_segments:True"))
    assert codes(document)[:2] == ["CAU001", "CAU009"]
    assert "because of CAU001, " in document.verdict.headline
    assert ", and CAU009, " in document.verdict.headline


@pytest.mark.parametrize("flag", ["cudnn.benchmark", "deterministic_algorithms"])
def test_a_flag_that_moved_the_tensors_comes_before_another_model(flag: str) -> None:
    plain = changed(fingerprint("NVIDIA A100-SXM4-80GB"), "tensors")
    plain["key"]["flags"] = {**FLAGS, flag: True}
    document = diff(plain)
    assert document.verdict.exit_code == 1
    assert codes(document)[0] in {"CAU004", "CAU005"}


def test_a_candidate_says_when_nothing_that_it_moves_could_be_compared() -> None:
    plain = flagged(fingerprint(), cudnn__enabled=False)
    plain["suite"]["version"] = 2
    document = diff(plain)
    found = next(cause for cause in document.causes if cause.code == "CAU006")
    assert found.evidence[0].seen == (
        "recorded otherwise; nothing that it can move could be compared"
    )


def with_step(conf: str = "") -> dict[str, Any]:
    """Return a fingerprint that has a step of the user's own beside the suite."""
    plain = fingerprint(conf=conf)
    for layer, of_suite in (("tensors", "vit.bf16.tensors"), ("numerics", "vit.bf16.losses")):
        probes = plain["layers"][layer]
        probes[f"call.train:step.{layer}"] = copy.deepcopy(probes[of_suite])
    return seal(plain)


def test_a_step_that_moves_alone_is_another_step() -> None:
    mine, hers = with_step(), with_step()
    for layer in ("tensors", "numerics"):
        hers = changed(hers, layer, "call.")
    document = compare((side("mine", mine), side("hers", hers))).document
    assert moved(document) == {"tensors", "numerics"}
    assert codes(document) == ["CAU017"]
    assert "only what belongs to the step differs (2)" in first(document).evidence[1].seen


@pytest.mark.parametrize(
    "hers",
    [changed(with_step(), "numerics"), changed(with_step("expandable_segments:True"), "tensors")],
    ids=["the suite moved too", "under other settings"],
)
def test_a_step_is_not_blamed_for_what_moves_more(hers: dict[str, Any]) -> None:
    document = compare((side("mine", with_step()), side("hers", hers))).document
    assert "CAU017" not in {cause.code for cause in document.causes}

"""What holds for every comparison: itself, mirrored, and every single value that moves."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from compared import A100_WORKSPACE, H200_WORKSPACE, fingerprint, read, seal, side
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.compare.compare import compare
from envkit.compare.sides import Side
from envkit.model import codec
from envkit.model.documents import Diff
from envkit.workflows.diff_inputs import recognise

ROOT = Path(__file__).parent.parent.parent
BASE = fingerprint()
A100 = fingerprint("NVIDIA A100-SXM4-80GB")
EXPANDABLE = fingerprint(conf="expandable_segments:True")
BASELINES = sorted(ROOT.glob("baselines/*.json"))
#: Compared values: digest layers and peaks. Context is not one, `free_bytes` never.
COMPARED = ("allocator", "tensors", "workspaces", "peaks", "numerics")
Path_ = tuple[Any, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    items: Any = value.items() if isinstance(value, dict) else None
    items = enumerate(value) if isinstance(value, list) else items
    if items is None:
        yield path
        return
    for key, child in items:
        yield from leaves(child, (*path, key))


def moved(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1 if value >= 0 else value - 1
    return f"{value}x"


def mutated(plain: dict[str, Any], path: Path_) -> dict[str, Any]:
    copied = copy.deepcopy(plain)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = moved(inner[path[-1]])
    return copied


LEAVES = [
    ("layers", layer, probe, "values", *rest)
    for layer in COMPARED
    for probe, result in BASE["layers"][layer].items()
    for rest in leaves(result["values"])
]
KEY_LEAVES = [("key", *path) for path in leaves(BASE["key"])]


@pytest.mark.parametrize("plain", [BASE, A100, EXPANDABLE], ids=["base", "a100", "expandable"])
def test_a_machine_agrees_with_itself_in_everything(plain: dict[str, Any]) -> None:
    check_equal(compare((side("one", plain), side("other", plain))).document)


def check_equal(document: Diff) -> None:
    assert document.verdict.status == "same"
    assert document.verdict.exit_code == 0
    assert document.differences == ()
    assert document.causes == ()
    assert set(document.agreement.values()) == {"same"}


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (1, 2)])
def test_the_order_of_the_inputs_mirrors_the_answer(pair: tuple[int, int]) -> None:
    plains = (BASE, A100, EXPANDABLE)
    one, other = side("one", plains[pair[0]]), side("other", plains[pair[1]])
    there, back = compare((one, other)).document, compare((other, one)).document
    assert there.agreement == back.agreement
    assert there.comparable == back.comparable
    assert there.verdict == back.verdict or _same_but_for_names(there, back)
    assert [(d.layer, d.key, d.kind) for d in there.differences] == [
        (d.layer, d.key, d.kind) for d in back.differences
    ]
    assert [d.values for d in there.differences] == [d.values[::-1] for d in back.differences]
    assert [c.code for c in there.causes] == [c.code for c in back.causes]


def _same_but_for_names(there: Diff, back: Diff) -> bool:
    return (there.verdict.status, there.verdict.exit_code) == (
        back.verdict.status,
        back.verdict.exit_code,
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from(LEAVES), sealed=st.booleans())
def test_every_single_value_that_moves_is_reported(path: Path_, sealed: bool) -> None:  # noqa: FBT001
    """With its digest in step (another machine) and without (a file that was changed)."""
    plain = mutated(BASE, path)
    document = compare(
        (side("one", BASE), side("other", seal(plain) if sealed else plain))
    ).document
    layer, probe = path[1], path[2]
    found = [d for d in document.differences if d.layer == layer]
    assert [d.key for d in found if (d.key + ".").startswith(f"{probe}.")]
    if layer != "peaks":  # peaks have a segment of tolerance
        assert document.agreement[layer] == "different"
        assert document.verdict.exit_code == 1


@pytest.mark.parametrize("path", KEY_LEAVES, ids=lambda path: ".".join(map(str, path[1:])))
def test_every_part_of_the_key_that_moves_is_reported(path: Path_) -> None:
    plain = mutated(BASE, path)
    document = compare((side("one", BASE), side("other", plain))).document
    name = str(path[-1]) if path[1] not in {"settings", "flags"} else str(path[1])
    assert [d for d in document.differences if name in d.key and d.layer in {"software", "machine"}]


def test_a_digest_that_its_values_do_not_give_is_reported() -> None:
    plain = copy.deepcopy(BASE)
    plain["digests"]["tensors"] = "sha256:" + "0" * 64
    document = compare((side("one", BASE), side("other", plain))).document
    assert [(d.layer, d.key) for d in document.differences] == [("tensors", "digest")]
    assert document.verdict.exit_code == 1


def test_a_peak_within_a_segment_is_shown_and_agrees() -> None:
    plain = copy.deepcopy(BASE)
    plain["layers"]["peaks"]["vit.bf16.peaks"]["values"]["reserved_bytes"] += 20 << 20
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.agreement["peaks"] == "same"
    assert [(d.key, d.kind) for d in document.differences] == [
        ("vit.bf16.peaks.reserved_bytes", "expected")
    ]
    plain["layers"]["peaks"]["vit.bf16.peaks"]["values"]["reserved_bytes"] += 1
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.agreement["peaks"] == "different"


def test_a_peak_without_segments_as_on_the_cpu_is_exact() -> None:
    plain = copy.deepcopy(BASE)
    for probe in plain["layers"]["peaks"].values():
        probe["values"] = {"allocated_bytes": probe["values"]["allocated_bytes"]}
    more = mutated(plain, ("layers", "peaks", "vit.bf16.peaks", "values", "allocated_bytes"))
    document = compare((side("one", plain), side("other", more))).document
    assert document.agreement["peaks"] == "different"


@pytest.mark.parametrize("status", ["failed", "not_run"])
def test_two_values_that_could_not_be_measured_never_agree(status: str) -> None:
    plain = copy.deepcopy(BASE)
    for probe in plain["layers"]["tensors"].values():
        probe.update(status=status, values=None, digest=None, reason="no time left")
    plain["digests"].pop("tensors")
    document = compare((side("one", plain), side("other", plain))).document
    assert document.agreement["tensors"] == "not_comparable"
    assert not [d for d in document.differences if d.layer == "tensors"]
    lost = [c for c in document.cannot_compare if c.layer == "tensors"]
    assert lost[0].reasons == ("no time left", "no time left")
    assert (document.verdict.status, document.verdict.exit_code) == ("incomplete", 3)


def test_one_lost_probe_of_a_required_layer_is_not_passed_over() -> None:
    plain = copy.deepcopy(BASE)
    probe = plain["layers"]["numerics"]["numerics.conv2d"]
    probe.update(status="failed", values=None, digest=None, reason="crashed")
    plain["digests"].pop("numerics")
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.agreement["numerics"] == "same"
    assert document.verdict.exit_code == 3
    tensors_only = compare((side("one", BASE), side("other", plain)), ("tensors",)).document
    assert tensors_only.verdict.exit_code == 0


def test_an_unstable_probe_accuses_nobody() -> None:
    plain = copy.deepcopy(BASE)
    probe = plain["layers"]["numerics"]["vit.bf16.losses"]
    probe.update(status="unstable", values={"spread": {}}, digest=None, reason="runs differ")
    plain["digests"].pop("numerics")
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.agreement["numerics"] == "same"
    assert document.comparable["numerics"].answer == "partly"
    assert document.verdict.exit_code == 0
    assert [c.key for c in document.cannot_compare] == ["vit.bf16.losses"]


def test_what_need_not_repeat_counts_for_nothing() -> None:
    plain = copy.deepcopy(BASE)
    plain["layers"]["numerics"]["vit.bf16.losses"]["digest"] = None
    other = mutated(plain, ("layers", "numerics", "vit.bf16.losses", "values", "out", "sha256"))
    document = compare((side("one", plain), side("other", other))).document
    assert document.agreement["numerics"] == "same"


def test_another_version_of_the_suite_cannot_be_compared() -> None:
    plain = copy.deepcopy(BASE)
    plain["suite"]["version"] = 2
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.verdict.exit_code == 3
    assert {document.agreement[layer] for layer in COMPARED} == {"not_comparable"}


def test_another_challenge_leaves_out_what_it_seeds() -> None:
    plain = copy.deepcopy(BASE)
    plain["challenge"] = "00" * 8
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.comparable["numerics"].answer == "no"
    assert document.comparable["tensors"].answer == "yes"
    assert "exercises.random_trace" in {c.key for c in document.cannot_compare}


def test_quick_and_standard_are_compared_over_what_both_have() -> None:
    plain = copy.deepcopy(BASE)
    plain["suite"]["name"] = "quick"
    del plain["layers"]["numerics"]["numerics.reductions"]
    document = compare((side("one", BASE), side("other", seal(plain)))).document
    assert document.agreement["numerics"] == "same"
    assert document.verdict.exit_code == 0
    assert "both suites" in document.comparable["numerics"].why


def test_a_cpu_and_a_gpu_cannot_be_compared() -> None:
    plain = copy.deepcopy(BASE)
    plain["key"].update(capability=None, sm_count=None)
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.comparable["tensors"].answer == "no"
    assert document.verdict.exit_code == 3


def test_host_facts_label_and_date_are_never_a_difference() -> None:
    one = side("one", BASE)
    assert one.facts is not None
    host = msgspec.convert(
        {"os_release": {"state": "known", "value": "Arch", "source": "x"}},
        type(one.facts.host),
    )
    other = msgspec.structs.replace(
        one, label="other", facts=msgspec.structs.replace(one.facts, host=host)
    )
    document = compare((one, other)).document
    assert document.verdict.exit_code == 0
    assert set(document.agreement.values()) == {"same"}


@pytest.mark.parametrize("path", BASELINES, ids=lambda path: path.stem)
def test_a_committed_baseline_agrees_with_itself(path: Path) -> None:
    baseline = recognise(path.read_bytes(), path.name, label="baseline")
    document = compare((baseline, msgspec.structs.replace(baseline, label="again"))).document
    assert document.differences == ()
    assert not document.causes
    assert {a for n, a in document.agreement.items() if n in COMPARED} == {"same"}


def test_a_fingerprint_alone_is_enough() -> None:
    bare = Side(label="bare", kind="fingerprint", path="f.json", fingerprint=read(BASE))
    document = compare((bare, side("full", BASE))).document
    assert document.verdict.exit_code == 0
    assert document.agreement["packages"] == "not_comparable"


def test_a_document_is_what_its_schema_says() -> None:
    document = compare((side("one", BASE), side("other", A100))).document
    again = codec.decode(codec.encode(document), Diff, origin="diff")
    assert again == codec.decode(codec.encode(again), Diff, origin="diff")


def unsteady(plain: dict[str, Any], *reserved: int) -> dict[str, Any]:
    copied = copy.deepcopy(plain)
    rows = [{"path": "/reserved_bytes", "values": list(reserved)}]
    probe = copied["layers"]["peaks"]["vit.bf16.peaks"]
    probe.update(status="unstable", values={"spread": {"runs": 2, "differs": rows}})
    return copied


def test_a_peak_that_moves_by_a_segment_between_runs_can_be_compared() -> None:
    held = BASE["layers"]["peaks"]["vit.bf16.peaks"]["values"]["reserved_bytes"]
    near = unsteady(BASE, held, held + (2 << 20))
    document = compare((side("one", BASE), side("other", near))).document
    assert document.agreement["peaks"] == "same"
    assert document.verdict.exit_code == 0
    both = compare((side("one", unsteady(BASE, held, held + 512)), side("other", near)))
    assert both.document.agreement["peaks"] == "same"
    far = unsteady(BASE, held, held + (200 << 20))
    document = compare((side("one", BASE), side("other", far))).document
    assert document.agreement["peaks"] == "different"


def test_peaks_of_which_nothing_is_known_are_not_comparable() -> None:
    plain = copy.deepcopy(BASE)
    for probe in plain["layers"]["peaks"].values():
        probe.update(status="unstable", values={"spread": None})
    document = compare((side("one", BASE), side("other", plain))).document
    assert document.agreement["peaks"] == "not_comparable"
    assert document.verdict.exit_code == 3


@pytest.mark.parametrize("path", BASELINES, ids=lambda path: path.stem)
def test_a_baseline_against_another_model_made_from_it(path: Path) -> None:
    """Workspaces, SM count and memory changed as the facts say; numbers changed too."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    fingerprinted = plain["fingerprint"]
    if fingerprinted["key"]["capability"] in {None, "8.0"}:
        pytest.skip("measured on a CPU, or on the model that is made here")
    mine = recognise(path.read_bytes(), path.name, label="mine")
    fingerprinted["key"].update(capability="8.0", sm_count=108)
    fingerprinted["device"] = "NVIDIA A100-SXM4-80GB"
    for probe in fingerprinted["layers"]["workspaces"].values():
        for values in filter(None, [probe["values"]]):
            requests = values.get("requests", [])
            values["requests"] = [A100_WORKSPACE if n == H200_WORKSPACE else n for n in requests]
    memory = fingerprinted["layers"]["context"]["context.memory"]["values"]
    memory.update(total_bytes=85_899_345_920, torch_total_bytes=85_899_345_920)
    for probe in fingerprinted["layers"]["numerics"].values():
        if probe["digest"]:
            probe["digest"] = "sha256:" + "0" * 64
    hers = recognise(json.dumps(plain).encode(), "hers", label="hers")
    document = compare((mine, hers)).document
    assert document.verdict.exit_code == 0
    assert document.agreement["tensors"] == document.agreement["allocator"] == "same"
    assert {d.kind for d in document.differences} == {"expected"}
    assert document.causes[0].code == "CAU009"


def test_a_step_of_the_user_s_that_one_side_did_not_measure_is_no_lack() -> None:
    own = copy.deepcopy(BASE)
    stream = next(iter(own["layers"]["tensors"].values()))
    own["layers"]["tensors"]["call.train:step.tensors"] = {**stream, "optional": True}
    plain = compare([side("one", BASE), side("other", BASE)]).document
    document = compare([side("one", own), side("other", BASE)]).document
    assert not document.differences
    (lost,) = [one for one in document.cannot_compare if one.key.startswith("call.")]
    assert "not asked for" in "".join(lost.reasons)
    assert document.verdict.exit_code == plain.verdict.exit_code


def replayed(plain: dict[str, Any], *, canonical: int, more_bytes: int) -> dict[str, Any]:
    """Return a fingerprint whose peaks are larger, as addresses would have it."""
    copied = copy.deepcopy(plain)
    for probe in copied["layers"]["peaks"].values():
        probe["values"]["reserved_bytes"] += more_bytes
        probe["conforms"] = True
        probe["replay"] = {
            "observed": dict(probe["values"]),
            "canonical": {**probe["values"], "reserved_bytes": canonical},
        }
    return copied


@pytest.mark.parametrize(
    ("canonical", "answer"), [((1, 1), "same"), ((1, 2), "different")], ids=["equal", "unequal"]
)
def test_peaks_that_only_addresses_set_apart_are_the_same(
    canonical: tuple[int, int], answer: str
) -> None:
    one = side("one", replayed(BASE, canonical=canonical[0], more_bytes=0))
    other = side("other", replayed(BASE, canonical=canonical[1], more_bytes=200 << 20))
    document = compare((one, other)).document
    assert document.agreement["peaks"] == answer
    shown = [row for row in document.differences if row.layer == "peaks"]
    assert len(shown) == 2


def test_another_challenge_moves_no_layer_but_the_one_that_it_seeds() -> None:
    other = copy.deepcopy(BASE)
    other["challenge"] = "ab" * 8
    trace = other["layers"]["allocator"]["exercises.random_trace"]
    trace["values"]["steps"] = trace["values"]["steps"][:-1]
    document = compare((side("one"), side("other", seal(other)))).document
    assert document.agreement["allocator"] == "same"
    assert document.agreement["tensors"] == "same"
    assert document.agreement["numerics"] == "not_comparable"

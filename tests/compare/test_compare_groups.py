from __future__ import annotations

import copy
from typing import Any

import pytest
from compared import MODELS, changed, fingerprint, read, side

from envkit.compare.compare import compare
from envkit.compare.groups import Group, group_fingerprints
from envkit.model.documents import Diff

BASE = fingerprint()


def lost(plain: dict[str, Any]) -> dict[str, Any]:
    copied = copy.deepcopy(plain)
    probe = copied["layers"]["tensors"]["vit.bf16.tensors"]
    probe.update(status="failed", values=None, digest=None, reason="crashed")
    return copied


def members(groups: tuple[Group, ...]) -> list[tuple[int, ...]]:
    return [one.members for one in groups]


def test_the_majority_comes_first_and_outliers_after_it() -> None:
    other = changed(BASE, "numerics", "matmul")
    plains = [other, BASE, BASE, other, BASE, changed(BASE, "workspaces")]
    found = members(group_fingerprints(read(plain) for plain in plains))
    assert found == [(1, 2, 4), (0, 3), (5,)]


def test_a_machine_that_lacks_values_stands_alone() -> None:
    found = group_fingerprints([read(BASE), read(lost(BASE)), read(lost(BASE)), read(BASE), None])
    assert members(found) == [(0, 3), (1,), (2,), (4,)]
    assert [one.whole for one in found] == [True, False, False, False]


def test_a_probe_that_is_unstable_somewhere_groups_nobody() -> None:
    unsteady = copy.deepcopy(BASE)
    probe = unsteady["layers"]["numerics"]["numerics.matmul.fp32"]
    probe.update(status="unstable", values={"spread": {}}, digest=None)
    plains = [BASE, unsteady, changed(BASE, "numerics", "matmul")]
    assert members(group_fingerprints(read(plain) for plain in plains)) == [(0, 1, 2)]


def test_a_value_that_was_changed_under_its_digest_is_another_group() -> None:
    plain = copy.deepcopy(BASE)
    plain["layers"]["tensors"]["vit.bf16.tensors"]["values"]["requests"][0] += 512
    assert members(group_fingerprints([read(BASE), read(plain), read(BASE)])) == [(0, 2), (1,)]


def test_a_team_is_told_who_is_the_outlier_and_why() -> None:
    plain = changed(BASE, "numerics", "matmul")
    plain["key"]["flags"]["matmul.allow_tf32"] = True
    document: Diff = compare([side("a", BASE), side("b", plain), side("c", BASE)]).document
    assert document.groups == (("a", "c"), ("b",))
    assert document.causes[0].code == "CAU003"
    assert document.causes[0].evidence[1].seen == "a: off; b: on"
    assert document.verdict.exit_code == 1
    assert "2 groups of 3 machines, 2 in the largest" in document.verdict.headline
    difference = next(d for d in document.differences if d.layer == "numerics")
    assert difference.values[0] == difference.values[2] != difference.values[1]


def test_machines_that_all_agree_are_one_group() -> None:
    document = compare([side(name, BASE) for name in "abcd"]).document
    assert document.groups == (("a", "b", "c", "d"),)
    assert document.verdict.exit_code == 0
    assert document.causes == ()


H200, A100, RTX = MODELS


def fleet(**plains: dict[str, Any]) -> Diff:
    return compare([side(name, plain) for name, plain in plains.items()]).document


def test_a_team_of_mixed_models_is_one_group_where_torch_asks_for_the_same() -> None:
    document = fleet(a=fingerprint(A100), h=BASE, r=fingerprint(RTX))
    assert document.groups == (("a", "h", "r"),)
    assert document.verdict.exit_code == 0
    assert document.causes[0].code == "CAU009"


@pytest.mark.parametrize("model", MODELS)
def test_the_outlier_of_a_mixed_team_is_set_apart_by_its_settings(model: str) -> None:
    outlier = fingerprint(model, conf="expandable_segments:True")
    document = fleet(a=fingerprint(A100), h=BASE, r=fingerprint(RTX), x=outlier)
    assert document.groups == (("a", "h", "r"), ("x",))
    assert document.verdict.exit_code == 1
    assert document.causes[0].code == "CAU001"
    assert "because of CAU001" in document.verdict.headline


def test_an_outlier_among_those_of_its_model_stands_apart_in_a_mixed_team() -> None:
    plain = changed(BASE, "numerics", "matmul")
    plain["key"]["flags"]["matmul.allow_tf32"] = True
    document = fleet(a=fingerprint(A100), h1=BASE, h2=plain, h3=BASE)
    assert document.groups == (("a", "h1", "h3"), ("h2",))
    assert document.causes[0].code == "CAU003"
    assert document.causes[0].evidence[1].seen == "h1: off; h2: on"
    assert document.verdict.exit_code == 0


def test_models_that_differ_in_what_torch_asks_for_are_not_joined() -> None:
    document = fleet(a=changed(fingerprint(A100), "tensors"), h=BASE, r=fingerprint(RTX))
    assert document.groups == (("h", "r"), ("a",))
    assert document.verdict.exit_code == 1

from __future__ import annotations

import copy
from typing import Any

from compared import changed, fingerprint, read, side

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

"""What the first sentence says of probes that were not compared; the exit code is CLI.md's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from compared import fingerprint, side

from envkit.compare.compare import compare
from envkit.model.documents import DiffVerdict

BASE = fingerprint()
STEP = "call.train:step"


def unstable(plain: dict[str, Any], layer: str, *names: str) -> dict[str, Any]:
    copied = copy.deepcopy(plain)
    for name in names:
        probe = copied["layers"][layer][name]
        probe.update({"status": "unstable", "values": None, "digest": None})
    return copied


def with_step(name: str = STEP) -> dict[str, Any]:
    copied = copy.deepcopy(BASE)
    for layer, of_suite in (("tensors", "vit.bf16.tensors"), ("numerics", "vit.bf16.losses")):
        probe = copy.deepcopy(copied["layers"][layer][of_suite])
        copied["layers"][layer][f"{name}.{layer}"] = {**probe, "optional": True}
    return copied  # the digests of layers are of the suite alone


def verdict(mine: dict[str, Any], hers: dict[str, Any], *required: str) -> DiffVerdict:
    return compare((side("mine", mine), side("hers", hers)), required or None).document.verdict


def test_nothing_is_said_where_everything_was_compared() -> None:
    for plain in (BASE, with_step()):
        said = verdict(plain, plain)
        assert said.status == "same"
        assert "not compared" not in said.headline
        assert "over" not in said.headline


def test_the_sentence_says_over_how_many_probes_a_layer_is_the_same() -> None:
    names = [name for name in BASE["layers"]["numerics"] if name != "numerics.conv2d"]
    hers = unstable(BASE, "numerics", *names)
    hers = unstable(hers, "tensors", "vit.bf16.tensors")
    said = verdict(BASE, hers)
    assert (said.status, said.exit_code) == ("same", 0)
    assert "; over 1 of 2 tensors and 1 of 7 numerics probes" in said.headline
    assert verdict(BASE, hers, "numerics").exit_code == 0, "the layer could be compared, in part"


def test_a_required_layer_of_which_no_probe_could_be_compared_is_incomplete() -> None:
    hers = unstable(BASE, "numerics", *BASE["layers"]["numerics"])
    said = verdict(BASE, hers, "numerics")
    assert (said.status, said.exit_code) == ("incomplete", 3)
    assert "numerics could not be compared as required" in said.headline


@pytest.mark.parametrize(
    ("hers", "said"),
    [
        (with_step("call.train:other"), "; your step was not compared."),
        (BASE, "; your step was not compared."),
        (
            unstable(with_step(), "numerics", f"{STEP}.numerics"),
            "; your step was not compared in numerics.",
        ),
    ],
    ids=["named differently", "on one side only", "unstable"],
)
def test_a_step_that_was_not_compared_is_named(hers: dict[str, Any], said: str) -> None:
    found = verdict(with_step(), hers)
    assert found.exit_code == 0
    assert found.headline.endswith(said)
    assert "over" not in found.headline, "the suite's own probes were all compared"


def test_one_probe_is_not_many() -> None:
    document = compare(
        (side("mine", BASE), side("hers", unstable(BASE, "tensors", "vit.bf16.tensors")))
    ).document
    assert "1 probe could not be compared" in document.comparable["tensors"].why

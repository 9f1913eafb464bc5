"""The report measured on an H200: it is whole, judged alike again, and other runs agreed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from measured import h200_path, h200_report

from envkit.errors import InputError
from envkit.model.codec import digest
from envkit.model.fingerprint import DIGEST_LAYERS, LAYERS
from envkit.model.observed import value_of
from envkit.model.report import Report
from envkit.workflows.judge_file import judge_file
from envkit.workflows.request import VerifyRequest

REPEATS = Path(__file__).parent.parent / "data" / "h200" / "standard-2-repeats.json"


@pytest.fixture(scope="module")
def report() -> Report:
    return h200_report()


@pytest.fixture(scope="module")
def repeats() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(REPEATS.read_text("utf-8"))
    return found


def probe_digests(report: Report) -> dict[str, str]:
    assert report.fingerprint is not None
    return {
        f"{layer}/{name}": result.digest
        for layer in LAYERS
        for name, result in getattr(report.fingerprint.layers, layer).items()
        if result.digest is not None
    }


def test_it_is_of_a_gpu_and_whole(report: Report) -> None:
    fingerprint = report.fingerprint
    assert fingerprint is not None
    assert fingerprint.device == "NVIDIA H200"
    assert (fingerprint.suite.name, fingerprint.key.capability) == ("standard", "9.0")
    assert set(fingerprint.digests) == set(DIGEST_LAYERS)
    assert value_of(report.facts.torch.allocator_conforms) is True
    assert all(result.conforms for result in fingerprint.layers.allocator.values())
    assert not any(result.modelled for result in fingerprint.layers.allocator.values())


def test_its_digests_are_those_of_its_values(report: Report) -> None:
    fingerprint = report.fingerprint
    assert fingerprint is not None
    for layer in LAYERS:
        for name, result in getattr(fingerprint.layers, layer).items():
            if result.digest is not None:
                assert digest(result.values) == result.digest, name


def test_a_changed_byte_count_moves_the_digest(report: Report) -> None:
    assert report.fingerprint is not None
    result = report.fingerprint.layers.tensors["vit.fp32.tensors"]
    assert result.values is not None
    requests = [*result.values["requests"]]
    requests[0] += 1
    assert digest({**result.values, "requests": requests}) != result.digest


def test_judged_again_it_gives_its_verdict(report: Report) -> None:
    again = judge_file(str(h200_path()), VerifyRequest())
    assert again.verdict == report.verdict
    assert again.verdict.exit_code == 0


def test_every_run_on_its_card_gave_the_same_digests(
    report: Report, repeats: dict[str, list[dict[str, Any]]]
) -> None:
    assert report.fingerprint is not None
    probes = probe_digests(report)
    assert len(repeats["runs"]) == 10
    for run in repeats["runs"]:
        assert run["digests"] == report.fingerprint.digests
        assert run["probes"] == probes


def test_every_probe_that_other_cards_measured_gave_the_same_digest(
    report: Report, repeats: dict[str, list[dict[str, Any]]]
) -> None:
    assert report.fingerprint is not None
    own = {run["gpu"] for run in repeats["runs"]}
    assert len({run["gpu"] for run in repeats["other_cards"]} - own) == 8
    probes = probe_digests(report)
    for run in repeats["other_cards"]:
        assert len(run["probes"]) >= 37
        assert {name: probes[name] for name in run["probes"]} == run["probes"]
        assert run.get("digests", report.fingerprint.digests) == report.fingerprint.digests
    assert len([run for run in repeats["other_cards"] if run["probes"] == probes]) == 16


def test_nothing_personal_is_in_it() -> None:
    text = h200_path().read_text("utf-8")
    for place in ("/home/", "/" + "root", "/Users/", "/opt/"):
        assert place not in text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("layers", "tensors", "vit.fp32.tensors", "values", "requests"), [512]),
        (("layers", "numerics", "numerics.conv2d", "digest"), "sha256:" + "0" * 64),
        (("digests", "tensors"), "sha256:" + "0" * 64),
        (("short", "num"), "deadbeef0000"),
    ],
)
def test_a_report_that_was_changed_is_refused(
    path: tuple[str, ...], value: Any, tmp_path: Path
) -> None:
    document = json.loads(h200_path().read_bytes())
    place = document["fingerprint"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(document))
    with pytest.raises(InputError, match="does not hold"):
        judge_file(str(changed), VerifyRequest())

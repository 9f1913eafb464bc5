from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import envkit
from envkit.errors import InputError, UsageError
from envkit.model.codec import decode
from envkit.model.report import Report
from envkit.render import fingerprint_rows

BASELINE = Path(__file__).parents[2] / "baselines" / "h200-torch2.11.0.json"


@pytest.fixture(autouse=True)
def same_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130")
    monkeypatch.delenv("ENVKIT_REPORT", raising=False)


def changed(tmp_path: Path, change: Any) -> Path:
    report = json.loads(BASELINE.read_text())
    change(report)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    return path


def test_a_stamp_is_plain_and_survives_a_checkpoint(tmp_path: Path) -> None:
    made = envkit.stamp(BASELINE)
    assert made["schema"] == "envkit.stamp/1"
    assert made["short"] == json.loads(BASELINE.read_text())["fingerprint"]["short"]
    torch.save({"envkit": made}, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=True)["envkit"]
    assert loaded == made
    assert envkit.check_stamp(loaded, BASELINE).same


def test_the_variable_names_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="ENVKIT_REPORT"):
        envkit.stamp()
    monkeypatch.setenv("ENVKIT_REPORT", str(BASELINE))
    assert envkit.stamp() == envkit.stamp(BASELINE)


def test_a_difference_is_named_with_what_else_differs() -> None:
    made = envkit.stamp(BASELINE)
    made["digests"]["numerics"] = "sha256:" + "0" * 64
    made["short"]["num"] = "0" * 12
    made["key"]["cudnn"] = 90100
    made["key"]["flags"]["matmul.allow_tf32"] = True
    found = envkit.check_stamp(made, BASELINE)
    assert not found.same
    assert found.layers["numerics"] == "different"
    assert found.layers["allocator"] == "same"
    assert found.differences == (
        "cudnn: 90100 there, 91900 here",
        "matmul.allow_tf32: True there, False here",
    )
    mem = made["short"]["mem"]
    assert found.text.startswith(f"Made under mem {mem}, num 000000000000; here mem {mem}, num ")


@pytest.mark.parametrize("part", ["suite", "challenge", "digests"])
def test_what_cannot_be_compared_is_not_the_same(part: str) -> None:
    made = envkit.stamp(BASELINE)
    other = {"suite": {"name": "quick", "version": 1}, "challenge": "00112233", "digests": {}}
    made[part] = other[part]
    found = envkit.check_stamp(made, BASELINE)
    assert not found.same
    assert set(found.layers.values()) == {"not_comparable"}


def test_two_that_lack_a_digest_are_not_the_same(tmp_path: Path) -> None:
    def without_numerics(report: dict[str, Any]) -> None:
        del report["fingerprint"]["digests"]["numerics"]
        report["fingerprint"]["short"]["num"] = None

    report = changed(tmp_path, without_numerics)
    found = envkit.check_stamp(envkit.stamp(report), report)
    assert found.layers["numerics"] == "not_comparable"
    assert not found.same


@pytest.mark.parametrize("lost", [("num",), ("mem",), ("mem", "num")])
def test_a_stamp_says_the_short_digests_in_the_words_of_a_report(
    lost: tuple[str, ...], tmp_path: Path
) -> None:
    def without(report: dict[str, Any]) -> None:
        for short in lost:
            report["fingerprint"]["short"][short] = None
            del report["fingerprint"]["digests"][{"num": "numerics", "mem": "allocator"}[short]]

    path = changed(tmp_path, without)
    report = decode(path.read_bytes(), Report, origin="report.json")
    assert report.fingerprint is not None
    row = dict(fingerprint_rows.rows(report.fingerprint))["short"]
    said = envkit.check_stamp(envkit.stamp(path), path).text
    assert said.startswith(f"Made under {row}; here {row} (")


def test_a_report_of_another_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cu128")
    with pytest.raises(InputError, match=r"of torch 2\.11\.0\+cu130; this process runs 2\.9\.1"):
        envkit.stamp(BASELINE)


def test_a_report_of_another_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A10")
    with pytest.raises(InputError, match="of a NVIDIA H200; this process uses a NVIDIA A10"):
        envkit.stamp(BASELINE)


def test_a_report_that_was_changed_or_has_no_fingerprint_is_refused(tmp_path: Path) -> None:
    def falsify(report: dict[str, Any]) -> None:
        report["fingerprint"]["short"]["mem"] = "0" * 12

    with pytest.raises(InputError, match="does not hold"):
        envkit.stamp(changed(tmp_path, falsify))
    with pytest.raises(InputError, match="no fingerprint"):
        envkit.stamp(changed(tmp_path, lambda report: report.update(fingerprint=None)))


def test_what_is_no_stamp_is_refused() -> None:
    with pytest.raises(InputError, match="the stamp is not a valid document"):
        envkit.check_stamp({"mem": "28c5"}, BASELINE)


@pytest.mark.parametrize("made", [None, 5, "text", [1], b"x"])
def test_what_is_no_stamp_at_all_is_said_to_be_none(made: Any) -> None:
    with pytest.raises(InputError, match="no mapping"):
        envkit.check_stamp(made, BASELINE)


def test_a_stamp_of_somebody_else_moves_no_terminal() -> None:
    evil = "\x1b[2J\u202e\n"
    made = envkit.stamp(BASELINE)
    made |= {"device": evil, "challenge": evil}
    made["short"] = {"mem": evil, "num": evil}
    made["digests"] = {}
    made["key"]["torch"] = evil
    made["key"]["flags"][evil] = evil
    made["key"]["settings"][evil] = evil
    found = envkit.check_stamp(made, BASELINE)
    assert len(found.differences) > 4
    assert all(text.isprintable() for text in (found.text, *found.differences))

"""`verify --against`: a machine held against measured reports, live and recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from machines import known, readers
from running import run_envkit

from envkit.errors import InputError
from envkit.model import codec
from envkit.model.environment_spec import EnvironmentSpec
from envkit.model.observed import NotApplicable, value_of
from envkit.model.report import Report
from envkit.specs.folders import baselines
from envkit.specs.registry import Entry, Needs
from envkit.workflows.baselines import find_yardsticks, hold_against, names
from envkit.workflows.contract import Named, NamedSpec
from envkit.workflows.judge_file import judge_file
from envkit.workflows.request import VerifyRequest
from envkit.workflows.verify import verify

NAME = "h200-torch2.11.0"
PATH = baselines() / f"{NAME}.json"


@pytest.fixture(scope="module")
def h200() -> Report:
    return codec.decode(PATH.read_bytes(), Report, origin=NAME)


def changed(path: Path, *keys: str, by: int) -> Path:
    """Write the baseline with one number of its fingerprint changed, digests left as they are."""
    document = json.loads(PATH.read_text("utf-8"))
    inner: Any = document["fingerprint"]
    for key in keys[:-1]:
        inner = inner[key]
    at = keys[-1] if isinstance(inner, dict) else 0
    inner[at] += by
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


PEAK = ("layers", "peaks", "resnet.bf16.peaks", "values", "reserved_bytes")
REQUEST = ("layers", "tensors", "vit.bf16.tensors", "values", "requests", "first")


def judge(file: Path, against: str) -> Report:
    return judge_file(str(file), VerifyRequest(against=against))


def test_a_baseline_agrees_with_itself_by_name_and_by_path(tmp_path: Path) -> None:
    assert NAME in names()
    for against in (NAME, str(PATH)):
        report = judge(PATH, against)
        assert report.verdict.exit_code == 0
        (found,) = value_of(report.facts.contract.baselines) or ()
        assert (found.status, found.named_by) == ("same", "--against")
        assert set(found.agreement.values()) == {"same"}
        assert "/" not in found.name
    path = tmp_path / "again.json"
    path.write_bytes(codec.encode(report))
    assert judge_file(str(path), VerifyRequest()).verdict == report.verdict


def test_a_layer_that_differs_fails_and_stays_failed_when_judged_again(tmp_path: Path) -> None:
    other = changed(tmp_path / "other.json", *PEAK, by=1 << 30)
    report = judge(other, NAME)
    assert report.verdict.exit_code == 1
    assert "CON013" in report.verdict.headline
    (found,) = value_of(report.facts.contract.baselines) or ()
    assert found.differing == ("peaks",)
    assert found.differences == ("peaks resnet.bf16.peaks.reserved_bytes",)
    path = tmp_path / "again.json"
    path.write_bytes(codec.encode(report))
    assert judge_file(str(path), VerifyRequest()).verdict == report.verdict


def test_what_cannot_be_compared_leaves_the_verdict_open(tmp_path: Path) -> None:
    other = changed(tmp_path / "other.json", "suite", "version", by=1)
    report = judge(other, NAME)
    assert report.verdict.exit_code == 3
    assert "CON013" in report.verdict.headline
    (found,) = value_of(report.facts.contract.baselines) or ()
    assert "numerics" in found.unchecked


def test_a_paste_is_compared_in_what_it_has() -> None:
    paste = Path(__file__).parents[1] / "data/pastes/works-a100.txt"
    report = judge(paste, NAME)
    (found,) = value_of(report.facts.contract.baselines) or ()
    assert found.agreement["allocator"] == "not_comparable"
    assert "software" in found.differing
    assert report.verdict.exit_code == 1


def test_a_live_machine_is_held_against_it_after_its_probes() -> None:
    request = VerifyRequest(against=NAME)
    report = verify(request, readers(), lambda *_: None)
    (found,) = value_of(report.facts.contract.baselines) or ()
    assert found.status != "same"
    assert report.verdict.exit_code in {1, 3}
    without = verify(VerifyRequest(), readers(), lambda *_: None)
    assert isinstance(without.facts.contract.baselines, NotApplicable)


def test_nothing_is_measured_before_the_baseline_was_found() -> None:
    def never(*_: object) -> Any:
        raise AssertionError

    with pytest.raises(InputError, match="no baseline 'h100'"):
        verify(VerifyRequest(against="h100"), readers(child=never), lambda *_: None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "without a schema"),
        ('{"schema": "envkit.machine/1", "os": "linux"}', "no fingerprint"),
        ("name: vit\ndependencies: [python]\n", "no fingerprint"),
    ],
)
def test_what_was_not_measured_is_no_yardstick(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "thing.json"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        find_yardsticks(str(path))


def test_a_baseline_that_was_changed_afterwards_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path / "changed.json", *REQUEST, by=1)
    with pytest.raises(InputError, match="does not hold"):
        find_yardsticks(str(path))


def spec(*measured: str) -> NamedSpec:
    entry = Entry(
        version="1.0.0",
        content_hash="sha256:" + "0" * 64,
        purpose="a test",
        platforms=("linux-64",),
        needs=Needs(gpu=True),
        virtual_packages={"__cuda": "12.6"},
        measured=measured or "none",
    )
    return NamedSpec(
        reference="vit@1.0.0",
        source="--spec",
        spec=EnvironmentSpec(origin="vit.yml"),
        entry=entry,
        lock_path=Path("vit.conda-lock.yml"),
        needs_gpu=True,
    )


def test_a_spec_brings_the_reports_that_it_was_measured_with(h200: Report) -> None:
    assert find_yardsticks(None, spec()) == ()
    yardsticks = find_yardsticks(None, spec(NAME, "lost"))
    facts = hold_against(yardsticks, h200.facts, h200.fingerprint, whole=True)
    good, lost = value_of(facts.contract.baselines) or ()
    assert (good.status, good.named_by) == ("same", "spec vit@1.0.0")
    assert "packages" not in good.agreement or good.agreement["packages"] == "not_comparable"
    assert (lost.status, lost.agreement) == ("incomplete", {})
    assert "no baseline 'lost'" in lost.headline


def test_the_packages_of_a_spec_are_the_locks_affair(h200: Report) -> None:
    pip = msgspec.structs.replace(h200.facts.pip, distributions=known(()))
    facts = msgspec.structs.replace(h200.facts, pip=pip)
    by_spec = hold_against(find_yardsticks(None, spec(NAME)), facts, h200.fingerprint, whole=True)
    by_user = hold_against(find_yardsticks(NAME), facts, h200.fingerprint, whole=True)
    assert [one.status for one in value_of(by_spec.contract.baselines) or ()] == ["same"]
    assert [one.differing for one in value_of(by_user.contract.baselines) or ()] == [("packages",)]


def test_a_live_verify_asks_the_spec_too() -> None:
    named = Named(spec=spec(NAME))
    report = verify(VerifyRequest(), readers(contract=lambda *_: named), lambda *_: None)
    (found,) = value_of(report.facts.contract.baselines) or ()
    assert found.named_by == "spec vit@1.0.0"


def test_the_command(tmp_path: Path) -> None:
    shutil.copy(PATH, tmp_path / "mine.json")
    same = run_envkit("verify", "--from", "mine.json", "--against", NAME, cwd=tmp_path)
    assert same.returncode == 0
    assert f"{NAME} (--against): Same packages" in " ".join(same.stdout.split())
    lost = run_envkit("verify", "--from", "mine.json", "--against", "h200-torch2.11", cwd=tmp_path)
    assert lost.returncode == 2
    assert f"Did you mean {NAME}?" in lost.stderr

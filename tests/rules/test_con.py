"""Rules about spec and lock: each passes, fails, skips and says that it cannot tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from judged import (
    ABSENT,
    FAIL,
    NOT_APPLICABLE,
    NOT_KNOWN,
    PASS,
    SKIP,
    UNKNOWN,
    UNREADABLE,
    codes,
    finding,
    judged,
    known,
    packages,
    verdict,
)

from envkit.model.facts import (
    BaselineComparison,
    CondaPackage,
    FileProblem,
    Overlap,
    PipDistribution,
    SpecDependency,
    SpecRequirement,
    SpecVariable,
)
from envkit.model.finding import Severity, Status
from envkit.model.observed import NOT_RECORDED, Absent, Known


def package(name: str, version: str = "1.0", build: str = "h0_0", **more: Any) -> CondaPackage:
    standard = {"channel": "conda-forge", "subdir": "linux-64", "sha256": "a" * 64, "md5": "b" * 32}
    return CondaPackage(name=name, version=version, build=build, **{**standard, **more})


def held(status: Any, named_by: str = "--against") -> BaselineComparison:
    return BaselineComparison(
        name="h200",
        named_by=named_by,
        status=status,
        headline="Same allocator; different tensors (1).",
        agreement={"allocator": "same", "tensors": "different"},
        differing=("tensors",) if status == "different" else (),
        differences=("tensors vit.bf16.tensors",) if status == "different" else (),
    )


TORCH = package("pytorch", "2.7.1", "cuda126_0")
NUMPY = package("numpy", "2.2.6")
BOTH = (NUMPY, TORCH)
YES, NO = known(value=True), known(value=False)
LOCK: dict[str, Any] = {
    "request_lock": Known(value="conda-lock.yml", source="--lock"),
    "request_strict": Known(value=True, source="--lock"),
    "contract_packages": BOTH,
    "contract_distributions": (),
    "conda_packages": BOTH,
    "pip_distributions": (),
    "files_overlaps": (),
}
SPEC: dict[str, Any] = {
    **LOCK,
    "request_strict": NO,
    "request_spec": Known(value="vit@1.0.0", source="--spec"),
    "contract_dependencies": (
        SpecDependency(name="pytorch", version="2.7.1", build="*cuda126*"),
        SpecDependency(name="numpy", version=">=2"),
    ),
    "contract_channels": ("conda-forge",),
    "contract_stale": (),
}


def has(*installed: CondaPackage) -> dict[str, Any]:
    return {"conda_packages": installed}


def change(one: CondaPackage, **fields: str) -> CondaPackage:
    return msgspec.structs.replace(one, **fields)


def con(**changes: Any) -> list[str]:
    return [code for code in codes(**changes) if code.startswith("CON")]


def wheel(name: str, version: str = "1.0", **more: Any) -> PipDistribution:
    return PipDistribution(name=name, version=version, **{"installer": "pip", **more})


STALE = ("the spec has changed since it was locked",)
PIP_LOCK = {**LOCK, "contract_distributions": packages(einops="0.8.1")}
OVER = Overlap(name="torch", version="2.11.0", package="pytorch", package_version="2.7.1")
ALTERED = FileProblem(package="pytorch", path="lib/libtorch.so", problem="altered")
NOT_SET = SpecVariable(name="CUDA_MODULE_LOADING", wanted="LAZY", state="missing")
LATER = SpecVariable(name="CUDA_MODULE_LOADING", wanted="LAZY", state="on_activation")
SET = SpecVariable(name="CUDA_MODULE_LOADING", wanted="LAZY", state="in_effect")

CASES: list[tuple[str, Status, dict[str, Any]]] = [
    ("CON001", PASS, LOCK),
    ("CON001", FAIL, {**LOCK, **has(NUMPY)}),
    ("CON001", FAIL, {**LOCK, "conda_packages": NOT_APPLICABLE}),
    ("CON001", FAIL, PIP_LOCK),
    ("CON001", PASS, {**PIP_LOCK, "pip_distributions": packages(einops="0.8.1")}),
    ("CON001", UNKNOWN, {**PIP_LOCK, "pip_distributions": UNREADABLE}),
    ("CON001", FAIL, {**PIP_LOCK, "pip_distributions": NOT_APPLICABLE}),
    ("CON001", PASS, SPEC),
    ("CON001", FAIL, {**SPEC, **has(NUMPY)}),
    ("CON001", FAIL, {**SPEC, "contract_requirements": (SpecRequirement(name="einops"),)}),
    ("CON001", SKIP, {}),
    ("CON001", UNKNOWN, {**LOCK, "conda_packages": UNREADABLE}),
    ("CON001", UNKNOWN, {"contract_packages": UNREADABLE}),
    ("CON001", UNKNOWN, {"contract_packages": NOT_KNOWN}),
    ("CON002", PASS, LOCK),
    ("CON002", FAIL, {**LOCK, **has(NUMPY, TORCH, package("extra"))}),
    ("CON002", FAIL, {**LOCK, **has(NUMPY, TORCH, change(TORCH, version="2.6.0"))}),
    ("CON002", FAIL, {**LOCK, "pip_distributions": (wheel("mine", location="lib/x"),)}),
    ("CON002", PASS, {**LOCK, "pip_distributions": (wheel("mine", location="~/.local/x"),)}),
    ("CON002", PASS, {**LOCK, "pip_distributions": (wheel("numpy", "2.2.6", location="x"),)}),
    ("CON002", PASS, {**LOCK, "pip_distributions": (wheel("any", installer="conda"),)}),
    ("CON002", PASS, {**LOCK, **has(NUMPY, TORCH, package("w", channel="pypi"))}),
    ("CON002", SKIP, {**SPEC, **has(NUMPY, TORCH, package("extra"))}),
    ("CON002", SKIP, {}),
    ("CON002", UNKNOWN, {**LOCK, "conda_packages": UNREADABLE}),
    ("CON003", PASS, LOCK),
    ("CON003", FAIL, {**LOCK, **has(NUMPY, change(TORCH, version="2.7.0"))}),
    ("CON003", FAIL, {**LOCK, **has(NUMPY, change(TORCH, build="cpu_0"))}),
    ("CON003", FAIL, {**PIP_LOCK, "pip_distributions": packages(einops="0.8.0")}),
    ("CON003", PASS, SPEC),
    ("CON003", PASS, {**SPEC, **has(change(NUMPY, version="2.3"), TORCH)}),
    ("CON003", FAIL, {**SPEC, **has(NUMPY, change(TORCH, build="cpu_0"))}),
    ("CON003", FAIL, {**SPEC, **has(NUMPY, change(TORCH, version="no version !"))}),
    ("CON003", SKIP, {}),
    ("CON003", SKIP, {**LOCK, "conda_packages": NOT_APPLICABLE}),
    ("CON003", UNKNOWN, {**LOCK, "conda_packages": UNREADABLE}),
    ("CON004", PASS, LOCK),
    ("CON004", FAIL, {**LOCK, **has(change(NUMPY, channel="other"), TORCH)}),
    (
        "CON004",
        PASS,
        {**LOCK, **has(change(NUMPY, channel="https://mirror.example/conda-forge"), TORCH)},
    ),
    ("CON004", PASS, SPEC),
    ("CON004", FAIL, {**SPEC, **has(NUMPY, TORCH, package("own", channel="my-lab"))}),
    ("CON004", SKIP, {**SPEC, "contract_channels": ()}),
    ("CON004", SKIP, {}),
    ("CON004", UNKNOWN, {**LOCK, "conda_packages": UNREADABLE}),
    ("CON005", PASS, LOCK),
    ("CON005", FAIL, {**LOCK, **has(change(NUMPY, sha256="c" * 64), TORCH)}),
    ("CON005", FAIL, {**LOCK, **has(change(NUMPY, sha256="", md5="c" * 32), TORCH)}),
    ("CON005", PASS, {**LOCK, **has(change(NUMPY, sha256="", md5=""), TORCH)}),
    (
        "CON005",
        UNKNOWN,
        {**LOCK, **has(change(NUMPY, sha256="", md5=""), change(TORCH, sha256="", md5=""))},
    ),
    ("CON005", SKIP, SPEC),
    ("CON005", UNKNOWN, {**LOCK, "conda_packages": UNREADABLE}),
    ("CON006", PASS, {"files_problems": (), "files_checked": 10, "files_unhashed": 1}),
    ("CON006", FAIL, {"files_problems": (ALTERED,), "files_problem_count": 1}),
    ("CON006", SKIP, {}),
    ("CON006", UNKNOWN, {"files_problems": UNREADABLE}),
    ("CON007", PASS, LOCK),
    ("CON007", FAIL, {**LOCK, "files_overlaps": (OVER,)}),
    ("CON007", FAIL, {**SPEC, "files_overlaps": (OVER,)}),
    ("CON007", SKIP, {"files_overlaps": (OVER,)}),
    ("CON007", UNKNOWN, {**LOCK, "files_overlaps": UNREADABLE}),
    ("TOR004", FAIL, {"conda_packages": (TORCH,), "files_overlaps": (OVER,)}),
    (
        "TOR004",
        SKIP,
        {**LOCK, "pip_distributions": packages(torch="2.11.0"), "files_overlaps": (OVER,)},
    ),
    ("CON008", PASS, SPEC),
    ("CON008", FAIL, {**SPEC, "contract_stale": STALE}),
    ("CON008", SKIP, LOCK),
    ("CON008", UNKNOWN, {**SPEC, "contract_stale": UNREADABLE}),
    ("CON009", PASS, {**SPEC, "contract_variables": (SET,)}),
    ("CON009", FAIL, {**SPEC, "contract_variables": (SET, NOT_SET)}),
    ("CON009", FAIL, {**SPEC, "contract_variables": (LATER,)}),
    ("CON009", SKIP, {}),
    ("CON009", UNKNOWN, {**SPEC, "contract_variables": UNREADABLE}),
    ("CON010", PASS, LOCK),
    ("CON010", FAIL, {**SPEC, **has(TORCH, change(NUMPY, channel="defaults"))}),
    (
        "CON010",
        PASS,
        {
            **LOCK,
            **has(TORCH, change(NUMPY, channel="defaults")),
            "contract_packages": (TORCH, change(NUMPY, channel="defaults")),
        },
    ),
    (
        "CON010",
        SKIP,
        {
            **SPEC,
            "contract_channels": ("defaults",),
            **has(TORCH, change(NUMPY, channel="defaults")),
        },
    ),
    ("CON010", SKIP, has(change(NUMPY, channel="defaults"))),
    ("CON010", UNKNOWN, {**LOCK, "conda_packages": UNREADABLE}),
    ("CON011", PASS, SPEC),
    ("CON011", FAIL, {**SPEC, **has(change(NUMPY, version="2.3"), TORCH)}),
    ("CON011", FAIL, {**SPEC, **has(NUMPY, TORCH, package("extra"))}),
    ("CON011", SKIP, {**SPEC, **has(NUMPY)}),
    ("CON011", SKIP, LOCK),
    ("CON011", SKIP, {**SPEC, "contract_packages": ABSENT}),
    ("CON011", UNKNOWN, {**SPEC, "contract_packages": UNREADABLE}),
    ("CON011", UNKNOWN, {**SPEC, "conda_packages": UNREADABLE}),
    ("CON013", PASS, {"contract_baselines": (held("same"),)}),
    ("CON013", FAIL, {"contract_baselines": (held("same"), held("different"))}),
    ("CON013", UNKNOWN, {"contract_baselines": (held("incomplete"),)}),
    ("CON013", UNKNOWN, {"contract_baselines": UNREADABLE}),
    ("CON013", SKIP, {"contract_baselines": ()}),
    ("CON013", SKIP, {"contract_baselines": NOT_RECORDED}),
    ("CON013", SKIP, {"contract_baselines": NOT_APPLICABLE}),
    ("CON012", PASS, {"files_foreign": ()}),
    ("CON012", FAIL, {"files_foreign": ("lib/a.pth",), "files_foreign_count": 1}),
    ("CON012", SKIP, {}),
    ("CON012", UNKNOWN, {"files_foreign": UNREADABLE}),
]


@pytest.mark.parametrize(("code", "status", "changes"), CASES)
def test_each_rule(code: str, status: Status, changes: dict[str, Any]) -> None:
    assert verdict(code, **changes) is status


def test_solved_afresh_is_one_warning_with_the_gpu_stack_first() -> None:
    changes = {
        **SPEC,
        **has(
            package("aaa"),
            change(NUMPY, version="2.3"),
            change(TORCH, build="cuda126_1"),
        ),
    }
    assert con(**changes) == ["CON011"]
    found = finding("CON011", **changes)
    assert found.severity is Severity.WARNING
    assert [one.what for one in found.evidence] == ["pytorch", "numpy", "aaa"]
    assert "envkit create vit@1.0.0 -p NEW_PREFIX" in (found.fix.command or "")
    assert "conda-lock install -p NEW_PREFIX conda-lock.yml" in (found.fix.command or "")
    assert "conda create --file" in found.fix.text


def test_the_same_differences_are_errors_where_the_lock_counts() -> None:
    changes = {
        **SPEC,
        "request_strict": YES,
        **has(package("aaa"), change(NUMPY, channel="other", sha256="d" * 64)),
    }
    assert con(**changes) == ["CON001", "CON002", "CON004", "CON005"]
    assert {finding(code, **changes).severity for code in con(**changes)} == {Severity.ERROR}


def test_an_environment_that_does_not_meet_its_spec_is_an_error_and_not_solved_afresh() -> None:
    changes = {**SPEC, **has(change(NUMPY, version="1.26"))}
    assert con(**changes) == ["CON001", "CON003"]
    assert "vit@1.0.0" in finding("CON003", **changes).title
    assert "numpy >=2 asked for" in finding("CON003", **changes).evidence[0].seen


def test_a_dependency_met_from_another_channel_is_about_the_channel() -> None:
    wanted = (SpecDependency(name="pytorch", channel="pytorch"),)
    changes = {**SPEC, "contract_dependencies": wanted}
    assert con(**changes) == ["CON004"]
    assert finding("CON004", **changes).severity is Severity.ERROR


def test_a_channel_that_the_spec_does_not_name_is_a_warning() -> None:
    changes = {**SPEC, **has(NUMPY, TORCH, package("own", channel="my-lab"))}
    assert finding("CON004", **changes).severity is Severity.WARNING


def test_pip_requirements_of_a_spec() -> None:
    wanted = (SpecRequirement(name="einops", version=">=0.8"),)
    changes = {**SPEC, "contract_requirements": wanted, "pip_distributions": packages(einops="0.7")}
    assert con(**changes) == ["CON003"]
    assert finding("CON003", **changes).evidence[0].what == "einops (pip)"
    assert verdict("CON003", **{**changes, "pip_distributions": UNREADABLE}) is UNKNOWN


def test_a_long_list_is_cut_and_says_how_long_it_is() -> None:
    many = tuple(package(f"p{number:02}") for number in range(40))
    found = finding("CON002", **{**LOCK, "conda_packages": (*BOTH, *many)})
    assert len(found.evidence) == 13
    assert found.evidence[-1].seen == "28 more"
    assert "40 packages" in found.title


def test_variables_that_activation_sets_are_information() -> None:
    assert finding("CON009", **{**SPEC, "contract_variables": (LATER,)}).severity is Severity.INFO
    found = finding("CON009", **{**SPEC, "contract_variables": (NOT_SET,), "conda_prefix": "/e/v"})
    assert found.severity is Severity.WARNING
    assert found.fix.command == "conda env config vars set -p /e/v CUDA_MODULE_LOADING=LAZY"


def test_a_file_that_pip_wrote_over_names_it() -> None:
    by_pip = msgspec.structs.replace(ALTERED, written_by="torch")
    found = finding("CON006", files_problems=(by_pip,), files_problem_count=1)
    assert found.evidence[0].seen == "altered (package pytorch), written over by pip's torch"


def test_files_that_start_with_python_come_first() -> None:
    found = finding("CON012", files_foreign=("lib/a.py", "lib/z.pth"), files_foreign_count=2)
    assert [one.seen for one in found.evidence] == ["lib/z.pth", "lib/a.py"]
    assert "whenever Python starts" in found.title


def test_the_fix_for_an_explicit_lock_is_conda_itself() -> None:
    changes = {**LOCK, "request_lock": known("linux.txt"), **has(NUMPY)}
    assert finding("CON001", **changes).fix.command == "conda create -p NEW_PREFIX --file linux.txt"


def test_a_spec_without_a_lock_is_judged_by_itself() -> None:
    changes = {
        **SPEC,
        "request_lock": NOT_APPLICABLE,
        "contract_packages": Absent(source="x", reason="vit has no lock"),
        **has(change(NUMPY, version="9"), TORCH, package("extra")),
    }
    assert con(**changes) == []


def test_another_machine_than_the_one_named_is_an_error_and_the_layer_is_said() -> None:
    found = finding("CON013", contract_baselines=(held("different"),))
    assert found.severity is Severity.ERROR
    assert found.title == "What was measured differs from h200 in tensors"
    assert "tensors vit.bf16.tensors" in [one.seen for one in found.evidence]


def test_a_report_that_only_the_spec_names_warns_unless_strict() -> None:
    by_spec = {**SPEC, "contract_baselines": (held("different", "spec vit@1.0.0"),)}
    assert finding("CON013", **by_spec).severity is Severity.WARNING
    assert finding("CON013", **{**by_spec, "request_strict": YES}).severity is Severity.ERROR


@pytest.mark.parametrize(("named_by", "against"), [("--against", True), ("spec vit@1.0.0", False)])
def test_only_what_the_user_asked_for_leaves_the_verdict_open(named_by: str, against: bool) -> None:  # noqa: FBT001
    checks = judged(contract_baselines=(held("incomplete", named_by),)).checks
    assert [one.against for one in checks if one.code == "CON013"] == [against]

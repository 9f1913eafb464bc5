from __future__ import annotations

from typing import Any

import msgspec
import pytest
from judged import (
    BROKEN,
    FAIL,
    GOOD,
    NO_TORCH,
    NOT_APPLICABLE,
    NOTHING,
    OLD_DRIVER,
    PASS,
    SKIP,
    UNKNOWN,
    UNREADABLE,
    codes,
    facts,
    failed,
    gpu,
    judged,
    library,
    packages,
    raised,
)

from envkit.model.facts import CondaPackage, Facts
from envkit.model.finding import Finding, Fix, Severity, Status
from envkit.model.observed import Known
from envkit.rules.engine import judge, observed, order
from envkit.rules.outcome import Fired, Outcome, fix, passed, seen
from envkit.rules.registry import RULES
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject


def rule(code: str, **changes: object) -> Rule:
    fields: dict[str, object] = {"title": code, "severity": Severity.ERROR, "check": fires}
    return Rule(code=code, url="https://example.org", **{**fields, **changes})  # type: ignore[arg-type]


def fires(_: Subject) -> Outcome:
    return Fired(reason="yes", evidence=(seen("a", "b", "c"),), fix=fix("mend it"))


def passes(_: Subject) -> Outcome:
    return passed("fine")


def statuses(rules: tuple[Rule, ...], read: Facts = GOOD) -> list[Status]:
    return [one.status for one in judge(read, rules).checks]


def test_on_a_machine_where_all_is_well_nothing_fires_and_nothing_is_unknown() -> None:
    result = judged()
    assert result.findings == ()
    assert [one for one in result.checks if one.status is UNKNOWN] == []


def test_every_rule_runs_and_says_why() -> None:
    checks = judged().checks
    assert [one.code for one in checks] == [one.code for one in RULES]
    assert all(one.reason for one in checks)


def test_a_rule_is_skipped_when_a_prerequisite_fires() -> None:
    assert statuses((rule("AAA001"), rule("AAA002", requires=("AAA001",)))) == [FAIL, SKIP]


def test_a_rule_runs_when_its_prerequisite_passes() -> None:
    first = rule("AAA001", check=passes)
    assert statuses((first, rule("AAA002", requires=("AAA001",)))) == [PASS, FAIL]


def test_an_unreadable_fact_makes_it_unknown_and_gives_the_reason() -> None:
    one = rule("AAA001", reads=("driver.version",))
    check = judge(facts(driver_version=UNREADABLE), (one,)).checks[0]
    assert check.status is UNKNOWN
    assert check.reason == "driver.version: no permission"


def test_a_fact_without_meaning_here_skips() -> None:
    one = rule("AAA001", reads=("driver.version",))
    assert statuses((one,), facts(driver_version=NOT_APPLICABLE)) == [SKIP]


def test_the_gate_comes_before_the_facts() -> None:
    one = rule("AAA001", reads=("driver.version",), gate=passes)
    assert statuses((one,), facts(driver_version=UNREADABLE)) == [PASS]


def test_of_a_machine_of_which_nothing_is_known_nothing_is_said() -> None:
    result = judge(NOTHING)
    assert result.findings == ()
    assert {one.status for one in result.checks} <= {UNKNOWN, SKIP, PASS}
    assert {one.status for one in result.checks if one.code.startswith("DRV")} == {UNKNOWN}


def test_prerequisites_come_before_the_rules_that_need_them() -> None:
    place = {one.code: at for at, one in enumerate(RULES)}
    late = [(one.code, need) for one in RULES for need in one.requires]
    assert [pair for pair in late if place[pair[1]] >= place[pair[0]]] == []


def test_causes_are_rules_and_form_no_circle() -> None:
    causes = {one.code: one.follows for one in RULES}
    assert {code for follows in causes.values() for code in follows} <= set(causes)
    for code, follows in causes.items():
        reached, todo = set(), list(follows)
        while todo:
            cause = todo.pop()
            assert cause != code, f"{code} would be its own cause"
            if cause not in reached:
                reached.add(cause)
                todo += causes[cause]


def test_every_fact_that_a_rule_reads_exists() -> None:
    for one in RULES:
        for path in one.reads:
            observed(GOOD, path)


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.code)
def test_a_rule_is_named_as_codes_are(one: Rule) -> None:
    assert one.code[:3].isalpha()
    assert one.code[3:].isdigit()
    assert one.title[0].isupper() or one.title.startswith(("torch", "nvidia", "nvJit", "triton"))
    assert not one.title.endswith(".")
    assert one.url.startswith("https://")


# -- causes -------------------------------------------------------------------------------------


def causes(**changes: Any) -> list[tuple[str, str | None]]:
    return [(one.code, one.caused_by) for one in judged(**changes).findings]


def test_a_shadowing_library_is_named_before_what_it_breaks() -> None:
    words = "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1"
    changes = raised(words) | {
        "environment_variables": {"LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64"}
    }
    assert causes(**changes) == [("LIB003", None), ("LIB006", "LIB003"), ("TOR002", "LIB006")]


def test_a_second_torch_is_named_before_its_torchvision() -> None:
    torch = CondaPackage(name="pytorch", version="1.6.0", build="cuda", channel="pytorch")
    changes = {
        "conda_packages": (torch,),
        "pip_distributions": packages(torch="1.9.0", torchvision="0.7.0"),
        "torch_version": "1.9.0+cu102",
        "torch_cuda": "10.2",
        "torch_numpy": "1.21.0",
        "python_version": "3.11.9",
        "torch_cudnn": 7605,
        "torch_cudnn_compiled": 7605,
        "torch_arch_list": ("sm_80",),
    }
    found = causes(**changes)
    assert found.index(("TOR004", None)) + 1 == found.index(("TOR005", "TOR004"))


def test_missing_kernels_explain_the_failed_self_test() -> None:
    changes = {
        "gpus_devices": (gpu("NVIDIA GeForce RTX 5090", "12.0"),),
        "torch_devices": (),
        "torch_self_tests": failed("CUDA error: no kernel image is available"),
    }
    assert causes(**changes) == [("GPU002", None), ("TOR009", "GPU002")]


def test_an_unpinned_wheel_is_a_consequence_of_the_driver_it_does_not_fit() -> None:
    changes = {**OLD_DRIVER, "torch_version": "2.11.0+cu130", "torch_cuda": "13.0"}
    assert causes(**changes)[:2] == [("DRV002", None), ("TOR012", "DRV002")]


def test_errors_come_first_with_their_cause_even_if_that_is_a_warning() -> None:
    found = [
        _finding("AAA001", Severity.WARNING),
        _finding("AAA002", Severity.WARNING),
        _finding("AAA003", Severity.ERROR, caused_by="AAA002"),
        _finding("AAA004", Severity.INFO),
        _finding("AAA005", Severity.INFO, caused_by="AAA003"),
    ]
    assert [one.code for one in order(found)] == ["AAA002", "AAA003", "AAA005", "AAA001", "AAA004"]


def _finding(code: str, severity: Severity, caused_by: str | None = None) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        title=code,
        evidence=(),
        fix=Fix(text=""),
        url="",
        caused_by=caused_by,
    )


def test_a_missing_torch_says_all_there_is_to_say_about_torch() -> None:
    assert codes(**NO_TORCH) == ["TOR001"]


def test_one_broken_driver_does_not_print_thirty_findings() -> None:
    assert codes(**OLD_DRIVER) == ["DRV002"]
    assert codes(**BROKEN) == ["DRV008"]


def test_facts_of_a_report_are_not_changed() -> None:
    before = msgspec.json.encode(GOOD)
    judge(GOOD)
    assert msgspec.json.encode(GOOD) == before


def test_what_was_not_mapped_from_outside_is_not_reported() -> None:
    driver = library("/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15")
    assert codes(torch_libraries=(driver,)) == []


def test_a_known_value_that_reads_like_nothing_is_unknown_and_not_an_error() -> None:
    result = judged(driver_version=Known(value="[N/A]", source="nvidia-smi"), **BROKEN)
    check = next(one for one in result.checks if one.code == "DRV002")
    assert check.status is UNKNOWN

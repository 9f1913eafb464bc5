from __future__ import annotations

from typing import Any

import pytest
from judged import (
    CPU_BUILD,
    FAIL,
    NO_GPU,
    NO_TORCH,
    NOT_APPLICABLE,
    NOT_KNOWN,
    PASS,
    SKIP,
    UNKNOWN,
    UNREADABLE,
    failed,
    finding,
    verdict,
)

from envkit.model.finding import Severity, Status

OLD, NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
EXPANDABLE = "expandable_segments:True"
UNMEASURED: dict[str, Any] = {
    "torch_allocator_settings": UNREADABLE,
    "torch_self_tests": NOT_APPLICABLE,
}


def asks(name: str, text: str, **more: str) -> dict[str, Any]:
    return {**UNMEASURED, "environment_variables": {name: text, **more}}


IN_EFFECT = {"torch_allocator_settings": {"expandable_segments": True}}
CASES: list[tuple[str, Status, dict[str, Any]]] = [
    ("ALC001", PASS, {}),
    ("ALC001", FAIL, {**asks(NEW, EXPANDABLE), "torch_version": "2.8.0+cu128"}),
    ("ALC001", FAIL, {**asks(NEW, EXPANDABLE), "torch_version": "2.9.1+cu128"}),
    ("ALC001", PASS, {**asks(NEW, EXPANDABLE), "torch_version": "2.9.1", **IN_EFFECT}),
    ("ALC001", PASS, {**asks(NEW, EXPANDABLE), "torch_version": "2.11.0", **IN_EFFECT}),
    (
        "ALC001",
        FAIL,
        {**asks(NEW, EXPANDABLE, **{OLD: "max_split_size_mb:64"}), "torch_version": "2.8.0"},
    ),
    ("ALC001", FAIL, {**asks(OLD, EXPANDABLE), "host_os": "windows"}),
    (
        "ALC001",
        FAIL,
        {**asks(OLD, EXPANDABLE), "torch_allocator_settings": {"expandable_segments": False}},
    ),
    ("ALC001", PASS, {**asks(OLD, EXPANDABLE), **IN_EFFECT}),
    (
        "ALC001",
        PASS,
        {
            **asks(OLD, "max_split_size_mb:128"),
            "torch_allocator_settings": {"max_split_size": 128 << 20},
        },
    ),
    ("ALC001", SKIP, {**CPU_BUILD, **asks(OLD, EXPANDABLE)}),
    ("ALC001", UNKNOWN, asks(OLD, EXPANDABLE)),
    ("ALC001", UNKNOWN, {"environment_variables": UNREADABLE}),
    ("ALC002", PASS, {}),
    ("ALC002", PASS, asks(OLD, EXPANDABLE)),
    ("ALC002", FAIL, asks(OLD, "per_process_memory_fraction:0.8")),
    (
        "ALC002",
        PASS,
        {**asks(OLD, "per_process_memory_fraction:0.8"), "torch_version": "2.10.0+cu128"},
    ),
    ("ALC002", FAIL, asks(OLD, "expandable_segments:true")),
    ("ALC002", FAIL, asks(OLD, "max_split_size_mb:5")),
    ("ALC002", FAIL, asks(OLD, "expandable_segments=True")),
    ("ALC002", FAIL, asks(OLD, "no_such_option:1")),
    ("ALC002", PASS, asks(NEW, "no_such_option:1")),
    ("ALC002", SKIP, {**CPU_BUILD, **asks(OLD, "no_such_option:1")}),
    ("ALC002", UNKNOWN, {**asks(OLD, "no_such_option:1"), "torch_version": "2.99.0"}),
    ("ALC003", PASS, {}),
    ("ALC003", PASS, asks(OLD, EXPANDABLE)),
    ("ALC003", FAIL, {**asks(OLD, EXPANDABLE), "host_jetson": True}),
    ("ALC003", FAIL, {**asks(OLD, EXPANDABLE), "host_os": "wsl"}),
    ("ALC003", FAIL, {**asks(OLD, EXPANDABLE), "host_kernel": "5.4.0-204-generic"}),
    (
        "ALC003",
        FAIL,
        {
            **asks(OLD, EXPANDABLE),
            "torch_self_tests": failed("CUDA driver error: out of memory"),
        },
    ),
    ("ALC003", SKIP, {**asks(OLD, EXPANDABLE), **NO_GPU}),
    ("ALC003", SKIP, {**CPU_BUILD, **asks(OLD, EXPANDABLE)}),
    ("ALC003", UNKNOWN, {**asks(OLD, EXPANDABLE), "host_os": UNREADABLE}),
    ("ALC004", PASS, {}),
    ("ALC004", PASS, asks(OLD, EXPANDABLE)),
    ("ALC004", FAIL, {**asks(OLD, EXPANDABLE), "torch_version": "2.11.0+cu130"}),
    ("ALC004", PASS, {**asks(OLD, EXPANDABLE), "torch_version": "2.9.1+cu128"}),
    ("ALC004", SKIP, {**asks(OLD, EXPANDABLE), **NO_TORCH}),
    ("ALC004", UNKNOWN, {**asks(OLD, EXPANDABLE), "torch_version": UNREADABLE}),
    ("ALC005", PASS, {}),
    ("ALC005", FAIL, {"torch_allocator_conforms": False}),
    ("ALC005", SKIP, {"torch_allocator_conforms": NOT_APPLICABLE}),
    ("ALC005", UNKNOWN, {"request_suite": "quick", "torch_allocator_conforms": NOT_KNOWN}),
]


@pytest.mark.parametrize(("code", "status", "changes"), CASES)
def test_rule(code: str, status: Status, changes: dict[str, Any]) -> None:
    assert verdict(code, **changes) is status


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({"host_os": "wsl"}, Severity.WARNING),
        ({"host_jetson": True}, Severity.ERROR),
        (
            {"host_os": "wsl", "torch_self_tests": failed("cuMemSetAccess: unknown error")},
            Severity.ERROR,
        ),
    ],
)
def test_an_untried_platform_is_a_warning_and_a_failure_an_error(
    changes: dict[str, Any], severity: Severity
) -> None:
    found = finding("ALC003", **{**asks(OLD, EXPANDABLE), **changes})
    assert found.severity is severity


def test_the_name_that_works_is_put_into_the_command() -> None:
    found = finding("ALC001", **asks(NEW, EXPANDABLE), torch_version="2.8.0+cu128")
    assert found.fix.command == f"export {OLD}={EXPANDABLE}"

"""`envkit verify` on machines made of fakes: the whole live path as a process, with exit codes.

The first twelve are machines that other checkers were compared on; the labels are those of the
compatibility tables' sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live_machine import Machine, build_libraries, install
from running import run_envkit

from envkit.model import codec
from envkit.model.report import Report

OLD_ARCHS = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
CU128_ARCHS = "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
CU130_ARCHS = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
TOO_OLD = "The NVIDIA driver on your system is too old (found version 12080)."
H200 = {"gpu": "NVIDIA H200", "capability": "9.0", "memory_bytes": 141 << 30}
CU124 = {"torch": "2.6.0+cu124", "cuda": "12.4", "archs": OLD_ARCHS, "cudnn": 90100}
CU126 = {"torch": "2.9.1+cu126", "cuda": "12.6", "archs": OLD_ARCHS, "cudnn": 91002}
CU128 = {"torch": "2.9.1+cu128", "cuda": "12.8", "archs": CU128_ARCHS, "cudnn": 91002}
CU130 = {"torch": "2.11.0+cu130", "cuda": "13.0", "archs": CU130_ARCHS, "cudnn": 91900}


def machine(*parts: dict[str, object], **more: object) -> Machine:
    fields: dict[str, object] = {}
    for part in (*parts, more):
        fields |= part
    return Machine(**fields)  # type: ignore[arg-type]


#: Machine, exit code, codes that must and codes that must not be reported.
Case = tuple[Machine, int, set[str], set[str]]
MACHINES: dict[str, Case] = {
    "older than the toolkit, over the floor": (
        machine(CU124, driver="535.146.02"), 0, {"DRV003"}, {"DRV002", "GPU002"},
    ),
    "R550 and CUDA 12.6": (
        machine(CU126, driver="550.54.15"), 0, {"DRV003"}, {"DRV002", "GPU002"},
    ),
    "exactly the floor": (
        machine(CU128, driver="525.60.13"), 0, {"DRV003"}, {"DRV002", "GPU002"},
    ),
    "R570 and CUDA 13": (
        machine(CU130, H200, driver="570.124.06", works=False, words=TOO_OLD),
        1, {"DRV002"}, {"DRV003", "DRV004", "GPU002", "DRV008"},
    ),
    "R470 and CUDA 12": (
        machine(
            torch="2.5.1+cu121", cuda="12.1", archs=OLD_ARCHS, cudnn=90100, works=False,
            driver="470.129.06", words=TOO_OLD,
        ),
        1, {"DRV002"}, {"DRV003", "DRV004", "GPU002", "DRV008"},
    ),
    "all as new as it should be": (machine(CU130, H200), 0, set(), {"DRV002", "DRV003", "GPU002"}),
    "an older build": (machine(CU126, H200), 0, set(), {"DRV002", "DRV003", "GPU002"}),
    "a CPU build": (
        machine(H200, torch="2.11.0+cpu", cuda=None, works=False),
        1, {"TOR003"}, {"DRV001", "DRV002", "GPU002", "DRV008"},
    ),
    "a GPU newer than the build": (
        machine(CU124, gpu="NVIDIA GeForce RTX 5090", capability="12.0", memory_bytes=32 << 30),
        1, {"GPU002"}, {"DRV002"},
    ),
    "a GPU older than the build": (
        machine(CU130, gpu="Tesla V100-SXM2-32GB", capability="7.0", memory_bytes=32 << 30),
        1, {"GPU002", "LIB009"}, {"DRV002"},
    ),
    "the oldest GPU of the build": (
        machine(CU130, gpu="Tesla T4", capability="7.5", memory_bytes=16 << 30),
        0, set(), {"GPU002", "LIB009", "DRV002", "DRV003"},
    ),
    "a driver newer than the tables": (
        machine(CU130, H200, driver="595.45.04"), 0, set(), {"DRV002", "DRV003", "GPU002"},
    ),
    "no driver and no GPU": (
        machine(CU128, driver=None, works=False), 0, {"GPU001"}, {"DRV001", "DRV002", "DRV008"},
    ),
    "under the floor and it works": (
        machine(CU124, driver="470.161.03"), 0, {"DRV004"}, {"DRV002"},
    ),
    "the fabric manager is not running": (
        machine(CU128, H200, works=False, init_error=802,
                words="Error 802: system not yet initialized"),
        1, {"DRV007"}, {"DRV008", "DRV002"},
    ),
    "the halves of the driver differ": (
        machine(CU128, works=False, init_error=803, nvml_error=18,
                words="Error 803: system has unsupported display driver / cuda driver combination"),
        1, {"DRV006"}, {"DRV008", "DRV002", "DRV001"},
    ),
    "forward compatibility on a GeForce": (
        machine(CU128, gpu="NVIDIA GeForce RTX 3090", capability="8.6", works=False, init_error=804,
                words="Error 804: forward compatibility was attempted on non supported HW"),
        1, {"DRV005"}, {"DRV008", "DRV002"},
    ),
    "after suspend": (
        machine(CU128, works=False, init_error=999, words="CUDA unknown error"),
        1, {"DRV008"}, {"DRV002", "GPU007"},
    ),
    "a GPU full of somebody else": (
        machine(CU128, works=False, used_bytes=(80 << 30) - (64 << 20), init_error=2,
                words="Error 2: out of memory"),
        3, {"GPU006"}, {"DRV008", "TOR009", "DRV002"},
    ),
    "a neighbour": (machine(CU130, H200, used_bytes=8 << 30), 0, {"GPU006"}, {"DRV008"}),
}  # fmt: skip


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_libraries(tmp_path_factory.mktemp("fakes") / "libraries")


def verify(python: Path, variables: dict[str, str], *more: str) -> tuple[int, Report]:
    options: dict[str, Any] = dict(variables)
    done = run_envkit("verify", "--no-fingerprint", "--json", "--python", python, *more, **options)
    assert done.stderr == ""
    return done.returncode, codec.decode(done.stdout.encode(), Report, origin="stdout")


@pytest.mark.parametrize("name", MACHINES)
def test_the_live_verdict(name: str, tmp_path: Path, libraries: Path) -> None:
    made, exit_code, must, must_not = MACHINES[name]
    python, variables = install(made, tmp_path, libraries)
    code, report = verify(python, variables)
    found = {one.code: one for one in report.findings}
    assert code == report.verdict.exit_code == exit_code, report.verdict.headline
    assert must <= set(found)
    assert not must_not & set(found)
    errors = {one.code for one in report.findings if one.severity.value == "error"}
    assert errors <= must
    if exit_code == 1:
        assert report.findings[0].code in must
    if exit_code == 3:
        assert "GPU006" in report.verdict.headline


def test_the_facts_are_those_of_the_fakes(tmp_path: Path, libraries: Path) -> None:
    made = MACHINES["a neighbour"][0]
    python, variables = install(made, tmp_path, libraries)
    _, report = verify(python, variables)
    text = codec.encode(report.facts).decode()
    for said in ("580.95.05", "NVIDIA H200", "2.11.0+cu130", str(8 << 30), "sm_120"):
        assert said in text


def test_a_gpu_that_is_needed_and_hidden(tmp_path: Path, libraries: Path) -> None:
    made = machine(CU130, H200, works=False)
    python, variables = install(made, tmp_path, libraries)
    variables["CUDA_VISIBLE_DEVICES"] = "4"
    code, report = verify(python, variables, "--device", "cuda")
    assert (code, report.findings[0].code) == (1, "GPU007")


def test_without_a_fingerprint_nothing_is_left_open_on_a_good_machine(
    tmp_path: Path, libraries: Path
) -> None:
    python, variables = install(MACHINES["all as new as it should be"][0], tmp_path, libraries)
    _, report = verify(python, variables)
    status = {one.code: one.status.value for one in report.checks}
    assert status["ALC005"] == "skip"

from __future__ import annotations

from typing import Any

import pytest
from judged import (
    ABSENT,
    BROKEN,
    CPU_BUILD,
    FAIL,
    NO_GPU,
    NO_TORCH,
    NOT_APPLICABLE,
    NOT_KNOWN,
    NOTHING_OF_TORCH,
    OLD_DRIVER,
    PASS,
    ROCM,
    SKIP,
    UNKNOWN,
    UNREADABLE,
    failed,
    finding,
    gpu,
    packages,
    raised,
    verdict,
)

from envkit.model.facts import CondaPackage, ImportFailure, PipDistribution
from envkit.model.finding import Severity, Status
from envkit.model.observed import Known
from envkit.rules.import_failure import classify

CONDA = CondaPackage(
    name="pytorch", version="2.5.1", build="py3.12_cuda12.4_cudnn9.1.0_0", channel="pytorch"
)
NO_PACKAGES: dict[str, Any] = {"pip_distributions": UNREADABLE, "conda_packages": UNREADABLE}


def pip(**versions: str) -> dict[str, Any]:
    return {"pip_distributions": packages(**versions)}


def requiring(name: str, version: str, *requires: str) -> PipDistribution:
    return PipDistribution(name=name, version=version, installer="pip", requires=requires)


CASES: list[tuple[str, Status, dict[str, Any]]] = [
    ("TOR001", PASS, {}),
    ("TOR001", PASS, {"torch_version": UNREADABLE}),
    ("TOR001", FAIL, NO_TORCH),
    ("TOR001", SKIP, {"torch_version": NOT_APPLICABLE}),
    ("TOR001", UNKNOWN, NOTHING_OF_TORCH),
    ("TOR002", PASS, {}),
    ("TOR002", FAIL, raised("ImportError: libtorch_cpu.so: undefined symbol: foo")),
    (
        "TOR002",
        FAIL,
        {"torch_import_failure": ImportFailure(how="timed_out", message="importing_torch")},
    ),
    ("TOR002", SKIP, {"torch_import_failure": NOT_APPLICABLE}),
    ("TOR002", SKIP, NO_TORCH),
    ("TOR002", UNKNOWN, {"torch_import_failure": UNREADABLE}),
    ("TOR003", PASS, {}),
    ("TOR003", FAIL, CPU_BUILD),
    ("TOR003", FAIL, {**CPU_BUILD, "torch_version": "2.5.1"}),
    ("TOR003", SKIP, {**CPU_BUILD, **NO_GPU}),
    ("TOR003", SKIP, {**CPU_BUILD, "driver_version": ABSENT}),
    ("TOR003", SKIP, ROCM),
    ("TOR003", UNKNOWN, {**CPU_BUILD, "driver_version": UNREADABLE}),
    ("TOR004", PASS, {}),
    ("TOR004", FAIL, {"conda_packages": (CONDA,)}),
    (
        "TOR004",
        PASS,
        {
            "conda_packages": (CONDA,),
            "pip_distributions": (
                PipDistribution(name="torch", version="2.5.1", installer="conda"),
            ),
        },
    ),
    (
        "TOR004",
        FAIL,
        {
            "pip_distributions": NOT_KNOWN,
            "conda_packages": (
                CONDA,
                CondaPackage(name="torch", version="2.5.1", build="pypi_0", channel="pypi"),
            ),
        },
    ),
    ("TOR004", FAIL, pip(torch="2.8.0")),
    ("TOR004", SKIP, NO_TORCH),
    ("TOR004", UNKNOWN, NO_PACKAGES),
    ("TOR010", UNKNOWN, {"pip_distributions": NOT_KNOWN}),
    ("TOR005", PASS, {}),
    ("TOR005", FAIL, pip(torchvision="0.20.0")),
    ("TOR005", FAIL, pip(torchvision="0.19.1")),
    ("TOR005", FAIL, pip(torchaudio="2.4.0")),
    ("TOR005", FAIL, pip(torchaudio="2.5.0")),
    ("TOR005", PASS, pip(torchaudio="2.5.1")),
    ("TOR005", FAIL, pip(torchvision="0.20.1+cu121")),
    ("TOR005", FAIL, pip(torchvision="0.20.1+cpu")),
    ("TOR005", FAIL, {**pip(torchvision="0.20.1"), "host_os": "windows"}),
    ("TOR005", FAIL, {"torch_self_tests": failed("no nms", "torchvision_nms")}),
    ("TOR005", PASS, {**pip(torchvision="0.22.0.dev1"), "torch_version": "2.7.0.dev20250310"}),
    ("TOR005", PASS, pip(torchvision="0.20.1+cu124", torchaudio="2.5.1")),
    (
        "TOR005",
        FAIL,
        {"pip_distributions": (requiring("torchaudio", "9.9.9", "torch==9.9.9"),)},
    ),
    ("TOR005", SKIP, pip(numpy="2.1.3")),
    ("TOR005", UNKNOWN, NO_PACKAGES),
    ("TOR006", PASS, {}),
    ("TOR006", FAIL, {"python_version": "3.14.0"}),
    ("TOR006", FAIL, {"python_version": "3.9.19"}),
    ("TOR006", FAIL, {"python_version": "3.10.14"}),
    ("TOR006", PASS, {"python_version": "3.11.9"}),
    ("TOR006", FAIL, {"python_version": "3.8.19", "torch_version": "2.4.1+cu121"}),
    ("TOR006", SKIP, NO_TORCH),
    ("TOR006", UNKNOWN, {"python_version": UNREADABLE}),
    ("TOR006", UNKNOWN, {"torch_version": "2.99.0"}),
    ("TOR007", PASS, {}),
    ("TOR007", FAIL, {"torch_version": "2.2.2+cu121"}),
    ("TOR007", PASS, {"torch_version": "2.2.2+cu121", "torch_numpy": "1.26.4"}),
    ("TOR007", PASS, {"torch_version": "2.4.1+cu121"}),
    ("TOR007", FAIL, {"torch_version": "2.4.0+cu121", "host_os": "windows"}),
    ("TOR007", SKIP, {**pip(torch="2.5.1"), "torch_numpy": ABSENT}),
    ("TOR007", UNKNOWN, {"torch_numpy": UNREADABLE, "pip_distributions": UNREADABLE}),
    ("TOR008", PASS, {}),
    ("TOR008", FAIL, {"torch_version": "2.99.0+cu140"}),
    ("TOR008", SKIP, NO_TORCH),
    ("TOR008", UNKNOWN, {"torch_version": UNREADABLE}),
    ("TOR009", PASS, {}),
    ("TOR009", FAIL, {"torch_self_tests": failed("wrong result: 0 instead of 3")}),
    ("TOR009", SKIP, {"torch_self_tests": NOT_APPLICABLE}),
    ("TOR009", SKIP, raised("ImportError: something")),
    ("TOR009", UNKNOWN, {"torch_self_tests": UNREADABLE}),
    ("TOR010", PASS, {}),
    ("TOR010", FAIL, pip(triton="3.0.0")),
    (
        "TOR010",
        FAIL,
        {
            "pip_distributions": (
                requiring("torch", "2.5.1", 'triton==3.9.9; platform_system == "Linux"'),
                requiring("triton", "3.1.0"),
            )
        },
    ),
    ("TOR010", SKIP, pip(numpy="2.1.3")),
    ("TOR010", UNKNOWN, {"torch_version": "2.99.0+cu124"}),
    ("TOR011", PASS, pip(flash_attn="2.5.9+cu122torch2.5cxx11abifalse")),
    ("TOR011", PASS, pip(somepackage="1.0+cu118")),
    ("TOR011", FAIL, pip(flash_attn="2.5.9+cu122torch2.3cxx11abifalse")),
    ("TOR011", FAIL, pip(torch_scatter="2.1.2+pt25cu118")),
    ("TOR011", FAIL, pip(xformers="0.0.28+cu118")),
    ("TOR011", SKIP, ROCM),
    ("TOR011", UNKNOWN, {"pip_distributions": UNREADABLE}),
    ("TOR012", PASS, {}),
    ("TOR012", FAIL, {**BROKEN, "torch_version": "2.11.0+cu130", "torch_cuda": "13.0"}),
    (
        "TOR012",
        PASS,
        {**BROKEN, "torch_version": "2.11.0", "torch_cuda": "13.0", "torch_channel": "pytorch"},
    ),
    ("TOR012", SKIP, NO_GPU),
    ("TOR012", SKIP, {**CPU_BUILD}),
    ("TOR012", UNKNOWN, {"driver_version": UNREADABLE}),
    ("TOR013", PASS, {}),
    ("TOR013", FAIL, {"torch_version": "2.9.1+cu128", "torch_cudnn": 91002}),
    ("TOR013", PASS, {"torch_version": "2.9.1+cu128", "torch_cudnn": 91501}),
    ("TOR013", FAIL, {"torch_version": "2.0.1+cu118", "torch_cudnn": 8700}),
    ("TOR013", SKIP, NO_GPU),
    ("TOR013", SKIP, {**BROKEN, "torch_version": "2.9.1+cu128", "torch_cudnn": 91002}),
    ("TOR013", UNKNOWN, {"torch_version": UNREADABLE}),
]


@pytest.mark.parametrize(("code", "status", "changes"), CASES)
def test_rule(code: str, status: Status, changes: dict[str, Any]) -> None:
    assert verdict(code, **changes) is status


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent", "MKL without"),
        ("libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1", "nvJitLink"),
        ("libtorch_cuda.so: undefined symbol: ncclCommRegister", "NCCL"),
        ("/lib64/libc.so.6: version `GLIBC_2.28' not found", "C or C++ library"),
        ("libtorch.so: undefined symbol: foo", "undefined symbol"),
        ("libcudart.so.12: cannot open shared object file", "library missing"),
        ("libcudnn.so.9: cannot open shared object file", "library missing"),
        ("libnccl.so.2: cannot open shared object file", "library missing"),
        ("libcuda.so.1: cannot open shared object file", "the driver's library is missing"),
        ("cuDNN version incompatibility", "cuDNN of another version"),
        ("No module named 'typing_extensions'", "package is missing"),
        ("something nobody has seen", "not classified"),
    ],
)
def test_import_failures_are_told_apart(message: str, kind: str) -> None:
    found = finding("TOR002", **raised(message))
    assert kind in next(one.seen for one in found.evidence if one.what == "kind")


@pytest.mark.parametrize(
    ("how", "kind"),
    [("timed_out", "in time"), ("crashed", "crashed"), ("exited", "ended Python")],
)
def test_an_import_that_said_nothing_is_told_by_its_end(how: Any, kind: str) -> None:
    failure = ImportFailure(how=how, message="importing_torch")
    found = finding("TOR002", **raised("") | {"torch_import_failure": failure})
    assert kind in next(one.seen for one in found.evidence if one.what == "kind")
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize(
    "words",
    [
        "Failed to initialize NumPy: No module named 'numpy'",
        "UserWarning: No module named 'onnx', its exporter is not there",
    ],
)
def test_a_warning_of_a_missing_package_is_not_why_python_crashed(words: str) -> None:
    failure = ImportFailure(how="crashed", message="SIGSEGV, last stage: importing_torch")
    told = Known(value=words, source="standard error")
    given = raised("") | {"torch_import_failure": failure, "torch_stderr_tail": told}
    kinds = [one.seen for one in finding("TOR002", **given).evidence if one.what == "kind"]
    assert kinds == ["the interpreter crashed"]


def test_torch_without_numpy_only_warns() -> None:
    warning = "Failed to initialize NumPy: No module named 'numpy'"
    assert classify(f"RuntimeError: something else\n{warning}", "raised").name == "not classified"


def test_a_cpu_build_by_conda_is_mended_by_conda() -> None:
    record = CondaPackage(
        name="pytorch", version="2.5.1", build="cpu_mkl_py312_0", channel="conda-forge"
    )
    found = finding(
        "TOR003",
        **{**CPU_BUILD, "torch_version": "2.5.1"},
        torch_installer="conda",
        torch_channel="conda-forge",
        conda_packages=(record,),
        conda_prefix="~/envs/vit",
    )
    assert "cpu_mkl_py312_0" in " ".join(one.seen for one in found.evidence)
    assert found.fix.command is not None
    assert found.fix.command.startswith("conda install -p ~/envs/vit --override-channels")
    assert "=cuda12" in found.fix.command


def test_cpuonly_is_named() -> None:
    record = CondaPackage(name="cpuonly", version="2.0", build="0", channel="pytorch")
    assert "cpuonly" in finding("TOR003", **CPU_BUILD, conda_packages=(record,)).fix.text


def test_uv_is_asked_where_uv_installed() -> None:
    found = finding("TOR003", **CPU_BUILD, torch_installer="uv")
    assert found.fix.command is not None
    assert found.fix.command.startswith(
        "uv pip install --python ~/vit/bin/python --reinstall-package torch torch=="
    )


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("TOR005", {"torch_self_tests": failed("no nms", "torchvision_nms")}),
        (
            "TOR007",
            {
                "torch_version": "2.2.2+cu121",
                "torch_self_tests": failed("Numpy is not available", "numpy"),
            },
        ),
    ],
)
def test_what_was_seen_to_fail_is_an_error(code: str, changes: dict[str, Any]) -> None:
    assert finding(code, **changes).severity is Severity.ERROR


def test_a_companion_without_kernels_is_no_companion_of_another_torch() -> None:
    changes = {"torch_self_tests": failed("no kernel image is available", "torchvision_nms")}
    assert verdict("TOR005", **changes) is PASS


def test_the_default_wheel_of_pypi_is_named_where_the_driver_is_too_old_for_it() -> None:
    changes = {**OLD_DRIVER, "torch_version": "2.11.0+cu130", "torch_cuda": "13.0"}
    found = finding("TOR012", **changes)
    assert found.caused_by == "DRV002"
    assert found.severity is Severity.INFO


def test_a_missing_library_is_named_with_the_command_that_brings_it() -> None:
    found = finding("TOR002", **raised("libcudnn.so.9: cannot open shared object file"))
    assert found.fix.text.startswith("libcudnn.so.9 is missing. ")
    assert "another version" not in found.fix.text
    assert found.fix.command is not None
    assert "--force-reinstall torch==2.5.1" in found.fix.command


def test_a_missing_driver_library_is_not_mended_by_another_torch() -> None:
    found = finding("TOR002", **raised("libcuda.so.1: cannot open shared object file"))
    assert found.fix.text.startswith("libcuda.so.1 is missing. It comes with the NVIDIA driver.")
    assert found.fix.command is None


def test_the_kind_of_an_import_failure_is_told_with_a_source_in_words() -> None:
    found = finding("TOR002", **raised("anything"))
    assert not [one.source for one in found.evidence if one.source.endswith(".py")]


@pytest.mark.parametrize(
    ("other", "changes"),
    [
        ("DRV002", OLD_DRIVER),
        ("GPU002", {"gpus_devices": (gpu("Tesla K80", "3.7"),), "torch_devices": ()}),
    ],
)
def test_companions_follow_the_torch_that_another_finding_advises(
    other: str, changes: dict[str, Any]
) -> None:
    wrong = {**changes, **pip(torch="2.5.1", torchvision="0.19.1")}
    assert finding(other, **wrong).code == other
    found = finding("TOR005", **wrong)
    assert other in found.fix.text
    assert found.fix.command is None
    alone = finding("TOR005", **pip(torch="2.5.1", torchvision="0.19.1"))
    assert alone.fix.command is not None
    assert "torch==2.5.1" in alone.fix.command

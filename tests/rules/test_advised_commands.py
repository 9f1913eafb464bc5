"""The commands of fixes: what they install runs on this driver and these GPUs, and is the target's.

The torch that a command names is read out of its text and held against the tables.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import (
    ABSENT,
    BROKEN,
    CPU_BUILD,
    NOT_KNOWN,
    OLD_DRIVER,
    facts,
    failed,
    finding,
    gpu,
    judged,
    raised,
)

from envkit.compat import tables
from envkit.compat.tables import Fit, Requirement
from envkit.model.facts import CondaPackage
from envkit.model.versions import parse_cuda_tag, parse_driver
from envkit.rules.engine import judge

MODELS = (
    ("Tesla K80", "3.7"), ("NVIDIA GeForce GTX 1080", "6.1"), ("Tesla V100-SXM2-32GB", "7.0"),
    ("Tesla T4", "7.5"), ("NVIDIA A100-SXM4-80GB", "8.0"), ("NVIDIA GeForce RTX 4090", "8.9"),
    ("NVIDIA H200", "9.0"), ("NVIDIA B200", "10.0"), ("NVIDIA GeForce RTX 5090", "12.0"),
)  # fmt: skip
DRIVERS = (
    "418.87.00", "450.80.02", "470.129.06", "510.47.03", "525.60.12", "525.60.13", "535.146.02",
    "550.54.15", "560.35.05", "570.124.06", "580.65.05", "580.65.06", "580.95.05", "595.45.04",
)  # fmt: skip
BUILDS = (
    ("1.8.1+cu111", "11.1"), ("2.0.1+cu118", "11.8"), ("2.5.1+cu121", "12.1"),
    ("2.6.0+cu124", "12.4"), ("2.9.1+cu128", "12.8"), ("2.11.0+cu130", "13.0"),
)  # fmt: skip
CONDA: dict[str, Any] = {
    "torch_installer": "conda",
    "torch_channel": "conda-forge",
    "pip_distributions": (),
    "conda_prefix": "/opt/conda/envs/vit",
    "conda_packages": (
        CondaPackage(name="pytorch", version="2.5.1", build="cpu_generic", channel="conda-forge"),
        CondaPackage(name="torchvision", version="0.20.1", build="cpu", channel="conda-forge"),
    ),
}
NCCL = "ImportError: undefined symbol: ncclCommRegister"
_WHEEL = re.compile(r"torch==([\d.]+) .*?/whl/(cu\d+)")
_FORGE = re.compile(r"pytorch=([\d.]+)=\*?cuda(\d{2})(\d)\*")


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    version, cuda = draw(st.sampled_from(BUILDS))
    models = draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=2))
    changes: dict[str, Any] = {
        "torch_version": version,
        "torch_cuda": cuda,
        "torch_arch_list": NOT_KNOWN,
        "torch_cudnn": NOT_KNOWN,
        "torch_cudnn_compiled": NOT_KNOWN,
        "torch_devices": (),
        "torch_cuda_available": draw(st.sampled_from([True, False, NOT_KNOWN])),
        "driver_version": draw(st.sampled_from([*DRIVERS, NOT_KNOWN])),
        "gpus_devices": tuple(gpu(name, cc, index=at) for at, (name, cc) in enumerate(models)),
        "python_version": draw(st.sampled_from(["3.8.18", "3.10.14", "3.12.7", "3.13.1"])),
        "host_glibc": draw(st.sampled_from(["2.17", "2.27", "2.31", "2.39"])),
    }
    extra: dict[str, Any] = draw(
        st.sampled_from(
            [{}, CPU_BUILD | {"torch_cuda_available": False}, CONDA, CONDA | CPU_BUILD,
             failed_kernel(), raised(NCCL)]
        )
    )  # fmt: skip
    return changes | extra


def failed_kernel() -> dict[str, Any]:
    return {"torch_self_tests": failed("CUDA error: no kernel image is available")}


@given(machines())
def test_an_advised_torch_runs_on_this_driver_and_these_gpus(changes: dict[str, Any]) -> None:
    read = facts(**changes)
    for found in judge(read).findings:
        command = found.fix.command or ""
        if found.code == "TOR005":
            continue  # the companions of the torch that is there, whatever it runs on
        for version, tag, channel in _named(command):
            _check_runs(changes, version, tag, channel)


def _named(command: str) -> list[tuple[str, str, str]]:
    wheels = [(version, tag, "wheel") for version, tag in _WHEEL.findall(command)]
    forge = [
        (one, f"cu{major}{minor}", "conda-forge") for one, major, minor in _FORGE.findall(command)
    ]
    return wheels + forge


def _check_runs(changes: dict[str, Any], version: str, tag: str, channel: Any) -> None:
    same = changes["torch_version"] == f"{version}+{tag}"
    needed = tables.least_driver("{}.{}".format(*parse_cuda_tag(tag)), "linux")
    assert isinstance(needed, Requirement)
    driver = changes["driver_version"]
    if driver in DRIVERS and not same:
        assert parse_driver(driver) >= needed.number
    if same:
        return  # put in place once more, its libraries being mixed
    assert tables.python_fits(version, changes["python_version"]) is not False
    for card in changes["gpus_devices"]:
        capability = card.compute_capability.value
        run = tables.runs_on(version, tag, "linux_x86_64", capability, channel=channel)
        assert run.fit is Fit.NATIVE, (version, tag, capability)


@pytest.mark.parametrize(
    ("code", "changes", "command"),
    [
        (
            "DRV002",
            OLD_DRIVER,
            (
                "~/vit/bin/python -m pip install --force-reinstall torch==2.7.1 torchvision "
                "--index-url https://download.pytorch.org/whl/cu118"
            ),
        ),
        (
            "TOR003",
            {**CPU_BUILD, **CONDA, "driver_version": "580.95.05"},
            (
                "conda install -p /opt/conda/envs/vit --override-channels -c conda-forge "
                "'pytorch=2.13.0=cuda130*' torchvision"
            ),
        ),
        (
            "LIB007",
            {
                **raised("ImportError: undefined symbol: ncclCommRegister"),
                "torch_channel": "pytorch",
            },
            (
                "~/vit/bin/python -m pip install --force-reinstall torch==2.5.1 "
                "torchvision==0.20.1 --index-url https://download.pytorch.org/whl/cu124"
            ),
        ),
        (
            "LIB001",
            {"torch_cudnn": 90000, "pip_distributions": None},
            (
                "~/vit/bin/python -m pip install --force-reinstall torch==2.5.1 "
                "--index-url https://download.pytorch.org/whl/cu124"
            ),
        ),
    ],
)
def test_commands_name_the_build(code: str, changes: dict[str, Any], command: str) -> None:
    if changes.get("pip_distributions", ()) is None:
        changes = {**changes, "pip_distributions": ()}
    assert finding(code, **changes).fix.command == command


def test_a_driver_that_is_not_named_is_at_least_the_one_that_works() -> None:
    changes = {
        "torch_version": "2.9.1+cu128",
        "torch_cuda": "12.8",
        "torch_arch_list": NOT_KNOWN,
        "torch_devices": (),
        "driver_version": NOT_KNOWN,
        "gpus_devices": (gpu("NVIDIA GeForce GTX 1080", "6.1"),),
    }
    command = finding("GPU002", **changes).fix.command
    assert command is not None
    assert "/whl/cu126" in command
    assert finding("GPU002", **changes, torch_cuda_available=NOT_KNOWN).fix.command is None


def test_cpuonly_is_removed_before_a_cuda_build_is_installed() -> None:
    only = CondaPackage(name="cpuonly", version="2.0", build="0", channel="pytorch")
    packages = (*CONDA["conda_packages"], only)
    changes = {**CPU_BUILD, **CONDA, "conda_packages": packages}
    command = finding("TOR003", **changes).fix.command
    assert command is not None
    assert command.startswith("conda remove -p /opt/conda/envs/vit cpuonly && conda install")


def test_uv_is_told_what_uv_understands() -> None:
    command = finding("DRV002", **OLD_DRIVER, torch_installer="uv").fix.command
    assert command is not None
    assert command.startswith("uv pip install --python ~/vit/bin/python --reinstall-package torch")


def test_windows_gets_its_own_words() -> None:
    changes = {"host_os": "windows", "environment_variables": {"CUDA_VISIBLE_DEVICES": "9"}}
    assert finding("GPU007", **changes).fix.command == "set CUDA_VISIBLE_DEVICES="
    lost = finding("DRV008", **BROKEN, host_os="windows", driver_libcuda=ABSENT)
    assert lost.fix.command is None
    assert "Windows" in lost.fix.text


@given(machines())
def test_every_command_is_one_line_that_a_shell_can_read(changes: dict[str, Any]) -> None:
    for found in judged(**changes).findings:
        command = found.fix.command
        if command is not None:
            assert "\n" not in command
            assert shlex.split(command)

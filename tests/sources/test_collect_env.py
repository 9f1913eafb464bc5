"""Pastes of collect_env: every layout, every kind of damage, and nothing taken for what it is not.

The texts are made here after the layouts that torch 1.8 to 2.15 print; none is anybody's paste.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.model.facts import Facts
from envkit.model.observed import NOT_RECORDED, Absent, Known, NotApplicable, Unreadable, value_of
from envkit.sources.collect_env import read_collect_env
from envkit.sources.collect_env_text import is_collect_env

CUDA = """\
Collecting environment information...
PyTorch version: 2.9.1+cu128
Is debug build: False
CUDA used to build PyTorch: 12.8
ROCM used to build PyTorch: N/A

OS: Ubuntu 24.04.3 LTS (x86_64)
GCC version: (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0
Clang version: Could not collect
CMake version: version 4.1.0
Libc version: glibc-2.39

Python version: 3.12.11 (main, Jun  4 2025, 08:56:18) [GCC 13.3.0] (64-bit runtime)
Python platform: Linux-6.8.0-79-generic-x86_64-with-glibc2.39
Is CUDA available: True
CUDA runtime version: 12.0.140
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:
GPU 0: NVIDIA A100-SXM4-80GB
GPU 1: NVIDIA L4

Nvidia driver version: 570.124.06
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7
/usr/lib/x86_64-linux-gnu/libcudnn_adv_infer.so.8.9.7
Is XPU available: False
HIP runtime version: N/A
MIOpen runtime version: N/A
Is XNNPACK available: True

CPU:
Architecture:                            x86_64
Model name:                              An Example CPU @ 2.00GHz

Versions of relevant libraries:
[pip3] numpy==2.3.4
[pip3] nvidia-cudnn-cu12==9.10.2.21
[pip3] torch==2.9.1
[pip3] torchvision==0.24.1
[pip3] triton==3.5.1
[conda] numpy                     2.3.4                    pypi_0    pypi
[conda] torch                     2.9.1                    pypi_0    pypi
"""


def flat(text: str) -> str:
    return " ".join(text.split())


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines())


def sectioned(text: str) -> str:
    bar = "=" * 30
    lines = [bar, "      PyTorch Info", bar]
    for line in text.splitlines():
        label, colon, rest = line.partition(":")
        if line.startswith("Versions of relevant"):
            lines += [bar, label, bar]
        elif colon and not line.startswith(("GPU ", "/", "[")):
            lines.append(f"{label:<29}:{rest}")
        else:
            lines.append(line)
    return "\n".join(lines)


def foreign(text: str) -> str:
    return text.replace(
        "\nOS: ", "\nOtherTool version: 1.2\npath: ['/x'], git: abc\n\nOS: "
    ).replace("Collecting", "UserWarning: numpy was not found (Triggered internally)\nCollecting")


LAYOUTS = {
    "plain": str,
    "flat": flat,
    "quoted": quoted,
    "sectioned": sectioned,
    "windows line ends": lambda t: t.replace("\n", "\r\n"),
    "foreign lines": foreign,
    "trailing blanks": lambda t: t.replace("\n", "     \n"),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_gives_the_same_machine(layout: Any) -> None:
    text = layout(CUDA)
    assert is_collect_env(text)
    facts = read_collect_env(text)
    devices = value_of(facts.gpus.devices)
    assert devices is not None
    assert [value_of(gpu.name) for gpu in devices] == ["NVIDIA A100-SXM4-80GB", "NVIDIA L4"]
    assert value_of(facts.driver.version) == "570.124.06"
    assert value_of(facts.torch.version) == "2.9.1+cu128"
    assert value_of(facts.torch.cuda) == "12.8"
    assert isinstance(facts.torch.hip, Absent)
    assert value_of(facts.torch.cuda_available) is True
    assert value_of(facts.python.version) == "3.12.11"
    assert value_of(facts.host.os) == "linux"
    assert value_of(facts.host.arch) == "x86_64"
    distributions = value_of(facts.pip.distributions)
    assert distributions is not None
    assert {d.name: d.version for d in distributions} == {
        "numpy": "2.3.4",
        "nvidia-cudnn-cu12": "9.10.2.21",
        "torch": "2.9.1",
        "torchvision": "0.24.1",
        "triton": "3.5.1",
    }
    assert value_of(facts.torch.channel) == "pypi"
    assert value_of(facts.torch.installer) == "pip"


def test_system_libraries_are_not_taken_for_torchs() -> None:
    facts = read_collect_env(CUDA)
    assert facts.torch.cudnn is NOT_RECORDED
    assert facts.torch.cudnn_compiled is NOT_RECORDED
    assert facts.host.glibc is NOT_RECORDED
    assert facts.driver.cuda_version is NOT_RECORDED


def read(**changed: str) -> Facts:
    """Read CUDA with the lines of some labels replaced; `_` in a keyword stands for a blank."""
    lines = []
    for line in CUDA.splitlines():
        label = line.partition(":")[0]
        value = changed.get(label.replace(" ", "_"))
        lines.append(line if value is None else f"{label}: {value}")
    return read_collect_env("\n".join(lines))


@pytest.mark.parametrize(
    ("said", "state"),
    [("No CUDA", Absent), ("Could not collect", Unreadable), ("N/A", Unreadable), ("1.2.3", Known)],
)
def test_states_of_the_driver(said: str, state: type) -> None:
    assert isinstance(read(Nvidia_driver_version=said).driver.version, state)


def test_a_silent_nvidia_smi_means_none_only_where_torch_sees_none() -> None:
    silent = {"Nvidia_driver_version": "Could not collect"}
    assert isinstance(read(**silent, Is_CUDA_available="False").driver.version, Absent)
    assert isinstance(read(**silent, Is_CUDA_available="True").driver.version, Unreadable)
    assert isinstance(read(**silent, Is_CUDA_available="N/A").driver.version, Unreadable)


@pytest.mark.parametrize("said", ["None", "N/A", "Could not collect"])
def test_a_build_without_cuda(said: str) -> None:
    assert isinstance(read(CUDA_used_to_build_PyTorch=said).torch.cuda, Absent)


def test_rocm_gpus_are_no_nvidia_gpus() -> None:
    text = CUDA.replace("GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA L4\n", "").replace(
        "GPU models and configuration:", "GPU models and configuration: AMD Instinct X (gfx942)"
    )
    text = text.replace("ROCM used to build PyTorch: N/A", "ROCM used to build PyTorch: 6.2.4-abc")
    facts = read_collect_env(text)
    assert isinstance(facts.gpus.devices, NotApplicable)
    assert value_of(facts.torch.accelerator) == "rocm"
    assert value_of(facts.torch.hip) == "6.2.4-abc"


def test_the_line_of_215_that_replaces_the_rocm_one() -> None:
    text = CUDA.replace("ROCM used to build PyTorch: N/A", "HIP used to build PyTorch: 7.1.5")
    assert value_of(read_collect_env(text).torch.hip) == "7.1.5"


def test_xpu() -> None:
    facts = read(Is_XPU_available="True")
    assert value_of(facts.torch.accelerator) == "xpu"


def test_mig_is_seen() -> None:
    facts = read_collect_env(CUDA.replace("GPU 1: NVIDIA L4", "  MIG 1g.10gb     Device  0:"))
    devices = value_of(facts.gpus.devices)
    assert devices is not None
    assert len(devices) == 1
    assert value_of(devices[0].mig) is True


def test_no_torch_with_and_without_a_list() -> None:
    listed = CUDA.replace("[pip3] torch==2.9.1\n", "").replace("2.9.1+cu128", "N/A")
    fact = read_collect_env(listed).torch.version
    assert isinstance(fact, Absent)
    assert "not in the list" in fact.reason
    bare = listed.partition("Versions of")[0]
    fact = read_collect_env(bare).torch.version
    assert isinstance(fact, Absent)
    assert "not in the list" not in fact.reason


def test_torch_that_is_listed_but_could_not_be_imported_is_not_absent() -> None:
    facts = read(PyTorch_version="N/A", Is_CUDA_available="N/A")
    assert value_of(facts.torch.version) == "2.9.1"
    assert isinstance(facts.torch.cuda_available, Unreadable)


def test_two_torches_keep_both_records() -> None:
    conda = "[conda] pytorch   1.12.0   py3.8_cuda11.3_cudnn8.3.2_0    pytorch\n"
    facts = read_collect_env(CUDA + conda)
    packages = value_of(facts.conda.packages)
    assert packages is not None
    assert [(p.name, p.version, p.channel) for p in packages] == [("pytorch", "1.12.0", "pytorch")]
    assert value_of(facts.torch.installer) == "pip"


def test_a_conda_torch_names_its_channel() -> None:
    text = CUDA.replace("torch                     2.9.1                    pypi_0    pypi", "")
    facts = read_collect_env(text + "[conda] pytorch  2.5.1  py3.12_cuda12.4_cudnn9.1.0_0  pytorch")
    assert value_of(facts.torch.channel) == "pytorch"
    assert value_of(facts.torch.installer) == "conda"


@pytest.mark.parametrize(
    ("platform", "system", "name"),
    [
        ("Linux-5.15.167.4-microsoft-standard-WSL2-x86_64-with-glibc2.35", "Ubuntu", "wsl"),
        ("Windows-11-10.0.26100-SP0", "Microsoft Windows 11 (10.0.26100 64 Bit)", "windows"),
        ("macOS-15.1-arm64-arm-64bit", "macOS 15.1 (arm64)", "macos"),
        ("Linux-5.10.120-tegra-aarch64-with-glibc2.17", "Ubuntu 20.04 (aarch64)", "linux"),
    ],
)
def test_operating_systems(platform: str, system: str, name: str) -> None:
    facts = read(Python_platform=platform, OS=system)
    assert value_of(facts.host.os) == name
    assert value_of(facts.host.jetson) is ("tegra" in platform)


def test_a_wrapped_python_line() -> None:
    wrapped = CUDA.replace(
        "08:56:18) [GCC 13.3.0] (64-bit runtime)\n", "08:56:18) [GCC \n13.3.0] (64-bit runtime)   "
    )
    facts = read_collect_env(wrapped)
    assert value_of(facts.python.version) == "3.12.11"
    assert value_of(facts.host.os) == "linux"


def test_variables_are_kept_by_allow_list() -> None:
    text = CUDA + "LD_LIBRARY_PATH=/opt/cuda/lib64\nMY_TOKEN=abc\nCUDA_VISIBLE_DEVICES=1\n"
    variables = value_of(read_collect_env(text).environment.variables)
    assert variables == {"LD_LIBRARY_PATH": "/opt/cuda/lib64", "CUDA_VISIBLE_DEVICES": "1"}


def test_the_allocator_line_of_newer_versions_is_a_variable() -> None:
    text = CUDA.replace("\nCPU:", "Caching allocator config: expandable_segments:True\n\nCPU:")
    variables = value_of(read_collect_env(text).environment.variables)
    assert variables == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@pytest.mark.parametrize("text", ["", "hello", "OS: Linux\nCPU: 4\n", "[pip3] numpy==1.0"])
def test_other_texts_are_not_such_a_paste(text: str) -> None:
    assert not is_collect_env(text)


@given(st.integers(0, len(CUDA)), st.integers(0, len(CUDA)))
def test_a_cut_paste_never_says_more_than_the_whole(start: int, length: int) -> None:
    whole, cut = read_collect_env(CUDA), read_collect_env(CUDA[start : start + length])
    seen = {value_of(g.name) or "" for g in value_of(cut.gpus.devices) or ()}
    assert all("NVIDIA A100-SXM4-80GB".startswith(s) or "NVIDIA L4".startswith(s) for s in seen)
    for fact in ("version", "cuda"):
        value = value_of(getattr(cut.torch, fact))
        assert value is None or str(value_of(getattr(whole.torch, fact))).startswith(value)


@given(st.text(alphabet=st.sampled_from("\n :[]=>|GPU0d. NVIDIAtorch\x00\x1b"), max_size=300))
def test_noise_is_read_without_an_error(noise: str) -> None:
    read_collect_env(noise)
    read_collect_env(CUDA.replace("\n", noise[:20] + "\n"))


def test_a_hostile_paste_is_read_in_bounded_steps() -> None:
    for piece in ("GPU 0: ", "[conda] a b c d ", "[pip3] a==", "PyTorch version:", "A=\n", "> "):
        read_collect_env(piece * 20_000)


def test_every_paste_of_the_corpus_is_recognised(shared: Path) -> None:
    texts = sorted((shared / "corpus" / "collect_env").glob("*.txt"))
    assert texts
    for path in texts:
        text = path.read_text(encoding="utf-8", errors="replace")
        assert is_collect_env(text), path.name
        read_collect_env(text)


def test_torch_of_conda_is_one_package_although_pip_lists_it_too() -> None:
    rows = "[pip3] torch==1.13.1\n[conda] pytorch  1.13.1  py3.9_cuda11.7_0  pytorch\n"
    facts = read_collect_env(f"PyTorch version: 1.13.1\nOS: Linux\n{rows}")
    assert [one.installer for one in value_of(facts.pip.distributions) or ()] == ["conda"]
    by_pip = f"{rows}[conda] torch  1.13.1  pypi_0  pypi\n"
    facts = read_collect_env(f"PyTorch version: 1.13.1\nOS: Linux\n{by_pip}")
    assert [one.installer for one in value_of(facts.pip.distributions) or ()] == ["pip"]

"""Which torch a machine gets, with a fake nvidia-smi and a fake pip."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

Program = Callable[[str, str], Path]

H200 = "580.159.04, 9.0"
KERNEL_MODULE = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build  (builder@host)
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
CLOSED_KERNEL_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2\n"


@pytest.fixture
def smi(program: Program, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a shell script first on PATH under the name of nvidia-smi."""

    def install(script: str) -> None:
        monkeypatch.setenv("PATH", str(program("nvidia-smi", script)), prepend=":")

    return install


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    return tmp_path / "no-such-file"


def test_driver_and_capability_from_nvidia_smi(
    torch_for_this_machine: ModuleType, smi: Callable[[str], None], nowhere: Path
) -> None:
    smi(f"echo '{H200}'; echo '580.159.04, 12.0'")
    driver = torch_for_this_machine.driver_of_this_machine(nowhere)
    assert driver.version == "580.159.04"
    assert driver.capabilities == ((9, 0), (12, 0))


def test_old_nvidia_smi_without_capability(
    torch_for_this_machine: ModuleType, smi: Callable[[str], None], nowhere: Path
) -> None:
    smi("echo '470.82.01, [N/A]'")
    driver = torch_for_this_machine.driver_of_this_machine(nowhere)
    assert (driver.version, driver.capabilities) == ("470.82.01", ())


@pytest.mark.parametrize(
    "script",
    [
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
        "echo 'No devices were found'; exit 0",
        "echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2",
    ],
)
def test_kernel_module_speaks_where_nvidia_smi_cannot(
    torch_for_this_machine: ModuleType, smi: Callable[[str], None], tmp_path: Path, script: str
) -> None:
    smi(script)
    module = tmp_path / "version"
    for text, version in ((KERNEL_MODULE, "575.57.08"), (CLOSED_KERNEL_MODULE, "470.256.02")):
        module.write_text(text, encoding="utf-8")
        assert torch_for_this_machine.driver_of_this_machine(module).version == version


def test_no_driver(
    torch_for_this_machine: ModuleType, smi: Callable[[str], None], nowhere: Path
) -> None:
    smi("exit 9")
    assert torch_for_this_machine.driver_of_this_machine(nowhere) is None


@pytest.mark.parametrize(
    ("version", "capabilities", "build"),
    [
        ("580.159.04", ((9, 0),), "2.13.0+cu130"),
        ("580.65.06", (), "2.13.0+cu130"),
        ("580.65.05", (), "2.13.0+cu126"),
        ("615.31", ((12, 0),), "2.13.0+cu130"),
        ("580.95.05", ((7, 0),), "2.13.0+cu126"),
        ("580.95.05", ((6, 1), (8, 6)), "2.13.0+cu130"),
        ("575.57.08", ((12, 0),), "2.13.0+cu129"),
        ("570.26", ((9, 0),), "2.13.0+cu126"),
        ("525.60.13", ((8, 0),), "2.13.0+cu126"),
        ("525.60.12", ((8, 0),), "2.7.1+cu118"),
        ("450.80.02", (), "2.7.1+cu118"),
        ("450.80.01", (), "2.13.0+cpu"),
        ("390.157", ((3, 5),), "2.13.0+cpu"),
    ],
)
def test_build_for_driver(
    torch_for_this_machine: ModuleType,
    version: str,
    capabilities: tuple[tuple[int, ...], ...],
    build: str,
) -> None:
    driver = torch_for_this_machine.Driver(version=version, capabilities=capabilities)
    chosen = torch_for_this_machine.build_for(driver, "Linux")
    assert f"{chosen.release}+{chosen.tag}" == build
    assert version in chosen.why


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4), st.integers(0, 999))
def test_a_newer_driver_never_gets_an_older_cuda(
    torch_for_this_machine: ModuleType, version: list[int], more: int
) -> None:
    newer = [version[0] + more, *version[1:]]
    tags = []
    for numbers in (version, newer):
        driver = torch_for_this_machine.Driver(version=".".join(map(str, numbers)))
        tags.append(torch_for_this_machine.build_for(driver, "Linux").tag)
    order = ["cpu", "cu118", "cu126", "cu130"]
    assert order.index(tags[0]) <= order.index(tags[1])


def test_no_driver_gets_the_cpu_build(torch_for_this_machine: ModuleType) -> None:
    assert torch_for_this_machine.build_for(None, "Linux").tag == "cpu"
    assert torch_for_this_machine.build_for(None, "Darwin").plain


def _ways(tools: ModuleType, known: set[str], driver: str | None = None) -> list[str]:
    machine = tools.Driver(version=driver) if driver else None
    ways = tools.ways_to_install(tools.build_for(machine, "Linux"), frozenset(known))
    return [" ".join(arguments) for _, arguments in ways]


def test_a_build_that_pip_knows_comes_first(torch_for_this_machine: ModuleType) -> None:
    assert _ways(torch_for_this_machine, {"2.13.0", "2.13.0+cpu"}) == ["torch==2.13.0+cpu"]


def test_cpu_index_then_the_package_index_with_a_warning(
    torch_for_this_machine: ModuleType,
) -> None:
    index, plain = _ways(torch_for_this_machine, {"2.13.0"})
    assert index.endswith("--index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu")
    assert plain == "torch===2.13.0"
    build = torch_for_this_machine.build_for(None, "Linux")
    warning = torch_for_this_machine.ways_to_install(build, frozenset())[1][0]
    assert re.match(r"WARNING: .* CUDA build, several GB", warning)


def test_a_cpu_build_on_disk_is_not_taken_for_a_gpu(torch_for_this_machine: ModuleType) -> None:
    known = {"2.13.0", "2.13.0+cpu"}
    assert _ways(torch_for_this_machine, known, "580.65.06") == ["torch===2.13.0"]
    (only,) = _ways(torch_for_this_machine, known, "550.54.15")
    assert only.endswith("/whl/cu126 torch==2.13.0+cu126")


PIP_INDEX = """
if [ "$4" = index ]; then
  echo 'WARNING: pip index is currently an experimental command.' >&2
  echo 'torch (2.15.0)'
  echo 'Available versions: 2.15.0, 2.13.0, 2.12.1'
  exit 0
fi
echo "$@" >>"$0.asked"
case "$*" in
  *"--index-url"*) echo 'ERROR: no matching distribution' >&2; exit 1;;
esac
"""


def test_fallback_when_the_cpu_index_cannot_be_reached(
    torch_for_this_machine: ModuleType,
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = program("python", PIP_INDEX)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    tools = torch_for_this_machine
    known = tools.known_to_pip()
    assert known == {"2.15.0", "2.13.0", "2.12.1"}
    assert tools.install(
        tools.ways_to_install(tools.build_for(None, "Linux"), known), dry_run=False
    )
    asked = (folder / "python.asked").read_text(encoding="utf-8").splitlines()
    assert [line.split()[-1] for line in asked] == ["torch==2.13.0+cpu", "torch===2.13.0"]
    assert "WARNING" in capsys.readouterr().out


def test_no_cuda_build_falls_back_to_nothing(
    torch_for_this_machine: ModuleType, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(program("python", "exit 1") / "python"))
    tools = torch_for_this_machine
    assert tools.known_to_pip() == frozenset()
    build = tools.build_for(tools.Driver(version="550.54.15"), "Linux")
    assert not tools.install(tools.ways_to_install(build, frozenset()), dry_run=False)

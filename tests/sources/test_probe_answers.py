"""The probe in its child process: fakes of NVML and libcuda that work, fail, crash and hang."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

import pytest

from envkit.sources.probe_answers import Answers, Asked, ask_driver

from .fake_driver import build_libcuda, build_libnvml, write_pynvml

#: A library that is on every machine: stands for an NVML that can be loaded.
LOADABLE = "libc.so.6"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fakes are Linux libraries")


def ask(
    *,
    nvml: str | None = None,
    cuda: Path | None = None,
    pynvml: Path | None = None,
    limit_s: float = 20.0,
    environ: dict[str, str] | None = None,
) -> Answers:
    return ask_driver(
        dict(os.environ) if environ is None else environ,
        limit_s=limit_s,
        pynvml_folder=pynvml,
        nvml_libraries=[nvml or "libnvidia-ml-is-not-here.so.1"],
        cuda_libraries=[str(cuda) if cuda else "libcuda-is-not-here.so.1"],
    )


def test_without_the_libraries_both_parts_say_so() -> None:
    found = ask()
    assert found.nvml is not None
    assert not found.nvml.found
    assert found.libcuda is not None
    assert found.libcuda.is_missing
    assert "libcuda-is-not-here.so.1" in found.libcuda.reason
    assert found.why_silent == {}


def test_everything_nvml_knows(tmp_path: Path) -> None:
    found = ask(nvml=LOADABLE, pynvml=write_pynvml(tmp_path))
    assert found.nvml is not None
    assert found.nvml.driver_version == Asked(value="570.86.15")
    assert found.nvml.cuda_version == Asked(value=12080)
    assert found.nvml.gpu_count == Asked(value=3)
    assert [gpu.index for gpu in found.gpus] == [0, 1, 2]
    first, second, lost = (gpu.values for gpu in found.gpus)
    uuid = "GPU-10101010-1010-1010-1010-101010101010"
    assert first["uuid_hash"].value == hashlib.sha256(uuid.encode()).hexdigest()[:16]
    assert first["ecc_uncorrected"].value == 4
    assert first["processes"].value == [
        {"pid": 41, "memory_bytes": None},
        {"pid": 42, "memory_bytes": 5 << 30},
    ]
    assert second["mig"].error is not None
    assert second["mig"].error.code == 3
    assert list(lost) == ["name"]
    assert found.why_silent == {}


def test_an_nvml_error_comes_with_its_number(tmp_path: Path) -> None:
    folder = write_pynvml(tmp_path, 'raise NVMLError(18, "Driver/library version mismatch")')
    found = ask(nvml=LOADABLE, pynvml=folder)
    assert found.nvml is not None
    assert found.nvml.error is not None
    assert (found.nvml.error.code, found.nvml.error.message) == (
        18,
        "Driver/library version mismatch",
    )


def test_the_real_pynvml_talks_to_a_library_found_by_its_path(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    found = ask(nvml=str(build_libnvml(tmp_path)))
    assert found.nvml is not None
    assert found.nvml.error is None
    assert found.nvml.driver_version == Asked(value="550.54.15")
    assert found.nvml.cuda_version == Asked(value=12040)
    assert found.nvml.gpu_count == Asked(value=0)


def test_the_real_pynvml_gives_nvmls_number(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    found = ask(nvml=str(build_libnvml(tmp_path, init=18)))
    assert found.nvml is not None
    assert found.nvml.error is not None
    assert found.nvml.error.code == 18
    assert "version mismatch" in found.nvml.error.message  # pynvml has a text of its own for it


def test_without_pynvml_nothing_of_the_current_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pynvml(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("envkit.sources.probe_answers._own_pynvml", lambda: None)
    found = ask(nvml=LOADABLE)
    assert found.nvml is not None
    assert found.nvml.error is not None
    assert "No module named 'pynvml'" in found.nvml.error.message


def test_a_broken_pynvml_is_an_error_of_nvml(tmp_path: Path) -> None:
    folder = write_pynvml(tmp_path)
    (folder / "pynvml.py").write_text("raise ImportError('half installed')", encoding="ascii")
    found = ask(nvml=LOADABLE, pynvml=folder)
    assert found.nvml is not None
    assert found.nvml.error is not None
    assert "half installed" in found.nvml.error.message


def test_a_pynvml_that_raises_anything_at_all_leaves_libcuda_its_turn(tmp_path: Path) -> None:
    folder = write_pynvml(tmp_path, "raise RuntimeError('boom')")
    found = ask(nvml=LOADABLE, pynvml=folder, cuda=build_libcuda(tmp_path / "lib"))
    assert found.nvml is None
    assert "nvmlInit" in found.why_silent["nvml"]
    assert found.cuda_count is not None


def test_an_nvml_that_hangs_costs_its_limit_and_leaves_libcuda_its_turn(tmp_path: Path) -> None:
    folder = write_pynvml(tmp_path / "py", "import time; time.sleep(600)")
    library = build_libcuda(tmp_path / "lib")
    started = time.monotonic()
    found = ask(nvml=LOADABLE, pynvml=folder, cuda=library, limit_s=1.0)
    assert time.monotonic() - started < 60
    assert found.nvml is None
    assert found.why_silent["nvml"] == "it did not answer in time (nvmlInit)"
    assert found.cuda_count is not None
    assert found.cuda_count.count == 2


def test_a_libcuda_that_works(tmp_path: Path) -> None:
    library = build_libcuda(tmp_path)
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # must not hide the GPUs here
    found = ask(cuda=library, environ=environ)
    assert found.libcuda is not None
    assert found.libcuda.paths == (os.path.realpath(library),)
    assert found.cuda_version is not None
    assert found.cuda_version.version == 12080
    assert found.cuda_init is not None
    assert found.cuda_init.error is None
    assert [(gpu.api, gpu.index) for gpu in found.gpus] == [("libcuda", 0), ("libcuda", 1)]
    first = found.gpus[0].values
    assert first["name"].value == "Fake GPU 0"
    assert first["compute_capability"].value == "9.0"
    assert first["memory"].value == [80 << 30]
    uuid = "GPU-10101010-1010-1010-1010-101010101010"
    assert first["uuid_hash"].value == hashlib.sha256(uuid.encode()).hexdigest()[:16]


def test_both_libraries_tell_one_card_by_one_hash(tmp_path: Path) -> None:
    library = build_libcuda(tmp_path / "lib")
    found = ask(nvml=LOADABLE, pynvml=write_pynvml(tmp_path / "py"), cuda=library)
    hashes = {gpu.values["uuid_hash"].value for gpu in found.gpus if gpu.index == 0}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),  # the library names it
        (100, "CUDA_ERROR_NO_DEVICE"),  # it does not
        (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        (999, "CUDA_ERROR_UNKNOWN"),
    ],
)
def test_errors_of_cuda_have_names(tmp_path: Path, code: int, name: str) -> None:
    found = ask(cuda=build_libcuda(tmp_path, init=code))
    assert found.cuda_init is not None
    assert found.cuda_init.error is not None
    assert (found.cuda_init.error.code, found.cuda_init.error.name) == (code, name)
    assert found.gpus == ()


def test_a_libcuda_that_crashes_leaves_what_was_said_before(tmp_path: Path) -> None:
    found = ask(cuda=build_libcuda(tmp_path, before_init="usleep(300000), raise(SIGSEGV)"))
    assert found.cuda_version is not None
    assert found.cuda_init is None
    assert found.why_silent["libcuda"] == "the probe was ended by SIGSEGV (cuInit)"


def test_a_libcuda_that_hangs_does_not_hold_us(tmp_path: Path) -> None:
    started = time.monotonic()
    found = ask(cuda=build_libcuda(tmp_path, before_init="sleep(600)"), limit_s=1.0)
    assert time.monotonic() - started < 60
    assert found.why_silent["libcuda"] == "it did not answer in time (cuInit)"


def test_a_file_that_is_no_library_is_broken_not_missing(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"this is not a library")
    found = ask(cuda=tmp_path / "libcuda.so.1")
    assert found.libcuda is not None
    assert not found.libcuda.found
    assert not found.libcuda.is_missing


def test_a_library_without_cudas_functions_is_no_crash() -> None:
    found = ask(cuda=Path(LOADABLE))
    assert found.cuda_init is not None
    assert found.cuda_init.error is not None
    assert "not a CUDA driver library" in found.cuda_init.error.message


def test_an_interpreter_that_cannot_be_started_is_a_reason() -> None:
    found = ask_driver({}, python="/nothing/here/python")
    assert "could not be started" in found.why_silent["nvml"]
    assert "does not know its own interpreter" in ask_driver({}, python="").why_silent["nvml"]

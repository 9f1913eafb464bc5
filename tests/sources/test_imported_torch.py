"""The child's words about torch become facts, whatever form they come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.model.codec import decode, encode
from envkit.model.facts import CudaError, ImportFailure, SelfTest, TorchFacts
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable
from envkit.sources.imported_torch import import_failure, imported_torch_facts

from .trees import dist_info, known, plant

SITE = "lib/python3.11/site-packages"
STATIC = TorchFacts(
    version=Known(value="2.6.0+cu124", source="torch/version.py"),
    cuda=Known(value="12.4", source="torch/version.py"),
    channel=Known(value="pypi", source="version"),
    installer=Known(value="pip", source="INSTALLER"),
    accelerator=Known(value="cuda", source="torch/version.py"),
)
VALUES: dict[str, Any] = {
    "version": "2.6.0+cu124",
    "git_version": "0123abc",
    "cuda_version": "12.4",
    "hip_version": {"absent": "this torch is not built for ROCm"},
    "arch_list": ["sm_80", "sm_90"],
    "cuda_available": True,
    "cuda_init_error": {"absent": "CUDA could be initialised"},
    "devices": [
        {
            "index": 0,
            "name": "NVIDIA H200",
            "capability": "9.0",
            "memory_bytes": 150_000_000_000,
            "sm_count": 132,
            "uuid_hash": "0123456789abcdef",
        }
    ],
    "cudnn_version_compiled": 90100,
    "cudnn_version_loaded": 90100,
    "nccl_version": "2.21.5",
    "cublas_version": {"unreadable": "not mapped"},
    "allocator_backend": "native",
    "allocator_settings": {
        "expandable_segments": False,
        "max_split_size": -1,
        "list": [1, 2],
        "roundup_power2_divisions": {"1": 0, "64": 4},
        "odd": {"a": "b"},
    },
    "flags": {"cudnn.benchmark": False, "sdp.cudnn": {"unreadable": "not in this torch"}},
    "threads": {"intra": 8, "inter": 4},
    "numpy_version": None,
}


def facts(values: dict[str, Any] | None = None, **more: Any) -> TorchFacts:
    options: dict[str, Any] = {"prefix": None, "environ": {}, **more}
    return imported_torch_facts(STATIC, VALUES if values is None else values, **options)


def test_everything_that_a_child_tells() -> None:
    found = facts()
    assert known(found.version) == "2.6.0+cu124"
    assert known(found.channel) == "pypi"
    assert known(found.accelerator) == "cuda"
    assert isinstance(found.hip, Absent)
    assert known(found.arch_list) == ("sm_80", "sm_90")
    assert known(found.cuda_available) is True
    assert isinstance(found.cuda_error, Absent)
    assert known(found.devices)[0].sm_count == 132
    assert known(found.cudnn) == known(found.cudnn_compiled) == 90100
    assert isinstance(found.cublas, Unreadable)
    assert known(found.allocator_settings) == {
        "expandable_segments": False,
        "list": "[1,2]",
        "max_split_size": -1,
        "odd": '{"a":"b"}',
        "roundup_power2_divisions": {"1": 0, "64": 4},
    }
    assert known(found.flags) == {"cudnn.benchmark": False}
    assert known(found.threads) == 8
    assert isinstance(found.numpy, Absent)
    assert isinstance(found.import_failure, Absent)


def test_an_error_of_cuda() -> None:
    error = {"code": 804, "name": "cudaErrorCompatNotSupportedOnDevice", "message": "forward"}
    found = facts({**VALUES, "cuda_init_error": error, "cuda_available": False})
    assert known(found.cuda_error) == CudaError(
        code=804, name="cudaErrorCompatNotSupportedOnDevice", message="forward"
    )


def test_a_torch_that_cannot_be_imported_keeps_what_its_files_say() -> None:
    failure = ImportFailure(how="raised", message="ImportError: libcudart.so.12: cannot open")
    found = facts({}, failure=failure)
    assert known(found.version) == "2.6.0+cu124"
    assert known(found.cuda) == "12.4"
    assert known(found.import_failure).how == "raised"
    assert isinstance(found.cuda_available, Unreadable)
    assert "could not be imported: ImportError" in found.cuda_available.reason
    assert isinstance(found.self_tests, Unreadable)


def test_a_child_that_died_after_the_import_is_no_failed_import() -> None:
    found = facts({"version": "2.6.0+cu124"}, why_missing="the child was ended by SIGSEGV")
    assert isinstance(found.import_failure, Absent)
    assert isinstance(found.devices, Unreadable)
    assert found.devices.reason == "the child was ended by SIGSEGV"


def test_a_build_without_cuda_does_not_have_devices() -> None:
    found = facts({**VALUES, "devices": {"not_applicable": "built without CUDA"}})
    assert isinstance(found.devices, NotApplicable)


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("version", ["2"], "numpy"),
        ("arch_list", "sm_80", "arch_list"),
        ("arch_list", [1, 2], "arch_list"),
        ("arch_list", ["sm"] * 5000, "arch_list"),
        ("cuda_available", 1, "cuda_available"),
        ("devices", [{"index": 0}], "devices"),
        ("devices", [5], "devices"),
        ("cudnn_version_loaded", "9.1", "cudnn"),
        ("cudnn_version_loaded", True, "cudnn"),
        ("threads", 8, "threads"),
        ("threads", {"intra": {"unreadable": "no"}}, "threads"),
        ("flags", [], "flags"),
        ("cuda_init_error", {"code": "x", "name": 1}, "cuda_error"),
        ("cuda_init_error", "text", "cuda_error"),
        ("mapped_libraries", [{"no": "path"}], "libraries"),
        ("mapped_libraries", [{"path": 5}], "libraries"),
        ("mapped_libraries", ["a"], "libraries"),
    ],
)
def test_answers_of_another_form_are_unreadable(name: str, value: Any, field: str) -> None:
    found = getattr(facts({name: value}), field)
    assert isinstance(found, Unreadable)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NESTED = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(st.text(), PLAIN, max_size=3)
JSON = NESTED | st.lists(NESTED, max_size=2) | st.dictionaries(st.text(), NESTED, max_size=2)
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(st.sampled_from([*VALUES, "mapped_libraries", "file"]), JSON)
def test_every_answer_of_a_child_becomes_a_document(name: str, value: Any) -> None:
    found = facts({name: value})
    assert decode(encode(found), TorchFacts, origin="x") == found


@pytest.mark.parametrize("number", [2**70, -(2**70), float("inf")])
def test_numbers_that_no_document_can_hold(number: float) -> None:
    found = facts({"allocator_settings": {"a": number}, "cudnn_version_loaded": number})
    assert isinstance(known(found.allocator_settings)["a"], str)
    assert isinstance(found.cudnn, Unreadable)


def test_libraries_with_their_owners(tmp_path: Path) -> None:
    file = "nvidia/cudnn/lib/libcudnn.so.9"
    plant(tmp_path, dist_info(SITE, "nvidia-cudnn-cu12", "9.1", RECORD=f"{file},,\n"))
    plant(tmp_path, {f"{SITE}/{file}": ""})
    paths = [str(tmp_path / SITE / file), "/home/me/lib/libcublas.so.12", "/lib/libc.so.6"]
    values = {"mapped_libraries": [{"path": path, "realpath": path} for path in paths]}
    found = known(facts(values, prefix=tmp_path, environ={"HOME": "/home/me"}).libraries)
    assert [(one.name, one.path, one.owner) for one in found] == [
        ("libc.so.6", "/lib/libc.so.6", ""),
        ("libcublas.so.12", "~/lib/libcublas.so.12", ""),
        ("libcudnn.so.9", f"{SITE}/{file}", "nvidia-cudnn-cu12"),
    ]


def test_the_imported_folder_counts(tmp_path: Path) -> None:
    file = str(tmp_path / SITE / "torch/__init__.py")
    assert known(facts({"file": file}, prefix=tmp_path).location) == f"{SITE}/torch"


def test_self_tests() -> None:
    tests = [
        {"name": "matmul_fp32", "status": "pass", "reason": "", "kind": ""},
        {"name": "sum", "status": "fail", "reason": "no kernel image", "kind": "no_kernel_image"},
    ]
    assert known(facts(self_tests=tests).self_tests) == (
        SelfTest(name="matmul_fp32", status="pass"),
        SelfTest(name="sum", status="fail", reason="no_kernel_image: no kernel image"),
    )
    assert isinstance(facts(self_tests=[{"name": "x", "status": "maybe"}]).self_tests, Unreadable)


def test_standard_error_is_redacted_and_cut_at_a_line() -> None:
    failed: dict[str, Any] = {"failure": ImportFailure(how="raised", message="x")}
    assert isinstance(facts(stderr=b" \n", **failed).stderr_tail, Absent)
    lines = b"https://me:secret@host/x\n" * 1000 + b"\x1b[31mthe end of /home/me/x"
    environ = {"HOME": "/home/me"}
    text = known(facts(stderr=lines, environ=environ, **failed).stderr_tail)
    assert "secret" not in text
    assert text.startswith("https://host/x\n")
    assert text.endswith("\\x1b[31mthe end of ~/x")


def test_standard_error_of_a_torch_that_works_is_nobodys_business() -> None:
    assert isinstance(facts(stderr=b"licence of somebody").stderr_tail, NotApplicable)


@pytest.mark.parametrize(
    ("options", "how", "message"),
    [
        (
            {"error": {"type": "ImportError", "message": "while loading:\nlibc10.so: no"}},
            "raised",
            "ImportError: libc10.so: no",
        ),
        ({"error": {}}, "raised", "Error: no message"),
        ({"signal": "SIGSEGV"}, "crashed", "SIGSEGV, last stage: importing_torch"),
        ({"exit_code": 1}, "exited", "exit code 1, last stage: importing_torch"),
    ],
)
def test_how_an_import_can_end(options: dict[str, Any], how: str, message: str) -> None:
    given: dict[str, Any] = {
        "error": None,
        "signal": None,
        "exit_code": None,
        "stage": "importing_torch",
        **options,
    }
    assert import_failure(**given) == ImportFailure(how=how, message=message)  # type: ignore[arg-type]

"""Who installed a file."""

from __future__ import annotations

import json
from pathlib import Path

from envkit.sources.owners import owners_of

from .trees import conda_record, dist_info, plant

SITE = "lib/python3.11/site-packages"
CUDNN = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"
MKL = "lib/libmkl_core.so.2"
OPENMP = "lib/libgomp.so.1.0.0"


def environment(root: Path) -> Path:
    cudnn = "nvidia/cudnn/lib/libcudnn.so.9,sha256=abc,123\nnvidia/cudnn/lib/libcudnn.so.90,,\n"
    plant(root, dist_info(SITE, "nvidia-cudnn-cu12", "9.1.0.70", RECORD=cudnn))
    plant(root, dist_info(SITE, "mkl", "2024.0", RECORD="../../libmkl_core.so.2,,\n"))
    plant(root, dist_info(SITE, "torch", "2.6.0", RECORD="torch/__init__.py,,\n"))
    plant(root, conda_record("libgomp", "14.2.0", "h77_2", files=[OPENMP, "lib/libgomp.so.1"]))
    plant(root, {CUDNN: "", MKL: "", OPENMP: "", "lib/nobody.so": ""})
    return root


def owners(root: Path, *names: str) -> dict[str, str]:
    found = owners_of([root / name for name in names], root, {})
    return {path.relative_to(root).as_posix(): owner for path, owner in found.items()}


def test_files_of_pip_and_conda_and_of_nobody(tmp_path: Path) -> None:
    found = owners(environment(tmp_path), CUDNN, MKL, OPENMP, "lib/nobody.so")
    assert found == {CUDNN: "nvidia-cudnn-cu12", MKL: "mkl", OPENMP: "libgomp"}


def test_what_pip_wrote_over_a_file_of_conda_is_pips(tmp_path: Path) -> None:
    plant(environment(tmp_path), conda_record("mkl", "2023.1", "h1_0", files=[MKL]))
    plant(tmp_path, conda_record("cudnn", "9.1", "h1_0", files=[CUDNN]))
    assert owners(tmp_path, CUDNN, MKL) == {CUDNN: "nvidia-cudnn-cu12", MKL: "mkl"}


def test_the_metadata_that_conda_writes_do_not_make_a_file_pips(tmp_path: Path) -> None:
    record = "torch/lib/libtorch.so,,\n"
    plant(tmp_path, dist_info(SITE, "torch", "2.5.1", installer="conda", RECORD=record))
    file = f"{SITE}/torch/lib/libtorch.so"
    plant(tmp_path, conda_record("pytorch", "2.5.1", "py311", files=[file]))
    plant(tmp_path, {file: ""})
    assert owners(tmp_path, file) == {file: "pytorch"}


def test_only_the_whole_name_counts(tmp_path: Path) -> None:
    record = "xlib/a.so.1,,\nlib/a.so.10,,\nlib/a.so,,\n"
    plant(tmp_path, dist_info(SITE, "other", "1", RECORD=record))
    file = f"{SITE}/lib/a.so.1"
    plant(tmp_path, {file: ""})
    assert owners(tmp_path, file) == {}


def test_a_prefix_that_is_a_link(tmp_path: Path) -> None:
    environment(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    real = tmp_path / "real" / CUDNN
    assert owners_of([real], tmp_path / "link", {}) == {real: "nvidia-cudnn-cu12"}


def test_broken_lists_own_nothing(tmp_path: Path) -> None:
    plant(tmp_path, dist_info(SITE, "a", "1", RECORD="\0" * 5000))
    plant(tmp_path, {f"{SITE}/b-1.dist-info/RECORD/": "", "lib/x.so": ""})
    plant(tmp_path, {"conda-meta/c-1-0.json": "{", "conda-meta/d-1-0.json": json.dumps([1])})
    assert owners(tmp_path, "lib/x.so") == {}


def test_an_empty_question_has_an_empty_answer(tmp_path: Path) -> None:
    assert owners_of([], tmp_path, {}) == {}

"""The shape that every compatibility table and row gets, and the words of their sources."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
Facts = dict[str, Row]

#: Texts of sources that were cut or named a storage place; the same source, said in full.
SOURCE_TEXT = {
    "nv_relnotes_13.4u1": "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ "
    "(edition of CUDA 13.4 Update 1, section 2.2 CUDA Driver)",
    "nv_relnotes_13.2u2": "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html "
    "(edition of CUDA 13.2 Update 2, tables 2 and 3)",
    "nv_relnotes_13.1": "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html "
    "(edition of CUDA 13.1)",
    "sec_13.3_table": "secondary copies of the CUDA 13.3 release-notes table: "
    "CUDA 13.3 GA and Update 1, Linux >= 610.43.02",
    "nv_forward_compat": "https://docs.nvidia.com/deploy/cuda-compatibility/"
    "forward-compatibility.html (edition of R615)",
    "unix_deprecation": 'NVIDIA "Unix graphics feature deprecation schedule", quoted in '
    "https://worldofsoftware.org/?p=686443 and "
    "https://glfs-book.github.io/glfs/shareddeps/nvidia-rev.html",
    "release_md": 'pytorch/pytorch RELEASE.md "Release Compatibility Matrix" and '
    '"PyTorch CUDA Support Matrix"',
    "cublas_pool": "pytorch/pytorch aten/src/ATen/cuda/CublasHandlePool.cpp "
    "(main of 2026 and of the 1.13 era), CUDABlas.cpp",
    "alloc_cfg": "pytorch/pytorch c10/cuda/CUDAAllocatorConfig.cpp and .h (main), and its tests",
    "pinned_test": "pytorch/pytorch tests of the pinned_max_* options",
    "cuda_cache_sec": "secondary text quoting NVIDIA's page on the JIT cache: ~/.nv/ComputeCache "
    "on Linux, bounded, CUDA_CACHE_DISABLE=1, invalidated by a driver upgrade",
    "device_order_sec": "secondary text on CUDA_DEVICE_ORDER (address not kept)",
    "cuda_env_doc": "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/"
    "environment-variables.html (start of the page)",
    "nv_cuda_gpus": "https://developer.nvidia.com/cuda-gpus (12.1 down to 8.6; older rows through "
    "https://www.cnblogs.com/nightnine/p/16591404.html)",
    "nv_cuda_legacy": "https://developer.nvidia.com/cuda-legacy-gpus "
    "(7.2, 7.0, 6.2, 6.1, 6.0, 5.3, 5.2, 5.0)",
    "builds_table": "the table of PyTorch builds beside this one (torch.yaml)",
    "rubin_notes": "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ 13.4 "
    "(cuBLAS: Rubin, compute capability 10.7)",
    "conda_records": "repodata.json records of the conda channels conda-forge and pytorch, as "
    "published in lock files of 109 public repositories (newest 2026-08-22)",
    "numpy_issue": "https://github.com/pytorch/pytorch/issues/132179 (comment of 2024-07-31: "
    "2.3.0 is the first version that supports NumPy 2)",
    "numpy_windows": "https://github.com/pytorch/pytorch/issues/131668 "
    "(the Windows wheels of 2.4.0 do not work with NumPy 2)",
    "arch_how": "secondary and measured facts on SASS and PTX: code runs on the same major and an "
    "equal or higher minor; PTX is compiled for newer GPUs by a driver that accepts it",
}


#: Sources that a row of the facts names by a sentence instead of a key.
SOURCE_KEY = {
    "see pytorch_builds.yaml": "builds_table",
    "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ 13.4 "
    "(cuBLAS: Rubin, compute capability 10.7)": "rubin_notes",
}


#: Words that point into the facts files, and what they point to here.
WORDING = {
    "(cuda_driver.yaml)": "(driver.yaml)",
    "see arch_list.yaml": "see arch.yaml",
    "see first_open_kernel_driver": "see first_open_driver",
    "see allocator_options": "see options",
    "in any stored source": "in any source read",
    "in any stored file": "in any file read",
    "no stored source read": "no source read",
    "(stored edition ": "(edition ",
}


def made_table(name: str, given: Row, body: Row) -> Row:
    """Return a table with the sources that its rows name."""
    used = sorted(_sources_in(body))
    return {
        "schema": f"envkit.compat.{name}/1",
        "read": given["retrieved"],
        "sources": {
            key: {
                "what": SOURCE_TEXT.get(key) or given["sources"][key],
                "read": given["retrieved"],
            }
            for key in used
        },
        **body,
    }


def _sources_in(value: Any) -> set[str]:
    if isinstance(value, list):
        return {key for item in value for key in _sources_in(item)}
    if not isinstance(value, dict):
        return set()
    own = set(value["source"]) if isinstance(value.get("source"), list) else set()
    return own.union(*(_sources_in(item) for item in value.values()))


def made_row(given: Row, **fields: Any) -> Row:
    """Return the fields that say something, then note, verified (only when false) and source."""
    row = {"note": given.get("note"), **fields}
    row["verified"] = fields.get("verified", None if given.get("verified", True) else False)
    row["source"] = list(dict.fromkeys(SOURCE_KEY.get(key, key) for key in given["source"]))
    order = [*(key for key in fields if key not in {"note", "verified"}), "note", "verified"]
    return {key: row[key] for key in (*order, "source") if row[key] is not None}


def made_rules(rows: list[Row]) -> list[Row]:
    """Return facts that are sentences."""
    return [made_row(row, id=row["id"], text=row["text"]) for row in rows]


def branch_number(text: str | None) -> int | None:
    """Return 535 for `R535`."""
    return int(text[1:]) if text else None

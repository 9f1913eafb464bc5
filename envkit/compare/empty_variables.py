"""Variables that are set to nothing: which of them torch takes as if they were not set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: An empty text asks the allocator for nothing. Yet the first name that is set wins as a whole
#: (since torch 2.10): an empty one still hides a text under another name.
CONF_NAMES: Final = frozenset(
    {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}
)
#: Seen on the CPU with torch 2.13: empty, they leave precision, library, threads and instructions
#: as without them, where another value changes these. Of others it is not known.
AS_IF_UNSET: Final = frozenset(
    {
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "TORCH_BLAS_PREFER_CUBLASLT",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "ATEN_CPU_CAPABILITY",
    }
)


def without_empty(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that are empty and mean the same as not set."""
    same = AS_IF_UNSET
    if not any(variables.get(name) for name in CONF_NAMES):
        same |= CONF_NAMES
    return {name: text for name, text in variables.items() if text or name not in same}

"""Which packages make up the GPU stack, and what conda calls what pip calls otherwise."""

from __future__ import annotations

import re
from typing import Final

#: Packages that decide what torch does on a GPU, by conda's and pip's names.
_STACK: Final = re.compile(
    r"(?:py)?torch|torchvision|torchaudio|libtorch|torchao|torchdata|torchcodec|pytorch-\w+"
    r"|libtorch-.*|pytorch-(?:cuda|mutex|gpu|cpu)|triton|libmagma\w*|magma\w*"
    r"|nvidia-.*|cuda(?:-.*|toolkit)?|cudnn|libcudnn.*|nccl|libnccl.*|lib(?:cublas|cufft|curand"
    r"|cusolver|cusparse|cusparselt|nvjitlink|cufile|npp|nvjpeg|cudss)(?:-.*)?|cusparselt|cutensor"
    r"|xformers|flash-attn|bitsandbytes|mkl|libblas|libcblas|liblapack|libopenblas.*|openblas"
    r"|_openmp_mutex|llvm-openmp|libgomp|intel-openmp"
)
#: conda's name -> pip's, where they differ (conda-forge and the pytorch channel).
_PIP_NAMES: Final = {
    "pytorch": "torch",
    "pytorch-lightning": "pytorch-lightning",
    "pyyaml": "pyyaml",
    "msgpack-python": "msgpack",
    "python-dateutil": "python-dateutil",
    "pillow": "pillow",
    "opencv": "opencv-python",
    "importlib_metadata": "importlib-metadata",
    "importlib-metadata": "importlib-metadata",
    "brotli-python": "brotli",
    "pysocks": "pysocks",
    "python-tzdata": "tzdata",
    "protobuf": "protobuf",
    "huggingface_hub": "huggingface-hub",
}
#: conda packages that are no Python distributions although pip has one of the same name: the
#: versions of the two are counted differently.
_NOT_PYTHON: Final = frozenset({"python", "cudnn", "nccl", "zlib", "openssl", "ncurses", "tzdata"})


def in_gpu_stack(name: str) -> bool:
    """Say whether a package is of the GPU stack."""
    return _STACK.fullmatch(name.lower()) is not None


def pip_name(conda_name: str) -> str | None:
    """Return what pip calls a conda package; None for one that is certainly no distribution."""
    name = conda_name.lower()
    if name in _NOT_PYTHON or name.startswith(("lib", "_")):
        return None
    return _PIP_NAMES.get(name, re.sub(r"[-_.]+", "-", name))

"""Why `import torch` failed, told from the words of the error."""

from __future__ import annotations

import re

import msgspec


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of import failure and what to do about it."""

    name: str
    pattern: str
    advice: str
    torch_again: bool = False
    """The same torch, installed once more, mends it."""
    only_raised: bool = False
    """Only an exception says so: a warning in the same words ends no process."""


_KINDS = (
    Kind(
        name="the driver's library is missing",
        pattern=r"libcuda\.so\S*: cannot open shared object file",
        advice="It comes with the NVIDIA driver. Install the driver's compute libraries "
        "(libcuda1), or start the container with its GPUs (--gpus all).",
    ),
    Kind(
        name="shared library missing",
        pattern=r"cannot open shared object file|Library not loaded",
        advice="Install torch again, with the libraries it depends on; one that does not come with "
        "torch (its name says nothing of torch or CUDA) is the system's to install.",
        torch_again=True,
    ),
    Kind(
        name="MKL without iJIT_NotifyEvent",
        pattern=r"iJIT_NotifyEvent",
        advice="Install mkl below 2024.1: see LIB005.",
    ),
    Kind(
        name="nvJitLink and cuSPARSE of different versions",
        pattern=r"nvJitLink",
        advice="Let the loader find the wheels' own libraries: see LIB006.",
    ),
    Kind(
        name="NCCL symbol missing",
        pattern=r"undefined symbol: nccl|libnccl",
        advice="Let the loader find the NCCL of this torch: see LIB007.",
    ),
    Kind(
        name="C or C++ library too old",
        pattern=r"GLIBC(XX)?_\d|CXXABI_\d|GLIBC_",
        advice="The system's C library is older than this torch needs: see LIB008.",
    ),
    Kind(
        name="cuDNN of another version",
        pattern=r"cuDNN version incompatibility|libcudnn",
        advice="Let the loader find the cuDNN of this torch: see LIB001.",
    ),
    Kind(
        name="undefined symbol",
        pattern=r"undefined symbol|DLL load failed|WinError 12[67]",
        advice="Two builds are mixed. Make the environment afresh from one channel.",
    ),
    Kind(
        name="no space or no permission",
        pattern=r"No space left|Permission denied|Errno 13|Errno 28",
        advice="Free some space or mend the permissions, then try again.",
    ),
    Kind(
        name="a module named like one of torch's",
        pattern=r"partially initialized module|circular import|No module named 'torch\.",
        advice="A file named torch, or a broken install, is in the way. Install torch again.",
    ),
    Kind(
        name="a Python package is missing",
        # torch only warns where NumPy is missing, and works.
        pattern=r"(?<!Failed to initialize NumPy: )No module named|ModuleNotFoundError",
        advice="Install what the message names; the environment is incomplete.",
        only_raised=True,
    ),
    Kind(
        name="out of memory",
        pattern=r"MemoryError|Cannot allocate memory|SIGKILL|signal 9",
        advice="The process was out of memory or was killed. Raise the limit or free memory.",
    ),
)

_OTHER = Kind(
    name="not classified",
    pattern="",
    advice="Make the environment afresh; if it fails again, search for the message.",
)


_BY_END = {
    "timed_out": Kind(
        name="not finished in time",
        pattern="",
        advice="On a slow file system give it more time (--timeout). If it hangs there again, the "
        "driver may hang: see whether nvidia-smi answers.",
    ),
    "crashed": Kind(
        name="the interpreter crashed",
        pattern="",
        advice="Unset LD_LIBRARY_PATH and LD_PRELOAD and try again; then make the environment "
        "afresh from one channel.",
    ),
    "exited": Kind(
        name="something ended Python",
        pattern="",
        advice="Look for a sitecustomize or a .pth file that ends the interpreter; "
        "`python -I -c 'import torch'` leaves most of them out.",
    ),
}


_MISSING = re.compile(r"([\w.+-]+): cannot open shared object file|Library not loaded: (\S+)")


def missing_library(words: str) -> str:
    """Return the library that the loader did not find; empty where the words name none."""
    found = _MISSING.search(words)
    return "" if found is None else found[1] or found[2].rpartition("/")[2]


def classify(words: str, how: str) -> Kind:
    """Return the kind of an import failure.

    Args:
        words: everything torch said.
        how: `raised`, `crashed`, `timed_out` or `exited`: what there is to say where no word helps.

    """
    kinds = (kind for kind in _KINDS if how == "raised" or not kind.only_raised)
    by_words = next((kind for kind in kinds if re.search(kind.pattern, words)), None)
    return by_words or _BY_END.get(how, _OTHER)

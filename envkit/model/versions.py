"""How the versions of drivers, CUDA, GPUs and PyTorch are written, and how they order.

Every function is total: it returns a value that orders correctly, or raises `ValueError` with a
sentence that names the text. Versions are integer tuples (570.124.06 is newer than 570.26);
PyTorch's are `packaging` versions with the build they carry taken apart.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from packaging.version import InvalidVersion, Version

#: Driver version as three integers: 535.146.02 -> (535, 146, 2); 570.26 -> (570, 26, 0).
Driver = tuple[int, int, int]
#: CUDA version as (major, minor).
Cuda = tuple[int, int]
#: Compute capability as (major, minor).
Capability = tuple[int, int]

BuildKind = Literal["cuda", "cpu", "rocm", "xpu", "unstated", "other"]

_DRIVER = re.compile(r"([0-9]{2,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_CUDA = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9]{1,5}){0,2}")
_CAPABILITY = re.compile(r"([0-9]{1,2})\.([0-9])")
_ARCH = re.compile(r"(sm|compute)_([0-9]{1,2})([0-9])([af]?)")
_CUDA_TAG = re.compile(r"cu([1-9][0-9]?)([0-9])")
_ROCM_TAG = re.compile(r"rocm[0-9.]+")
_COMMIT_TAG = re.compile(r"(?:git|g)?([0-9a-f]{7,40})(?:\..*)?")
_SHOWN = 60
_LONGEST_VERSION = 200
_CUDA_MAJOR_STEP = 1000
_CUDA_MINOR_STEP = 10
_CUDA_INT_LIMIT = 1_000_000


class Arch(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `torch.cuda.get_arch_list()`, such as `sm_90a` or `compute_120`."""

    #: `sm` is machine code (SASS), `compute` is PTX, which the driver compiles at run time.
    kind: Literal["sm", "compute"]
    capability: Capability
    #: `a`: only this very architecture; `f`: its family; empty: the usual rules.
    suffix: Literal["", "a", "f"]


class TorchVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What `torch.__version__` says."""

    text: str
    #: The release without suffixes: `2.5.1` for `2.5.1.post200`, `2.6.0` for `2.6.0a0+git1234567`.
    base: str
    release: tuple[int, int, int]
    #: False for alpha, release candidate and development builds: no table knows those.
    is_release: bool
    kind: BuildKind
    #: The local part as written: `cu124`, `cpu`, `rocm6.2`, `gitfb421dd`; None without a `+`.
    local: str | None
    #: CUDA version that the local tag names, None where it names none.
    cuda: Cuda | None
    #: Commit in the local part (`+git1234567`), None where there is none.
    commit: str | None
    #: conda's `.postN`, None where there is none.
    post: int | None

    @property
    def minor(self) -> str:
        """The release series, `2.5` for 2.5.1."""
        return f"{self.release[0]}.{self.release[1]}"


def parse_driver(text: str) -> Driver:
    """Read an NVIDIA driver version.

    Raises:
        ValueError: the text is not two or three numbers with dots between.

    """
    found = _DRIVER.fullmatch(text.strip())
    if found is None:
        raise _not_a(text, "driver version", "535.146.02")
    branch, minor, patch = found.groups(default="0")
    return int(branch), int(minor), int(patch)


def parse_cuda(text: str) -> Cuda:
    """Read a CUDA version; a patch level (`12.4.131`) is allowed and dropped.

    Raises:
        ValueError: the text does not start with a major and a minor number.

    """
    found = _CUDA.fullmatch(text.strip())
    if found is None:
        raise _not_a(text, "CUDA version", "12.4")
    return int(found[1]), int(found[2])


def cuda_from_integer(number: int) -> Cuda:
    """Read the integer of `cuDriverGetVersion` and `cudaRuntimeGetVersion`: 12040 -> (12, 4).

    Raises:
        ValueError: no CUDA version is written so.

    """
    if not _CUDA_MAJOR_STEP <= number < _CUDA_INT_LIMIT:
        message = f"{number} is not a CUDA version integer (12040 stands for 12.4)"
        raise ValueError(message)
    return number // _CUDA_MAJOR_STEP, number % _CUDA_MAJOR_STEP // _CUDA_MINOR_STEP


def parse_capability(text: str) -> Capability:
    """Read a compute capability, `9.0` -> (9, 0).

    Raises:
        ValueError: the text is not a major number, a dot and one digit.

    """
    found = _CAPABILITY.fullmatch(text.strip())
    if found is None:
        raise _not_a(text, "compute capability", "9.0")
    return int(found[1]), int(found[2])


def parse_arch(text: str) -> Arch:
    """Read one entry of `torch.cuda.get_arch_list()`.

    Raises:
        ValueError: the text is not `sm_NN` or `compute_NN`, with `a` or `f` after it or not.

    """
    found = _ARCH.fullmatch(text.strip())
    if found is None:
        raise _not_a(text, "GPU architecture", "sm_90")
    kind: Literal["sm", "compute"] = "sm" if found[1] == "sm" else "compute"
    suffixes: dict[str, Literal["", "a", "f"]] = {"": "", "a": "a", "f": "f"}
    return Arch(kind=kind, capability=(int(found[2]), int(found[3])), suffix=suffixes[found[4]])


def parse_cuda_tag(tag: str) -> Cuda:
    """Read the CUDA version of a wheel tag: `cu124` -> (12, 4), `cu130` -> (13, 0).

    Raises:
        ValueError: the tag is not `cu` and two or three digits.

    """
    found = _CUDA_TAG.fullmatch(tag.strip())
    if found is None:
        raise _not_a(tag, "CUDA wheel tag", "cu124")
    return int(found[1]), int(found[2])


def cuda_tag(cuda: Cuda) -> str:
    """Write a CUDA version as a wheel tag: (12, 4) -> `cu124`.

    Raises:
        ValueError: the version has no tag.

    """
    major, minor = cuda
    if not (1 <= major <= 99 and 0 <= minor <= 9):  # noqa: PLR2004  (digits of the tag)
        message = f"CUDA {major}.{minor} cannot be written as a wheel tag such as cu124"
        raise ValueError(message)
    return f"cu{major}{minor}"


def parse_torch(text: str) -> TorchVersion:
    """Take a PyTorch version apart.

    Raises:
        ValueError: the text is not a version as Python packages write it.

    """
    shown = text.strip()
    if len(shown) > _LONGEST_VERSION:
        raise _not_a(text, "PyTorch version", "2.5.1+cu124")
    try:
        version = Version(shown)
    except InvalidVersion:
        raise _not_a(text, "PyTorch version", "2.5.1+cu124") from None
    major, minor, patch = (*version.release, 0, 0)[:3]
    kind, cuda, commit = _read_local(version.local)
    return TorchVersion(
        text=shown,
        base=f"{major}.{minor}.{patch}",
        release=(major, minor, patch),
        is_release=not version.is_prerelease and commit is None,
        kind=kind,
        local=version.local,
        cuda=cuda,
        commit=commit,
        post=version.post,
    )


def _read_local(local: str | None) -> tuple[BuildKind, Cuda | None, str | None]:
    """Kind of build, CUDA version and commit of a version's local part."""
    if local is None:
        return "unstated", None, None
    first = local.partition(".")[0]  # 2.0.1+cu117.with.pypi.cudnn
    if _CUDA_TAG.fullmatch(first):
        return "cuda", parse_cuda_tag(first), None
    plain: dict[str, BuildKind] = {"cpu": "cpu", "xpu": "xpu"}
    kind = plain.get(first, "rocm" if _ROCM_TAG.match(local) else "other")
    commit = _COMMIT_TAG.fullmatch(local) if kind == "other" else None
    return kind, None, commit[1] if commit else None


def _not_a(text: str, what: str, example: str) -> ValueError:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return ValueError(f"{shown!r} is not a {what} (expected something like {example})")

"""What torch says about itself before CUDA is touched: its build, its switches, its threads."""

from __future__ import annotations

import sys
from typing import Any, Optional

from .flags import read_flags
from .protocol import Emitter
from .states import absent, not_applicable, plain, unreadable
from .torch_api import (
    Missing,
    arch_flags,
    attempt,
    call,
    cudnn_compiled,
    lookup,
    nccl_version,
)

MAX_TEXT_CHARS = 4000
CPU_BUILD = "this torch is built without CUDA"


def import_torch(emit: Emitter) -> "Optional[Any]":
    """Import torch; None when that raised, which is then reported as an `error` event.

    No timer writes the stack here when it takes too long: `faulthandler` then reads the frames of
    threads that run, and during an import that crashed the child. The parent ends it at the limit.
    """
    emit.stage("importing_torch")
    try:
        import torch
    except BaseException as error:  # noqa: BLE001  (SystemExit of a broken install too)
        emit.error("importing_torch", error)
        return None
    emit.stage("imported")
    return torch


def is_cuda_build(torch: Any) -> bool:
    """Whether this torch is built for CUDA or, under the same names, for ROCm."""
    return any(
        isinstance(lookup(torch, "version." + name), str) and bool(lookup(torch, "version." + name))
        for name in ("cuda", "hip")
    )


def build_facts(torch: Any) -> "dict[str, Any]":
    """Return the facts that can be had without initialising CUDA."""
    cuda = is_cuda_build(torch)
    return {
        "version": plain(_text(lookup(torch, "__version__"))),
        "git_version": plain(_text(lookup(torch, "version.git_version"))),
        "cuda_version": _toolkit(torch, "cuda", CPU_BUILD),
        "hip_version": _toolkit(torch, "hip", "this torch is not built for ROCm"),
        "debug": plain(lookup(torch, "version.debug")),
        "file": plain(_text(lookup(torch, "__file__"))),
        "cxx11_abi": plain(call(torch, "compiled_with_cxx11_abi")),
        "arch_list": _arch_list(torch) if cuda else not_applicable(CPU_BUILD),
        "cudnn_version_compiled": plain(cudnn_compiled(torch)) if cuda else _no_cuda(),
        "nccl_version": plain(nccl_version(torch)) if cuda else _no_cuda(),
        "flags": flags_fact(torch),
        "threads": threads_fact(torch),
        "default_dtype": _default_dtype(torch),
        "numpy_version": _numpy_version(),
        "built_with": _long_text(torch, "__config__.show"),
        "parallel_info": _long_text(torch, "__config__.parallel_info"),
    }


def flags_fact(torch: Any) -> "dict[str, Any]":
    """Return the state of every switch by name; one this torch does not have is unreadable."""
    return {name: plain(value) for name, value in read_flags(torch).items()}


def threads_fact(torch: Any) -> "dict[str, Any]":
    """Return the numbers of threads inside one operation and between operations."""
    return {
        "intra": plain(call(torch, "get_num_threads")),
        "inter": plain(call(torch, "get_num_interop_threads")),
    }


def _no_cuda() -> "dict[str, str]":
    return not_applicable(CPU_BUILD)


def _text(value: Any) -> Any:
    # torch.__version__ is a subclass of str, and a broken torch may have None.
    return str(value) if isinstance(value, str) else _not_text(value)


def _not_text(value: Any) -> Missing:
    return value if isinstance(value, Missing) else Missing("it is {!r}".format(value)[:200])


def _toolkit(torch: Any, name: str, without: str) -> Any:
    found = lookup(torch, "version." + name)
    if isinstance(found, Missing):
        return unreadable(found.reason)
    return str(found) if found else absent(without)


def _arch_list(torch: Any) -> Any:
    flags = arch_flags(torch)
    return flags.split() if isinstance(flags, str) else plain(_not_text(flags))


def _default_dtype(torch: Any) -> Any:
    found = call(torch, "get_default_dtype")
    return plain(found if isinstance(found, Missing) else str(found).rsplit(".", 1)[-1])


def _numpy_version() -> Any:
    # torch has tried to import it already; it is not imported on torch's behalf.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return plain(_text(attempt(lambda: numpy.__version__)))
    from importlib import metadata

    try:
        return metadata.version("numpy")
    except metadata.PackageNotFoundError:
        return absent("numpy is not installed")


def _long_text(torch: Any, path: str) -> Any:
    found = _text(call(torch, path))
    return plain(found if isinstance(found, Missing) else found[:MAX_TEXT_CHARS])

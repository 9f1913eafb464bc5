"""Every private or version-dependent call into torch, each behind a check that it is there.

A call gives its value or `Missing(reason)`; it never raises because this torch is older, newer or
built without something. Public calls that every torch since 1.8 has are made where they are needed.
torch is passed in: this file can be imported before torch is.
"""

from __future__ import annotations

import importlib
import inspect
from functools import partial
from typing import Any, Callable, Union

from .protocol import short_reason

#: First major version of cuDNN, and first version of NCCL, with four digits below the major.
CUDNN_NEW_FORMULA = 9
NCCL_NEW_FORMULA = 20900


class Missing(object):
    """A value that this torch cannot give, and why.

    `exists` is false where this torch does not have the thing that was asked for at all.
    """

    __slots__ = ("exists", "reason")

    def __init__(self, reason: str, *, exists: bool = True) -> None:
        self.reason = reason
        self.exists = exists

    def __repr__(self) -> str:
        """Show the reason."""
        return "Missing({!r})".format(self.reason)


def attempt(call: "Callable[[], Any]") -> Any:
    """Return what the call gives, or Missing with what it raised.

    The one place where whatever torch may raise is turned into a value: depending on version and
    build the same question raises AttributeError, AssertionError, RuntimeError, ImportError, ...
    """
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return Missing(short_reason(error))


def lookup(root: Any, path: str) -> Any:
    """Return `root.a.b.c` for `a.b.c`, or Missing that names the first part that is not there."""
    found = root
    for depth, name in enumerate(path.split("."), 1):
        step = attempt(partial(getattr, found, name))
        if isinstance(step, Missing):
            missing = "this torch has no torch." + ".".join(path.split(".")[:depth])
            return Missing(missing, exists=False)
        found = step
    return found


def call(root: Any, path: str, *args: Any, **kwargs: Any) -> Any:
    """Call `root.path(*args, **kwargs)`; Missing when it is not there or raises."""
    function = lookup(root, path)
    if isinstance(function, Missing):
        return function
    return attempt(lambda: function(*args, **kwargs))


# --- memory history -------------------------------------------------------------------------------


def start_memory_history(torch: Any, max_entries: int) -> "Union[bool, Missing]":
    """Record every request of the CUDA allocator, without tracebacks, from now on.

    Returns True when it records. Signatures: torch 2.0 takes `enabled: bool` with
    `trace_alloc_max_entries`; from 2.1 on `enabled="all", context=..., max_entries=...`, and later
    versions add `clear_history`. torch before 2.0 has none.
    """
    record = lookup(torch, "cuda.memory._record_memory_history")
    if isinstance(record, Missing):
        return record
    names = _parameters(torch, record)
    if "trace_alloc_max_entries" in names and "max_entries" not in names:
        done = attempt(
            lambda: record(enabled=True, record_context=False, trace_alloc_max_entries=max_entries)
        )
    elif "max_entries" in names:
        options = {"context": None, "stacks": "python", "max_entries": max_entries}
        if "clear_history" in names:
            options["clear_history"] = True
        done = attempt(lambda: record("all", **options))
    else:
        return Missing("the signature of torch.cuda.memory._record_memory_history is not known")
    return done if isinstance(done, Missing) else True


def stop_memory_history(torch: Any) -> "Union[bool, Missing]":
    """Stop what `start_memory_history` started."""
    record = lookup(torch, "cuda.memory._record_memory_history")
    if isinstance(record, Missing):
        return record
    off: Any = None if "max_entries" in _parameters(torch, record) else False
    done = attempt(lambda: record(off))
    return done if isinstance(done, Missing) else True


def _parameters(torch: Any, record: Any) -> "list[str]":
    # From 2.1 on the public function only forwards (*args, **kwargs): its work is in `_impl`.
    implementation = lookup(torch, "cuda.memory._record_memory_history_impl")
    target = record if isinstance(implementation, Missing) else implementation
    names = attempt(lambda: list(inspect.signature(target).parameters))
    return [] if isinstance(names, Missing) else names


def memory_snapshot(torch: Any) -> "Union[dict[str, Any], Missing]":
    """Return the allocator's snapshot: segments, traces, allocator_settings (torch >= 2.0)."""
    found = call(torch, "cuda.memory._snapshot")
    if isinstance(found, (dict, Missing)):
        return found
    return Missing("torch.cuda.memory._snapshot gave {}".format(type(found).__name__))


# --- allocator ------------------------------------------------------------------------------------


def memory_stats(torch: Any, device: Any = None) -> Any:
    """Return the allocator's counters, flat: `allocated_bytes.all.current` and so on."""
    return call(torch, "cuda.memory_stats", device)


def allocator_settings(torch: Any) -> "Union[dict[str, Any], Missing]":
    """Return the settings in effect, as the snapshot reports them (torch >= 2.0)."""
    snapshot = memory_snapshot(torch)
    if isinstance(snapshot, Missing):
        return snapshot
    settings = snapshot.get("allocator_settings")
    if isinstance(settings, dict):
        return settings
    return Missing("the memory snapshot of this torch has no allocator_settings")


def set_allocator_settings(torch: Any, conf: str) -> Any:
    """Give the allocator settings after it has begun, where this torch can; torch >= 2.1."""
    return call(torch, "cuda.memory._set_allocator_settings", conf)


def allocator_backend(torch: Any) -> Any:
    """Return `native`, `cudaMallocAsync` or `pluggable` (torch >= 2.0)."""
    return call(torch, "cuda.get_allocator_backend")


def set_memory_fraction(torch: Any, fraction: float, device: Any) -> "Union[bool, Missing]":
    """Limit what the allocator may take to a share of the device (torch >= 1.8)."""
    done = call(torch, "cuda.set_per_process_memory_fraction", fraction, device)
    return done if isinstance(done, Missing) else True


def clear_workspaces(torch: Any) -> "Union[bool, Missing]":
    """Give cuBLAS's and cuBLASLt's workspaces back to the allocator (torch >= 1.13)."""
    done = call(torch, "_C._cuda_clearCublasWorkspaces")
    return done if isinstance(done, Missing) else True


# --- libraries ------------------------------------------------------------------------------------


def cudnn_compiled(torch: Any) -> "Union[int, Missing]":
    """Return the cuDNN version torch was compiled with, as cuDNN's own integer (`91002`)."""
    return _cudnn_integer(call(torch, "_C._cudnn.getCompileVersion"))


def cudnn_loaded(torch: Any) -> "Union[int, Missing]":
    """Return the version of the cuDNN that is loaded, asked past torch's compatibility check.

    `torch.backends.cudnn.version()` raises when the two do not fit: then this still answers.
    """
    found = call(torch, "backends.cudnn.version")
    if isinstance(found, int):
        return found
    private = _cudnn_integer(call(torch, "_C._cudnn.getRuntimeVersion"))
    return found if isinstance(private, Missing) and isinstance(found, Missing) else private


def _cudnn_integer(version: Any) -> "Union[int, Missing]":
    """Turn (9, 10, 2) into 91002, (8, 9, 7) into 8907: cuDNN changed its formula with 9.0."""
    if isinstance(version, Missing):
        return version
    try:
        major, minor, patch = (int(part) for part in version)
    except (TypeError, ValueError):
        return Missing("cuDNN's version came as {!r}".format(version)[:200])
    return major * (10000 if major >= CUDNN_NEW_FORMULA else 1000) + minor * 100 + patch


def nccl_version(torch: Any) -> Any:
    """Return NCCL's version, `2.27.5`; torch before 1.11 gives the integer 2708 or 21003."""
    found = call(torch, "cuda.nccl.version")
    if isinstance(found, (tuple, list)):
        return ".".join(str(part) for part in found)
    if isinstance(found, int):
        scale = 10000 if found >= NCCL_NEW_FORMULA else 1000
        return "{}.{}.{}".format(found // scale, found % scale // 100, found % 100)
    return found


def preferred_library(torch: Any, kind: str) -> "Union[str, Missing]":
    """Return the library preferred for `blas` or `linalg`: `default`, `cublas`, `cublaslt`, ..."""
    found = call(torch, "backends.cuda.preferred_{}_library".format(kind))
    if isinstance(found, Missing):
        return found
    return str(getattr(found, "name", found)).rsplit(".", 1)[-1].lower()


def set_preferred_library(torch: Any, kind: str, name: str) -> "Union[bool, Missing]":
    """Prefer a library for `blas` or `linalg`."""
    done = call(torch, "backends.cuda.preferred_{}_library".format(kind), name)
    return done if isinstance(done, Missing) else True


# --- devices, kernels and the profiler -----------------------------------------------------------


def arch_flags(torch: Any) -> Any:
    """Return the architectures of the build in one text; unlike get_arch_list it asks no device."""
    return call(torch, "_C._cuda_getArchFlags")


def keep_busy(torch: Any, cycles: int) -> "Union[bool, Missing]":
    """Keep the current stream busy for some clock cycles."""
    done = call(torch, "cuda._sleep", cycles)
    return done if isinstance(done, Missing) else True


def profiler_is_on(torch: Any) -> bool:
    """Whether torch's own profiler is running; a version answers in one of two places."""
    places = ("_C._autograd._profiler_enabled", "autograd._profiler_enabled")
    return any(call(torch, place) is True for place in places)


def import_compiler(torch: Any) -> Any:
    """Import torch.compile's front end (torch >= 2.0), which checkpointing imports too."""
    return attempt(lambda: importlib.import_module(torch.__name__ + "._dynamo"))


def dispatch_mode(torch: Any) -> Any:
    """Return the class whose instances see every operation that torch carries out."""
    return lookup(torch, "utils._python_dispatch.TorchDispatchMode")


_SPARSE_PARTS = {
    "torch.sparse_coo": ("_indices", "_values"),
    "torch.sparse_csr": ("crow_indices", "col_indices", "values"),
    "torch.sparse_bsr": ("crow_indices", "col_indices", "values"),
    "torch.sparse_csc": ("ccol_indices", "row_indices", "values"),
    "torch.sparse_bsc": ("ccol_indices", "row_indices", "values"),
}


def sparse_pieces(tensor: Any) -> "list[tuple[str, Any]]":
    """Return by name the dense tensors that a sparse one is made of; none of any other tensor."""
    names = _SPARSE_PARTS.get(str(tensor.layout), ())
    return [(name.strip("_"), getattr(tensor, name)()) for name in names]


def event_tree(profiler: Any) -> Any:
    """Return the roots of what torch's profiler recorded; only these tell addresses."""
    return call(profiler, "kineto_results.experimental_event_tree")


# --- CUDA's state in this process -----------------------------------------------------------------


def cuda_is_initialized(torch: Any) -> bool:
    """Whether torch has initialised CUDA in this process (then a fork cannot use it)."""
    return call(torch, "cuda.is_initialized") is True


def fork_is_bad(torch: Any) -> bool:
    """Whether this process was forked from one that had used CUDA."""
    return call(torch, "cuda._is_in_bad_fork") is True

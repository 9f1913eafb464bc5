"""Which probes a suite has and which of their values must repeat: fixed by its version.

What "measured" means below: FINGERPRINT.md, two H200 with torch 2.11.0+cu130. A change of anything
in this file that changes a probe's meaning is a new VERSION.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

VERSION = 1

KINDS = ("cpu", "cuda")

ALLOCATOR, TENSORS, WORKSPACES = "allocator", "tensors", "workspaces"
PEAKS, NUMERICS, CONTEXT = "peaks", "numerics", "context"


class Probe(NamedTuple):
    """One probe of a suite on one kind of device."""

    name: str
    """`FAMILY.GROUP.PART` or `FAMILY.GROUP`; a group is what runs together."""
    group: str
    """What the family's own code calls it, `vit.fp32` or `size_ladder`."""
    part: str
    layer: str
    family: str
    must_repeat: bool
    """Whether its values count; a probe that need not repeat is shown, and is in no digest."""
    depends_on: Tuple[str, ...]
    """Parts of the comparability key that lawfully move it."""


class Suite(NamedTuple):
    """A named list of probes for each kind of device."""

    name: str
    version: int
    probes: Dict[str, Tuple[Probe, ...]]


#: Measured: counters of fixed exercises were identical in 204 traces on two machines.
EXERCISES = (
    "five_tensors",
    "size_ladder",
    "checkerboard",
    "small_checkerboard",
    "empty_cache",
    "memory_limit",
    "streams",
    "random_trace",
)

#: Part of a workload -> its layer.
PARTS = (
    ("tensors", TENSORS),
    ("workspaces", WORKSPACES),
    ("peaks", PEAKS),
    ("losses", NUMERICS),
    ("weights", NUMERICS),
)

#: Measured peaks were usually identical and could differ by a 2..20 MiB segment between processes.
_UNSTEADY_PARTS = ("peaks",)

#: Measured: fp32 attention's backward differed in every run at batch 8 and 16 (atomics).
_UNSTEADY_BITS = {"cuda": ("vit.fp32",), "cpu": ()}  # type: Dict[str, Tuple[str, ...]]

#: Gradients of a convolution alone and LAPACK-like routines: their repetition on a GPU was not
#: measured, so they may not accuse a machine.
_UNMEASURED = {"cuda": ("conv2d.backward", "linalg"), "cpu": ()}  # type: Dict[str, Tuple[str, ...]]

_QUICK_WORKLOADS = ("vit.bf16", "resnet.fp32")
_WORKLOADS = ("vit.fp32", "vit.bf16", "resnet.fp32", "resnet.bf16")

_QUICK_NUMERICS = (
    "matmul.fp32",
    "matmul.bf16",
    "linear.bf16",
    "conv2d",
    "sdpa.math",
    "sdpa.flash",
    "reductions",
    "random.cpu",
    "random.device",
)
#: Measured to repeat: matmul, conv2d, reductions, random numbers. Expected: the others, which use
#: no atomic additions; a first run that shows otherwise is a reason for another version.
_NUMERICS = (
    "matmul.fp64",
    "matmul.fp32",
    "matmul.bf16",
    "matmul.fp16",
    "linear.bf16",
    "conv2d",
    "conv2d.backward",
    "sdpa.math",
    "sdpa.flash",
    "sdpa.efficient",
    "sdpa.cudnn",
    "reductions",
    "pointwise",
    "normalised",
    "random.cpu",
    "random.device",
    "linalg",
)

#: Kernels that a kind of device never has; they are no members there.
_NOT_ON = {"cpu": ("sdpa.efficient", "sdpa.cudnn"), "cuda": ()}  # type: Dict[str, Tuple[str, ...]]


def _exercises(_kind: str) -> List[Probe]:
    return [
        Probe(
            name="exercises." + name,
            group=name,
            part="",
            layer=ALLOCATOR,
            family="exercises",
            must_repeat=True,
            depends_on=("settings",),
        )
        for name in EXERCISES
    ]


def _workload(kind: str, name: str) -> List[Probe]:
    family = name.split(".", maxsplit=1)[0]
    found = []
    for part, layer in PARTS:
        steady = part not in _UNSTEADY_PARTS
        if layer == NUMERICS:
            steady = name not in _UNSTEADY_BITS[kind]
        depends = _depends(kind, layer)
        found.append(Probe(name + "." + part, name, part, layer, family, steady, depends))
    return found


def _depends(kind: str, layer: str) -> Tuple[str, ...]:
    if layer == TENSORS:
        # Not on threads: measured on the CPU, torch 2.13, 1 and 2 threads.
        return ("torch",)
    if layer == PEAKS:
        return ("torch", "threads") if kind == "cpu" else ("torch", "capability", "settings")
    if kind == "cpu":
        return ("torch", "threads")
    return ("torch", "cuda", "cudnn", "cublas", "capability", "sm_count", "flags")


def _numerics(kind: str, names: Tuple[str, ...]) -> List[Probe]:
    return [
        Probe(
            "numerics." + name,
            name,
            "",
            NUMERICS,
            "numerics",
            name not in _UNMEASURED[kind],
            _depends(kind, NUMERICS),
        )
        for name in names
        if name not in _NOT_ON[kind]
    ]


def _context(_kind: str) -> List[Probe]:
    return [
        Probe(
            name="context.memory",
            group="memory",
            part="",
            layer=CONTEXT,
            family="context",
            must_repeat=False,
            depends_on=(),
        )
    ]


def _suite(name: str, workloads: Tuple[str, ...], numerics: Tuple[str, ...]) -> Suite:
    return Suite(
        name,
        VERSION,
        {
            kind: (
                *_context(kind),
                *_exercises(kind),
                *(probe for workload in workloads for probe in _workload(kind, workload)),
                *_numerics(kind, numerics),
            )
            for kind in KINDS
        },
    )


#: Every probe of `quick` is in `standard` with the same sizes, so the two can be compared.
SUITES: Dict[str, Suite] = {
    "quick": _suite("quick", _QUICK_WORKLOADS, _QUICK_NUMERICS),
    "standard": _suite("standard", _WORKLOADS, _NUMERICS),
}

"""Which probes a suite has and which of their values must repeat: fixed by its version."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

from . import members
from .members import ALLOCATOR, CONTEXT, NUMERICS, PEAKS, TENSORS, VERSION, Names

__all__ = ["KINDS", "OWN_STEP", "SUITES", "VERSION", "Probe", "Suite", "call_probes"]

KINDS = ("cpu", "cuda")

#: How the names of the probes of a user's own step begin.
OWN_STEP = "call."
#: How the names of the allocator's exercises begin.
EXERCISE = "exercises."


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
    optional: bool = False
    """Whether it may lawfully be missing; then it has no part in the digest of its layer."""


class Suite(NamedTuple):
    """A named list of probes for each kind of device."""

    name: str
    version: int
    probes: Dict[str, Tuple[Probe, ...]]


def _exercises(_kind: str) -> List[Probe]:
    return [
        Probe(
            name=EXERCISE + name,
            group=name,
            part="",
            layer=ALLOCATOR,
            family="exercises",
            must_repeat=True,
            depends_on=("settings",),
        )
        for name in members.EXERCISES
    ]


def _workload(kind: str, name: str) -> List[Probe]:
    family = members.FAMILY_OF.get(name, name.split(".", maxsplit=1)[0])
    found = []
    for part in members.parts(name):
        layer = members.LAYER_OF[part]
        steady = part not in members.UNSTEADY_PARTS
        if layer == NUMERICS:
            steady = name not in members.UNSTEADY_BITS[kind]
        if part == "requests" and name in members.UNSTEADY_REQUESTS:
            steady = False
        steady = steady and name not in members.UNMEASURED[kind]
        found.append(
            Probe(
                name=name + "." + part,
                group=name,
                part=part,
                layer=layer,
                family=family,
                must_repeat=steady,
                depends_on=_depends(kind, layer),
                optional=name in members.OPTIONAL,
            )
        )
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


def _numerics(kind: str, name: str) -> Probe:
    return Probe(
        name="numerics." + name,
        group=name,
        part="",
        layer=NUMERICS,
        family="numerics",
        must_repeat=name not in members.UNMEASURED[kind],
        depends_on=_depends(kind, NUMERICS),
        optional=name in members.OPTIONAL,
    )


def _collectives(kind: str) -> List[Probe]:
    return [
        Probe(
            name="collectives.all_reduce." + part,
            group="all_reduce",
            part=part,
            layer=NUMERICS,
            family="collectives",
            must_repeat=part not in members.OF_MANY_RANKS,
            depends_on=_depends(kind, NUMERICS),
            optional=True,
        )
        for part in members.COLLECTIVES
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


def call_probes(kind: str, target: str) -> List[Probe]:
    """Return the probes of a user's own step, which belong to no suite."""
    parts = ("tensors", "workspaces", "left", "peaks", "outputs")
    layers = dict(members.LAYER_OF, left=TENSORS)
    return [
        Probe(
            name="{}{}.{}".format(OWN_STEP, target, part),
            group=target,
            part=part,
            layer=layers[part],
            family="call",
            must_repeat=part not in members.UNSTEADY_PARTS,
            depends_on=_depends(kind, layers[part]),
            optional=True,
        )
        for part in parts
    ]


def _suite(name: str, workloads: Names, numerics: Names, *, spread: bool = False) -> Suite:
    return Suite(
        name,
        VERSION,
        {
            kind: (*_members(kind, workloads, numerics), *(_collectives(kind) if spread else ()))
            for kind in KINDS
        },
    )


def _members(kind: str, workloads: Names, numerics: Names) -> List[Probe]:
    absent = members.NOT_ON[kind]
    return [
        *_context(kind),
        *_exercises(kind),
        *(
            probe
            for workload in workloads
            if workload not in absent
            for probe in _workload(kind, workload)
        ),
        *(_numerics(kind, name) for name in numerics if name not in absent),
    ]


#: Every probe of a suite is in the next larger one with the same sizes, so they can be compared.
SUITES: Dict[str, Suite] = {
    "quick": _suite("quick", members.QUICK_WORKLOADS, members.QUICK_NUMERICS),
    "standard": _suite("standard", members.WORKLOADS, members.ALL_NUMERICS),
    "full": _suite("full", members.FULL_WORKLOADS, members.FULL_NUMERICS, spread=True),
}

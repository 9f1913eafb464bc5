"""Which layers of fingerprints can be compared, from their keys, and which differences are lawful.

What each layer depends on was measured on one GPU model (two H200, torch 2.11) and on CPUs, or is
the suite's definition; across architectures it is from the sources of torch (FINGERPRINT.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from envkit.compare.sides import Side
from envkit.model.documents import Comparable
from envkit.model.fingerprint import LAYERS, Fingerprint, Layer
from envkit.model.observed import Known

#: Parts of the key that lawfully move a layer, by kind of device.
_ON_GPU: Final[Mapping[Layer, tuple[str, ...]]] = {
    "allocator": ("rules", "settings"),
    "tensors": ("torch", "flags"),
    "workspaces": ("torch", "cuda", "cudnn", "cublas", "capability", "sm_count", "flags"),
    "peaks": ("torch", "cudnn", "cublas", "capability", "sm_count", "settings", "flags"),
    "numerics": ("torch", "cuda", "cudnn", "cublas", "capability", "sm_count", "flags"),
    "context": ("torch", "cuda", "capability"),
}
_ON_CPU: Final[Mapping[Layer, tuple[str, ...]]] = {
    "allocator": ("rules", "settings"),
    "tensors": ("torch", "flags"),
    "workspaces": ("torch", "threads", "device", "flags"),
    "peaks": ("torch", "threads"),
    "numerics": ("torch", "threads", "device", "flags"),
    "context": ("threads",),
}
#: Parts that are the hardware's; what follows from them is expected.
HARDWARE: Final = frozenset({"capability", "sm_count", "device"})
#: Layers that a fingerprint of other hardware lawfully has otherwise. Never what torch itself asks
#: for: tensors and the allocator's rules are the same on every GPU.
MOVED_BY_HARDWARE: Final[tuple[Layer, ...]] = ("workspaces", "peaks", "numerics", "context")
#: Inputs of the probes that a challenge seeds.
_SEEDED: Final = "another challenge seeded the inputs"


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the fingerprints of a comparison have in common."""

    fingerprints: tuple[Fingerprint | None, ...]
    comparable: dict[str, Comparable]
    expected: frozenset[str]
    """Layers in which a difference follows from the hardware or the driver alone."""
    same_device: bool
    """Whether all were measured on the same model of GPU (or of processor)."""
    same_suite: bool
    same_challenge: bool


def find_ground(sides: Sequence[Side]) -> Ground:
    """Look at the keys of all fingerprints."""
    present = [side.fingerprint for side in sides if side.fingerprint is not None]
    drivers = {_driver(side) for side in sides if side.fingerprint is not None} - {""}
    moved = _moved(present)
    return Ground(
        fingerprints=tuple(side.fingerprint for side in sides),
        comparable={layer: _comparable(layer, present, moved, len(sides)) for layer in LAYERS},
        expected=_expected(present, moved, other_driver=len(drivers) > 1),
        same_device=not moved & HARDWARE,
        same_suite=len({one.suite.name for one in present}) < 2,  # noqa: PLR2004
        same_challenge=len({one.challenge for one in present}) < 2,  # noqa: PLR2004
    )


def _driver(side: Side) -> str:
    version = side.facts.driver.version if side.facts is not None else None
    return version.value if isinstance(version, Known) else ""


def _moved(present: Sequence[Fingerprint]) -> frozenset[str]:
    """Return the parts of the key that are not the same everywhere."""
    parts = [_parts(one) for one in present]
    return frozenset(name for name in parts[0] if _differ(parts, name)) if parts else frozenset()


def _differ(parts: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(one[name] != parts[0][name] for one in parts[1:])


def _parts(one: Fingerprint) -> dict[str, Any]:
    key = msgspec.structs.asdict(one.key)
    return {**key, "device": one.device, "rules": _rules(one.key.torch)}


def _unread(one: Fingerprint, names: Iterable[str]) -> list[str]:
    """Return the parts that a GPU's key should have and has not: two of them are never equal."""
    if one.key.capability is None:
        return []
    parts = _parts(one)
    return [name for name in names if parts[name] is None]


def _rules(torch: str) -> str:
    """Return the release series, which decides the allocator's rules."""
    return ".".join(torch.split("+", maxsplit=1)[0].split(".")[:2])


def _depends(present: Sequence[Fingerprint], layer: Layer) -> tuple[str, ...]:
    on_cpu = all(one.key.capability is None for one in present)
    return (_ON_CPU if on_cpu else _ON_GPU)[layer]


def _comparable(
    layer: Layer, present: Sequence[Fingerprint], moved: frozenset[str], inputs: int
) -> Comparable:
    refused = _refused(layer, present)
    if refused:
        return Comparable(answer="no", why=refused)
    reasons = [_told(part, present) for part in _depends(present, layer) if part in moved]
    if len(present) < inputs:
        reasons.append(f"{inputs - len(present)} of {inputs} inputs have no fingerprint")
    if len({one.suite.name for one in present}) > 1:
        reasons.append("over the probes that both suites have")
    if layer == "allocator" and any(_modelled(one) for one in present):
        reasons.append("answered by the model where there is no GPU, not measured")
    if reasons:
        return Comparable(answer="partly", why="; ".join(reasons))
    return Comparable(answer="yes", why=f"same {', '.join(_depends(present, layer))}")


def _refused(layer: Layer, present: Sequence[Fingerprint]) -> str:
    if len(present) < 2:  # noqa: PLR2004
        return "only one input has a fingerprint" if present else "no input has a fingerprint"
    if len({one.suite.version for one in present}) > 1:
        return "other versions of the suite measure other things"
    if layer == "numerics" and len({one.challenge for one in present}) > 1:
        return _SEEDED
    unread = sorted({name for one in present for name in _unread(one, _depends(present, layer))})
    if unread:
        return f"{', '.join(unread)} could not be read everywhere"
    if layer != "allocator" and len({one.key.capability is None for one in present}) > 1:
        return "a CPU and a GPU run other sizes and other kernels"
    return ""


def _modelled(one: Fingerprint) -> bool:
    return any(probe.modelled for probe in one.layers.allocator.values())


def _told(part: str, present: Sequence[Fingerprint]) -> str:
    values = [_parts(one)[part] for one in present]
    if isinstance(values[0], dict):
        names = sorted({n for value in values for n in value if _unlike(values, n)})
        shown = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")  # noqa: PLR2004
        return f"{part} differ ({shown})"
    distinct = sorted({str(value) for value in values})
    listed = " and ".join(distinct) if len(distinct) < 4 else f"{len(distinct)} values"  # noqa: PLR2004
    return f"{_NAMES.get(part, part)} {listed}"


_NAMES: Final = {
    "rules": "allocator rules of torch",
    "sm_count": "SM count",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "cublas": "cuBLAS",
}


def _unlike(values: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(value.get(name) != values[0].get(name) for value in values[1:])


def _expected(
    present: Sequence[Fingerprint], moved: frozenset[str], *, other_driver: bool
) -> frozenset[str]:
    """Return the layers in which nothing but hardware or driver can have moved a value."""
    found = set()
    for layer in MOVED_BY_HARDWARE:
        parts = {part for part in _depends(present, layer) if part in moved} if present else set()
        by_hardware = bool(moved & HARDWARE) and not parts - HARDWARE
        if by_hardware or (layer == "context" and other_driver and not parts):
            found.add(layer)
    return frozenset(found)

"""`envkit.fingerprint/1`: how memory and numbers behave here, probe by probe and layer by layer."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from envkit.model.facts import Scalar, Setting

Layer: TypeAlias = Literal["allocator", "tensors", "workspaces", "peaks", "numerics", "context"]

#: All layers, in the order in which they are written and shown.
LAYERS: tuple[Layer, ...] = (
    "allocator",
    "tensors",
    "workspaces",
    "peaks",
    "numerics",
    "context",
)
#: Layers with a digest. Peaks can move by a segment between processes, context always may.
DIGEST_LAYERS: tuple[Layer, ...] = ("allocator", "tensors", "workspaces", "numerics")


#: Hexadecimal digits of a short digest: enough to tell a team's machines apart, read aloud.
SHORT_DIGITS: Final = 12


def shortened(value: str) -> str:
    """Return the first digits of a `sha256:...` digest."""
    return value.removeprefix("sha256:")[:SHORT_DIGITS]


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """Which probes were run; membership and sizes are fixed by name and version."""

    name: str
    version: int


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What must agree for a comparison of all layers to mean anything."""

    torch: str
    cuda: str | None
    cudnn: int | None
    cublas: str | None
    capability: str | None
    """Compute capability of the device; null on the CPU."""
    sm_count: int | None
    settings: dict[str, Setting]
    """Allocator settings in effect."""
    flags: dict[str, Scalar]
    threads: int
    model_version: str
    """Version of the allocator model that the exercises were checked against."""


class PeakReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Peaks of a workload by the model: `allocated_bytes`, `reserved_bytes`, `segments`."""

    observed: dict[str, int]
    """With the addresses that the driver gave: these must be the measured ones."""
    canonical: dict[str, int]
    """With addresses counted upwards, which no luck of a process moves."""


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one probe gave in one layer."""

    status: Literal["exact", "unstable", "failed", "not_run"]
    values: dict[str, Any] | None
    """JSON values; null when the probe gave none."""
    digest: str | None
    """`sha256:` over the RFC 8785 form of `values`; null when not exact or in no digest."""
    reason: str = ""
    modelled: bool = False
    """The answer is the allocator model's; nothing was measured."""
    conforms: bool | None = None
    """Whether a measured exercise gave the model's counters, or a workload the peaks of its replay;
    null where that was not compared."""
    replay: PeakReplay | None = None
    """What the model says of measured peaks."""
    optional: bool = False
    """Whether it may lawfully be missing; then it has no part in the digest of its layer."""


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """Probe results by layer, then by probe name."""

    allocator: dict[str, ProbeResult]
    tensors: dict[str, ProbeResult]
    workspaces: dict[str, ProbeResult]
    peaks: dict[str, ProbeResult]
    numerics: dict[str, ProbeResult]
    context: dict[str, ProbeResult]


class Short(msgspec.Struct, frozen=True, kw_only=True):
    """Digests short enough to be read aloud: 12 hexadecimal digits each."""

    mem: str | None
    """Allocator, tensors and workspaces."""
    num: str | None
    """Numerics."""


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a suite on one device."""

    schema: Literal["envkit.fingerprint/1"] = "envkit.fingerprint/1"
    suite: Suite
    key: Key
    challenge: str | None
    device: str
    """Name of the GPU or of the processor."""
    layers: Layers
    digests: dict[str, str]
    """Layer name to `sha256:...`, where every probe of it that must repeat was exact."""
    short: Short

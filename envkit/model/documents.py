"""The other documents read and written: diff, oom, replay, lint, lock, stamp, machine, error."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from envkit.model.finding import Evidence, Finding
from envkit.model.fingerprint import Key, Short, Suite


class DiffInput(msgspec.Struct, frozen=True, kw_only=True):
    """One of the things compared."""

    label: str
    kind: str
    path: str


class Comparable(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a layer can be compared."""

    answer: Literal["yes", "no", "partly"]
    why: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One value that is not the same everywhere; `values` in the order of the inputs."""

    layer: str
    key: str
    values: tuple[Any, ...]
    kind: Literal["expected", "unexpected"] = msgspec.field(name="class")
    """Expected: it follows from different hardware or another driver."""


class NotCompared(msgspec.Struct, frozen=True, kw_only=True):
    """A value that could not be compared, with a reason an input (empty where it was readable)."""

    layer: str
    key: str
    reasons: tuple[str, ...]


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why the inputs differ."""

    code: str
    title: str
    evidence: tuple[Evidence, ...]
    confirmed: bool | None
    """Null: not tried, or not by itself."""
    together_with: tuple[str, ...] = ()
    """Causes without which it was not confirmed: their settings were set with its own."""


class DiffVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `envkit diff`."""

    status: Literal["same", "different", "incomplete"]
    exit_code: int
    headline: str


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.diff/1`."""

    schema: Literal["envkit.diff/1"] = "envkit.diff/1"
    inputs: tuple[DiffInput, ...]
    comparable: dict[str, Comparable]
    agreement: dict[str, Literal["same", "different", "not_comparable"]]
    differences: tuple[Difference, ...]
    cannot_compare: tuple[NotCompared, ...]
    causes: tuple[Cause, ...]
    groups: tuple[tuple[str, ...], ...]
    """Labels that agree with each other; empty for two inputs."""
    verdict: DiffVerdict


class OomEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One out-of-memory message, explained."""

    kind: str = msgspec.field(name="class")
    numbers: dict[str, int]
    """Names end in `_bytes`: what was printed first, then what follows from it."""
    explanation: str
    remedies: tuple[str, ...]
    """Most likely first."""
    line: int = 1
    """Of the log, where it was seen first."""
    times: int = 1
    """How often it was printed word for word."""
    source: str = ""
    """What the launcher calls the worker, `rank1` for instance; empty if it does not say."""
    device: int | None = None
    torch: str = ""
    """The releases that word it so; empty where the wording does not tell."""


class Oom(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.oom/1`."""

    schema: Literal["envkit.oom/1"] = "envkit.oom/1"
    events: tuple[OomEvent, ...]
    """Different messages, in the order of the log."""
    events_left_out: int = 0
    """Further ones, counted only."""


class ReplayProof(msgspec.Struct, frozen=True, kw_only=True):
    """How far the model followed the recorded history."""

    allocations: int
    at_recorded_address: int
    end_state_equal: bool
    ooms_reproduced: bool
    """None of the recorded OOMs could have been served from what was cached."""
    ooms: int = 0
    live_at_start: int = 0
    """Blocks that lived before the history began."""
    left_track_at: int | None = None
    """First event at which model and recording differ; null if they never do."""
    reason: str = ""
    """What differed there."""


class ReplaySetting(msgspec.Struct, frozen=True, kw_only=True):
    """What the history would have needed under one setting."""

    conf: str
    total_memory_bytes: int | None
    """What torch can have; null where no end was set."""
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    ran_out_at_event: int | None
    """The peaks are those up to there."""
    fragmentation_bytes: int = 0
    """Peak reserved beyond peak allocated."""
    retries: int = 0
    """Times that the cache had to be flushed for an allocation."""
    is_recorded: bool = False
    """The settings of the recording itself: its figures are torch's, not predicted."""


class ReplayPeak(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks that were alive when most was allocated and have something in common."""

    where: str
    """A line of the user's code, or a size class where no stacks were recorded."""
    size_bytes: int
    blocks: int


class ReplayDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device of a snapshot."""

    index: int
    proof: ReplayProof
    settings: tuple[ReplaySetting, ...]
    """The recorded one first."""
    events: int = 0
    peak_at_event: int | None = None
    """Null: before the first one."""
    peak: tuple[ReplayPeak, ...] = ()
    """What was alive at the peak, largest first."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.replay/1`."""

    schema: Literal["envkit.replay/1"] = "envkit.replay/1"
    source: str
    devices: tuple[ReplayDevice, ...]


class LintFinding(Finding, frozen=True, kw_only=True):
    """A finding at a line of a file."""

    file: str
    line: int


class UnreadFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of several that could not be read, as `envkit.error/1` says it of a single one."""

    file: str
    message: str
    next_step: str


class Lint(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.lint/1`."""

    schema: Literal["envkit.lint/1"] = "envkit.lint/1"
    findings: tuple[LintFinding, ...]
    unread: tuple[UnreadFile, ...] = ()


class PackageChange(msgspec.Struct, frozen=True, kw_only=True):
    """A package that is not the same in the old lock and in the new one."""

    platform: str
    name: str
    before: str | None
    """Version, build and channel; null: it was not there."""
    after: str | None


class ReasonPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a reason stands: in the spec, or in the lock."""

    file: str
    line: int


class LockedSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one spec."""

    spec: str
    file: str
    packages: int
    status: Literal["locked", "fresh", "stale", "unsolvable"]
    reasons: tuple[str, ...] = ()
    """Why it is stale, or the solver's explanation."""
    places: tuple[ReasonPlace, ...] = ()
    """Of a stale lock: where each reason stands, in their order."""
    spec_file: str = ""
    """The file of a spec that was named otherwise, `vit`."""
    changes: tuple[PackageChange, ...] = ()
    """Against the lock that was there before."""


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.lock/1`."""

    schema: Literal["envkit.lock/1"] = "envkit.lock/1"
    locks: tuple[LockedSpec, ...]


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.stamp/1`: what a checkpoint or a run says of the machine that made it."""

    schema: Literal["envkit.stamp/1"] = "envkit.stamp/1"
    envkit_version: str
    created: str
    """When the report was made: UTC, RFC 3339."""
    suite: Suite
    challenge: str | None
    device: str
    digests: dict[str, str]
    short: Short
    key: Key


# A person writes a profile by hand: what reads like nothing is refused where it stands.
CapabilityText: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,2}\.[0-9]$")]
DriverText: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]{2,4}\.[0-9]{1,4}(\.[0-9]{1,4})?$")
]
CudaText: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,5}){0,2}$")
]
VersionText: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}[0-9A-Za-z.+_-]*$")
]
NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class MachineGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU of a machine profile."""

    name: str | None = None
    compute_capability: CapabilityText | None = None
    memory_bytes: NotNegative | None = None


class MachineTorch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The torch of a machine profile."""

    version: VersionText | None = None
    cuda: CudaText | None = None
    hip: VersionText | None = None
    cudnn: NotNegative | None = None
    arch_list: tuple[str, ...] | None = None
    cuda_available: bool | None = None
    channel: str | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`envkit.machine/1`: a machine somebody describes; absent or null is unknown."""

    schema: Literal["envkit.machine/1"]
    os: Literal["linux", "windows", "wsl", "macos"] | None = None
    arch: str | None = None
    container: bool | None = None
    driver: DriverText | msgspec.UnsetType | None = msgspec.UNSET
    """Null with GPUs listed and `cuda_available` false: none found."""
    gpus: tuple[MachineGpu, ...] | None = None
    """Empty: none."""
    torch: MachineTorch | None = None
    glibc: VersionText | None = None
    python: VersionText | None = None
    packages: dict[str, str] | None = None
    env: dict[str, str] | None = None


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.error/1`: what is printed instead of a report when a command fails with `--json`."""

    schema: Literal["envkit.error/1"] = "envkit.error/1"
    code: str
    message: str
    next_step: str
    exit_code: int

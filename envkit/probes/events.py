"""What a child and its parent say to each other: the request and the events of protocol 1."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from envkit.model.facts import Scalar
from envkit.model.fingerprint import Layer

PROTOCOL: Final = 1


class OwnStep(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the user's, to be measured like a workload."""

    target: str
    """`module:function`."""
    folder: str
    """Importable, and the working folder, for the child that runs it alone."""


class AskedStrategies(msgspec.Struct, frozen=True, kw_only=True):
    """Which remedies to measure, on what."""

    workload: str
    names: tuple[str, ...]
    call: OwnStep | None = None
    """In place of the workload."""
    batch: int | None = None
    """None: the workload's usual one."""
    memory_fraction: float | None = None
    """Share of the device that torch may take; None: all that is free."""
    search: bool = True
    """Whether to look for the largest batch."""


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is asked to do: one JSON document on its standard input."""

    protocol: Literal[1] = PROTOCOL
    tasks: tuple[Literal["facts", "fingerprint", "strategies"], ...] = ("facts",)
    device: str = "auto"
    """`auto`, `cpu`, `cuda:N` or `auto:N`: of a rank, whose launcher may show it one GPU only."""
    suite: str = "quick"
    """`quick`, `standard`, `full` or `auto`: standard on a GPU, quick on the CPU."""
    flags: dict[str, Scalar] = msgspec.field(name="set", default_factory=dict)
    """Switches of torch to set before anything is measured (`--set`)."""
    challenge: str | None = None
    """Hexadecimal digits that seed inputs (`--challenge`)."""
    probes: tuple[str, ...] | None = None
    """Names of the probes to run; None for all of the suite."""
    call: OwnStep | None = None
    """The user's own step (`--call`)."""
    memory_limit_bytes: int | None = None
    """Device memory that one child may use; None for the suite's own limit."""
    strategies: AskedStrategies | None = None
    """What to measure, for the task of that name."""
    time_limit_s: float = 120.0
    """For everything; the parent waits a little longer, so that the child can say what hung."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="hello"):
    """The interpreter runs and describes itself; torch is not touched yet."""

    python: str
    executable: str
    prefix: str
    base_prefix: str
    pid: int
    argv0: str
    implementation: str = "unknown"


class Stage(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="stage"):
    """What is done next; the last one says where a crash or a hang was."""

    name: str


class FactValues(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="facts"):
    """Facts by name; a later event adds to, and overrides, an earlier one of its family.

    A value that could not be read overrides nothing.

    A value without one is an object with one key: `unreadable`, `not_applicable` or `absent`, and
    the reason.
    """

    family: str
    values: dict[str, Any]


class SelfTestOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One operation with a known answer."""

    name: str
    status: Literal["pass", "fail", "not_run"]
    reason: str
    kind: str
    """Class of a failure: `wrong_result`, `no_kernel_image`, `out_of_memory`, ..., `other`."""


class SelfTests(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="self_test"):
    """The self-test of one device."""

    device: str
    tests: tuple[SelfTestOutcome, ...]


class KeyValues(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="key"):
    """The parts of the comparability key that only torch knows."""

    values: dict[str, Any]


class SuiteStart(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="suite"):
    """A suite begins: what it is and which probes it will report."""

    name: str
    version: int
    seed: int
    probes: tuple[str, ...]


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="progress"):
    """How far the suite is."""

    done: int
    total: int
    name: str


class Probe(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="probe"):
    """What one probe gave in one layer."""

    name: str
    layer: Layer
    status: Literal["exact", "unstable", "failed", "not_run"]
    values: dict[str, Any] | None = None
    reason: str = ""
    seconds: float = 0.0
    spread: Any = None
    """What differed between repetitions, for an unstable one."""
    family: str = ""
    """The child that it ran in."""
    must_repeat: bool = True
    """Whether the suite says that it repeats on this kind of device; else it is in no digest."""
    optional: bool = False
    """Whether it may lawfully be missing; then it has no part in the digest of its layer."""
    depends_on: tuple[str, ...] = ()
    """Parts of the comparability key that change its values."""
    operations: list[list[Any]] | None = None
    """What an allocator exercise carries out; in no digest."""
    observed: dict[str, Any] | None = None
    """What else was seen, such as addresses; in no digest."""


class Setup(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="setup"):
    """What strategies are measured on."""

    workload: str
    batch: int
    device_name: str
    """Empty for the CPU."""
    limit_bytes: int | None
    """Device memory that a child can have; None where there is no limit to try."""
    torch: str


class MeasuredValues(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a strategy; None where this kind of strategy or device has none."""

    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    host_growth_bytes: int | None = None
    step_seconds: tuple[float, ...] = ()
    losses: tuple[float | None, ...] = ()
    digest: str | None = None
    why_no_peak: str = ""


class Measurement(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="measurement"):
    """What became of one strategy."""

    name: str
    status: Literal["measured", "out_of_memory", "not_run", "failed"]
    reason: str
    values: MeasuredValues = MeasuredValues()


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that was tried."""

    batch: int
    peak_bytes: int | None
    """Allocated; None: it did not fit."""


class BatchSearch(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="batch_search"):
    """How the search for the largest batch went."""

    status: Literal["found", "none_fits", "not_run"]
    reason: str
    trials: tuple[Tried, ...]
    largest: int = 0
    smallest_failed: int | None = None
    holds: tuple[Tried, ...] = ()
    held_steps: int = 0


class Confound(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="confound"):
    """Something that may have disturbed the probes."""

    name: str
    reason: str = ""
    values: dict[str, Any] | None = None


class ChildError(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="error"):
    """Something that was raised, or a job's child that ended early, and where."""

    stage: str
    type: str
    message: str
    traceback_tail: str = ""


class Done(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="done"):
    """The answer is complete."""


Event: TypeAlias = (
    Hello
    | Stage
    | FactValues
    | SelfTests
    | KeyValues
    | SuiteStart
    | Progress
    | Probe
    | Setup
    | Measurement
    | BatchSearch
    | Confound
    | ChildError
    | Done
)

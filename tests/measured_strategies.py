"""What a child says of strategies on a GPU; made up, but in the form that it has."""

from __future__ import annotations

from envkit.probes.events import (
    BatchSearch,
    ChildError,
    MeasuredValues,
    Measurement,
    Setup,
    Tried,
)
from envkit.probes.launch import ChildRun, Finished

MIB = 1 << 20
SETUP = Setup(
    workload="vit-b16",
    batch=16,
    device_name="NVIDIA Example",
    limit_bytes=8192 * MIB,
    torch="2.11.0+cu130",
)


def figures(
    name: str,
    mebibytes: int,
    *,
    milliseconds: float = 100.0,
    digest: str = "aa",
    losses: tuple[float | None, ...] = (2.5, 2.25),
) -> Measurement:
    return Measurement(
        name=name,
        status="measured",
        reason="",
        values=MeasuredValues(
            allocated_bytes=mebibytes * MIB,
            reserved_bytes=(mebibytes + 100) * MIB,
            step_seconds=(milliseconds / 1e3, 9.0, milliseconds / 1e3),
            losses=losses,
            digest=digest,
        ),
    )


BASELINE = figures("baseline", 4000)
MEASURED = (
    SETUP,
    BASELINE,
    figures("smaller-batch", 2500, milliseconds=55, digest="bb"),
    figures("autocast-bf16", 3000, milliseconds=40, digest="cc", losses=(2.5, 2.2725)),
    figures("checkpointing", 1800, milliseconds=130, digest="dd"),
    figures("channels-last", 4000),
    Measurement(
        name="autocast-fp16",
        status="out_of_memory",
        reason="CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    Measurement(name="adamw-8bit-torchao", status="not_run", reason="torchao is not installed"),
    Measurement(
        name="eager-dataset",
        status="measured",
        reason="",
        values=MeasuredValues(host_growth_bytes=300 * MIB, step_seconds=(0.001,), digest="ee"),
    ),
    Measurement(
        name="lazy-dataset",
        status="measured",
        reason="",
        values=MeasuredValues(host_growth_bytes=30 * MIB, step_seconds=(0.004,), digest="ee"),
    ),
    BatchSearch(
        status="found",
        reason="",
        trials=(
            Tried(batch=16, peak_bytes=4000 * MIB),
            Tried(batch=32, peak_bytes=7000 * MIB),
            Tried(batch=38, peak_bytes=None),
        ),
        largest=37,
        smallest_failed=38,
        holds=(Tried(batch=37, peak_bytes=8000 * MIB),),
        held_steps=50,
    ),
)


def child_run(*measured: object, errors: tuple[ChildError, ...] = ()) -> ChildRun:
    return ChildRun(
        outcome=Finished(),
        stage="",
        hello=None,
        facts={},
        self_test=None,
        key=None,
        suite=None,
        probes=(),
        measured=measured,  # type: ignore[arg-type]  # what they are is the test's affair
        confounds=(),
        errors=errors,
        stderr_tail="",
        seconds=1.0,
    )

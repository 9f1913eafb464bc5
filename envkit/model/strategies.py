"""`envkit.strategies/1`: what remedies against running out of memory saved when they were tried."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

#: How the results of a strategy compare with those of its reference: losses of the first steps and
#: the bytes of weights, buffers, outputs or samples after them.
Results: TypeAlias = Literal["reference", "bitwise_equal", "different", "not_compared"]


class StrategyMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one strategy."""

    name: str
    against: str | None
    """The strategy that it is compared with; null for those that others are compared to."""
    status: Literal["measured", "out_of_memory", "not_run", "failed"]
    reason: str
    """Why there are no figures, or not all; empty where nothing is to be said."""
    peak_allocated_bytes: int | None
    """Most that torch's allocator had given out; on the CPU the most that was asked for."""
    peak_reserved_bytes: int | None
    """Most that torch had taken from the driver; null on the CPU, where it keeps nothing back."""
    host_growth_bytes: int | None
    """By how much the process's resident memory grew; measured for data sets only."""
    step_seconds: float | None
    """Median of the timed steps, after the warm-up, with synchronisation."""
    timed_steps: int
    results: Results
    loss_difference: float | None
    """Largest relative difference of the losses of the compared steps; null without losses."""
    step_seconds_range: tuple[float, float] | None = None
    """The fastest and the slowest of the timed steps; not there in documents before 2026-12."""


class BatchTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that was tried."""

    batch: int
    peak_allocated_bytes: int | None
    """Null: it did not fit."""


class LargestBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The search for the largest batch."""

    status: Literal["found", "none_fits", "not_run"]
    reason: str
    batch: int | None
    """The largest that fits and held; null without one."""
    smallest_that_failed: int | None
    held_steps: int
    trials: tuple[BatchTrial, ...]
    holds: tuple[BatchTrial, ...]
    """Batches that were run for `held_steps` steps; the last one held if one was found."""


class Strategies(msgspec.Struct, frozen=True, kw_only=True):
    """`envkit.strategies/1`."""

    schema: Literal["envkit.strategies/1"] = "envkit.strategies/1"
    envkit_version: str
    created: str
    """UTC, RFC 3339."""
    torch: str
    device: str
    """Name of the GPU, or `cpu`."""
    workload: str
    """Name of a workload of envkit, or the user's `MODULE:FUNCTION`."""
    batch: int
    memory_limit_bytes: int | None
    """Device memory that a child could have; null on the CPU."""
    memory_fraction: float | None
    """Share of the device that was asked for; null: all that is free."""
    strategies: tuple[StrategyMeasurement, ...]
    largest_batch: LargestBatch | None
    """Null where it was not asked for."""

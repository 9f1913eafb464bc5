"""Writes the page and the figure on allocated, reserved and free memory from recorded runs.

    PYTHONPATH=. python tools/allocated_reserved_page.py            # fails if they are out of date
    PYTHONPATH=. python tools/allocated_reserved_page.py --write

The recordings are those of `tests/data`: a training with changing batch sizes, event by event, and
reports of `envkit verify`, all of an NVIDIA H200. Every figure of the page comes from them.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, Final

from generated_pages import settle

from envkit.allocator.course import Course, Moment, most_reserved_at
from envkit.allocator.prove import prove, retrace
from envkit.allocator.recording import Recording
from envkit.allocator.replay import ACTIONS
from envkit.render.svg import (
    Figure,
    Line,
    MapSegment,
    Mark,
    StepChart,
    segment_map,
    short_bytes,
    stacked,
    step_chart,
)

ROOT: Final = Path(__file__).resolve().parent.parent
TRAINING: Final = ROOT / "tests" / "data" / "allocator" / "training-r50var_b32.json.xz"
REPORTS: Final = ROOT / "tests" / "data" / "h200" / "planted-differences.json.xz"
PAGE: Final = ROOT / "docs" / "explanation" / "allocated-reserved-free.md"
PICTURE: Final = PAGE.with_suffix(".svg")

_PAGE: Final = """\
# Allocated, reserved, free: what nvidia-smi shows and why

[Documentation](../index.md) / [Explanation](../index.md#explanation)

<!-- Written by tools/allocated_reserved_page.py from tests/data; do not edit. -->

Four numbers are called "GPU memory", and they differ by gigabytes:

| number | what it counts | where to read it |
| --- | --- | --- |
| allocated | blocks that tensors hold now | `torch.cuda.memory_allocated()` |
| reserved | what torch has taken from the driver: allocated, and free blocks kept for later | `torch.cuda.memory_reserved()` |
| used by the process | reserved, and what lies outside torch's allocator: the CUDA context, loaded kernels, buffers of libraries | `nvidia-smi`, its process list |
| used of the card | all processes | `nvidia-smi`, its first table; total less this is what `torch.cuda.mem_get_info()` calls free |

So `nvidia-smi` does not show what your tensors need. It shows the most that torch ever took and did not give back, the context, and your neighbours.

## Why reserved does not shrink

Asking the driver for memory is slow and makes the GPU wait, so torch asks for whole segments and keeps them. Five tensors of 2000 x 2000 (16,000,000 bytes each), made and dropped one
after the other: {five_reserved:,} bytes stay reserved while {five_allocated} bytes are allocated; after `torch.cuda.empty_cache()` {five_flushed} are reserved. Dropping a tensor (`del`) frees its block at once, but
only inside torch. Nobody else needs to care, except another process on the same card.

## Why reserved grows beyond what was ever allocated

A free block serves a request if it is large enough; otherwise torch takes another segment. Where sizes change, blocks that fitted before do not fit any more. ResNet-50 in float32, five
steps whose batch changes, on an H200 (torch 2.11, {events:,} events, every allocation where it was):

![{alt}](allocated-reserved-free.svg)

| | default settings | `expandable_segments:True` |
| --- | --- | --- |
| most allocated at once | {peak_allocated} | {e_peak_allocated} |
| most reserved | {peak_reserved} | {e_peak_reserved} |
| allocated at the end | {end_allocated} | {e_end_allocated} |
| reserved at the end, which `nvidia-smi` goes on showing | {end_reserved} | {e_end_reserved} |

{more} were reserved beyond the most that was ever allocated, and at the end {share} of what is reserved is in use. This is not a leak: when memory runs short, torch gives back every segment that is
free as a whole, and tries again. It is *fragmentation* if segments cannot be given back because something small still lies in them. Expandable segments can grow and are given back page
by page, so far less is needed.

## What lies outside the allocator

The same short suite on one H200, what `cudaMemGetInfo` calls used and torch had not reserved:

| situation | outside torch's allocator |
| --- | --- |
| as it is (kernels are loaded when they are first used) | {outside} |
| `CUDA_MODULE_LOADING=EAGER` | {eager} |
| allocator backend `cudaMallocAsync` | {async_backend} |
| as it is, with another process on the card | {busy} |

No counter of torch's knows of this, and a memory fraction does not limit it. A program that must fit a card needs its peak of reserved memory **and** this.

## What follows

- Judge a program by its peaks (`max_memory_allocated`, `max_memory_reserved`), not by `nvidia-smi` in between.
- Allocated grows from step to step: something is kept; find it. Only reserved grows: sizes change; see [Out of memory](../how-to/out-of-memory.md).
- `empty_cache()` helps other processes. In a loop it costs time, because the driver is asked again.
- Before changing settings, ask `envkit memory replay` what they would have changed: [Replay of memory snapshots](../reference/replay.md).
"""  # noqa: E501  (lines of the page)


def trainings() -> dict[str, dict[str, Any]]:
    """Return the recorded trainings by their settings."""
    runs = json.loads(lzma.decompress(TRAINING.read_bytes()))
    return {run["conf"] or "": run for run in runs}


def course_of(run: dict[str, Any]) -> tuple[Course, int]:
    """Return memory over a recorded training and the event at which most was allocated.

    Raises:
        SystemExit: the model does not follow the recording.

    """
    recording = Recording(
        device=0,
        events=tuple(tuple(event) for event in run["events"] if event[0] in {*ACTIONS.values()}),
        stacks=(),
        segments=(),
        block_stacks={},
        conf="",
        version=(2, 11),
    )
    proof, start = prove(recording)
    peaks = (proof.peak_allocated_bytes, proof.peak_reserved_bytes)
    stats = run["stats"]
    recorded = (stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"])
    if peaks != recorded or proof.at_recorded_address != proof.allocations:
        message = "the model does not follow the recording"
        raise SystemExit(message)
    moments = {most_reserved_at(recording) or 0, len(recording.events) - 1}
    return retrace(recording, start, moments), proof.peak_allocated_at


def figures(course: Course, peak_at: int) -> list[Figure]:
    """Return the figures of the page."""
    allocated = max(course.allocated_bytes)
    reserved = max(course.reserved_bytes)
    lines = [
        Line(name="allocated", xs=course.events, ys=course.allocated_bytes),
        Line(name="reserved", xs=course.events, ys=course.reserved_bytes),
    ]
    over = StepChart(
        name="memory",
        title="ResNet-50, five steps whose batch changes, default settings",
        description=f"Allocated rises and falls with every step, at most {short_bytes(allocated)}; "
        f"reserved only grows, to {short_bytes(reserved)}.",
        lines=lines,
        x_label="recorded event",
        marks=[Mark(x=peak_at, label=f"peak: {short_bytes(allocated)} allocated")],
    )
    words = ("When most was reserved", "At the end: nothing was given back")
    maps = [_map(at, word, moment) for at, (word, moment) in
            enumerate(zip(words, course.moments, strict=True))]  # fmt: skip
    return [step_chart(over), *maps]


def _map(number: int, words: str, moment: Moment) -> Figure:
    segments = [MapSegment(label=f"at {s.address:#x}", blocks=s.blocks) for s in moment.segments]
    used = sum(segment.used_bytes for segment in segments)
    total = sum(segment.size_bytes for segment in segments)
    said = f"{len(segments)} segments, {short_bytes(total)}; {short_bytes(used)} of it in use."
    return segment_map(segments, name=f"segments{number}", title=words, description=said)


def page() -> tuple[str, str]:
    """Return the page and its picture."""
    runs = trainings()
    plain, expandable = runs[""], runs["expandable_segments:True"]
    course, peak_at = course_of(plain)
    peak, most = (plain["stats"][f"{one}_bytes.all.peak"] for one in ("allocated", "reserved"))
    end, held = (plain["stats"][f"{one}_bytes.all.current"] for one in ("allocated", "reserved"))
    drawn = figures(course, peak_at)
    text = _PAGE.format(
        **five_tensors(),
        **outside(),
        **_peaks(plain["stats"], ""),
        **_peaks(expandable["stats"], "e_"),
        events=len(plain["events"]),
        alt=drawn[0].description,
        more=short_bytes(most - peak),
        share=f"{end / held:.1%}".replace("%", " %"),
    )
    return text, stacked(drawn, title="Allocated and reserved memory of a recorded training")


def _peaks(stats: dict[str, int], prefix: str) -> dict[str, str]:
    keys = {"peak": "peak", "end": "current"}
    return {
        f"{prefix}{name}_{kind}": short_bytes(stats[f"{kind}_bytes.all.{key}"])
        for name, key in keys.items()
        for kind in ("allocated", "reserved")
    }


def reports() -> dict[str, Any]:
    """Return the fingerprints' layers of the recorded reports by name."""
    found = json.loads(lzma.decompress(REPORTS.read_bytes()))
    return {name: report["fingerprint"]["layers"] for name, report in found.items()}


def outside() -> dict[str, str]:
    """Return what lay outside the allocator in four situations."""
    names = {"outside": "base", "eager": "eager_modules", "async_backend": "async_backend",
             "busy": "busy_card"}  # fmt: skip
    layers = reports()
    key = "used_outside_this_allocator_bytes"
    return {
        name: short_bytes(layers[report]["context"]["context.memory"]["values"][key])
        for name, report in names.items()
    }


def five_tensors() -> dict[str, int]:
    """Return what was allocated and reserved after five tensors, and after the flush."""
    now = {"allocated_bytes.all.current": 0, "reserved_bytes.all.current": 0}
    found: dict[str, int] = {}
    steps = reports()["base"]["allocator"]["exercises.five_tensors"]["values"]["steps"]
    for step in steps:
        now |= {name: step["counters"][name] for name in now if name in step["counters"]}
        allocated, reserved = now.values()
        if step["op"] == "empty_cache":
            found["five_flushed"] = reserved
        else:
            found |= {"five_allocated": allocated, "five_reserved": reserved}
    return found


def pages() -> dict[Path, str]:
    """Return the page and its picture by their files."""
    return dict(zip((PAGE, PICTURE), page(), strict=True))


if __name__ == "__main__":
    raise SystemExit(settle(pages, __doc__))

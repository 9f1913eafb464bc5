"""Measured remedies as text for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envkit.allocator.sizes import format_size
from envkit.model.counted import counted
from envkit.model.strategies import LargestBatch, Strategies, StrategyMeasurement
from envkit.render.page import Page
from envkit.render.style import Style

_WHAT: Final = {
    "baseline": "as it is: fp32, one batch a step",
    "smaller-batch": "half the batch",
    "accumulation": "the same batch in parts, gradients accumulated",
    "autocast-bf16": "forward pass in bfloat16",
    "autocast-fp16": "forward pass in float16, with a GradScaler",
    "checkpointing": "activations of blocks computed again",
    "channels-last": "images and weights with the channels last",
    "compile": "torch.compile",
    "zeroed-gradients": "gradients filled with zeros after a step",
    "set-to-none": "gradients dropped after a step",
    "adamw": "AdamW of torch",
    "adamw-8bit-bitsandbytes": "8-bit AdamW of bitsandbytes",
    "adamw-8bit-torchao": "8-bit AdamW of torchao",
    "sharding": "sharding over all cards (FSDP2)",
    "inference-with-gradients": "outputs only, as if to be trained",
    "no-grad": "outputs under torch.no_grad()",
    "encoder-stays": "a frozen encoder of the same size beside it",
    "encoder-offloaded": "that encoder on the CPU while training",
    "eager-dataset": "all samples in memory",
    "lazy-dataset": "each sample made when asked for",
    "changing-batches": "batches that change from step to step",
    "expandable-segments": "expandable_segments:True",
    "max-split-size": "max_split_size_mb:128",
    "garbage-collection": "garbage_collection_threshold:0.6",
}
_SIZES: Final = ("peak_allocated_bytes", "peak_reserved_bytes", "host_growth_bytes")
_RESULTS: Final = {
    "reference": "",
    "bitwise_equal": "results equal, bit for bit",
    "not_compared": "results not compared",
}


def render_strategies_text(document: Strategies, style: Style) -> str:
    """Draw what the workload needs and what each remedy saves of it."""
    page = Page(style)
    page.paragraph((_title(document), "bold"))
    page.line("  ", headline(document))
    if style.verbosity >= 0:
        for title, rows in _groups(document):
            page.table(title, rows)
        page.table("Not measured", _not_measured(document))
    if document.largest_batch is not None:
        page.blank()
        page.line("Largest batch: ", largest_said(document.largest_batch), lead_style="bold")
    return page.text()


def render_strategies_markdown(document: Strategies) -> str:
    """Write the same as a table."""
    lines = [f"# {_title(document)}", "", headline(document), "", *table_lines(document)]
    if document.largest_batch is not None:
        lines += ["", f"Largest batch: {largest_said(document.largest_batch)}"]
    return "\n".join(lines) + "\n"


def table_lines(document: Strategies, names: Sequence[str] = ()) -> list[str]:
    """Return the rows of a Markdown table of some strategies (none named: all)."""
    lines = [
        "| strategy | what | peak allocated | peak reserved | host | step | results |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in document.strategies:
        if names and one.name not in names:
            continue
        cells = [one.name, _WHAT[one.name], *_cells(one, _reference(document, one))]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def headline(document: Strategies) -> str:
    """Say what the workload needs, and which remedy saves most of it."""
    baseline = next((one for one in document.strategies if one.name == "baseline"), None)
    if baseline is None:
        return "The workload as it is was not measured."
    saved = [
        (share, one.name)
        for one in document.strategies
        if one.against == "baseline" and (share := _saving(one, baseline)) is not None
    ]
    if baseline.status == "out_of_memory":
        fits = [one.name for one in document.strategies if one.against == "baseline"
                and one.status == "measured"]  # fmt: skip
        return f"It does not fit as it is. With one of these it does: {', '.join(fits) or 'none'}."
    if baseline.status != "measured":
        return f"It could not be run as it is: {baseline.reason.splitlines()[0]}."
    if baseline.peak_allocated_bytes is None:
        return "How much it needs could not be measured."
    needs = f"As it is it needs {format_size(baseline.peak_allocated_bytes)}"
    best = max(saved, default=(0.0, ""))
    if best[0] <= 0:
        return f"{needs}; no remedy that was tried saves anything."
    return f"{needs}; most is saved by {best[1]}: {best[0]:.0%}."


def largest_said(found: LargestBatch) -> str:
    """Say what the search for the largest batch gave."""
    tried = counted(len(found.trials), "trial")
    if found.status == "not_run":
        return f"not looked for: {found.reason}."
    if found.batch is None:
        return f"none fits ({tried}, the smallest {found.smallest_that_failed})."
    held = f"held for {counted(found.held_steps, 'step')}"
    beyond = (
        f"{found.smallest_that_failed} does not fit"
        if found.smallest_that_failed is not None
        else "no larger one was tried"
    )
    return f"{found.batch}, {held}; {beyond}; {tried}."


def _title(document: Strategies) -> str:
    limit = document.memory_limit_bytes
    room = f", {format_size(limit)} to use" if limit is not None else ""
    return (
        f"{document.workload}, batch {document.batch}, on {document.device}, "
        f"torch {document.torch}{room}"
    )


def _reference(document: Strategies, one: StrategyMeasurement) -> StrategyMeasurement | None:
    return next((other for other in document.strategies if other.name == one.against), None)


def _groups(document: Strategies) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each reference with what is compared with it."""
    for reference in document.strategies:
        if reference.against is not None or reference.status in {"not_run", "failed"}:
            continue
        rows = [(f"  {reference.name}", _figures(reference, None))]
        rows += [
            (f"  {one.name}", _figures(one, reference))
            for one in document.strategies
            if one.against == reference.name and one.status in {"measured", "out_of_memory"}
        ]
        yield f"Against {reference.name} ({_WHAT[reference.name]})", rows


def _not_measured(document: Strategies) -> list[tuple[str, str]]:
    return [
        (f"  {one.name}", one.reason.splitlines()[0] if one.reason else one.status)
        for one in document.strategies
        if one.status in {"not_run", "failed"}
    ]


def _figures(one: StrategyMeasurement, reference: StrategyMeasurement | None) -> str:
    allocated, reserved, host, step, results = _cells(one, reference)
    named = (("allocated", allocated), ("reserved", reserved), ("host +", host), ("a step", step))
    said = [
        f"{cell} {name}" if name == "a step" else f"{name} {cell}" for name, cell in named if cell
    ]
    return ", ".join([*said, *([results] if results else [])])


def _cells(one: StrategyMeasurement, reference: StrategyMeasurement | None) -> tuple[str, ...]:
    """Return peaks, host memory, time and results as text; empty where there is none."""
    if one.status != "measured":
        return "", "", "", "", _why(one)
    return (
        *(_bytes(name, one, reference) for name in _SIZES),
        _milliseconds(one, reference),
        _results(one),
    )


def _why(one: StrategyMeasurement) -> str:
    if one.status == "out_of_memory":
        return "does not fit"
    reason = one.reason.splitlines()[0] if one.reason else ""
    return f"{'not run' if one.status == 'not_run' else 'failed'}: {reason}"


def _bytes(name: str, one: StrategyMeasurement, reference: StrategyMeasurement | None) -> str:
    size: int | None = getattr(one, name)
    before = None if reference is None else getattr(reference, name)
    if size is None:
        return ""
    return format_size(size) + (f" ({size / before - 1:+.0%})" if before else "")


def _milliseconds(one: StrategyMeasurement, reference: StrategyMeasurement | None) -> str:
    if one.step_seconds is None:
        return ""
    before = reference.step_seconds if reference is not None else None
    said = []
    if reference is not None and before:
        about = "about " if _overlap(one, reference) else ""
        said.append(f"{about}{one.step_seconds / before - 1:+.0%}")
    if one.step_seconds_range is not None and one.timed_steps > 1:
        low, high = one.step_seconds_range
        said.append(f"{low * 1e3:.2f} to {high * 1e3:.2f}")
    shown = f"{one.step_seconds * 1e3:.2f} ms"
    return f"{shown} ({', '.join(said)})" if said else shown


def _overlap(one: StrategyMeasurement, other: StrategyMeasurement) -> bool:
    """Whether some step of each was as fast as one of the other: the change may be noise."""
    mine, theirs = one.step_seconds_range, other.step_seconds_range
    if mine is None or theirs is None:
        return False
    return mine[0] <= theirs[1] and theirs[0] <= mine[1]


def _results(one: StrategyMeasurement) -> str:
    if one.results != "different":
        return _RESULTS[one.results]
    if one.loss_difference is None:
        return "results differ"
    if one.loss_difference == 0:
        return "losses equal, weights or buffers not"
    return f"results differ, losses by up to {one.loss_difference:.1e}"


def _saving(one: StrategyMeasurement, baseline: StrategyMeasurement) -> float | None:
    if one.peak_allocated_bytes is None or not baseline.peak_allocated_bytes:
        return None
    if one.status != "measured":
        return None
    return 1 - one.peak_allocated_bytes / baseline.peak_allocated_bytes

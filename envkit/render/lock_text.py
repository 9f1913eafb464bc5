"""The text of `envkit lock`: a line a spec, then why it is stale or what has changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envkit.model.counted import counted
from envkit.model.documents import Lock, LockedSpec, PackageChange
from envkit.render.lines import GREEN, RED, painted, shown, wrapped
from envkit.render.style import Style

#: What a GPU computes with, shown first.
_GPU_STACK = re.compile(
    r"(pytorch|libtorch|torch|triton|cuda|cudnn|libcu|libcudnn|nccl|libnccl|libnvjitlink|python$)"
)
_WORDS = {
    "locked": "locked",
    "fresh": "fits its spec",
    "stale": "STALE (CON008)",
    "unsolvable": "NOT SOLVABLE",
}
_COLORS = {"locked": GREEN, "fresh": GREEN, "stale": RED, "unsolvable": RED}


def render_lock(document: Lock, style: Style) -> str:
    """Draw the document; with verbosity -1 only the line of each spec."""
    lines: list[str] = []
    for one in document.locks:
        lines += _spec(one, style)
    return "\n".join(lines) + "\n"


def _spec(one: LockedSpec, style: Style) -> Iterator[str]:
    count = f" ({counted(one.packages, 'package')})" if one.packages else ""
    if one.status == "unsolvable":
        count = " was not written"
    head = wrapped(f"{one.spec}: {_WORDS[one.status]}, {one.file}{count}", "", style)
    yield from (painted(line, _COLORS[one.status], style) for line in head)
    if style.verbosity < 0:
        return
    for reason in one.reasons:
        yield from wrapped(reason, "  ", style)
    changes = sorted(one.changes, key=lambda change: _rank(change.name))
    if changes:
        verb = "differs" if len(changes) == 1 else "differ"
        yield f"  {counted(len(changes), 'package')} {verb} from the lock before:"
    for change in changes:
        yield from wrapped(_change(change), "    ", style)
    if one.status == "stale":
        yield f"  next: envkit lock {shown(one.spec, style)}"


def _rank(name: str) -> tuple[int, str]:
    return (0 if _GPU_STACK.match(name) else 1), name


def _change(change: PackageChange) -> str:
    if change.before is None:
        said = f"new {change.after}"
    elif change.after is None:
        said = f"gone, was {change.before}"
    else:
        said = f"{change.before} -> {change.after}"
    return f"{change.name}: {said} [{change.platform}]"

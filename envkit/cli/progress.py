"""The progress bar on stderr; without one, a callback that does nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

#: (done, total, name); a total of 0 where it is not known.
Report = Callable[[int, int, str], None]


@contextlib.contextmanager
def progress(*, shown: bool, ascii_only: bool) -> Iterator[Report]:
    """Show a bar while the block runs, and leave nothing of it behind."""
    if not shown:
        yield _nothing
        return
    from rich.console import Console  # noqa: PLC0415 (only where there is something to draw)
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    bar = Progress(
        TextColumn("{task.description:<34}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]:>7}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True, emoji=False, highlight=False, safe_box=ascii_only),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None, count="")

        def report(done: int, total: int, name: str) -> None:
            bar.update(task, description=name[:34])
            if total:  # a stage has no number: the bar stays where it is
                bar.update(task, completed=done, total=total, count=f"{done}/{total}")

        yield report


def _nothing(done: int, total: int, name: str) -> None:
    del done, total, name

"""What is kept when an out-of-memory error passes through: a snapshot and what explains it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from envkit.allocator.oom import explain_log
from envkit.errors import EnvkitError
from envkit.model.documents import Oom
from envkit.monitor.counters import cuda_in_use
from envkit.monitor.writers import ranked
from envkit.render.oom_text import render_oom_text
from envkit.render.replay_text import render_replay_text
from envkit.render.style import Style
from envkit.workflows.replay import ReplayRequest, replay


def explained(error: BaseException) -> Oom | None:
    """Explain an out-of-memory error; None for any other error."""
    if not isinstance(error, RuntimeError | MemoryError):
        return None
    found = explain_log([str(error).encode("utf-8", "replace")])
    return found if found.events else None


def keep(found: Oom, folder: str | os.PathLike[str], step: int, *, with_history: bool) -> list[str]:
    """Write snapshot and explanation into a folder; return what to tell the user.

    What cannot be written is said too: the explanation is worth something without its file.
    """
    parts = [render_oom_text(found, Style(width=100))]
    where = ranked(folder)
    stem = f"step{step}-rank{os.environ.get('RANK', '0')}"
    said: list[str] = []
    try:
        where.mkdir(parents=True, exist_ok=True)
        if cuda_in_use():
            snapshot = where / f"snapshot-{stem}.pickle"
            sys.modules["torch"].cuda.memory._dump_snapshot(str(snapshot))  # noqa: SLF001
            said.append(f"The allocator's state is in {snapshot}.")
            if with_history:
                parts.append(_replayed(snapshot))
        explanation = where / f"explanation-{stem}.txt"
        explanation.write_text("\n".join(parts), encoding="utf-8")
        said.append(f"The explanation is in {explanation}.")
    except (OSError, RuntimeError) as problem:
        said.append(f"Not everything could be kept: {problem}.")
    return ["\n".join(parts), *said]


def _replayed(snapshot: Path) -> str:
    try:
        document = replay(ReplayRequest(snapshot=str(snapshot)), lambda *_: None)
    except EnvkitError as problem:
        return f"The history could not be replayed: {problem.message}"
    return render_replay_text(document, Style(width=100))

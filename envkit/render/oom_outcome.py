"""Explained out-of-memory messages as an outcome: a remark a message."""

from __future__ import annotations

from envkit.model.documents import Oom, OomEvent
from envkit.render.oom_text import TITLES, place_of
from envkit.render.outcome import Outcome, Remark


def oom_outcome(found: Oom) -> Outcome:
    """Turn the events into an outcome; they were explained, so the exit code is 0."""
    number = len(found.events) + found.events_left_out
    return Outcome(
        command="oom",
        headline=f"{number} out-of-memory message{'' if number == 1 else 's'}, explained.",
        exit_code=0,
        remarks=tuple(_remark(event) for event in found.events),
        cases=(),
    )


def _remark(event: OomEvent) -> Remark:
    remedies = (f"{number}. {text}" for number, text in enumerate(event.remedies, 1))
    return Remark(
        code=event.kind,
        level="error",
        title=f"{TITLES.get(event.kind, '')} ({place_of(event)})",
        lines=(event.explanation, *remedies),
    )

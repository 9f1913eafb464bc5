"""Out-of-memory messages of a log, each with its class, its numbers and what to do.

Sources of the wordings and rules: `docs/reference/oom.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from envkit.allocator.oom_class import Account, account, classify
from envkit.allocator.oom_explain import explain
from envkit.allocator.oom_log import Located, find_messages
from envkit.allocator.oom_remedies import remedies
from envkit.allocator.oom_text import Message
from envkit.model.documents import Oom, OomEvent

#: Different messages that are explained; a log can have thousands, which nobody reads.
MOST_EVENTS: Final = 1000


def explain_log(pieces: Iterable[bytes]) -> Oom:
    """Explain every out-of-memory message of a log.

    A message that is repeated word for word (a worker and its parent print the same exception) is
    one event with `times`. A mention without numbers counts only where there is nothing else.

    Args:
        pieces: the log in UTF-8 or another superset of ASCII, cut anywhere; read once.

    Returns:
        The events in the order of the log; none where it has no such message.

    """
    first: dict[tuple[object, ...], Located] = {}
    times: dict[tuple[object, ...], int] = {}
    left_out = 0
    mention: Located | None = None
    for located in find_messages(pieces):
        if located.message.form == "mention":
            mention = mention or located
            continue
        key = _identity(located)
        if key in times:
            times[key] += 1
        elif len(first) < MOST_EVENTS:
            first[key], times[key] = located, 1
        else:
            left_out += 1
    if not first and mention is not None:
        return Oom(events=(event_of(mention),))
    events = tuple(event_of(located, times[key]) for key, located in first.items())
    return Oom(events=events, events_left_out=left_out)


def _identity(located: Located) -> tuple[object, ...]:
    message = located.message
    return (
        located.source,
        message.form,
        message.device,
        message.words,
        *message.sizes.items(),
        *(process.used_bytes for process in message.processes),
    )


def event_of(located: Located, times: int = 1) -> OomEvent:
    """Explain one message."""
    message = located.message
    sums = account(message)
    kind = classify(message, sums)
    return OomEvent(
        kind=kind,
        numbers=numbers_of(message, sums),
        explanation=explain(message, sums, kind),
        remedies=remedies(message, sums, kind, located.source),
        line=located.line,
        times=times,
        source=located.source,
        device=message.device,
        torch=message.torch,
    )


def numbers_of(message: Message, sums: Account) -> dict[str, int]:
    """Return what was printed, and after it what follows from it."""
    numbers = dict(message.sizes)
    if message.form == "async":  # what it has reserved is not printed and cannot be derived
        return numbers
    derived = {
        "reserved_unallocated_bytes": sums.unallocated,
        "reserved_total_bytes": sums.reserved,
        "this_process_bytes": sums.own,
        "other_processes_bytes": sums.others if message.processes else None,
        "outside_torch_bytes": sums.outside,
    }
    for name, size in derived.items():
        if size is not None:
            numbers.setdefault(name, size)
    return numbers

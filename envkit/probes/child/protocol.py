"""How the child tells the parent things: one JSON object a line, on a descriptor of its own."""

from __future__ import annotations

import json
import os
import threading
import traceback
from typing import Any, Dict, List, Optional

#: Exit code when the parent can no longer be reached (start.py has the same).
EXIT_NO_LINE = 74
#: The stage at which the child that looks at the device begins to measure its context: ended there,
#: it had told everything else.
CONTEXT_STAGE = "context: start"
MAX_MESSAGE_CHARS = 2000
MAX_TRACEBACK_CHARS = 4000


class Emitter:
    """Writes events to one descriptor; whole lines, also from several threads.

    A forked child gets an `Emitter` of its own on its own pipe (`fork.py`): two processes never
    share one, so lines cannot mix.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.last_stage = "starting_probe"
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        """Send `{"event": event, ...fields}`.

        Raises:
            TypeError, ValueError: a field is not JSON (NaN is not); nothing was sent.

        """
        line = json.dumps(dict({"event": event}, **fields), allow_nan=False)
        self.forward((line + "\n").encode("ascii"))

    def forward(self, line: bytes) -> None:
        """Send a finished line, its newline included."""
        view = memoryview(line)
        with self._lock:
            try:
                while view:
                    view = view[os.write(self.descriptor, view) :]
            except OSError:
                # Nobody to tell: the parent is gone, or code of the target closed our descriptor.
                os._exit(EXIT_NO_LINE)

    def stage(self, name: str) -> None:
        """Say what comes next, so that a crash or a hang can be placed."""
        self.last_stage = name
        self("stage", name=name)

    def error(self, stage: str, error: BaseException) -> None:
        """Report what was raised."""
        self("error", **dict(described(error), stage=stage))

    def close(self) -> None:
        """Give up the descriptor: for a forked child, which must not write to its parent's."""
        os.close(self.descriptor)


class Kept:
    """An emitter that keeps its events, where no parent is listening or not yet."""

    def __init__(self) -> None:
        self.events: List[Dict[str, Any]] = []

    def __call__(self, event: str, **fields: Any) -> None:
        """Keep an event."""
        self.events.append(dict({"event": event}, **fields))

    def stage(self, name: str) -> None:
        """Take no notice of a stage."""


def described(error: BaseException) -> "dict[str, Any]":
    """Return type, message and the end of the traceback of an exception, in bounded text."""
    return {
        "type": type(error).__name__,
        "message": message_of(error),
        "traceback_tail": traceback_tail(error),
    }


def message_of(error: BaseException) -> str:
    """Return the text of an exception; one that cannot even say what it is gets its type."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (__str__ of the target's own exceptions may do anything)
        text = ""
    return printable(text or type(error).__name__)[:MAX_MESSAGE_CHARS]


def traceback_tail(error: BaseException) -> str:
    """Return the last lines of the traceback."""
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-8)
    except Exception:  # noqa: BLE001  (it calls __str__, see above)
        return ""
    return printable("".join(lines))[-MAX_TRACEBACK_CHARS:]


def printable(text: str) -> str:
    """Replace lone surrogates: they come from undecodable file names and are not valid JSON."""
    return text.encode("utf-8", "replace").decode("utf-8")


def short_reason(error: BaseException, limit: Optional[int] = 400) -> str:
    """Return `Type: message` on one line."""
    text = "{}: {}".format(type(error).__name__, " ".join(message_of(error).split()))
    return text[:limit]

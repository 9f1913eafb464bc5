"""How a finished text reaches stdout, whatever has become of stdout."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import Final

from envkit.cli.command import Terminal, is_terminal
from envkit.errors import UsageError
from envkit.render.escape import printable
from envkit.render.style import Style

#: Lines longer than this are hard to read, however wide the window is.
MOST_COLUMNS: Final = 100


def style_of(terminal: Terminal) -> Style:
    """Describe stdout for a renderer; what is no terminal gets 80 columns."""
    columns = 80
    if is_terminal(sys.stdout):
        columns = max(40, min(MOST_COLUMNS, shutil.get_terminal_size((80, 24)).columns))
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    return Style(
        width=columns,
        color=terminal.color_on(),
        unicode=encoding.startswith("utf"),
        verbosity=terminal.verbosity,
    )


def emit(text: str) -> None:
    """Write to stdout; a reader that has gone away is no error, a full disk is one."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(_encodable(text))
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
    except OSError as error:
        forget_stdout()
        message = f"The output could not be written: {error.strerror or error}."
        step = "Check where standard output leads; -o FILE saves the report too."
        raise UsageError(message, next_step=step) from error


def complain_of(message: str, next_step: str) -> None:
    """Write an error to stderr: what was wrong, and what to do next."""
    complain(f"envkit: {message}")
    if next_step:
        complain(f"  next: {next_step}")


def complain(line: str) -> None:
    """Write a line to stderr, harmlessly; that nobody reads it is no error."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()


def forget_stdout() -> None:
    """Lead stdout to nowhere, so that flushing it at exit cannot fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _encodable(text: str) -> str:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)

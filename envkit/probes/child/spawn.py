"""A second interpreter for one job, where there is no fork (Windows) or CUDA was used too early."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Optional

from .jobs import Job, Result, name_of, set_ending, set_timed_out, take_line
from .protocol import Emitter

#: Events of the second interpreter that say nothing about the job.
_OWN_EVENTS = (b"\n", b'{"event": "hello"', b'{"event": "done"')
START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")


def run_in_new_interpreter(job: Job, emit: Emitter, request: "dict[str, Any]") -> Result:
    """Do a job in a second interpreter, which imports torch and sets the flags once more."""
    result = Result(job.name)
    started = time.monotonic()
    sub = {"function": name_of(job.function), "args": job.args}
    child = dict(request, tasks=[], sub=sub)
    code = _run(child, job.time_limit_s, lambda line: take_line(line, result, emit))
    if code is not None:
        set_ending(result, code)
    elif result.status == "lost":  # neither a value nor an error yet
        set_timed_out(result, job)
    result.seconds = time.monotonic() - started
    return result


def _run(
    request: "dict[str, Any]",
    time_limit_s: float,
    take: "Callable[[bytes], None]",
) -> "Optional[int]":
    """Start this program again with another request and hand over the lines of its answer.

    Returns its exit code (negative: a signal), None when it had to be ended at the time limit.
    """
    process = subprocess.Popen(  # noqa: S603  (this program again, no shell)
        [sys.executable, "-B", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    reader = threading.Thread(target=_pass_lines, args=(process, take), daemon=True)
    reader.start()
    try:
        # It may have ended already; its exit code tells.
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(request).encode("ascii"))  # type: ignore[union-attr]
            process.stdin.close()  # type: ignore[union-attr]
        code = process.wait(timeout=time_limit_s)  # type: Optional[int]
    except subprocess.TimeoutExpired:
        code = None
    finally:
        process.kill()
        process.wait()
    reader.join(timeout=5)
    return code


def _pass_lines(process: Any, take: "Callable[[bytes], None]") -> None:
    for line in process.stdout:
        if not line.startswith(_OWN_EVENTS):
            take(line)

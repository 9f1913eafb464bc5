"""A second interpreter for one job, where there is no fork (Windows) or CUDA was used too early."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any, Callable, Optional

#: Events of the second interpreter that say nothing about the job.
_OWN_EVENTS = (b'{"event": "hello"', b'{"event": "done"')
START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")


def run_child(
    request: "dict[str, Any]",
    time_limit_s: float,
    take_line: "Callable[[bytes], None]",
) -> "Optional[int]":
    """Start this program again with another request and hand over the lines of its answer.

    Returns its exit code (negative: a signal), None when it had to be ended at the time limit.
    """
    process = subprocess.Popen(  # noqa: S603  (this program again, no shell)
        [sys.executable, "-B", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    reader = threading.Thread(target=_pass_lines, args=(process, take_line), daemon=True)
    reader.start()
    try:
        _send(process, json.dumps(request).encode("ascii"))
        code = process.wait(timeout=time_limit_s)  # type: Optional[int]
    except subprocess.TimeoutExpired:
        code = None
    finally:
        process.kill()
        process.wait()
    reader.join(timeout=5)
    return code


def _send(process: Any, content: bytes) -> None:
    try:
        process.stdin.write(content)
        process.stdin.close()
    except OSError:
        pass  # it has ended already; its exit code tells


def _pass_lines(process: Any, take_line: "Callable[[bytes], None]") -> None:
    for line in process.stdout:
        if not line.startswith(_OWN_EVENTS):
            take_line(line)

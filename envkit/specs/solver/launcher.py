"""The executable that conda-lock is given: a script that starts the stand-in with our Python."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

import envkit

#: conda-lock changes what it calls for names with `mamba` in them.
NAME: Final = "conda"

_START: Final = """\
import os
import sys

sys.path.insert(0, {root!r})
from envkit.specs.solver.stand_in import main

code = main(sys.argv[1:], os.environ)
sys.stdout.flush()
# Not the usual way out: threads of py-rattler 0.28 abort an interpreter that is being taken apart,
# once in 60 runs.
os._exit(code)
"""


def write_stand_in(folder: Path) -> Path:
    """Write the executable into a private folder and return its path."""
    root = Path(envkit.__file__).resolve().parent.parent
    start = folder / "stand_in.py"
    start.write_text(_START.format(root=str(root)), encoding="utf-8")
    script = folder / NAME
    command = shlex.join([sys.executable, str(start)])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return script

"""`diff --confirm` on this machine: the active environment's interpreter runs the probes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from envkit.compare.compare import Comparison
from envkit.errors import CannotCheckError
from envkit.model.fingerprint import Fingerprint
from envkit.model.observed import value_of
from envkit.probes.events import ChildRequest
from envkit.probes.launch import ChildRun, run_child
from envkit.sources.host import read_host
from envkit.sources.target import choose_target
from envkit.workflows.confirm import Here, confirm
from envkit.workflows.fingerprint import build_fingerprint


def confirm_here(
    comparison: Comparison, environ: Mapping[str, str], *, python: str | None
) -> Comparison:
    """Run the probes that differ, here.

    Raises:
        CannotCheckError: there is no interpreter to run them with.

    """
    target = choose_target(name=None, prefix=None, python=python, environ=environ)
    if target.python is None:
        message = "--confirm needs an environment with an interpreter, and there is none."
        raise CannotCheckError(message, next_step="Activate one, or name it with --python EXE.")
    processor = value_of(read_host().cpu_model)

    def run(executable: Path, request: ChildRequest, variables: Mapping[str, str]) -> ChildRun:
        return run_child(executable, request, env=variables, on_progress=lambda _: None)

    def build(run: ChildRun) -> Fingerprint | None:
        return build_fingerprint(run, challenge=None, processor=processor)

    here = Here(python=Path(target.python), environ=environ, run=run, build=build)
    return confirm(comparison, here)

"""The readers of a live machine, joined: which worker reads what, with which environment."""

from __future__ import annotations

import getpass
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from envkit.model.facts import Facts, TorchFacts
from envkit.model.observed import NotApplicable
from envkit.model.report import Target
from envkit.probes.events import ChildRequest
from envkit.probes.launch import ChildRun, run_child
from envkit.render.redact import Identity
from envkit.sources.conda_prefix import read_conda
from envkit.sources.host import read_host
from envkit.sources.interpreter import read_python
from envkit.sources.nvidia import read_driver_and_gpus
from envkit.sources.pip_packages import read_pip
from envkit.sources.probe_answers import LIMIT_S
from envkit.sources.process_env import read_environment
from envkit.sources.redacted import home_folders
from envkit.sources.target import ASK_LIMIT_S, ask_interpreter, choose_target
from envkit.sources.torch_build import read_torch_build
from envkit.workflows.child_answer import add_answer
from envkit.workflows.conclude import now
from envkit.workflows.contract import Named, find_contract
from envkit.workflows.contract_facts import contract_facts
from envkit.workflows.fingerprint import build_fingerprint
from envkit.workflows.prefix_check import check_deeply, check_names
from envkit.workflows.verify import OnProgress, Readers

NO_TORCH_FACTS: Final = TorchFacts(
    **dict.fromkeys(
        TorchFacts.__struct_fields__,
        NotApplicable(reason="the target has no interpreter", source="choice of the target"),
    )
)


def live_readers(
    environ: Mapping[str, str],
    *,
    name: str | None = None,
    prefix: str | None = None,
    python: str | None = None,
    timeout_s: float = math.inf,
) -> Readers:
    """Return the readers of this machine; at most one of the three says which environment.

    Whatever is started to be asked, a driver or an interpreter, has `timeout_s` at most.
    """

    def ask(python: Path, environ: Mapping[str, str]) -> tuple[Path, Path] | None:
        return ask_interpreter(python, environ, limit_s=min(ASK_LIMIT_S, timeout_s))

    def child(python: Path, request: ChildRequest, on_progress: OnProgress) -> ChildRun:
        return run_child(python, request, env=environ, on_progress=on_progress)

    def compared(target: Target, named: Named, facts: Facts) -> Facts:
        return msgspec.structs.replace(
            facts,
            contract=contract_facts(named, facts.conda, environ),
            files=check_names(prefix_of(target), facts.conda, facts.pip),
        )

    def imported(target: Target, facts: Facts, run: ChildRun) -> Facts:
        return add_answer(facts, run, prefix=prefix_of(target), environ=environ)

    return Readers(
        choose=lambda: choose_target(
            name=name, prefix=prefix, python=python, environ=environ, ask=ask
        ),
        driver_and_gpus=lambda: read_driver_and_gpus(environ, limit_s=min(LIMIT_S, timeout_s)),
        files=lambda target: read_files(target, environ),
        contract=lambda asked, target: find_contract(asked, target, environ),
        compared=compared,
        deeply=lambda target: check_deeply(prefix_of(target)),
        child=child,
        imported=imported,
        fingerprint=build_fingerprint,
        identity=read_identity(environ),
        clock=now,
    )


def read_files(target: Target, environ: Mapping[str, str]) -> Facts:
    """Read what can be known without starting anything."""
    homes = home_folders(environ)
    prefix = prefix_of(target)
    python = None if target.python is None else Path(target.python)
    conda = read_conda(prefix, homes=homes)
    pip = read_pip(prefix, environ)
    return Facts(
        host=read_host(),
        environment=read_environment(environ),
        python=read_python(prefix, python, conda, homes=homes),
        conda=conda,
        pip=pip,
        torch=(
            read_torch_build(prefix, conda, pip, environ) if python is not None else NO_TORCH_FACTS
        ),
    )


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Return the names that must not leave this machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user number without a name, as in containers
        user = ""
    home = next(iter(home_folders(environ)), "")
    return Identity(home=home, user=user, host=platform.node())


def prefix_of(target: Target) -> Path | None:
    """Return the prefix of a target as a path."""
    return None if target.prefix is None else Path(target.prefix)

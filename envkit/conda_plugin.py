"""envkit inside conda: `conda envkit ...`, and a health check of `conda doctor`.

conda imports this file with each of its commands. So nothing of envkit is imported before it is
used, and nothing that goes wrong in envkit reaches conda.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from conda.plugins import hookimpl

#: Exit code of an internal error, as everywhere in envkit.
BROKEN: Final = 4
#: Seconds that torch may take in the environment that `conda doctor` looks at.
DOCTOR_TIMEOUT_S: Final = 60
#: Where torch is in an environment, from conda or from pip, on any system.
_TORCH: Final = (
    "conda-meta/pytorch-[0-9]*.json",
    "lib/python3*/site-packages/torch",
    "Lib/site-packages/torch",
)


@hookimpl  # type: ignore[untyped-decorator]
def conda_subcommands() -> Iterator[Any]:
    """Register `conda envkit`."""
    try:
        from conda.plugins.types import CondaSubcommand  # noqa: PLC0415 (conda moves its types)
    except ImportError:
        return  # a hook that raises would break every command of conda
    yield CondaSubcommand(
        name="envkit",
        summary="Prove that a PyTorch experiment will behave the same on two machines.",
        action=run_command,
    )


@hookimpl  # type: ignore[untyped-decorator]
def conda_health_checks() -> Iterator[Any]:
    """Register the health check, where conda has them (23.11 and newer)."""
    try:
        from conda.plugins.types import CondaHealthCheck  # noqa: PLC0415 (not in older condas)
    except ImportError:
        return
    yield CondaHealthCheck(name="envkit", action=check_environment)


def run_command(arguments: Sequence[str]) -> int:
    """Run envkit's command line, and return its exit code."""
    try:
        from envkit.__main__ import main  # noqa: PLC0415 (not with every command of conda)

        return main(list(arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the boundary: conda goes on)
        sys.stderr.write(f"envkit: it does not work here: {type(error).__name__}: {error}\n")
        sys.stderr.write("  next: install envkit-torch again, into the environment of conda\n")
        return BROKEN


def check_environment(prefix: str, verbose: bool) -> None:  # noqa: FBT001 (conda's signature)
    """Judge an environment with torch as `envkit verify --no-fingerprint` does, in few lines."""
    try:
        has_torch = any(next(Path(prefix).glob(place), None) for place in _TORCH)
    except OSError:
        has_torch = True  # envkit says what cannot be read
    if not has_torch:
        sys.stdout.write("envkit: no torch in this environment, nothing to check.\n\n")
        return
    more = () if verbose else ("-q",)
    limit = ("--timeout", str(DOCTOR_TIMEOUT_S), "--no-progress")
    sys.stdout.write("envkit verify --no-fingerprint:\n")
    sys.stdout.flush()
    run_command(("verify", "--no-fingerprint", "-p", prefix, *limit, *more))
    sys.stdout.write("\n")

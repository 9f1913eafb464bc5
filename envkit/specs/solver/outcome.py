"""How a solve ended, written by the stand-in for whoever started conda-lock.

conda-lock passes on neither kind nor text of a solver's error in a form that can be relied on.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

#: Variables that tell the stand-in where to write the outcome, and where channels are on disk.
OUTCOME_VARIABLE: Final = "ENVKIT_SOLVER_OUTCOME"
MIRROR_VARIABLE: Final = "ENVKIT_SOLVER_MIRROR"

Kind: TypeAlias = Literal["solved", "unsolvable", "no_network", "missing_channel", "failed"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a solve ended."""

    kind: Kind
    message: str = ""
    """The solver's explanation."""
    seconds: float = 0.0


class SolveError(Exception):
    """A solve that gave no environment."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Save an outcome."""
    path.write_bytes(msgspec.json.encode(outcome))


def read_outcome(path: Path) -> Outcome | None:
    """Return the outcome saved; None where the stand-in did not come so far."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=Outcome)
    return None

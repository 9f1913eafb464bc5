"""What the numerics' probes are made of: the bits of an operation's results, twice."""

from __future__ import annotations

from typing import Any, Callable, Dict

from .. import digests
from ..place import Place
from .operations import OPERATIONS

RUNS = 2

Report = Callable[..., None]


def measure(place: Place, name: str, seed: int, report: Report) -> None:
    """Run an operation on fresh inputs and report its bits.

    Raises:
        Unmet: this torch or this device cannot do it.

    """
    report(runs=[_run(place, name, seed) for _ in range(RUNS)])


def _run(place: Place, name: str, seed: int) -> Dict[str, Any]:
    place.clean()
    outputs = OPERATIONS[name](place, seed)
    return {label: digests.of_tensor(outputs[label]) for label in sorted(outputs)}

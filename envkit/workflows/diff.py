"""`diff`: read what is compared, compare it, and confirm causes here where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from envkit.compare.compare import Comparison, compare
from envkit.compare.gate import read_layers
from envkit.errors import UsageError
from envkit.workflows.diff_inputs import read_sides

#: Confirms causes of a comparison on this machine.
Confirm = Callable[[Comparison], Comparison]


class DiffRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared, and what must agree."""

    inputs: tuple[str, ...]
    require: str | None = None
    """Layers with commas between."""


def diff(
    request: DiffRequest, environ: Mapping[str, str], confirm: Confirm | None = None
) -> Comparison:
    """Compare the inputs.

    Raises:
        InputError: one cannot be read.
        UsageError: there is nothing to compare, or no such layer.

    """
    required = None if request.require is None else read_layers(request.require)
    sides = read_sides(request.inputs, environ)
    if confirm is not None and not _can_be_confirmed(len(sides)):
        message = f"--confirm works with two inputs; there are {len(sides)}."
        raise UsageError(message, next_step="Compare the two machines that you want to know about.")
    comparison = compare(sides, required)
    return comparison if confirm is None else confirm(comparison)


def _can_be_confirmed(inputs: int) -> bool:
    return inputs == 2  # noqa: PLR2004

"""The error for a fault of a file: which file, which line, what is wrong."""

from __future__ import annotations

from typing import Final

from envkit.errors import InputError

GET_AGAIN: Final = (
    "Get the file again from where it was made; it is damaged or was changed by hand."
)


def invalid(
    origin: str, line: int | None, reason: str, *, next_step: str = GET_AGAIN
) -> InputError:
    """Return the error for a fault of a file.

    Args:
        origin: what to call the file.
        line: where in it, from 1; None where no line is at fault.
        reason: what is wrong, without a full stop.
        next_step: what the reader can do about it.

    """
    place = origin if line is None else f"{origin}:{line}"
    return InputError(f"{place}: {reason}.", next_step=next_step)

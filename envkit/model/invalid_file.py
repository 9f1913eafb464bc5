"""The error for a fault of a file: which file, which line, what is wrong."""

from __future__ import annotations

from typing import Final

from envkit.errors import InputError

GET_AGAIN: Final = (
    "Get the file again from where it was made; it is damaged or was changed by hand."
)


def text_of(content: bytes, *, origin: str, limit_bytes: int, next_step: str = GET_AGAIN) -> str:
    """Return the text of a file.

    Raises:
        InputError: it is larger than the limit, or not UTF-8.

    """
    if len(content) > limit_bytes:
        reason = f"{len(content)} bytes are more than {limit_bytes}"
        raise invalid(origin, None, reason, next_step=next_step)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8: {error.reason}"
        raise invalid(origin, None, reason, next_step=next_step) from error


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

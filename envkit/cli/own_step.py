"""The option `--call`: one step of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from envkit.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def call_option(text: str) -> Callable[[F], F]:
    """Add `--call` with a text of help; it reaches the function as a text or None.

    Of an option that is given twice click takes the last and says nothing: so it is read as one
    that can be repeated, and refused then.
    """
    return click.option(
        "--call", metavar="MODULE:FUNCTION", multiple=True, callback=_only_one, help=text
    )


def _only_one(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1 and not context.resilient_parsing:
        message = f"--call is given {len(given)} times, and one run measures one step."
        step = "Run once for each, or call them all in one function and return what each gives."
        raise UsageError(message, next_step=step)
    return given[-1] if given else None

"""The file of a spec as a tree of YAML, within the bounds of one that people write."""

from __future__ import annotations

from typing import Final

from envkit.errors import InputError
from envkit.model.invalid_file import invalid, text_of
from envkit.model.yaml_tree import Limits, Node, read_tree

MAX_BYTES: Final = 1 << 20
_NEXT_STEP: Final = (
    "Correct the file; `conda env create` would not read it either, or not as meant."
)
LIMITS: Final = Limits(depth=16, nodes=50_000, next_step=_NEXT_STEP, rests=True)


def read_spec_tree(content: bytes, *, origin: str) -> Node | None:
    """Read the bytes of an environment.yml; None for an empty one.

    Raises:
        InputError: larger than `MAX_BYTES`, not UTF-8, or refused by `read_tree`.

    """
    text = text_of(content, origin=origin, limit_bytes=MAX_BYTES, next_step=_NEXT_STEP)
    return read_tree(text, origin=origin, limits=LIMITS)


def wrong_spec(origin: str, line: int | None, reason: str) -> InputError:
    """Return the error for a fault of a spec."""
    return invalid(origin, line, reason, next_step=_NEXT_STEP)

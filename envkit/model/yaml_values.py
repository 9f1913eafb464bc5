"""YAML as plain values: mappings, lists, strings, numbers, booleans and None."""

from __future__ import annotations

from typing import Any, Final

from envkit.model.invalid_file import GET_AGAIN, invalid
from envkit.model.yaml_scalars import is_plain_string
from envkit.model.yaml_tree import Limits, Mapping, Node, Scalar, read_tree

#: A lock has 25 to 40 values a package: 885 packages on five platforms.
LIMITS: Final = Limits(depth=32, nodes=200_000, next_step=GET_AGAIN)
#: A lock has a line or a comma for nearly every value; more of these are not worth a look.
_MOST_PARTS: Final = LIMITS.nodes * 3 // 2
_WORDS: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_LONGEST_NUMBER: Final = 20


def read_yaml(text: str, *, origin: str) -> Any:
    """Read one YAML document.

    Raises:
        InputError: not YAML, more than one document, an anchor, alias or tag, a key twice, too
            deep or too many values; the message has the line.

    """
    if text.count("\n") + text.count(",") > _MOST_PARTS:
        reason = f"more than {_MOST_PARTS} lines and commas"
        raise invalid(origin, None, reason, next_step=GET_AGAIN)
    root = read_tree(text, origin=origin, limits=LIMITS)
    return None if root is None else _value(root, origin)


def _value(node: Node, origin: str) -> Any:
    if isinstance(node, Scalar):
        return node.text if node.quoted else _resolved(node, origin)
    if isinstance(node, Mapping):
        return {key.text: _value(value, origin) for key, value in node.entries}
    return [_value(item, origin) for item in node.items]


def _resolved(node: Scalar, origin: str) -> Any:
    text = node.text
    if is_plain_string(text):
        return text
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if node.is_null:
        return None
    try:
        return int(text) if len(text) <= _LONGEST_NUMBER else float(text)
    except ValueError:
        return _odd(node, origin)


def _odd(node: Scalar, origin: str) -> float:
    try:
        return float(node.text)
    except ValueError:
        reason = f"{node.text[:60]!r} is a number or a date to YAML; put it in quotes"
        raise invalid(origin, node.line, reason) from None

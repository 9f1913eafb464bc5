"""What stands above `package:` in a lock, read line by line where every line says one plain thing.

Loading a reader of YAML takes as long as reading the packages of a thousand; this one knows
mappings, lists and scalars of one line, and gives up (None) at the first that is anything else.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final, NamedTuple

from envkit.model.yaml_scalars import BARE_KEY, SCALAR, NotPlainError, plain_value

_STEP: Final = 2
_LINE: Final = re.compile(
    rf"(?P<indent> {{0,16}})(?P<item>- )?"
    rf"(?:(?P<key>{BARE_KEY}):(?: (?P<value>{SCALAR}|\[\]|\{{\}}))?|(?P<alone>{SCALAR}))"
)
_INTEGER: Final = re.compile(r"0|[1-9][0-9]{0,8}")


class _Line(NamedTuple):
    indent: int
    is_item: bool
    key: str | None
    value: str | None


def read_head(text: str) -> dict[str, Any] | None:
    """Read the mapping above `package:`; None where it is laid out differently."""
    try:
        lines = deque(_line(one) for one in text.split("\n") if one and not one.startswith("#"))
        head = _mapping(lines, 0)
    except NotPlainError:
        return None
    return None if lines else head


def _line(text: str) -> _Line:
    found = _LINE.fullmatch(text)
    if found is None:
        raise NotPlainError
    value = found["value"] if found["key"] is not None else found["alone"]
    return _Line(len(found["indent"]), found["item"] is not None, found["key"], value)


def _mapping(lines: deque[_Line], indent: int) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    while lines and lines[0].indent == indent and not lines[0].is_item:
        _, _, key, value = lines.popleft()
        if key is None or key in mapping:
            raise NotPlainError
        mapping[key] = _below(lines, indent) if value is None else _scalar(value)
    return mapping


def _below(lines: deque[_Line], indent: int) -> Any:
    """Read the value of a key that has nothing on its line."""
    if not lines or (lines[0].indent != indent + _STEP and not lines[0].is_item):
        raise NotPlainError
    if not lines[0].is_item:
        return _mapping(lines, indent + _STEP)
    if lines[0].indent not in {indent, indent + _STEP}:
        raise NotPlainError
    return _sequence(lines, lines[0].indent)


def _sequence(lines: deque[_Line], indent: int) -> list[Any]:
    items: list[Any] = []
    while lines and lines[0].indent == indent and lines[0].is_item:
        line = lines.popleft()
        if line.key is None:
            items.append(_scalar(line.value or ""))
        else:  # `- key: value` begins a mapping that goes on two columns further in
            lines.appendleft(line._replace(indent=indent + _STEP, is_item=False))
            items.append(_mapping(lines, indent + _STEP))
    return items


def _scalar(text: str) -> Any:
    if text in {"[]", "{}"}:
        return [] if text == "[]" else {}
    return int(text) if _INTEGER.fullmatch(text) else plain_value(text)

"""A comparison in words: one short text a value, a difference and a layer, for every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from envkit.model.documents import Cause, Diff, Difference
from envkit.render.escape import printable

#: Layers that are listed after the others: host, driver and GPU, shown and never compared.
MACHINE: Final = "machine"
MARKS: Final = {
    "same": ("✔", "="),
    "different": ("✘", "x"),
    "not_comparable": ("?", "?"),
}
_STREAMS: Final = frozenset({"tensors", "workspaces"})
_MOST_CHARACTERS: Final = 160
_DIGITS: Final = 12
_HASHES: Final = ("sha256", "md5")


def said(value: Any) -> str:
    """Say one value of a difference in a few words."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return _said_table(value)
    if value == "":
        return "(empty)"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printable(text[:_MOST_CHARACTERS])


def line(difference: Difference) -> str:
    """Say a difference in one line: the values of two inputs, or how many there are of each."""
    values = [said(value) for value in difference.values]
    if len(values) == 2:  # noqa: PLR2004
        return _pair(difference, values)
    distinct = list(dict.fromkeys(values))
    counted = [f"{one} ({values.count(one)})" for one in distinct[:4]]
    return ", ".join(counted) + (" ..." if len(distinct) > 4 else "")  # noqa: PLR2004


def sentence(difference: Difference) -> str:
    """Say where two streams part, or nothing for other layers."""
    if difference.layer not in _STREAMS:
        return ""
    tables = [value for value in difference.values if isinstance(value, dict)]
    firsts = [one["first"] for one in tables if isinstance(one.get("first"), dict)]
    if not firsts or len(firsts) < len(tables):
        return ""
    place = f"first at request {firsts[0].get('request')}"
    after = firsts[0].get("after_tensors")
    where = f"{place}, after {after} tensors" if after is not None else place
    distinct = list(dict.fromkeys(_request(first) for first in firsts))
    return f"{where}: {' against '.join(distinct)}"


def ordered(diff: Diff, layer: str) -> tuple[Difference, ...]:
    """Return the differences of a layer, the unexpected ones first."""
    found = [one for one in diff.differences if one.layer == layer]
    return tuple(sorted(found, key=lambda one: one.kind == "expected"))


def layers(diff: Diff) -> list[str]:
    """Return the layers that have something to say, in their order."""
    return [name for name, answer in diff.comparable.items() if answer.answer != "no"]


def confirmation(cause: Cause) -> str:
    """Say what `--confirm` found, nothing where it was not tried."""
    if cause.together_with:
        return f"confirmed together with {', '.join(cause.together_with)}"
    return {True: "confirmed here", False: "not confirmed here", None: ""}[cause.confirmed]


def _pair(difference: Difference, values: Sequence[str]) -> str:
    left, right = difference.values
    if difference.layer == "packages":
        if left is None or right is None:
            return f"{'added' if left is None else 'removed'} {values[1 if left is None else 0]}"
        return f"{values[0]} -> {values[1]}"
    if difference.layer == "allocator" and _same_operation(left, right):
        return _operation(left, right)
    return f"{values[0]} against {values[1]}"


def _same_operation(left: Any, right: Any) -> bool:
    return _is_operation(left) and _is_operation(right) and left["op"] == right["op"]


def _is_operation(value: Any) -> bool:
    """Whether a value is an operation of an exercise, and not something of the same look."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("op"), str)
        and isinstance(value.get("operation"), int)
        and isinstance(value.get("counters_that_differ"), int)
        and isinstance(value.get("counters"), dict)
    )


def _is_stream(value: dict[str, Any]) -> bool:
    return (
        isinstance(value.get("requests"), int)
        and isinstance(value.get("more_sizes"), int)
        and isinstance(value.get("only_here"), dict)
        and all(isinstance(n, int) for n in value["only_here"].values())
        and all(size.isdecimal() for size in value["only_here"])
    )


def _operation(left: dict[str, Any], right: dict[str, Any]) -> str:
    """Say at which operation two machines part and in which counters."""
    told = [
        f"{name} {said(value)} against {said(right['counters'].get(name))}"
        for name, value in left["counters"].items()
    ]
    more = left["counters_that_differ"] - len(told[:2])
    rest = f" and {more} counters more" if more > 0 else ""
    return f"operation {left['operation']} ({printable(left['op'])}): {', '.join(told[:2])}{rest}"


def _said_table(value: dict[str, Any]) -> str:
    if _is_stream(value):
        return _stream(value)
    if _is_operation(value):
        counters = ", ".join(f"{k} {said(v)}" for k, v in list(value["counters"].items())[:2])
        return f"operation {value['operation']} ({printable(value['op'])}): {counters}"
    if "asks" in value:
        return f"asks for {printable(str(value['asks']))}"
    return ", ".join(_entry(name, one) for name, one in value.items())


def _entry(name: str, value: Any) -> str:
    if name in _HASHES and isinstance(value, str):
        return f"{name} {value[:_DIGITS]}"
    if isinstance(value, dict) and "sha256" in value:
        return f"{printable(name)} {str(value['sha256'])[:_DIGITS]}"
    shown = said(value)
    return shown if name == "version" else f"{printable(name)} {shown}"


def _stream(value: dict[str, Any]) -> str:
    sizes = [f"{int(size):,} B x {count}" for size, count in value.get("only_here", {}).items()]
    more = value.get("more_sizes", 0)
    listed = ", ".join(sizes) + (f" and {more} sizes more" if more else "")
    return f"{value['requests']:,} requests" + (f", {listed}" if listed else "")


def _request(first: dict[str, Any]) -> str:
    if isinstance(first.get("bytes"), int):
        return f"{first['bytes']:,} B"
    return f"frees {first['frees']}" if "frees" in first else str(first.get("is", "nothing"))

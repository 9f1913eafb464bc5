"""YAML as a tree with lines, read so that no file can exhaust or deceive the reader.

Built from parser events: no tag is obeyed, no alias expanded, no key may stand twice, and size,
depth and number of nodes are bounded before anything grows.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from envkit.errors import InputError

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 16
MAX_NODES: Final = 50_000
#: Characters kept of what follows a value on its line.
MAX_REST: Final = 500
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_NEXT_STEP: Final = (
    "Correct the file; `conda env create` would not read it either, or not as meant."
)
#: libyaml where PyYAML was built with it (all published wheels are); the other one is only slower.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


class Scalar(msgspec.Struct, frozen=True, kw_only=True):
    """A single value, as it is written."""

    text: str
    line: int
    rest: str = ""
    """What follows on its line, a comment for example; at most `MAX_REST` characters."""
    quoted: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it stands for nothing."""
        return not self.quoted and self.text in _NULLS


class Sequence(msgspec.Struct, frozen=True, kw_only=True):
    """A list."""

    items: tuple[Node, ...]
    line: int


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and values, in the order of the file."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int


Node: TypeAlias = Scalar | Sequence | Mapping


def read_tree(content: bytes, *, origin: str) -> Node | None:
    """Read one YAML document; None for an empty one.

    Raises:
        InputError: too large or too deep, not YAML, more than one document, an anchor, alias or
            tag, a key twice; the message has the line.

    """
    if len(content) > MAX_BYTES:
        raise invalid(origin, None, f"it is larger than {MAX_BYTES >> 10} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise invalid(origin, None, f"it is not UTF-8: {error.reason}") from error
    builder = _Builder(origin, _BREAK.split(text))
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
        raise invalid(origin, line, f"YAML: {said}") from error
    return builder.root


def invalid(origin: str, line: int | None, reason: str) -> InputError:
    """Return the error for a fault of a file."""
    place = origin if line is None else f"{origin}:{line}"
    return InputError(f"{place}: {reason}.", next_step=_NEXT_STEP)


class _Open:
    """A list or mapping that is still being read."""

    def __init__(self, line: int, *, is_mapping: bool) -> None:
        self.line = line
        self.is_mapping = is_mapping
        self.nodes: list[Node] = []
        self.keys: set[str] = set()


class _Builder:
    """Turns events into nodes."""

    def __init__(self, origin: str, lines: list[str]) -> None:
        self._origin = origin
        self._lines = lines
        self._open: list[_Open] = []
        self._count = 0
        self._documents = 0
        self.root: Node | None = None

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise invalid(self._origin, line, "a second document starts here")
        elif isinstance(event, yaml.NodeEvent):
            self._check(event, line)
            self._node(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._add(self._close())

    def _check(self, event: yaml.NodeEvent, line: int) -> None:
        self._count += 1
        if event.anchor is not None:
            raise invalid(self._origin, line, "anchors and aliases (& and *) are not read")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise invalid(self._origin, line, f"the tag {tag[:60]!r} is not read")
        if self._count > MAX_NODES or len(self._open) >= MAX_DEPTH:
            reason = f"more than {MAX_NODES} values or {MAX_DEPTH} levels"
            raise invalid(self._origin, line, reason)

    def _node(self, event: yaml.NodeEvent, line: int) -> None:
        if isinstance(event, yaml.ScalarEvent):
            rest = self._after(event.end_mark)
            self._add(Scalar(text=event.value, line=line, rest=rest, quoted=bool(event.style)))
        else:
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            self._open.append(_Open(line, is_mapping=is_mapping))

    def _after(self, end: Any) -> str:
        if end is None or end.line >= len(self._lines):
            return ""
        after: str = self._lines[end.line][end.column : end.column + MAX_REST]
        return after

    def _add(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        here = self._open[-1]
        if here.is_mapping and len(here.nodes) % 2 == 0:
            self._check_key(here, node)
        here.nodes.append(node)

    def _check_key(self, here: _Open, node: Node) -> None:
        if not isinstance(node, Scalar):
            raise invalid(self._origin, node.line, "a list or mapping cannot be a key")
        if node.text in here.keys:
            raise invalid(self._origin, node.line, f"the key {node.text[:60]!r} stands twice")
        here.keys.add(node.text)

    def _close(self) -> Node:
        done = self._open.pop()
        if not done.is_mapping:
            return Sequence(items=tuple(done.nodes), line=done.line)
        keys = [node for node in done.nodes[::2] if isinstance(node, Scalar)]
        return Mapping(entries=tuple(zip(keys, done.nodes[1::2], strict=True)), line=done.line)

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
from envkit.model.invalid_file import invalid

#: Characters kept of what follows a value on its line.
MAX_REST: Final = 500
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
#: libyaml where PyYAML was built with it (all published wheels are); the other one is only slower.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


class Scalar(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a file may have at most, and what to tell whose file has more."""

    depth: int
    nodes: int
    next_step: str
    rests: bool = False
    """Whether what follows a value on its line is kept: it takes as long as the value."""


def read_tree(text: str, *, origin: str, limits: Limits) -> Node | None:
    """Read one YAML document; None for an empty one.

    Raises:
        InputError: too deep or too many nodes, not YAML, more than one document, an anchor, alias
            or tag, a key twice; the message has the line.

    """
    builder = _Builder(origin, _BREAK.split(text) if limits.rests else [], limits)
    try:
        for event in yaml.parse(text, Loader=_LOADER):  # events: no object is made
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise builder.invalid(line, f"it is not YAML: {said}") from error
    return builder.root


class _Open:
    """A list or mapping that is still being read."""

    def __init__(self, line: int, *, is_mapping: bool) -> None:
        self.line = line
        self.is_mapping = is_mapping
        self.nodes: list[Node] = []
        self.keys: set[str] = set()


class _Builder:
    """Turns events into nodes."""

    def __init__(self, origin: str, lines: list[str], limits: Limits) -> None:
        self._origin = origin
        self._lines = lines
        self._limits = limits
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
                raise self.invalid(line, "a second document starts here")
        elif isinstance(event, yaml.NodeEvent):
            self._check(event, line)
            self._node(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._add(self._close())

    def invalid(self, line: int | None, reason: str) -> InputError:
        """Return the error for a fault of the file."""
        return invalid(self._origin, line, reason, next_step=self._limits.next_step)

    def _check(self, event: yaml.NodeEvent, line: int) -> None:
        self._count += 1
        if event.anchor is not None:
            raise self.invalid(line, "anchors and aliases (& and *) are not read")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise self.invalid(line, f"the tag {tag[:60]!r} is not read")
        limits = self._limits
        if self._count > limits.nodes or len(self._open) >= limits.depth:
            reason = f"more than {limits.nodes} values or {limits.depth} levels"
            raise self.invalid(line, reason)

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
            raise self.invalid(node.line, "a list or mapping cannot be a key")
        if node.text in here.keys:
            raise self.invalid(node.line, f"the key {node.text[:60]!r} stands twice")
        here.keys.add(node.text)

    def _close(self) -> Node:
        done = self._open.pop()
        if not done.is_mapping:
            return Sequence(items=tuple(done.nodes), line=done.line)
        keys = [node for node in done.nodes[::2] if isinstance(node, Scalar)]
        return Mapping(entries=tuple(zip(keys, done.nodes[1::2], strict=True)), line=done.line)

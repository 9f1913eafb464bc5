"""YAML as plain values, read so that no file can exhaust or deceive the reader.

Built from parser events: no alias is expanded, no tag obeyed, no key may stand twice, and size,
depth and number of values are bounded before anything grows.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from yaml.resolver import Resolver

from envkit.errors import InputError

MAX_DEPTH: Final = 32
#: Four times a lock of 2,500 packages on four platforms.
MAX_VALUES: Final = 2_000_000
#: libyaml where PyYAML was built with it (all published wheels are); the other one is only slower.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_LONGEST_NUMBER: Final = 20


def read_yaml(text: str, *, origin: str) -> Any:
    """Read one YAML document as mappings, lists, strings, numbers, booleans and None.

    Raises:
        InputError: not YAML, more than one document, an anchor, alias or tag, a key twice, too
            deep or too many values; the message has the line.

    """
    builder = _Builder(origin)
    try:
        for event in yaml.parse(text, Loader=_LOADER):  # events: no object is made
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise invalid(origin, line, f"it is not YAML: {said}") from error
    return builder.root


def invalid(origin: str, line: int | None, reason: str) -> InputError:
    """Return the error for a fault of a file."""
    place = origin if line is None else f"{origin}:{line}"
    step = "Get the file again from where it was made; it is damaged or was changed by hand."
    return InputError(f"{place}: {reason}.", next_step=step)


def is_plain_string(text: str) -> bool:
    """Say whether a scalar without quotes stands for itself, not for a number, a word or a date."""
    if not text:
        return False
    by_first = Resolver.yaml_implicit_resolvers
    return not any(
        pattern.match(text) for _, pattern in (*by_first.get(text[0], ()), *by_first.get(None, ()))
    )


class _Open:
    """A list or mapping that is still being read."""

    def __init__(self, mapping: dict[str, Any] | None) -> None:
        self.mapping = mapping
        self.items: list[Any] = []
        self.key: str | None = None

    @property
    def value(self) -> Any:
        return self.items if self.mapping is None else self.mapping


class _Builder:
    """Turns events into values."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._open: list[_Open] = []
        self._count = 0
        self._documents = 0
        self.root: Any = None

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        if isinstance(event, yaml.ScalarEvent):
            self._check(event)
            plain = not event.style and event.implicit[0]
            self._add(event.value, event, is_plain=plain)
        elif isinstance(event, yaml.NodeEvent):
            self._check(event)
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._put(self._open.pop().value)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._invalid(event, "a second document starts here")

    def _check(self, event: yaml.NodeEvent) -> None:
        self._count += 1
        if event.anchor is not None:
            raise self._invalid(event, "anchors and aliases (& and *) are not read")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise self._invalid(event, f"the tag {tag[:60]!r} is not read")
        if self._count > MAX_VALUES or len(self._open) >= MAX_DEPTH:
            raise self._invalid(event, f"more than {MAX_VALUES} values or {MAX_DEPTH} levels")

    def _begin(self, event: yaml.NodeEvent) -> None:
        here = self._open[-1] if self._open else None
        if here is not None and here.mapping is not None and here.key is None:
            raise self._invalid(event, "a list or mapping cannot be a key")
        self._open.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else None))

    def _add(self, text: str, event: yaml.Event, *, is_plain: bool) -> None:
        here = self._open[-1] if self._open else None
        if here is not None and here.mapping is not None and here.key is None:
            if text in here.mapping:
                raise self._invalid(event, f"the key {text[:60]!r} stands twice")
            here.key = text
        else:
            self._put(self._resolved(text, event) if is_plain else text)

    def _put(self, value: Any) -> None:
        if not self._open:
            self.root = value
            return
        here = self._open[-1]
        if here.mapping is None:
            here.items.append(value)
        elif here.key is not None:
            here.mapping[here.key] = value
            here.key = None

    def _resolved(self, text: str, event: yaml.Event) -> Any:
        if is_plain_string(text):
            return text
        lowered = text.lower()
        if lowered in _WORDS:
            return _WORDS[lowered]
        if lowered in {"", "~", "null"}:
            return None
        try:
            return int(text) if len(text) <= _LONGEST_NUMBER else float(text)
        except ValueError:
            return self._odd(text, event)

    def _odd(self, text: str, event: yaml.Event) -> float:
        try:
            return float(text)
        except ValueError:
            reason = f"{text[:60]!r} is a number or a date to YAML; put it in quotes"
            raise self._invalid(event, reason) from None

    def _invalid(self, event: yaml.Event, reason: str) -> InputError:
        return invalid(
            self._origin, event.start_mark.line + 1 if event.start_mark else None, reason
        )

"""Reading an environment.yml strictly, with the line of everything in it.

Keys are conda's `name`, `channels`, `dependencies`, `prefix`, `variables`, and conda-lock's, which
conda reports as unknown: `platforms`, `category`, `pip-repositories`, `allow-pypi-requests`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from envkit.errors import InputError
from envkit.model.environment_spec import (
    CondaDependency,
    EnvironmentSpec,
    Located,
    PipDependency,
    Variable,
)
from envkit.model.match_spec import parse_match_spec
from envkit.model.yaml_tree import MAX_REST, Mapping, Node, Scalar, Sequence
from envkit.specs.pip_lines import read_pip_line
from envkit.specs.spec_tree import MAX_BYTES, read_spec_tree, wrong_spec

T = TypeVar("T")

CONDA_KEYS: Final = ("name", "channels", "dependencies", "prefix", "variables")
LOCK_KEYS: Final = ("platforms", "category", "pip-repositories", "allow-pypi-requests")
#: `# [linux64]` at the end of a line, words before it allowed, as conda-lock reads it.
_SELECTOR: Final = re.compile(r"\s*#.*\[([^\[\]]+)\][^()]*$")


def read_spec_file(path: Path, *, origin: str | None = None) -> EnvironmentSpec:
    """Read a spec from a file; `origin` is what to call it in messages, by default its path.

    Raises:
        InputError: it cannot be read or is no environment.yml; the message has the line.

    """
    shown = origin or str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"{shown} cannot be read: {said}."
        raise InputError(message, next_step="Check the path.") from error
    return read_spec(content, origin=shown)


def read_spec(content: bytes, *, origin: str) -> EnvironmentSpec:
    """Read a spec from the bytes of an environment.yml.

    Raises:
        InputError: it is no environment.yml; the message has the line.

    """
    root = read_spec_tree(content, origin=origin)
    if not isinstance(root, Mapping):
        reason = "an environment.yml is a mapping with `channels` and `dependencies`"
        raise wrong_spec(origin, root.line if root else None, reason)
    return _Reader(origin, root).spec()


def refuse_other_file(spec: EnvironmentSpec) -> None:
    """Refuse a file that says nothing of what an environment is made of.

    Raises:
        InputError: it has no `dependencies`, or none in them; the message says what it may be.

    """
    keys = {text for text, _ in spec.key_lines}
    if "dependencies" in keys:
        if not spec.dependencies and not spec.pip:
            reason = "`dependencies` is empty: there is nothing to install"
            raise wrong_spec(spec.origin, spec.line_of("dependencies"), reason)
        return
    if {"metadata", "package"} <= keys:
        message = f"{spec.origin} is a lock of conda-lock, and no environment.yml."
        raise InputError(message, next_step="Give the spec that it was made from.")
    near = difflib.get_close_matches("dependencies", keys, n=1)
    if near:
        reason = f"there is no `dependencies`; is it what {near[0]!r} is meant to be?"
        raise wrong_spec(spec.origin, spec.line_of(near[0]), reason)
    raise wrong_spec(spec.origin, None, "it is no environment.yml: there is no list `dependencies`")


class _Reader:
    """Reads the keys of one file."""

    def __init__(self, origin: str, root: Mapping) -> None:
        self._origin = origin
        self._values = {key.text: value for key, value in root.entries}
        self._keys = [Located(text=key.text, line=key.line) for key, _ in root.entries]
        self._unknown: list[Located] = []

    def spec(self) -> EnvironmentSpec:
        """Return everything the file says."""
        conda, pip = self._dependencies()
        known = {*CONDA_KEYS, *LOCK_KEYS}
        return EnvironmentSpec(
            origin=self._origin,
            name=self._scalar("name"),
            channels=tuple(self._texts("channels")),
            dependencies=conda,
            pip=pip,
            variables=tuple(self._variables()),
            platforms=tuple(self._texts("platforms")),
            prefix=self._scalar("prefix"),
            lock_keys=tuple(key for key in self._keys if key.text in LOCK_KEYS),
            unknown_keys=(*(key for key in self._keys if key.text not in known), *self._unknown),
            key_lines=tuple((key.text, key.line) for key in self._keys),
        )

    def _scalar(self, key: str) -> Located | None:
        value = self._values.get(key)
        if value is None or (isinstance(value, Scalar) and value.is_null):
            return None
        if not isinstance(value, Scalar):
            raise self._invalid(value, f"`{key}` is a single value")
        return Located(text=value.text, line=value.line)

    def _items(self, key: str) -> tuple[Node, ...]:
        value = self._values.get(key)
        if value is None or (isinstance(value, Scalar) and value.is_null):
            return ()
        if not isinstance(value, Sequence):
            raise self._invalid(value, f"`{key}` is a list")
        return value.items

    def _texts(self, key: str) -> Iterator[Located]:
        for item in self._items(key):
            scalar = self._entry(item, f"an entry of `{key}`")
            yield Located(text=scalar.text.strip(), line=scalar.line)

    def _entry(self, node: Node, what: str) -> Scalar:
        if not isinstance(node, Scalar) or node.is_null or not node.text.strip():
            raise self._invalid(node, f"{what} is a text that is not empty")
        return node

    def _dependencies(self) -> tuple[tuple[CondaDependency, ...], tuple[PipDependency, ...]]:
        conda: list[CondaDependency] = []
        pip: list[PipDependency] = []
        for item in self._items("dependencies"):
            if isinstance(item, Mapping):
                pip += self._pip(item)
            else:
                scalar = self._entry(item, "a dependency")
                conda.append(self._parsed(_conda_dependency, scalar))
        return tuple(conda), tuple(pip)

    def _pip(self, mapping: Mapping) -> Iterator[PipDependency]:
        for key, value in mapping.entries:
            if key.text != "pip":
                self._unknown.append(Located(text=key.text, line=key.line))
            elif isinstance(value, Sequence):
                for item in value.items:
                    yield self._parsed(_pip_dependency, self._entry(item, "a pip requirement"))
            elif not (isinstance(value, Scalar) and value.is_null):
                raise self._invalid(value, "`pip` is a list")

    def _variables(self) -> Iterator[Variable]:
        value = self._values.get("variables")
        if value is None or (isinstance(value, Scalar) and value.is_null):
            return
        if not isinstance(value, Mapping):
            raise self._invalid(value, "`variables` is a mapping")
        for key, given in value.entries:
            if not isinstance(given, Scalar):
                raise self._invalid(given, f"the variable {key.text[:60]!r} has a single value")
            yield Variable(name=key.text, text=given.text, line=key.line)

    def _parsed(self, read: Callable[[Scalar], T], scalar: Scalar) -> T:
        try:
            return read(scalar)
        except ValueError as error:
            raise wrong_spec(self._origin, scalar.line, str(error)) from error

    def _invalid(self, node: Node, reason: str) -> InputError:
        return wrong_spec(self._origin, node.line, reason)


def _conda_dependency(scalar: Scalar) -> CondaDependency:
    text = scalar.text.strip()
    match = parse_match_spec(text)
    return CondaDependency(text=text, line=scalar.line, match=match, selector=_selector(scalar))


def _pip_dependency(scalar: Scalar) -> PipDependency:
    return read_pip_line(scalar.text.strip(), scalar.line, _selector(scalar))


def _selector(scalar: Scalar) -> str | None:
    if len(scalar.rest) == MAX_REST:  # cut off; so long a comment holds none
        return None
    found = _SELECTOR.fullmatch(scalar.rest)
    return found[1].strip() if found else None

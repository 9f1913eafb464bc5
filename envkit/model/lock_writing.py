"""Writing a lock in one canonical form: the same lock is always the same bytes.

The layout is conda-lock's own (keys in its order, packages by manager, name and platform), so that
its tools and diffs read ours as theirs, and `envkit.model.lock_lines` reads it fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from envkit.model.conda_lock import CondaLock, LockedPackage
from envkit.model.yaml_scalars import is_plain_string

_BARE: Final = re.compile(r"[A-Za-z0-9_./<=][A-Za-z0-9_.+!/:*=<>,|@%~-]*")
_NEEDS_ESCAPES: Final = re.compile(r"[^\x20-\x7e]")
_SPECIAL: Final = re.compile(r"[^\x20-\x7e]|[\"\\]")


def write_conda_lock(lock: CondaLock, *, header: str) -> bytes:
    """Write a lock.

    Args:
        lock: what to write; the order of its packages does not matter.
        header: lines for people, written as comments at the top.

    """
    lines = [f"# {line}".rstrip() for line in header.splitlines()]
    lines.append("version: 1")
    lines.append("metadata:")
    lines += _block(_metadata(lock), "  ")
    lines.append("package:" if lock.package else "package: []")
    for package in sorted(lock.package, key=_order):
        lines += _package(package)
    return ("\n".join(lines) + "\n").encode()


def _order(package: LockedPackage) -> tuple[str, str, str]:
    return package.manager, package.name, package.platform


def _metadata(lock: CondaLock) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(lock.metadata)
    for key in ("content_hash", "custom_metadata"):
        if values[key]:
            values[key] = dict(sorted(values[key].items()))
    values["platforms"] = sorted(values["platforms"])
    return {key: value for key, value in values.items() if value is not None}


def _package(package: LockedPackage) -> Iterator[str]:
    values: dict[str, Any] = msgspec.to_builtins(package)
    values["dependencies"] = dict(sorted(package.dependencies.items()))
    values["hash"] = {kind: text for kind, text in values["hash"].items() if text is not None}
    kept = {key: value for key, value in values.items() if value is not None}
    first, *rest = _block(kept, "  ")
    yield f"- {first[2:]}"
    yield from rest


def _block(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        name = f"{indent}{_scalar(key)}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _block(value, f"{indent}  ")
        elif isinstance(value, list | tuple) and value:
            yield name
            yield from _items(value, indent)
        else:
            yield f"{name} {_single(value)}"


def _items(values: list[Any] | tuple[Any, ...], indent: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict) and value:
            first, *rest = _block(value, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{indent}- {_single(value)}"


def _single(value: Any) -> str:
    if isinstance(value, str):
        return _scalar(value)
    # An empty list or mapping, a number, a boolean or null: JSON of these is YAML.
    return json.dumps(value)


def _scalar(text: str) -> str:
    if _NEEDS_ESCAPES.search(text):
        return '"' + _SPECIAL.sub(_escape, text) + '"'
    if _BARE.fullmatch(text) and not text.endswith(":") and is_plain_string(text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return f"\\{character}" if character in '"\\' else f"\\U{ord(character):08X}"

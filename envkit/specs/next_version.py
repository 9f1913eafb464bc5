"""The next version of a spec: what number a change asks for, and the files with it written in.

The numbers mean what docs/reference/environments.md promises. Where that leaves a choice, the
larger one is taken: a new cuDNN or BLAS can change results, so it is major too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from envkit.errors import InputError
from envkit.model.documents import PackageChange
from envkit.model.environment_spec import EnvironmentSpec
from envkit.specs.registry import version_key

Level: TypeAlias = Literal["major", "minor", "patch"]

#: What the fingerprint reaches: packages whose version decides memory use and numbers.
_STACK: Final = re.compile(
    r"(lib)?torch|pytorch|pytorch-(gpu|cpu|cuda)|triton|cuda-.*|cudatoolkit|libcu.*|cudnn|libcudnn.*"
    r"|nccl|libnccl|libnv.*|libmagma.*|magma|mkl|libblas|liblapack|libopenblas|llvm-openmp"
)
_OWN_VARIABLE: Final = "ENVKIT_SPEC"


def level_of(
    changes: Sequence[PackageChange], before: EnvironmentSpec, after: EnvironmentSpec
) -> tuple[Level, str]:
    """Return which number is to be raised, and the change that decides it.

    Args:
        changes: of the lock.
        before: the published spec.
        after: the spec as it is now.

    """
    if _variables(before) != _variables(after):
        return "major", "`variables` changed"
    for change in changes:
        if _is_major(change):
            return "major", _said(change)
    for change in changes:
        if _version(change.before) != _version(change.after):
            return "minor", _said(change)
    if changes:
        return "patch", _said(changes[0])
    return "minor", "the spec asks for something else"


def raised(version: str, level: Level) -> str:
    """Return the next version: 1.2.3 is followed by 2.0.0, 1.3.0 or 1.2.4."""
    major, minor, patch = version_key(version)
    following = {
        "major": (major + 1, 0, 0),
        "minor": (major, minor + 1, 0),
        "patch": (major, minor, patch + 1),
    }
    return ".".join(map(str, following[level]))


def raised_spec(text: str, name: str, old: str, new: str) -> str:
    """Return the text of a spec with the new version in `ENVKIT_SPEC`.

    Raises:
        InputError: it does not set `ENVKIT_SPEC` to the old version.

    """
    said = re.escape(f"{name}@{old}")
    pattern = re.compile(rf"^(\s*{_OWN_VARIABLE}:\s*[\"']?){said}(?![\w.])", re.MULTILINE)
    changed, count = pattern.subn(rf"\g<1>{name}@{new}", text)
    if count != 1:
        message = f"{name}.yml does not set {_OWN_VARIABLE} to {name}@{old}."
        raise InputError(message, next_step=f"Set it under `variables` of {name}.yml.")
    return changed


def raised_registry(text: str, name: str, version: str, content_hash: str) -> str:
    """Return the text of the registry with version and hash of one spec, which nobody measured."""
    start, end = _table(text, name)
    table = text[start:end]
    for key, value in (
        ("version", version),
        ("content_hash", content_hash),
        ("measured", "none"),
    ):
        line = re.compile(rf"^{key}\s*=.*$", re.MULTILINE)
        table = line.sub(f'{key} = "{value}"', table, count=1)
    return text[:start] + table + text[end:]


def registry_of_one(text: str, name: str) -> str:
    """Return the registry of a published version: the tables of one spec."""
    heads = list(re.finditer(r"^\[.*\]\s*$", text, re.MULTILINE))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    own = re.compile(rf"\[spec\.{re.escape(name)}(\..*)?\]\s*")
    tables = [
        text[head.start() : end].rstrip()
        for head, end in zip(heads, ends, strict=True)
        if own.fullmatch(head.group())
    ]
    head = '# Published: never changes.\nschema = "envkit.registry/1"'
    return "\n\n".join([head, *tables]) + "\n"


def _table(text: str, name: str) -> tuple[int, int]:
    head = re.search(rf"^\[spec\.{re.escape(name)}\]\s*$", text, re.MULTILINE)
    if head is None:
        message = f"The registry has no table [spec.{name}] of its own."
        raise InputError(message, next_step="Write it as docs/reference/environments.md shows.")
    following = re.search(r"^\[", text[head.end() :], re.MULTILINE)
    return head.end(), head.end() + following.start() if following else len(text)


def _variables(spec: EnvironmentSpec) -> dict[str, str]:
    return {one.name: one.text for one in spec.variables if one.name != _OWN_VARIABLE}


def _is_major(change: PackageChange) -> bool:
    before, after = _version(change.before), _version(change.after)
    if change.name == "python":
        return before.split(".")[:2] != after.split(".")[:2]
    return before != after and _STACK.fullmatch(change.name) is not None


def _version(shown: str | None) -> str:
    return (shown or "").partition(" ")[0]


def _said(change: PackageChange) -> str:
    return f"{change.name} {change.before or 'none'} -> {change.after or 'none'}"

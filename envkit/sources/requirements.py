"""What `pip freeze` prints: one pinned distribution a line, or where it was installed from."""

from __future__ import annotations

import re
from typing import Final

from envkit.model.distribution_name import canonical_name
from envkit.model.facts import PipDistribution
from envkit.model.invalid_file import invalid

MAX_LINES: Final = 50_000
_NAME: Final = r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,120})"
_PINNED: Final = re.compile(
    rf"{_NAME}(?:\[[\w,. -]+\])?\s*===?\s*(?P<version>[\w.!+-]{{1,120}})\s*(?:;.*)?(?:\s--hash\S*)*"
)
_FROM: Final = re.compile(rf"{_NAME}(?:\[[\w,. -]+\])?\s*@\s*(?P<where>\S{{1,2000}})(?:\s*;.*)?")
_EDITABLE: Final = re.compile(r"-e\s+(?P<where>\S{1,2000})")
_EGG: Final = re.compile(r"[#&]egg=(?P<name>[A-Za-z0-9][\w.-]{0,120})")
#: What a wheel's address says of its version.
_WHEEL: Final = re.compile(r"/[A-Za-z0-9][\w.]*-(?P<version>[\w.!+%]+?)-[^/]*\.whl(?:#.*)?$")
_COMMIT: Final = re.compile(r"@(?P<commit>[0-9a-f]{7,40})(?:#.*)?$")


def is_pip_freeze(text: str) -> bool:
    """Say whether every line of a text (of its first ones) is one of `pip freeze`."""
    lines = [line.strip() for line in text.splitlines()[:400]]
    lines = [line for line in lines if line and not line.startswith(("#", "--"))]
    return bool(lines) and all(_read(line) is not None for line in lines)


def read_pip_freeze(text: str, *, origin: str) -> tuple[PipDistribution, ...]:
    """Read the distributions; one without a version has what identifies it instead.

    Raises:
        InputError: a line is none of `pip freeze`, or a name stands twice; with the line.

    """
    found: dict[str, PipDistribution] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines[: MAX_LINES + 1], 1):
        plain = line.strip()
        if not plain or plain.startswith(("#", "--")):
            continue
        one = _read(plain)
        if one is None or number > MAX_LINES:
            raise invalid(origin, number, f"{plain[:80]!r} is no line of `pip freeze`")
        if one.name in found:
            raise invalid(origin, number, f"{one.name[:60]!r} stands twice")
        found[one.name] = one
    if not found:
        raise invalid(origin, None, "it lists no package")
    return tuple(found.values())


def _read(line: str) -> PipDistribution | None:
    plain = line.partition(" #")[0].rstrip("\\ ")
    pinned = _PINNED.fullmatch(plain)
    if pinned is not None:
        return _distribution(pinned["name"], pinned["version"])
    located = _FROM.fullmatch(plain)
    if located is not None:
        return _distribution(located["name"], _identity(located["where"]))
    editable = _EDITABLE.fullmatch(plain)
    if editable is None:
        return None
    egg = _EGG.search(editable["where"])
    name = egg["name"] if egg else editable["where"].rstrip("/").rpartition("/")[2]
    return _distribution(name or "unnamed", _identity(editable["where"]))


def _identity(where: str) -> str:
    wheel, commit = _WHEEL.search(where), _COMMIT.search(where)
    if wheel is not None:
        return wheel["version"].replace("%2B", "+")
    return f"@{commit['commit']}" if commit else "(from a file or an address)"


def _distribution(name: str, version: str) -> PipDistribution:
    return PipDistribution(name=canonical_name(name), version=version)

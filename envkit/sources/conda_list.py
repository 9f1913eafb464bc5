"""What `conda list` prints: as a table, with `--json`; a pasted one may have lost its head.

`conda list --explicit` is an explicit lock (`envkit.model.explicit_lock`).
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from envkit.errors import InputError
from envkit.model import codec
from envkit.model.distribution_name import canonical_name
from envkit.model.facts import CondaPackage, PipDistribution
from envkit.model.invalid_file import invalid
from envkit.sources.conda_channel import channel_of

MAX_ROWS: Final = 50_000
_HEAD: Final = re.compile(r"# packages in environment at |#\s+Name\s+Version\s+Build", re.MULTILINE)
_NAME: Final = r"(?P<name>[A-Za-z0-9_][\w.+-]{0,120})"
_VERSION: Final = r"(?P<version>[A-Za-z0-9_][\w.+!-]{0,80})"
_ROW: Final = re.compile(
    rf"{_NAME}\s+{_VERSION}\s+(?P<build>[\w.+]{{1,120}}|<pip>)(?:\s+(?P<channel>\S{{1,300}}))?"
)
_PYPI: Final = frozenset({"pypi", "<pip>"})
_DEFAULTS: Final = "defaults"


class CondaList(msgspec.Struct, frozen=True, kw_only=True):
    """The packages of a list: conda's and those that pip installed beside them."""

    conda: tuple[CondaPackage, ...]
    pip: tuple[PipDistribution, ...]


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One object of `conda list --json`; other keys are of no use here."""

    name: str
    version: str
    build_string: str = ""
    channel: str = ""


def is_conda_list(text: str) -> bool:
    """Say whether a text is the table of `conda list`, with its head or without."""
    if _HEAD.search(text[:65536]):
        return True
    rows = [line for line in text.splitlines()[:200] if line.strip() and line.strip()[0] != "#"]
    return bool(rows) and all(_ROW.fullmatch(row.strip()) for row in rows)


def read_conda_list(text: str, *, origin: str) -> CondaList:
    """Read the table.

    Raises:
        InputError: a line is no row of it, or a package stands twice; with the line.

    """
    rows: list[_Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        found = _ROW.fullmatch(plain)
        if found is None or len(rows) >= MAX_ROWS:
            raise invalid(origin, number, f"{plain[:80]!r} is no row of `conda list`")
        channel = "pypi" if found["build"] == "<pip>" else found["channel"] or _DEFAULTS
        rows.append(
            _Entry(
                name=found["name"],
                version=found["version"],
                build_string=found["build"],
                channel=channel,
            )
        )
    if not rows:
        raise invalid(origin, None, "it lists no package")
    return _sorted_out(rows, origin)


def read_conda_list_json(content: bytes, *, origin: str) -> CondaList:
    """Read the output of `conda list --json`, or of `pip list --format json`.

    Raises:
        InputError: it is something else; with the path to the bad value.

    """
    rows: tuple[_Entry, ...] = codec.decode(content, tuple[_Entry, ...], origin=origin)
    if not rows or len(rows) > MAX_ROWS:
        raise invalid(origin, None, f"it lists {len(rows)} packages")
    if not any(row.build_string or row.channel for row in rows):
        rows = tuple(msgspec.structs.replace(row, channel="pypi") for row in rows)
    return _sorted_out(rows, origin)


def _sorted_out(rows: Any, origin: str) -> CondaList:
    seen: set[tuple[bool, str]] = set()
    conda: list[CondaPackage] = []
    pip: list[PipDistribution] = []
    for number, row in enumerate(rows):
        by_pip = row.channel in _PYPI
        name = canonical_name(row.name) if by_pip else row.name.lower()
        if (by_pip, name) in seen:
            raise _twice(origin, number, name)
        seen.add((by_pip, name))
        if by_pip:
            pip.append(PipDistribution(name=name, version=row.version, installer="pip"))
        else:
            channel = channel_of("", row.channel)
            conda.append(
                CondaPackage(
                    name=name, version=row.version, build=row.build_string, channel=channel
                )
            )
    return CondaList(conda=tuple(conda), pip=tuple(pip))


def _twice(origin: str, number: int, name: str) -> InputError:
    return invalid(origin, None, f"package[{number}].name: {name[:60]!r} stands twice")

"""How conda orders versions, and which versions a constraint such as `>=2.1,<3` admits.

The order is conda's own, not that of Python packages: `1.0a` before `1.0`, `1.1.1w` after `1.1.1`.
See https://docs.conda.io/projects/conda/en/latest/user-guide/concepts/pkg-specs.html.
"""

from __future__ import annotations

import fnmatch
import re
from itertools import zip_longest
from typing import Literal

import msgspec

#: A run of digits or of other characters: (rank, number, text), comparable in conda's order.
Atom = tuple[int, int, str]
Part = tuple[Atom, ...]
Release = tuple[int, ...]
Operator = Literal["any", "==", "!=", ">=", "<=", ">", "<", "~=", "starts", "not_starts", "glob"]

#: What a missing part or atom counts as: the number 0.
_FILL: Atom = (1, 0, "")
_DEV, _TEXT, _NUMBER, _POST = -1, 0, 1, 2
#: Stands for "any minor version" at the upper end of a range such as `=2`.
_ANY_MINOR = 9999
_LONGEST = 200
_VERSION = re.compile(r"(?:(?P<epoch>\d{1,9})!)?(?P<main>[\w.\-]+)(?:\+(?P<local>[\w.\-]+))?")
_TERM = re.compile(r"(?P<operator>===|==|!=|>=|<=|~=|>|<|=|)(?P<version>[^=<>~|,()^$\s]+)")
_RELEASE = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


class CondaVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version taken apart; ordered by `compare`, since 1.0 and 1.0.0 are the same version."""

    text: str
    epoch: int
    parts: tuple[Part, ...]
    local: tuple[Part, ...]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The ends of what a constraint admits, as far as they are numbers; None: open."""

    low: Release | None
    high: Release | None
    high_included: bool = True

    @property
    def first_series(self) -> tuple[int, int] | None:
        """The oldest major and minor version admitted."""
        return None if self.low is None else _series(self.low)

    @property
    def last_series(self) -> tuple[int, int] | None:
        """The newest major and minor version admitted."""
        if self.high is None:
            return None
        major, minor = _series(self.high)
        if self.high_included or any(self.high[2:]):
            return major, minor
        return (major, minor - 1) if minor else (major - 1, _ANY_MINOR)

    @property
    def one_series(self) -> tuple[int, int] | None:
        """The only major and minor version admitted; None where there is more than one."""
        return self.first_series if self.first_series == self.last_series else None


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison of a constraint."""

    operator: Operator
    version: str


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """Alternatives (`|`), each of terms that must all hold (`,`)."""

    text: str
    """Without spaces: the canonical form."""
    alternatives: tuple[tuple[Term, ...], ...]

    def admits(self, version: str) -> bool:
        """Say whether a version fulfils the constraint; raises ValueError if it is none."""
        parsed = parse_conda_version(version)
        return any(all(_holds(term, parsed) for term in terms) for terms in self.alternatives)

    @property
    def bounds(self) -> Bounds:
        """The lowest and the highest version that can fulfil the constraint."""
        ranges = [_both([_term_bounds(term) for term in terms]) for terms in self.alternatives]
        return _either(ranges)

    @property
    def exact(self) -> bool:
        """Whether only one version fulfils it."""
        return [[term.operator for term in terms] for terms in self.alternatives] == [["=="]]


def parse_conda_version(text: str) -> CondaVersion:
    """Take a version apart.

    Raises:
        ValueError: the text is not a version.

    """
    found = _VERSION.fullmatch(text.strip().lower()) if len(text) <= _LONGEST else None
    if found is None:
        message = f"{text[:60]!r} is not a version"
        raise ValueError(message)
    return CondaVersion(
        text=text.strip(),
        epoch=int(found["epoch"] or 0),
        parts=_parts(found["main"]),
        local=_parts(found["local"]) if found["local"] else (),
    )


def compare(one: CondaVersion, other: CondaVersion) -> int:
    """Return -1, 0 or 1: whether a version is older than, the same as or newer than another."""
    if one.epoch != other.epoch:
        return -1 if one.epoch < other.epoch else 1
    return _compare_parts(one.parts, other.parts) or _compare_parts(one.local, other.local)


def starts_with(version: CondaVersion, prefix: CondaVersion) -> bool:
    """Say whether a version belongs to a series: 2.5.1 to 2.5, but 2.50 does not."""
    if version.epoch != prefix.epoch:
        return False
    if prefix.local:
        same = not _compare_parts(version.parts, prefix.parts)
        return same and _parts_start(version.local, prefix.local)
    return _parts_start(version.parts, prefix.parts)


def parse_constraint(text: str) -> Constraint:
    """Read a constraint such as `>=2.1,<3`, `2.5.*` or `1.7|1.8`; spaces do not matter.

    A bare version is exactly this one; `=3.11` and `3.11.*` are its series.

    Raises:
        ValueError: it is not a constraint, or one with a regular expression or parentheses.

    """
    plain = re.sub(r"\s+", "", text)
    if len(plain) > _LONGEST or not plain:
        message = f"{text[:60]!r} is not a version constraint"
        raise ValueError(message)
    alternatives = tuple(
        tuple(_term(term) for term in alternative.split(",")) for alternative in plain.split("|")
    )
    return Constraint(text=plain, alternatives=alternatives)


def _parts(text: str) -> tuple[Part, ...]:
    tail = "_" if text.endswith("_") and text.strip("_") else ""  # openssl 1.0.2_
    pieces = re.split(r"[._\-]", text[:-1] if tail else text)
    if not all(pieces):
        message = f"{text[:60]!r} is not a version: it has an empty part"
        raise ValueError(message)
    pieces[-1] += tail
    return tuple(_part(piece) for piece in pieces)


def _part(piece: str) -> Part:
    atoms = [_atom(run) for run in re.findall(r"[0-9]+|[^0-9]+", piece)]
    return tuple(atoms) if piece[0].isdigit() else (_FILL, *atoms)


def _atom(run: str) -> Atom:
    if run[0] in "0123456789":
        return _NUMBER, int(run), ""
    special = {"dev": _DEV, "post": _POST}.get(run)
    return (_TEXT, 0, run) if special is None else (special, 0, "")


def _compare_parts(one: tuple[Part, ...], other: tuple[Part, ...]) -> int:
    for a, b in zip_longest(one, other, fillvalue=(_FILL,)):
        for x, y in zip_longest(a, b, fillvalue=_FILL):
            if x != y:
                return -1 if x < y else 1
    return 0


def _parts_start(parts: tuple[Part, ...], prefix: tuple[Part, ...]) -> bool:
    *whole, last = prefix
    count = len(whole)
    if _compare_parts(parts[:count], tuple(whole)):
        return False
    *atoms, final = last
    here = parts[count] if len(parts) > count else (_FILL,)
    if list(here[: len(atoms)]) != atoms:
        return False
    mine = here[len(atoms)] if len(here) > len(atoms) else _FILL
    if final[0] == _TEXT:
        return mine[0] == _TEXT and mine[2].startswith(final[2])
    return mine == final


def _term(text: str) -> Term:
    found = _TERM.fullmatch(text)
    if found is None:
        message = f"{text[:60]!r} is not a version constraint"
        raise ValueError(message)
    operator, version = found["operator"], found["version"]
    if not version.strip("*."):
        return _any(operator, text)
    series = version.endswith("*")
    version = version.rstrip("*").rstrip(".") if series else version
    if "*" in version:
        return _glob(operator, found["version"], text)
    parse_conda_version(version)
    return Term(operator=_operator(operator, series=series), version=version)


def _any(operator: str, text: str) -> Term:
    if operator not in {"", "=", "=="}:
        message = f"{text!r} compares with no version"
        raise ValueError(message)
    return Term(operator="any", version="*")


def _glob(operator: str, version: str, text: str) -> Term:
    if operator not in {"", "=", "=="}:
        message = f"{text[:60]!r}: a pattern cannot be compared"
        raise ValueError(message)
    return Term(operator="glob", version=version.lower())


def _operator(written: str, *, series: bool) -> Operator:
    plain: dict[str, Operator] = {
        "!=": "not_starts" if series else "!=",
        ">=": ">=",
        "<=": "<=",
        ">": ">",
        "<": "<",
        "~=": "~=",
    }
    if written in plain:
        return plain[written]
    return "starts" if series or written == "=" else "=="


def _holds(term: Term, version: CondaVersion) -> bool:
    if term.operator == "any":
        return True
    if term.operator == "glob":
        return fnmatch.fnmatchcase(version.text.lower(), term.version)
    other = parse_conda_version(term.version)
    order = compare(version, other)
    match term.operator:
        case "starts":
            return starts_with(version, other)
        case "not_starts":
            return not starts_with(version, other)
        case "~=":
            return order >= 0 and starts_with(version, _without_last(other))
        case _:
            held: dict[str, bool] = {
                "==": order == 0,
                "!=": order != 0,
                ">=": order >= 0,
                "<=": order <= 0,
                ">": order > 0,
                "<": order < 0,
            }
            return held[term.operator]


def _without_last(version: CondaVersion) -> CondaVersion:
    kept = version.parts[:-1] or version.parts
    return msgspec.structs.replace(version, parts=kept, local=())


def _series(release: Release) -> tuple[int, int]:
    return release[0], (release[1] if len(release) > 1 else 0)


def _after(release: Release) -> Release:
    return (*release[:-1], release[-1] + 1)


def _term_bounds(term: Term) -> Bounds:
    found = _RELEASE.match(term.version)
    if found is None or "!" in term.version or term.operator in {"any", "!=", "not_starts", "glob"}:
        return Bounds(low=None, high=None)
    release = tuple(int(part) for part in found[0].split("."))
    match term.operator:
        case "==":
            return Bounds(low=release, high=release)
        case "starts":
            return Bounds(low=release, high=_after(release), high_included=False)
        case "~=":
            high = _after(release[:-1] or release)
            return Bounds(low=release, high=high, high_included=False)
        case ">=" | ">":
            return Bounds(low=release, high=None)
        case _:
            return Bounds(low=None, high=release, high_included=term.operator == "<=")


def _both(ranges: list[Bounds]) -> Bounds:
    lows = [one.low for one in ranges if one.low is not None]
    highs = [(one.high, one.high_included) for one in ranges if one.high is not None]
    high, included = min(highs) if highs else (None, True)
    return Bounds(low=max(lows) if lows else None, high=high, high_included=included)


def _either(ranges: list[Bounds]) -> Bounds:
    lows = [one.low for one in ranges]
    highs = [one.high for one in ranges]
    low = None if None in lows else min(low for low in lows if low is not None)
    if None in highs:
        return Bounds(low=low, high=None)
    high, included = max((one.high, one.high_included) for one in ranges if one.high is not None)
    return Bounds(low=low, high=high, high_included=included)

"""Requirement lines of distributions: what they ask for, and whether a version will do.

`packaging`'s parsers are loaded where a line is read: a pasted report has none, and judging one
is to be quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def requirement(text: str) -> Requirement | None:
    """Read a `Requires-Dist` line; None where it cannot be read."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def satisfies(version: str, specifier: str) -> bool:
    """Say whether a version meets a specifier; one that cannot be read does."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True

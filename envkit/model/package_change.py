"""What kind of change a difference between two lists of packages is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from envkit.model.documents import Difference

Change = Literal["added", "removed", "version", "build", "channel", "hash", "wish"]
_CHANGES: Final = {
    "added": "added",
    "removed": "removed",
    "version": "version changed",
    "build": "build changed",
    "channel": "channel changed",
    "hash": "hash changed",
    "wish": "not as asked",
}


def count_changes(differences: Sequence[Difference]) -> str:
    """Count the package differences of two inputs by what changed; empty where there are none."""
    found: dict[str, int] = {}
    for one in differences:
        if one.layer == "packages" and one.key != "platforms" and len(one.values) == 2:  # noqa: PLR2004
            change = change_of(*one.values)
            found[change] = found.get(change, 0) + 1
    return ", ".join(f"{found[name]} {words}" for name, words in _CHANGES.items() if name in found)


def change_of(before: Any, after: Any) -> Change:
    """Say what kind of change two values of a package difference are."""
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if "asks" in before or "asks" in after:
        return "wish"
    fields: tuple[Change, ...] = ("version", "build", "channel")
    return next((field for field in fields if before.get(field) != after.get(field)), "hash")

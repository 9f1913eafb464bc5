"""conda packages of two spellings, `typing-extensions` and `typing_extensions`: one and the same.

Recipes ship a second output that only depends on the first, so that both spellings can be asked
for. A list that has one more spelling of a package than another has no package more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from envkit.compare.sides import Package

#: Platform, manager, name.
PackageKey = tuple[str, str, str]


def fold_spellings(
    listings: Sequence[Mapping[PackageKey, Package]],
) -> list[dict[PackageKey, Package]]:
    """Bring the spellings of a package under one key where the lists do not have the same ones."""
    folded = [dict(listing) for listing in listings]
    spelled: dict[PackageKey, set[PackageKey]] = defaultdict(set)
    for listing in listings:
        for key in listing:
            spelled[_plain(key)].add(key)
    for keys in spelled.values():
        if len(keys) > 1 and not all(key in listing for key in keys for listing in listings):
            _fold(folded, keys)
    return folded


def _plain(key: PackageKey) -> PackageKey:
    platform, manager, name = key
    return platform, manager, name.replace("_", "-")


def _fold(listings: Sequence[dict[PackageKey, Package]], keys: set[PackageKey]) -> None:
    """Keep one spelling: the one that most lists have, of those the one with `_`."""
    chosen = max(keys, key=lambda key: (sum(key in one for one in listings), "_" in key[2], key))
    for listing in listings:
        mine = [key for key in keys if key in listing]
        if not mine:
            continue
        kept = listing[chosen if chosen in mine else min(mine)]
        for key in mine:
            if listing[key].version == kept.version:
                del listing[key]
        listing[chosen] = kept

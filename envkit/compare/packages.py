"""What differs between lists of packages: added, removed, version, build, channel, hash.

Lists that cannot say the same things are compared over what both say: a pip list has no builds, a
paste names only what matters to torch, a spec asks for versions and does not have any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from envkit.compare.layer import Collector, LayerResult, Lost
from envkit.compare.package_names import in_gpu_stack, pip_name
from envkit.compare.sides import Package, Packages, Side
from envkit.compare.spellings import PackageKey, fold_spellings
from envkit.model.documents import Comparable

#: Fields in the order in which a difference is named after the first one that differs.
_FIELDS: Final = ("version", "build", "channel", "sha256", "md5")
_HASHES: Final = ("sha256", "md5")
_UNLISTED: Final = Lost(reason="the list names only some packages", lawful=True)
_NO_LIST: Final = Lost(reason="no packages are recorded", lawful=True)
_OTHER_KIND: Final = Lost(reason="packages of this kind are not in the list", lawful=True)


class Aligned(msgspec.Struct, frozen=True, kw_only=True):
    """One input's packages under keys that those of the others have too."""

    listing: dict[PackageKey, Package]
    packages: Packages
    by_name: bool = False
    """Whether these are conda packages that stand in for distributions of the same name."""

    def value(self, key: PackageKey) -> Package | Lost | None:
        """Return a package, None if it is not there, or why that cannot be told."""
        found = self.listing.get(key)
        if found is not None:
            return found
        platform, manager, _ = key
        if not (self.packages.conda if manager == "conda" else self.packages.pip):
            return _OTHER_KIND
        if not self.packages.complete or key[2] in self.packages.never_listed:
            return _UNLISTED
        if self.packages.platforms and platform and platform not in self.packages.platforms:
            return Lost(reason=f"it is not locked for {platform}", lawful=True)
        return None


def compare_packages(sides: Sequence[Side]) -> LayerResult:
    """Compare the packages of all inputs that list any; the GPU stack comes first."""
    collector = Collector("packages")
    lists = [side.packages for side in sides]
    present = [one for one in lists if one is not None]
    if len(present) < 2:  # noqa: PLR2004
        few = "only one input lists packages" if present else "no input lists packages"
        return collector.finish(Comparable(answer="no", why=few))
    aligned = _folded(_aligned(lists))
    keys = sorted(_keys(aligned), key=_order)
    platforms = {key[0] for key in keys}
    for key in keys:
        values = [_NO_LIST if one is None else one.value(key) for one in aligned]
        _take(collector, _shown_key(key, several=len(platforms) > 1), values)
    _take_platforms(collector, present)
    return collector.finish(_comparable(lists))


def _take(collector: Collector, key: str, values: Sequence[Package | Lost | None]) -> None:
    collector.take(key, values, same=_same, shown=_shown, quiet=True)


def _same(one: Package | None, other: Package | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.wished or other.wished:
        return _admitted(one, other)
    return all(_agree(one, other, field) for field in _FIELDS)


def _agree(one: Package, other: Package, field: str) -> bool:
    """Whether a field agrees; what one of the two does not say cannot disagree."""
    left, right = getattr(one, field), getattr(other, field)
    if field != "version" and not (left and right):
        return True
    return bool(left == right)


def _admitted(one: Package, other: Package) -> bool:
    if one.wished and other.wished:
        return _asks(one) == _asks(other)
    wish, package = (one, other) if one.wished else (other, one)
    if wish.match is not None:
        channel = package.channel or wish.match.channel or ""
        build = package.build or (wish.match.build or "").replace("*", "")
        if wish.match.build is not None and not package.build:
            bare = msgspec.structs.replace(wish.match, build=None)
            return _matches(bare, package, build="", channel=channel)
        return _matches(wish.match, package, build=build, channel=channel)
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 (specs only)
    from packaging.version import InvalidVersion  # noqa: PLC0415

    try:
        return SpecifierSet(wish.specifier or "").contains(package.version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


def _matches(match: Any, package: Package, *, build: str, channel: str) -> bool:
    try:
        return bool(
            match.admits(name=match.name, version=package.version, build=build, channel=channel)
        )
    except ValueError:
        return False


def _asks(package: Package) -> str:
    if package.match is not None:
        return package.match.canonical()
    return f"{package.name} {package.specifier or ''}".strip()


def _shown(values: Sequence[Any]) -> list[Any]:
    """Return what a difference shows of each package: its version, and the fields that differ."""
    packages = [value for value in values if isinstance(value, Package)]
    differing = [f for f in _FIELDS if len({getattr(p, f) for p in packages} - {""}) > 1]
    if not set(differing) <= set(_HASHES):
        # Another version, build or channel is another file: its hash says nothing more.
        differing = [field for field in differing if field not in _HASHES]
    return [None if value is None else _fields(value, differing) for value in values]


def _fields(package: Package, differing: Iterable[str]) -> dict[str, str]:
    if package.wished:
        return {"asks": _asks(package)}
    said = {"version": package.version}
    said.update(
        {f: getattr(package, f) for f in differing if f != "version" and getattr(package, f)}
    )
    return said


def _take_platforms(collector: Collector, present: Sequence[Packages]) -> None:
    platforms = [sorted(one.platforms) for one in present if one.platforms]
    if len(platforms) == len(present):
        collector.take("platforms", platforms)


def _aligned(lists: Sequence[Packages | None]) -> list[Aligned | None]:
    """Bring the lists under the same keys: the same platforms, the same kind of names."""
    present = [one for one in lists if one is not None]
    locked = all(len(one.platforms) > 0 for one in present)
    platform = "" if locked else _single_platform(present)
    names = _naming(present)
    return [None if one is None else _align(one, names, locked, platform) for one in lists]


def _folded(aligned: Sequence[Aligned | None]) -> list[Aligned | None]:
    present = [one.listing for one in aligned if one is not None]
    following = iter(fold_spellings(present))
    return [
        None if one is None else msgspec.structs.replace(one, listing=next(following))
        for one in aligned
    ]


def _keys(aligned: Sequence[Aligned | None]) -> set[PackageKey]:
    """Return the packages that any list names for certain, or two by name."""
    certain = {key for one in aligned if one is not None and not one.by_name for key in one.listing}
    if certain or any(one is not None and not one.by_name for one in aligned):
        return certain
    return {key for one in aligned if one is not None for key in one.listing}


def _align(one: Packages, names: str, locked: bool, platform: str) -> Aligned:  # noqa: FBT001
    listed = [p for p in one.listed if locked or not one.platforms or p.platform == platform]
    by_name = names == "pip" and one.conda and not one.conda_owned
    if names == "pip":
        listed = _as_distributions(one, listed)
        one = msgspec.structs.replace(one, conda=False, pip=True, complete=_all_pip(one))
    place: Callable[[Package], str] = (lambda p: p.platform) if locked else (lambda _: "")
    listing: dict[PackageKey, Package] = {(place(p), p.manager, p.name): p for p in listed}
    return Aligned(listing=listing, packages=one, by_name=by_name)


def _naming(present: Sequence[Packages]) -> str:
    """Choose pip's names where one list has only distributions and another conda packages."""
    pip_only = any(one.pip and not one.conda for one in present)
    return "pip" if pip_only and any(one.conda for one in present) else "own"


def _all_pip(one: Packages) -> bool:
    """Whether a list names every Python distribution there is."""
    return one.complete and one.pip and (not one.conda or bool(one.conda_owned))


def _as_distributions(one: Packages, listed: Sequence[Package]) -> list[Package]:
    if one.conda_owned:
        return [*(p for p in listed if p.manager == "pip"), *one.conda_owned]
    found: dict[str, Package] = {}
    for package in listed:
        name = package.name if package.manager == "pip" else pip_name(package.name)
        if name is not None and (package.manager == "pip" or name not in found):
            found[name] = Package(
                name=name,
                manager="pip",
                version=package.version,
                platform=package.platform,
                match=package.match,
                specifier=package.specifier,
            )
    return list(found.values())


def _single_platform(present: Sequence[Packages]) -> str:
    """Choose the platform of a lock to hold against a list of one platform."""
    stated = next((one.platform for one in present if one.platform), "")
    locked = [set(one.platforms) for one in present if one.platforms]
    common = set.intersection(*locked) if locked else set()
    if stated in common or not common or "linux-64" in common:
        return stated or "linux-64"
    return min(common)


def _comparable(lists: Sequence[Packages | None]) -> Comparable:
    present = [one for one in lists if one is not None]
    reasons = []
    if len(present) < len(lists):
        reasons.append(f"{len(lists) - len(present)} of {len(lists)} inputs list no packages")
    if not all(one.complete for one in present):
        reasons.append("a list names only some packages")
    if _naming(present) == "pip":
        reasons.append("conda packages are held against Python distributions by name")
    elif len({(one.conda, one.pip) for one in present if one.complete}) > 1:
        reasons.append("not every list has both conda packages and Python distributions")
    if reasons:
        return Comparable(answer="partly", why="; ".join(reasons))
    return Comparable(answer="yes", why="complete lists of the same kind")


def _order(key: PackageKey) -> tuple[bool, str, str, str]:
    platform, manager, name = key
    return (not in_gpu_stack(name), name, manager, platform)


def _shown_key(key: PackageKey, *, several: bool) -> str:
    platform, manager, name = key
    shown = name if manager == "conda" else f"pip:{name}"
    return f"{platform}/{shown}" if several and platform else shown

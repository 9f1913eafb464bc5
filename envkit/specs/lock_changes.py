"""Which packages differ between two locks of one spec."""

from __future__ import annotations

from envkit.model.conda_lock import CondaLock, LockedPackage
from envkit.model.documents import PackageChange


def changes_between(old: CondaLock | None, new: CondaLock) -> tuple[PackageChange, ...]:
    """Return what was added, removed or replaced, by platform and name.

    Empty without an old lock: then everything is new.
    """
    if old is None:
        return ()
    before = {(one.platform, one.name): one for one in old.package}
    after = {(one.platform, one.name): one for one in new.package}
    return tuple(
        PackageChange(
            platform=platform,
            name=name,
            before=_shown(before.get((platform, name))),
            after=_shown(after.get((platform, name))),
        )
        for platform, name in sorted({*before, *after})
        if _differ(before.get((platform, name)), after.get((platform, name)))
    )


def _differ(one: LockedPackage | None, other: LockedPackage | None) -> bool:
    if one is None or other is None:
        return True
    return (one.url, one.hash) != (other.url, other.hash)


def _shown(package: LockedPackage | None) -> str | None:
    if package is None:
        return None
    return f"{package.version} {package.build_string} ({package.channel})"

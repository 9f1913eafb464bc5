"""Reading a conda-lock.yml strictly: from bytes that may be hostile to a checked `CondaLock`."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from envkit.errors import InputError
from envkit.model.conda_lock import PACKAGE_FILE, CondaLock, LockedPackage
from envkit.model.invalid_file import invalid, text_of
from envkit.model.lock_head import read_head
from envkit.model.lock_lines import read_packages

#: Locks of 900 packages on four platforms have 2 MiB.
MAX_LOCK_BYTES: Final = 32 << 20
MAX_PACKAGES: Final = 50_000
PLATFORM: Final = re.compile(r"[a-z]+-[a-z0-9]+")
_HASHES: Final = {"md5": re.compile(r"[0-9a-f]{32}"), "sha256": re.compile(r"[0-9a-f]{64}")}
_SCHEMES: Final = frozenset({"https", "http", "file"})
_START: Final = "\npackage:\n"
_PACKAGE: Final = "\n- name: "
#: What stands above the packages has a few lines for each platform, channel and spec.
_MOST_HEAD_LINES: Final = 10_000


def read_conda_lock(content: bytes, *, origin: str) -> CondaLock:
    """Read a conda-lock.yml of format 1.

    Args:
        content: the bytes of the file.
        origin: what to call the file in messages.

    Raises:
        InputError: too large, not YAML, another format, or a value that is wrong; the message has
            the line or the path to the value, such as `package[3].hash.md5`.

    """
    text = text_of(content, origin=origin, limit_bytes=MAX_LOCK_BYTES)
    lock = _by_lines(text, origin) or _by_yaml(text, origin)
    _check(lock, origin)
    return lock


def _by_lines(text: str, origin: str) -> CondaLock | None:
    """Read head and packages by lines; None where the layout is another one."""
    head, start, rest = text.partition(_START)
    if not start or head.count("\n") > _MOST_HEAD_LINES:
        return None
    if rest.count(_PACKAGE) > MAX_PACKAGES:
        raise _too_many(origin)
    values = read_head(head)
    if values is None or "package" in values:
        return None
    packages = read_packages(rest)
    if packages is None:
        return None
    return _converted({**values, "package": ()}, origin, packages)


def _by_yaml(text: str, origin: str) -> CondaLock:
    from envkit.model.yaml_values import read_yaml  # noqa: PLC0415 (it loads as long as a lock)

    return _converted(read_yaml(text, origin=origin), origin, None)


def _converted(values: Any, origin: str, packages: tuple[LockedPackage, ...] | None) -> CondaLock:
    if not isinstance(values, dict):
        raise invalid(origin, None, "a conda-lock.yml is a mapping with `metadata` and `package`")
    version = values.get("version")
    if version != 1:
        reason = f"its format is {str(version)[:40]!r}; envkit reads format 1 of conda-lock"
        raise invalid(origin, None, reason)
    try:
        lock = msgspec.convert(values, CondaLock)
    except msgspec.ValidationError as error:
        raise _wrong(origin, str(error)) from error
    return lock if packages is None else msgspec.structs.replace(lock, package=packages)


def _wrong(origin: str, said: str) -> InputError:
    reason, _, path = said.partition(" - at `$")
    place = path.rstrip("`").lstrip(".")
    return invalid(origin, None, f"{place}: {reason}" if place else reason)


def _too_many(origin: str) -> InputError:
    return invalid(origin, None, f"more than {MAX_PACKAGES} packages")


def _check(lock: CondaLock, origin: str) -> None:
    if len(lock.package) > MAX_PACKAGES:
        raise _too_many(origin)
    for number, platform in enumerate(lock.metadata.platforms):
        if not PLATFORM.fullmatch(platform):
            reason = f"metadata.platforms[{number}]: {platform[:40]!r} is not a platform"
            raise invalid(origin, None, reason)
    platforms = frozenset(lock.metadata.platforms)
    seen: set[tuple[str, str, str]] = set()
    for number, package in enumerate(lock.package):
        fault = _fault(package, platforms)
        key = (package.manager, package.name, package.platform)
        if fault is None and key in seen:
            fault = ("name", f"{package.name[:60]!r} is locked twice for {package.platform}")
        if fault is not None:
            raise invalid(origin, None, f"package[{number}].{fault[0]}: {fault[1]}")
        seen.add(key)


def _fault(package: LockedPackage, platforms: frozenset[str]) -> tuple[str, str] | None:
    """Return field and reason of the first thing wrong with a package."""
    if package.platform not in platforms:
        return "platform", f"{package.platform[:40]!r} is not in metadata.platforms"
    for kind, pattern in _HASHES.items():
        value = getattr(package.hash, kind)
        if value is not None and not pattern.fullmatch(value):
            return f"hash.{kind}", f"{value[:70]!r} is not a {kind}"
    if package.hash.md5 is None and package.hash.sha256 is None:
        return "hash", "there is neither md5 nor sha256"
    return _url_fault(package) if package.manager == "conda" else None


def _is_address(url: str) -> bool:
    try:
        urlsplit(url)
    except ValueError:  # such as a bracket that is never closed
        return False
    return url.partition("://")[0] in _SCHEMES and url.isprintable() and " " not in url


def _url_fault(package: LockedPackage) -> tuple[str, str] | None:
    url = package.url
    if not _is_address(url):
        return "url", f"{url[:80]!r} is not the address of a package"
    found = PACKAGE_FILE.fullmatch(package.file_name)
    if found is None:
        return "url", f"{package.file_name[:80]!r} is not the file of a conda package"
    if (found["name"], found["version"]) != (package.name, package.version):
        said = f"{package.name[:60]} {package.version[:40]}"
        return "url", f"{package.file_name[:80]!r} is not the file of {said}"
    if package.build is not None and package.build != found["build"]:
        return "build", f"{package.build[:60]!r} is not the build of {package.file_name[:80]!r}"
    if package.subdir not in {package.platform, "noarch"}:
        return "url", f"{package.subdir[:40]!r} is neither {package.platform} nor noarch"
    return None

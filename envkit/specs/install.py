"""Linking the packages of a lock into a folder with py-rattler (extra `lock`)."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import rattler
from rattler.exceptions import InstallerError
from rattler.install import InstallerReporter, install
from rattler.package_cache import PackageCache, ValidationMode

from envkit.errors import CannotCheckError, EnvkitError, RefusedError
from envkit.model.conda_lock import LockedPackage
from envkit.specs.package_files import local_file

_NO_NETWORK: Final = re.compile(
    r"error sending request|dns error|tcp connect error|connection (?:refused|reset)|timed out"
    r"|HTTP status",
    re.IGNORECASE,
)
_HASH: Final = re.compile(r"hash mismatch", re.IGNORECASE)
_NUMBER: Final = re.compile(r"_(\d{1,9})(?:_[A-Za-z]\w*)?$")
_SHOWN_CHARS: Final = 600


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be installed, and where."""

    packages: tuple[LockedPackage, ...]
    platform: str
    folder: Path
    """Where the files are written."""
    prefix: Path
    """Where they will be: what is written into scripts and libraries."""
    mirror: Path | None
    cache: Path


def install_packages(wanted: Installation, tell: Callable[[int, int, str], None]) -> None:
    """Link every package; runs none of their scripts.

    Raises:
        RefusedError: the hash of a download is not the lock's, or a file cannot be linked.
        CannotCheckError: no network.

    """
    by_hash = all(package.hash.sha256 is not None for package in wanted.packages)
    with tempfile.TemporaryDirectory(prefix="envkit-cache-") as private:
        # What the cache holds is told apart by SHA-256 alone.
        cache = PackageCache.new_layered(
            [wanted.cache if by_hash else private], validation_mode=ValidationMode.full()
        )
        try:
            reporter = _Reporter(len(wanted.packages), tell)  # type: ignore[abstract]  # no-ops
            asyncio.run(_install(wanted, cache, reporter))
        except InstallerError as error:
            raise _explained(error) from error
        except Exception as error:  # the class of a panic in py-rattler cannot be imported
            if type(error).__name__ != "RustPanic":
                raise
            raise _explained(error) from error


async def _install(wanted: Installation, cache: PackageCache, reporter: _Reporter) -> None:
    await install(
        [_record(package, wanted.mirror) for package in wanted.packages],
        target_prefix=wanted.folder,
        alternative_target_prefix=wanted.prefix,
        installed_packages=[],
        platform=rattler.Subdir(wanted.platform),
        execute_link_scripts=False,
        show_progress=False,
        reporter=reporter,
        package_cache=cache,
    )


def _record(package: LockedPackage, mirror: Path | None) -> rattler.RepoDataRecord:
    number = _NUMBER.search(package.build_string)
    record = rattler.PackageRecord(
        package.name,
        package.version,
        rattler.BuildString(package.build_string),
        int(number[1]) if number else 0,
        package.subdir,
        depends=_depends(package.dependencies),
        sha256=_bytes(package.hash.sha256),
        md5=_bytes(package.hash.md5),
    )
    path = local_file(package, mirror)
    url = package.url if path is None else path.resolve().as_uri()
    return rattler.RepoDataRecord(record, package.file_name, url, package.channel_url)


def _depends(dependencies: dict[str, str]) -> list[str]:
    return [f"{name} {constraint}".strip() for name, constraint in dependencies.items()]


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)


def _explained(error: Exception) -> EnvkitError:
    said = "; ".join(str(error).replace("Caused by: ", "").splitlines())[:_SHOWN_CHARS]
    if _HASH.search(said):
        message = f"A download is not the file that was locked: {said}."
        step = "Try again. If it stays so, the lock is wrong: envkit lock SPEC."
        return RefusedError(message, next_step=step)
    if _NO_NETWORK.search(said):
        message = f"The packages cannot be downloaded: {said}."
        step = "Connect to the network, or give the package files with --mirror DIR."
        return CannotCheckError(message, next_step=step)
    message = f"The packages cannot be installed: {said}."
    step = "Nothing was left behind. Check space and permissions, then try again."
    return RefusedError(message, next_step=step)


def default_cache() -> Path:
    """Return the folder where rattler keeps packages, as pixi does too."""
    own = os.environ.get("RATTLER_CACHE_DIR")
    if own:
        return Path(own) / "pkgs"
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rattler" / "cache" / "pkgs"


class _Reporter(InstallerReporter):
    """Counts the packages linked. Called from threads of py-rattler."""

    def __init__(self, total: int, tell: Callable[[int, int, str], None]) -> None:
        self._total = total
        self._done = 0
        self._tell = tell

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        self._tell(self._done, self._total, f"fetching {package_name}")
        return operation

    def on_link_start(self, operation: int, package_name: str) -> int:
        self._tell(self._done, self._total, f"linking {package_name}")
        return operation

    def on_link_complete(self, index: int) -> None:
        del index
        self._done += 1

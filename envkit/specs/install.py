"""Linking the packages of a lock into a folder with py-rattler (extra `lock`): the child's half.

Runs in a process of its own, started by `envkit.specs.installer`: threads and panics of py-rattler
cannot take envkit with them, and to end the process ends the work.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Final

import msgspec
import rattler
from rattler.exceptions import InstallerError
from rattler.install import InstallerReporter, install
from rattler.package_cache import PackageCache, ValidationMode

from envkit.model.conda_lock import LockedPackage
from envkit.specs.archive_check import UnsafePackageError, check_archives
from envkit.specs.download import DownloadError, download
from envkit.specs.installer import Ended, Installation, Linked

_HASH: Final = re.compile(r"hash mismatch", re.IGNORECASE)
_NUMBER: Final = re.compile(r"_(\d{1,9})(?:_[A-Za-z]\w*)?$")
_SHOWN_CHARS: Final = 600


def main() -> None:
    """Read what to install from stdin, tell of it on stdout in lines of JSON, and end the process.

    The last line says how it ended; without one, the process itself failed.
    """
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=Installation)
    _tell(_install(wanted))
    # Not the usual way out: threads of py-rattler 0.28 can abort an interpreter at its end.
    os._exit(0)


def _tell(line: Ended | Linked) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _install(wanted: Installation) -> Ended:
    cache = PackageCache.new_layered([wanted.cache], validation_mode=ValidationMode.full())
    try:
        asyncio.run(_checked_link(wanted, cache))
    except DownloadError as error:
        return Ended(how=error.how, message=str(error))
    except UnsafePackageError as error:
        return Ended(how="unsafe", message=str(error))
    except (InstallerError, OSError) as error:
        return _explained(error)
    return Ended(how="installed")


async def _checked_link(wanted: Installation, cache: PackageCache) -> None:
    absent = [one for one in wanted.packages if one.url not in wanted.copies]
    folder = Path(wanted.scratch) / "downloads"
    fetched = await download(absent, folder, Path(wanted.downloads), _tell_fetching)
    copies = {**wanted.copies, **fetched}
    await check_archives(Path(copy) for copy in copies.values())
    await _link(msgspec.structs.replace(wanted, copies=copies), cache)


def _tell_fetching(done: int, name: str) -> None:
    _tell(Linked(done=done, name=f"fetching {name}"))


async def _link(wanted: Installation, cache: PackageCache) -> None:
    await install(
        [_record(package, wanted) for package in wanted.packages],
        target_prefix=wanted.folder,
        alternative_target_prefix=wanted.prefix,
        installed_packages=[],
        platform=rattler.Subdir(wanted.platform),
        execute_link_scripts=False,
        show_progress=False,
        reporter=_Reporter(),  # type: ignore[abstract]  # what it does not override does nothing
        package_cache=cache,
    )


def _record(package: LockedPackage, wanted: Installation) -> rattler.RepoDataRecord:
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
    url = Path(wanted.copies[package.url]).resolve().as_uri()
    return rattler.RepoDataRecord(record, package.file_name, url, package.channel_url)


def _depends(dependencies: dict[str, str]) -> list[str]:
    return [f"{name} {constraint}".strip() for name, constraint in dependencies.items()]


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)


def _explained(error: InstallerError | OSError) -> Ended:
    said = "; ".join(str(error).replace("Caused by: ", "").splitlines())[:_SHOWN_CHARS]
    return Ended(how="other_hash" if _HASH.search(said) else "failed", message=said)


class _Reporter(InstallerReporter):
    """Tells of each package. Called from threads of py-rattler, one at a time under the GIL."""

    def __init__(self) -> None:
        self._done = 0

    def on_link_start(self, operation: int, package_name: str) -> int:
        _tell(Linked(done=self._done, name=f"linking {package_name}"))
        return operation

    def on_link_complete(self, index: int) -> None:
        del index
        self._done += 1

"""Where pip has put a distribution over a package of conda, and files that nobody installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from envkit.model.facts import CondaPackage, Overlap, PipDistribution
from envkit.sources.pip_packages import Installed, list_installed
from envkit.sources.site_folders import site_folders
from envkit.sources.wheel_records import metadata_path, recorded_by

#: conda-forge's name where it is not that of the distribution, for what is installed beside torch.
_CONDA_NAMES: Final = {
    "torch": ("pytorch", "pytorch-cpu", "pytorch-gpu"),
    "matplotlib": ("matplotlib-base", "matplotlib"),
    "opencv-python": ("py-opencv", "opencv"),
    "opencv-python-headless": ("py-opencv", "opencv"),
    "faiss-cpu": ("faiss-cpu", "faiss"),
    "msgpack": ("msgpack-python",),
    "tables": ("pytables",),
    "pyqt5": ("pyqt",),
    "pyqt6": ("pyqt",),
    "graphviz": ("python-graphviz",),
    "xxhash": ("python-xxhash",),
    "flatbuffers": ("python-flatbuffers",),
    "tzdata": ("python-tzdata",),
    "kaleido": ("python-kaleido",),
    "build": ("python-build",),
}
#: Entries of site-packages that Python and pip themselves leave there.
_USUAL: Final = frozenset({"__pycache__", "README.txt", "README"})
MAX_ENTRIES: Final = 200_000


def overlaps_by_name(
    prefix: Path, packages: Sequence[CondaPackage], distributions: Sequence[PipDistribution]
) -> tuple[Overlap, ...]:
    """Return the distributions of pip in a prefix where conda has a package of that name.

    conda's own package may say that pip installed it: it does not count where its record lists
    the metadata.
    """
    by_name = {one.name: one for one in packages if one.channel != "pypi"}
    suspects = {
        one.name
        for one in distributions
        if one.installer not in {"", "conda"}
        and any(name in by_name for name in _conda_names(one.name))
    }
    if not suspects:
        return ()
    found = []
    for one in by_pip(prefix):
        if one.distribution.name not in suspects:
            continue
        for name in _conda_names(one.distribution.name):
            package = by_name.get(name)
            if package is not None and not _is_its_own(prefix, package, one):
                found.append(_overlap(one, package, 0))
                break
    return tuple(found)


def overlaps_by_file(
    prefix: Path, packages: Sequence[CondaPackage], owners: Mapping[str, str]
) -> tuple[Overlap, ...]:
    """Return the distributions of pip that list a file that a package of conda lists too.

    Args:
        prefix: the environment.
        packages: of conda.
        owners: the package of each file, by its path relative to the prefix.

    """
    by_name = {one.name: one for one in packages}
    found = []
    for one in by_pip(prefix):
        shared: dict[str, int] = {}
        for path in recorded_by(one, prefix):
            package = owners.get(path)
            if package is not None and not path.endswith(".pyc"):
                shared[package] = shared.get(package, 0) + 1
        if metadata_path(one, prefix) in owners:
            continue  # a package of conda whose metadata says pip
        found += [
            _overlap(one, by_name[name], shared[name]) for name in sorted(shared) if name in by_name
        ]
    return tuple(found)


def foreign_entries(prefix: Path, owned: Iterable[str]) -> Iterator[str]:
    """Yield what lies in the site-packages of a prefix and is listed by nobody, by path.

    A folder of which nothing is listed is one entry, with a slash at its end.
    """
    known = set(owned)
    for one in list_installed(prefix, {}):
        if one.metadata.is_relative_to(prefix) and metadata_path(one, prefix) not in known:
            known.update(recorded_by(one, prefix))
            known.add(metadata_path(one, prefix))
    folders = {path.rpartition("/")[0] for path in known}
    for folder in list(folders):
        while folder and (folder := folder.rpartition("/")[0]) not in folders:
            folders.add(folder)
    for site in site_folders(prefix, {}):
        if site.is_relative_to(prefix):
            yield from _foreign_in(site.relative_to(prefix).as_posix(), prefix, known, folders)


def by_pip(prefix: Path) -> tuple[Installed, ...]:
    """Return the distributions that lie in the prefix and were not put there by conda."""
    return tuple(
        one
        for one in list_installed(prefix, {})
        if one.distribution.installer not in {"", "conda"} and one.metadata.is_relative_to(prefix)
    )


def _foreign_in(folder: str, prefix: Path, known: set[str], folders: set[str]) -> Iterator[str]:
    waiting = [folder]
    seen = 0
    while waiting:
        place = waiting.pop()
        for entry in _entries(prefix / place):
            seen += 1
            if seen > MAX_ENTRIES:
                return
            path = f"{place}/{entry.name}"
            if entry.name in _USUAL or entry.name.endswith(".pyc") or path in known:
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield path
            elif path in folders:
                waiting.append(path)
            elif any(True for _ in _entries(prefix / path)):
                yield f"{path}/"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def _conda_names(distribution: str) -> tuple[str, ...]:
    return _CONDA_NAMES.get(distribution, (distribution, distribution.replace("-", "_")))


def _is_its_own(prefix: Path, package: CondaPackage, one: Installed) -> bool:
    from envkit.sources.file_records import files_of  # noqa: PLC0415 (only for a suspect)

    record = prefix / "conda-meta" / f"{package.name}-{package.version}-{package.build}.json"
    return metadata_path(one, prefix) in files_of(record)


def _overlap(one: Installed, package: CondaPackage, files: int) -> Overlap:
    return Overlap(
        name=one.distribution.name,
        version=one.distribution.version,
        package=package.name,
        package_version=package.version,
        files=files,
    )

"""The files of a conda environment against its records, as facts: names by default, all if deep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import UsageError
from envkit.model.facts import (
    CondaFacts,
    CondaPackage,
    FileProblem,
    FilesFacts,
    Overlap,
    PipDistribution,
    PipFacts,
)
from envkit.model.observed import Known, NotApplicable, Observed, Unreadable, reason_of, value_of
from envkit.sources.file_records import Recorded, recorded_files
from envkit.sources.overlaps import (
    by_pip,
    foreign_entries,
    overlaps_by_file,
    overlaps_by_name,
    recorded_by,
)
from envkit.sources.prefix_files import Checked, check_files
from envkit.sources.redacted import clipped, escape_control

#: Problems that a report lists one by one; the number of all of them is kept too.
MOST_LISTED: Final = 200
NOT_DEEP: Final = NotApplicable(reason="files are compared with --deep only")
_SOURCE: Final = "files of the prefix, conda-meta"


def check_names(prefix: Path | None, conda: CondaFacts, pip: PipFacts) -> FilesFacts:
    """Return what can be said about the files without reading them."""
    skipped = FilesFacts(**dict.fromkeys(FilesFacts.__struct_fields__, NOT_DEEP))
    packages = value_of(conda.packages)
    if prefix is None or packages is None:
        return msgspec.structs.replace(skipped, overlaps=_as_conda(conda))
    found = overlaps_by_name(prefix, packages, _distributions(pip))
    names = Known(value=found, source="conda-meta, *.dist-info")
    return msgspec.structs.replace(skipped, overlaps=names)


def check_deeply(
    prefix: Path | None,
    conda: CondaFacts,
    pip: PipFacts,
    tell: Callable[[int, int, str], None],
) -> FilesFacts:
    """Hash every file of every package and compare it with its record.

    Raises:
        UsageError: the target is not a conda environment, so there are no records.

    """
    packages = value_of(conda.packages)
    if prefix is None or isinstance(conda.packages, NotApplicable):
        message = "--deep compares files with the records of conda, and the target has none."
        raise UsageError(message, next_step="Name a conda environment with -n or -p.")
    if packages is None:
        return FilesFacts(**dict.fromkeys(FilesFacts.__struct_fields__, _as_conda(conda)))
    tell(0, 0, "reading records")
    recorded = recorded_files(prefix)
    checked = check_files(prefix, recorded.files, tell)
    tell(0, 0, "looking for files of nobody")
    owners = {one.path: one.package for one in recorded.files}
    foreign = [_shown(one) for one in foreign_entries(prefix, owners)]
    return FilesFacts(
        checked=Known(value=checked.count, source=_SOURCE),
        checked_bytes=Known(value=checked.size_bytes, source=_SOURCE),
        unhashed=Known(value=checked.unhashed, source=_SOURCE),
        problem_count=Known(value=len(checked.found), source=_SOURCE),
        problems=_problems(prefix, recorded, checked),
        foreign_count=Known(value=len(foreign), source=_SOURCE),
        foreign=Known(value=tuple(foreign[:MOST_LISTED]), source=_SOURCE),
        overlaps=Known(
            value=_overlaps(prefix, packages, pip, owners), source="conda-meta, *.dist-info/RECORD"
        ),
    )


def _as_conda(conda: CondaFacts) -> Unreadable | NotApplicable:
    if isinstance(conda.packages, NotApplicable):
        return conda.packages
    return Unreadable(reason=reason_of(conda.packages), source="conda-meta")


def _distributions(pip: PipFacts) -> tuple[PipDistribution, ...]:
    return value_of(pip.distributions) or ()


def _overlaps(
    prefix: Path, packages: Sequence[CondaPackage], pip: PipFacts, owners: dict[str, str]
) -> tuple[Overlap, ...]:
    by_file = overlaps_by_file(prefix, packages, owners)
    seen = {(one.name, one.package) for one in by_file}
    by_name = overlaps_by_name(prefix, packages, _distributions(pip))
    found = [*by_file, *(one for one in by_name if (one.name, one.package) not in seen)]
    return tuple(sorted(found, key=lambda one: (one.name, one.package)))


def _problems(
    prefix: Path, recorded: Recorded, checked: Checked
) -> Observed[tuple[FileProblem, ...]]:
    """Return the problems; where there are none and not everything was read, say so instead."""
    if not checked.found and (unread := (*recorded.failures, *checked.unreadable)):
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        return Unreadable(reason=f"{_shown(unread[0])}{more}", source=_SOURCE)
    listed = checked.found[:MOST_LISTED]
    writers = _writers(prefix, {one.file.path for one in listed if one.problem == "altered"})
    found = tuple(
        FileProblem(
            package=one.file.package,
            path=_shown(one.file.path),
            problem=one.problem,
            written_by=writers.get(one.file.path, ""),
        )
        for one in listed
    )
    return Known(value=found, source=_SOURCE)


def _writers(prefix: Path, paths: set[str]) -> dict[str, str]:
    """Return the distribution of pip that lists each of these files."""
    if not paths:
        return {}
    return {
        path: one.distribution.name
        for one in by_pip(prefix)
        for path in paths.intersection(recorded_by(one, prefix))
    }


def _shown(text: str) -> str:
    return clipped(escape_control(text), 300)

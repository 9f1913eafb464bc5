"""The files of a conda environment against its records, as facts: names by default, all if deep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
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
from envkit.sources.file_records import recorded_files
from envkit.sources.file_turns import Checked, RunningCheck, Tell
from envkit.sources.files import is_there
from envkit.sources.overlaps import (
    by_pip,
    foreign_entries,
    overlaps_by_file,
    overlaps_by_name,
)
from envkit.sources.prefix_files import Found
from envkit.sources.redacted import clipped, escape_control
from envkit.sources.wheel_records import files_by_pip, recorded_by
from envkit.workflows.verify import FilesOf

#: Problems that a report lists one by one; the number of all of them is kept too.
MOST_LISTED: Final = 200
NOT_DEEP: Final = NotApplicable(reason="files are compared with --deep only")
_SOURCE: Final = "files of the prefix, conda-meta, *.dist-info/RECORD"


def check_names(prefix: Path | None, conda: CondaFacts, pip: PipFacts) -> FilesFacts:
    """Return what can be said about the files without reading them."""
    skipped = FilesFacts(**dict.fromkeys(FilesFacts.__struct_fields__, NOT_DEEP))
    packages = value_of(conda.packages)
    if prefix is None or packages is None:
        return msgspec.structs.replace(skipped, overlaps=_as_conda(conda))
    found = overlaps_by_name(prefix, packages, _distributions(pip))
    names = Known(value=found, source="conda-meta, *.dist-info")
    return msgspec.structs.replace(skipped, overlaps=names)


def check_deeply(prefix: Path | None) -> AbstractContextManager[FilesOf]:
    """Return the check of every file of every package; it starts when it is entered.

    Raises:
        UsageError: the target is not a conda environment, so there are no records.

    """
    if prefix is None or not is_there(prefix / "conda-meta"):
        message = "--deep compares files with the records of conda, and the target has none."
        raise UsageError(message, next_step="Name a conda environment with -n or -p.")
    return _hashing(prefix)


@contextmanager
def _hashing(prefix: Path) -> Iterator[FilesOf]:
    by_conda = recorded_files(prefix)
    owners = {one.path: one.package for one in by_conda.files}
    by_pip = files_by_pip(prefix, owners)
    failures = (*by_conda.failures, *by_pip.failures)

    def facts(conda: CondaFacts, pip: PipFacts, tell: Tell) -> FilesFacts:
        packages = value_of(conda.packages)
        if packages is None:
            return FilesFacts(**dict.fromkeys(FilesFacts.__struct_fields__, _as_conda(conda)))
        foreign = [_shown(one) for one in foreign_entries(prefix, owners)]
        overlaps = _overlaps(prefix, packages, pip, owners)
        checked = running.result(tell)
        return FilesFacts(
            checked=Known(value=checked.count, source=_SOURCE),
            checked_bytes=Known(value=checked.size_bytes, source=_SOURCE),
            unhashed=Known(value=checked.unhashed, source=_SOURCE),
            problem_count=Known(value=len(checked.found), source=_SOURCE),
            problems=_problems(prefix, failures, checked),
            foreign_count=Known(value=len(foreign), source=_SOURCE),
            foreign=Known(value=tuple(foreign[:MOST_LISTED]), source=_SOURCE),
            overlaps=Known(value=overlaps, source="conda-meta, *.dist-info/RECORD"),
        )

    with closing(RunningCheck(prefix, (*by_conda.files, *by_pip.files))) as running:
        yield facts


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
    prefix: Path, failures: tuple[str, ...], checked: Checked
) -> Observed[tuple[FileProblem, ...]]:
    """Return the problems; where there are none and not everything was read, say so instead."""
    if not checked.found and (unread := (*failures, *checked.unreadable)):
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        return Unreadable(reason=f"{_shown(unread[0])}{more}", source=_SOURCE)
    listed = checked.found[:MOST_LISTED]
    writers = _writers(prefix, {one.file.path for one in listed if _is_over(one)})
    found = tuple(
        FileProblem(
            package=one.file.package,
            path=_shown(one.file.path),
            problem=one.problem,
            written_by=writers.get(one.file.path, "") if _is_over(one) else "",
            by_pip=one.file.by_pip,
        )
        for one in listed
    )
    return Known(value=found, source=_SOURCE)


def _is_over(one: Found) -> bool:
    """Whether a distribution of pip may have written over the file."""
    return one.problem == "altered" and not one.file.by_pip


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

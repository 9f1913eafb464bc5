"""Findings in specs as an outcome: a case a file, a remark a finding at its line."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.model.documents import Lint, UnreadFile
from envkit.render.lint_text import totals
from envkit.render.outcome import Case, Outcome, Place, Remark, by_weight, remark_of
from envkit.render.style import Style


def lint_outcome(document: Lint, files: Sequence[str], *, exit_code: int) -> Outcome:
    """Turn findings into an outcome.

    Args:
        document: what was found.
        files: everything that was looked at.
        exit_code: what the command ends with; with 1, files with what fails it have failed.

    """
    named = tuple(dict.fromkeys(files))
    found = tuple(remark_of(one, Place(file=one.file, line=one.line)) for one in document.findings)
    unread = tuple(_unread(one) for one in document.unread)
    return Outcome(
        command="lint",
        headline=totals(document, len(named), Style()),
        exit_code=exit_code,
        remarks=by_weight((*unread, *found)),
        cases=tuple(_case(name, document, found, exit_code) for name in named),
    )


def _unread(one: UnreadFile) -> Remark:
    return Remark(
        code="unreadable",
        level="error",
        title=one.message,
        lines=(one.next_step,) if one.next_step else (),
        place=Place(file=one.file),
    )


def _case(file: str, document: Lint, found: tuple[Remark, ...], exit_code: int) -> Case:
    for unread in document.unread:
        if unread.file == file:
            return Case(group="lint", name=file, status="unknown", said=unread.message)
    own = [one for one in found if one.place is not None and one.place.file == file]
    levels = {one.level for one in own}
    # Without an error the exit code is 1 only where warnings were asked to fail.
    any_error = any(one.level == "error" for one in found)
    failed = "error" in levels or (exit_code == 1 and not any_error and "warning" in levels)
    return Case(
        group="lint",
        name=file,
        status="failed" if failed else "passed",
        said=f"{len(own)} finding{'' if len(own) == 1 else 's'}" if own else "nothing found",
        lines=tuple(_line(one) for one in own),
    )


def _line(one: Remark) -> str:
    line = one.place.line if one.place is not None else 0
    return f"{line}: {one.level} {one.code} {one.title}; {one.lines[-1]}"

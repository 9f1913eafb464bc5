"""The document of `envkit lock` as an outcome: a case a spec, a remark a reason."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.model.documents import Lock, LockedSpec
from envkit.render.outcome import Case, Outcome, Place, Remark

_WORDS = {
    "locked": "is locked",
    "fresh": "fits its spec",
    "stale": "is stale",
    "unsolvable": "cannot be solved",
}
_CON008 = "https://conda.github.io/conda-lock/"


def lock_outcome(document: Lock, *, exit_code: int) -> Outcome:
    """Turn the document into an outcome."""
    bad = [one for one in document.locks if one.status in {"stale", "unsolvable"}]
    number = len(document.locks)
    specs = f"{number} spec{'' if number == 1 else 's'}"
    worst = ", ".join(f"{one.spec} {_WORDS[one.status]}" for one in bad)
    return Outcome(
        command="lock",
        headline=f"{specs}: {worst or 'every lock fits'}.",
        exit_code=exit_code,
        remarks=tuple(remark for one in bad for remark in _remarks(one)),
        cases=tuple(_case(one) for one in document.locks),
    )


def _remarks(one: LockedSpec) -> Iterator[Remark]:
    code = "CON008" if one.status == "stale" else "unsolvable"
    title = f"The lock of {one.spec} {_WORDS['stale']}"
    if one.status == "unsolvable":
        yield Remark(
            code=code,
            level="error",
            title=f"{one.spec} cannot be solved",
            lines=one.reasons,
            place=Place(file=one.spec_file or one.spec),
        )
        return
    for reason, where in zip(one.reasons, one.places, strict=True):
        yield Remark(
            code=code,
            level="error",
            title=title,
            lines=(reason, f"fix: envkit lock {one.spec}"),
            url=_CON008,
            place=Place(file=where.file, line=where.line),
        )


def _case(one: LockedSpec) -> Case:
    return Case(
        group="lock",
        name=one.spec,
        status="failed" if one.status in {"stale", "unsolvable"} else "passed",
        said=f"{one.file} {_WORDS[one.status]}",
        lines=one.reasons,
    )

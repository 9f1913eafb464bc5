"""A comparison as an outcome: a case a layer, a remark a cause and a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from envkit.model.documents import Cause, Diff, Difference, DiffInput
from envkit.render import diff_words as words
from envkit.render.outcome import Case, Outcome, Place, Remark, by_weight, verdict_case

#: Inputs that have a line for each package.
_WITH_LINES: Final = frozenset({"conda-lock", "explicit-lock", "environment.yml"})
#: Differences that a case lists.
MOST_LINES: Final = 20


def diff_outcome(diff: Diff) -> Outcome:
    """Turn a comparison into an outcome: what is unexpected is a warning, the verdict decides."""
    unexpected = [
        one for one in diff.differences if one.kind == "unexpected" and one.layer != words.MACHINE
    ]
    remarks = (
        *(_cause(one) for one in diff.causes if one.evidence and one.evidence[0].what == "cause"),
        *(_difference(one, diff) for one in unexpected),
    )
    return Outcome(
        command="diff",
        headline=diff.verdict.headline,
        exit_code=diff.verdict.exit_code,
        remarks=by_weight(remarks),
        cases=(*_cases(diff), verdict_case("diff", diff.verdict)),
        untold=tuple(
            f"{name}: {diff.comparable[name].why}"
            for name, agreement in diff.agreement.items()
            if agreement == "not_comparable"
        ),
    )


def _cause(cause: Cause) -> Remark:
    return Remark(
        code=cause.code,
        level="warning",
        title=cause.title,
        lines=tuple(f"{one.what}: {one.seen}" for one in cause.evidence),
    )


def _difference(one: Difference, diff: Diff) -> Remark:
    said = words.line(one)
    part = words.sentence(one)
    return Remark(
        code=one.layer,
        level="warning",
        title=one.key,
        lines=(said, part) if part else (said,),
        place=_place(one, diff) if one.layer == "packages" else None,
    )


def _place(one: Difference, diff: Diff) -> Place | None:
    """Point to the package in the last input that is a file with a line for it."""
    for source, value in reversed(list(zip(diff.inputs, one.values, strict=True))):
        if source.kind in _WITH_LINES and not _is_revision(source, diff):
            platform, _, name = one.key.rpartition("/")
            package = name.removeprefix("pip:") if value is not None else ""
            return Place(file=source.path, package=package, platform=platform)
    return None


def _is_revision(source: DiffInput, diff: Diff) -> bool:
    """Whether an input is an older version of another one: `main:env.yml` beside `env.yml`."""
    return any(source.path.endswith(f":{other.path}") for other in diff.inputs)


def _cases(diff: Diff) -> Iterator[Case]:
    # Which layers had to agree is in the verdict: a layer that may differ has not failed.
    for name, agreement in diff.agreement.items():
        found = words.ordered(diff, name)
        status: Literal["passed", "failed", "skipped"] = "passed"
        if agreement == "not_comparable":
            status = "skipped"
        elif diff.verdict.status == "different" and any(one.kind == "unexpected" for one in found):
            status = "failed"
        yield Case(
            group="diff.layers",
            name=name,
            status=status,
            said=f"{agreement.replace('_', ' ')}: {diff.comparable[name].why}",
            lines=tuple(f"{one.key}: {words.line(one)}" for one in found[:MOST_LINES]),
        )

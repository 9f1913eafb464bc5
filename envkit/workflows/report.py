"""`report`: one machine, two, or a team's folder as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from envkit.compare.comparability import find_ground
from envkit.compare.compare import Comparison, compare_layers
from envkit.compare.find_causes import find_causes
from envkit.compare.sides import Side
from envkit.errors import InputError
from envkit.model import codec
from envkit.model.observed import value_of
from envkit.model.report import Report
from envkit.render.html.differences import answer
from envkit.render.html.machine import render_machine
from envkit.render.html.pair import render_pair
from envkit.render.html.team import Member, Outlier, render_team
from envkit.workflows.diff import DiffRequest, diff
from envkit.workflows.diff_inputs import recognise, reports_in
from envkit.workflows.fingerprint import must_hold
from envkit.workflows.input_bytes import origin_of, read_input
from envkit.workflows.memory_notes import memory_notes
from envkit.workflows.package_rows import package_rows

_NEXT_STEP: Final = (
    "envkit report takes a report (envkit verify -o FILE), a folder of reports, or two inputs and "
    "more, which may be anything that envkit diff compares."
)
_PAIR: Final = 2
_FROM_FACTS: Final = frozenset({"collect_env", "machine"})


def report_page(names: Sequence[str], environ: Mapping[str, str]) -> str:
    """Draw the page of one report, or of the comparison of what is named.

    Raises:
        InputError: an input cannot be read, or one alone is no report.

    """
    alone = _alone(names)
    if alone is None:
        return comparison_page(diff(DiffRequest(inputs=tuple(names)), environ))
    return machine_page(_read_report(alone))


def machine_page(report: Report) -> str:
    """Draw the page of a report."""
    return render_machine(report, package_rows(report.facts))


def comparison_page(comparison: Comparison) -> str:
    """Draw the page of a comparison: of a pair, or of a team."""
    document, notes = comparison.document, memory_notes(comparison.rooms)
    if len(comparison.sides) == _PAIR:
        return render_pair(document, notes, [side.fingerprint for side in comparison.sides])
    reference = _reference(comparison)
    return render_team(
        document,
        notes,
        members=tuple(_members(comparison, reference)),
        outliers=tuple(_outliers(comparison)),
        reference=reference.label,
    )


def _alone(names: Sequence[str]) -> str | None:
    """Return the one input that there is; None for several."""
    if len(names) > 1:
        return None
    path = Path(names[0])
    if names[0] == "-" or not path.is_dir():
        return names[0]
    from envkit.workflows.prefix_side import is_prefix  # noqa: PLC0415 (folders)

    if is_prefix(path):
        message = f"{names[0]} is an environment; a page is made from a report."
        raise InputError(message, next_step=f"envkit verify -p {names[0]} -o report.json")
    files = reports_in(path)
    return str(files[0]) if len(files) == 1 else None


def _read_report(name: str) -> Report:
    origin = origin_of(name)
    content = read_input(name, _NEXT_STEP)
    side = recognise(content, name, label=origin)
    if side.kind != "report":
        message = f"{origin} is a {side.kind}; the page of one machine is made from a report."
        step = f"envkit verify --from {name} -o report.json makes one."
        raise InputError(message, next_step=step if side.kind in _FROM_FACTS else _NEXT_STEP)
    report = codec.decode(content, Report, origin=origin)
    if report.fingerprint is not None:
        must_hold(report.fingerprint)
    return report


def _reference(comparison: Comparison) -> Side:
    first = comparison.document.groups[0][0]
    return next(side for side in comparison.sides if side.label == first)


def _members(comparison: Comparison, reference: Side) -> Iterator[Member]:
    groups = {
        label: number
        for number, members in enumerate(comparison.document.groups, 1)
        for label in members
    }
    for side in comparison.sides:
        layers = compare_layers((reference, side), find_ground((reference, side)))
        fingerprint, facts = side.fingerprint, side.facts
        gpus = value_of(facts.gpus.devices) if facts is not None else None
        named = value_of(gpus[0].name) if gpus else None
        torch = value_of(facts.torch.version) if facts is not None else None
        yield Member(
            label=side.label,
            device=(fingerprint.device if fingerprint is not None else named) or "",
            torch=(fingerprint.key.torch if fingerprint is not None else torch) or "",
            mem=(fingerprint.short.mem if fingerprint is not None else None) or "",
            num=(fingerprint.short.num if fingerprint is not None else None) or "",
            group=groups[side.label],
            answers={n: answer(one.agreement, one.differences) for n, one in layers.items()},
        )


def _outliers(comparison: Comparison) -> Iterator[Outlier]:
    """Yield every group beyond the first; of the first few it is known what sets them apart."""
    explained = {one.other.label: one for one in comparison.contrasts}
    for number, members in enumerate(comparison.document.groups[1:], 2):
        contrast = next((explained[one] for one in members if one in explained), None)
        layers = contrast.layers if contrast is not None else {}
        yield Outlier(
            number=number,
            members=members,
            layers=tuple(n for n, one in layers.items() if one.agreement == "different"),
            causes=() if contrast is None else tuple(one.cause for one in find_causes((contrast,))),
        )

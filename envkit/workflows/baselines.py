"""`verify --against`: measured reports that a machine is held against, as `envkit diff` would."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from envkit.errors import EnvkitError, InputError
from envkit.model.facts import BaselineCause, BaselineComparison, Facts
from envkit.model.fingerprint import Fingerprint
from envkit.model.observed import Known, NotApplicable
from envkit.specs.folders import baselines

if TYPE_CHECKING:  # comparing is not needed by a verify that is held against nothing
    from envkit.compare.sides import Side
    from envkit.workflows.contract import NamedSpec

AGAINST: Final = "--against"
#: Differences that a report keeps of a comparison; `envkit diff` has them all.
MOST_DIFFERENCES: Final = 8
_HERE: Final = "this machine"
_NONE: Final = NotApplicable(reason="no measured report was named")
_STEP: Final = "--against takes a report (envkit verify -o FILE) or the name of a baseline: {}."


class Yardstick(msgspec.Struct, frozen=True, kw_only=True):
    """A measured report that was read, or why it could not be."""

    name: str
    named_by: str
    side: Side | None = None
    failure: str = ""


def names() -> tuple[str, ...]:
    """Return the names of the baselines that come with envkit."""
    return tuple(sorted(path.stem for path in baselines().glob("*.json")))


def find_yardsticks(against: str | None, spec: NamedSpec | None = None) -> tuple[Yardstick, ...]:
    """Read what a machine is to be held against, before minutes of work and not after.

    Args:
        against: a path or a name, as the user gave it.
        spec: the spec that the environment is judged by; its registry may name reports.

    Raises:
        InputError: what the user named is not there or is no measured report.

    """
    found = []
    if against is not None:
        name = Path(against).name  # a folder may be personal, and is of no use elsewhere
        found.append(Yardstick(name=name, named_by=AGAINST, side=_read(against)))
    measured = spec.entry.measured if spec is not None and spec.entry is not None else "none"
    if spec is None or isinstance(measured, str):
        return tuple(found)
    for name in measured:
        named_by = f"spec {spec.reference}"
        try:
            side = msgspec.structs.replace(_read(name), packages=None)  # those are the lock's
            found.append(Yardstick(name=name, named_by=named_by, side=side))
        except EnvkitError as error:
            found.append(Yardstick(name=name, named_by=named_by, failure=error.message))
    return tuple(found)


def hold_against(
    yardsticks: Sequence[Yardstick], facts: Facts, fingerprint: Fingerprint | None, *, whole: bool
) -> Facts:
    """Add to the facts how they and the fingerprint compare with measured reports.

    Args:
        yardsticks: the reports.
        facts: of the machine.
        fingerprint: of the machine, None if nothing was measured.
        whole: whether the facts list every package; a paste lists those that matter to torch.

    """
    compared = tuple(_compare(one, facts, fingerprint, whole=whole) for one in yardsticks)
    known = Known(value=compared, source="reports measured elsewhere") if compared else _NONE
    contract = msgspec.structs.replace(facts.contract, baselines=known)
    return msgspec.structs.replace(facts, contract=contract)


def _read(name: str) -> Side:
    from envkit.workflows.diff_inputs import recognise  # noqa: PLC0415 (see TYPE_CHECKING)
    from envkit.workflows.fingerprint import must_hold  # noqa: PLC0415
    from envkit.workflows.input_bytes import read_input  # noqa: PLC0415

    path = path_of(name)
    step = _STEP.format(", ".join(names()))
    side = recognise(read_input(str(path), step), name, label=path.name)
    if side.fingerprint is None:
        message = f"{name} is no report that was measured: it has no fingerprint."
        raise InputError(message, next_step=step)
    must_hold(side.fingerprint)
    return msgspec.structs.replace(side, label=path.stem)


def path_of(name: str) -> Path:
    """Return the file of a baseline's name, else the name as a path.

    Raises:
        InputError: it is neither.

    """
    known = names()
    if name in known and not Path(name).is_file():
        return baselines() / f"{name}.json"
    if name == "-" or name.endswith(".json") or Path(name).exists() or Path(name).name != name:
        return Path(name)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    message = f"There is no baseline {name!r}, nor a file of that name."
    step = f"Did you mean {near[0]}?" if near else _STEP.format(", ".join(known))
    raise InputError(message, next_step=step)


def _compare(
    one: Yardstick, facts: Facts, fingerprint: Fingerprint | None, *, whole: bool
) -> BaselineComparison:
    if one.side is None:
        return BaselineComparison(
            name=one.name,
            named_by=one.named_by,
            status="incomplete",
            headline=one.failure,
            agreement={},
        )
    from envkit.compare.comparability import find_ground  # noqa: PLC0415
    from envkit.compare.compare import compare  # noqa: PLC0415 (see TYPE_CHECKING)
    from envkit.compare.find_causes import is_claimed  # noqa: PLC0415
    from envkit.compare.gate import choose_gate, judge  # noqa: PLC0415
    from envkit.compare.sides import Side  # noqa: PLC0415
    from envkit.workflows.package_lists import from_facts  # noqa: PLC0415

    packages = None if one.side.packages is None else from_facts(facts, complete=whole)
    here = Side(
        label=_HERE,
        kind="report",
        path="",
        facts=facts,
        fingerprint=fingerprint,
        packages=packages,
    )
    sides = (one.side, here)
    comparison = compare(sides)
    layers = comparison.contrasts[0].layers
    outcome = judge(choose_gate(find_ground(sides), layers, None), layers)
    unexpected = (
        f"{row.layer} {row.key}"
        for row in comparison.document.differences
        if row.kind == "unexpected" and row.layer in outcome.differing
    )
    return BaselineComparison(
        name=one.name,
        named_by=one.named_by,
        status=outcome.status,
        headline=comparison.document.verdict.headline,
        agreement=comparison.document.agreement,
        differing=outcome.differing,
        unchecked=outcome.unchecked,
        differences=_listed(unexpected),
        causes=tuple(
            BaselineCause(code=cause.code, title=cause.title)
            for cause in comparison.document.causes
            if is_claimed(cause)
        ),
    )


def _listed(keys: Iterable[str]) -> tuple[str, ...]:
    found = list(keys)
    more = len(found) - MOST_DIFFERENCES
    return (*found[:MOST_DIFFERENCES], *((f"{more} more",) if more > 0 else ()))

"""The comparison of two or more inputs: layers, differences, causes, groups, verdict."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from envkit.compare.comparability import Ground, find_ground
from envkit.compare.contrast import Contrast
from envkit.compare.facts import compare_software, show_machine
from envkit.compare.find_causes import chief_causes, find_causes
from envkit.compare.fingerprints import compare_fingerprints
from envkit.compare.gate import choose_gate, headline, judge
from envkit.compare.groups import Group, group_fingerprints, group_lists, model_of
from envkit.compare.layer import LayerResult
from envkit.compare.packages import compare_packages
from envkit.compare.peaks import Room, rooms
from envkit.compare.sides import Side
from envkit.model.documents import Diff, DiffInput, DiffVerdict

#: Groups whose difference from the majority is explained; peaks of more machines tell nobody.
MOST_GROUPS = 8
MOST_ROOMS = 8


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison with what a renderer or `--confirm` needs besides the document."""

    document: Diff
    sides: tuple[Side, ...]
    contrasts: tuple[Contrast, ...]
    """The first input against the second, or the majority against each group; then two models of
    the majority, where it has them."""
    rooms: tuple[Room, ...]
    shown: LayerResult
    """Host, driver and GPU, shown only."""


def compare(sides: Sequence[Side], required: Sequence[str] | None = None) -> Comparison:
    """Compare two inputs or more.

    Args:
        sides: the inputs, with labels that are all different.
        required: the layers that must agree; None for the default.

    """
    ground = find_ground(sides)
    results = compare_layers(sides, ground)
    groups = _groups(sides) if len(sides) > 2 else ()  # noqa: PLR2004
    contrasts = _contrasts(sides, results, groups)
    causes = find_causes(contrasts)
    room = rooms(sides) if len(sides) <= MOST_ROOMS else ()
    outcome = judge(choose_gate(ground, results, required), results)
    shown = show_machine(sides)
    document = Diff(
        inputs=tuple(DiffInput(label=s.label, kind=s.kind, path=s.path) for s in sides),
        comparable={name: result.comparable for name, result in results.items()},
        agreement={name: result.agreement for name, result in results.items()},
        differences=tuple(d for r in (*results.values(), shown) for d in r.differences),
        cannot_compare=tuple(c for r in results.values() for c in r.cannot_compare),
        causes=tuple(one.cause for one in causes),
        groups=tuple(tuple(sides[n].label for n in one.members) for one in groups),
        verdict=DiffVerdict(
            status=outcome.status,
            exit_code=outcome.exit_code,
            headline=headline(outcome, results, chief_causes(causes), _extra(groups, room, ground)),
        ),
    )
    return Comparison(
        document=document, sides=tuple(sides), contrasts=contrasts, rooms=room, shown=shown
    )


def compare_layers(sides: Sequence[Side], ground: Ground) -> dict[str, LayerResult]:
    """Compare every layer, in the order in which they are shown."""
    layers = (compare_packages(sides), compare_software(sides), *compare_fingerprints(ground))
    return {result.layer: result for result in layers}


def _groups(sides: Sequence[Side]) -> tuple[Group, ...]:
    """Group by what was measured; by the packages where nothing was."""
    if any(side.fingerprint is not None for side in sides):
        return group_fingerprints(side.fingerprint for side in sides)
    return group_lists([None if one.packages is None else one.packages.listed for one in sides])


def _contrasts(
    sides: Sequence[Side], results: dict[str, LayerResult], groups: Sequence[Group]
) -> tuple[Contrast, ...]:
    if not groups:
        return (Contrast(one=sides[0], other=sides[1], layers=results),)
    models = _first_of_models(sides, groups[0])
    pairs = [_pair(sides, models, one) for one in groups[1 : MOST_GROUPS + 1]]
    first, *others = models.values()
    pairs += [(first, other) for other in others[:1]]
    return tuple(
        Contrast(
            one=sides[one],
            other=sides[other],
            layers=compare_layers(
                (sides[one], sides[other]), find_ground((sides[one], sides[other]))
            ),
        )
        for one, other in pairs
    )


def _first_of_models(sides: Sequence[Side], group: Group) -> dict[object, int]:
    """Return the first machine of each model of hardware in a group, by model."""
    found: dict[object, int] = {}
    for number in group.members:
        found.setdefault(_model(sides[number]), number)
    return found


def _pair(sides: Sequence[Side], majority: dict[object, int], group: Group) -> tuple[int, int]:
    """Choose whom of a group to hold against whom of the majority: of the same model if it can be.

    Then what sets them apart is not the hardware.
    """
    for number in group.members:
        if (model := _model(sides[number])) in majority:
            return majority[model], number
    return next(iter(majority.values())), group.members[0]


def _model(side: Side) -> object:
    return None if side.fingerprint is None else model_of(side.fingerprint)


def _extra(groups: Sequence[Group], room: Sequence[Room], ground: Ground) -> str:
    if groups:
        sizes = [len(one.members) for one in groups]
        total = sum(sizes)
        count = f"{len(groups)} group{'s' if len(groups) > 1 else ''} of {total} machines"
        return f"{count}, {sizes[0]} in the largest" if len(groups) > 1 else f"all {total} agree"
    if not room or ground.same_device:
        return ""
    short = [one for one in room if one.times < 1]
    if short:
        return f"{short[0].label} would run out at the peak of {short[0].of_label}"
    return "every step that was measured fits both" if len(room) == 2 else ""  # noqa: PLR2004

"""`diff --confirm`: the probes that differ, run again here under the other machine's settings.

Nothing that lasts is changed: variables and flags are those of a child that ends. Two runs are
made, one under each side's settings: the control must give this machine's own values, else the
other run proves nothing. Where these set what several causes are about, each is tried by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from envkit.compare.cause import CauseRule
from envkit.compare.causes import BY_CODE
from envkit.compare.compare import Comparison
from envkit.compare.facts import PLACES, variables
from envkit.compare.find_causes import is_claimed
from envkit.compare.peaks import peak_tolerance
from envkit.compare.sides import Side
from envkit.model.counted import counted
from envkit.model.documents import Cause, Difference
from envkit.model.facts import Scalar
from envkit.model.finding import Evidence
from envkit.model.fingerprint import LAYERS, Fingerprint, ProbeResult
from envkit.probes.events import ChildRequest
from envkit.probes.launch import ChildRun, describe

#: Starts a child of the active environment with these variables.
RunChild = Callable[[Path, ChildRequest, Mapping[str, str]], ChildRun]
Build = Callable[[ChildRun], Fingerprint | None]

#: Variables that set the number of CPU threads, for a fingerprint that says how many there were.
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SOURCE: Final = "envkit diff --confirm, on this machine"
#: No cause is tried by itself that would begin later than this after the first of them.
ALONE_S: Final = 300.0

Answer = Literal["confirmed", "refuted", "untold"]


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """How the probes can be run again on this machine."""

    python: Path
    environ: Mapping[str, str]
    run: RunChild
    build: Build
    clock: Callable[[], float] = time.monotonic
    """Seconds."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a side's child was started with, of the things that the causes are about."""

    variables: dict[str, str | None]
    """None: to be unset."""
    flags: dict[str, Scalar]


def confirm(comparison: Comparison, here: Here, *, suite: str | None = None) -> Comparison:
    """Run the probes that differ under both sides' settings and say which causes they confirm."""
    document = comparison.document
    one, other = comparison.sides[0], comparison.sides[1]
    rules = [BY_CODE[cause.code] for cause in document.causes if is_claimed(cause)]
    settable = [rule for rule in rules if _can_be_set(rule, one, other)]
    probes = differing_probes(document.differences, one)
    if not settable or not probes or one.fingerprint is None or other.fingerprint is None:
        return comparison
    name = suite or one.fingerprint.suite.name
    mine, theirs = settings_of(settable, one, other)
    outcomes = [
        _run_again(here, (one, other), mine, (name, probes)),
        _run_again(here, (other, one), theirs, (name, probes)),
    ]
    codes = tuple(rule.code for rule in settable)
    causes = tuple(
        _concluded(cause, outcomes, together=len(codes) > 1) if cause.code in codes else cause
        for cause in document.causes
    )
    if len(codes) > 1 and all(one.answer == "confirmed" for one in outcomes):
        alone = {rule.code: _only(rule, mine, theirs) for rule in settable}
        trials = _try_alone(here, (one, other), alone, (name, probes))
        causes = tuple(
            _by_itself(c, trials[c.code], codes) if c.code in codes else c for c in causes
        )
    return msgspec.structs.replace(
        comparison, document=msgspec.structs.replace(document, causes=causes)
    )


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a run gave in which one cause's settings were the other side's, the rest our own."""

    moved: bool
    """Whether it gave the other side's values in probes at all."""
    seen: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run under one side's settings gave, against that side's own values."""

    label: str
    answer: Answer
    reason: str


def differing_probes(differences: Sequence[Difference], side: Side) -> tuple[str, ...]:
    """Return the names of the probes that differ, of layers that settings can move."""
    if side.fingerprint is None:
        return ()
    found = set()
    for layer in LAYERS:
        names = getattr(side.fingerprint.layers, layer)
        keys = [d.key for d in differences if d.layer == layer]
        found |= {name for name in names for key in keys if (key + ".").startswith(name + ".")}
    # Not the user's own step either: its code may not be here.
    return tuple(sorted(name for name in found if not name.startswith(("context.", "call."))))


def settings_of(rules: Sequence[CauseRule], one: Side, other: Side) -> tuple[Settings, Settings]:
    """Return what each side is run with: its variables, and the flags that are not the same.

    Variables are all that either side recorded (but those that say where things lie), so that a
    run is under that side's settings and not under those of this shell.
    """
    named = {name for rule in rules for name in (*rule.variables, *_threads(rule))}
    recorded = {*(variables(one) or {}), *(variables(other) or {})} - PLACES
    names = sorted(named | recorded)
    flags = [name for name in _flags_of(rules) if _flag(one, name) != _flag(other, name)]
    mine, theirs = (_settings(side, names, flags) for side in (one, other))
    return mine, theirs


def _flags_of(rules: Sequence[CauseRule]) -> list[str]:
    return sorted({name for rule in rules for name in rule.flags})


def _flag(side: Side, name: str) -> Scalar | None:
    return None if side.fingerprint is None else side.fingerprint.key.flags.get(name)


def _threads(rule: CauseRule) -> tuple[str, ...]:
    return _THREADS if "threads" in rule.key else ()


def _settings(side: Side, names: Sequence[str], flags: Sequence[str]) -> Settings:
    recorded = variables(side) or {}
    found: dict[str, str | None] = {name: recorded.get(name) for name in names}
    fingerprint = side.fingerprint
    if fingerprint is not None and _THREADS[0] in found:
        found.update(dict.fromkeys(_THREADS, str(fingerprint.key.threads)))
    known = fingerprint.key.flags if fingerprint is not None else {}
    return Settings(variables=found, flags={n: known[n] for n in flags if n in known})


def _can_be_set(rule: CauseRule, one: Side, other: Side) -> bool:
    """Whether a child can be given what differs: variables or flags, not another GPU or torch."""
    names = [*rule.variables, *_threads(rule)]
    mine, theirs = (_settings(side, names, rule.flags) for side in (one, other))
    return mine != theirs


def _run_again(
    here: Here, sides: tuple[Side, Side], settings: Settings, what: tuple[str, tuple[str, ...]]
) -> Outcome:
    """Run under the settings of the first of the sides."""
    side = sides[0]
    fingerprint, others = (one.fingerprint for one in sides)
    assert fingerprint is not None and others is not None  # noqa: S101, PT018  (only such get here)
    found = _measured(here, fingerprint, settings, what)
    if isinstance(found, str):
        return Outcome(label=side.label, answer="untold", reason=found)
    return _held_against(found, (fingerprint, others), what[1], (side.label, sides[1].label))


def _try_alone(
    here: Here,
    sides: tuple[Side, Side],
    settings: Mapping[str, Settings],
    what: tuple[str, tuple[str, ...]],
) -> dict[str, Trial]:
    """Run once for each cause, under the settings that stand by its code; so do the trials.

    What the time does not allow is told as such.
    """
    began = here.clock()
    found = {}
    for code, one in settings.items():
        if here.clock() - began < ALONE_S:
            found[code] = _alone(here, sides, one, what)
        else:
            found[code] = Trial(moved=False, seen="not tried: the time was over")
    return found


def _only(rule: CauseRule, mine: Settings, theirs: Settings) -> Settings:
    """Return our settings with the other side's for what one cause is about."""
    names = {*rule.variables, *_threads(rule)}
    variables = {n: v for n, v in theirs.variables.items() if n in names}
    flags = {n: v for n, v in theirs.flags.items() if n in rule.flags}
    return Settings(variables={**mine.variables, **variables}, flags={**mine.flags, **flags})


def _alone(
    here: Here, sides: tuple[Side, Side], settings: Settings, what: tuple[str, tuple[str, ...]]
) -> Trial:
    ours, theirs = (one.fingerprint for one in sides)
    assert ours is not None and theirs is not None  # noqa: S101, PT018  (only such get here)
    found = _measured(here, ours, settings, what)
    if isinstance(found, str):
        return Trial(moved=False, seen=found)
    probes = what[1]
    # A peak within the tolerance is like both; it has not moved.
    moved = set(_unlike(found, ours, probes)) - set(_unlike(found, theirs, probes))
    share = f"{len(moved) or 'none'} of {counted(len(probes), 'probe')}"
    seen = f"{share} gave {sides[1].label}'s values"
    return Trial(moved=bool(moved), seen=seen)


def _measured(
    here: Here, fingerprint: Fingerprint, settings: Settings, what: tuple[str, tuple[str, ...]]
) -> Fingerprint | str:
    """Run the probes under settings on what a fingerprint was measured on; a string is why not."""
    suite, probes = what
    environ = {k: v for k, v in here.environ.items() if k not in settings.variables}
    environ.update({k: v for k, v in settings.variables.items() if v is not None})
    request = ChildRequest(
        tasks=("facts", "fingerprint"),
        device="auto" if fingerprint.key.capability is not None else "cpu",
        suite=suite,
        flags=settings.flags,
        challenge=fingerprint.challenge,
        probes=probes,
    )
    run = here.run(here.python, request, environ)
    found = here.build(run)
    return describe(run) if found is None else _another_machine(found, fingerprint) or found


def _another_machine(found: Fingerprint, recorded: Fingerprint) -> str:
    """Name what this machine cannot take on: another GPU, torch or suite."""
    for part in ("torch", "capability", "sm_count", "cudnn"):
        here, there = getattr(found.key, part), getattr(recorded.key, part)
        if here != there:
            return f"this machine has {part} {here}, not {there}"
    if found.suite != recorded.suite:
        return "the suite here is another version"
    return ""


def _held_against(
    found: Fingerprint,
    recorded: tuple[Fingerprint, Fingerprint],
    probes: Sequence[str],
    labels: tuple[str, str],
) -> Outcome:
    """Say whether a run gave the values of the side whose settings it had.

    It speaks against the cause only where a probe stayed with the other side's values. Values of
    neither side tell nothing: cuDNN's trial, for one, may choose another algorithm every time.
    """
    own, others = labels
    unlike = _unlike(found, recorded[0], probes)
    if not unlike:
        reason = f"{len(probes)} of {counted(len(probes), 'probe')} gave {own}'s values"
        return Outcome(label=own, answer="confirmed", reason=reason)
    of_neither = _unlike(found, recorded[1], unlike)
    said = f"{len(unlike)} of {counted(len(probes), 'probe')} gave other values than {own}'s"
    stayed = [name for name in unlike if name not in of_neither]
    if stayed:
        said += f", {len(stayed)} of them {others}'s, first {stayed[0]}"
        return Outcome(label=own, answer="refuted", reason=said)
    said += f" and {others}'s, first {unlike[0]}"
    return Outcome(label=own, answer="untold", reason=said)


def _unlike(found: Fingerprint, recorded: Fingerprint, probes: Sequence[str]) -> list[str]:
    unlike = []
    for layer in LAYERS:
        theirs: dict[str, ProbeResult] = getattr(recorded.layers, layer)
        mine: dict[str, ProbeResult] = getattr(found.layers, layer)
        unlike += [
            name
            for name in probes
            if name in theirs and not _alike(layer, mine.get(name), theirs[name])
        ]
    return unlike


def _alike(layer: str, mine: ProbeResult | None, theirs: ProbeResult) -> bool:
    if mine is None or mine.values is None or theirs.values is None:
        return False
    if layer != "peaks":
        return mine.values == theirs.values
    names = {*mine.values, *theirs.values}
    return all(
        _near(mine.values.get(name), value, tolerance=peak_tolerance(name, names))
        for name, value in theirs.values.items()
    )


def _near(mine: object, theirs: object, *, tolerance: int) -> bool:
    """Whether two figures of a peak are alike; one that could not be had is like its own kind."""
    if not isinstance(mine, int) or not isinstance(theirs, int):
        return mine == theirs
    return abs(mine - theirs) <= tolerance


def _concluded(cause: Cause, outcomes: Sequence[Outcome], *, together: bool) -> Cause:
    """Say what the two runs mean for a cause."""
    control, changed = outcomes
    evidence = [
        Evidence(what=f"run here under {o.label}'s settings", seen=o.reason, source=_SOURCE)
        for o in outcomes
    ]
    if together:
        seen = "the settings of several causes were set together"
        evidence.append(Evidence(what="note", seen=seen, source=_SOURCE))
    answers = {control.answer, changed.answer}
    confirmed = None if "untold" in answers else answers == {"confirmed"}
    return msgspec.structs.replace(
        cause, confirmed=confirmed, evidence=(*cause.evidence, *evidence)
    )


def _by_itself(cause: Cause, trial: Trial, codes: Sequence[str]) -> Cause:
    """Leave a cause confirmed if it moved probes by itself; else only together with the others."""
    evidence = Evidence(
        what="run here with this cause's settings alone", seen=trial.seen, source=_SOURCE
    )
    others = () if trial.moved else tuple(code for code in codes if code != cause.code)
    return msgspec.structs.replace(
        cause,
        confirmed=True if trial.moved else None,
        together_with=others,
        evidence=(*cause.evidence, evidence),
    )

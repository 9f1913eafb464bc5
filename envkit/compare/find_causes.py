"""Which causes explain what moved: claimed where pattern and record agree, else candidates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from envkit.compare.cause import CauseRule
from envkit.compare.causes import CAUSES
from envkit.compare.contrast import Contrast
from envkit.compare.layer import ORDER
from envkit.model.documents import Cause
from envkit.model.finding import Evidence

#: First piece of evidence of a cause: how sure it is.
CLAIMED, CANDIDATE = "cause", "candidate"
#: Causes that nothing recorded speaks for, named where nothing else explains a layer.
MOST_UNRECORDED = 4


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A cause held against what moved."""

    rule: CauseRule
    recorded: tuple[Evidence, ...]
    explains: frozenset[str]
    """Layers that moved, that it can move, and in which the pattern fits."""

    @property
    def claimed(self) -> bool:
        """Whether a recorded difference and the pattern agree."""
        return bool(self.recorded and self.explains)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of one comparison or of several, and the layers that it explains."""

    cause: Cause
    explains: frozenset[str] = frozenset()
    """Empty for a candidate."""
    unexpected: frozenset[str] = frozenset()
    """Of these, layers that hardware and driver alone do not explain: they decide."""

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The order of causes: what explains most of what nobody expects comes first."""
        return (not is_claimed(self.cause), -len(self.unexpected), -len(self.explains))


def find_causes(contrasts: Iterable[Contrast]) -> tuple[Found, ...]:
    """Return the causes of all contrasts, each once; the one that explains most first."""
    merged: dict[str, Found] = {}
    for contrast in contrasts:
        for one in _find(contrast):
            other = merged.get(one.cause.code)
            merged[one.cause.code] = one if other is None else _joined(other, one)
    return tuple(sorted(merged.values(), key=lambda one: one.rank))


def _joined(one: Found, other: Found) -> Found:
    first = one if is_claimed(one.cause) or not is_claimed(other.cause) else other
    return Found(
        cause=first.cause,
        explains=one.explains | other.explains,
        unexpected=one.unexpected | other.unexpected,
    )


def chief_causes(found: Iterable[Found]) -> tuple[Cause, ...]:
    """Return the first cause that is claimed, and the next that explains what it does not."""
    claimed = [one for one in found if is_claimed(one.cause)]
    more = (one for one in claimed[1:] if one.explains - claimed[0].explains)
    return tuple(one.cause for one in (*claimed[:1], *islice(more, 1)))


def _find(contrast: Contrast) -> Iterator[Found]:
    judged = [_judge(rule, contrast) for rule in CAUSES]
    claimed = [j for j in judged if j.claimed]
    explained = frozenset().union(*(j.explains for j in claimed))
    open_layers = (contrast.moved | _lost(contrast)) - explained - {"software"}
    for one in claimed:
        unexpected = one.explains & (contrast.unexpected | _lost(contrast))
        yield Found(cause=_claim(one, contrast), explains=one.explains, unexpected=unexpected)
    for one in judged:
        if one.recorded and not one.claimed:
            yield Found(cause=_candidate(one, _why_not(one.rule, contrast)))
    unrecorded = [
        j for j in judged if not j.recorded and j.explains & open_layers and contrast.measured
    ]
    for one in unrecorded[:MOST_UNRECORDED]:
        why = f"could move {_listed(one.explains & open_layers)}; nothing is recorded"
        yield Found(cause=_candidate(one, why))


def is_claimed(cause: Cause) -> bool:
    """Whether a cause is claimed; otherwise it is a candidate."""
    return bool(cause.evidence) and cause.evidence[0].what == CLAIMED


def _judge(rule: CauseRule, contrast: Contrast) -> Judged:
    recorded = tuple(rule.recorded(contrast))
    layers = rule.moves & (contrast.moved | _lost_to(rule, contrast))
    fitting = frozenset(layer for layer in layers if _fits(rule, layer, contrast))
    return Judged(rule=rule, recorded=recorded, explains=fitting)


def _lost_to(rule: CauseRule, contrast: Contrast) -> frozenset[str]:
    """Another allocator shows itself by exercises that give no value."""
    return _lost(contrast) if rule.code == "CAU011" else frozenset()


def _lost(contrast: Contrast) -> frozenset[str]:
    return contrast.lost & {"allocator"}


def _fits(rule: CauseRule, layer: str, contrast: Contrast) -> bool:
    if layer != "numerics" or not rule.numerics:
        return True
    pattern = re.compile(rule.numerics)
    return any(pattern.match(one.key) for one in contrast.differences("numerics"))


def _claim(judged: Judged, contrast: Contrast) -> Cause:
    rule = judged.rule
    seen = f"{_listed(judged.explains)} moved, as it can"
    unmeasured = judged.explains - rule.measured - {"packages"}
    if unmeasured and rule.measured:
        seen += f" ({_listed(unmeasured)}: from sources, not measured)"
    evidence = [Evidence(what=CLAIMED, seen=seen, source=rule.known_from), *judged.recorded]
    proved = rule.proof(contrast) if rule.proof is not None else None
    if proved is not None:
        evidence.append(proved)
    return _cause(rule, evidence)


def _candidate(judged: Judged, why: str) -> Cause:
    first = Evidence(what=CANDIDATE, seen=why, source=judged.rule.known_from)
    return _cause(judged.rule, [first, *judged.recorded])


def _why_not(rule: CauseRule, contrast: Contrast) -> str:
    if not contrast.measured:
        return "recorded otherwise; without two fingerprints its effect is not known"
    could = [contrast.layers[name] for name in rule.moves if name in contrast.layers]
    if all(layer.agreement == "not_comparable" for layer in could):
        return "recorded otherwise; nothing that it can move could be compared"
    if not contrast.moved - {"software", "packages"}:
        return "recorded otherwise, and nothing that was measured moved"
    return "recorded otherwise, but what moved is not what it moves"


def _cause(rule: CauseRule, evidence: list[Evidence]) -> Cause:
    return Cause(code=rule.code, title=rule.title, evidence=tuple(evidence), confirmed=None)


def _listed(layers: Iterable[str]) -> str:
    named = [layer for layer in ORDER if layer in set(layers)]
    return ", ".join(named)

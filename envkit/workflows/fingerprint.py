"""From what a child measured to a fingerprint: layers, conformity to the model, digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from envkit.allocator import MODEL_VERSION
from envkit.errors import InputError
from envkit.model.codec import digest
from envkit.model.fingerprint import (
    DIGEST_LAYERS,
    LAYERS,
    Fingerprint,
    Key,
    Layer,
    Layers,
    ProbeResult,
    Short,
    Suite,
    shortened,
)
from envkit.model.observed import Known, NotApplicable, Observed, Unreadable
from envkit.probes.bounds import MAX_NAME_CHARS, why_unbearable
from envkit.probes.child import challenge as challenged
from envkit.probes.child.exercises.catalogue import EXERCISES
from envkit.probes.child.membership import EXERCISE, OWN_STEP, SUITES, call_probes
from envkit.probes.child.membership import Probe as Member
from envkit.probes.events import Probe, SuiteStart
from envkit.probes.launch import ChildRun
from envkit.workflows.child_answer import probes_problem
from envkit.workflows.conformity import (
    MODEL_MEMORY_BYTES,
    Conformity,
    check_exercise,
    model_exercise,
)
from envkit.workflows.peak_replay import replay_peaks

#: Most that the probes of a report may take: it must stay one that can be read again.
MAX_VALUES_BYTES: Final = 8 << 20
MAX_CONFOUND_BYTES: Final = 1 << 12
#: Families whose peaks a replay from nothing cannot give: a user's own step may hold memory from
#: before, a captured graph has a pool of its own, which the recording does not tell, and ranks have
#: an allocator each.
_NOT_REPLAYED: Final = frozenset({"call", "graphs", "sharded"})
#: Layers of the short memory digest.
MEMORY_LAYERS: Final[tuple[Layer, ...]] = ("allocator", "tensors", "workspaces")


def build_fingerprint(
    run: ChildRun, *, challenge: str | None, processor: str | None
) -> Fingerprint | None:
    """Put a child's probes together; None when no suite of ours began or torch is damaged.

    Args:
        run: a child that was asked for a fingerprint.
        challenge: the nonce it was seeded with.
        processor: name of the processor, for a fingerprint of the CPU.

    """
    if run.suite is None or run.key is None or run.suite.name not in SUITES:
        return None
    if why_unbearable(run.suite.version):
        return None
    key = read_key(run.key)
    if key is None:
        return None
    said = [*run.probes, *_unreported(run, run.suite, key, challenge)]
    if key.capability is None:
        said = [_for_the_model(probe, run.suite.seed) for probe in said]
    found = assemble(
        said,
        key,
        Suite(name=run.suite.name, version=run.suite.version),
        device=_gpu_name(run) or processor or "unknown",
        challenge=challenge,
    )
    context = found.layers.context | _confounds(run)
    return msgspec.structs.replace(
        found, layers=msgspec.structs.replace(found.layers, context=context)
    )


def assemble(
    said: Iterable[Probe], key: Key, suite: Suite, *, device: str, challenge: str | None = None
) -> Fingerprint:
    """Put probes together: judge the exercises, add the digests of probes and of layers."""
    probes = sorted(_bearable(said), key=lambda one: one.name)
    total_bytes = _total_bytes(probes)
    results = {
        probe.name: msgspec.structs.replace(
            _result(probe, key, total_bytes), optional=probe.optional
        )
        for probe in probes
    }
    layers = {
        layer: {probe.name: results[probe.name] for probe in probes if probe.layer == layer}
        for layer in LAYERS
    }
    digests = _digests(probes, results)
    return Fingerprint(
        suite=suite,
        key=key,
        challenge=challenge,
        device=device,
        layers=Layers(**layers),
        digests=digests,
        short=_short(digests),
    )


def conformity_of(fingerprint: Fingerprint) -> Observed[bool]:
    """Say whether what was measured is what the model says: exercises, and replayed peaks.

    One that differs is enough for no; an exercise that could not be compared, with none that
    differs, is unreadable.
    """
    source = f"allocator exercises and peaks against envkit's model, version {MODEL_VERSION}"
    measured = [p for p in fingerprint.layers.allocator.values() if not p.modelled and p.values]
    answers = [result.conforms for result in measured]
    if False in {*answers, *(result.conforms for result in fingerprint.layers.peaks.values())}:
        return Known(value=False, source=source)
    if not measured:
        return NotApplicable(reason="no exercise was measured", source=source)
    if None in answers:
        reason = next(result.reason for result in measured if result.conforms is None)
        return Unreadable(reason=reason, source=source)
    return Known(value=True, source=source)


def must_hold(fingerprint: Fingerprint) -> None:
    """Check that the digests of a recorded fingerprint are those of its values.

    Raises:
        InputError: one is not.

    """
    where = next(_changes(fingerprint), None)
    if where is not None:
        message = (
            f"The fingerprint does not hold: the digest at $.fingerprint.{where} is not that of "
            "the values."
        )
        next_step = "Ask for the report again; it was changed after it was written."
        raise InputError(message, next_step=next_step)


def _changes(fingerprint: Fingerprint) -> Iterator[str]:
    layers: dict[str, dict[str, ProbeResult]] = {
        layer: getattr(fingerprint.layers, layer) for layer in LAYERS
    }
    for layer, results in layers.items():
        for name, result in results.items():
            if result.digest is not None and digest(result.values) != result.digest:
                yield f"{layer}.{name}"
    for layer, found in fingerprint.digests.items():
        members = layers.get(layer, {}).items()
        known = {n: r.digest for n, r in members if r.digest and not r.optional}
        if not known or digest(known) != found:
            yield f"digests.{layer}"
    if fingerprint.short != _short(fingerprint.digests):
        yield "short"


def _unreported(run: ChildRun, suite: SuiteStart, key: Key, challenge: str | None) -> list[Probe]:
    """Return as failed the probes that a child promised and, having ended early, never reported.

    Left out, they would be no lack, and a layer would get a digest over the others.
    """
    missing = {*suite.probes} - {probe.name for probe in run.probes}
    kind = "cpu" if key.capability is None else "cuda"
    reason = probes_problem(run) or "the child did not tell"
    return [
        Probe(
            name=member.name,
            layer=msgspec.convert(member.layer, Layer),
            status="failed",
            reason=f"not reported: {reason}",
            family=member.family,
            must_repeat=member.must_repeat,
            depends_on=member.depends_on,
            optional=member.optional,
        )
        for member in _members(suite, kind, challenge)
        if member.name in missing
    ]


def _for_the_model(probe: Probe, seed: int) -> Probe:
    """Return an exercise of the CPU as one that the model answers, whatever ended its child.

    There it is never carried out, so a child that ran out of time takes nothing away.
    """
    operations = EXERCISES.get(probe.name.removeprefix(EXERCISE))
    if probe.status != "failed" or probe.layer != "allocator" or operations is None:
        return probe
    return msgspec.structs.replace(probe, status="not_run", reason="", operations=operations(seed))


def _members(suite: SuiteStart, kind: str, challenge: str | None) -> Iterator[Member]:
    yield from SUITES[suite.name].probes[kind]
    yield from challenged.probes(challenge, kind)
    yield from _own_steps(kind, suite.probes)


def _own_steps(kind: str, names: Iterable[str]) -> Iterator[Member]:
    """Return the probes of the user's own steps among some names."""
    own = [name.removeprefix(OWN_STEP) for name in names if name.startswith(OWN_STEP)]
    for target in sorted({name.rpartition(".")[0] for name in own}):
        yield from call_probes(kind, target)


def _bearable(probes: Iterable[Probe]) -> Iterator[Probe]:
    """Return the probes that a report has room for; every further one has failed."""
    room_bytes = MAX_VALUES_BYTES
    for probe in probes:
        if why_unbearable(probe.values) or why_unbearable(probe.spread):
            yield probe  # it is refused for that
            continue
        room_bytes -= _written_bytes([probe.values, probe.spread])
        if room_bytes >= 0:
            yield probe
            continue
        reason = f"all probes together gave more than {MAX_VALUES_BYTES} bytes"
        changes = {"values": None, "spread": None, "operations": None}
        yield msgspec.structs.replace(probe, status="failed", reason=reason, **changes)


def _written_bytes(value: Any) -> int:
    # As it will be written: with a line and its indent for every value.
    return len(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _confounds(run: ChildRun) -> dict[str, ProbeResult]:
    """Return what may have disturbed the probes, as context: shown, in no digest."""
    return {
        f"confound.{seen.name}": ProbeResult(
            status="exact", values=seen.values or {}, digest=None, reason=seen.reason
        )
        for seen in run.confounds
        if not why_unbearable(seen.values) and _written_bytes(seen.values) <= MAX_CONFOUND_BYTES
    }


def read_key(values: Mapping[str, Any]) -> Key | None:
    """Take the child's key; None where torch could not even tell its version and threads.

    Another part that could not be read is null or empty, and says so in the facts; a comparison
    takes it for unknown, never for equal.
    """
    plain = {name: None if _stateful(value) else value for name, value in values.items()}
    flags = plain.get("flags") or {}
    if not isinstance(flags, dict) or why_unbearable(plain):
        return None
    whole = {
        **plain,
        "settings": plain.get("settings") or {},
        "flags": {name: value for name, value in flags.items() if not _stateful(value)},
        "model_version": MODEL_VERSION,
    }
    try:
        return msgspec.convert(whole, Key)
    except msgspec.ValidationError:
        return None


def _stateful(value: Any) -> bool:
    return isinstance(value, dict) and bool(
        value.keys() & {"unreadable", "absent", "not_applicable"}
    )


def _total_bytes(probes: Iterable[Probe]) -> int:
    """Return the memory of the device; some size, where nobody said it, that no probe fills."""
    told = (
        place.get(name)
        for probe in probes
        for place, name in (
            (probe.observed or {}, "total_memory_bytes"),
            (probe.values or {}, "torch_total_bytes"),
        )
    )
    return next((n for n in told if type(n) is int and 0 < n < 1 << 60), MODEL_MEMORY_BYTES)


def _result(probe: Probe, key: Key, total_bytes: int) -> ProbeResult:
    in_digest = probe.layer in DIGEST_LAYERS
    problem = why_unbearable(probe.values, for_digest=in_digest) or why_unbearable(probe.spread)
    if problem:
        reason = f"what was measured cannot be kept: {problem}"
        return ProbeResult(status="failed", values=None, digest=None, reason=reason)
    if probe.layer == "allocator" and probe.operations is not None:
        return _exercise(probe, key)
    if probe.layer == "peaks" and key.capability is not None:
        return _peaks(probe, key, total_bytes)
    return _plain(probe, probe.reason)


def _plain(probe: Probe, reason: str) -> ProbeResult:
    if probe.status == "unstable":
        return ProbeResult(
            status="unstable",
            values={"spread": probe.spread},
            digest=None,
            reason="; ".join(filter(None, ("repeated runs in one process differ", reason))),
        )
    counts = probe.status == "exact" and probe.must_repeat and probe.layer in DIGEST_LAYERS
    if probe.status == "exact" and not probe.must_repeat and probe.layer in DIGEST_LAYERS:
        reason = reason or "need not repeat on this kind of device: in no digest"
    return ProbeResult(
        status=probe.status,
        values=probe.values,
        digest=digest(probe.values) if counts else None,
        reason=reason,
    )


def _exercise(probe: Probe, key: Key) -> ProbeResult:
    operations = probe.operations or []
    if probe.status == "not_run" and key.capability is None:
        return _modelled(probe, operations, key)
    if probe.status != "exact":
        return _plain(probe, probe.reason)
    answer = check_exercise(operations, probe.values or {}, probe.observed or {}, key)
    plain = _plain(probe, answer.reason)
    return msgspec.structs.replace(plain, conforms=answer.conforms)


def _peaks(probe: Probe, key: Key, total_bytes: int) -> ProbeResult:
    """Add the model's replay of the run whose peaks and requests were kept."""
    plain = _plain(probe, probe.reason)
    if probe.values is None or probe.status not in {"exact", "unstable"}:
        return plain
    if probe.family in _NOT_REPLAYED:
        return plain
    answer = replay_peaks(probe.values, probe.observed, key, total_bytes)
    reason = "; ".join(filter(None, (plain.reason, answer.reason)))
    return msgspec.structs.replace(
        plain, conforms=answer.conforms, replay=answer.replay, reason=reason
    )


def _modelled(probe: Probe, operations: list[list[Any]], key: Key) -> ProbeResult:
    answer: Conformity | dict[str, Any] = model_exercise(operations, key)
    if isinstance(answer, Conformity):
        return _plain(probe, answer.reason)
    return ProbeResult(
        status="exact",
        values=answer,
        digest=digest(answer),
        reason="answered by the model, nothing was measured",
        modelled=True,
    )


def _digests(probes: Iterable[Probe], results: Mapping[str, ProbeResult]) -> dict[str, str]:
    """Return the digests of the layers whose whole fixed probe list was measured and exact."""
    found: dict[str, str] = {}
    for layer in DIGEST_LAYERS:
        of_layer = (p for p in probes if p.layer == layer and not p.optional)
        names = sorted(probe.name for probe in of_layer if probe.must_repeat)
        complete = [results[name] for name in names]
        if names and all(result.digest and not result.modelled for result in complete):
            found[layer] = digest({name: results[name].digest for name in names})
    return found


def _short(digests: Mapping[str, str]) -> Short:
    memory = [digests[layer] for layer in MEMORY_LAYERS if layer in digests]
    whole = len(memory) == len(MEMORY_LAYERS)
    numerics = digests.get("numerics")
    return Short(
        mem=shortened(digest(memory)) if whole else None,
        num=shortened(numerics) if numerics else None,
    )


def _gpu_name(run: ChildRun) -> str | None:
    """Return the name of the GPU that the probes ran on; None for the CPU."""
    kind, _, index = str((run.key or {}).get("device")).partition(":")
    cards = run.facts.get("torch", {}).get("devices")
    if kind != "cuda" or not isinstance(cards, list):
        return None
    named = (card for card in cards if isinstance(card, dict))
    names = [card.get("name") for card in named if str(card.get("index")) == (index or "0")]
    return names[0][:MAX_NAME_CHARS] if names and isinstance(names[0], str) else None

"""A fingerprint as rows: one a layer, and the two short digests that people read to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.model.fingerprint import (
    DIGEST_LAYERS,
    LAYERS,
    Fingerprint,
    PeakReplay,
    ProbeResult,
    shortened,
)

MOST_NAMES: Final = 4


def title(fingerprint: Fingerprint) -> str:
    """Say which suite ran where; on the CPU its numbers depend on the threads, so they are said."""
    suite, key = fingerprint.suite, fingerprint.key
    said = f"Fingerprint {suite.name}/{suite.version} on {fingerprint.device}"
    if key.capability is not None:
        return said
    return f"{said}, {key.threads} thread{'' if key.threads == 1 else 's'}"


def short_said(mem: str | None, num: str | None) -> str:
    """Say the short digests, in the same words wherever two people may compare them."""
    return f"mem {mem or 'none'}, num {num or 'none'}"


def rows(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Return the short digests and what became of every layer."""
    yield "short", short_said(fingerprint.short.mem, fingerprint.short.num)
    for layer, said in layers(fingerprint):
        probes: dict[str, ProbeResult] = getattr(fingerprint.layers, layer)
        digest = fingerprint.digests.get(layer)
        if layer in DIGEST_LAYERS and not all(one.modelled for one in probes.values()):
            yield layer, f"{said}, {'no digest' if digest is None else shortened(digest)}"
        else:
            yield layer, said
    yield from _left_behind(fingerprint)
    yield from _not_compared(fingerprint)


def layers(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Return the layers that have probes, and what became of these."""
    for layer in LAYERS:
        probes: dict[str, ProbeResult] = getattr(fingerprint.layers, layer)
        if probes:
            said = _layer(probes)
            said += _replays(probes) if layer == "peaks" else _conformity(probes)
            yield layer, ", ".join(said)


def _left_behind(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Say of the user's own step what every call of it leaves behind."""
    for name, probe in fingerprint.layers.tensors.items():
        left = (probe.values or {}).get("left_bytes")
        if name.startswith("call.") and name.endswith(".left") and isinstance(left, int):
            step = name.removeprefix("call.").removesuffix(".left")
            yield "your step", f"{step} leaves {left:,} B of tensors behind at every call"


def _not_compared(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Say of the user's own step what of it is compared with nothing, and why."""
    why: dict[tuple[str, str], list[str]] = {}
    for layer in LAYERS:
        for name, probe in getattr(fingerprint.layers, layer).items():
            step, _, part = name.removeprefix("call.").rpartition(".")
            if not name.startswith("call.") or not probe.reason:
                continue
            if probe.status == "not_run":
                why.setdefault((step, probe.reason), []).append(part)
            elif part == "outputs" and "not compared: " in probe.reason:
                why.setdefault((step, probe.reason), [])
    for (step, reason), parts in why.items():
        not_run = f"{', '.join(parts)} not run: " if parts else ""
        yield "your step", f"{step}: {not_run}{reason}"


def _layer(probes: dict[str, ProbeResult]) -> list[str]:
    measured = {name: one for name, one in probes.items() if not one.modelled}
    said = []
    for status in ("exact", "unstable", "failed", "not_run"):
        names = sorted(name for name, probe in measured.items() if probe.status == status)
        if names:
            words = f"{len(names)} {status.replace('_', ' ')}"
            said.append(words if status == "exact" else f"{words} ({_listed(names)})")
    if len(measured) < len(probes):
        said.append(f"{len(probes) - len(measured)} from the model, not measured")
    return said


def _conformity(probes: dict[str, ProbeResult]) -> list[str]:
    compared = [one.conforms for one in probes.values() if one.conforms is not None]
    return [f"{sum(compared)} of {len(compared)} as the model has it"] if compared else []


def _replays(probes: dict[str, ProbeResult]) -> list[str]:
    """Say whether the model's replay gives the peaks, and what addresses have moved in them."""
    compared = {name: one for name, one in probes.items() if one.conforms is not None}
    if not compared:
        return []
    unlike = sorted(name for name, one in compared.items() if not one.conforms)
    said = [f"replay differs in {_listed(unlike)}" if unlike else "replay equal"]
    moved = [_moved(name, one.replay) for name, one in sorted(compared.items()) if one.replay]
    lucky = [text for text in moved if text]
    if lucky:
        more = f" and {len(lucky) - 1} more" if len(lucky) > 1 else ""
        said.append(f"{lucky[0]}{more}: of equally large free blocks the lowest is taken")
    return said


def _moved(name: str, replay: PeakReplay) -> str:
    """Say how far a peak is from that of canonical addresses; empty where it is the same."""
    mine, other = replay.observed, replay.canonical
    count = mine.get("segments", 0) - other.get("segments", 0)
    size_mib = (mine.get("reserved_bytes", 0) - other.get("reserved_bytes", 0)) / (1 << 20)
    if not count and not size_mib:
        return ""
    segments = f"{count:+d} segment{'' if abs(count) == 1 else 's'}"
    return f"{name} {segments} and {size_mib:+.0f} MiB by addresses"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" ..." if len(names) > MOST_NAMES else "")

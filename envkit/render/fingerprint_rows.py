"""A fingerprint as rows: one a layer, and the two short digests that people read to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.model.fingerprint import DIGEST_LAYERS, LAYERS, Fingerprint, ProbeResult, shortened

MOST_NAMES: Final = 4


def title(fingerprint: Fingerprint) -> str:
    """Say which suite ran where; on the CPU its numbers depend on the threads, so they are said."""
    suite, key = fingerprint.suite, fingerprint.key
    said = f"Fingerprint {suite.name}/{suite.version} on {fingerprint.device}"
    if key.capability is not None:
        return said
    return f"{said}, {key.threads} thread{'' if key.threads == 1 else 's'}"


def rows(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Return the short digests and what became of every layer."""
    short = fingerprint.short
    yield "short", f"mem {short.mem or 'none'}, num {short.num or 'none'}"
    for layer in LAYERS:
        probes: dict[str, ProbeResult] = getattr(fingerprint.layers, layer)
        if probes:
            digest = fingerprint.digests.get(layer)
            said = _layer(probes)
            if layer in DIGEST_LAYERS and not all(one.modelled for one in probes.values()):
                said.append("no digest" if digest is None else shortened(digest))
            yield layer, ", ".join(said)
    yield from _left_behind(fingerprint)


def _left_behind(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Say of the user's own step what every call of it leaves behind."""
    for name, probe in fingerprint.layers.tensors.items():
        left = (probe.values or {}).get("left_bytes")
        if name.startswith("call.") and name.endswith(".left") and isinstance(left, int):
            step = name.removeprefix("call.").removesuffix(".left")
            yield "your step", f"{step} leaves {left:,} B of tensors behind at every call"


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
    compared = [one.conforms for one in measured.values() if one.conforms is not None]
    if compared:
        said.append(f"{sum(compared)} of {len(compared)} as the model has it")
    return said


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" ..." if len(names) > MOST_NAMES else "")

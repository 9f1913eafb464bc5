"""A fingerprint as rows: one a layer, and the two short digests that people read to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.model.fingerprint import DIGEST_LAYERS, LAYERS, Fingerprint, ProbeResult

MOST_NAMES: Final = 4


def rows(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Return the suite, the short digests and what became of every layer."""
    suite = fingerprint.suite
    yield "suite", f"{suite.name}/{suite.version} on {fingerprint.device}"
    short = fingerprint.short
    yield "short", f"mem {short.mem or 'none'}  num {short.num or 'none'}"
    for layer in LAYERS:
        probes: dict[str, ProbeResult] = getattr(fingerprint.layers, layer)
        if probes:
            yield layer, _layer(probes, fingerprint.digests.get(layer), layer in DIGEST_LAYERS)


def _layer(probes: dict[str, ProbeResult], digest: str | None, digested: bool) -> str:  # noqa: FBT001
    said = []
    for status in ("exact", "unstable", "failed", "not_run"):
        names = sorted(name for name, probe in probes.items() if probe.status == status)
        if names:
            words = f"{len(names)} {status.replace('_', ' ')}"
            said.append(words if status == "exact" else f"{words} ({_listed(names)})")
    modelled = sum(probe.modelled for probe in probes.values())
    if modelled:
        said.append(f"{modelled} from the model, not measured")
    compared = [probe.conforms for probe in probes.values() if probe.conforms is not None]
    if compared:
        said.append(f"{sum(compared)} of {len(compared)} as the model has it")
    if digested:
        said.append("no digest" if digest is None else digest.removeprefix("sha256:")[:12])
    return ", ".join(said)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" ..." if len(names) > MOST_NAMES else "")

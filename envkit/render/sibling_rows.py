"""Devices that were measured side by side as rows: one each, with what sets it apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.model.facts import GpuFacts, Sibling
from envkit.model.observed import Known
from envkit.render.fingerprint_rows import short_said

TITLE: Final = "Devices side by side"
_OUTCOMES: Final = {"agrees": "agrees", "differs": "DIFFERS", "incomplete": "not comparable"}


def rows(gpus: GpuFacts) -> Iterator[tuple[str, str]]:
    """Return a row for each device and where they come from; none where one was measured."""
    if not isinstance(gpus.siblings, Known):
        return
    for one in gpus.siblings.value:
        yield one.place, _row(one)
    yield "", gpus.siblings.source


def _row(one: Sibling) -> str:
    said = [one.name or "name unknown", _OUTCOMES[one.outcome]]
    if one.layers:
        said[-1] += f" in {', '.join(one.layers)}"
    if one.mem or one.num:
        said.append(short_said(one.mem, one.num))
    return "; ".join([*said, one.reason] if one.reason else said)

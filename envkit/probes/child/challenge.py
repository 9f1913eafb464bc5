"""What a challenge decides: the seed of everything random, and a probe of shapes of its own."""

from __future__ import annotations

import hashlib
from typing import List, Optional, Tuple

from .members import NUMERICS
from .membership import Probe

#: Seed of everything random when there is no challenge: the first from the day of the first
#: recording on whose random trace leaves no choice to addresses, by the model under 17 settings.
SEED = 20261132


def seed_from(challenge: Optional[str]) -> int:
    """Return the seed of inputs and traces: fixed, or made from a challenge."""
    if challenge is None:
        return SEED
    return int(hashlib.sha256(challenge.encode("utf-8")).hexdigest()[:8], 16)


def probes(challenge: Optional[str], kind: str) -> List[Probe]:
    """Return the probes that a challenge adds to every suite; none without one.

    On a GPU its repetition was not measured, so it may not accuse a machine.
    """
    if challenge is None:
        return []
    repeats = kind == "cpu"
    return [Probe("numerics.challenge", "challenge", "", NUMERICS, "numerics", repeats, ("torch",))]


def shapes(seed: int) -> Tuple[int, List[int]]:
    """Return batch and widths of the challenge probe's layers: nobody knows them before."""
    drawn = hashlib.sha256("shapes {}".format(seed).encode("ascii")).digest()
    widths = [64 + 8 * (byte % 57) for byte in drawn[2 : 5 + drawn[0] % 3]]
    return 16 + drawn[1] % 49, widths

"""What a challenge decides: the seed of everything random. Standard library only."""

from __future__ import annotations

import hashlib
from typing import Optional

#: Seed of everything random when there is no challenge: the first from the day of the first
#: recording on whose random trace leaves no choice to addresses, by the model under 17 settings.
SEED = 20261132


def seed_from(challenge: Optional[str]) -> int:
    """Return the seed of inputs and traces: fixed, or made from a challenge."""
    if challenge is None:
        return SEED
    return int(hashlib.sha256(challenge.encode("utf-8")).hexdigest()[:8], 16)

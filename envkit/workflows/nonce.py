"""Challenges: numbers that nobody could know before they were made, with the time of making.

`01`, 8 hexadecimal digits of seconds since 1970, 32 of chance. The time is there for the one who
made it and checks it later: how old it is can be told without a list of what was given out.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Final

from envkit.allocator import CachingAllocator, OutOfMemory
from envkit.allocator.addresses import AddressSpace
from envkit.errors import UsageError
from envkit.probes.child.challenge import seed_from
from envkit.probes.child.exercises.catalogue import random_trace
from envkit.probes.child.exercises.operations import carry_out

_OURS: Final = re.compile(r"01([0-9a-f]{8})[0-9a-f]{32}")
_DURATION: Final = re.compile(r"(\d{1,9})([smhd])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: Ways of laying out segments under which a seeded trace has to give the same counters.
_LAYOUTS: Final = 4
_TOTAL_BYTES: Final = 80 << 30
_SLOT_BYTES: Final = 1 << 27


def make_nonce() -> str:
    """Return a new challenge, one whose random trace leaves no choice to addresses.

    Where two equally large free blocks could serve a request, torch takes the one at the lower
    address, which the driver picks: about 3 in 100 seeds (60 tried in the model) lead to such a
    choice, and another number is taken instead.
    """
    while True:
        nonce = f"01{int(time.time()):08x}{secrets.token_hex(16)}"
        if not depends_on_addresses(nonce):
            return nonce


def made_s(nonce: str) -> int | None:
    """Return when a challenge was made, in seconds since 1970; None if it does not say."""
    found = _OURS.fullmatch(nonce)
    return int(found[1], 16) if found else None


def parse_duration(text: str) -> int:
    """Read `90s`, `30m`, `24h` or `7d` as seconds.

    Raises:
        UsageError: it is none of these.

    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        message = f"--max-age: {text[:40]!r} is no duration."
        raise UsageError(message, next_step="As in 30m, 24h or 7d.")
    return int(found[1]) * _UNIT_S[found[2]]


def depends_on_addresses(nonce: str) -> bool:
    """Say whether the counters of a challenge's random trace depend on where segments lie."""
    operations = random_trace(seed_from(nonce))
    walks = []
    for layout in range(_LAYOUTS):
        model = CachingAllocator(total_memory=_TOTAL_BYTES, addresses=ShuffledAddresses(layout))
        walks.append(carry_out(operations, model, _TOTAL_BYTES, OutOfMemory).steps)
    return any(walk != walks[0] for walk in walks[1:])


class ShuffledAddresses(AddressSpace):
    """Gives out slots of address space up, down and in two mixed orders."""

    __slots__ = ("_given", "_step")

    def __init__(self, layout: int) -> None:
        super().__init__(0)
        self._given = 0
        self._step = (1, -1, 389, -631)[layout]

    def claim(self, size: int, observed: int | None) -> int:
        """Take the next slot; no exercise asks for a segment that is larger than one."""
        del observed
        self._given += 1
        return super().claim(size, (1 << 40) + self._given * self._step % 1009 * _SLOT_BYTES)

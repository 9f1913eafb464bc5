"""What the numbers of an out-of-memory message add up to, and which class that is.

The classes are those of the documentation page `docs/reference/oom.md`, with the rules in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from envkit.allocator.oom_text import Message, Process
from envkit.allocator.sizes import GIB, MIB

OomClass = Literal[
    "capacity",
    "fragmentation",
    "other_process",
    "non_torch_memory",
    "memory_limit",
    "shared_memory_fallback",
    "impossible_request",
    "free_but_failed",
    "driver_oom",
    "unknown",
]

#: Sizes are printed with two decimals, so a sum of a few can be wrong by this much.
ROUNDING_BYTES: Final = GIB // 50
#: Unallocated memory is a real share of the reserved from here on.
FRAGMENT_SHARE: Final = 0.05
FRAGMENT_BYTES: Final = 256 * MIB
#: Free memory above the request by this much is more than the driver's own granularity.
CLEARLY_FREE_BYTES: Final = 64 * MIB
#: Memory of others, or outside the allocator, is a cause from here on; a CUDA context and the
#: driver's own share stay below it.
OUTSIDE_BYTES: Final = 3 * GIB // 2
OUTSIDE_SHARE: Final = 0.10
NEIGHBOUR_SHARE: Final = 0.05

_CLASS_OF_FORM: Final[dict[str, OomClass]] = {
    "absurd": "impossible_request",
    "rejected": "memory_limit",
    "async_assert": "shared_memory_fallback",
    "killed": "memory_limit",
    "shm": "memory_limit",
    "commit": "memory_limit",
    "host": "capacity",
    "library": "driver_oom",
    "driver": "driver_oom",
    "mention": "unknown",
}


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The card's memory by whose it is; None where the message does not say, sizes in bytes."""

    tried: int | None
    total: int | None
    free: int | None
    allocated: int | None
    reserved: int | None
    unallocated: int | None
    limit: int | None
    own: int | None
    """All of this process, what is not torch's included."""
    own_by_size: bool
    """The process was recognised by its size alone: its number is not our own."""
    others: int
    """Of other processes, each of which the message lists."""
    outside: int | None
    """Neither free nor reserved by this allocator nor of listed others."""
    elsewhere: int | None
    """The part of it that is not this process's; None where that cannot be told."""

    @property
    def own_outside(self) -> int | None:
        """Memory of this process outside the allocator: context, libraries, NCCL."""
        if self.own is None or self.reserved is None:
            return None
        return max(0, self.own - self.reserved)


def account(message: Message) -> Account:
    """Add up what a message says."""
    sizes = message.sizes
    total, free = sizes.get("total_bytes"), sizes.get("free_bytes")
    allocated = sizes.get("allocated_bytes")
    reserved, unallocated = reserved_of(message)
    own, others, by_size = _processes(message, reserved)
    outside = elsewhere = None
    if total is not None and free is not None and reserved is not None:
        outside = max(0, total - free - reserved - others)
        if own is not None:
            elsewhere = max(0, total - free - own - others)
    return Account(
        tried=sizes.get("tried_bytes"),
        total=total,
        free=free,
        allocated=allocated,
        reserved=reserved,
        unallocated=unallocated,
        limit=sizes.get("allowed_bytes"),
        own=own,
        own_by_size=by_size,
        others=others,
        outside=outside,
        elsewhere=elsewhere,
    )


def reserved_of(message: Message) -> tuple[int | None, int | None]:
    """Return reserved, and reserved but unallocated bytes; one follows from the other."""
    sizes = message.sizes
    allocated = sizes.get("allocated_bytes")
    reserved = sizes.get("reserved_total_bytes")
    unallocated = sizes.get("reserved_unallocated_bytes")
    if allocated is None:
        return reserved, unallocated
    if reserved is None and unallocated is not None:
        reserved = allocated + unallocated
    elif reserved is not None and unallocated is None:
        unallocated = max(0, reserved - allocated)
    elif message.form == "async":
        reserved = allocated  # at least; the rest of CUDA's pool is not printed
    return reserved, unallocated


def _processes(message: Message, reserved: int | None) -> tuple[int | None, int, bool]:
    """Return the bytes of this process and of others, and whether it was told by its size."""
    listed = message.processes
    mine = next((p for p in listed if p.pid is None), None)
    by_size = False
    if mine is None and reserved is not None:
        mine = _fits(listed, reserved)
        by_size = mine is not None
    others = sum(p.used_bytes or 0 for p in listed if p is not mine)
    return (mine.used_bytes if mine else None), others, by_size


def _fits(listed: tuple[Process, ...], reserved: int) -> Process | None:
    """Find the process that can hold what this one reserved, with least to spare.

    In a container NVML gives the host's process numbers, so torch does not know its own.
    """
    able = [
        (process.used_bytes, index)
        for index, process in enumerate(listed)
        if process.used_bytes is not None and process.used_bytes + ROUNDING_BYTES >= reserved
    ]
    return listed[min(able)[1]] if able else None


def classify(message: Message, sums: Account) -> OomClass:
    """Return the class; the first rule that holds."""
    if message.form in _CLASS_OF_FORM:
        return _CLASS_OF_FORM[message.form]
    for kind, holds in _RULES:
        if holds(sums):
            return kind
    return "capacity" if _enough_is_known(sums) else "unknown"


def _enough_is_known(sums: Account) -> bool:
    return sums.tried is not None and sums.allocated is not None


def _beyond_the_card(sums: Account) -> bool:
    if sums.total is None:
        return False
    most = max(sums.allocated or 0, sums.reserved or 0, sums.own or 0)
    return most > sums.total + ROUNDING_BYTES


def _larger_than_the_card(sums: Account) -> bool:
    room = sums.total if sums.total is not None else sums.limit
    return sums.tried is not None and room is not None and sums.tried > room


def _limit_reached(sums: Account) -> bool:
    if sums.limit is None or sums.tried is None:
        return False
    if sums.free is None:  # MPS: the limit is all there is
        return True
    return sums.free >= sums.tried and (sums.reserved or 0) + sums.tried + ROUNDING_BYTES > (
        sums.limit
    )


def _clearly_free(sums: Account) -> bool:
    if sums.free is None or sums.tried is None or sums.allocated is None:
        return False
    return sums.free >= sums.tried + max(CLEARLY_FREE_BYTES, sums.tried // 20)


def is_fragmented(sums: Account) -> bool:
    """Whether reserved but unallocated memory could have served the request and is no scrap."""
    if sums.unallocated is None or sums.reserved is None or sums.tried is None:
        return False
    if sums.unallocated < max(FRAGMENT_BYTES, FRAGMENT_SHARE * sums.reserved):
        return False
    return sums.unallocated + (sums.free or 0) >= sums.tried


def theirs(sums: Account) -> int:
    """Return the bytes of others that count: listed ones, and unlisted if they are many."""
    if sums.total is None:
        return 0
    listed = sums.others if sums.others >= _worth_naming(sums.total) else 0
    unlisted = sums.elsewhere or 0
    return listed + (unlisted if _is_outside(sums, unlisted) else 0)


def _worth_naming(total: int) -> float:
    return max(FRAGMENT_BYTES, NEIGHBOUR_SHARE * total)


def _neighbours(sums: Account) -> bool:
    held = theirs(sums)
    return held > 0 and sums.tried is not None and (sums.free or 0) + held >= sums.tried


def _outside_torch(sums: Account) -> bool:
    if sums.outside is None or sums.tried is None:
        return False
    return _is_outside(sums, sums.outside) and (sums.free or 0) + sums.outside >= sums.tried


def _is_outside(sums: Account, size: int) -> bool:
    return size >= max(OUTSIDE_BYTES, OUTSIDE_SHARE * (sums.total or 0))


_RULES: Final[tuple[tuple[OomClass, Callable[[Account], bool]], ...]] = (
    ("shared_memory_fallback", _beyond_the_card),
    ("impossible_request", _larger_than_the_card),
    ("memory_limit", _limit_reached),
    ("free_but_failed", _clearly_free),
    ("fragmentation", is_fragmented),
    ("other_process", _neighbours),
    ("non_torch_memory", _outside_torch),
)

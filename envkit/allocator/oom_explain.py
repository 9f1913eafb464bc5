"""The explanation of an out-of-memory message in plain sentences: what fills the card, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from envkit.allocator.oom_class import FRAGMENT_BYTES, Account, OomClass, is_fragmented, theirs
from envkit.allocator.oom_text import Message
from envkit.allocator.sizes import LARGE_SEGMENT_BYTES, SMALL_SEGMENT_BYTES, format_size

#: From this share on it is said that tensors fill the card.
MOSTLY: Final = 0.6
_OF_FORM: Final = {
    "absurd": "More than 2^60 bytes were asked for: a size was computed wrongly, an overflow or a "
    "garbage length for instance. No card could hold it.",
    "rejected": "The request would have passed the share of the card that this process may use, "
    "and was refused before the driver was asked.",
    "async_assert": "CUDA's pool holds more than the card has: the driver has moved memory of this "
    "process into shared system memory, which the allocator's check takes for a fault.",
    "killed": "This is about the machine's memory, not the card's: the kernel, the job's cgroup "
    "or Ray's memory monitor killed a process because the limit on host memory was reached.",
    "shm": "The shared memory of the container (/dev/shm) is full; data loader workers pass their "
    "batches through it. The card's memory has nothing to do with it.",
    "commit": "This is about the machine's memory, not the card's: Windows could promise no more "
    "memory (the commit limit: RAM and page file together).",
    "host": "This is about the machine's memory, not the card's: the system refused memory to a "
    "tensor on the CPU.",
    "library": "A CUDA library could not get memory for its handle or workspace. It asks the "
    "driver itself, outside torch's allocator, so the message has no numbers.",
    "driver": "The CUDA driver itself reported that it is out of memory. Such a call does not go "
    "through torch's allocator (creating the context, pinned memory, a CUDA graph, NCCL), so "
    "the message has no numbers; a full card, a full host, or a broken set-up can be behind it.",
    "mention": "The text says that memory ran out and nothing else; without the sentence that "
    'begins with "Tried to allocate" there is nothing to add up.',
}  # fmt: skip


def explain(message: Message, sums: Account, kind: OomClass) -> str:
    """Return the explanation: the finding, what the numbers add up to, and remarks."""
    if message.form in _OF_FORM:
        asked = sums.tried
        more = f" {format_size(asked)} were asked for." if asked is not None else ""
        return _OF_FORM[message.form] + more
    sentences = [_LEADS[kind](sums), _adds_up(message, sums), *_remarks(message, sums, kind)]
    return " ".join(sentence for sentence in sentences if sentence)


def _size(size: int | None) -> str:
    return "an unknown amount" if size is None else format_size(size)


def _capacity(sums: Account) -> str:
    if sums.total is None:
        return f"What torch holds and the {_size(sums.tried)} asked for are more than there is."
    if sums.allocated is not None and sums.allocated < MOSTLY * sums.total:
        return (
            f"The request is too large for what is left: {_size(sums.tried)} was asked for beside "
            f"{_size(sums.allocated)} allocated on a card of {_size(sums.total)}, where "
            f"{_size(sums.free)} was free."
        )
    return (
        f"Live tensors fill the card: {_size(sums.allocated)} of {_size(sums.total)} is allocated, "
        f"{_size(sums.free)} was free, and {_size(sums.tried)} more was asked for."
    )


def _fragmentation(sums: Account) -> str:
    lead = (
        f"Fragmentation: {_size(sums.unallocated)} is reserved by torch but unallocated, and "
        f"{_size(sums.tried)} was asked for; "
    )
    if sums.tried is not None and (sums.unallocated or 0) >= sums.tried:
        return lead + "it would have been enough, but no piece of it in one place was."
    return lead + (
        f"with the {_size(sums.free)} that was free it would have been enough, but it lies in "
        "partly used segments, which cannot be given back."
    )


def _other_process(sums: Account) -> str:
    return (
        f"Others hold {_size(theirs(sums))} of the card. Without them the {_size(sums.tried)} "
        f"asked for would have fitted; this process allocated {_size(sums.allocated)}."
    )


def _non_torch(sums: Account) -> str:
    whose = "in this process" if sums.own is not None else "in this process or in others"
    return (
        f"{_size(sums.outside)} of the card is outside torch's allocator, {whose} "
        "(CUDA contexts, NCCL, other libraries, other programs); that is why the "
        f"{_size(sums.tried)} asked for did not fit beside the {_size(sums.allocated)} allocated."
    )


def _limit(sums: Account) -> str:
    free = f" although {_size(sums.free)} of the card was free" if sums.free is not None else ""
    return (
        f"The limit set for this process was reached{free}: {_size(sums.limit)} is allowed, "
        f"{_size(sums.reserved)} was in use, and {_size(sums.tried)} more was asked for."
    )


def _fallback(sums: Account) -> str:
    return (
        f"More is in use than the card has: {_size(sums.allocated)} allocated on a card of "
        f"{_size(sums.total)}. The driver (Windows or WSL) has moved memory into shared system "
        "memory, which is slow and ends too."
    )


def _impossible(sums: Account) -> str:
    return (
        f"A single request of {_size(sums.tried)} is larger than the whole card "
        f"({_size(sums.total if sums.total is not None else sums.limit)}). "
        "Freeing memory cannot help; one tensor has to become smaller."
    )


def _free_but_failed(sums: Account) -> str:
    return (
        f"{_size(sums.free)} was free and {_size(sums.tried)} was asked for, yet the driver "
        "refused. Something other than this card's size limits it: a limit of the driver, of a "
        "container or MIG slice, the page file on Windows, or a neighbour that had taken the "
        "memory and gave it back before the message was made."
    )


def _unknown(sums: Account) -> str:
    if sums.tried is None:
        return "The message has been cut off before its numbers."
    return (
        f"{_size(sums.tried)} was asked for. The rest of the message has been cut off, and "
        "without it nothing can be said about the cause."
    )


_LEADS: Final[dict[OomClass, Callable[[Account], str]]] = {
    "capacity": _capacity,
    "fragmentation": _fragmentation,
    "other_process": _other_process,
    "non_torch_memory": _non_torch,
    "memory_limit": _limit,
    "shared_memory_fallback": _fallback,
    "impossible_request": _impossible,
    "free_but_failed": _free_but_failed,
    "driver_oom": _unknown,
    "unknown": _unknown,
}


def _adds_up(message: Message, sums: Account) -> str:
    """Say whose the memory of the card is."""
    if sums.total is None or sums.allocated is None or sums.free is None:
        return ""
    parts = [f"{_size(sums.allocated)} allocated by torch"]
    if sums.unallocated:
        parts.append(f"{_size(sums.unallocated)} reserved but unallocated")
    parts.extend(_outside_parts(message, sums))
    parts.append(f"{_size(sums.free)} free")
    return f"What fills the {_size(sums.total)}: {', '.join(parts)}."


def _outside_parts(message: Message, sums: Account) -> list[str]:
    parts = []
    if sums.own_outside is not None and sums.elsewhere is not None:
        if sums.own_outside:
            parts.append(f"{_size(sums.own_outside)} of this process outside torch's allocator")
        if sums.elsewhere:
            parts.append(f"{_size(sums.elsewhere)} of the driver and of what is not listed")
    elif sums.outside:
        parts.append(f"{_size(sums.outside)} outside this allocator, whose is not said")
    if sums.others:
        count = sum(p.used_bytes is not None for p in message.processes)
        count -= sums.own is not None
        noun = "another process" if count == 1 else f"{count} other processes"
        parts.append(f"{_size(sums.others)} of {noun}")
    return parts


def _remarks(message: Message, sums: Account, kind: OomClass) -> list[str]:
    remarks = []
    if kind != "fragmentation" and sums.unallocated:
        remarks.append(_about_unallocated(sums, kind))
    if sums.own_by_size:
        own = min(
            (p for p in message.processes if p.used_bytes == sums.own), key=lambda p: p.pid or 0
        )
        remarks.append(
            f"Process {own.pid} is this one, not another: NVML gives the host's numbers, which a "
            f"container does not know, and its {_size(own.used_bytes)} fit what it reserved."
        )
    if any(process.used_bytes is None for process in message.processes):
        remarks.append("17179869184.00 GiB means that the driver could not tell (WSL, Windows).")
    pools = message.sizes.get("private_pool_free_bytes")
    if pools:
        remarks.append(
            f"{_size(pools)} of what counts as allocated is free but kept for CUDA graphs or "
            "memory pools."
        )
    if sums.tried in {SMALL_SEGMENT_BYTES, LARGE_SEGMENT_BYTES}:
        remarks.append(
            f"{_size(sums.tried)} is the size of a new segment, not of a tensor: even a small "
            "tensor did not find room."
        )
    return remarks


def _about_unallocated(sums: Account, kind: OomClass) -> str:
    if kind in {"shared_memory_fallback", "impossible_request", "free_but_failed", "unknown"}:
        return ""
    if is_fragmented(sums):
        return f"Besides, {_size(sums.unallocated)} of fragments would have been enough."
    if sums.reserved is None or sums.unallocated is None or sums.unallocated < FRAGMENT_BYTES:
        return ""
    share = 100 * sums.unallocated / sums.reserved
    why = f"it is {share:.0f} % of what is reserved"
    if sums.tried is not None and sums.unallocated + (sums.free or 0) < sums.tried:
        why = "even with the free memory it could not have served the request"
    return f"The {_size(sums.unallocated)} reserved but unallocated is not the cause: {why}."

"""The wordings of out-of-memory messages, torch 1.0 to 2.14, and how to read one.

Patterns are matched against lower-case text without any white space, so a message that a terminal
or a log has wrapped, even inside a word, reads the same. Sources: the string constants of the
wheels from 1.12 to 2.14 and, before that, messages on PyTorch's issue tracker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

import msgspec

#: NVML says "not available" as 2**64 - 1, and torch prints that as 17179869184.00 GiB.
NOT_AVAILABLE_BYTES: Final = 1 << 63
_UNITS: Final = {
    "bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    # MPS before 2.13 writes powers of 1024 under these names.
    "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30,
}  # fmt: skip
_SIZE: Final = r"(\d{1,20}(?:\.\d{1,6})?)(bytes|[kmgt]ib|[kmg]b)"
_GPU: Final = r"(?:gpu|npu|xpu|musa)(\d{1,4})"
#: How far the next piece of a message may be behind the last one: room for a log's decorations.
_REACH: Final = 400
#: The closing advice, by which releases are told apart, ends within this.
_HINT_REACH: Final = 500
_MOST_PROCESSES: Final = 256

#: One named group for each form; the name says how to read on.
_START: Final = re.compile(
    r"(?P<mps>mpsbackendoutofmemory\()"
    r"|(?P<absurd>(?:cuda|hip|xpu)?outofmemory\.triedtoallocatemorethan1ebmemory)"
    r"|(?P<rejected>(?:cuda|hip|xpu)?outofmemory\.allocationwaspreemptivelyrejected)"
    r"|(?P<tried>(?:(?:cuda|hip|xpu|npu|musa)outofmemory\.)?triedtoallocate(?=\d+(?:\.\d+)?"
    r"(?:bytes|[kmgt]?ib)[.(]))"
    r"|(?P<async>allocationondevice(?=\d{0,4}wouldexceedallowedmemory))"
    r"|(?P<async_assert>pytorch_used_bytes\[device\]<=device_total)"
    r"|(?P<killed>memorycgroupoutofmemory|outofmemory:killedprocess|oom-killevent|oom_killevent"
    r"|dataloaderworker.{0,60}?killedbysignal:killed|killedduetothenoderunninglowonmemory)"
    r"|(?P<shm>dataloaderworker.{0,60}?killedbysignal:buserror|insufficientsharedmemory\(shm\))"
    r"|(?P<commit>winerror1455|defaultcpuallocator:notenoughmemory)"
    r"|(?P<host>defaultcpuallocator:can'tallocatememory)"
    r"|(?P<library>cublas_status_alloc_failed|cudnn_status_alloc_failed)"
    r"|(?P<driver>(?:cuda|hip)(?:driver)?error:outofmemory|cudaruntimeerror\(2\):outofmemory"
    r"|cudafailure(?:2)?'outofmemory'|error2:outofmemory|cuda_error_out_of_memory"
    r"|cudaerrormemoryallocation|hiperroroutofmemory|failedtocuda(?:host)?calloc)"
    r"|(?P<mention>(?:cuda|hip|xpu)outofmemory)"
)
#: Each start has at least one of these in it, and reaches so far around it.
_PIVOTS: Final = (
    "outofmemory", "triedtoallocate", "exceedallowedmemory", "device_total", "_alloc_failed",
    "dataloaderworker", "oom-kill", "oom_kill", "winerror1455", "cpuallocator", "lowonmemory",
    "memoryallocation", "out_of_memory", "cudacalloc", "cudahostcalloc", "sharedmemory(shm)",
)  # fmt: skip
_BEFORE_PIVOT: Final = 60
_BEHIND_PIVOT: Final = 130
_BACKEND: Final = re.compile(r"(cuda|hip|xpu|npu|musa)outofmemory\.")
_TRIED: Final = re.compile(rf"triedtoallocate{_SIZE}")
_PARENTHESIS: Final = re.compile(rf"\.?\({_GPU};")
_SENTENCE: Final = re.compile(rf"\.{_GPU}hasatotal(capacty|capacity)of{_SIZE}")
_FREE: Final = re.compile(rf"ofwhich{_SIZE}isfree")
_PROCESS: Final = re.compile(rf"(?:process(\d{{1,10}})|thisprocess)has{_SIZE}memoryinuse")
_PARENTHESES_FIELDS: Final = {
    "total_bytes": re.compile(_SIZE + "totalcapacity"),
    "allocated_bytes": re.compile(_SIZE + "alreadyallocated"),
    "free_bytes": re.compile(_SIZE + "free"),
    "allowed_bytes": re.compile(_SIZE + "allowed"),
    "reserved_total_bytes": re.compile(_SIZE + "reservedintotalby"),
    "reserved_unallocated_bytes": re.compile(_SIZE + "cached"),  # 1.0 to 1.3: the unused part
}
_SENTENCE_FIELDS: Final = {
    "allowed_bytes": re.compile(_SIZE + "allowed;"),
    "allocated_bytes": re.compile(rf"oftheallocatedmemory{_SIZE}isallocatedbypytorch"),
    "private_pool_free_bytes": re.compile(rf"with{_SIZE}allocatedinprivatepools"),
    "reserved_unallocated_bytes": re.compile(rf"and{_SIZE}isreservedbypytorchbutunallocated"),
}
_ASYNC_FIELDS: Final = {
    "allocated_bytes": re.compile(rf"currentlyallocated:{_SIZE}"),
    "tried_bytes": re.compile(rf"requested:{_SIZE}"),
    "total_bytes": re.compile(rf"devicelimit:{_SIZE}"),
    "free_bytes": re.compile(rf"free\(accordingtocuda\):{_SIZE}"),
    "allowed_bytes": re.compile(rf"memoryfraction\):{_SIZE}"),
}
_MPS_FIELDS: Final = {
    "allocated_bytes": re.compile(rf"mpsallocated:{_SIZE}"),
    "other_allocations_bytes": re.compile(rf"otherallocations:{_SIZE}"),
    "allowed_bytes": re.compile(rf"maxallowed:{_SIZE}"),
    "tried_bytes": re.compile(rf"triedtoallocate{_SIZE}"),
}
_REJECTED_FIELDS: Final = {"tried_bytes": re.compile(rf"requestedsize:{_SIZE}")}
_HOST_FIELDS: Final = {"tried_bytes": re.compile(r"youtriedtoallocate(\d{1,20})(bytes)")}


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process that NVML listed; in a container it carries the host's number."""

    pid: int | None
    """None: the message says that it is this process."""
    used_bytes: int | None
    """None: NVML could not tell."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it was printed; nothing derived."""

    form: str
    """Name of the group of the wording: tried, async, mps, driver ..."""
    at: int
    """Where it starts in the squeezed text."""
    end: int
    backend: str = "CUDA"
    device: int | None = None
    sizes: dict[str, int] = {}
    """Only what was printed; a limit of 2**64 bytes, which is none, is left out."""
    processes: tuple[Process, ...] = ()
    torch: str = ""
    """The releases that word it so; empty where the wording does not tell."""
    words: str = ""
    """What was recognised, of messages without numbers."""


def messages_in(text: str) -> Iterator[Message]:
    """Yield the messages of a squeezed text in order."""
    starts = _starts(text)
    done = named_again = 0
    for index, start in enumerate(starts):
        # The same failure is often named again: "Search for `cudaErrorMemoryAllocation'".
        if start.start() < (named_again if start["driver"] else done):
            continue
        last = index + 1 == len(starts)
        message = _read(text, start, len(text) if last else starts[index + 1].start())
        done = message.end
        if message.form == "driver":
            named_again = done + _REACH
        yield message


def _starts(text: str) -> list[re.Match[str]]:
    """Find every start; the large pattern is only tried around words that all starts have."""
    windows: list[tuple[int, int]] = []
    for pivot in sorted(_pivots(text)):
        first, last = max(0, pivot - _BEFORE_PIVOT), pivot + _BEHIND_PIVOT
        if windows and first <= windows[-1][1]:
            first = windows.pop()[0]
        windows.append((first, last))
    return [start for window in windows for start in _START.finditer(text, *window)]


def _pivots(text: str) -> Iterator[int]:
    for word in _PIVOTS:
        at = text.find(word)
        while at >= 0:
            yield at
            at = text.find(word, at + len(word))


def _read(text: str, start: re.Match[str], stop: int) -> Message:
    """Read what begins at `start`; `stop` is where the next message may begin."""
    form = start.lastgroup or ""
    at, end = start.span()
    if form == "tried":
        return _read_tried(text, start, stop)
    known = {
        "async": _ASYNC_FIELDS,
        "mps": _MPS_FIELDS,
        "rejected": _REJECTED_FIELDS,
        "host": _HOST_FIELDS,
        "commit": _HOST_FIELDS,
    }
    if form in known:
        # The MPS text has its own "tried to allocate", which looks like a start.
        sizes, end = _fields(text, at, min(len(text), at + 4 * _REACH), known[form])
        return _checked(form=form, at=at, end=end, sizes=sizes, text=text)
    return Message(form=form, at=at, end=end, words=start.group())


def _checked(*, form: str, at: int, end: int, sizes: dict[str, int], text: str) -> Message:
    backend = "MPS" if form == "mps" else "CUDA"
    torch = {"async": "2.0 or newer", "rejected": "2.12 or newer"}.get(form, "")
    device = re.match(r"allocationondevice(\d{1,4})", text[at : at + 30])
    return Message(
        form=form,
        at=at,
        end=end,
        backend=backend,
        device=int(device[1]) if device else None,
        sizes=sizes,
        torch=torch,
        words=text[at : at + 30] if not sizes else "",
    )


def _read_tried(text: str, start: re.Match[str], stop: int) -> Message:
    tried = _TRIED.search(text, start.start())
    backend = _BACKEND.match(text, start.start())
    if tried is None:  # the look-ahead of the start has seen it
        return Message(form="mention", at=start.start(), end=start.end())
    sizes = {"tried_bytes": _bytes(tried[1], tried[2])}
    found = Message(
        form="tried",
        at=start.start(),
        end=tried.end(),
        backend=backend[1].upper() if backend else "CUDA",
        sizes=sizes,
    )
    opening = _PARENTHESIS.search(text, tried.end(), min(stop, tried.end() + 60))
    if opening:
        return _parenthesised(text, found, opening, stop)
    opening = _SENTENCE.search(text, tried.end(), min(stop, tried.end() + _REACH))
    if opening:
        return _sentences(text, found, opening, stop)
    return found


def _parenthesised(text: str, found: Message, opening: re.Match[str], stop: int) -> Message:
    """Read torch 1.0 to 2.0: everything inside "(GPU i; ...)"."""
    stop = min(stop, opening.end() + 2 * _REACH)
    sizes, end = _fields(text, opening.end(), stop, _PARENTHESES_FIELDS)
    hint = "max_split_size_mb" in text[end : end + _HINT_REACH]
    torch = "1.10 to 2.0" if hint else "1.4 to 1.9"
    if "reserved_unallocated_bytes" in sizes:
        torch = "1.0 to 1.3"
    elif "reserved_total_bytes" not in sizes:
        torch = "1.0 to 2.0"
    return msgspec.structs.replace(
        found, device=int(opening[1]), end=end, torch=torch, sizes={**found.sizes, **sizes}
    )


def _sentences(text: str, found: Message, opening: re.Match[str], stop: int) -> Message:
    """Read torch 2.1 and later."""
    sizes = {**found.sizes, "total_bytes": _bytes(opening[3], opening[4])}
    end = opening.end()
    free = _FREE.search(text, end, min(stop, end + _REACH))
    if free:
        sizes["free_bytes"], end = _bytes(free[1], free[2]), free.end()
    processes: list[Process] = []
    while len(processes) < _MOST_PROCESSES:
        entry = _PROCESS.search(text, end, min(stop, end + _REACH))
        if entry is None:
            break
        used = _bytes(entry[2], entry[3])
        known = used if used < NOT_AVAILABLE_BYTES else None
        processes.append(Process(pid=int(entry[1]) if entry[1] else None, used_bytes=known))
        end = entry.end()
    rest, end = _fields(text, end, min(stop, end + 3 * _REACH), _SENTENCE_FIELDS)
    sizes.update(rest)
    return msgspec.structs.replace(
        found,
        device=int(opening[1]),
        end=end,
        sizes=sizes,
        processes=tuple(processes),
        torch=_release(text[end : min(stop, end + _HINT_REACH)], opening[2], sizes),
    )


def _release(hint: str, spelling: str, sizes: Mapping[str, int]) -> str:
    if spelling == "capacty":  # so spelled in 2.1 only
        return "2.1"
    if "pytorch_alloc_conf=" in hint:
        return "2.10"
    if "docs.pytorch.org" in hint:
        return "2.11 or newer"
    if "environment-variables" in hint:
        return "2.4 to 2.9" if "private_pool_free_bytes" in sizes else "2.2 to 2.9"
    return "2.4 or newer" if "private_pool_free_bytes" in sizes else "2.2 or newer"


def _fields(
    text: str, at: int, stop: int, patterns: Mapping[str, re.Pattern[str]]
) -> tuple[dict[str, int], int]:
    """Read the sizes that are there, each behind the last; return them and where they end."""
    sizes: dict[str, int] = {}
    for name, pattern in patterns.items():
        found = pattern.search(text, at, min(stop, at + _REACH))
        if found is None:
            continue
        at = found.end()
        size = _bytes(found[1], found[2])
        if size < NOT_AVAILABLE_BYTES:
            sizes[name] = size
    return sizes, at


def _bytes(number: str, unit: str) -> int:
    return round(Decimal(number) * _UNITS[unit])

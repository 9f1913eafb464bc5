"""Whether something failed only because the GPU had no memory left, and who holds that memory."""

from __future__ import annotations

import re

from envkit.model.facts import SelfTest
from envkit.model.finding import Evidence
from envkit.model.observed import value_of
from envkit.rules.outcome import seen
from envkit.rules.subject import Subject, source_of

#: `cudaErrorMemoryAllocation` and `CUDA_ERROR_OUT_OF_MEMORY` have the same number.
OUT_OF_MEMORY = 2
#: Under this much free memory a context and the handles of cuBLAS and cuDNN do not fit
#: (https://github.com/haotian-liu/LLaVA/issues/392: cuDNN fails to initialise without memory).
_SCARCE_BYTES = 512 << 20

_SAYS_MEMORY = re.compile(
    r"out[ _]of[ _]memory|OutOfMemory|ALLOC_FAILED|memory are free", re.IGNORECASE
)
#: The driver's word on expandable segments; it says so too where tens of GiB are free.
_NOT_CAPACITY = re.compile(r"CUDA driver error", re.IGNORECASE)
#: What cuBLAS and cuDNN say when their handle finds no room, and for other reasons too.
_NO_HANDLE = re.compile(r"(CUDNN|CUBLAS|CUSOLVER)_STATUS_(NOT_INITIALIZED|INTERNAL_ERROR)")


def held_by_others(subject: Subject) -> tuple[Evidence, ...]:
    """Show the memory that other processes hold on each GPU; empty where none is known to."""
    evidence = []
    for gpu in subject.gpus:
        others = [one for one in value_of(gpu.processes) or () if not one.own]
        if not others:
            continue
        known = sum(value_of(one.memory_bytes) or 0 for one in others)
        size = f"{known:,} bytes" if known else "memory of unknown size"
        who = "1 process holds" if len(others) == 1 else f"{len(others)} processes hold"
        evidence.append(seen(f"GPU {gpu.index}", f"{who} {size}", source_of(gpu.processes)))
    return tuple(evidence)


def is_lack_of_memory(subject: Subject, test: SelfTest) -> bool:
    """Whether a self-test did not give an answer because the GPU was full."""
    if test.status == "pass":
        return False
    busy = bool(held_by_others(subject))
    if _NOT_CAPACITY.search(test.reason):
        return busy and _SAYS_MEMORY.search(test.reason) is not None
    if _SAYS_MEMORY.search(test.reason):
        return True
    return _NO_HANDLE.search(test.reason) is not None and busy and _is_scarce(subject)


def did_fail(subject: Subject, test: SelfTest) -> bool:
    """Whether a self-test failed for another reason than a full GPU."""
    refused = test.status == "not_run" and _NOT_CAPACITY.search(test.reason) is not None
    return (test.status == "fail" or refused) and not is_lack_of_memory(subject, test)


def _is_scarce(subject: Subject) -> bool:
    free = [value_of(gpu.free_bytes) for gpu in subject.gpus]
    return any(amount is not None and amount < _SCARCE_BYTES for amount in free)


def no_room_to_start(subject: Subject) -> bool:
    """Whether CUDA could not be initialised for memory that other processes hold."""
    return subject.cuda_error == OUT_OF_MEMORY and bool(held_by_others(subject))


def what_did_not_fit(subject: Subject) -> str:
    """Say what found no room on the GPU; empty where everything did."""
    if no_room_to_start(subject):
        return "CUDA could not be initialised: the GPU has no memory left"
    short = [one.name for one in subject.self_tests if is_lack_of_memory(subject, one)]
    if not short:
        return ""
    tests = "self-test" if len(short) == 1 else "self-tests"
    return f"the GPU has no memory left: {len(short)} {tests} did not fit"

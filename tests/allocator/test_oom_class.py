"""The class of a message, at and around each threshold, and what is said about it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.allocator.oom import MOST_EVENTS, explain_log
from envkit.allocator.sizes import GIB, format_size
from envkit.model.codec import decode, encode, read_json
from envkit.model.documents import Oom, OomEvent


def sentences(  # noqa: PLR0913  (the numbers of the message)
    *,
    tried: float,
    total: float,
    free: float,
    allocated: float,
    unused: float,
    own: float | None = None,
    pids: dict[int, float] | None = None,
    allowed: float | None = None,
    gpu: int = 0,
) -> str:
    """Write a message as torch 2.2 does; sizes in GiB."""
    processes = "".join(
        f"Process {pid} has {size(used)} memory in use. " for pid, used in (pids or {}).items()
    )
    if own is not None:
        processes += f"Including non-PyTorch memory, this process has {size(own)} memory in use. "
    limit = "" if allowed is None else f"{size(allowed)} allowed; "
    return (
        f"CUDA out of memory. Tried to allocate {size(tried)}. GPU {gpu} has a total capacity of "
        f"{size(total)} of which {size(free)} is free. {processes}{limit}Of the allocated memory "
        f"{size(allocated)} is allocated by PyTorch, and {size(unused)} is reserved by PyTorch but "
        "unallocated."
    )


def size(gib: float) -> str:
    return format_size(round(gib * GIB))


def explained(text: str) -> OomEvent:
    (event,) = explain_log([text.encode()]).events
    return event


def kind(**numbers: Any) -> str:
    return explained(sentences(**numbers)).kind


def test_live_tensors_fill_the_card() -> None:
    event = explained(sentences(tried=1, total=24, free=0.5, allocated=22, unused=0.75, own=23.25))
    assert event.kind == "capacity"
    assert "Live tensors fill the card: 22.00 GiB of 24.00 GiB" in event.explanation
    assert "512.00 MiB of this process outside torch's allocator" in event.explanation
    assert "batch size" in event.remedies[0]


@pytest.mark.parametrize(
    ("numbers", "want"),
    [
        ((1.0, 18, 2.0, 0.1), "fragmentation"),
        ((2.0, 18, 2.0, 0.0), "fragmentation"),
        ((2.05, 18, 2.0, 0.1), "fragmentation"),  # with what is free it would have been enough
        ((2.15, 18, 2.0, 0.1), "capacity"),  # not even with it
        ((0.5, 21, 1.0, 0.1), "capacity"),  # 4.5 % of reserved is no real share
        ((0.5, 21, 1.2, 0.1), "fragmentation"),
        ((0.1, 2.0, 0.24, 0.05), "capacity"),  # below 256 MiB
        ((0.1, 2.0, 0.26, 0.05), "fragmentation"),
    ],
)
def test_fragmentation_is_a_real_share_that_would_have_served(
    numbers: tuple[float, float, float, float], want: str
) -> None:
    tried, allocated, unused, free = numbers
    total = allocated + unused + free + 0.4
    own = allocated + unused + 0.4
    card = {"total": total, "free": free, "own": own}
    assert kind(tried=tried, allocated=allocated, unused=unused, **card) == want


def test_fragmentation_names_the_setting_that_the_release_has() -> None:
    new = explained(sentences(tried=1, total=24, free=0.1, allocated=18, unused=5))
    assert "expandable_segments:True" in new.remedies[0]
    old = explained(
        "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 24.00 GiB total capacity; 18.00 "
        "GiB already allocated; 0 bytes free; 23.00 GiB reserved in total by PyTorch)"
    )
    assert old.kind == "fragmentation"
    assert "max_split_size_mb" in old.remedies[0]


def test_other_processes() -> None:
    event = explained(
        sentences(
            tried=4, total=80, free=3, allocated=60, unused=0.1, own=61, pids={11: 9, 12: 6.5}
        )
    )
    assert event.kind == "other_process"
    assert event.numbers["other_processes_bytes"] == 31 * GIB // 2
    assert "15.50 GiB of 2 other processes" in event.explanation
    assert "nvidia-smi" in event.remedies[0]


def test_others_that_could_not_have_helped_are_not_the_cause() -> None:
    numbers = {"total": 80.0, "allocated": 60.0, "unused": 0.1, "own": 61.0, "pids": {11: 9.0}}
    assert kind(tried=20, free=9.5, **numbers) == "capacity"


def test_ones_own_process_under_a_number_of_the_host_is_not_another() -> None:
    event = explained(
        sentences(tried=1, total=24, free=0.2, allocated=22, unused=0.3, pids={2776126: 23.1})
    )
    assert event.kind == "capacity"
    assert event.numbers["other_processes_bytes"] == 0
    assert "Process 2776126 is this one" in event.explanation


def test_of_several_numbers_of_the_host_the_one_that_fits_is_ours() -> None:
    event = explained(
        sentences(tried=4, total=80, free=1, allocated=20, unused=0.5, pids={5: 57.0, 6: 21.5})
    )
    assert event.kind == "other_process"
    assert event.numbers["this_process_bytes"] == 43 * GIB // 2
    assert event.numbers["other_processes_bytes"] == 57 * GIB


def test_a_process_too_small_to_be_ours_is_another() -> None:
    event = explained(
        sentences(tried=4, total=80, free=1, allocated=40, unused=0.5, pids={5: 38.0})
    )
    assert event.kind == "other_process"
    assert "this_process_bytes" not in event.numbers


def test_memory_outside_the_allocator() -> None:
    event = explained(
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 40.00 GiB total capacity; 20.00 "
        "GiB already allocated; 1.00 GiB free; 21.00 GiB reserved in total by PyTorch)"
    )
    assert event.kind == "non_torch_memory"
    assert event.numbers["outside_torch_bytes"] == 18 * GIB
    assert event.numbers["reserved_unallocated_bytes"] == GIB
    assert kind(tried=2, total=40, free=1, allocated=25, unused=0.1, own=38.9) == (
        "non_torch_memory"
    )


def test_a_context_is_not_memory_outside_the_allocator() -> None:
    assert kind(tried=0.5, total=8, free=0.1, allocated=6.5, unused=0, own=7.8) == "capacity"


def test_the_limit_of_the_process() -> None:
    event = explained(
        sentences(tried=4, total=80, free=30, allocated=38, unused=0.5, own=39, allowed=40)
    )
    assert event.kind == "memory_limit"
    assert "40.00 GiB is allowed" in event.explanation
    assert "set_per_process_memory_fraction" in event.remedies[0]


def test_a_limit_that_was_not_reached_is_not_the_cause() -> None:
    numbers = {"total": 80.0, "free": 1.0, "allocated": 76.0, "unused": 0.5, "own": 77.0}
    assert kind(tried=4, allowed=82, **numbers) == "capacity"


def test_more_than_the_card_has() -> None:
    assert kind(tried=1, total=8, free=0, allocated=12, unused=0) == "shared_memory_fallback"
    event = explained("free_upper_bound + pytorch_used_bytes[device] <= device_total INTERNAL")
    assert event.kind == "shared_memory_fallback"


def test_a_request_larger_than_the_card() -> None:
    assert kind(tried=55, total=12, free=9, allocated=1, unused=0.5) == "impossible_request"
    assert explained("CUDA out of memory. Tried to allocate more than 1EB memory.").kind == (
        "impossible_request"
    )


@pytest.mark.parametrize(("free", "want"), [(2.05, "capacity"), (3.0, "free_but_failed")])
def test_free_but_failed_needs_clearly_more_than_asked_for(free: float, want: str) -> None:
    assert kind(tried=2, total=24, free=free, allocated=20, unused=0) == want


def test_what_was_cut_off_is_unknown() -> None:
    event = explained("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU")
    assert event.kind == "unknown"
    assert event.numbers == {"tried_bytes": 9 * GIB // 4}


def test_the_driver_and_host_memory() -> None:
    assert explained("RuntimeError: CUDA error: out of memory").kind == "driver_oom"
    killed = explained("DataLoader worker (pid 7) is killed by signal: Killed.")
    assert killed.kind == "memory_limit"
    assert "machine's memory, not the card's" in killed.explanation


def test_a_mention_counts_only_where_there_is_nothing_else() -> None:
    assert explained("RuntimeError: CUDA out of memory").kind == "unknown"
    real = sentences(tried=1, total=24, free=0.5, allocated=22, unused=0.75)
    assert explained(f"caught: CUDA out of memory\n{real}").kind == "capacity"


def test_word_for_word_repeats_are_one_event() -> None:
    one = sentences(tried=1, total=24, free=0.5, allocated=22, unused=0.75)
    event = explained(f"{one}\nDuring handling\n{one}\n{one}")
    assert (event.times, event.line) == (3, 1)
    assert len(explain_log([f"[rank0]: {one}\n[rank1]: {one}".encode()]).events) == 2


def test_beyond_a_thousand_different_ones_they_are_counted() -> None:
    lines = (
        sentences(tried=n / 1024, total=24, free=0, allocated=22, unused=0) + "\n"
        for n in range(1, MOST_EVENTS + 8)
    )
    found = explain_log([line.encode() for line in lines])
    assert len(found.events) == MOST_EVENTS
    assert found.events_left_out == 7


SIZES = st.integers(0, 90 * GIB).map(lambda number: number / GIB)


@settings(max_examples=300, deadline=None)
@given(
    numbers=st.fixed_dictionaries(
        {"tried": SIZES, "total": SIZES, "free": SIZES, "allocated": SIZES, "unused": SIZES},
        optional={
            "own": SIZES,
            "allowed": SIZES,
            "pids": st.dictionaries(st.integers(1, 1 << 22), SIZES, max_size=4),
        },
    )
)
def test_any_numbers_are_explained_and_survive_json(numbers: dict[str, Any]) -> None:
    found = explain_log([sentences(**numbers).encode()])
    (event,) = found.events
    assert event.explanation.endswith(".")
    assert event.remedies
    assert all(name.endswith("_bytes") and value >= 0 for name, value in event.numbers.items())
    assert "None" not in event.explanation
    content = encode(found)
    assert decode(content, Oom, origin="test") == found


def test_the_corpus_is_classified_as_its_labels_say(shared: Path) -> None:
    folder = shared / "corpus"
    outcome: Counter[str] = Counter()
    for line in (folder / "labels/oom.jsonl").read_bytes().splitlines():
        label = read_json(line, origin="label")
        events = explain_log([(folder / f"oom/{label['id']}.txt").read_bytes()]).events
        outcome["right" if events[0].kind in label["class"] else "wrong"] += 1
        for name, value in label["numbers"].items():
            assert abs(events[0].numbers[name] - value) <= max(1, value // 1000), label["id"]
    assert outcome["right"] >= 37
    assert outcome["wrong"] <= 1

"""Every wording of an out-of-memory message, whole, wrapped, prefixed and cut off."""

from __future__ import annotations

import random
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.allocator.oom_log import Located, find_messages
from envkit.allocator.oom_text import NOT_AVAILABLE_BYTES, Process

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAREN = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 11.17 GiB total capacity; "
    "10.50 GiB already allocated; 14.06 MiB free; 10.62 GiB reserved in total by PyTorch)"
)
HINT = (
    " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
    "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
)
SENTENCES = (
    "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity of 40.00 GiB of "
    "which 512.00 MiB is free. Process 4711 has 2.00 GiB memory in use. Including non-PyTorch "
    "memory, this process has 37.25 GiB memory in use. 38.00 GiB allowed; Of the allocated memory "
    "35.00 GiB is allocated by PyTorch, with 64.00 MiB allocated in private pools (e.g., CUDA "
    "Graphs), and 768.00 MiB is reserved by PyTorch but unallocated."
)
SENTENCE_SIZES = {
    "tried_bytes": 3 * GIB // 2,
    "total_bytes": 40 * GIB,
    "free_bytes": 512 * MIB,
    "allowed_bytes": 38 * GIB,
    "allocated_bytes": 35 * GIB,
    "private_pool_free_bytes": 64 * MIB,
    "reserved_unallocated_bytes": 768 * MIB,
}
ASYNC = (
    "Allocation on device 2 would exceed allowed memory. (out of memory)\n"
    "Currently allocated     : 5.00 GiB\nRequested               : 576.00 MiB\n"
    "Device limit            : 8.00 GiB\nFree (according to CUDA): 0 bytes\n"
    "PyTorch limit (set by user-supplied memory fraction)\n"
    "                        : 17179869184.00 GiB"
)
MPS = (
    "MPS backend out of memory (MPS allocated: 14.00 GiB, other allocations: 3.50 GiB, max "
    "allowed: 20.00 GiB). Tried to allocate 2.75 GiB on shared pool. Use "
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations."
)


def found(text: str) -> list[Located]:
    return list(find_messages([text.encode()]))


def only(text: str) -> Located:
    (located,) = found(text)
    return located


def sizes(text: str) -> dict[str, int]:
    return only(text).message.sizes


def test_the_parenthesised_form() -> None:
    message = only(f"RuntimeError: {PAREN}").message
    assert (message.device, message.backend, message.torch) == (1, "CUDA", "1.4 to 1.9")
    assert message.sizes == {
        "tried_bytes": 20 * MIB,
        "total_bytes": round(11.17 * GIB),
        "allocated_bytes": round(10.5 * GIB),
        "free_bytes": round(14.06 * MIB),
        "reserved_total_bytes": round(10.62 * GIB),
    }
    assert only(PAREN + HINT).message.torch == "1.10 to 2.0"


def test_cached_of_the_first_releases_is_the_unused_part() -> None:
    message = only(PAREN.replace("10.62 GiB reserved in total by PyTorch", "96.00 MiB cached"))
    assert message.message.sizes["reserved_unallocated_bytes"] == 96 * MIB
    assert "reserved_total_bytes" not in message.message.sizes
    assert message.message.torch == "1.0 to 1.3"


def test_the_form_of_sentences() -> None:
    message = only(SENTENCES).message
    assert message.sizes == SENTENCE_SIZES
    assert message.device == 3
    assert message.processes == (
        Process(pid=4711, used_bytes=2 * GIB),
        Process(pid=None, used_bytes=37 * GIB + GIB // 4),
    )


@pytest.mark.parametrize(
    ("change", "release"),
    [
        (("total capacity", "total capacty"), "2.1"),
        (("unallocated.", "unallocated. try PYTORCH_ALLOC_CONF=expandable_segments:True"), "2.10"),
        (("unallocated.", "unallocated. (https://docs.pytorch.org/docs/)"), "2.11 or newer"),
        (("unallocated.", "unallocated. cuda.html#environment-variables)"), "2.4 to 2.9"),
        (("unallocated.", "unallocated."), "2.4 or newer"),
    ],
)
def test_the_wording_tells_the_release(change: tuple[str, str], release: str) -> None:
    assert only(SENTENCES.replace(*change)).message.torch == release


@pytest.mark.parametrize("backend", ["CUDA", "HIP", "XPU", "NPU"])
def test_backends(backend: str) -> None:
    assert only(SENTENCES.replace("CUDA out", f"{backend} out")).message.backend == backend


def test_what_nvml_could_not_tell_is_no_size() -> None:
    text = SENTENCES.replace("37.25 GiB memory", "17179869184.00 GiB memory")
    assert Process(pid=None, used_bytes=None) in only(text).message.processes
    assert NOT_AVAILABLE_BYTES not in sizes(text).values()


def test_the_table_of_cuda_malloc_async() -> None:
    message = only(ASYNC).message
    assert message.form == "async"
    assert message.device == 2
    assert message.sizes == {
        "allocated_bytes": 5 * GIB,
        "tried_bytes": 576 * MIB,
        "total_bytes": 8 * GIB,
        "free_bytes": 0,
    }


def test_mps() -> None:
    message = only(MPS).message
    assert message.backend == "MPS"
    assert message.sizes == {
        "allocated_bytes": 14 * GIB,
        "other_allocations_bytes": 7 * GIB // 2,
        "allowed_bytes": 20 * GIB,
        "tried_bytes": 11 * GIB // 4,
    }


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("CUDA out of memory. Tried to allocate more than 1EB memory.", "absurd"),
        (
            (
                "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
                "per_process_memory_fraction limit. Requested size: 2.00 GiB"
            ),
            "rejected",
        ),
        ("RuntimeError: CUDA error: out of memory", "driver"),
        ("cuda runtime error (2) : out of memory at THCStorage.cu:58", "driver"),
        ("CUDA driver error: out of memory", "driver"),
        ("ncclUnhandledCudaError: Cuda failure 2 'out of memory'", "driver"),
        ("Unexpected error from cudaGetDeviceCount(). Error 2: out of memory", "driver"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublas`", "library"),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.", "host"),
        ("DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes.", "commit"),
        ("OSError: [WinError 1455] The paging file is too small", "commit"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.", "killed"),
        ("DataLoader worker (pid 12) is killed by signal: Bus error.", "shm"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0", "killed"),
        ("Memory cgroup out of memory: Killed process 77 (python)", "killed"),
        ("pytorch_used_bytes[device] <= device_total INTERNAL ASSERT FAILED", "async_assert"),
        ("RuntimeError: CUDA out of memory", "mention"),
    ],
)
def test_forms_without_the_numbers_of_the_card(text: str, form: str) -> None:
    assert only(text).message.form == form


@pytest.mark.parametrize(
    "text",
    ["", "all is well", "step 12: memory reserved 12.3 GiB", "except torch.OutOfMemoryError:"],
)
def test_other_text_has_no_message(text: str) -> None:
    assert found(text) == []


def test_one_failure_named_twice_is_one() -> None:
    text = "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in the manual"
    assert only(text).message.form == "driver"


@pytest.mark.parametrize("width", [20, 47, 80])
@pytest.mark.parametrize("prefix", ["", "# ", "> ", " | ", "ERROR 03-03 19:38:29 [core.py:708] "])
def test_wrapping_and_prefixes_change_nothing(width: int, prefix: str) -> None:
    lines = textwrap.wrap(SENTENCES, width)
    assert sizes("\n".join(prefix + line for line in lines)) == SENTENCE_SIZES


@pytest.mark.parametrize("width", [23, 33])
def test_a_terminal_may_wrap_inside_a_word(width: int) -> None:
    pieces = [SENTENCES[at : at + width] for at in range(0, len(SENTENCES), width)]
    text = "\r\n".join(pieces)
    assert sizes(text) == SENTENCE_SIZES


def test_colour_and_a_log_in_json_change_nothing() -> None:
    red = SENTENCES.replace("CUDA out", "\x1b[31mCUDA\x1b[0m out")
    assert sizes(red) == SENTENCE_SIZES
    assert sizes('{"message": "' + SENTENCES.replace(". ", ".\\n") + '"}') == SENTENCE_SIZES


@pytest.mark.parametrize(
    ("prefix", "source"),
    [
        ("[rank3]: ", "rank3"),
        ("> [rank0]: ", "rank0"),
        ("[default1]:", "default1"),
        ("[1,7]<stderr>:", "1,7"),
        ("(VllmWorkerProcess pid=67) ERROR 11-05 03:21:52 w.py:233] ", "VllmWorkerProcess pid=67"),
        ("(RayTrainWorker pid=9, ip=10.0.0.1) ", "RayTrainWorker pid=9, ip=10.0.0.1"),
        ("\x1b[36m(EngineCore_DP0 pid=39535)\x1b[0;0m ERROR ", "EngineCore_DP0 pid=39535"),
        ("4: ", "task 4"),
    ],
)
def test_the_worker_is_named(prefix: str, source: str) -> None:
    located = only(f"{prefix}torch.OutOfMemoryError: {SENTENCES}")
    assert located.source == source
    assert located.message.sizes == SENTENCE_SIZES


def test_lines_of_ranks_that_take_turns() -> None:
    first = textwrap.wrap(SENTENCES, 60)
    second = textwrap.wrap(SENTENCES.replace("1.50 GiB", "2.25 GiB"), 60)
    text = "\n".join(f"[rank0]: {a}\n[rank1]: {b}" for a, b in zip(first, second, strict=True))
    one, two = found(text)
    assert (one.source, two.source) == ("rank0", "rank1")
    assert one.message.sizes == SENTENCE_SIZES
    assert two.message.sizes == {**SENTENCE_SIZES, "tried_bytes": 9 * GIB // 4}


def test_several_messages_and_their_lines() -> None:
    text = f"start\n{PAREN}\nretry\n{SENTENCES}\nTraceback\n{ASYNC}\n\n{MPS}"
    assert [(each.line, each.message.form) for each in found(text)] == [
        (2, "tried"),
        (4, "tried"),
        (6, "async"),
        (14, "mps"),
    ]


def test_a_message_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    whole = list(SENTENCE_SIZES.items())
    for end in range(len("CUDA out of memory. Tried to allocate 1.50 GiB. "), len(SENTENCES)):
        read = list(sizes(SENTENCES[:end]).items())
        assert read == whole[: len(read)]


def test_a_message_that_was_cut_off_takes_nothing_from_the_next() -> None:
    one, two = found(f"{SENTENCES[:60]}\n{PAREN}")
    assert one.message.sizes == {"tried_bytes": 3 * GIB // 2}
    assert two.message.device == 1


def test_a_log_in_pieces_is_the_same_log() -> None:
    shuffle = random.Random(5)  # noqa: S311  (where a log is cut)
    noise = [f"step {step} loss {step * 7 % 13}" for step in range(3000)]
    lines = [*noise[:2000], f"[rank2]: {SENTENCES}", *noise[2000:], PAREN, *noise]
    log = "\n".join(lines).encode()
    want = list(find_messages([log]))
    assert [each.line for each in want] == [2001, 3002]
    for _ in range(20):
        cuts = sorted(shuffle.randrange(len(log)) for _ in range(shuffle.randrange(1, 40)))
        pieces = [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]
        assert [(m.line, m.message.sizes) for m in find_messages(pieces)] == [
            (m.line, m.message.sizes) for m in want
        ]


def test_a_dense_log_loses_nothing() -> None:
    lines = [f"[rank{n % 8}]: {PAREN.replace('20.00', f'{n}.00')}" for n in range(1, 2000)]
    log = "\n".join(lines).encode()
    pieces = [log[at : at + 10_007] for at in range(0, len(log), 10_007)]
    read = [(each.line, each.message.sizes["tried_bytes"]) for each in find_messages(pieces)]
    assert read == [(n, n * MIB) for n in range(1, 2000)]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_never_stops_the_reader(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from([PAREN + HINT, SENTENCES, ASYNC, MPS])).encode() * 2)
    for _ in range(data.draw(st.integers(0, 12))):
        at = data.draw(st.integers(0, len(text)))
        kind = data.draw(st.sampled_from(["cut", "insert", "repeat"]))
        if kind == "cut":
            del text[at : at + data.draw(st.integers(1, 40))]
        elif kind == "insert":
            text[at:at] = data.draw(st.binary(max_size=30))
        else:
            text[at:at] = text[at : at + 50]
    for located in find_messages([bytes(text)]):
        assert all(size >= 0 for size in located.message.sizes.values())


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=3000))
def test_anything_can_be_read(content: bytes) -> None:
    list(find_messages([content]))

"""What to do about an out-of-memory message, most likely first, with the commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from envkit.allocator.oom_class import Account, OomClass, is_fragmented
from envkit.allocator.oom_text import Message
from envkit.allocator.sizes import format_size

_WHO: Final = (
    "See who uses the card, and end what is yours: "
    "`nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv`"
)
_OTHER_CARD: Final = "Take another card: `export CUDA_VISIBLE_DEVICES=1` (before Python starts)."
_SMALLER: Final = (
    "Lower the batch size, the sequence length or the resolution; gradient accumulation keeps the "
    "effective batch: `loss = loss / steps; loss.backward()`, and `optimizer.step()` every `steps`."
)
_BF16: Final = (
    'Compute in bfloat16: `with torch.autocast("cuda", dtype=torch.bfloat16):` around the forward '
    "pass and the loss."
)
_CHECKPOINT: Final = (
    "Recompute activations instead of keeping them: "
    "`torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)`."
)
_NO_GRAD: Final = (
    "Evaluate without a graph (`with torch.inference_mode():`), and keep numbers, not tensors "
    "with their graph: `total += loss.item()`."
)
_REPLAY: Final = (
    "Find the setting that is enough before the next run: record a snapshot "
    "(`torch.cuda.memory._record_memory_history()`, at the failure "
    '`torch.cuda.memory._dump_snapshot("snapshot.pickle")`), then '
    "`envkit memory replay snapshot.pickle`."
)
_SERVE: Final = (
    "A serving engine: lower what it keeps room for, `--max-model-len`, `--max-num-seqs` or "
    "`--gpu-memory-utilization` (vLLM), `--mem-fraction-static` (SGLang)."
)
_NO_FALLBACK: Final = (
    "Switch the fallback off, so that it fails early and runs fast: NVIDIA Control Panel, Manage "
    "3D settings, CUDA - Sysmem Fallback Policy: Prefer No Sysmem Fallback."
)
_SHM: Final = (
    "Give the container more shared memory: `docker run --shm-size=8g ...` or `--ipc=host`."
)
_HOST_MEMORY: Final = (
    "See what the job may use and used: "
    "`cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.peak`; ask for more "
    "(`--mem` in Slurm, `docker run --memory`)."
)
_WORKERS: Final = (
    "Lower `num_workers` and `prefetch_factor` of the DataLoader, and load the data set lazily."
)
_STEPS: Final = (_SMALLER, _BF16, _CHECKPOINT, _NO_GRAD)

_OF_FORM: Final[dict[str, tuple[str, ...]]] = {
    "absurd": (
        (
            "Print the shapes and lengths that go into the failing line of the traceback; one of "
            "them is negative, uninitialised or overflowed."
        ),
    ),
    "rejected": (
        (
            "Raise the share, or remove it: `torch.cuda.set_per_process_memory_fraction(1.0)`, or "
            "`per_process_memory_fraction` in PYTORCH_CUDA_ALLOC_CONF."
        ),
        *_STEPS,
    ),
    "async_assert": (
        _NO_FALLBACK,
        "Use torch's own allocator: `export PYTORCH_CUDA_ALLOC_CONF=backend:native`.",
        *_STEPS,
    ),
    "killed": (_HOST_MEMORY, _WORKERS),
    "shm": (_SHM, _WORKERS),
    "commit": (
        (
            "Enlarge the page file (System, Advanced, Performance, Virtual memory), at least to "
            "the size of the card's memory."
        ),
        _WORKERS,
    ),
    "host": (
        (
            "Compare what was asked for with what there is: `free -h`. A tensor meant for the card "
            'should be created there: `torch.empty(shape, device="cuda")`.'
        ),
        _HOST_MEMORY,
        _WORKERS,
    ),
}


def remedies(message: Message, sums: Account, kind: OomClass, source: str = "") -> tuple[str, ...]:
    """Return what to do, most likely first; each is a sentence with its command or code."""
    if message.form in _OF_FORM:
        return _OF_FORM[message.form]
    if message.backend == "MPS":
        return _for_mps(kind)
    return tuple(dict.fromkeys(step for step in _BY_CLASS[kind](message, sums, source) if step))


def _setting(message: Message) -> str:
    """Return the allocator setting against fragmentation that the release has."""
    if message.torch.startswith("1.") or message.form == "async":
        return (
            "Keep large blocks whole: `export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128`; "
            "better, update to torch 2.1 or newer and use expandable_segments:True."
        )
    return (
        "Let segments grow in place (Linux): "
        "`export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before Python starts."
    )


def _capacity(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    share = sums.unallocated is not None and sums.unallocated * 10 > (sums.reserved or 0)
    return (
        _WHO if sums.others and sums.tried is not None and _others_suffice(sums) else "",
        _serving(source),
        *_STEPS,
        _setting(message) if share else "",
        _REPLAY if share else "",
    )


def _others_suffice(sums: Account) -> bool:
    return sums.others + (sums.free or 0) >= (sums.tried or 0)


def _serving(source: str) -> str:
    served = ("vllm", "enginecore", "worker_tp", "sglang", "scheduler")
    return _SERVE if source.lower().startswith(served) else ""


def _fragmentation(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del sums
    return (
        _setting(message),
        (
            "Avoid shapes that change from step to step: pad to a few lengths, or run the largest "
            "batch first."
        ),
        _REPLAY,
        _serving(source),
        _SMALLER,
    )


def _other_process(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del message, sums
    return (_WHO, _OTHER_CARD, _serving(source), _SMALLER)


def _non_torch(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del source
    return (
        _WHO,
        _OTHER_CARD if sums.own is None else "",
        (
            "Look for what allocates outside torch in this process: a second framework (TensorFlow "
            "takes the whole card unless told otherwise), NCCL, cuDNN or TensorRT workspaces, CUDA "
            "graphs, a context that each worker process opens."
        ),
        _setting(message) if is_fragmented(sums) else "",
        _SMALLER,
    )


def _limit(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    return (
        (
            "Raise the limit: `torch.cuda.set_per_process_memory_fraction(1.0)`, or "
            "`per_process_memory_fraction` in PYTORCH_CUDA_ALLOC_CONF; somebody set it to share "
            "the card."
        ),
        _setting(message) if is_fragmented(sums) else "",
        _serving(source),
        *_STEPS,
    )


def _fallback(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del message, source
    room = format_size(sums.total) if sums.total is not None else "what the card has"
    return (
        (
            f"Bring the use below {room}: lower the batch size or the resolution, or take a "
            "smaller or quantised model."
        ),
        _NO_FALLBACK,
        _BF16,
        _CHECKPOINT,
    )


def _impossible(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del message, sums, source
    return (
        (
            "Print the shapes in the failing line of the traceback: a batch that is the whole data "
            "set, an attention matrix (length squared), a one-hot or pairwise table are the "
            "usual ones."
        ),
        (
            "Compute it in pieces (`for part in x.split(1024):`), or use a form that never "
            "builds it: `torch.nn.functional.scaled_dot_product_attention`."
        ),
        _SMALLER,
    )


def _free_but_failed(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del message, sums, source
    return (
        "Watch the card while it starts; a neighbour may come and go: `nvidia-smi -l 1`.",
        (
            "On Windows: enlarge the page file, at least to the card's memory; the driver commits "
            "there what it gives out."
        ),
        "In a container, a MIG slice or a vGPU: see what it may use (`nvidia-smi -q -d MEMORY`).",
        "Update the driver: `envkit verify` says whether it is one with known faults.",
    )


def _driver(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del message, sums, source
    return (
        _WHO,
        "Let envkit try the card: `envkit verify --device cuda` (driver, context, allocation).",
        (
            "If it happens at the first use: look for a zombie of an earlier run, too many worker "
            "processes (each opens a context of some hundred MiB), or a limit on locked memory for "
            "pinned buffers (`ulimit -l`)."
        ),
        "Find the true place of the failure: `CUDA_LAUNCH_BLOCKING=1 python ...`.",
    )


def _unknown(message: Message, sums: Account, source: str) -> tuple[str, ...]:
    del message, sums
    return (
        (
            'Get the whole message, to the end of the sentence with "reserved", from the log: '
            "`grep -A3 'out of memory' train.log | envkit oom -`."
        ),
        _WHO,
        _serving(source),
        _SMALLER,
    )


def _for_mps(kind: OomClass) -> tuple[str, ...]:
    limit = (
        "Raise the limit with care, the whole system shares this memory: "
        "`export PYTORCH_MPS_HIGH_WATERMARK_RATIO=1.0`; 0.0 removes it and can freeze the machine."
    )
    steps = (_SMALLER, _BF16.replace("cuda", "mps"), _NO_GRAD)
    return steps if kind == "impossible_request" else (*steps, limit)


_BY_CLASS: Final[dict[OomClass, Callable[[Message, Account, str], tuple[str, ...]]]] = {
    "capacity": _capacity,
    "fragmentation": _fragmentation,
    "other_process": _other_process,
    "non_torch_memory": _non_torch,
    "memory_limit": _limit,
    "shared_memory_fallback": _fallback,
    "impossible_request": _impossible,
    "free_but_failed": _free_but_failed,
    "driver_oom": _driver,
    "unknown": _unknown,
}

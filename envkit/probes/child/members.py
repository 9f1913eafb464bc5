"""The names in the suites, and which of their values need not repeat: tables, no logic.

What "measured" means below: FINGERPRINT.md, two H200 with torch 2.11.0+cu130. A change of anything
in this file that changes a probe's meaning is a new VERSION.
"""

from __future__ import annotations

from typing import Dict, Tuple

#: 2 added the GPT, what options and lifetimes do, more numerics, and the suite `full`. No probe of
#: version 1 changed its meaning.
VERSION = 2

ALLOCATOR, TENSORS, WORKSPACES = "allocator", "tensors", "workspaces"
PEAKS, NUMERICS, CONTEXT = "peaks", "numerics", "context"

Names = Tuple[str, ...]

#: Measured: counters of fixed exercises were identical in 204 traces on two machines.
EXERCISES = (
    "five_tensors",
    "size_ladder",
    "checkerboard",
    "small_checkerboard",
    "empty_cache",
    "memory_limit",
    "streams",
    "random_trace",
)

#: Part of a workload -> its layer.
LAYER_OF: Dict[str, str] = {
    "tensors": TENSORS,
    "workspaces": WORKSPACES,
    "held": TENSORS,
    # Tensors and workspaces in one: what torch.compile and graphs ask for passes the dispatcher by.
    "requests": WORKSPACES,
    "peaks": PEAKS,
    "losses": NUMERICS,
    "weights": NUMERICS,
    "outputs": NUMERICS,
}

_TRAINING = ("tensors", "workspaces", "peaks", "losses", "weights")
_WHOLE = ("requests", "peaks", "losses", "weights")
_OTHER_PARTS: Dict[str, Names] = {
    "options.inference": ("tensors", "workspaces", "peaks", "outputs"),
    "lifetimes.leak": ("tensors", "workspaces", "held", "peaks"),
    "lifetimes.optimizer": ("tensors", "workspaces", "held", "peaks"),
    "lifetimes.moved": ("tensors", "workspaces", "held", "peaks", "outputs"),
    "compiled.gpt": _WHOLE,
    "graphs.gpt": _WHOLE,
    "quantised.vit": ("requests", "peaks", "outputs"),
    "sharded.gpt": ("requests", "peaks", "losses"),
}


def parts(workload: str) -> Names:
    """Return the parts of a workload."""
    return _OTHER_PARTS.get(workload, _TRAINING)


#: Measured peaks were usually identical and could differ by a 2..20 MiB segment between processes.
UNSTEADY_PARTS = ("peaks",)

#: Measured on the CPU: gloo gives its buffers back from threads of its own, earlier or later.
UNSTEADY_REQUESTS = ("sharded.gpt",)

#: Measured: fp32 attention's backward differed in every run at batch 8 and 16 (atomics).
#: What torch.compile makes of a model was not measured.
UNSTEADY_BITS: Dict[str, Names] = {
    "cuda": ("vit.fp32", "gpt.fp32", "compiled.gpt"),
    "cpu": (),
}

#: What was not yet seen to repeat may not accuse a machine: now what needs two GPUs. Gradients of a
#: convolution and of attention alone, and linear algebra, were the same in all processes on an H200
#: (2026-12-01).
UNMEASURED: Dict[str, Names] = {
    "cuda": ("sharded.gpt",),
    "cpu": (),
}

#: Parts of the all-reduce, and the one whose value depends on how many ranks there are: it only
#: says whether it repeats.
COLLECTIVES = ("fp32", "bf16", "rounding")
OF_MANY_RANKS = ("rounding",)

#: What is measured in another child than its name says: torch's checkpointing imports
#: torch._dynamo, which can take longer than all the other options together.
FAMILY_OF: Dict[str, str] = {"options.checkpointing": "checkpointing"}

QUICK_WORKLOADS = ("vit.bf16", "resnet.fp32")
WORKLOADS = (
    *("vit.fp32", "vit.bf16", "resnet.fp32", "resnet.bf16", "gpt.bf16"),
    *("options.fp16", "options.accumulation", "options.checkpointing"),
    *("options.channels_last", "options.inference"),
    *("lifetimes.leak", "lifetimes.optimizer", "lifetimes.moved"),
)
FULL_WORKLOADS = (
    *WORKLOADS,
    *("vit.fp16", "vit.accumulation", "vit.checkpointing"),
    *("resnet.fp16", "resnet.channels_last", "options.zeroed_gradients"),
    *("gpt.fp32", "gpt.fp16", "gpt.checkpointing"),
    *("large.vit", "large.resnet", "large.gpt"),
    *("compiled.gpt", "graphs.gpt", "quantised.vit", "sharded.gpt"),
)

#: What these need may lawfully be missing where all else is there (a compiler, torchao, a card with
#: much memory, a second GPU). Each has a digest of its own, and none has a part in its layer's.
OPTIONAL = (
    *("large.vit", "large.resnet", "large.gpt"),
    *("compiled.gpt", "graphs.gpt", "quantised.vit", "matmul.int8", "sharded.gpt"),
)

QUICK_NUMERICS = (
    "matmul.fp32",
    "matmul.bf16",
    "linear.bf16",
    "conv2d",
    "sdpa.math",
    "sdpa.flash",
    "reductions",
    "random.cpu",
    "random.device",
)
#: Measured to repeat: all of them, in every one of 26 processes on five H200 that ran them
#: (tests/data/h200/standard-2-repeats.json).
ALL_NUMERICS = (
    "matmul.fp64",
    "matmul.fp32",
    "matmul.tf32",
    "matmul.bf16",
    "matmul.fp16",
    "matmul.batched",
    "linear.bf16",
    "conv2d",
    "conv2d.bf16",
    "conv2d.fp16",
    "conv2d.backward",
    "sdpa.math",
    "sdpa.math.backward",
    "sdpa.flash",
    "sdpa.efficient",
    "sdpa.cudnn",
    "sdpa.causal",
    "reductions",
    "reductions.bf16",
    "pointwise",
    "normalised",
    "fourier",
    "random.cpu",
    "random.device",
    "random.dropout",
    "linalg",
    "linalg.fp32",
)
FULL_NUMERICS = (*ALL_NUMERICS, "matmul.int8")

#: What a kind of device never has; it is no member there.
NOT_ON: Dict[str, Names] = {
    # Nothing moves from the CPU to the CPU; fp16 convolutions are not in every torch for the CPU.
    "cpu": (
        *("sdpa.efficient", "sdpa.cudnn", "matmul.tf32", "conv2d.fp16", "matmul.int8"),
        *("lifetimes.moved", "graphs.gpt"),
    ),
    "cuda": (),
}

"""The strategies that are measured, and what each is compared with. Needs no torch."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

MIB = 1 << 20


class Strategy(NamedTuple):
    """One way to run a workload."""

    name: str
    kind: str
    """How it is measured: `train`, `infer`, `encode`, `load`, `call` (`measure.py`), or by all
    ranks together: `shard` (`shard.py`)."""
    against: str
    """Name of the strategy that it is compared with; empty for a reference."""
    changes: Dict[str, Any]
    """What is not as in a plain fp32 training."""
    conf: str = ""
    """Allocator settings to run under."""
    in_effect: Optional[Dict[str, Any]] = None
    """What torch must say of its settings then."""
    other_samples: bool = False
    """Whether it trains on other samples, so that results mean nothing beside the reference's."""


_EXPANDABLE = ("expandable_segments:True", {"expandable_segments": True})
_SPLIT = ("max_split_size_mb:128", {"max_split_size": 128 * MIB})
_COLLECT = ("garbage_collection_threshold:0.6", {"garbage_collection_threshold": 0.6})


def _settings(kind: str, against: str, changes: Dict[str, Any]) -> List[Strategy]:
    named = (
        ("expandable-segments", _EXPANDABLE),
        ("max-split-size", _SPLIT),
        ("garbage-collection", _COLLECT),
    )
    return [
        Strategy(name, kind, against, changes, conf, in_effect) for name, (conf, in_effect) in named
    ]


#: For the workloads of this package. Allocator settings matter where requests change, so they are
#: compared on a training whose batches change.
STRATEGIES = [
    Strategy("baseline", "train", "", {}),
    Strategy("smaller-batch", "train", "baseline", {"batch_share": 0.5}, other_samples=True),
    Strategy("accumulation", "train", "baseline", {"accumulation": 4}),
    Strategy("autocast-bf16", "train", "baseline", {"autocast": "bf16"}),
    Strategy("autocast-fp16", "train", "baseline", {"autocast": "fp16"}),
    Strategy("checkpointing", "train", "baseline", {"checkpointing": True}),
    Strategy("channels-last", "train", "baseline", {"channels_last": True}),
    Strategy("compile", "train", "baseline", {"compile": True}),
    Strategy("zeroed-gradients", "train", "", {"set_to_none": False}),
    Strategy("set-to-none", "train", "zeroed-gradients", {}),
    Strategy("adamw", "train", "", {"optimizer": "adamw"}),
    Strategy("adamw-8bit-bitsandbytes", "train", "adamw", {"optimizer": "bitsandbytes"}),
    Strategy("adamw-8bit-torchao", "train", "adamw", {"optimizer": "torchao"}),
    Strategy("sharding", "shard", "adamw", {"optimizer": "adamw"}),
    Strategy("inference-with-gradients", "infer", "", {"gradients": True}),
    Strategy("no-grad", "infer", "inference-with-gradients", {}),
    Strategy("encoder-stays", "encode", "", {}),
    Strategy("encoder-offloaded", "encode", "encoder-stays", {"offload": True}),
    Strategy("eager-dataset", "load", "", {}),
    Strategy("lazy-dataset", "load", "eager-dataset", {"lazy": True}),
    Strategy("changing-batches", "train", "", {"changing": True}),
    *_settings("train", "changing-batches", {"changing": True}),
]

#: For a step of the user's own: what acts on it from outside.
CALL_STRATEGIES = [
    Strategy("baseline", "call", "", {}),
    Strategy("smaller-batch", "call", "baseline", {"batch_share": 0.5}, other_samples=True),
    Strategy("autocast-bf16", "call", "baseline", {"autocast": "bf16"}),
    *_settings("call", "baseline", {}),
]

#: Workload name to its batch where none is asked for, on a GPU.
BATCHES = {"vit-b16": 16, "resnet50": 32, "gpt-small": 8}
#: Workload name to what stands for it on the CPU, with its batch.
ON_CPU = {"vit-b16": "vit-tiny", "resnet50": "resnet-tiny", "gpt-small": "gpt-tiny"}
CPU_BATCH = 4


def strategies_of(kind: str) -> List[Strategy]:
    """Return the strategies for `workload` or for `call`."""
    return CALL_STRATEGIES if kind == "call" else STRATEGIES

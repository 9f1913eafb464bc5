"""Ranks on one machine: a forked child for each, joined by torch.distributed.

On the CPU two ranks over gloo; on CUDA one for each GPU over NCCL. NVLink multicast (NVLS) is off:
it needs a fabric that many machines lend only in part. No port is opened: ranks meet by a file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional

from .. import torch_api
from ..fork import can_fork, run_jobs
from ..jobs import Job, Result
from ..place import Place, Unmet

CPU_RANKS = 2
LIMIT_S = 120.0
#: One rank that fails would leave the others waiting: for less than the limit of all.
MEETING_S = 60.0


def run_ranks(
    device: str,
    function: "Callable[[Dict[str, Any], Any], Any]",
    args: "Dict[str, Any]",
    emit: Any,
    *,
    most: Optional[int] = None,
) -> "List[Any]":
    """Run a job in every rank and return what each gave; this process never touches CUDA.

    `function(args, emit)` stands at the top level of a module; to `args` are added `rank`, `world`,
    `device_kind` and `folder`, which `joined` wants. `most`: of more GPUs the first are taken.

    Raises:
        Unmet: there can be no two ranks here, and why.
        RuntimeError: a rank failed.

    """
    world = _world(device, emit)
    if most is not None:
        world = min(world, most)
    kind = device.split(":", maxsplit=1)[0]
    folder = tempfile.mkdtemp(prefix="envkit-ranks-")
    try:
        jobs = [
            Job(
                "rank {}".format(rank),
                function,
                dict(args, rank=rank, world=world, device_kind=kind, folder=folder),
                LIMIT_S,
            )
            for rank in range(world)
        ]
        return [_value(result) for result in run_jobs(jobs, emit, {}, world)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _value(result: Result) -> Any:
    if result.ok:
        return result.value
    if result.error.get("type") == "Unmet":
        raise Unmet(str(result.error.get("message")))
    message = "{}: {}".format(result.name, result.reason)
    raise RuntimeError(message)


def _world(device: str, emit: Any) -> int:
    """Return how many ranks there can be.

    Raises:
        Unmet: fewer than two.

    """
    if not can_fork():
        message = "ranks are forked, and this system or process cannot fork"
        raise Unmet(message)
    if device == "cpu":
        return CPU_RANKS
    if device != "cuda:0":
        message = "what spans all GPUs is measured with the first one"
        raise Unmet(message)
    # Asked in a child: the question itself would keep CUDA from starting in forks made later.
    count = int(_value(run_jobs([Job("count", count_gpus, {}, LIMIT_S)], emit, {})[0]))
    if count < CPU_RANKS:
        message = "torch sees one GPU, and a group of one rank tests nothing"
        raise Unmet(message)
    return count


def count_gpus(_args: "Dict[str, Any]", _emit: Any) -> int:
    """Job: the number of GPUs that torch sees."""
    import torch

    return int(torch.cuda.device_count())


@contextlib.contextmanager
def joined(args: "Dict[str, Any]") -> "Iterator[Place]":
    """Make this process a rank of its group, and give its device.

    Raises:
        Unmet: this torch cannot.

    """
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        message = "this torch is built without torch.distributed"
        raise Unmet(message)
    on_gpu = args["device_kind"] == "cuda"
    if on_gpu and not dist.is_nccl_available():
        message = "this torch is built without NCCL"
        raise Unmet(message)
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    if sys.platform.startswith("linux"):
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    place = Place(torch, torch_api, "cuda:{}".format(args["rank"]) if on_gpu else "cpu")
    if on_gpu:
        torch.cuda.set_device(place.index)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=dist.FileStore(os.path.join(args["folder"], "meeting"), args["world"]),
        rank=args["rank"],
        world_size=args["world"],
        timeout=dt.timedelta(seconds=MEETING_S),
    )
    try:
        yield place
    finally:
        dist.destroy_process_group()

"""Claims about what a program's habits do to memory: caches, loops, lists, processes, cells."""

from __future__ import annotations

import tempfile
from array import array
from pathlib import Path
from typing import Any

import torch
from articles_lab import Figures, Lab, adam, host_bytes, saved, sgd, share

MIB = 1 << 20


def reserved_after_del(lab: Lab) -> Figures:
    """Five tensors of 2000 x 2000 made and dropped: what is reserved then, and after the flush."""
    side = lab.size(2000, 20)
    for _ in range(5):
        made = torch.randn(side, side, device=lab.device)
        del made
    after = lab.reserved()
    lab.clean()
    return {"reserved_after_bytes": after, "reserved_after_empty_cache_bytes": lab.reserved()}


def same_twice(lab: Lab) -> Figures:
    """Three steps of ResNet-50: counters, to be compared with those of another process."""
    model = lab.resnet()
    optimizer = sgd(model)
    for _ in range(3):
        lab.step(model, optimizer, lab.images(lab.size(16, 2)))
    names = ("allocation.all.allocated", "allocated_bytes.all.allocated", "segment.all.peak")
    counters = {name.replace(".", "_"): lab.counter(name) for name in names}
    return {**lab.peaks(), **counters}


def process_end(lab: Lab) -> Figures:
    """Take memory, drop it, flush: what the driver has left at each moment."""
    at_start = lab.driver_free()
    held = torch.empty(lab.size(2048, 1) * MIB, dtype=torch.uint8, device=lab.device)
    held_bytes = held.nbytes
    holding = lab.driver_free()
    del held
    after_del = lab.driver_free()
    lab.clean()
    return {
        "free_at_start_bytes": at_start,
        "held_bytes": held_bytes,
        "free_while_held_bytes": holding,
        "free_after_del_bytes": after_del,
        "free_after_empty_cache_bytes": lab.driver_free(),
    }


def empty_cache_in_a_loop(lab: Lab) -> Figures:
    """ResNet-50, every step followed by `empty_cache()` or not: time, segments, split memory."""
    plain, flushed = _looped(lab, flush=False), _looped(lab, flush=True)
    figures = {f"plain_{name}": value for name, value in plain.items()}
    figures |= {f"flushed_{name}": value for name, value in flushed.items()}
    figures["times_slower"] = share(flushed["step_s"], plain["step_s"])
    return figures


def _looped(lab: Lab, *, flush: bool) -> Figures:
    model = lab.resnet()
    optimizer = sgd(model)
    batch = lab.images(lab.size(32, 2))
    lab.clean()

    def once() -> None:
        lab.step(model, optimizer, batch)
        if flush and lab.is_cuda:
            torch.cuda.empty_cache()

    before = lab.counter("num_device_alloc")
    steps = lab.size(20, 1)
    took = lab.seconds(once, steps)
    return {
        "step_s": took,
        "device_allocations_a_step": (lab.counter("num_device_alloc") - before) / (steps + 1),
        "inactive_split_peak_bytes": lab.counter("inactive_split_bytes.all.peak"),
        "peak_reserved_bytes": lab.counter("reserved_bytes.all.peak"),
    }


def reserved_grows(lab: Lab) -> Figures:
    """ResNet-50: reserved after the first step and after twelve, images of one size or of many."""
    figures: Figures = {}
    for way in ("same", "varying"):
        model = lab.resnet()
        optimizer = sgd(model)
        lab.clean()
        after = []
        for step in range(lab.size(12, 3)):
            side = 160 if way == "same" else 160 + 16 * step
            lab.step(model, optimizer, lab.images(lab.size(16, 2), side))
            after.append(lab.reserved())
        peak = lab.counter("allocated_bytes.all.peak")
        figures |= {
            f"{way}_first_bytes": after[0],
            f"{way}_last_bytes": after[-1],
            f"{way}_times": share(after[-1], after[0]),
            f"{way}_peak_allocated_bytes": peak,
            f"{way}_last_over_peak_allocated": share(after[-1], peak),
        }
        del model, optimizer
    return figures


def accumulation_results(lab: Lab) -> Figures:
    """Gradients of batch 16 against four times batch 4: a model without and one with BatchNorm."""
    figures: Figures = {}
    for name, build in (("vit", lab.vit), ("resnet", lab.resnet)):
        model, batch = build(), lab.images(lab.size(16, 4))
        whole = _gradients(lab, model, [batch])
        parts = list(zip(batch[0].chunk(4), batch[1].chunk(4), strict=True))
        pieces = _gradients(lab, model, parts)
        figures[f"{name}_gradient_difference"] = share(
            float((whole - pieces).norm()), float(whole.norm())
        )
    return figures


def _gradients(lab: Lab, model: Any, batches: list[Any]) -> Any:
    for batch in batches:
        (lab.loss(model, batch) / len(batches)).backward()
    found = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).double()
    for parameter in model.parameters():
        parameter.grad = None
    return found


def undetached_losses(lab: Lab) -> Figures:
    """ViT-B/16, losses kept in a list: with their graph, after backward, and as numbers."""
    model, batch, steps = lab.vit(), lab.images(lab.size(4, 2)), lab.size(6, 2)
    ways = {"kept_with_graph": (False, False), "kept_after_backward": (True, False),
            "as_numbers": (False, True)}  # fmt: skip
    figures: Figures = {"steps": steps}
    for name, (backward, number) in ways.items():
        kept: list[Any] = []
        grown = 0
        for step in range(steps + 1):
            loss = lab.loss(model, batch)
            if backward:
                loss.backward()
            kept.append(loss.item() if number else loss)
            del loss
            grown = lab.allocated() if not step else grown
        figures[f"{name}_a_step_bytes"] = (lab.allocated() - grown) / steps
        kept.clear()
        for parameter in model.parameters():
            parameter.grad = None
        lab.clean()
    return figures


def item_or_detach(lab: Lab) -> Figures:
    """Read a loss by `.item()`, by `.detach().cpu()`, or keep it on the device as `.detach()`."""
    loss = torch.ones((), device=lab.device, requires_grad=True) * 2
    repeats = lab.size(500, 5)

    def many(read: Any) -> list[Any]:
        return [read() for _ in range(repeats)]

    before = lab.allocated()
    kept = many(lambda: loss.detach().clone())
    grown = (lab.allocated() - before) / repeats
    kept = []
    before = lab.allocated()
    kept += many(lambda: loss.detach().cpu())
    grown_cpu = (lab.allocated() - before) / repeats
    return {
        "item_s": lab.seconds(lambda: many(loss.item), 5) / repeats,
        "detach_cpu_s": lab.seconds(lambda: many(lambda: loss.detach().cpu()), 5) / repeats,
        "kept_on_device_bytes": grown,
        "kept_on_cpu_device_bytes": grown_cpu,
    }


def eager_or_lazy(lab: Lab) -> Figures:
    """Read a data set whole or image by image: memory of the process, time of a pass."""
    count, side = lab.size(512, 4), lab.size(224, 8)
    nbytes = 3 * side * side * 4
    figures: Figures = {"images": count, "file_bytes": count * nbytes}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "images")
        image = array("f", torch.randn(3 * side * side).tolist()).tobytes()  # without NumPy
        with path.open("wb") as file:
            for _ in range(count):
                file.write(image)
        start = host_bytes()
        seconds = lab.seconds(lambda: [one.sum() for one in _lazily(path, count, nbytes)], 3)
        figures |= {"lazy_grown_bytes": host_bytes() - start, "lazy_pass_s": seconds}
        start = host_bytes()
        every = list(_lazily(path, count, nbytes))
        figures["eager_grown_bytes"] = host_bytes() - start
        figures["eager_pass_s"] = lab.seconds(lambda: [one.sum() for one in every], 3)
    figures["grown_saved"] = saved(figures["lazy_grown_bytes"], figures["eager_grown_bytes"])
    return figures


def _lazily(path: Path, count: int, nbytes: int) -> Any:
    with path.open("rb") as file:
        for _ in range(count):
            yield torch.frombuffer(bytearray(file.read(nbytes)), dtype=torch.float32)


def notebook_cells(lab: Lab) -> Figures:
    """Run the cell that makes and trains ViT-B/16 four times, its last value shown or not."""
    figures: Figures = {}
    for way in ("rebound", "shown"):
        names: dict[str, Any] = {}
        shown: list[Any] = []
        lab.clean()
        for run in range(1, lab.size(4, 2) + 1):
            if lab.is_cuda:
                torch.cuda.reset_peak_memory_stats()
            _cell(lab, names)
            if way == "shown":  # as a notebook's Out[] keeps what a cell ends with
                shown.append(names["logits"])
            which = "first" if run == 1 else "last"
            figures[f"{way}_{which}_allocated_bytes"] = lab.allocated()
            figures[f"{way}_{which}_peak_bytes"] = lab.counter("allocated_bytes.all.peak")
        names.clear()
        shown.clear()
    lab.clean()
    figures["left_after_clearing_bytes"] = lab.allocated()
    return figures


def _cell(lab: Lab, names: dict[str, Any]) -> None:
    names["model"] = lab.vit()
    names["optimizer"] = adam(names["model"])
    names["batch"] = lab.images(lab.size(8, 2))
    lab.step(names["model"], names["optimizer"], names["batch"])
    names["logits"] = names["model"](names["batch"][0])

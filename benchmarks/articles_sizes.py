"""Claims about how much memory a model, a batch or a precision takes."""

from __future__ import annotations

from typing import Any

import torch
from articles_lab import Figures, Lab, adam, saved, sgd, share


def resnet_activations(lab: Lab) -> Figures:
    """ResNet-50, batch 64: what the forward pass leaves, and the peaks with the backward pass."""
    model, batch = lab.resnet(), lab.images(lab.size(64, 2))
    lab.clean()
    before = lab.allocated()
    loss = lab.loss(model, batch)
    activations = lab.allocated() - before
    loss.backward()
    return {"batch": len(batch[0]), "activation_bytes": activations, **lab.peaks()}


def resnet_adam(lab: Lab) -> Figures:
    """ResNet-50 with Adam: peaks of two steps, by batch."""
    figures: Figures = {}
    sizes = {"small": lab.size(64, 2), "middle": lab.size(96, 3), "large": lab.size(128, 4)}
    for name, batch in sizes.items():
        model = lab.resnet()
        optimizer = adam(model)
        lab.clean()
        for _ in range(2):
            lab.step(model, optimizer, lab.images(batch))
        figures[f"{name}_batch"] = batch
        figures |= {f"{name}_{key}": value for key, value in lab.peaks().items()}
        del model, optimizer
    return figures


def vit_per_image(lab: Lab) -> Figures:
    """ViT-B/16 with Adam: what one more image in the batch costs."""
    small, large = lab.size(8, 2), lab.size(16, 4)
    peaks = [_vit_peak(lab, batch, 1) for batch in (small, large)]
    return {
        "small_batch": small,
        "large_batch": large,
        "small_batch_peak_bytes": peaks[0],
        "large_batch_peak_bytes": peaks[1],
        "per_image_bytes": (peaks[1] - peaks[0]) / (large - small),
    }


def accumulation_memory(lab: Lab) -> Figures:
    """ViT-B/16 with Adam: four times batch 4 against batch 16."""
    small = lab.size(4, 1)
    whole, parts = _vit_peak(lab, 4 * small, 1), _vit_peak(lab, small, 4)
    return {
        "batch": 4 * small,
        "whole_peak_bytes": whole,
        "accumulated_peak_bytes": parts,
        "share_of_whole": share(parts, whole),
    }


def _vit_peak(lab: Lab, batch: int, parts: int) -> int:
    model = lab.vit()
    optimizer = adam(model)
    lab.clean()
    for _ in range(2):
        for _ in range(parts):
            (lab.loss(model, lab.images(batch)) / parts).backward()
        optimizer.step()
        optimizer.drop_gradients()
    return lab.counter("allocated_bytes.all.peak")


def autocast(lab: Lab) -> Figures:
    """Bfloat16 autocast: activations, peak and time of a step against float32 and TF32."""
    figures: Figures = {}
    models = (("resnet", lab.resnet, sgd, lab.size(64, 2)), ("vit", lab.vit, adam, lab.size(16, 2)))
    for name, build, optimizer, batch in models:
        model = build()
        updates = optimizer(model)
        for way in ("fp32", "tf32", "autocast"):
            _allow_tf32(allow=way == "tf32")
            measured = _precision(lab, (model, updates), batch, on=way == "autocast")
            figures |= {f"{name}_{way}_{key}": value for key, value in measured.items()}
        figures[f"{name}_batch"] = batch
        figures |= _savings(figures, name)
        del model, updates
        lab.clean()
    return figures


def _allow_tf32(*, allow: bool) -> None:
    torch.backends.cudnn.allow_tf32 = allow
    torch.backends.cuda.matmul.allow_tf32 = allow


def _precision(lab: Lab, trained: tuple[Any, Any], batch: int, *, on: bool) -> Figures:
    model, updates = trained
    images = lab.images(batch)
    lab.step(model, updates, images, autocast=on)
    lab.clean()
    before = lab.allocated()
    loss = lab.loss(model, images, autocast=on)
    activations = lab.allocated() - before
    del loss
    lab.step(model, updates, images, autocast=on)
    peak = lab.counter("allocated_bytes.all.peak")
    took = lab.seconds(lambda: lab.step(model, updates, images, autocast=on), lab.size(10, 1))
    return {"activation_bytes": activations, "peak_bytes": peak, "step_s": took}


def _savings(figures: Figures, name: str) -> Figures:
    found: Figures = {}
    for key in ("activation_bytes", "peak_bytes", "step_s"):
        word = key.rpartition("_")[0]
        ours = figures[f"{name}_autocast_{key}"]
        found[f"{name}_{word}_saved"] = saved(ours, figures[f"{name}_fp32_{key}"])
        found[f"{name}_{word}_saved_against_tf32"] = saved(ours, figures[f"{name}_tf32_{key}"])
    return found


def two_models(lab: Lab) -> Figures:
    """Two models used in turn: both on the device, or each moved there when it is its turn."""
    batch = lab.images(lab.size(8, 2))
    models = [lab.vit(), lab.resnet()]
    lab.clean()
    with torch.no_grad():
        resident = lab.seconds(lambda: [model(batch[0]) for model in models], lab.size(5, 1))
        both = lab.counter("allocated_bytes.all.peak")
        for model in models:
            model.to("cpu")
        lab.clean()
        moved = lab.seconds(lambda: [_visit(lab, one, batch) for one in models], lab.size(5, 1))
    return {
        "resident_peak_bytes": both,
        "resident_s": resident,
        "moved_peak_bytes": lab.counter("allocated_bytes.all.peak"),
        "moved_s": moved,
        "memory_saved": saved(lab.counter("allocated_bytes.all.peak"), both),
        "times_slower": share(moved, resident),
        "reserved_after_moving_away_bytes": lab.reserved(),
        "allocated_after_moving_away_bytes": lab.allocated(),
    }


def _visit(lab: Lab, model: Any, batch: tuple[Any, Any]) -> None:
    model.to(lab.device)
    model(batch[0])
    model.to("cpu")


def offload(lab: Lab) -> Figures:
    """ViT-B/16 for inference: every block waits on the CPU and visits the device for its turn."""
    model, batch = lab.vit().eval(), lab.images(lab.size(8, 2))
    lab.clean()
    with torch.no_grad():
        whole_s = lab.seconds(lambda: model(batch[0]), lab.size(5, 1))
        whole = lab.counter("allocated_bytes.all.peak")
        for block in model.blocks:
            block.to("cpu")
            block.register_forward_pre_hook(lambda one, _: one.to(lab.device) and None)
            block.register_forward_hook(lambda one, _, out: one.to("cpu") and out)
        lab.clean()
        parts_s = lab.seconds(lambda: model(batch[0]), lab.size(5, 1))
    parts = lab.counter("allocated_bytes.all.peak")
    return {
        "whole_peak_bytes": whole,
        "whole_s": whole_s,
        "offloaded_peak_bytes": parts,
        "offloaded_s": parts_s,
        "memory_saved": saved(parts, whole),
        "times_slower": share(parts_s, whole_s),
    }

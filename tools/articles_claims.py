"""The articles' claims about GPU memory, what decides each, and what is said of its figures."""

# ruff: noqa: PLR2004  (the numbers are the claims' own, or how much of a difference counts)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Figures = Mapping[str, Any]
_GB: Final = 10**9
#: Figures of two runs of the same work that differ by less count as equal.
_ALIKE: Final = 0.02
_BATCHES: Final = ("small", "middle", "large")


@dataclass(frozen=True)
class Claim:
    """One claim."""

    text: str
    """What the articles say, shortened."""
    measurement: str
    """Name of the measurement in the result."""
    verdict: Callable[[Figures], str]
    said: str
    """With places `{figure:form}`."""


def _first(*cases: tuple[bool, str]) -> str:
    """Return the word of the first case that holds; `not so` if none does."""
    return next((word for holds, word in cases if holds), "not so")


def _activations(f: Figures) -> str:
    return _first(
        (f["activation_bytes"] > 7 * _GB, "true"),
        (f["peak_reserved_bytes"] > 7 * _GB, "only of reserved memory"),
    )


def _adam(f: Figures) -> str:
    batches = {f[f"{name}_batch"]: f[f"{name}_peak_reserved_bytes"] for name in _BATCHES}
    over = min((batch for batch, peak in batches.items() if peak > 10 * _GB), default=None)
    if over is None:
        return "not so at these batches"
    return "true" if over == min(batches) else f"only from batch {over} on"


def _per_image(f: Figures) -> str:
    return _first((0.9 * _GB < f["per_image_bytes"] < 1.5 * _GB, "true"))


def _mixed_memory(f: Figures) -> str:
    least = min(f["resnet_peak_saved"], f["vit_peak_saved"])
    most = max(f["resnet_peak_saved"], f["vit_peak_saved"])
    return _first((least >= 0.3 and most <= 0.5, "true"), (most >= 0.3, "only for some models"))


def _halves(f: Figures) -> str:
    peaks = (f["resnet_peak_saved"], f["vit_peak_saved"])
    activations = (f["resnet_activation_saved"], f["vit_activation_saved"])
    return _first(
        (min(peaks) >= 0.45, "true"),
        (max(peaks) >= 0.45, "only of some peaks"),
        (max(activations) >= 0.45, "only of some activations"),
    )


def _faster(f: Figures) -> str:
    against = [
        f[f"{name}_step_saved{ref}"] for name in ("resnet", "vit") for ref in ("", "_against_tf32")
    ]
    return _first(
        (all(0.3 <= one <= 0.5 for one in against), "true"),
        (min(against) > 0.5, "more than that"),
        (max(against) >= 0.3, "depends on the model and on TF32"),
    )


def _quarter(f: Figures) -> str:
    return _first((f["share_of_whole"] <= 0.3, "true"))


def _stays(f: Figures) -> str:
    held, flushed = f["reserved_after_bytes"], f["reserved_after_empty_cache_bytes"]
    return _first((held > 0 and not flushed, "true"))


def _same(f: Figures) -> str:
    own = [name for name in f if not name.startswith("again_")]
    return _first((all(f[n] == f[f"again_{n}"] for n in own), "true of two processes here"))


def _process(f: Figures) -> str:
    back = f["again_free_at_start_bytes"] >= f["free_at_start_bytes"] * (1 - _ALIKE)
    kept = f["free_after_del_bytes"] < f["free_after_empty_cache_bytes"]
    return _first((back and kept, "not so, the end of the process does"))


def _empty_cache(f: Figures) -> str:
    slower = f["times_slower"] > 1 + _ALIKE
    more = f["flushed_inactive_split_peak_bytes"] > f["plain_inactive_split_peak_bytes"] * 1.1
    return _first((slower and more, "true"), (slower, "it slows, it does not fragment"))


def _grows(f: Figures) -> str:
    return _first((f["same_times"] >= 2, "true"), (f["varying_times"] >= 2, "only if sizes change"))


def _accumulation(f: Figures) -> str:
    exact = f["vit_gradient_difference"] < 1e-3
    return _first(
        (exact and f["resnet_gradient_difference"] > 1e-2, "only without BatchNorm"),
        (exact and f["resnet_gradient_difference"] <= 1e-2, "true"),
    )


def _losses(f: Figures) -> str:
    leaks = f["kept_with_graph_a_step_bytes"] > 100 * max(1, f["as_numbers_a_step_bytes"])
    freed = f["kept_after_backward_a_step_bytes"] < f["kept_with_graph_a_step_bytes"] / 100
    return _first((leaks and freed, "only if backward was not called"), (leaks, "true"))


def _item(f: Figures) -> str:
    near = 0.5 < f["item_s"] / f["detach_cpu_s"] < 2
    return _first(
        (near, "both free the graph, in about the same time"),
        (True, "both free the graph, their times differ"),
    )


def _lazy(f: Figures) -> str:
    return _first((f["grown_saved"] >= 0.5, "true"))


def _alternating(f: Figures) -> str:
    saves = f["memory_saved"] > 0.1
    return _first((saves and f["times_slower"] > 1.1, "true, and it costs time"), (saves, "true"))


def _cells(f: Figures) -> str:
    grows = f["rebound_last_allocated_bytes"] > 1.1 * f["rebound_first_allocated_bytes"]
    shown = f["shown_last_allocated_bytes"] > 1.1 * f["shown_first_allocated_bytes"]
    peak = f["rebound_last_peak_bytes"] > 1.1 * f["rebound_first_peak_bytes"]
    return _first(
        (grows, "true"),
        (shown and peak, "only if outputs are kept, else the peak grows once"),
        (shown, "only if outputs are kept"),
    )


CLAIMS: Final = (
    Claim(
        text="ResNet-50 at batch 64 needs over 7 GB for activations",
        measurement="resnet_activations",
        verdict=_activations,
        said=(
            "{activation_bytes:GiB} after the forward pass; peaks {peak_allocated_bytes:GiB} "
            "allocated, {peak_reserved_bytes:GiB} reserved"
        ),
    ),
    Claim(
        text="ResNet-50 with Adam needs over 10 GB",
        measurement="resnet_adam",
        verdict=_adam,
        said=(
            "peak reserved (allocated): batch {small_batch:n} {small_peak_reserved_bytes:GiB} "
            "({small_peak_allocated_bytes:GiB}), batch {middle_batch:n} "
            "{middle_peak_reserved_bytes:GiB} ({middle_peak_allocated_bytes:GiB}), batch "
            "{large_batch:n} {large_peak_reserved_bytes:GiB} ({large_peak_allocated_bytes:GiB})"
        ),
    ),
    Claim(
        text="ViT-B/16 needs about 1.2 GB more for each image in the batch",
        measurement="vit_per_image",
        verdict=_per_image,
        said=(
            "{per_image_bytes:GiB} an image: {small_batch_peak_bytes:GiB} at batch "
            "{small_batch:n}, {large_batch_peak_bytes:GiB} at batch {large_batch:n}"
        ),
    ),
    Claim(
        text="mixed precision saves 30 to 50 % of memory",
        measurement="autocast",
        verdict=_mixed_memory,
        said=(
            "bfloat16 autocast saves of the peak of a step: ResNet-50 at batch {resnet_batch:n} "
            "{resnet_peak_saved:%}, ViT-B/16 at batch {vit_batch:n} {vit_peak_saved:%} (weights, "
            "gradients and Adam's state do not shrink)"
        ),
    ),
    Claim(
        text="autocast halves memory",
        measurement="autocast",
        verdict=_halves,
        said=(
            "of the activations it saves {resnet_activation_saved:%} (ResNet-50) and "
            "{vit_activation_saved:%} (ViT-B/16), of the peaks {resnet_peak_saved:%} and "
            "{vit_peak_saved:%}"
        ),
    ),
    Claim(
        text="autocast is 30 to 50 % faster",
        measurement="autocast",
        verdict=_faster,
        said=(
            "time of a step saved: ResNet-50 {resnet_step_saved:%} of float32 and "
            "{resnet_step_saved_against_tf32:%} of TF32, ViT-B/16 {vit_step_saved:%} and "
            "{vit_step_saved_against_tf32:%}"
        ),
    ),
    Claim(
        text="accumulating 4 times batch 4 needs a quarter of batch 16",
        measurement="accumulation_memory",
        verdict=_quarter,
        said=(
            "ViT-B/16: {accumulated_peak_bytes:GiB} against {whole_peak_bytes:GiB}, "
            "{share_of_whole:%}: parameters, gradients and Adam's state stay"
        ),
    ),
    Claim(
        text="accumulation changes nothing but memory",
        measurement="accumulation_results",
        verdict=_accumulation,
        said=(
            "gradients of 4 times batch 4 against batch 16 differ by {vit_gradient_difference:e} "
            "(ViT-B/16, no BatchNorm) and {resnet_gradient_difference:e} (ResNet-50: BatchNorm "
            "sees batches of 4), relative to their norm"
        ),
    ),
    Claim(
        text="reserved memory stays after `del`",
        measurement="reserved_after_del",
        verdict=_stays,
        said=(
            "{reserved_after_bytes:MiB} after five tensors of 2000 x 2000 were made and dropped, "
            "{reserved_after_empty_cache_bytes:MiB} after `empty_cache()`"
        ),
    ),
    Claim(
        text="reserved memory grows to several times its first value",
        measurement="reserved_grows",
        verdict=_grows,
        said=(
            "ResNet-50, 12 steps: {same_times:x} times with images of one size "
            "({same_first_bytes:GiB} to {same_last_bytes:GiB}), {varying_times:x} times with "
            "sizes that grow, where it is {varying_last_over_peak_allocated:x} times the peak of "
            "allocated"
        ),
    ),
    Claim(
        text="`empty_cache()` in the loop fragments and slows",
        measurement="empty_cache_in_a_loop",
        verdict=_empty_cache,
        said=(
            "ResNet-50: a step takes {flushed_step_s:ms} instead of {plain_step_s:ms} "
            "({times_slower:x} times), with {flushed_device_allocations_a_step:n} allocations "
            "from the driver a step instead of {plain_device_allocations_a_step:n}; most free "
            "memory in split segments {flushed_inactive_split_peak_bytes:MiB} against "
            "{plain_inactive_split_peak_bytes:MiB}"
        ),
    ),
    Claim(
        text="leaving an environment resets memory",
        measurement="process_end",
        verdict=_process,
        said=(
            "free on the card: {free_at_start_bytes:GiB} at the start, "
            "{free_while_held_bytes:GiB} with {held_bytes:GiB} held, "
            "{free_after_del_bytes:GiB} after `del`, {free_after_empty_cache_bytes:GiB} after "
            "`empty_cache()`; the next process starts with {again_free_at_start_bytes:GiB}"
        ),
    ),
    Claim(
        text="an identical environment behaves identically",
        measurement="same_twice",
        verdict=_same,
        said=(
            "peaks in two processes: {peak_allocated_bytes:MiB} and "
            "{again_peak_allocated_bytes:MiB} allocated, {peak_reserved_bytes:MiB} and "
            '{again_peak_reserved_bytes:MiB} reserved; for other machines see [what "identical" '
            "means](../decisions/0004-what-identical-means.md)"
        ),
    ),
    Claim(
        text="a list of losses that were not detached fills the memory",
        measurement="undetached_losses",
        verdict=_losses,
        said=(
            "ViT-B/16, a step: {kept_with_graph_a_step_bytes:MiB} while the graph "
            "lives, {kept_after_backward_a_step_bytes:n} bytes where `backward()` has freed it, "
            "{as_numbers_a_step_bytes:n} bytes with `.item()`"
        ),
    ),
    Claim(
        text="`.item()` is better than `.detach().cpu()`",
        measurement="item_or_detach",
        verdict=_item,
        said=(
            "{item_s:us} against {detach_cpu_s:us} a call; on the device a value kept with "
            "`.detach()` takes {kept_on_device_bytes:n} bytes, one kept with `.detach().cpu()` "
            "{kept_on_cpu_device_bytes:n}"
        ),
    ),
    Claim(
        text="a lazy data set saves host memory",
        measurement="eager_or_lazy",
        verdict=_lazy,
        said=(
            "{images:n} images of float32: the process grows by {eager_grown_bytes:MiB} when "
            "they are read at once, by {lazy_grown_bytes:MiB} when read one by one; a pass takes "
            "{eager_pass_s:ms} and {lazy_pass_s:ms}"
        ),
    ),
    Claim(
        text="two models used in turn should leave the card in between",
        measurement="two_models",
        verdict=_alternating,
        said=(
            "ViT-B/16 and ResNet-50, inference: peak {moved_peak_bytes:MiB} instead of "
            "{resident_peak_bytes:MiB}, {times_slower:x} times the time; after moving away "
            "{reserved_after_moving_away_bytes:MiB} stay reserved"
        ),
    ),
    Claim(
        text="offloading layers (as `device_map` does) saves memory",
        measurement="offload",
        verdict=_alternating,
        said=(
            "ViT-B/16 for inference, blocks visiting the card in turn: peak "
            "{offloaded_peak_bytes:MiB} instead of {whole_peak_bytes:MiB}, {times_slower:x} "
            "times the time"
        ),
    ),
    Claim(
        text="running a notebook cell again and again fills the memory",
        measurement="notebook_cells",
        verdict=_cells,
        said=(
            "allocated after the first and the last of four runs: "
            "{rebound_first_allocated_bytes:MiB} and {rebound_last_allocated_bytes:MiB} where "
            "names are bound again (peak of the first {rebound_first_peak_bytes:MiB}, "
            "of the last {rebound_last_peak_bytes:MiB}: old and new live at once), "
            "{shown_first_allocated_bytes:MiB} and {shown_last_allocated_bytes:MiB} where "
            "the notebook keeps the cell's output"
        ),
    ),
)

"""How a model is trained: what a user can change without changing the model."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..place import Place, Unmet

#: Names of the numbers that the forward pass and the loss compute with.
FP32, BF16, FP16 = "fp32", "bf16", "fp16"

_TORCH_NAMES = {BF16: "bfloat16", FP16: "float16"}


class Options(NamedTuple):
    """The options of a workload; the defaults are a plain fp32 training."""

    batch: int
    """Samples of one forward pass."""
    autocast: str = FP32
    """`fp32`: none. `bf16`; `fp16`, with a GradScaler."""
    accumulation: int = 1
    """Forward and backward passes that make one step: `batch * accumulation` samples."""
    checkpointing: bool = False
    """Whether the activations of the model's blocks are computed again in the backward pass."""
    channels_last: bool = False
    """Whether model and images lie in memory with the channels last."""
    set_to_none: bool = True
    """Whether gradients are dropped after a step, not filled with zeros."""

    def dtype(self, torch: Any) -> Any:
        """Return the dtype of the autocast, None where there is none."""
        name = _TORCH_NAMES.get(self.autocast)
        return None if name is None else getattr(torch, name)


def must_support(place: Place, options: Options) -> None:
    """Check that the device can do what the options ask.

    Raises:
        Unmet: it cannot, and why.

    """
    if options.autocast == BF16 and place.is_cuda:
        supported = place.api.call(place.torch, "cuda.is_bf16_supported")
        if supported is not True:
            message = "torch says that {} has no bfloat16".format(place.name)
            raise Unmet(message)
    if options.autocast == FP16:
        _must_support_fp16(place)


def _must_support_fp16(place: Place) -> None:
    scaler = gradient_scaler(place)
    if isinstance(scaler, place.api.Missing):
        message = "there is no gradient scaler for {}: {}".format(place.kind, scaler.reason)
        raise Unmet(message)
    if not place.is_cuda and not _cpu_autocasts_to_fp16(place.torch):
        # torch only warns and computes in fp32.
        message = "this torch has no float16 autocast on the CPU"
        raise Unmet(message)


def _cpu_autocasts_to_fp16(torch: Any) -> bool:
    one = torch.ones(1, 1)
    with torch.autocast("cpu", dtype=torch.float16):
        return bool((one @ one).dtype == torch.float16)


def gradient_scaler(place: Place) -> Any:
    """Return a new GradScaler, or Missing; `torch.amp.GradScaler` came with torch 2.3."""
    found = place.api.call(place.torch, "amp.GradScaler", place.device.type)
    if isinstance(found, place.api.Missing) and not found.exists and place.is_cuda:
        return place.api.call(place.torch, "cuda.amp.GradScaler")
    return found

"""The operations whose results are hashed, one function a probe: name of the result -> tensor."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

from torch.nn import functional

from .. import challenge
from ..place import Place, Unmet
from .inputs import pattern

Outputs = Dict[str, Any]

#: Side of square matrices, by device kind.
SIDE = {"cpu": 128, "cuda": 1024}


def _matmul(dtype_name: str) -> Callable[[Place, int], Outputs]:
    def run(place: Place, seed: int) -> Outputs:
        dtype = getattr(place.torch, dtype_name)
        side = SIDE[place.kind]
        left = pattern(place, (side, side), seed, dtype)
        right = pattern(place, (side, side), seed + 1, dtype)
        return {"product": left @ right}

    return run


def _linear(place: Place, seed: int) -> Outputs:
    dtype = place.torch.bfloat16
    side = SIDE[place.kind]
    left = pattern(place, (side, side), seed, dtype)
    weight = pattern(place, (side, side), seed + 1, dtype)
    return {"out": functional.linear(left, weight, pattern(place, (side,), seed + 2, dtype))}


def _images(place: Place, seed: int) -> Tuple[Any, Any]:
    size, channels = (16, 8) if place.kind == "cpu" else (56, 64)
    images = pattern(place, (4, channels, size, size), seed)
    return images, pattern(place, (channels, channels, 3, 3), seed + 1)


def _conv(place: Place, seed: int) -> Outputs:
    images, weight = _images(place, seed)
    return {"out": functional.conv2d(images, weight, padding=1)}


def _conv_backward(place: Place, seed: int) -> Outputs:
    images, weight = (tensor.requires_grad_() for tensor in _images(place, seed))
    out = functional.conv2d(images, weight, padding=1)
    out.backward(pattern(place, out.shape, seed + 2))
    return {"images": images.grad, "weight": weight.grad}


def _attention(backend: str) -> Callable[[Place, int], Outputs]:
    def run(place: Place, seed: int) -> Outputs:
        torch = place.torch
        kernel = place.api.attempt(lambda: _backend(backend))
        if isinstance(kernel, place.api.Missing):
            message = "this torch cannot choose the backend: {}".format(kernel.reason)
            raise Unmet(message)
        tokens = 32 if place.kind == "cpu" else 256
        dtype = torch.float32 if place.kind == "cpu" else torch.bfloat16
        query, key, value = (
            pattern(place, (2, 4, tokens, 64), seed + index, dtype) for index in range(3)
        )
        out = place.api.attempt(lambda: _attend(kernel, query, key, value))
        if isinstance(out, place.api.Missing):
            message = "the backend does not run here: {}".format(out.reason)
            raise Unmet(message)
        return {"out": out}

    return run


def _backend(name: str) -> Any:
    # It came with torch 2.3.
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = getattr(SDPBackend, name)
    return lambda: sdpa_kernel(backend)


def _attend(kernel: Any, query: Any, key: Any, value: Any) -> Any:
    with kernel():
        return functional.scaled_dot_product_attention(query, key, value)


def _reductions(place: Place, seed: int) -> Outputs:
    torch = place.torch
    values = pattern(place, (257, 1031), seed)
    return {
        "sum": values.sum(),
        "row_mean": values.mean(dim=1),
        "column_var": values.var(dim=0),
        "norm": values.norm(),
        "logsumexp": torch.logsumexp(values, dim=1),
        "argmax": values.argmax(dim=1),
        "sorted": values.sort(dim=1)[0],
    }


def _pointwise(place: Place, seed: int) -> Outputs:
    values = pattern(place, (64, 257), seed)
    return {
        "exp": values.exp(),
        "tanh": values.tanh(),
        "log": (values + 2).log(),
        "sin": (values * 100).sin(),
        "gelu": functional.gelu(values),
    }


def _normalised(place: Place, seed: int) -> Outputs:
    values = pattern(place, (64, 257), seed)
    return {
        "softmax": functional.softmax(values, dim=1),
        "layer_norm": functional.layer_norm(values, (257,)),
    }


def _random(generator_device: str) -> Callable[[Place, int], Outputs]:
    def run(place: Place, seed: int) -> Outputs:
        torch = place.torch
        device = place.device if generator_device == "device" else torch.device("cpu")
        generator = torch.Generator(device=device)
        generator.manual_seed(seed)
        options = {"device": device, "generator": generator}
        return {
            "uniform": torch.rand(4097, **options),
            "normal": torch.randn(4097, **options),
            "integers": torch.randint(0, 1000003, (4097,), **options),
            "permutation": torch.randperm(1009, **options),
        }

    return run


def _linalg(place: Place, seed: int) -> Outputs:
    torch = place.torch
    values = pattern(place, (48, 48), seed, torch.float64)
    positive = values @ values.T + 48 * torch.eye(48, dtype=values.dtype, device=place.device)
    return {
        "cholesky": torch.linalg.cholesky(positive),
        "solve": torch.linalg.solve(positive, values),
        "eigenvalues": torch.linalg.eigvalsh(positive),
    }


def _challenge(place: Place, seed: int) -> Outputs:
    """Run layers whose shapes the seed decides, forwards and backwards."""
    batch, widths = challenge.shapes(seed)
    hidden = pattern(place, (batch, widths[0]), seed)
    weights: List[Any] = []
    for right in widths[1:]:
        left = hidden.shape[1]
        weights.append(pattern(place, (left, right), seed + len(weights) + 1).requires_grad_())
        hidden = (hidden @ weights[-1] / left).tanh()
    hidden.square().mean().backward()
    gradients = {"gradient_{}".format(n): weight.grad for n, weight in enumerate(weights, 1)}
    return dict(gradients, out=hidden.detach())


OPERATIONS: Dict[str, Callable[[Place, int], Outputs]] = {
    "matmul.fp64": _matmul("float64"),
    "matmul.fp32": _matmul("float32"),
    "matmul.bf16": _matmul("bfloat16"),
    "matmul.fp16": _matmul("float16"),
    "linear.bf16": _linear,
    "conv2d": _conv,
    "conv2d.backward": _conv_backward,
    "sdpa.math": _attention("MATH"),
    "sdpa.flash": _attention("FLASH_ATTENTION"),
    "sdpa.efficient": _attention("EFFICIENT_ATTENTION"),
    "sdpa.cudnn": _attention("CUDNN_ATTENTION"),
    "reductions": _reductions,
    "pointwise": _pointwise,
    "normalised": _normalised,
    "random.cpu": _random("cpu"),
    "random.device": _random("device"),
    "linalg": _linalg,
    "challenge": _challenge,
}

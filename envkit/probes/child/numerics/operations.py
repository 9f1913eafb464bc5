"""The operations whose results are hashed, one function a probe: name of the result -> tensor."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

from torch.nn import functional

from .. import challenge
from ..place import Place, Unmet
from .inputs import pattern

Outputs = Dict[str, Any]

#: Side of square matrices, by device kind.
SIDE = {"cpu": 128, "cuda": 1024}

#: Ampere.
FIRST_WITH_TF32 = (8, 0)


def _matmul(dtype_name: str) -> Callable[[Place, int], Outputs]:
    def run(place: Place, seed: int) -> Outputs:
        dtype = getattr(place.torch, dtype_name)
        side = SIDE[place.kind]
        left = pattern(place, (side, side), seed, dtype)
        right = pattern(place, (side, side), seed + 1, dtype)
        return {"product": left @ right}

    return run


def _tf32(place: Place, seed: int) -> Outputs:
    """Multiply with TF32 allowed: the one switch that is set for a probe, and put back."""
    if place.torch.cuda.get_device_capability(place.index) < FIRST_WITH_TF32:
        message = "this GPU has no TF32"
        raise Unmet(message)
    matmul = place.torch.backends.cuda.matmul
    # torch 2.9 and later refuse the old switch where the new one was used.
    before = place.api.attempt(lambda: matmul.allow_tf32)
    if isinstance(before, place.api.Missing):
        message = "whether TF32 is allowed cannot be read: {}".format(before.reason)
        raise Unmet(message)
    matmul.allow_tf32 = True
    try:
        return _matmul("float32")(place, seed)
    finally:
        matmul.allow_tf32 = before


def _batched(place: Place, seed: int) -> Outputs:
    side = SIDE[place.kind] // 8
    left, right = (pattern(place, (8, side, side), seed + index) for index in range(2))
    return {"product": place.torch.bmm(left, right)}


def _int8(place: Place, seed: int) -> Outputs:
    side = SIDE[place.kind]
    left, right = (
        (pattern(place, (side, side), seed + index) * 127).round().to(place.torch.int8)
        for index in range(2)
    )
    product = place.api.call(place.torch, "_int_mm", left, right)
    if isinstance(product, place.api.Missing):
        message = "int8 products do not run here: {}".format(product.reason)
        raise Unmet(message)
    return {"product": product}


def _linear(place: Place, seed: int) -> Outputs:
    dtype = place.torch.bfloat16
    side = SIDE[place.kind]
    left = pattern(place, (side, side), seed, dtype)
    weight = pattern(place, (side, side), seed + 1, dtype)
    return {"out": functional.linear(left, weight, pattern(place, (side,), seed + 2, dtype))}


def _images(place: Place, seed: int, dtype: Any = None) -> Tuple[Any, Any]:
    size, channels = (16, 8) if place.kind == "cpu" else (56, 64)
    images = pattern(place, (4, channels, size, size), seed, dtype)
    return images, pattern(place, (channels, channels, 3, 3), seed + 1, dtype)


def _conv(dtype_name: str) -> Callable[[Place, int], Outputs]:
    def run(place: Place, seed: int) -> Outputs:
        images, weight = _images(place, seed, getattr(place.torch, dtype_name))
        return {"out": functional.conv2d(images, weight, padding=1)}

    return run


def _conv_backward(place: Place, seed: int) -> Outputs:
    images, weight = (tensor.requires_grad_() for tensor in _images(place, seed))
    out = functional.conv2d(images, weight, padding=1)
    _send_back(out, pattern(place, out.shape, seed + 2))
    return {"images": images.grad, "weight": weight.grad}


def _send_back(out: Any, gradient: Any) -> None:
    """Do what `out.backward(gradient)` does, with the same bits, through a scalar.

    Given a gradient, torch imports its symbolic shapes (and sympy) to compare two shapes: 0.7 s on
    a slow core, torch 2.13.
    """
    (out * gradient).sum().backward()


def _attention(
    backend: str, *, causal: bool = False, backward: bool = False
) -> Callable[[Place, int], Outputs]:
    def run(place: Place, seed: int) -> Outputs:
        torch = place.torch
        kernel = place.api.attempt(lambda: _backend(backend))
        if isinstance(kernel, place.api.Missing):
            message = "this torch cannot choose the backend: {}".format(kernel.reason)
            raise Unmet(message)
        tokens = 32 if place.kind == "cpu" else 256
        dtype = torch.float32 if place.kind == "cpu" else torch.bfloat16
        inputs = [pattern(place, (2, 4, tokens, 64), seed + index, dtype) for index in range(3)]
        out = place.api.attempt(lambda: _attend(kernel, inputs, causal=causal, backward=backward))
        if isinstance(out, place.api.Missing):
            message = "the backend does not run here: {}".format(out.reason)
            raise Unmet(message)
        return out  # type: ignore[no-any-return]

    return run


def _backend(name: str) -> Any:
    # It came with torch 2.3.
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = getattr(SDPBackend, name)
    return lambda: sdpa_kernel(backend)


def _attend(kernel: Any, inputs: Sequence[Any], *, causal: bool, backward: bool) -> Outputs:
    query, key, value = (tensor.requires_grad_(backward) for tensor in inputs)
    with kernel():
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    if not backward:
        return {"out": out}
    _send_back(out, value.detach())
    return {"query": query.grad, "key": key.grad, "value": value.grad}


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


def _reductions_bf16(place: Place, seed: int) -> Outputs:
    values = pattern(place, (257, 1031), seed, place.torch.bfloat16)
    return {"sum": values.sum(), "row_mean": values.mean(dim=1), "norm": values.norm()}


def _fourier(place: Place, seed: int) -> Outputs:
    torch = place.torch
    values = pattern(place, (16, 240), seed)
    return {
        "real": torch.view_as_real(torch.fft.rfft(values)),
        "planes": torch.view_as_real(torch.fft.fft2(values)),
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


def _dropout(place: Place, seed: int) -> Outputs:
    ones = place.torch.ones(64, 257, device=place.device)
    place.torch.manual_seed(seed)
    first = functional.dropout(ones, 0.1)
    return {"first": first, "second": functional.dropout(ones, 0.5)}


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


def _linalg_fp32(place: Place, seed: int) -> Outputs:
    torch = place.torch
    values = pattern(place, (48, 48), seed)
    orthogonal, upper = torch.linalg.qr(values)
    return {"q": orthogonal, "r": upper, "singular_values": torch.linalg.svdvals(values)}


OPERATIONS: Dict[str, Callable[[Place, int], Outputs]] = {
    "matmul.fp64": _matmul("float64"),
    "matmul.fp32": _matmul("float32"),
    "matmul.bf16": _matmul("bfloat16"),
    "matmul.fp16": _matmul("float16"),
    "matmul.tf32": _tf32,
    "matmul.batched": _batched,
    "matmul.int8": _int8,
    "linear.bf16": _linear,
    "conv2d": _conv("float32"),
    "conv2d.bf16": _conv("bfloat16"),
    "conv2d.fp16": _conv("float16"),
    "conv2d.backward": _conv_backward,
    "sdpa.math": _attention("MATH"),
    "sdpa.math.backward": _attention("MATH", backward=True),
    "sdpa.causal": _attention("MATH", causal=True),
    "sdpa.flash": _attention("FLASH_ATTENTION"),
    "sdpa.efficient": _attention("EFFICIENT_ATTENTION"),
    "sdpa.cudnn": _attention("CUDNN_ATTENTION"),
    "reductions": _reductions,
    "reductions.bf16": _reductions_bf16,
    "fourier": _fourier,
    "pointwise": _pointwise,
    "normalised": _normalised,
    "random.cpu": _random("cpu"),
    "random.device": _random("device"),
    "random.dropout": _dropout,
    "linalg": _linalg,
    "linalg.fp32": _linalg_fp32,
    "challenge": _challenge,
}

"""Small operations with exactly known answers: whether this device computes, and correctly.

All numbers are small integers, so that every precision torch may choose (TF32 included) and every
order of summation gives the same exact answer; only a convolution may be computed through fractions
(Winograd, FFT), so there the nearest integers count. The answers are worked out here in Python.
"""

from __future__ import annotations

import math
from typing import Any, Callable

from .protocol import short_reason
from .torch_api import Missing, call, lookup

#: Texts in what torch raises -> what that means.
_KINDS = (
    ("no kernel image is available", "no_kernel_image"),
    ("out of memory", "out_of_memory"),
    ("invalid device function", "no_kernel_image"),
    ("device kernel image is invalid", "no_kernel_image"),
    ("the provided PTX was compiled with an unsupported toolchain", "ptx_too_new"),
    ("CUDNN_STATUS", "cudnn"),
    ("cuDNN", "cudnn"),
    ("CUBLAS_STATUS", "cublas"),
    ("undefined symbol", "missing_symbol"),
    ("cannot open shared object file", "missing_library"),
    ("Could not load library", "missing_library"),
    ("operator torchvision::nms does not exist", "torchvision_mismatch"),
    ("Couldn't load custom C++ ops", "torchvision_mismatch"),
    ("illegal memory access", "device_fault"),
    ("unspecified launch failure", "device_fault"),
    ("misaligned address", "device_fault"),
    ("device-side assert", "device_fault"),
    ("unknown error", "device_lost"),
)


#: Free device memory below which nothing is tried: cuBLAS takes 32 MiB, cuDNN and modules more.
NEED_BYTES = 512 << 20
MAX_SHOWN_CHARS = 120
#: What is nearer to an integer than this is taken for it; the right answers are integers.
NEAR = 0.25


class NotHere(Exception):  # noqa: N818  (named for what happened)
    """This torch does not have what the test needs."""


def classify(text: str) -> str:
    """Return the kind of an error from its text; `other` when it is none of the known ones."""
    for known, kind in _KINDS:
        if known in text:
            return kind
    return "other"


def run_self_tests(torch: Any, device: str, *, brief: bool = False) -> "list[dict[str, str]]":
    """Run the tests on a device; `{name, status: pass|fail|not_run, reason, kind}` for each.

    `brief`: only those that load no library but cuBLAS. On an H200 all of them took 6.3 s, most
    of it for cuDNN and torchvision.
    """
    tests = TESTS[:BRIEF_TESTS] if brief else TESTS
    full = _too_full(torch, device)
    if full:
        return [_outcome(name, "not_run", full, "out_of_memory") for name, _ in tests]
    return [_one(name, test, torch, device) for name, test in tests]


def _too_full(torch: Any, device: str) -> str:
    """Say that the device has too little memory left for an answer to mean anything."""
    if not device.startswith("cuda"):
        return ""
    found = call(torch, "cuda.mem_get_info", int(device.partition(":")[2] or 0))
    if isinstance(found, Missing) or found[0] >= NEED_BYTES:
        return ""
    text = "{} bytes of the device's memory are free, {} are needed"
    return text.format(found[0], NEED_BYTES)


def _one(
    name: str, test: "Callable[[Any, str], tuple[Any, Any]]", torch: Any, device: str
) -> "dict[str, str]":
    try:
        seen, wanted = test(torch, device)
    except NotHere as error:
        return _outcome(name, "not_run", str(error), "")
    except Exception as error:  # noqa: BLE001  (whatever the device makes torch raise is the answer)
        kind = classify(str(error))
        # A neighbour may have taken the memory meanwhile: nothing was computed, so nothing failed.
        # Libraries say so in their own words (seen on a full H200: CUBLAS_STATUS_EXECUTION_FAILED,
        # CUDNN_STATUS_INTERNAL_ERROR), hence the look at what is left.
        if kind == "out_of_memory" or _too_full(torch, device):
            return _outcome(name, "not_run", short_reason(error), "out_of_memory")
        return _outcome(name, "fail", short_reason(error), kind)
    if seen == wanted:
        return _outcome(name, "pass", "", "")
    reason = "wrong result: {} instead of {}".format(_brief(seen), _brief(wanted))
    return _outcome(name, "fail", reason, "wrong_result")


def _outcome(name: str, status: str, reason: str, kind: str) -> "dict[str, str]":
    return {"name": name, "status": status, "reason": reason, "kind": kind}


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."


def _need(torch: Any, path: str) -> Any:
    found = lookup(torch, path)
    if isinstance(found, Missing):
        raise NotHere(found.reason)
    return found


def _tensor(torch: Any, values: Any, dtype: str, device: str) -> Any:
    return _need(torch, "tensor")(values, dtype=_need(torch, dtype), device=device)


def _small_integers(rows: int, columns: int, seed: int) -> "list[list[int]]":
    """Return a matrix of integers from -3 to 3 without a pattern that hides swapped indices."""
    return [
        [(row * 5 + column * 3 + seed) % 7 - 3 for column in range(columns)] for row in range(rows)
    ]


def _matmul(dtype: str) -> "Callable[[Any, str], tuple[Any, Any]]":
    def test(torch: Any, device: str) -> "tuple[Any, Any]":
        left, right = _small_integers(48, 64, 1), _small_integers(64, 32, 2)
        product = _need(torch, "matmul")(
            _tensor(torch, left, dtype, device), _tensor(torch, right, dtype, device)
        )
        wanted = [
            [sum(row[k] * right[k][column] for k in range(64)) for column in range(32)]
            for row in left
        ]
        return product.cpu().tolist(), wanted

    return test


def _sum(torch: Any, device: str) -> "tuple[Any, Any]":
    values = [number % 101 for number in range(10007)]
    return float(_tensor(torch, values, "float32", device).sum().cpu()), float(sum(values))


def _cumsum(torch: Any, device: str) -> "tuple[Any, Any]":
    values = [number % 13 - 6 for number in range(1003)]
    wanted, total = [], 0
    for value in values:
        total += value
        wanted.append(total)
    return _tensor(torch, values, "float32", device).cumsum(0).cpu().tolist(), wanted


def _sort(torch: Any, device: str) -> "tuple[Any, Any]":
    values = [number * 389 % 1009 for number in range(1009)]
    ordered, order = _tensor(torch, values, "float32", device).sort()
    wanted = sorted(range(1009), key=lambda index: values[index])
    return (ordered.cpu().tolist(), order.cpu().tolist()), ([*map(float, range(1009))], wanted)


def _conv2d(torch: Any, device: str) -> "tuple[Any, Any]":
    image, kernel = _small_integers(9, 8, 3), _small_integers(3, 3, 4)
    result = _need(torch, "nn.functional.conv2d")(
        _tensor(torch, [[image]], "float32", device), _tensor(torch, [[kernel]], "float32", device)
    )
    wanted = [
        [
            float(
                sum(image[row + i][column + j] * kernel[i][j] for i in range(3) for j in range(3))
            )
            for column in range(6)
        ]
        for row in range(7)
    ]
    return [[[_nearest(row) for row in result.cpu().tolist()[0][0]]]], [[wanted]]


def _nearest(row: "list[float]") -> "list[float]":
    """Return the nearest integers; a number that is not near one stays, and is wrong."""
    return [float(round(x)) if math.isfinite(x) and abs(x - round(x)) < NEAR else x for x in row]


def _nms(torch: Any, device: str) -> "tuple[Any, Any]":
    from importlib import util

    if util.find_spec("torchvision") is None:
        message = "torchvision is not installed"
        raise NotHere(message)
    from torchvision.ops import nms  # type: ignore[import-not-found,unused-ignore]

    boxes = [[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 9]]
    scores = [9, 8, 7, 10]
    # Box 3 (score 10) removes 0 and 1: they share 90/100 and 72/118 of its area with it.
    kept = nms(
        _tensor(torch, boxes, "float32", device), _tensor(torch, scores, "float32", device), 0.5
    )
    return kept.cpu().tolist(), [3, 2]


#: How many of the first tests a brief run has.
BRIEF_TESTS = 2
#: Name -> test, in the order in which they run.
TESTS = (
    ("matmul_fp32", _matmul("float32")),
    ("sum_fp32", _sum),
    ("matmul_fp64", _matmul("float64")),
    ("cumsum_fp32", _cumsum),
    ("sort_fp32", _sort),
    ("conv2d_fp32", _conv2d),
    ("torchvision_nms", _nms),
)

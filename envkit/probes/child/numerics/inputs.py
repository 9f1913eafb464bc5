"""Inputs without random numbers: integer patterns that the dtype of the probe holds exactly."""

from __future__ import annotations

from typing import Any, Sequence

#: 255 levels of 1/128 from -127/128 to 127/128: exact in bfloat16, which has 8 significant bits.
_COARSE = (255, 128)
#: 1,000,003 levels of 2^-19: exact in float32, and too fine for TF32, whose use must show.
_FINE = (1000003, 1 << 19)
#: A prime, so that the pattern has no short period.
_MODULUS = 1000003


def pattern(place: Any, shape: Sequence[int], salt: int, dtype: Any = None) -> Any:
    """Return a tensor on the place's device with a fixed, irregular pattern in (-1, 1).

    It is made there: integers and divisions by a power of two are exact everywhere, and on an H200
    as many threads as the machine has processors, in every child at once, took 5 s of each for the
    same numbers.
    """
    torch = place.torch
    count = 1
    for length in shape:
        count *= length
    steps = torch.arange(count, dtype=torch.int64, device=place.device)
    # A quadratic keeps neighbouring rows from being shifted copies of each other.
    mixed = (steps * steps * 7919 + steps * (104729 + 2 * (salt % 65536)) + salt) % _MODULUS
    wanted = dtype or torch.float32
    levels, scale = _FINE if wanted in (torch.float32, torch.float64) else _COARSE
    values = (mixed % levels - levels // 2).to(torch.float64) / scale
    return values.reshape(tuple(shape)).to(wanted)

"""Exact values of tensors and floats, as text that survives JSON."""

from __future__ import annotations

import ctypes
import hashlib
import sys
from typing import Any, Dict, Iterable

_CHUNK_BYTES = 16 * 1024 * 1024


def _bytes_into(hasher: Any, tensor: Any) -> None:
    here = tensor.detach().cpu().contiguous()
    start, left = here.data_ptr(), here.numel() * here.element_size()
    while left:
        size = min(left, _CHUNK_BYTES)
        # The tensor's own memory, without a copy: a c_char array is read as bytes.
        hasher.update((ctypes.c_char * size).from_address(start))
        start, left = start + size, left - size


def of_tensor(tensor: Any) -> Dict[str, Any]:
    """Return SHA-256 of the raw bytes (contiguous, on the CPU, little endian), dtype and shape.

    Raises:
        ValueError: this machine is big endian.

    """
    return {
        "sha256": of_tensors([tensor]),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": list(tensor.shape),
    }


def of_tensors(tensors: Iterable[Any]) -> str:
    """Return SHA-256 of the raw bytes of several tensors, one after the other."""
    if sys.byteorder != "little":
        message = "digests are defined for little endian machines"
        raise ValueError(message)
    hasher = hashlib.sha256()
    for tensor in tensors:
        _bytes_into(hasher, tensor)
    return hasher.hexdigest()


def of_float(value: float) -> str:
    """Return a float exactly: 0x1.8p+1."""
    return float(value).hex()

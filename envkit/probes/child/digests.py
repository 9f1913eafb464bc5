"""Exact values of tensors and floats, as text that survives JSON."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import sys
import threading
from typing import Any, Dict, Iterable, List

from .torch_api import Missing, attempt

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


class Hashing(threading.Thread):
    """SHA-256 of copies of several tensors, worked out beside what comes next.

    Hashing the weights of two runs of a ViT-B/16 takes half a second, and hashlib lets other
    threads run meanwhile. Tensors of the CPU are hashed at once and not copied: letting go of
    copies later would show in what is recorded then.
    """

    def __init__(self, tensors: Iterable[Any]) -> None:
        super().__init__(daemon=True)
        given = list(tensors)
        self._copies: List[Any] = []
        self._digest = ""
        if any(tensor.device.type == "cpu" for tensor in given):
            self._digest = of_tensors(given)
        else:
            self._copies = _copied(given)
            self.start()

    def run(self) -> None:
        """Hash the copies and let go of them."""
        self._digest = of_tensors(self._copies)
        self._copies = []

    def hexdigest(self) -> str:
        """Wait for the digest.

        Raises:
            RuntimeError: the tensors could not be hashed; stderr has why.

        """
        if self.ident is not None:
            self.join()
        if not self._digest:
            message = "the tensors could not be hashed"
            raise RuntimeError(message)
        return self._digest


def _copied(tensors: List[Any]) -> List[Any]:
    copies = attempt(lambda: [_in_one_piece(tensors)])
    if isinstance(copies, Missing):  # torch before 1.10 does not show a tensor as bytes
        return [tensor.detach().cpu().contiguous() for tensor in tensors]
    pieces: List[Any] = copies
    return pieces


def _in_one_piece(tensors: List[Any]) -> Any:
    """Return the bytes of tensors one after the other, on the CPU.

    In large pages where the system gives them: taking memory page by page made up most of 0.2 s
    for 340 MB on the machine of an H200, with large ones it was 0.1 s (2026-12-01).
    """
    import torch

    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    room = torch.empty(sum(sizes), dtype=torch.uint8)
    attempt(lambda: _advise_large_pages(room.data_ptr(), room.numel()))
    start = 0
    for tensor, size in zip(tensors, sizes):
        shown = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        room[start : start + size].copy_(shown)
        start += size
    return room


def _advise_large_pages(address: int, nbytes: int) -> None:
    """Ask for large pages for the whole pages of a piece of memory (Linux; elsewhere it raises)."""
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        advise = ctypes.CDLL(None).madvise
        advise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)


def finished(values: Dict[str, Any]) -> Dict[str, Any]:
    """Return values with every `Hashing` among them replaced by its digest."""
    return {
        name: value.hexdigest() if isinstance(value, Hashing) else value
        for name, value in values.items()
    }


def of_float(value: float) -> str:
    """Return a float exactly: 0x1.8p+1."""
    return float(value).hex()

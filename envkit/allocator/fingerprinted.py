"""The allocator of a fingerprint: the model under its settings, and its exercises carried out."""

from __future__ import annotations

from typing import Any, Final

from envkit.allocator.chunks import DriverAddresses
from envkit.allocator.config import Config
from envkit.allocator.messages import OutOfMemory
from envkit.allocator.model import CachingAllocator
from envkit.model.fingerprint import Fingerprint
from envkit.model.versions import parse_torch

#: Memory of the device where the fingerprint does not say it; no exercise comes near it.
_TOTAL_BYTES: Final = 80 << 30
#: A multiple of the driver's chunks, with room on both sides.
_FIRST_ADDRESS: Final = 0x7F0000000000
SETTINGS_TEXT: Final = "PYTORCH_CUDA_ALLOC_CONF"


def model_of(fingerprint: Fingerprint, *, as_driver: bool = False) -> CachingAllocator:
    """Return a fresh model under the settings, the release and the memory of a fingerprint.

    Args:
        fingerprint: what was measured.
        as_driver: new segments go where the driver would put them in an empty process, for what
            depends on it; the exercises do not.

    Raises:
        ConfigError: torch would refuse the settings.
        ValueError: a release or a backend that is not modelled.

    """
    text = str(fingerprint.key.settings.get(SETTINGS_TEXT, ""))
    release = parse_torch(fingerprint.key.torch).release[:2]
    # Expandable segments are ranges of their own: nothing depends on where they are.
    placed = as_driver and not Config.parse(text, release).expandable_segments
    return CachingAllocator(
        text,
        total_memory=total_bytes(fingerprint),
        version=release,
        addresses=DriverAddresses(_FIRST_ADDRESS) if placed else None,
    )


def total_bytes(fingerprint: Fingerprint) -> int:
    """Return the memory of the device, as torch sees it where it says so."""
    context = fingerprint.layers.context.get("context.memory")
    values: dict[str, Any] = (context.values if context is not None else None) or {}
    total = values.get("torch_total_bytes", values.get("total_bytes"))
    return total if isinstance(total, int) and total > 0 else _TOTAL_BYTES


def carry_out(
    text: str, allocator: CachingAllocator, held: dict[int, int], device_bytes: int
) -> None:
    """Carry out one operation as an exercise writes it, `malloc 3 1048576 0`.

    Args:
        text: the operation.
        allocator: the model.
        held: address of every allocation by its number; changed.
        device_bytes: memory of the device, of which a limit is a fraction.

    Raises:
        ValueError: it is no operation.

    """
    verb, *words = text.split()
    numbers = [int(word) for word in words]
    match verb, numbers:
        case "malloc", [number, size, stream]:
            _malloc(allocator, held, number, (size, stream))
        case "free", [number]:
            if number in held:
                allocator.free(held.pop(number))
        case "record_stream", [number, stream]:
            if number in held:
                allocator.record_stream(held[number], stream)
        case "limit", [size]:
            allocator.set_memory_fraction(size / device_bytes if size else 1.0)
        case (("synchronize" | "empty_cache" | "reset_peak"), []):
            getattr(allocator, verb)()
        case _:
            message = f"{text[:60]!r} is no operation of an exercise"
            raise ValueError(message)


def _malloc(
    allocator: CachingAllocator, held: dict[int, int], number: int, asked: tuple[int, int]
) -> None:
    try:
        held[number] = allocator.malloc(*asked)
    except OutOfMemory:
        return  # some exercises run out on purpose

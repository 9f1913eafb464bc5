"""The constants and the pure size rules of the allocator: request -> block -> segment.

Measured on two H200 under torch 2.11 (`docs/reference/allocator-model.md`); the constants are the
same in every release from 1.13 to 2.14.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

#: Granularity of every request.
MIN_BLOCK_BYTES = 512
#: A rounded size up to this is served from the small pool.
SMALL_LIMIT_BYTES = MIB
#: Segment of the small pool; under expandable segments its page.
SMALL_SEGMENT_BYTES = 2 * MIB
#: Segment of the large pool for requests below `DIRECT_LIMIT_BYTES`; under expandable segments
#: its page. Since torch 2.11 `large_segment_size_mb` changes it.
LARGE_SEGMENT_BYTES = 20 * MIB
#: From this rounded size on a request gets a segment of its own.
DIRECT_LIMIT_BYTES = 10 * MIB
#: Granularity of such a segment.
DIRECT_ROUND_BYTES = 2 * MIB
#: "No limit" in comparisons: the largest size_t.
UNLIMITED_BYTES = (1 << 64) - 1
#: Number of intervals that `roundup_power2_divisions` tells apart: 1 MiB, 2 MiB ... 32 GiB.
ROUNDUP_SLOTS = 16
#: Requests from this size on fail at once.
ABSURD_BYTES = 1 << 60

_FIRST_SLOT_BIT = MIB.bit_length()


def ceil_to(size_bytes: int, unit_bytes: int) -> int:
    """Round up to a multiple of `unit_bytes`."""
    return -(-size_bytes // unit_bytes) * unit_bytes


def is_power_of_two(number: int) -> bool:
    """Tell whether `number` is 1, 2, 4, 8 ..."""
    return number > 0 and number & (number - 1) == 0


def roundup_slot(size_bytes: int) -> int:
    """Return which of the `ROUNDUP_SLOTS` intervals a size (> 0) falls in."""
    return max(0, min(size_bytes.bit_length() - _FIRST_SLOT_BIT, ROUNDUP_SLOTS - 1))


def round_request(request_bytes: int, divisions: tuple[int, ...]) -> int:
    """Return the size of the block that serves a request.

    Args:
        request_bytes: what was asked for, above 0.
        divisions: `Config.roundup_divisions`, one entry for each slot.

    """
    if request_bytes < MIN_BLOCK_BYTES:
        return MIN_BLOCK_BYTES
    parts = divisions[roundup_slot(request_bytes)]
    if parts <= 1 or request_bytes <= MIN_BLOCK_BYTES * parts:
        return ceil_to(request_bytes, MIN_BLOCK_BYTES)
    if is_power_of_two(request_bytes):
        return request_bytes
    return ceil_to(request_bytes, (1 << (request_bytes.bit_length() - 1)) // parts)


def segment_size(block_bytes: int, large_segment_bytes: int = LARGE_SEGMENT_BYTES) -> int:
    """Return what the driver is asked for when no cached block serves `block_bytes`.

    This is also the size that an out-of-memory message says it tried to allocate.
    """
    if block_bytes <= SMALL_LIMIT_BYTES:
        return SMALL_SEGMENT_BYTES
    if block_bytes < DIRECT_LIMIT_BYTES:
        return large_segment_bytes
    return ceil_to(block_bytes, DIRECT_ROUND_BYTES)


def format_size(size_bytes: int) -> str:
    """Print a size as torch's out-of-memory messages do; the bounds belong to the smaller unit."""
    if size_bytes <= KIB:
        return f"{size_bytes} bytes"
    if size_bytes <= MIB:
        return f"{size_bytes / KIB:.2f} KiB"
    if size_bytes <= GIB:
        return f"{size_bytes / MIB:.2f} MiB"
    return f"{size_bytes / GIB:.2f} GiB"

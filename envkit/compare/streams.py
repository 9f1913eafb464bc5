"""Where two streams of requests part, and the shape of what is different.

A stream has `requests` (n > 0: n bytes, -k: the free of allocation k), `streams` (allocation to
CUDA stream, for those not on the main one), and for workspaces `after_tensors`: how many tensors
had been allocated before each request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

#: Sizes named on each side; the rest is counted.
MOST_SIZES: Final = 4


def is_stream(value: Any) -> bool:
    """Whether a probe's values are a stream: what is read from a file may be anything."""
    if not isinstance(value, Mapping) or not isinstance(value.get("streams"), Mapping):
        return False
    lists = (value.get("requests"), value.get("after_tensors", []))
    return all(isinstance(one, list) and all(type(n) is int for n in one) for one in lists)


def shape(values: Sequence[Any]) -> list[dict[str, Any] | None]:
    """Return for every stream what sets it apart: counts, its first differing request, sizes.

    `first` is the request (counted from 1) at which the streams part; `only_here` the sizes in
    bytes that it asks for more often than the leanest of the others, and how much more often.
    """
    streams = [value if isinstance(value, Mapping) else None for value in values]
    present = [one for one in streams if one is not None]
    at = _first_difference(present)
    sizes = [Counter(n for n in _requests(one) if n > 0) for one in present]
    least = sizes[0].copy()
    for one in sizes[1:]:
        least &= one
    shapes = [_shape(one, at, count - least) for one, count in zip(present, sizes, strict=True)]
    following = iter(shapes)
    return [None if one is None else next(following) for one in streams]


def _shape(stream: Mapping[str, Any], at: int, more: Counter[int]) -> dict[str, Any]:
    requests = _requests(stream)
    named = sorted(more.items(), key=lambda item: (-item[0] * item[1], item[0]))
    return {
        "requests": len(requests),
        "allocations": sum(n > 0 for n in requests),
        "total_bytes": sum(n for n in requests if n > 0),
        "first": _request(stream, at),
        "only_here": {str(size): count for size, count in named[:MOST_SIZES]},
        "more_sizes": max(0, len(named) - MOST_SIZES),
    }


def _request(stream: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Return request number `at` as something to be read."""
    requests = _requests(stream)
    if at >= len(requests):
        return {"request": at + 1, "is": "the stream has ended"}
    request = requests[at]
    found: dict[str, Any] = {"request": at + 1}
    positions = stream.get("after_tensors")
    if isinstance(positions, list) and at < len(positions):
        found["after_tensors"] = positions[at]
    if request > 0:
        found["bytes"] = request
        number = str(sum(n > 0 for n in requests[: at + 1]))
        found["allocation"] = int(number)
        if number in stream.get("streams", {}):
            found["stream"] = stream["streams"][number]
    else:
        found["frees"] = -request
    return found


def _first_difference(streams: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the first request that is not the same in all; 0 where there is none."""
    rows = zip_longest(*(_steps(one) for one in streams))
    return next((n for n, row in enumerate(rows) if any(one != row[0] for one in row[1:])), 0)


def _steps(stream: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    requests = _requests(stream)
    positions = stream.get("after_tensors")
    places = positions if isinstance(positions, list) else []
    if not stream.get("streams"):
        return list(zip_longest(requests, places[: len(requests)]))
    on = stream["streams"]
    steps: list[tuple[Any, ...]] = []
    number = 0
    for request, place in zip_longest(requests, places[: len(requests)]):
        number += request > 0
        steps.append((request, place, on.get(str(number)) if request > 0 else None))
    return steps


def _requests(stream: Mapping[str, Any]) -> list[int]:
    found = stream.get("requests")
    return found if isinstance(found, list) else []

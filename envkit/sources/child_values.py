"""JSON values of the child's facts, checked and turned into the types of the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from envkit.model.facts import CudaError, Scalar, Setting, TorchDevice
from envkit.model.observed import Absent, NotApplicable, Unreadable
from envkit.sources.redacted import escape_control, redact

MAX_CHARS: Final = 300
MAX_ITEMS: Final = 1000
MAX_NUMBER: Final = 2**63 - 1


def state_without_value(value: object, source: str) -> Absent | Unreadable | NotApplicable | None:
    """Return the state that the child sent in place of a value, or None if it sent a value."""
    if value is None:
        return Absent(source=source, reason="torch says None")
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    (kind, reason), *_ = value.items()
    text = redact(str(reason), homes=(), limit=MAX_CHARS)
    if kind == "absent":
        return Absent(source=source, reason=text)
    if kind == "unreadable":
        return Unreadable(source=source, reason=text)
    if kind == "not_applicable":
        return NotApplicable(source=source, reason=text)
    return None


def as_text(value: Any) -> str:
    """Return a text, redacted and cut; TypeError for anything else, as for all of these."""
    if not isinstance(value, str):
        message = f"not a text: {value!r}"
        raise TypeError(message)
    return redact(value, homes=(), limit=MAX_CHARS)


def as_int(value: Any) -> int:
    """Return a whole number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_NUMBER:
        message = f"not a whole number of 64 bits: {value!r}"
        raise TypeError(message)
    return value


def as_bool(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        message = f"neither true nor false: {value!r}"
        raise TypeError(message)
    return value


def as_items(value: Any) -> list[Any]:
    """Return a list of a bearable length."""
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        message = f"not a list of at most {MAX_ITEMS} entries"
        raise TypeError(message)
    return value


def as_texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts."""
    return tuple(as_text(item) for item in as_items(value))


def as_intra_threads(value: Any) -> int:
    """Return the number of threads inside one operation."""
    return as_int(value["intra"])


def as_cuda_error(value: Any) -> CudaError:
    """Return an error of CUDA from `{code, name, message}`."""
    return CudaError(
        code=as_int(value["code"]),
        name=as_text(value.get("name", "")),
        message=as_text(value.get("message", "")),
    )


def as_devices(value: Any) -> tuple[TorchDevice, ...]:
    """Return the devices that torch lists."""
    return tuple(
        TorchDevice(
            index=as_int(device["index"]),
            name=as_text(device["name"]),
            capability=as_text(device["capability"]),
            memory_bytes=as_int(device["memory_bytes"]),
            sm_count=as_int(device["sm_count"]),
        )
        for device in as_items(value)
    )


def as_scalars(value: Any) -> dict[str, Scalar]:
    """Return plain values by name; one that this torch does not have is left out."""
    return {name: item if _is_plain(item) else _written(item) for name, item in _named(value)}


def as_settings(value: Any) -> dict[str, Setting]:
    """Return settings by name; a table of whole numbers stays one."""
    return {
        name: item if _is_plain(item) or _is_table(item) else _written(item)
        for name, item in _named(value)
    }


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        message = f"not an object: {value!r}"
        raise TypeError(message)
    for name in sorted(value, key=str)[:MAX_ITEMS]:
        if state_without_value(value[name], "") is None:
            yield escape_control(str(name))[:MAX_CHARS], value[name]


def _is_plain(item: object) -> bool:
    if isinstance(item, float):
        return math.isfinite(item)
    return isinstance(item, int) and abs(item) <= MAX_NUMBER


def _is_table(item: object) -> bool:
    return isinstance(item, dict) and all(
        _is_plain(number) and not isinstance(number, bool | float) for number in item.values()
    )


def _written(item: object) -> str:
    text = item if isinstance(item, str) else msgspec.json.encode(item).decode()
    return redact(text, homes=(), limit=MAX_CHARS)

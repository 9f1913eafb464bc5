"""How much a child may say: what comes from the target's Python may be damaged, or made up."""

from __future__ import annotations

from typing import Any, Final

import msgspec

#: Longest line; the longest of a full suite on an H200 has 60 KB.
MAX_LINE_BYTES: Final = 4 << 20
#: Most events that are kept; a full suite has a few hundred.
MAX_EVENTS: Final = 4000
#: Names in all families of facts together; torch has a few dozen.
MAX_FACTS: Final = 4000
MAX_NAME_CHARS: Final = 200
MAX_TEXT_CHARS: Final = 2000
#: Deepest nesting of a value; an exercise has 4 levels, a document of ours can have 64.
MAX_DEPTH: Final = 32
#: Largest whole number that a document may hold, and that RFC 8785 can put into a digest.
MAX_NUMBER: Final = 2**63 - 1
MAX_DIGEST_NUMBER: Final = 2**53 - 1

#: Fields that are names; every other text is a sentence or a path.
_NAMES: Final = frozenset({"name", "family", "device", "status", "kind", "type", "stage", "layer"})


def clipped_texts(event: msgspec.Struct) -> Any:
    """Return an event whose texts have a bearable length; its JSON values are left alone."""
    changes: dict[str, Any] = {}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        short = _short(value, MAX_NAME_CHARS if field in _NAMES else MAX_TEXT_CHARS)
        if short is not value:
            changes[field] = short
    return msgspec.structs.replace(event, **changes) if changes else event


def why_unbearable(value: Any, *, for_digest: bool = False) -> str:
    """Say what about a JSON value no document can hold (or no digest); empty if nothing is."""
    largest = MAX_DIGEST_NUMBER if for_digest else MAX_NUMBER
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, (list, tuple)):
                inner.extend(one)
            elif isinstance(one, int) and abs(one) > largest:
                return f"a number is beyond {largest}"
        if not inner:
            return ""
        level = inner
    return f"the values are nested deeper than {MAX_DEPTH} levels"


def _short(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}..."
    if isinstance(value, tuple) and value:
        short = tuple(
            clipped_texts(one) if isinstance(one, msgspec.Struct) else _short(one, limit)
            for one in value[:MAX_EVENTS]
        )
        return value if short == value else short
    return value

"""JSON of the documents: strict reading of input that may be hostile, stable writing, digests."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from envkit.errors import InputError

T = TypeVar("T")

#: Largest document that is read. A report of a full suite is below 4 MiB.
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
#: Deepest nesting that is read; our documents need 12.
MAX_DEPTH = 64
#: Values of a document: the baseline of a full suite on an H200 has 26,000.
MAX_VALUES = 500_000


def decode(content: bytes, document: type[T], *, origin: str) -> T:
    """Read a JSON document of a known type.

    Args:
        content: the bytes of the file.
        document: the struct to read.
        origin: what to call the input in messages, e.g. its file name.

    Raises:
        InputError: too large, not JSON, a key twice, too deep, or a value of the wrong type; the
            message has the path to the value.

    """
    return convert(read_json(content, origin=origin), document, origin=origin)


def convert(value: Any, document: type[T], *, origin: str) -> T:
    """Turn the value of a JSON document that was read already into a known type.

    Raises:
        InputError: a value of the wrong type; the message has the path to it.

    """
    try:
        return msgspec.convert(value, type=document)
    except msgspec.ValidationError as error:
        raise _invalid(origin, str(error)) from error


def read_json(content: bytes, *, origin: str, most_values: int = MAX_VALUES) -> Any:
    """Read JSON of unknown type within the limits.

    Args:
        content: the bytes of the file.
        origin: what to call the input in messages.
        most_values: commas and brackets that it may have: each value becomes an object.

    Raises:
        InputError: too large, not JSON, a key twice, NaN, a huge number, half a character.

    """
    if len(content) > MAX_DOCUMENT_BYTES:
        raise _invalid(origin, f"{len(content)} bytes are more than {MAX_DOCUMENT_BYTES}")
    if sum(map(content.count, (b",", b"{", b"["))) > most_values:
        raise _invalid(origin, f"it has more than {most_values} values")
    plain = _plain_json(content)
    if plain is not None:
        return plain
    if _depth(content) > MAX_DEPTH:
        raise _invalid(origin, f"nested deeper than {MAX_DEPTH} levels")
    try:
        text = content.decode("utf-8-sig")
        value = json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_int=_bounded_int,
        )
        _check_characters(text, value)
    except (ValueError, RecursionError) as error:
        raise _invalid(origin, str(error)) from error
    return value


def encode(document: msgspec.Struct) -> bytes:
    """Write a document: keys in the order of the contract, two spaces, one newline at the end.

    Lists of numbers stand on one line: a request stream has thousands.
    """
    spread = msgspec.json.format(msgspec.json.encode(document), indent=2)
    return _NUMBERS.sub(lambda found: b" ".join(found[0].split()), spread) + b"\n"


def digest(value: Any) -> str:
    """Return `sha256:` and the SHA-256 of the RFC 8785 form of a JSON value."""
    # Only a report with a fingerprint has digests; most commands end without one.
    import hashlib  # noqa: PLC0415

    import rfc8785  # noqa: PLC0415

    return "sha256:" + hashlib.sha256(rfc8785.dumps(msgspec.to_builtins(value))).hexdigest()


#: Digits of a number that may be too large; in a string they only cost the quick way.
_LONG_NUMBER = re.compile(rb"[0-9]{20}")


def _plain_json(content: bytes) -> Any:
    """Read a document that is written as we write them, 5 times as fast; None for any other.

    What was read, written again, must be the same bytes: then no key stands twice, no number is
    too large or not JSON, and nothing was read otherwise than the careful way would.
    """
    try:
        compact = msgspec.json.format(content, indent=-1)
        value = msgspec.json.decode(compact)
        if msgspec.json.encode(value) != compact or _LONG_NUMBER.search(compact):
            return None
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return value if isinstance(value, dict) and _within_depth(value) else None


def _within_depth(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [
            child for one in level for child in (one.values() if isinstance(one, dict) else one)
        ]
        level = [child for child in inner if isinstance(child, dict | list)]
        if not level:
            return True
    return False


#: A list of numbers over several lines; no string can match, a line end in one is escaped.
_NUMBERS = re.compile(rb"(?<=\[)\n *-?\d[-+.\deE]*(?:,\n *-?\d[-+.\deE]*)*\n *(?=\])")


#: A string (skipped: it may hold brackets) or a bracket.
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)


def _depth(content: bytes) -> int:
    # Before parsing: the parsers recurse, and how deep they can go depends on the caller's stack.
    if content.count(b"[") + content.count(b"{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for found in _BRACKETS.finditer(content):
        token = content[found.start()]
        if token in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                return deepest
        elif token in b"]}":
            depth -= 1
    return deepest


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                message = f"the key {key[:80]!r} stands twice in one object"
                raise ValueError(message)
            seen.add(key)
    return found


#: Half of a character beyond 16 bits, escaped; two of them make one.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def _check_characters(text: str, value: Any) -> None:
    """Refuse half a character: it is in no text, and nothing that holds it can be written."""
    if _HALF.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            message = "it has half a character (\\ud800 to \\udfff alone)"
            raise ValueError(message) from None


def _no_constant(text: str) -> float:
    message = f"{text} is not JSON"
    raise ValueError(message)


def _bounded_int(text: str) -> int:
    if len(text) > 20:  # noqa: PLR2004  (longest 64-bit integer with its sign)
        message = f"the number {text[:24]}... is too large"
        raise ValueError(message)
    return int(text)


def _invalid(origin: str, reason: str) -> InputError:
    return InputError(
        f"{origin} is not a valid document: {reason}",
        next_step="Check that the file is complete and was written by envkit or by hand as "
        "docs/reference/documents.md says.",
    )

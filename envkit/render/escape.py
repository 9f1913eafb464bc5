"""How text from an input is made harmless for a terminal: nothing in it can move or hide anything.

Control characters, ANSI sequences, bidirectional overrides, invisible characters and lone
surrogates are shown as escapes; `str.isprintable` is the rule, which follows Unicode's categories.
"""

from __future__ import annotations

import re

_NOT_ASCII_TEXT = re.compile(r"[^\x20-\x7e\n]")


def printable(text: str) -> str:
    r"""Return one line of text in which every character that is not printable is an escape.

    A line break becomes `\n`, so that what is shown stays the line it is meant to be.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def ascii_only(text: str) -> str:
    """Return text for an output that can show ASCII only."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def printable_json(document: str) -> str:
    r"""Escape, inside the strings of a JSON document, what JSON itself leaves raw.

    The value stays the same: U+009B, say, is written as six characters, `\u009b`.
    """
    return _NOT_ASCII_TEXT.sub(_escape_json, document)


def _escape(character: str) -> str:
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character)
    if short is not None:
        return short
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _escape_json(found: re.Match[str]) -> str:
    character = found.group()
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

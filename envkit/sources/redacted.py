"""What is taken out of a value before it is kept: secrets, the home folder, control codes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

#: Longest value that is kept of a variable or a path.
MAX_CHARS: Final = 1000
#: Longest text that is looked at; an environment variable of Linux has at most 128 KiB.
MAX_LOOKED_AT: Final = 1 << 20

_USER_IN_URL = re.compile(r"(?a)(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,20}://)[^/\s]{0,2000}@")
#: anaconda.org and Artifactory: `https://host/t/TOKEN/channel`.
_TOKEN_IN_PATH = re.compile(r"(?a)(?P<host>[A-Za-z][A-Za-z0-9+.-]{0,20}://[^/\s]{1,255})/t/[^/\s]+")
_QUERY = re.compile(r"(?a)(?P<address>[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s?#]{1,2000})[?#]\S*")
#: C0, DEL, C1, line separators, and the marks that turn the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: A path begins at the start of a text, after a separator of lists, or in `file://`.
_BEFORE_PATH = r"(?:(?<![^:;,=\s\"'(\[])|(?<=://))"
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def without_credentials(text: str) -> str:
    """Remove user names, tokens, queries and fragments from every address in a text."""
    if "://" not in text or not any(mark in text for mark in ("@", "/t/", "?", "#")):
        return text
    text = _USER_IN_URL.sub(r"\g<scheme>", text)
    text = _TOKEN_IN_PATH.sub(r"\g<host>", text)
    return _QUERY.sub(r"\g<address>", text)


def home_folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the home folder as it is written and with its links resolved."""
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    if len(home.strip("/\\")) < 1 or not Path(home).is_absolute():
        return ()
    return tuple(dict.fromkeys((home.rstrip("/\\"), os.path.realpath(home))))


def shorten_home(text: str, homes: Sequence[str]) -> str:
    """Write `~` for the home folder, wherever it stands as the beginning of a path."""
    for home in homes:
        text = re.sub(_BEFORE_PATH + re.escape(home) + r"(?![^/\\:;,\s\"'])", "~", text)
    return text


def escape_control(text: str, *, keep: str = "") -> str:
    r"""Write control characters as `\x1b`, `\u202e`; those in `keep` stay."""
    if text.isascii() and text.isprintable():
        return text  # as most are, in environments of a thousand packages
    visible = _SURROGATE.sub("\ufffd", text)
    return _CONTROL.sub(lambda found: _escaped(found.group(), keep), visible)


def _escaped(character: str, keep: str) -> str:
    if character in keep:
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}"  # noqa: PLR2004


def clipped(text: str, limit: int = MAX_CHARS) -> str:
    """Cut a text, and say that it was cut."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def redact(text: str, *, homes: Sequence[str], limit: int = MAX_CHARS, keep: str = "") -> str:
    """Apply all of the above."""
    shown = without_credentials(text[:MAX_LOOKED_AT])
    return clipped(escape_control(shorten_home(shown, homes), keep=keep), limit)

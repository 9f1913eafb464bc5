"""JSON of a document, as it is printed and saved: the same bytes in both places."""

from __future__ import annotations

import msgspec

from envkit.model import codec
from envkit.render.escape import printable_json


def render_json(document: msgspec.Struct) -> str:
    """Write any of the documents; safe to show in a terminal."""
    return printable_json(codec.encode(document).decode())

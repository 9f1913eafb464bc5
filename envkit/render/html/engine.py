"""How a page is made from a template: every value is shown as text, and nothing else may run.

A page has one style and one script of ours. Its content security policy names both by their hash
and allows nothing else, so that a value that got past the escaping could load and run nothing.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from envkit import __version__
from envkit.render.escape import printable
from envkit.render.svg import STYLE

FOLDER: Final = Path(__file__).parent / "templates"
#: Characters of one text that are shown; the rest is in the report.
MOST_CHARACTERS: Final = 600


def draw(template: str, **values: Any) -> str:
    """Fill a template.

    Args:
        template: its file name.
        values: what it names; texts become harmless text, `Markup` alone is left as it is.

    """
    style, script = _assets()
    return (
        _environment()
        .get_template(template)
        .render(
            values, style=style, script=script, policy=_policy(style, script), version=__version__
        )
    )


def clipped(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the beginning of a text that is too long for a page, and how long it is."""
    if len(text) <= most:
        return text
    return f"{text[:most]}... ({len(text):,} characters, all in the report)"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clipped"] = clipped
    environment.tests["address"] = _is_address
    return environment


def _harmless(value: Any) -> Any:
    """Show control characters and bidirectional overrides as escapes; markup is ours alone."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value)


def _is_address(text: str) -> bool:
    """Whether a text can be linked to; `javascript:` and the like cannot."""
    return text.startswith(("https://", "http://")) and text.isprintable() and " " not in text


@cache
def _assets() -> tuple[Markup, Markup]:
    style = f"{STYLE}{(FOLDER / 'page.css').read_text('utf-8')}"
    script = (FOLDER / "page.js").read_text("utf-8")
    return Markup(style), Markup(script)  # noqa: S704  (our own files, no value in them)


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

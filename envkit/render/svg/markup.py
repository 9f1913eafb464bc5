"""Elements of SVG and HTML as text, in which nothing that was given as text can become markup."""

from __future__ import annotations

from html import escape

from envkit.render.escape import printable


class Markup(str):
    """Text that is markup already; every other text is escaped when it is put into an element."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        children: markup, or text that is escaped; control characters are shown as escapes.
        attributes: an underscore is written as a hyphen, one at the end (`class_`) is left out;
            None leaves the attribute out; fractions are written with one digit.

    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*parts: str) -> Markup:
    """Return markup of parts that stand one behind the other; what is no markup is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else safe(part) for part in parts))


def safe(text: str) -> Markup:
    """Return a text as markup that shows it."""
    return Markup(escape(printable(text)))


def number(value: float) -> str:
    """Return a coordinate: a tenth of a pixel is enough."""
    return f"{round(value, 1) + 0.0:g}"  # + 0.0: no "-0"


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else safe(str(value))

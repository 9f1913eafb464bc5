"""A page of text for a terminal: lines, paragraphs and tables that keep to its width."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.containers import Lines
from rich.text import Text

from envkit.render.escape import ascii_only, printable
from envkit.render.style import Style

#: Columns that a text needs, and how far it is moved in where it begins below its lead.
_LEAST_ROOM: Final = 20
_BELOW: Final = "      "


class Page:
    """Lines that never get wider than the page; long ones go on under their own beginning."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self._out = io.StringIO()
        self._console = Console(
            file=self._out,
            width=style.width,
            height=25,
            color_system="standard" if style.color else None,
            force_terminal=style.color,
            no_color=not style.color,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
            _environ={},
        )

    def symbol(self, pair: tuple[str, str]) -> str:
        """Return the first of two signs, or the second where only ASCII can be shown."""
        return pair[0] if self.style.unicode else pair[1]

    def line(self, lead: str, body: str, *, lead_style: str = "", style: str = "") -> None:
        """Write `lead` and then `body`, wrapped under the end of `lead`.

        Where the lead leaves no room, the body begins on the line below it.
        """
        lead = self._shown(lead)
        if self.style.width - len(lead) < _LEAST_ROOM and body and lead.strip():
            self._console.print(Text(lead.rstrip(), style=lead_style), soft_wrap=True)
            lead = _BELOW
        room = max(_LEAST_ROOM, self.style.width - len(lead))
        wrapped = self._wrapped(Text(self._shown(body), style=style), room)
        beginning = Text(lead, style=lead_style)
        for part in wrapped:
            row = Text.assemble(beginning, part)
            row.rstrip()
            self._console.print(row, soft_wrap=True)
            beginning = Text(" " * len(lead))

    def paragraph(self, *parts: tuple[str, str]) -> None:
        """Write parts, each with its style, as one text wrapped at the left edge."""
        whole = Text.assemble(*((self._shown(text), style) for text, style in parts))
        for part in self._wrapped(whole, self.style.width):
            part.rstrip()
            self._console.print(part, soft_wrap=True)

    def command(self, text: str) -> None:
        """Write a command whole, however long: it is there to be copied."""
        self._console.print(Text.assemble(("       $ ", "dim"), self._shown(text)), soft_wrap=True)

    def blank(self) -> None:
        """Write an empty line."""
        self._console.print()

    def table(self, title: str, rows: Iterable[tuple[str, str]]) -> None:
        """Write a title and rows of a name and a value."""
        rows = list(rows)
        if not rows:
            return
        self.blank()
        self.line("", title, style="bold")
        name_width = max(len(name) for name, _ in rows)
        for name, value in rows:
            self.line(f"  {name:<{name_width}}  ", value, lead_style="dim")

    def text(self) -> str:
        """Return everything that was written."""
        return self._out.getvalue()

    def _wrapped(self, text: Text, room: int) -> Lines:
        return text.wrap(self._console, room, overflow="fold")

    def _shown(self, text: str) -> str:
        return printable(text) if self.style.unicode else ascii_only(printable(text))

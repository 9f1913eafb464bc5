"""Lines of text drawn without rich, which costs a pre-commit hook more time than its check."""

from __future__ import annotations

import textwrap
from typing import Final

from envkit.render.escape import ascii_only, printable
from envkit.render.style import Style

#: Codes of a terminal's colours (SGR): what is wrong, what is doubtful, what is to be known, good.
RED: Final = "31"
YELLOW: Final = "33"
CYAN: Final = "36"
GREEN: Final = "32"
BOLD: Final = "1"
#: Narrower than this, lines are no longer broken: every word would stand alone.
_LEAST_WIDTH: Final = 40


def wrapped(text: str, lead: str, style: Style) -> list[str]:
    """Return `lead` and then `text`, harmless, wrapped under the end of `lead`."""
    return textwrap.wrap(
        shown(text, style),
        width=max(_LEAST_WIDTH, style.width),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def painted(text: str, code: str, style: Style) -> str:
    """Return text in a colour, where there are colours."""
    return f"\x1b[{code}m{text}\x1b[0m" if style.color else text


def shown(text: str, style: Style) -> str:
    """Return one line that the output can show and that moves nothing there."""
    return printable(text) if style.unicode else ascii_only(printable(text))

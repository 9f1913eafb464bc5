"""Outcomes as workflow commands of GitHub Actions, which become annotations of a pull request."""

from __future__ import annotations

from typing import Final

from envkit.render.escape import printable
from envkit.render.outcome import LEVELS, Level, Outcome, Remark

#: Annotations of a level that GitHub shows of a step; what is beyond is in the step summary.
MOST_ANNOTATIONS: Final = 10
_COMMANDS: Final[dict[Level, str]] = {"error": "error", "warning": "warning", "note": "notice"}
_OF_EXIT_CODE: Final[dict[int, Level]] = {0: "note", 3: "warning"}
#: GitHub shows 4 KiB or so of a message.
_MOST_CHARACTERS: Final = 3000


def render_github(outcome: Outcome) -> str:
    """Write the verdict as one command, then a command a remark, errors first."""
    level = _OF_EXIT_CODE.get(outcome.exit_code, "error")
    lines = [_command(level, f"envkit {outcome.command}", (outcome.headline,))]
    for kind in LEVELS:
        found = [one for one in outcome.remarks if one.level == kind]
        room = MOST_ANNOTATIONS - 1 if kind in {level, "note"} else MOST_ANNOTATIONS
        lines += [_annotation(one) for one in found[:room]]
        if len(found) > room:
            more = f"{len(found) - room} more {_COMMANDS[kind]}s: see the step summary, or the JSON"
            lines.append(_command("note", f"envkit {outcome.command}", (more,)))
    return "\n".join(lines) + "\n"


def _annotation(remark: Remark) -> str:
    where = ""
    if remark.place is not None:
        where = f"file={_property(remark.place.file)},line={remark.place.line or 1},"
    return _command(remark.level, f"{remark.code} {remark.title}", remark.lines, where)


def _command(level: Level, title: str, lines: tuple[str, ...], where: str = "") -> str:
    message = "%0A".join(_data(line) for line in lines) or _data(title)
    clipped = message[:_MOST_CHARACTERS]
    # An escape cut in two would be shown as something else.
    clipped = clipped[: clipped.rfind("%")] if "%" in clipped[-2:] else clipped
    return f"::{_COMMANDS[level]} {where}title={_property(title)}::{clipped}"


def _data(text: str) -> str:
    """Escape a message: no character of it can end the line or begin another command."""
    return printable(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

"""Where an answer goes and in which format: stdout, or a file that its name's ending decides."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from envkit.cli.command import Terminal
from envkit.cli.endings import format_of
from envkit.cli.output import complain, emit, style_of
from envkit.render.json_ import render_json
from envkit.render.outcome import Outcome, placed
from envkit.render.style import Style
from envkit.workflows.save import write_atomically

#: Name of a format -> what writes it; each is called only where it is chosen.
Formats = Mapping[str, Callable[[Style], str]]
#: GitHub's runners name a file there, whose Markdown they show below the log.
SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"


def write_document(
    document: msgspec.Struct,
    draw: Callable[[Style], str],
    options: dict[str, Any],
    terminal: Terminal,
    *,
    others: Formats | None = None,
) -> None:
    """Write a document to `-o`, or to stdout without it.

    Args:
        document: its JSON.
        draw: makes its text.
        options: those of the command: `output`, `format_`, `as_json`.
        terminal: how to draw on stdout.
        others: what makes the formats that the command has besides.

    """
    formats: Formats = {"text": draw, "json": lambda _: render_json(document), **(others or {})}
    if options["output"] is None:
        print_format(formats, options, terminal)
        return
    write_file(formats, options)
    add_summary(formats, options)


def print_format(formats: Formats, options: dict[str, Any], terminal: Terminal) -> None:
    """Write to stdout what `--format` asks for, else text; annotations come with a summary."""
    emit(formats[chosen_format(options) or "text"](style_of(terminal)))
    add_summary(formats, options)


def write_file(formats: Formats, options: dict[str, Any]) -> None:
    """Write the file that `-o` names, in the format of its ending unless `--format` says one."""
    name = wanted_format(options, formats)
    write_atomically(Path(options["output"]), formats[name](Style()).encode())


def wanted_format(options: dict[str, Any], names: Container[str]) -> str:
    """Return what is asked for, else what the ending of `-o` names of these formats, else text."""
    asked = chosen_format(options)
    if asked is not None:
        return asked
    by_ending = format_of(options["output"] or "")
    return by_ending if by_ending is not None and by_ending in names else "text"


def chosen_format(options: dict[str, Any]) -> str | None:
    """Return what `--format` or `--json` asks for."""
    return "json" if options["as_json"] else options["format_"]


def add_summary(formats: Formats, options: dict[str, Any]) -> None:
    """Append Markdown to GitHub's step summary, where annotations were asked for and it has one.

    That it cannot be written changes nothing of the answer.
    """
    place = os.environ.get(SUMMARY_VARIABLE)
    if chosen_format(options) != "github" or not place:
        return
    try:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(formats["markdown"](Style()) + "\n")
    except OSError as error:
        complain(f"envkit: the step summary was not written: {error.strerror or error}")


def of_outcome(make: Callable[[], Outcome]) -> dict[str, Callable[[Style], str]]:
    """Return the formats that are made of an outcome, with its places found in the repository."""

    def markdown(_: Style) -> str:
        from envkit.render.markdown import render_outcome  # noqa: PLC0415

        return render_outcome(in_repository(make()))

    def junit(_: Style) -> str:
        from envkit.render.junit import render_junit  # noqa: PLC0415

        return render_junit(in_repository(make()))

    def sarif(_: Style) -> str:
        from envkit.render.sarif import render_sarif  # noqa: PLC0415

        return render_sarif(in_repository(make()))

    def github(_: Style) -> str:
        from envkit.render.github import render_github  # noqa: PLC0415

        return render_github(in_repository(make()))

    return {"markdown": markdown, "junit": junit, "sarif": sarif, "github": github}


def in_repository(outcome: Outcome) -> Outcome:
    """Return the outcome with the paths and lines that the repository has."""
    from envkit.workflows.config import current_folder  # noqa: PLC0415 (not for text)
    from envkit.workflows.places import PlaceFinder  # noqa: PLC0415

    return placed(outcome, PlaceFinder(os.environ, current_folder()).find)

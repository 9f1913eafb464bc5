"""`envkit memory`: what a training run needs of the card's memory."""

from __future__ import annotations

from typing import Any

import click

from envkit.cli.command import (
    EnvkitCommand,
    SubcommandGroup,
    Terminal,
    format_options,
    terminal_options,
)
from envkit.cli.output import style_of
from envkit.cli.progress import progress
from envkit.cli.strategies import strategies_command
from envkit.cli.written import wanted_format, write_document
from envkit.render.style import Style
from envkit.workflows.save import keep_inputs

EXAMPLES = """\
envkit memory replay run.pickle
envkit memory replay run.pickle --total-memory 24GiB
envkit memory replay run.pickle --conf expandable_segments:True --must-fit
envkit memory replay run.pickle -o memory.html"""

GROUP_EXAMPLES = f"{EXAMPLES}\nenvkit memory strategies --workload resnet50 --batch 64"

#: Formats that need the course of the memory, not only its peaks.
PICTURES = frozenset({"html", "svg"})


@click.group(cls=SubcommandGroup, name="memory", examples=GROUP_EXAMPLES)
@click.pass_context
def command(context: click.Context) -> None:
    """Replay a memory snapshot; measure what remedies save."""
    command.require_command(context)


command.add_command(strategies_command)


@command.command(cls=EnvkitCommand, name="replay", examples=EXAMPLES)
@click.argument("snapshot", metavar="SNAPSHOT")
@click.option("--conf", "confs", metavar="CONF", multiple=True,
              help="Allocator settings to try, repeatable [the useful ones].")  # fmt: skip
@click.option("--total-memory", metavar="SIZE", help="What torch can have, such as 24GiB.")
@click.option("--must-fit", is_flag=True, help="Exit with 1 if a setting asked for runs out.")
@click.option("-o", "output", metavar="FILE",
              help="Write it there; .json, .html and .svg choose that format.")  # fmt: skip
@format_options("text", "json", "html", "svg")
@terminal_options
def replay_command(**options: Any) -> int:
    """Say what a recorded run would have needed under other settings or on another card.

    SNAPSHOT is a file of torch.cuda.memory._dump_snapshot, or the same as JSON. The model first
    proves itself on it: every allocation at its recorded address, the same state at the end.
    HTML and SVG are pictures: memory over the events, and the segments at the peak.
    """
    from envkit.workflows.replay import (  # noqa: PLC0415 (not for the group's help)
        ReplayRequest,
        exit_code,
        parse_size,
        replay_with_courses,
    )

    terminal = Terminal.of(options)
    keep_inputs(options["output"], (options["snapshot"],))
    total = options["total_memory"]
    request = ReplayRequest(
        snapshot=options["snapshot"],
        confs=options["confs"],
        total_memory_bytes=parse_size(total) if total is not None else None,
        with_courses=wanted_format(options, PICTURES) in PICTURES,
    )
    with progress(shown=terminal.progress_on(), ascii_only=not style_of(terminal).unicode) as tell:
        found = replay_with_courses(request, tell)
    document = found.document

    def draw(style: Style) -> str:
        from envkit.render.replay_text import render_replay_text  # noqa: PLC0415 (rich)

        return render_replay_text(document, style)

    def page(_: Style) -> str:
        from envkit.render.html.replay import render_replay_html  # noqa: PLC0415 (jinja2)

        return render_replay_html(document, found.courses)

    def picture(_: Style) -> str:
        from envkit.render.replay_picture import render_replay_svg  # noqa: PLC0415 (as above)

        return render_replay_svg(document, found.courses)

    write_document(document, draw, options, terminal, others={"html": page, "svg": picture})
    return exit_code(document, request, must_fit=options["must_fit"])

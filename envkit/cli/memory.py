"""`envkit memory`: what a training run needs of the card's memory."""

from __future__ import annotations

from typing import Any

import click

from envkit.cli.command import (
    HELP_NAMES,
    EnvkitCommand,
    Terminal,
    epilog_lines,
    format_options,
    terminal_options,
)
from envkit.cli.output import style_of
from envkit.cli.progress import progress
from envkit.cli.strategies import strategies_command
from envkit.cli.written import write_document
from envkit.errors import UsageError
from envkit.render.style import Style

EXAMPLES = """\
envkit memory replay run.pickle
envkit memory replay run.pickle --total-memory 24GiB
envkit memory replay run.pickle --conf expandable_segments:True --must-fit"""
GROUP_EXAMPLES = f"{EXAMPLES}\nenvkit memory strategies --workload resnet50 --batch 64"


class MemoryGroup(click.Group):
    """The group; its help ends with examples as every command's does."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of an argument list; say what there is for a mistyped one."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            message = f"There is no command {args[0]!r} in `envkit memory`."
            raise UsageError(message, next_step="`envkit memory --help` lists them.")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples as they are to be typed."""
        epilog_lines(formatter, "Examples", GROUP_EXAMPLES)


@click.group(
    cls=MemoryGroup, name="memory", invoke_without_command=True, context_settings=HELP_NAMES
)
@click.pass_context
def command(context: click.Context) -> None:
    """Replay a memory snapshot; measure what remedies save."""
    if context.invoked_subcommand is None:
        message = "`envkit memory` needs a command."
        raise UsageError(message, next_step="`envkit memory --help` lists them.")


command.add_command(strategies_command)


@command.command(cls=EnvkitCommand, name="replay", examples=EXAMPLES)
@click.argument("snapshot", metavar="SNAPSHOT")
@click.option("--conf", "confs", metavar="CONF", multiple=True,
              help="Allocator settings to try, repeatable [the useful ones].")  # fmt: skip
@click.option("--total-memory", metavar="SIZE", help="What torch can have, such as 24GiB.")
@click.option("--must-fit", is_flag=True, help="Exit with 1 if a setting asked for runs out.")
@click.option("-o", "output", metavar="FILE", help="Write it there; a name in .json is JSON.")
@format_options("text", "json")
@terminal_options
def replay_command(**options: Any) -> int:
    """Say what a recorded run would have needed under other settings or on another card.

    SNAPSHOT is a file of torch.cuda.memory._dump_snapshot, or the same as JSON. The model first
    proves itself on it: every allocation at its recorded address, the same state at the end.
    """
    from envkit.workflows.replay import (  # noqa: PLC0415 (not for the group's help)
        ReplayRequest,
        exit_code,
        parse_size,
        replay,
    )

    terminal = Terminal(
        quiet=options["quiet"],
        verbose=options["verbose"],
        color=options["color"],
        no_progress=options["no_progress"],
    )
    total = options["total_memory"]
    request = ReplayRequest(
        snapshot=options["snapshot"],
        confs=options["confs"],
        total_memory_bytes=parse_size(total) if total is not None else None,
    )
    with progress(shown=terminal.progress_on(), ascii_only=not style_of(terminal).unicode) as tell:
        document = replay(request, tell)

    def draw(style: Style) -> str:
        from envkit.render.replay_text import render_replay_text  # noqa: PLC0415 (rich)

        return render_replay_text(document, style)

    write_document(document, draw, options, terminal)
    return exit_code(document, request, must_fit=options["must_fit"])

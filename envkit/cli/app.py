"""The command `envkit`: which commands there are; each is loaded only when it is used."""

from __future__ import annotations

import difflib
import importlib
from typing import Final, NamedTuple

import click

from envkit.cli.command import epilog_lines, version_option
from envkit.errors import UsageError


class Entry(NamedTuple):
    """Where a command is, and the line that `envkit --help` says about it."""

    module: str
    summary: str


#: In the order of the help page. The summaries are here so that the help loads no command.
COMMANDS: Final = {
    "verify": Entry("envkit.cli.verify", "Say whether this machine and environment are right."),
    "lint": Entry(
        "envkit.cli.lint", "Find faults of environment.yml files before anything is solved."
    ),
    "diff": Entry("envkit.cli.diff", "Say what differs between machines, and the cause."),
    "report": Entry("envkit.cli.report", "Write one machine, a pair or a team as a page."),
    "lock": Entry("envkit.cli.lock", "Lock each SPEC: every package with its address and hash."),
    "create": Entry("envkit.cli.create", "Install the lock of SPEC without conda."),
    "image": Entry(
        "envkit.cli.image", "Write the build folder of a container from the lock of SPEC."
    ),
    "oom": Entry("envkit.cli.oom", "Explain an out-of-memory message or a whole log."),
    "memory": Entry("envkit.cli.memory", "Replay a memory snapshot; measure what remedies save."),
    "proof": Entry("envkit.cli.proof", "Challenge, sign and check reports for somebody else."),
    "explain": Entry("envkit.cli.explain", "Show the page of a finding, such as DRV002."),
    "rules": Entry("envkit.cli.rules", "List every rule."),
    "completion": Entry("envkit.cli.completion", "Print the completion script of a shell."),
}

EXAMPLES: Final = """\
envkit verify
envkit verify -n vit -o report.json
envkit verify --from report-of-a-colleague.json
envkit diff mine.json hers.json
envkit explain DRV002"""

EXIT_CODES: Final = """\
0    good (warnings allowed)
1    error-level findings, or what was compared differs
2    usage error, unreadable or invalid input
3    something that the verdict needs could not be checked
4    internal error of envkit
130  interrupted"""


class EnvkitGroup(click.Group):
    """Commands by name, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; None when there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name].module)
        command = module.command
        if not isinstance(command, click.Command):
            raise TypeError(cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of an argument list; suggest the nearest name for a mistyped one."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise unknown_command(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write names and summaries without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """End the help page with examples and the exit codes."""
        epilog_lines(formatter, "Examples", EXAMPLES)
        epilog_lines(formatter, "Exit codes", EXIT_CODES)


def unknown_command(name: str) -> UsageError:
    """Say that there is no such command, and which one may be meant."""
    near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    step = f"Did you mean `envkit {near[0]}`?" if near else "`envkit --help` lists the commands."
    message = f"There is no command {name!r}."
    return UsageError(message, next_step=step)


@click.group(
    cls=EnvkitGroup,
    name="envkit",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@version_option
@click.pass_context
def app(context: click.Context) -> None:
    """Prove that a PyTorch experiment will behave the same on two machines."""
    if context.invoked_subcommand is None:
        message = "No command was given."
        step = "`envkit verify` checks this machine; `envkit --help` lists the commands."
        raise UsageError(message, next_step=step)

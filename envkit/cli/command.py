"""What every command shares: help with examples, and the options that are the same everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from envkit import __version__
from envkit.cli.endings import check_ending
from envkit.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}


class EnvkitCommand(click.Command):
    """A command whose help ends with examples.

    Args:
        args: those of a command of click, as are `kwargs`.
        examples: lines as they are to be typed.
        ending_chooses: whether the ending of `-o` says in which format it is written.
        kwargs: see `args`.

    """

    def __init__(
        self, *args: Any, examples: str = "", ending_chooses: bool = True, **kwargs: Any
    ) -> None:
        kwargs.setdefault("context_settings", HELP_NAMES)
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.ending_chooses = ending_chooses

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; refuse two formats at once, and a file of an ending it has not."""
        chosen = ctx.params.get("format_")
        if ctx.params.get("as_json") and chosen not in {None, "json"}:
            message = f"--json and --format {chosen} ask for two formats."
            raise UsageError(message, next_step="Leave one of the two out.")
        if self.ending_chooses and not (chosen or ctx.params.get("as_json")):
            check_ending(ctx.params.get("output"), self._formats())
        return super().invoke(ctx)

    def _formats(self) -> Sequence[str] | None:
        """Return the choices of `--format`; None where there is no such option."""
        types = [one.type for one in self.params if one.name == "format_"]
        return next((one.choices for one in types if isinstance(one, click.Choice)), None)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples as they are to be typed."""
        epilog_lines(formatter, "Examples", self.examples)


class SubcommandGroup(click.Group):
    """A command with commands of its own, `envkit memory`; its help ends with examples too."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        kwargs |= {"context_settings": HELP_NAMES, "invoke_without_command": True}
        super().__init__(*args, **kwargs)
        self.examples = examples

    def require_command(self, context: click.Context) -> None:
        """Refuse to run without a command; the group's own function calls it."""
        if context.invoked_subcommand is None:
            message = f"`envkit {self.name}` needs a command."
            raise UsageError(message, next_step=f"`envkit {self.name} --help` lists them.")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of an argument list; say what there is for a mistyped one."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            message = f"There is no command {args[0]!r} in `envkit {self.name}`."
            raise UsageError(message, next_step=f"`envkit {self.name} --help` lists them.")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples as they are to be typed."""
        epilog_lines(formatter, "Examples", self.examples)


def epilog_lines(formatter: click.HelpFormatter, title: str, text: str) -> None:
    """Write lines that are not to be wrapped under a title."""
    with formatter.section(title):
        for line in text.splitlines():
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


@dataclass(frozen=True)
class Terminal:
    """How a command talks: the options that every command has."""

    quiet: bool
    verbose: int
    color: str
    no_progress: bool

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Terminal:
        """Take them from the options of a command."""
        names = ("quiet", "verbose", "color", "no_progress")
        return cls(**{name: options[name] for name in names})

    @property
    def verbosity(self) -> int:
        """-1 quiet, 0 normal, 1 and more: more."""
        return -1 if self.quiet else self.verbose

    def color_on(self) -> bool:
        """Whether stdout gets colour: the option, NO_COLOR, FORCE_COLOR, TERM, a terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        return os.environ.get("TERM") not in {"dumb", "unknown"} and is_terminal(sys.stdout)

    def progress_on(self) -> bool:
        """Whether stderr gets a progress bar."""
        if self.quiet or self.no_progress or os.environ.get("CI"):
            return False
        return os.environ.get("TERM") not in {"dumb", "unknown"} and is_terminal(sys.stderr)


def is_terminal(stream: Any) -> bool:
    """Whether a stream is an open terminal; one that was closed before we started is not."""
    return stream is not None and not stream.closed and stream.isatty()


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not context.resilient_parsing:
        click.echo(f"envkit {__version__}")
        context.exit()


version_option = click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)


def terminal_options(function: F) -> F:
    """Add the options of `Terminal`, which reach the function as `quiet`, `verbose` ..."""
    for option in reversed(
        (
            click.option("-q", "--quiet", is_flag=True, help="Only the verdict; no progress."),
            click.option("-v", "--verbose", count=True, help="Show more; twice: tracebacks too."),
            click.option(
                "--color",
                type=click.Choice(["auto", "always", "never"]),
                default="auto",
                show_default=True,
                help="Colour; auto heeds NO_COLOR, FORCE_COLOR and TERM.",
            ),
            click.option("--no-progress", is_flag=True, help="No progress bar on stderr."),
            version_option,
        )
    ):
        function = option(function)
    return function


def format_options(*formats: str) -> Callable[[F], F]:
    """Add `--format` with these choices, and `--json`."""

    def add(function: F) -> F:
        json = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
        choice = click.option(
            "--format", "format_", type=click.Choice(formats), help="Format on stdout [text]."
        )
        return choice(json(function))

    return add

"""`envkit completion`: the script that makes a shell complete envkit's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from envkit.cli.command import EnvkitCommand, terminal_options
from envkit.cli.output import emit

EXAMPLES = """\
eval "$(envkit completion bash)"
eval "$(envkit completion zsh)"
envkit completion fish > ~/.config/fish/completions/envkit.fish"""


class _FilesToo(ShellComplete):
    """Completes what envkit knows, and the names of files where it knows nothing better."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor and the one at it.

        Raises:
            Exit: the shell's variables say neither; quietly, since the line is still being typed.

        """
        try:
            args, incomplete = super().get_completion_args()
            incomplete.encode()  # it goes back to the shell
        except (KeyError, ValueError):  # one is not there, not a number, or not text
            raise click.exceptions.Exit(1) from None
        return args, incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return click's answers, or ask the shell for files."""
        found = super().get_completions(args, incomplete)
        if found or incomplete.startswith("-"):
            return found
        return [CompletionItem(incomplete, type="file")]


class _Bash(_FilesToo, BashComplete):
    pass


class _Zsh(_FilesToo, ZshComplete):
    pass


class _Fish(_FilesToo, FishComplete):
    pass


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def register() -> None:
    """Let click complete as the scripts of `envkit completion` expect it."""
    for shell in _SHELLS.values():
        add_completion_class(shell)


@click.command(cls=EnvkitCommand, name="completion", examples=EXAMPLES)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@terminal_options
def command(shell: str, **_: object) -> int:
    """Print the completion script of a shell."""
    root = click.get_current_context().find_root().command
    # Not the class's own `source`: the one for bash starts bash to ask for its version.
    emit(ShellComplete.source(_SHELLS[shell](root, {}, "envkit", "_ENVKIT_COMPLETE")))
    return 0

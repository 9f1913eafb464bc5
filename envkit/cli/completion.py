"""`envkit completion`: the script that makes a shell complete envkit's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from envkit.cli.command import EnvkitCommand, terminal_options
from envkit.cli.output import emit
from envkit.errors import InternalError

EXAMPLES = """\
eval "$(envkit completion bash)"
eval "$(envkit completion zsh)"
envkit completion fish > ~/.config/fish/completions/envkit.fish"""


@click.command(cls=EnvkitCommand, name="completion", examples=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@terminal_options
def command(shell: str, **_: object) -> int:
    """Print the completion script of a shell."""
    found = get_completion_class(shell)
    if found is None:
        message = f"click has no completion for {shell}."
        raise InternalError(message, next_step="Please report it where you got envkit.")
    root = click.get_current_context().find_root().command
    # Not the class's own `source`: the one for bash starts bash to ask for its version.
    emit(ShellComplete.source(found(root, {}, "envkit", "_ENVKIT_COMPLETE")))
    return 0

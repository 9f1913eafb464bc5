"""The entry of the command, and the only place that ends the process.

Whatever a command raises becomes a message with a next step on stderr (with `--json` an
`envkit.error/1` document on stdout) and the exit code of the error's class.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from types import FrameType

import click

from envkit.cli.app import app
from envkit.cli.output import complain_of, emit, forget_stdout
from envkit.errors import EnvkitError, InternalError, InterruptedByUser, UsageError

#: Options that people put before the command, where there are none but -h and -V.
_COMMAND_OPTIONS = (
    "--json --format -o -q --quiet -v --verbose --color --no-progress -n --name -p --prefix"
)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


def run() -> None:
    """Run the command line of this process and end it."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    _stop_on_signals()
    try:
        return _invoke(list(arguments))
    except click.exceptions.Exit as done:
        return done.exit_code
    except BrokenPipeError:
        forget_stdout()  # whoever read our output has seen enough
        return 0
    except OSError as error:
        return _end(_of_system(error, arguments), arguments)
    except (EnvkitError, KeyboardInterrupt, click.Abort, click.ClickException) as error:
        return _end(_as_envkit_error(error), arguments)
    except Exception as error:  # noqa: BLE001 (the boundary: what arrives here is a fault of ours)
        return _end(_internal_error(error, arguments), arguments)


def _invoke(arguments: list[str]) -> int:
    if "_ENVKIT_COMPLETE" in os.environ:
        from envkit.cli.completion import register  # noqa: PLC0415 (only at a Tab)

        register()
        app.main(args=arguments, prog_name="envkit", standalone_mode=False)
        return 0
    # Not `app.main`: it answers Ctrl-C and closed pipes in its own way.
    with app.make_context("envkit", arguments) as context:
        code = app.invoke(context)
    return code if isinstance(code, int) else 0


def _end(error: EnvkitError, arguments: Sequence[str]) -> int:
    """Say what went wrong, and return the exit code that goes with it."""
    if _wants_json(arguments):
        with contextlib.suppress(UsageError):  # stdout cannot be written: the code still says it
            emit(_document(error))
        return error.exit_code
    complain_of(error.message, error.next_step)
    return error.exit_code


def _document(error: EnvkitError) -> str:
    from envkit.model.documents import ErrorDocument  # noqa: PLC0415 (not for --help)
    from envkit.render.json_ import render_json  # noqa: PLC0415

    return render_json(
        ErrorDocument(
            code=error.code,
            message=error.message,
            next_step=error.next_step,
            exit_code=error.exit_code,
        )
    )


def _as_envkit_error(error: BaseException) -> EnvkitError:
    if isinstance(error, EnvkitError):
        return error
    if isinstance(error, click.ClickException):
        return _usage_error(error)
    return InterruptedByUser("Interrupted.", next_step="")


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "envkit"
    # In one line: click lists choices below each other.
    message = " ".join(error.format_message().split())
    step = f"`{path} --help` says what it takes."
    if isinstance(error, click.NoSuchOption):
        message = error.message
        if path == "envkit" and error.option_name in _COMMAND_OPTIONS.split():
            step = f"Options stand after the command, as in `envkit verify {error.option_name}`."
        elif error.possibilities:
            step = f"Did you mean {' or '.join(error.possibilities)}?"
    return UsageError(message if path == "envkit" else f"{path}: {message}", next_step=step)


def _of_system(error: OSError, arguments: Sequence[str]) -> EnvkitError:
    """Take a full disk, as of `--help >/dev/full`, for no fault of ours."""
    if error.errno not in _NO_ROOM:
        return _internal_error(error, arguments)
    forget_stdout()
    message = f"The output could not be written: {error.strerror}."
    return UsageError(message, next_step="Make room, or check where standard output leads.")


def _internal_error(error: Exception, arguments: Sequence[str]) -> InternalError:
    if _wants_traceback(arguments):
        import traceback  # noqa: PLC0415 (not for those whose command works)

        traceback.print_exception(error)
    text = " ".join(str(error).split())[:300]
    return InternalError(
        f"internal error: {type(error).__name__}" + (f": {text}" if text else ""),
        next_step="This is a fault of envkit. Please report it where you got envkit, with "
        "`envkit -V` and what the same command prints with -v -v.",
    )


def _wants_json(arguments: Sequence[str]) -> bool:
    # Asked of the raw arguments: the error may be that they cannot be parsed.
    own = _before_dashes(arguments)
    asked = {"--json", "--format=json"} & {*own}
    return bool(asked) or ("--format", "json") in pairwise(own)


def _wants_traceback(arguments: Sequence[str]) -> bool:
    if os.environ.get("ENVKIT_DEBUG", "0") not in {"", "0"}:
        return True
    own = _before_dashes(arguments)
    short = [a for a in own if a.startswith("-v") and not a.strip("-v")]
    return own.count("--verbose") + sum(a.count("v") for a in short) > 1


def _before_dashes(arguments: Sequence[str]) -> list[str]:
    own = list(arguments)
    return own[: own.index("--")] if "--" in own else own


def _stop_on_signals() -> None:
    """Treat a request to stop as Ctrl-C, so that no child is left behind."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, _: FrameType | None) -> None:
    message = f"Stopped by {signal.Signals(number).name}."
    raise InterruptedByUser(message, next_step="")


if __name__ == "__main__":
    run()

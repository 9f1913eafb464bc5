"""Every error that ends a command, with the exit code it ends with.

The tree (exit code in brackets)::

    EnvkitError
    +-- RefusedError [1]      what would come of it is not what was locked
    +-- UsageError [2]        the command line or the configuration asks for something impossible
    +-- InputError [2]        a file cannot be read, or what it says is not valid
    +-- CannotCheckError [3]  something that the verdict needs could not be looked at
    +-- InternalError [4]     a fault of envkit itself
    +-- InterruptedByUser [130]

Workers raise one of these or return a state of `envkit.model.observed`; only `envkit.__main__`
turns one into a message and an exit code.
"""

from __future__ import annotations


class EnvkitError(Exception):
    """A message for people, what to do next, and the exit code.

    Args:
        message: what was wrong and where, one or two sentences.
        next_step: what the reader can do about it, one sentence or a command.

    """

    #: Stable name of the kind of error, used in `envkit.error/1`.
    code = "ERROR"
    #: Exit code of the process.
    exit_code = 4

    def __init__(self, message: str, *, next_step: str) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


class RefusedError(EnvkitError):
    """What would come of it is not what was locked, so it was not done."""

    code = "REFUSED"
    exit_code = 1


class UsageError(EnvkitError):
    """The command line or the configuration asks for something impossible."""

    code = "USAGE"
    exit_code = 2


class InputError(EnvkitError):
    """A file or a stream cannot be read, or its content is not what it claims to be."""

    code = "INPUT"
    exit_code = 2


class CannotCheckError(EnvkitError):
    """Something that the verdict needs could not be looked at."""

    code = "CANNOT_CHECK"
    exit_code = 3


class InternalError(EnvkitError):
    """A fault of envkit itself."""

    code = "INTERNAL"
    exit_code = 4


class InterruptedByUser(EnvkitError):  # noqa: N818  (named for what happened, as KeyboardInterrupt is)
    """Ctrl-C, or a signal that asks the process to stop."""

    code = "INTERRUPTED"
    exit_code = 130

"""A file as it was at a git revision: `HEAD~1:environments/vit.conda-lock.yml`."""

from __future__ import annotations

import re
from typing import Final

from envkit.errors import InputError
from envkit.model import codec

TIMEOUT_S: Final = 20.0
#: A revision as git names them; nothing that begins with a dash, which would be an option.
_NAMED: Final = re.compile(r"(?P<revision>[^-:\s][^:\s]{0,250}):(?P<path>[^\0-\x1f]{1,1000})")


def is_git_revision(name: str) -> bool:
    """Say whether a name has the form REVISION:PATH."""
    found = _NAMED.fullmatch(name)
    # One letter before the colon is a drive of Windows; `//` behind it an address.
    return found is not None and len(found["revision"]) > 1 and not found["path"].startswith("//")


def read_git_revision(name: str) -> bytes:
    """Return the bytes of REVISION:PATH in the repository of the current folder.

    Raises:
        InputError: git is not there, or knows no such revision or file.

    """
    from envkit import process  # noqa: PLC0415 (only where a program is started)

    if not is_git_revision(name):
        raise _not_read(name, "it is not REVISION:PATH")
    argv = ["git", "--no-pager", "show", "--no-textconv", "--no-color", "--end-of-options", name]
    ended = process.run(
        [*argv, "--"], timeout_s=TIMEOUT_S, max_stdout_bytes=codec.MAX_DOCUMENT_BYTES
    )
    if isinstance(ended, process.NotStarted):
        raise _not_read(name, f"git cannot be started: {ended.reason}")
    if ended.timed_out or ended.truncated:
        raise _not_read(name, "git took too long" if ended.timed_out else "it is too large")
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _not_read(name, said[-1][:200] if said else f"git ended with {ended.returncode}")
    if ended.stdout.startswith(f"tree {name}\n".encode()):
        raise _not_read(name, "it is a folder")
    return ended.stdout


def _not_read(name: str, reason: str) -> InputError:
    step = "There is no file of this name; for a file at a git revision say REVISION:PATH."
    return InputError(f"{name} cannot be read: {reason}.", next_step=step)

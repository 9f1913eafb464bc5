"""What `ssh-keygen -Y` is asked and how its answers are read: signatures of files, offline."""

from __future__ import annotations

import base64
import binascii
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from envkit import process
from envkit.errors import CannotCheckError, InputError

#: What our signatures are for; ssh-keygen signs it too, so one for something else is no proof.
NAMESPACE: Final = "envkit-report@v1"
#: A key on a token waits for a touch.
SIGN_S: Final = 120.0
CHECK_S: Final = 30.0
_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----"
_END: Final = b"-----END SSH SIGNATURE-----"
_MAGIC: Final = b"SSHSIG"
_KEY: Final = re.compile(r"with (\S+) key (SHA256:\S+)")
#: With these it would ask for a passphrase in a window, and wait.
_WINDOWS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
_OLD: Final = ("unknown option", "illegal option", "Unsupported operation")
#: What goes without saying.
_EMPTY: Final = frozenset({"", "No principal matched.", "Signing data on standard input"})
_ENDED: Final = "it did not end by itself"
_TOO_OLD: Final = "This ssh-keygen cannot check signatures (-Y); OpenSSH has it since 8.2."


class SshKeygen:
    """The program, with the variables it is started with.

    Raises:
        CannotCheckError: there is none.

    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        found = shutil.which("ssh-keygen", path=environ.get("PATH"))
        if found is None:
            message = "ssh-keygen is not there; it makes and checks the signatures."
            step = "Install the OpenSSH client (Debian: openssh-client)."
            raise CannotCheckError(message, next_step=step)
        self._program = found
        kept = {name: value for name, value in environ.items() if name not in _WINDOWS}
        self._environ = {**kept, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}

    def sign(self, content: bytes, key: Path) -> bytes:
        """Return the signature of some bytes, in ASCII armour.

        Raises:
            CannotCheckError: ssh-keygen gave no answer, or is too old.
            InputError: the key cannot be used.

        """
        argv = ("sign", "-f", key, "-n", NAMESPACE)
        done = self._run(argv, content, SIGN_S)
        if done.returncode == 0 and done.stdout.startswith(_BEGIN):
            return done.stdout
        raise _unusable(key, _said(done))

    def key_of(self, content: bytes, signature: Path) -> str:
        """Return type and fingerprint of the key that signed these bytes; empty if none did."""
        argv = ("check-novalidate", "-n", NAMESPACE, "-s", signature)
        done = self._run(argv, content, CHECK_S)
        found = _KEY.search(done.stdout.decode("utf-8", "replace"))
        return " ".join(found.groups()) if done.returncode == 0 and found else ""

    def principals(self, signature: Path, signers: Path) -> tuple[tuple[str, ...], str]:
        """Return the names that a file of allowed signers has for the key, and what was said."""
        argv = ("find-principals", "-s", signature, "-f", signers)
        done = self._run(argv, b"", CHECK_S)
        names = done.stdout.decode("utf-8", "replace").splitlines()
        return (tuple(names) if done.returncode == 0 else ()), _said(done)

    def verify(
        self, content: bytes, signature: Path, *, signers: Path, principal: str
    ) -> tuple[bool, str]:
        """Say whether a signer vouches for these bytes, and what ssh-keygen said."""
        argv = ("verify", "-n", NAMESPACE, "-s", signature, "-f", signers, "-I", principal)
        done = self._run(argv, content, CHECK_S)
        return done.returncode == 0, _said(done)

    def _run(
        self, words: Sequence[str | Path], stdin: bytes, timeout_s: float
    ) -> process.Completed:
        argv = (self._program, "-Y", *words)
        done = process.run(argv, timeout_s=timeout_s, stdin=stdin, env=self._environ)
        if isinstance(done, process.NotStarted):
            raise _no_answer(done.reason)
        if done.timed_out or done.signal is not None:
            raise _no_answer(_ENDED)
        if any(text in _said(done) for text in _OLD):
            raise CannotCheckError(_TOO_OLD, next_step="Install a newer OpenSSH client.")
        return done


def namespace_of(signature: bytes) -> str:
    """Read for what a signature was made (format: PROTOCOL.sshsig of OpenSSH).

    Raises:
        ValueError: it is no SSH signature.

    """
    body = signature.strip()
    if not (body.startswith(_BEGIN) and body.endswith(_END)):
        message = "it does not begin and end as an SSH signature does"
        raise ValueError(message)
    try:
        packed = base64.b64decode(b"".join(body[len(_BEGIN) : -len(_END)].split()), validate=True)
    except binascii.Error as error:
        message = f"its text is damaged: {error}"
        raise ValueError(message) from error
    if not packed.startswith(_MAGIC):
        message = "it is not of the form that OpenSSH defines"
        raise ValueError(message)
    _, rest = _string(packed[len(_MAGIC) + 4 :])  # the version, then the public key
    return _string(rest)[0].decode("utf-8", "replace")


def _string(packed: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(packed[:4], "big")
    if len(packed) < 4 + length:
        message = "it ends too early"
        raise ValueError(message)
    return packed[4 : 4 + length], packed[4 + length :]


def _said(done: process.Completed) -> str:
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return "; ".join(line.strip().rstrip(".") for line in lines if line.strip() not in _EMPTY)


def _unusable(key: Path, said: str) -> InputError:
    if "passphrase" in said:
        message = f"{key} is protected by a passphrase, and no agent has it."
        step = f"`ssh-add {key}` asks for the passphrase once; then sign again."
    elif "too open" in said:
        message = f"{key} can be read by others, so ssh-keygen does not use it."
        step = f"`chmod 600 {key}`, if nobody has read it."
    else:
        message = f"{key} cannot sign: {said or 'ssh-keygen gave no reason'}."
        step = "--key takes a private key of ssh-keygen, or the public one of a key in an agent."
    return InputError(message, next_step=step)


def _no_answer(reason: str) -> CannotCheckError:
    message = f"ssh-keygen gave no answer: {reason}."
    return CannotCheckError(message, next_step="Try `ssh-keygen -Y` by hand.")

"""`proof`: sign a report file, and check that somebody vouches for exactly that file."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import InputError, UsageError
from envkit.model import codec
from envkit.model.counted import counted
from envkit.model.proof import Proof, ProofChallenge, ProofChecked, ProofReport, ProofSigner
from envkit.model.report import Report
from envkit.workflows.challenge_answer import why_unanswered
from envkit.workflows.fingerprint import must_hold
from envkit.workflows.input_bytes import origin_of, read_input
from envkit.workflows.nonce import made_s, parse_duration
from envkit.workflows.request import read_challenge
from envkit.workflows.save import keep_inputs, write_atomically
from envkit.workflows.ssh_keygen import NAMESPACE, SshKeygen, namespace_of

ENDING: Final = ".sig"
#: How old a challenge may be where nothing is said.
MAX_AGE_S: Final = 86400
#: Clocks of two machines of one person differ by less.
CLOCK_S: Final = 300

_REPORT: Final = "It takes a report that `envkit verify -o FILE` wrote."
_SIGNERS: Final = (
    "--signers takes a file of allowed signers, one a line: a name, then the public key."
)
#: How a public key begins: its type, then its bytes, the first of which are the type's length.
_KEY_LINE: Final = re.compile(r"(?:ssh-|ecdsa-|sk-)\S+ AAAA\S+")


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """A signature that was written."""

    path: Path
    key: str
    """Type and fingerprint of the key."""


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `proof check` is asked."""

    report: str
    signers: str
    signature: str | None = None
    """File of the signature; None: beside the report."""
    challenge: str | None = None
    max_age: str | None = None
    """`24h`; None: the default, where the challenge says how old it is."""

    @property
    def signature_file(self) -> str:
        """Return where the signature is: as named, else beside the report."""
        return self.signature or self.report + ENDING


def sign(report: str, key: str, output: str | None, environ: Mapping[str, str]) -> Signed:
    """Sign the bytes of a report's file; the signature is a file beside it.

    Raises:
        CannotCheckError: ssh-keygen is not there or gives no answer.
        InputError: it is no report that holds, or the key cannot be used.

    """
    path = Path(output or report + ENDING)
    keep_inputs(str(path), (report, key, f"{key}.pub", key.removesuffix(".pub")))
    content = _read(report, _REPORT)
    _report_of(content, report)
    if not os.path.isfile(key):  # noqa: PTH113 (a folder that may not be read raises in Path)
        message = f"{key} cannot be read: there is no such file."
        raise InputError(message, next_step="`ssh-keygen -t ed25519 -f KEY` makes one.")
    keygen = SshKeygen(environ)
    signature = keygen.sign(content, Path(key))
    with tempfile.TemporaryDirectory() as folder:  # what -o names may be a pipe
        held = Path(folder, "signature")
        held.write_bytes(signature)
        used = keygen.key_of(content, held)
    write_atomically(path, signature)
    return Signed(path=path, key=used)


def check(
    request: CheckRequest, environ: Mapping[str, str], clock: Callable[[], float] = time.time
) -> Proof:
    """Check the signature of a report's file, and that it answers a challenge.

    Raises:
        CannotCheckError: ssh-keygen is not there or gives no answer.
        InputError: a file cannot be read.
        UsageError: the challenge or its age means nothing.

    """
    challenge = _challenge(request)
    content = _read(request.report, _REPORT)
    name = request.signature_file
    signature = _read(name, "`envkit proof sign` makes it.")
    namespace = _namespace(signature, Path(name))
    signers = _read(request.signers, _SIGNERS)
    _must_name(signers, request.signers)
    signer: ProofSigner | None = None
    reason = f"the signature was made for {namespace!r}, not for {NAMESPACE!r}"
    if namespace == NAMESPACE:
        # Copies: ssh-keygen opens each of them more than once, and what we read may be a pipe, or
        # another file by then.
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            held = Path(one, "signature"), Path(other, Path(request.signers).name)
            held[0].write_bytes(signature)
            held[1].write_bytes(signers)
            signer, reason = _signer(content, *held, SshKeygen(environ))
            for folder in (one, other):
                reason = reason.replace(f"{folder}{os.sep}", "")
    report = None
    if not reason:
        report, reason = _opened(content, request.report)
    checked = ProofChecked(challenge=False, age=False)
    if not reason and challenge is not None and report is not None:
        reason = _stale(challenge, clock())
        checked = ProofChecked(challenge=not reason, age=challenge.made is not None)
        reason = reason or why_unanswered(report.fingerprint, challenge.nonce)
    return Proof(
        file=Path(request.report).name,
        sha256=hashlib.sha256(content).hexdigest(),
        status="refused" if reason else "valid",
        reason=reason,
        signer=signer,
        challenge=challenge,
        checked=checked,
        report=None if report is None else _shown(report),
        exit_code=1 if reason else 0,
    )


def _signer(
    content: bytes, signature: Path, signers: Path, keygen: SshKeygen
) -> tuple[ProofSigner | None, str]:
    """Return who signed, and why that does not count."""
    key = keygen.key_of(content, signature)
    if not key:
        return None, "the file is not the one that was signed: it or the signature was changed"
    names, said = keygen.principals(signature, signers)
    for name in names:
        good, said = keygen.verify(content, signature, signers=signers, principal=name)
        if good:
            return ProofSigner(name=name, key=key), ""
    if names:
        reason = f"the signer {names[0]} may not sign this"
    else:
        reason = f"the signer is unknown: {signers.name} has no valid line with the key {key}"
    name = names[0] if names else ""
    return ProofSigner(name=name, key=key), f"{reason} ({said})" if said else reason


def _opened(content: bytes, name: str) -> tuple[Report | None, str]:
    try:
        return _report_of(content, name), ""
    except InputError as error:
        return None, f"what was signed is no report that holds: {error.message}"


def _report_of(content: bytes, name: str) -> Report:
    report = codec.decode(content, Report, origin=origin_of(name))
    if report.fingerprint is not None:
        must_hold(report.fingerprint)
    return report


def _challenge(request: CheckRequest) -> ProofChallenge | None:
    nonce = read_challenge(request.challenge)
    if nonce is None:
        if request.max_age is None:
            return None
        message = "--max-age is the age of a challenge, and none is named."
        raise UsageError(message, next_step="Add --challenge NONCE.")
    made = made_s(nonce)
    if made is None and request.max_age is not None:
        message = "--max-age: this challenge does not say when it was made."
        raise UsageError(message, next_step="`envkit proof challenge` makes those that do.")
    if made is None:
        return ProofChallenge(nonce=nonce, made=None, max_age_s=None)
    age_s = MAX_AGE_S if request.max_age is None else parse_duration(request.max_age)
    when = dt.datetime.fromtimestamp(made, tz=dt.timezone.utc)
    return ProofChallenge(nonce=nonce, made=when.strftime("%Y-%m-%dT%H:%M:%SZ"), max_age_s=age_s)


def _stale(challenge: ProofChallenge, now_s: float) -> str:
    made = made_s(challenge.nonce)
    if made is None or challenge.max_age_s is None:
        return ""
    age_s = int(now_s) - made
    if age_s > challenge.max_age_s:
        limit = f"--max-age allows {_duration(challenge.max_age_s)}"
        return f"the challenge is stale: it is {_duration(age_s)} old, and {limit}"
    if age_s < -CLOCK_S:
        return f"the challenge was made {_duration(-age_s)} from now: a clock is wrong"
    return ""


def _duration(seconds: int) -> str:
    for unit_s, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s} {name}"
    return counted(seconds, "second")


def _must_name(signers: bytes, path: str) -> None:
    """Refuse a file of public keys alone: ssh-keygen would take their type for a name."""
    lines = [line.split() for line in signers.decode("utf-8", "replace").splitlines()]
    told = [words for words in lines if words and not words[0].startswith("#")]
    if told and all(len(words) > 1 and _KEY_LINE.fullmatch(" ".join(words[:2])) for words in told):
        message = f"{path} is a public key, and does not say whose."
        raise InputError(message, next_step=f"Put a name before the key. {_SIGNERS}")


def _namespace(signature: bytes, path: Path) -> str:
    try:
        return namespace_of(signature)
    except ValueError as error:
        message = f"{path} is no SSH signature: {error}."
        raise InputError(message, next_step="`envkit proof sign` makes one.") from error


def _read(name: str, next_step: str) -> bytes:
    if name == "-":
        message = "Standard input has no signature beside it."
        raise UsageError(message, next_step="Name a file.")
    return read_input(name, next_step)


def _shown(report: Report) -> ProofReport:
    found = report.fingerprint
    return ProofReport(
        label=report.label,
        created=report.created,
        verdict=report.verdict.status,
        device=None if found is None else found.device,
        suite=None if found is None else f"{found.suite.name}/{found.suite.version}",
        mem=None if found is None else found.short.mem,
        num=None if found is None else found.short.num,
        challenge=None if found is None else found.challenge,
    )

"""`envkit.proof/1`: whether a signed report holds, and for what."""

from __future__ import annotations

from typing import Literal

import msgspec


class ProofSigner(msgspec.Struct, frozen=True, kw_only=True):
    """Who vouches for a report."""

    name: str
    """As the file of allowed signers has it; empty where it does not have the key."""
    key: str
    """Type and fingerprint: `ED25519 SHA256:...`."""


class ProofChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """The challenge that the report had to answer."""

    nonce: str
    made: str | None
    """UTC in RFC 3339; null where the number does not say it."""
    max_age_s: int | None


class ProofChecked(msgspec.Struct, frozen=True, kw_only=True):
    """What of the challenge was looked at: a refusal ends the check, and not each has a time."""

    challenge: bool
    """Whether the report was held against the challenge."""
    age: bool
    """Whether the age of the challenge was held against the limit."""


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the report says of itself; as true as its signer."""

    label: str | None
    created: str
    verdict: str
    device: str | None
    suite: str | None
    mem: str | None
    num: str | None
    challenge: str | None


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `envkit proof check`."""

    schema: Literal["envkit.proof/1"] = "envkit.proof/1"
    file: str
    sha256: str
    """Of the file's bytes."""
    status: Literal["valid", "refused"]
    reason: str
    """Why it is refused, one sentence; empty if it is not."""
    signer: ProofSigner | None
    """Null where the signature is not one of this file."""
    challenge: ProofChallenge | None
    """Null where none was named."""
    checked: ProofChecked
    report: ProofReport | None
    """Null where the file was refused before it was read."""
    exit_code: int

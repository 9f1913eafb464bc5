"""The answer of `envkit proof check` as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.model.proof import Proof
from envkit.render.fingerprint_rows import short_said
from envkit.render.page import Page
from envkit.render.style import Style

#: Said every time: a signature is easily taken for more than it is.
PROVES: Final = (
    "It proves that the signer vouches for exactly these bytes{fresh}. It does not prove that a "
    "given card ran it: anyone with the same stack could produce it."
)
FRESH: Final = ", and that the report is not older than the challenge"
ANSWERED: Final = ", and that the report answers this challenge, whenever that was made"
NO_AGE: Final = "The challenge does not say when it was made: its age was not checked."


def render_proof(proof: Proof, style: Style) -> str:
    """Draw the answer, the reason of a refusal, and what a valid one means."""
    page = Page(style)
    valid = proof.status == "valid"
    sign = page.symbol(("✔", "+") if valid else ("✘", "x"))
    word, look = ("VALID", "bold green") if valid else ("REFUSED", "bold red")
    page.paragraph((f"{sign} {word}", look), (f"  {proof.file}", ""))
    if proof.reason:
        page.line("  ", f"{proof.reason[0].upper()}{proof.reason[1:]}.", style="bold")
    if valid and proof.checked.challenge and not proof.checked.age:
        page.line("  ", NO_AGE, style="bold")
    if style.verbosity < 0:
        return page.text()
    page.table("Signature", _rows(proof))
    if valid:
        page.blank()
        page.line("", PROVES.format(fresh=_fresh(proof)))
    return page.text()


def _fresh(proof: Proof) -> str:
    if not proof.checked.challenge:
        return ""
    return FRESH if proof.checked.age else ANSWERED


def _rows(proof: Proof) -> Iterator[tuple[str, str]]:
    yield "sha256", proof.sha256
    if proof.signer is not None:
        yield "signer", proof.signer.name or "unknown"
        yield "key", proof.signer.key
    asked, report = proof.challenge, proof.report
    if asked is not None:
        yield "challenge", f"{asked.nonce}{f', made {asked.made}' if asked.made else ''}"
    elif report is not None:
        named = f"the report names {report.challenge}; " if report.challenge else ""
        yield "challenge", f"{named}none was checked, so it may be an old report"
    if report is not None:
        yield "report", f"{report.label or 'no label'}, {report.created}, {report.verdict}"
        if report.device is not None:
            short = short_said(report.mem, report.num)
            yield "measured", f"{report.suite} on {report.device}, {short}"

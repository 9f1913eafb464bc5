"""`envkit proof`: challenge somebody, sign a report, check one that was signed."""

from __future__ import annotations

import os
from typing import Any

import click

from envkit.cli.command import (
    EnvkitCommand,
    SubcommandGroup,
    Terminal,
    format_options,
    terminal_options,
)
from envkit.cli.output import complain, emit

EXAMPLES = """\
envkit proof challenge                      a number to send to somebody
envkit verify --challenge NONCE -o report.json    what they run
envkit proof sign report.json --key ~/.ssh/id_ed25519
envkit proof check report.json --signers team.signers --challenge NONCE"""


@click.group(cls=SubcommandGroup, name="proof", examples=EXAMPLES)
@click.pass_context
def command(context: click.Context) -> None:
    """Challenge, sign and check reports for somebody else."""
    command.require_command(context)


@command.command(cls=EnvkitCommand, name="challenge", examples="envkit proof challenge")
@terminal_options
def challenge_command(**options: Any) -> int:
    """Make a number that nobody could know before, with the time in it.

    Whoever is to prove something runs `envkit verify --challenge NUMBER`: it seeds the probes, so
    the report cannot be an old one.
    """
    from envkit.workflows.nonce import make_nonce  # noqa: PLC0415 (not for the group's help)

    nonce = make_nonce()
    emit(f"{nonce}\n")
    if not Terminal.of(options).quiet:
        complain(f"envkit: ask for `envkit verify --challenge {nonce} -o report.json`, signed")
    return 0


@command.command(
    cls=EnvkitCommand,
    name="sign",
    examples="envkit proof sign report.json --key ~/.ssh/id_ed25519",
)
@click.argument("report", metavar="REPORT")
@click.option("--key", required=True, metavar="KEY", help="SSH key: private, or an agent's public.")
@click.option("-o", "output", metavar="FILE", help="Where the signature goes [REPORT.sig].")
@terminal_options
def sign_command(**options: Any) -> int:
    """Sign the exact file of a report with ssh-keygen: you vouch for it."""
    from envkit.workflows.proof import sign  # noqa: PLC0415

    signed = sign(options["report"], options["key"], options["output"], os.environ)
    emit(f"{signed.path}\n")
    if not Terminal.of(options).quiet:
        complain(f"envkit: signed with {signed.key}; send the report and this file")
    return 0


@command.command(
    cls=EnvkitCommand,
    name="check",
    examples="envkit proof check report.json --signers team.signers --challenge NONCE",
)
@click.argument("report", metavar="REPORT")
@click.option("--signers", required=True, metavar="FILE", help="Allowed signers: a name and a key.")
@click.option("--signature", metavar="FILE", help="The signature [REPORT.sig].")
@click.option("--challenge", metavar="NONCE", help="The number that the report has to answer.")
@click.option("--max-age", metavar="AGE", help="How old the challenge may be, 30m, 24h, 7d [24h].")
@click.option("-o", "output", metavar="FILE", help="Write it there; a name in .json is JSON.")
@format_options("text", "json")
@terminal_options
def check_command(**options: Any) -> int:
    """Check who vouches for the exact file of a report, offline.

    Refused, with the reason: a changed byte, an unknown signer, a signature made for something
    else, a challenge that is stale or not the one that was answered.
    """
    from envkit.cli.written import write_document  # noqa: PLC0415
    from envkit.render.proof_text import render_proof  # noqa: PLC0415 (rich)
    from envkit.workflows.proof import CheckRequest, check  # noqa: PLC0415
    from envkit.workflows.save import keep_inputs  # noqa: PLC0415

    names = CheckRequest.__struct_fields__
    request = CheckRequest(**{name: options[name] for name in names})
    keep_inputs(options["output"], (request.report, request.signature_file, request.signers))
    proof = check(request, os.environ)
    write_document(proof, lambda style: render_proof(proof, style), options, Terminal.of(options))
    return proof.exit_code

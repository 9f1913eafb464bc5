"""`envkit proof` with the real ssh-keygen: what is signed, and every way in which it is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import pytest
from running import run_envkit

from envkit.cli.app import app
from envkit.model import codec
from envkit.model.proof import Proof, ProofChecked
from envkit.specs.folders import baselines
from envkit.workflows.nonce import make_nonce

KEYGEN = shutil.which("ssh-keygen") or ""
AGENT, ADD = shutil.which("ssh-agent"), shutil.which("ssh-add")
needs_ssh = pytest.mark.skipif(not KEYGEN, reason="ssh-keygen is not installed here")
OLD_NONCE = "0100000e10" + "ab" * 16


def make_key(path: Path, passphrase: str = "") -> str:
    """Make a key; return its public half as a file of allowed signers wants it."""
    subprocess.run(
        [KEYGEN, "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(path)],
        check=True,
        timeout=60,
    )
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


class Desk:
    """A folder with a report, a key, and the signers that somebody else allows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(baselines() / "h200-torch2.11.0.json", folder / "report.json")
        self.public = make_key(folder / "key")
        self.allow(f"ann@lab {self.public}")

    def allow(self, *lines: str) -> None:
        (self.folder / "signers").write_text("".join(f"{line}\n" for line in lines))

    def run(self, *arguments: str, agent: str = "") -> subprocess.CompletedProcess[str]:
        return run_envkit("proof", *arguments, cwd=self.folder, SSH_AUTH_SOCK=agent)

    def sign(self, *more: str, key: str = "key") -> subprocess.CompletedProcess[str]:
        return self.run("sign", "report.json", "--key", key, *more)

    def check(self, *more: str) -> Proof:
        done = self.run("check", "report.json", "--signers", "signers", "--json", *more)
        assert done.stderr == ""
        proof = codec.decode(done.stdout.encode(), Proof, origin="proof")
        assert proof.exit_code == done.returncode == (1 if proof.reason else 0)
        return proof


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@needs_ssh
def test_a_signed_report_is_valid(desk: Desk) -> None:
    signed = desk.sign()
    assert (signed.returncode, signed.stdout) == (0, "report.json.sig\n")
    assert "signed with ED25519 SHA256:" in signed.stderr
    proof = desk.check()
    assert proof.status == "valid"
    assert proof.signer is not None
    assert proof.signer.name == "ann@lab"
    assert proof.report is not None
    assert proof.report.label == "h200"
    assert proof.checked == ProofChecked(challenge=False, age=False)
    text = desk.run("check", "report.json", "--signers", "signers").stdout
    assert "anyone with the same stack could produce it" in " ".join(text.split())
    assert "it may be an old report" in text


@needs_ssh
def test_a_changed_byte_is_refused(desk: Desk) -> None:
    desk.sign()
    path = desk.folder / "report.json"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"h200"', b'"h201"'))
    assert "changed" in desk.check().reason
    path.write_bytes(content + b"\n")  # the same document, other bytes
    assert "changed" in desk.check().reason


@needs_ssh
def test_an_unknown_signer_is_refused(desk: Desk) -> None:
    desk.sign()
    desk.allow(f"bob@lab {make_key(desk.folder / 'other')}")
    proof = desk.check()
    assert "the signer is unknown" in proof.reason
    assert proof.signer is not None
    assert proof.signer.name == ""


@needs_ssh
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('namespaces="git"', "may not sign this"),
        ('valid-before="20200101"', "key has expired"),
    ],
)
def test_a_signer_who_may_not_is_refused(desk: Desk, option: str, said: str) -> None:
    desk.sign()
    desk.allow(f"ann@lab {option} {desk.public}")
    assert said in desk.check().reason


@needs_ssh
def test_a_signature_for_something_else_is_refused(desk: Desk) -> None:
    subprocess.run(
        [KEYGEN, "-q", "-Y", "sign", "-f", "key", "-n", "git", "report.json"],
        cwd=desk.folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert "made for 'git'" in desk.check().reason


@needs_ssh
@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        ((OLD_NONCE,), "the challenge is stale"),
        ((OLD_NONCE, "--max-age", "1s"), "--max-age allows 1 second"),
        (("ab" * 8,), "made without a challenge"),
        ((make_nonce(), "--max-age", "1h"), "made without a challenge"),
        (("01ffffffff" + "ab" * 16,), "a clock is wrong"),
    ],
)
def test_a_challenge_that_is_stale_or_not_answered_is_refused(
    desk: Desk, challenge: tuple[str, ...], said: str
) -> None:
    desk.sign()
    proof = desk.check("--challenge", *challenge)
    assert said in proof.reason
    assert proof.checked.challenge is ("made without" in said)
    assert proof.checked.age is (challenge != ("ab" * 8,))


@needs_ssh
def test_an_old_report_that_is_made_to_name_the_challenge_is_refused(desk: Desk) -> None:
    nonce = make_nonce()
    path = desk.folder / "report.json"
    document = json.loads(path.read_text("utf-8"))
    document["fingerprint"]["challenge"] = nonce
    path.write_text(json.dumps(document), encoding="utf-8")
    desk.sign()
    assert "was not seeded with it" in desk.check("--challenge", nonce).reason
    assert "another challenge" in desk.check("--challenge", make_nonce()).reason


@needs_ssh
def test_a_file_that_is_no_report_is_not_signed_and_not_believed(desk: Desk) -> None:
    path = desk.folder / "report.json"
    document = json.loads(path.read_text("utf-8"))
    layers = document["fingerprint"]["layers"]
    layers["peaks"]["vit.bf16.peaks"]["values"]["segments"] += 1  # in no digest
    path.write_text(json.dumps(document), encoding="utf-8")
    assert desk.sign().returncode == 0
    layers["tensors"]["vit.bf16.tensors"]["values"]["requests"][0] += 1  # in one
    path.write_text(json.dumps(document), encoding="utf-8")
    refused = desk.sign()
    assert refused.returncode == 2
    assert "does not hold" in refused.stderr
    sign = [KEYGEN, "-q", "-Y", "sign", "-f", "key", "-n", "envkit-report@v1", "report.json"]
    (desk.folder / "report.json.sig").unlink()
    subprocess.run(sign, cwd=desk.folder, check=True, capture_output=True, timeout=60)
    assert "no report that holds" in desk.check().reason


@needs_ssh
def test_keys_that_cannot_sign(desk: Desk) -> None:
    make_key(desk.folder / "secret", "a passphrase")
    locked = desk.sign(key="secret")
    assert locked.returncode == 2
    assert "ssh-add secret" in locked.stderr
    missing = desk.sign(key="nobody")
    assert missing.returncode == 2
    assert "there is no such file" in missing.stderr
    (desk.folder / "key").chmod(0o644)
    assert "chmod 600 key" in desk.sign().stderr
    assert desk.sign(key="report.json").returncode == 2
    assert not (desk.folder / "report.json.sig").exists()


@needs_ssh
@pytest.mark.parametrize("output", ["report.json", "key", "key.pub", "./key", "link"])
@pytest.mark.parametrize("key", ["key", "key.pub"])
def test_a_signature_is_written_over_nothing_that_was_read(
    key: str, output: str, desk: Desk
) -> None:
    (desk.folder / "link").symlink_to("key")
    before = {path.name: path.read_bytes() for path in desk.folder.iterdir()}
    refused = desk.sign("-o", output, key=key)
    assert refused.returncode == 2
    assert "would be written over" in refused.stderr
    assert {path.name: path.read_bytes() for path in desk.folder.iterdir()} == before


@needs_ssh
@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash is not here")
def test_signature_and_signers_may_be_pipes(desk: Desk) -> None:
    desk.sign()
    check = '"$0" -m envkit proof check report.json --json'
    pipes = "--signers <(cat signers) --signature <(cat report.json.sig)"
    done = subprocess.run(
        ["/bin/bash", "-c", f"{check} {pipes}", sys.executable],
        cwd=desk.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == b""
    assert json.loads(done.stdout)["status"] == "valid"


@needs_ssh
@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="/dev/stdout is not here")
@pytest.mark.parametrize("output", ["/dev/stdout", "/dev/null"])
def test_a_signature_may_go_to_a_device(output: str, desk: Desk) -> None:
    done = desk.sign("-o", output)
    assert done.returncode == 0
    assert done.stdout.startswith("-----BEGIN SSH") == (output == "/dev/stdout")
    assert "signed with ED25519 SHA256:" in done.stderr


@needs_ssh
def test_what_ssh_keygen_says_names_the_users_file(desk: Desk) -> None:
    desk.sign()
    desk.allow(f"ann@lab nonsense=1 {desk.public}")
    reason = desk.check().reason
    assert "signers" in reason
    assert tempfile.gettempdir() not in reason


@needs_ssh
def test_files_that_cannot_be_read(desk: Desk) -> None:
    unsigned = desk.run("check", "report.json", "--signers", "signers")
    assert unsigned.returncode == 2
    assert "report.json.sig cannot be read" in unsigned.stderr
    desk.sign()
    no_signers = desk.run("check", "report.json", "--signers", "nobody")
    assert no_signers.returncode == 2
    assert "nobody cannot be read" in no_signers.stderr
    (desk.folder / "report.json.sig").write_text("-----BEGIN SSH SIGNATURE-----\nU1NI\n")
    damaged = desk.run("check", "report.json", "--signers", "signers")
    assert damaged.returncode == 2
    assert "is no SSH signature" in damaged.stderr


@needs_ssh
def test_a_bare_public_key_is_no_file_of_signers(desk: Desk) -> None:
    desk.sign()
    done = desk.run("check", "report.json", "--signers", "key.pub")
    assert (done.returncode, done.stdout) == (2, "")
    assert "key.pub is a public key, and does not say whose" in done.stderr
    assert "Put a name before the key" in done.stderr


@needs_ssh
def test_a_key_that_only_an_agent_can_use(desk: Desk) -> None:
    if AGENT is None or ADD is None:
        pytest.skip("ssh-agent is not installed here")
    socket = desk.folder / "agent"
    agent = subprocess.Popen([AGENT, "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        subprocess.run(
            [ADD, "-q", "key"],
            cwd=desk.folder,
            env={"SSH_AUTH_SOCK": str(_until_there(socket))},
            check=True,
            capture_output=True,
            timeout=60,
        )
        (desk.folder / "key").unlink()
        arguments = ("sign", "report.json", "--key", "key.pub")
        assert desk.run(*arguments, agent=str(socket)).returncode == 0
    finally:
        agent.kill()
        agent.wait(timeout=60)
    assert desk.check().status == "valid"


def _until_there(path: Path) -> Path:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return path


def test_without_ssh_keygen_nothing_is_decided(tmp_path: Path) -> None:
    shutil.copy(baselines() / "h200-torch2.11.0.json", tmp_path / "report.json")
    (tmp_path / "key").write_text("")
    done = run_envkit(
        *("proof", "sign", "report.json", "--key", "key"), cwd=tmp_path, PATH=str(tmp_path)
    )
    assert done.returncode == 3
    assert "ssh-keygen is not there" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("report.json", "--signers", "s", "--max-age", "1h"),
        ("report.json", "--signers", "s", "--challenge", "ab" * 8, "--max-age", "1h"),
        ("report.json", "--signers", "s", "--challenge", OLD_NONCE, "--max-age", "soon"),
        ("report.json", "--signers", "s", "--challenge", "xyz"),
        ("-", "--signers", "s"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = run_envkit("proof", "check", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_challenge_is_one_line_to_be_passed_on() -> None:
    done = run_envkit("proof", "challenge", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(bytes.fromhex(done.stdout.strip())) == 21


def test_options_of_the_commands() -> None:
    group: Any = app.get_command(click.Context(app), "proof")
    found = {
        name: [max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)]
        for name, command in group.commands.items()
    }
    common = ["--quiet", "--verbose", "--color", "--no-progress", "--version"]
    assert found == {
        "challenge": common,
        "sign": ["--key", "-o", *common],
        "check": [
            *("--signers", "--signature", "--challenge", "--max-age", "-o", "--format", "--json"),
            *common,
        ],
    }


def test_errors_are_json_where_json_is_asked_for() -> None:
    done = run_envkit("proof", "check", "nothing.json", "--signers", "s", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["schema"] == "envkit.error/1"


@needs_ssh
def test_of_a_challenge_without_a_time_no_freshness_is_promised(desk: Desk) -> None:
    pytest.importorskip("torch")
    options = ("--python", sys.executable, "--device", "cpu", "--suite", "quick")
    more = ("--challenge", "deadbeef", "-o", "report.json")
    assert run_envkit("verify", *options, *more, cwd=desk.folder).returncode == 0
    desk.sign()
    proof = desk.check("--challenge", "deadbeef")
    assert (proof.status, proof.checked) == ("valid", ProofChecked(challenge=True, age=False))
    for quiet in ((), ("-q",)):
        arguments = ("check", "report.json", "--signers", "signers", "--challenge", "deadbeef")
        said = " ".join(desk.run(*arguments, *quiet).stdout.split())
        assert "does not say when it was made: its age was not checked" in said
        assert "not older" not in said


@needs_ssh
def test_a_challenge_that_was_answered_is_valid_for_it_and_for_no_other(desk: Desk) -> None:
    pytest.importorskip("torch")
    nonce = make_nonce()
    reports: list[Any] = []
    for more in ((), ("--challenge", nonce)):
        options = ("--python", sys.executable, "--device", "cpu", "--suite", "quick")
        done = run_envkit("verify", *options, *more, "-o", "report.json", cwd=desk.folder)
        assert done.returncode == 0, done.stderr
        reports.append(json.loads((desk.folder / "report.json").read_text("utf-8"))["fingerprint"])
    desk.sign()
    proof = desk.check("--challenge", nonce)
    assert (proof.status, proof.checked) == ("valid", ProofChecked(challenge=True, age=True))
    said = desk.run("check", "report.json", "--signers", "signers", "--challenge", nonce).stdout
    assert "the report is not older than the challenge" in " ".join(said.split())
    assert "another challenge" in desk.check("--challenge", make_nonce()).reason
    plain, challenged = reports
    assert (plain["challenge"], challenged["challenge"]) == (None, nonce)
    assert plain["digests"]["tensors"] == challenged["digests"]["tensors"]
    assert plain["digests"]["numerics"] != challenged["digests"]["numerics"]
    exercises = [one["layers"]["allocator"] for one in reports]
    moved = {name for name, one in exercises[0].items() if one != exercises[1][name]}
    assert moved == {"exercises.random_trace"}
    assert "numerics.challenge" in challenged["layers"]["numerics"]

"""The command as a process: exit codes, streams, messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import environment
from running import run_envkit as envkit

from envkit import __main__ as entry
from envkit import __version__
from envkit.cli.app import COMMANDS, app
from envkit.errors import InputError


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag: str) -> None:
    done = envkit(flag)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"envkit {__version__}\n", "")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands_and_the_exit_codes(flag: str) -> None:
    done = envkit(flag)
    assert done.returncode == 0
    assert done.stderr == ""
    for name, entry_ in COMMANDS.items():
        assert f"  {name:<10}  {entry_.summary}" in done.stdout
    for code in ("0", "1", "2", "3", "4", "130"):
        assert f"  {code:<3}  " in done.stdout


def test_help_imports_nothing_that_draws_or_judges() -> None:
    code = (
        "import sys, envkit.__main__ as m; m.main(['--help']); "
        "print([n for n in ('rich', 'yaml', 'msgspec', 'torch', 'envkit.model', 'envkit.rules',"
        " 'envkit.sources', 'envkit.workflows') if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_its_own_first_sentence(name: str) -> None:
    command = app.get_command(
        app.make_context("envkit", [name, "-h"], resilient_parsing=True), name
    )
    assert command is not None
    assert command.help is not None
    own = command.help.split("\n\n")[0].split(":")[0].replace("\n", " ").rstrip(".")
    assert COMMANDS[name].summary.rstrip(".") in own or own in COMMANDS[name].summary


@pytest.mark.parametrize(
    ("arguments", "said", "step"),
    [
        (["verfy"], "There is no command 'verfy'.", "Did you mean `envkit verify`?"),
        (["xyzzy"], "There is no command 'xyzzy'.", "`envkit --help` lists the commands."),
        ([], "No command was given.", "`envkit verify` checks this machine"),
        (["verify", "--lable", "x"], "No such option", "Did you mean --label"),
        (["help"], "There is no command 'help'.", "`envkit --help` lists the commands."),
        (["completion"], "Choose from: bash, zsh, fish", "`envkit completion --help`"),
        (["verify", "--json", "--format", "text"], "two formats", "Leave one of the two out."),
        (["lint", "cpu", "--format", "text", "--json"], "two formats", "Leave one"),
        (["verify", "--format", "xml"], "'xml' is not one of", "`envkit verify --help`"),
        (["verify", "extra"], "unexpected extra argument", "`envkit verify --help`"),
        (["verify", "--timeout", "x"], "is not a valid float", "`envkit verify --help`"),
        (["--json"], "No such option", "Options stand after the command"),
        (["explain", "DRV"], "There is no rule 'DRV'", "`envkit rules`"),
        (["completion", "tcsh"], "'tcsh' is not one of", "`envkit completion --help`"),
    ],
)
def test_wrong_usage_is_exit_2_with_a_suggestion(
    arguments: list[str], said: str, step: str
) -> None:
    done = envkit(*arguments)
    assert done.returncode == 2
    if "--json" in arguments:
        document = json.loads(done.stdout)
        assert said in document["message"]
        assert step in document["next_step"]
        return
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("envkit: ")
    assert said in first
    assert second.startswith("  next: ")
    assert step in second


@pytest.mark.parametrize("asked", [["--json"], ["--format", "json"], ["--format=json"]])
def test_with_json_errors_are_json_on_stdout(asked: list[str]) -> None:
    done = envkit("verify", "--from", "nowhere.json", *asked)
    assert done.returncode == 2
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "code", "message", "next_step", "exit_code"]
    assert document["schema"] == "envkit.error/1"
    assert (document["code"], document["exit_code"]) == ("INPUT", 2)


def test_input_in_a_message_is_harmless() -> None:
    done = envkit("verify", "--from", "\x1b[2J\u202enowhere")
    assert "\x1b" not in done.stderr
    assert r"\x1b[2J\u202enowhere" in done.stderr


def test_a_fault_of_ours_is_exit_4_and_a_traceback_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: list[str]) -> int:
        message = "wires\x1b crossed"
        raise RuntimeError(message)

    monkeypatch.setattr(entry, "_invoke", broken)
    monkeypatch.delenv("ENVKIT_DEBUG", raising=False)
    assert entry.main(["verify", "-v"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == r"envkit: internal error: RuntimeError: wires\x1b crossed"
    assert "report" in err.splitlines()[1]
    assert "Traceback" not in err

    assert entry.main(["verify", "-v", "-v"]) == 4
    assert "Traceback" in capsys.readouterr().err
    assert entry.main(["verify", "-vv"]) == 4
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("ENVKIT_DEBUG", "1")
    assert entry.main(["verify", "--json"]) == 4
    out, err = capsys.readouterr()
    assert json.loads(out)["code"] == "INTERNAL"
    assert "Traceback" in err


def test_interrupts_and_errors_have_their_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    def wrong(_: list[str]) -> int:
        message = "x is wrong."
        raise InputError(message, next_step="Mend x.")

    def unread(_: list[str]) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(entry, "_invoke", interrupted)
    assert entry.main([]) == 130
    assert capsys.readouterr().err == "envkit: Interrupted.\n"
    monkeypatch.setattr(entry, "_invoke", wrong)
    assert entry.main([]) == 2
    assert capsys.readouterr().err == "envkit: x is wrong.\n  next: Mend x.\n"
    monkeypatch.setattr(entry, "forget_stdout", lambda: None)
    monkeypatch.setattr(entry, "_invoke", unread)
    assert entry.main([]) == 0
    assert capsys.readouterr().err == ""


def test_completion_of_a_shell() -> None:
    for shell in ("bash", "zsh", "fish"):
        done = envkit("completion", shell)
        assert done.returncode == 0
        assert "_ENVKIT_COMPLETE" in done.stdout


def test_the_shell_is_told_what_can_follow() -> None:
    done = envkit(_ENVKIT_COMPLETE="bash_complete", COMP_WORDS="envkit ver", COMP_CWORD="1")
    assert done.stdout == "plain,verify\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_behind_stdout_is_said() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "envkit", "completion", "bash"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr


def test_a_reader_that_has_gone_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "envkit", "rules"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stdout_is_no_fault() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m envkit rules >&-"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("-V",), ("verify", "--help")])
def test_help_on_a_full_disk_is_no_fault_of_envkit(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "envkit", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "fault" not in done.stderr


@pytest.mark.parametrize("arguments", [["verify"], ["verify", "--from", "x"], ["lint", "x.yml"]])
def test_a_current_folder_that_was_deleted_is_said(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert entry.main(arguments) == 2
    assert "The current folder cannot be used" in capsys.readouterr().err

"""Completion in the shells themselves, as far as they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from running import environment, run_envkit

import envkit.__main__ as entry

BASH = """
source "{script}"
COMP_WORDS=({words} ''); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
{last}
compopt() {{ printf 'files\\n'; }}
_envkit_completion envkit
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the command and the scripts of its completion."""
    folder = tmp_path_factory.mktemp("completion")
    command = folder / "envkit"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m envkit "$@"\n')
    command.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        done = run_envkit("completion", shell)
        assert (done.returncode, done.stderr) == (0, "")
        (folder / f"envkit.{shell}").write_text(done.stdout)
    (folder / "a file.yml").touch()
    return folder


def run_shell(home: Path, *command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    variables = environment(PATH=f"{home}{os.pathsep}{os.environ['PATH']}", HOME=str(home))
    done = subprocess.run(
        command, capture_output=True, text=True, env=variables, cwd=home, timeout=60, check=False
    )
    return done.stdout


def bash(home: Path, words: str, incomplete: str) -> list[str]:
    script = BASH.format(
        script=home / "envkit.bash", words=words, last=f"COMP_WORDS[COMP_CWORD]='{incomplete}'"
    )
    return run_shell(home, "bash", "--norc", "-c", script).split("\n")


@pytest.mark.parametrize(
    ("words", "incomplete", "among"),
    [
        ("envkit", "ver", "verify"),
        ("envkit memory", "re", "replay"),
        ("envkit verify", "--no-f", "--no-fingerprint"),
        ("envkit lint --format", "sa", "sarif"),
        ("envkit completion", "", "fish"),
    ],
)
def test_bash(home: Path, words: str, incomplete: str, among: str) -> None:
    assert among in bash(home, words, incomplete)


@pytest.mark.parametrize("words", ["envkit lint", "envkit verify --from", "envkit lint -o"])
def test_bash_completes_files_where_a_file_is_wanted(home: Path, words: str) -> None:
    assert "files" in bash(home, words, "")


def test_bash_offers_no_file_for_an_option(home: Path) -> None:
    assert "files" not in bash(home, "envkit lint", "--fro")


def test_zsh_asks_the_command_and_knows_its_answer(home: Path) -> None:
    code = f'autoload -Uz compinit && compinit -u -d "$HOME/dump" && . "{home}/envkit.zsh"'
    said = run_shell(home, "zsh", "-f", "-c", f"{code} && print -r -- $_comps[envkit]")
    assert said == "_envkit_completion\n"
    done = run_envkit(_ENVKIT_COMPLETE="zsh_complete", COMP_WORDS="envkit ver", COMP_CWORD="1")
    assert done.stdout.startswith("plain\nverify\n")


def test_fish(home: Path) -> None:
    code = f'source "{home}/envkit.fish"; complete -C '
    assert "verify" in run_shell(home, "fish", "-N", "-c", f"{code}'envkit ver'").split()
    assert "a file.yml" in run_shell(home, "fish", "-N", "-c", f"{code}'envkit lint a'")


def test_completing_loads_only_the_command_in_question(home: Path) -> None:
    code = (
        "import contextlib, sys, envkit.__main__ as entry\n"
        "with contextlib.suppress(SystemExit):\n"  # click's way to end it
        "    entry.main([])\n"
        "print(*[m for m in sys.modules if m in ('rich', 'yaml', 'pynvml')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(_ENVKIT_COMPLETE="bash_complete", COMP_WORDS="envkit ver", COMP_CWORD="1"),
        timeout=60,
        check=False,
        cwd=home,
    )
    assert done.stdout.splitlines() == ["plain,verify", ""]


#: What a shell could say of its line: nothing, no number, a number beyond it, no text.
CURSORS = (None, "", "x", "1.5", "-1", "-99", "0", "99", "9" * 30, "9" * 5000, "\udcff")
LINES = (None, "", "envkit", "envkit ver", "'envkit ", "envkit \udcff")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("said", [*product(CURSORS, LINES)], ids=lambda said: ascii(said)[:24])
def test_broken_variables_of_the_shell_end_quietly(
    shell: str,
    said: tuple[str | None, str | None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_ENVKIT_COMPLETE", f"{shell}_complete")
    for name, value in zip(("COMP_CWORD", "COMP_WORDS"), said, strict=True):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(BashComplete, "_check_version", lambda: None)
    try:
        code = entry.main([])
    except SystemExit as ended:  # click's way to end a completion
        code = int(ended.code or 0)
    assert code in {0, 1}
    assert capsys.readouterr().err == ""

"""The options of every command are a contract: a change here changes everybody's scripts."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from golden_text import assert_golden
from running import run_envkit

from envkit.cli.app import COMMANDS, app

GOLDEN = Path(__file__).parent / "golden"
EVERYWHERE = ["-q, --quiet", "-v, --verbose", "--color", "--no-progress", "-V, --version"]
OPTIONS = {
    "verify": [
        *("-n, --name", "-p, --prefix", "--python", "--spec", "--lock"),
        *("--strict", "--deep", "--suite", "--no-fingerprint", "--device"),
        *("--set", "--call", "--timeout", "--challenge", "--against"),
        *("--label", "-o", "--from", "--fail-on"),
        *("--exit-zero", "--format", "--json"),
        *EVERYWHERE,
    ],
    "lint": ["--format", "--json", "-o", "--fail-on", "--exit-zero", *EVERYWHERE],
    "diff": [
        *("--require", "--confirm", "--python", "-o", "--exit-zero", "--format", "--json"),
        *EVERYWHERE,
    ],
    "lock": [
        *("--check", "--update", "--solver", "--mirror", "--platform", "-o"),
        *("--format", "--json"),
        *EVERYWHERE,
    ],
    "create": ["-p, --prefix", "--mirror", "--format", "--json", *EVERYWHERE],
    "image": [
        *("--mode", "-o", "--base", "--platform", "--gpus", "--memory", "--cpus", "--code"),
        *("--port", "--notebooks", "--envkit-wheel", "--force", "--format", "--json"),
        *EVERYWHERE,
    ],
    "oom": ["-o", "--format", "--json", *EVERYWHERE],
    "memory": [],
    "report": ["-o", *EVERYWHERE],
    "proof": [],
    "explain": EVERYWHERE,
    "rules": EVERYWHERE,
    "completion": EVERYWHERE,
}


def loaded(name: str) -> click.Command:
    found = app.get_command(click.Context(app), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_options(name: str) -> None:
    found = [", ".join(one.opts) for one in loaded(name).params if isinstance(one, click.Option)]
    assert found == OPTIONS[name]


def test_options_of_memory_replay() -> None:
    group = loaded("memory")
    assert isinstance(group, click.Group)
    options = [one for one in group.commands["replay"].params if isinstance(one, click.Option)]
    found = [", ".join(one.opts) for one in options]
    own = ["--conf", "--total-memory", "--must-fit", "-o", "--format", "--json"]
    assert found == [*own, *EVERYWHERE]
    assert all(one.help for one in options)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    for option in loaded(name).params:
        assert not isinstance(option, click.Option) or option.help


@pytest.mark.parametrize(
    "name",
    [
        *("", *COMMANDS, "memory replay", "memory strategies"),
        *("proof challenge", "proof sign", "proof check"),
    ],
)
def test_help(name: str) -> None:
    done = run_envkit(*name.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Examples:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert_golden(GOLDEN / f"help-{name.replace(' ', '-') or 'envkit'}.txt", done.stdout)


@pytest.mark.parametrize("command", [["verify"], ["memory", "strategies"]])
def test_a_second_step_is_refused_and_not_lost(command: list[str]) -> None:
    done = run_envkit(*command, "--call", "a:one", "--call", "b:two")
    assert done.returncode == 2
    assert "--call is given 2 times" in done.stderr
    assert "Run once for each" in done.stderr

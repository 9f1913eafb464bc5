"""The options of `envkit verify`, in the order of its help page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from envkit.cli.own_step import call_option

F = TypeVar("F", bound=Callable[..., Any])

#: Parameters that have no meaning for something recorded.
LIVE_ONLY: Final = (
    "name",
    "prefix",
    "python",
    "suite",
    "no_fingerprint",
    "device",
    "flags",
    "timeout",
    "challenge",
    "call",
    "spec",
    "lock",
    "strict",
    "deep",
)

_OPTIONS: Final = (
    click.option("-n", "--name", metavar="ENV", help="Conda environment to check, by name."),
    click.option("-p", "--prefix", metavar="PATH", help="Environment to check, by folder."),
    click.option("--python", metavar="EXE", help="Environment to check, by interpreter."),
    click.option(
        "--spec", metavar="SPEC", help="What it is to be: an environment.yml or a registry name."
    ),
    click.option("--lock", metavar="FILE", help="The very packages: a conda-lock.yml or explicit."),
    click.option("--strict", is_flag=True, default=None, help="Satisfying the spec is not enough."),
    click.option(
        "--deep", is_flag=True, default=None, help="Hash every file of every conda package."
    ),
    click.option(
        "--suite",
        type=click.Choice(["quick", "standard", "full"]),
        help="Probes to run [standard with a GPU, quick without].",
    ),
    click.option(
        "--no-fingerprint", is_flag=True, default=None, help="Run no probes: facts and rules only."
    ),
    click.option("--device", metavar="auto|cpu|cuda[:N]|all", help="Where the probes run [auto]."),
    click.option(
        "--set",
        "flags",
        multiple=True,
        metavar="FLAG=VALUE",
        help="Switch of torch to set first, such as cudnn.benchmark=true. Repeatable.",
    ),
    call_option("Measure a step of your own too, imported from this folder."),
    click.option("--timeout", type=float, metavar="S", help="Seconds for all probes [300]."),
    click.option(
        "--challenge",
        metavar="NONCE",
        help="Seed the probes with 8 to 128 hexadecimal digits that you were given.",
    ),
    click.option(
        "--against", metavar="REPORT", help="Compare with a measured report or a baseline's name."
    ),
    click.option("--label", metavar="NAME", help="Name of this machine in the report."),
    click.option(
        "-o", "output", metavar="FILE|FOLDER", help="Save the JSON report; a folder: LABEL.json."
    ),
    click.option(
        "--from",
        "from_",
        metavar="FILE",
        help="Judge a report, a collect_env paste or a machine profile; - is stdin.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "unknown"]),
        help="What fails the verdict [error]; each includes those before it.",
    ),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever the verdict is."),
)


def option_of(parameter: str) -> str:
    """Return an option as it is typed: `--set` for `flags`."""
    return "--set" if parameter == "flags" else f"--{parameter.replace('_', '-')}"


def verify_options(function: F) -> F:
    """Add the options of `envkit verify`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function

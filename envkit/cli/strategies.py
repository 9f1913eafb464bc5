"""`envkit memory strategies`: what each remedy against running out of memory saves here."""

from __future__ import annotations

import os
from typing import Any

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.output import style_of
from envkit.cli.own_step import call_option
from envkit.cli.progress import progress
from envkit.cli.written import write_document
from envkit.errors import UsageError
from envkit.model.strategies import Strategies
from envkit.render.style import Style
from envkit.workflows.config import check_one_device, check_timeout

EXAMPLES = """\
envkit memory strategies
envkit memory strategies --workload gpt-small --batch 16
envkit memory strategies --call train:step --only autocast-bf16
envkit memory strategies --memory-fraction 0.25 --must-fit
envkit memory strategies --skip compile -o strategies.json"""


@click.command(cls=EnvkitCommand, name="strategies", examples=EXAMPLES)
@click.option("--workload", type=click.Choice(["vit-b16", "resnet50", "gpt-small"]),
              help="Model to train [vit-b16]; on the CPU a tiny one of its kind.")  # fmt: skip
@call_option("A step of your own, called repeatedly; batch=N if it takes it.")
@click.option("--batch", type=click.IntRange(1, 1 << 20), metavar="N",
              help="Samples of a step [the workload's].")  # fmt: skip
@click.option("--only", metavar="STRATEGY", multiple=True, help="Measure these; repeatable [all].")
@click.option("--skip", metavar="STRATEGY", multiple=True, help="Leave these out; repeatable.")
@click.option("--memory-fraction", type=click.FloatRange(0, 1, min_open=True), metavar="SHARE",
              help="Share of the GPU that torch may take, above 0 [1].")  # fmt: skip
@click.option("--must-fit", is_flag=True, help="Exit with 1 if the workload as it is does not fit.")
@click.option("--device", metavar="auto|cpu|cuda[:N]", default="auto", help="Where to measure.")
@click.option("--timeout", type=float, metavar="S", help="Seconds for everything [1800].")
@click.option("-n", "--name", metavar="ENV", help="Conda environment to measure in, by name.")
@click.option("-p", "--prefix", metavar="PATH", help="Environment to measure in, by folder.")
@click.option("--python", metavar="EXE", help="Environment to measure in, by interpreter.")
@click.option("-o", "output", metavar="FILE", help="Write it there: .json, .md, else text.")
@format_options("text", "json", "markdown")
@terminal_options
def strategies_command(**options: Any) -> int:
    """Measure what each remedy against running out of memory saves here.

    Each strategy runs in a child process of its own: peaks of allocated and reserved memory, time
    of a step, and whether results stay equal. Then the largest batch that fits is looked for, and
    held for 50 steps. The names of the strategies are in docs/reference/strategies.md.
    """
    from envkit.workflows.strategies import exit_code  # noqa: PLC0415 (not for the group's help)

    terminal = Terminal.of(options)
    document = _measured(options, terminal)

    def draw(style: Style) -> str:
        from envkit.render.strategies_text import render_strategies_text  # noqa: PLC0415 (rich)

        return render_strategies_text(document, style)

    def as_markdown(_: Style) -> str:
        from envkit.render.strategies_text import render_strategies_markdown  # noqa: PLC0415

        return render_strategies_markdown(document)

    write_document(document, draw, options, terminal, others={"markdown": as_markdown})
    return exit_code(document, must_fit=options["must_fit"])


def _measured(options: dict[str, Any], terminal: Terminal) -> Strategies:
    from envkit.workflows.live import live_readers  # noqa: PLC0415
    from envkit.workflows.request import own_step  # noqa: PLC0415
    from envkit.workflows.strategies import (  # noqa: PLC0415
        DEFAULT_TIMEOUT_S,
        StrategiesRequest,
        measure_strategies,
    )

    timeout_s = options["timeout"] if options["timeout"] is not None else DEFAULT_TIMEOUT_S
    try:
        check_one_device(options["device"])
        check_timeout(timeout_s)
    except ValueError as error:
        step = "`envkit memory strategies --help` says what it takes."
        message = f"{error}."
        raise UsageError(message, next_step=step) from error
    request = StrategiesRequest(
        workload=options["workload"],
        call=None if options["call"] is None else own_step(options["call"]),
        batch=options["batch"],
        device=options["device"],
        only=options["only"],
        skip=options["skip"],
        memory_fraction=options["memory_fraction"],
        timeout_s=timeout_s,
    )
    named = {option: options[option] for option in ("name", "prefix", "python")}
    readers = live_readers(os.environ, **named)
    with progress(shown=terminal.progress_on(), ascii_only=not style_of(terminal).unicode) as tell:
        return measure_strategies(
            request, readers.choose(), readers.child, created=readers.clock(), tell=tell
        )

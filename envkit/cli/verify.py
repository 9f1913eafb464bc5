"""`envkit verify`: this machine and an environment on it, or something recorded elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.endings import is_for_report
from envkit.cli.output import complain, style_of
from envkit.cli.progress import progress
from envkit.cli.verify_options import LIVE_ONLY, option_of, verify_options
from envkit.cli.written import Formats, in_repository, of_outcome, print_format
from envkit.errors import UsageError
from envkit.model.observed import value_of
from envkit.model.report import Report
from envkit.render.json_ import render_json
from envkit.render.outcome import Outcome
from envkit.render.style import Style
from envkit.workflows.config import Configuration, current_folder, read_configuration
from envkit.workflows.request import request_from
from envkit.workflows.save import choose_destination, keep_inputs, names_folder, save_report

if TYPE_CHECKING:
    from envkit.model.facts import Rank
    from envkit.workflows.ranks import Meeting
    from envkit.workflows.request import VerifyRequest

EXAMPLES = """\
envkit verify                           the active environment
envkit verify -n vit                    a conda environment by its name
envkit verify --python .venv/bin/python
envkit verify --suite standard -o report.json
envkit verify --no-fingerprint          facts and rules only
envkit verify --label lab-1 -o team/    one file a machine in a team's folder
envkit verify -n vit --spec vit         is it what the spec asks for
envkit verify -n vit --lock conda-lock.yml --deep
envkit verify --against h200-torch2.11.0    measure what a baseline did
envkit verify --device all -o gpus/     every GPU, and who is unlike the rest
envkit verify --from report.json        judge what somebody else recorded"""


@click.command(cls=EnvkitCommand, name="verify", examples=EXAMPLES, ending_chooses=False)
@verify_options
@format_options("text", "json", "markdown", "html", "junit", "sarif", "github")
@terminal_options
def command(**options: Any) -> int:
    """Say whether this machine and environment are right.

    Reads driver, GPUs, system and environment, runs torch in the environment's own interpreter,
    and measures how memory and numbers behave there. The exit code is the verdict's.
    """
    terminal = Terminal.of(options)
    if (
        options["output"] is not None
        and not is_for_report(options["output"])
        and not terminal.quiet
    ):
        complain(
            f"envkit: {options['output']} gets the JSON report; --format is for what is printed"
        )
    configuration = read_configuration(current_folder(), os.environ)
    if options["from_"] is not None:
        reports: tuple[Report, ...] = (_recorded(options, configuration),)
    else:
        reports = _live(options, configuration, terminal)
    report = reports[0]
    rank = value_of(report.facts.request.rank) if options["from_"] is None else None
    if options["output"] is not None and rank is None:
        # A file is the machine's report alone; in a folder each further device has one too.
        for one in reports if names_folder(options["output"]) else reports[:1]:
            destination = choose_destination(options["output"], one.label, inputs=_inputs(options))
            save_report(one, render_json(one), destination)
    if rank is None or rank.rank == 0 or options["output"] is None:
        formats = _formats(report, saved=options["from_"] is not None)
        print_format(formats, options, terminal)
    elif report.verdict.exit_code:  # its report is in the folder, and rank 0 speaks for all
        click.echo(f"rank {rank.rank}: {report.verdict.headline}", err=True)
    return 0 if options["exit_zero"] else report.verdict.exit_code


def _live(
    options: dict[str, Any], configuration: Configuration, terminal: Terminal
) -> tuple[Report, ...]:
    from envkit.workflows.live import live_readers  # noqa: PLC0415 (not for a recorded machine)
    from envkit.workflows.ranks import rank_of  # noqa: PLC0415
    from envkit.workflows.verify import label_of, verify_each  # noqa: PLC0415

    rank = rank_of(os.environ)
    request = msgspec.structs.replace(request_from(options, configuration), rank=rank)
    if rank is not None and request.device.value == "all":
        message = "Each rank of a job checks its own device, and --device all checks every one."
        raise UsageError(message, next_step="Leave it out, or run envkit outside of the job.")
    meeting = None if rank is None else _meeting(rank, request, options)
    if rank is not None:
        label = label_of(request.label, f"rank-{rank.rank}")
        request = msgspec.structs.replace(request, label=label)
    if options["output"] is not None and meeting is None:
        # Before minutes of work, not after.
        choose_destination(options["output"], request.label, inputs=_inputs(options))
    named = {option: options[option] for option in ("name", "prefix", "python")}
    readers = live_readers(os.environ, timeout_s=request.timeout_s, **named)
    with progress(shown=terminal.progress_on(), ascii_only=not style_of(terminal).unicode) as tell:
        reports = verify_each(request, readers, tell)
    return reports if meeting is None else (meeting.settle(reports[0]),)


def _meeting(rank: Rank, request: VerifyRequest, options: dict[str, Any]) -> Meeting | None:
    """Return where the ranks of a job meet; None without `-o`: then each speaks for itself."""
    from envkit.workflows.ranks import Meeting  # noqa: PLC0415

    output = options["output"]
    if output is None:
        return None
    if not names_folder(output):
        message = f"-o {output}: {rank.world} ranks cannot all write the same file."
        raise UsageError(message, next_step="Name a folder, with / at its end: -o ranks/")
    return Meeting(
        rank,
        output,
        label=request.label,
        limit_s=request.timeout_s,
        inputs=tuple(_inputs(options)),
    )


def _inputs(options: dict[str, Any]) -> Iterator[Path | str]:
    """Yield the files that the options name, over which no report may be written."""
    from envkit.specs.resolve import files_of  # noqa: PLC0415 (only with -o)
    from envkit.workflows.baselines import path_of  # noqa: PLC0415

    yield from filter(None, (options["from_"], options["lock"]))
    if options["spec"] is not None:
        yield from files_of([options["spec"]])
    if options["against"] is not None:
        yield path_of(options["against"])


def _recorded(options: dict[str, Any], configuration: Configuration) -> Report:
    from envkit.workflows.judge_file import judge_file  # noqa: PLC0415 (not for a live machine)

    given = [option_of(name) for name in LIVE_ONLY if options[name] not in (None, ())]
    if given:
        message = f"--from judges what was recorded; {', '.join(given)} cannot change that."
        raise UsageError(message, next_step="Leave it out, or leave out --from.")
    keep_inputs(options["output"], _inputs(options))
    return judge_file(options["from_"], request_from(options, configuration))


def _formats(report: Report, *, saved: bool) -> Formats:
    def text(style: Style) -> str:
        from envkit.render.text import render_text  # noqa: PLC0415 (rich, only where it draws)

        return render_text(report, style, saved=saved)

    def outcome() -> Outcome:
        from envkit.render.report_outcome import report_outcome  # noqa: PLC0415 (not for text)

        return report_outcome(report)

    def markdown(_: Style) -> str:
        from envkit.render.report_markdown import render_report_markdown  # noqa: PLC0415

        return render_report_markdown(report, in_repository(outcome()))

    def html(_: Style) -> str:
        from envkit.workflows.report import machine_page  # noqa: PLC0415 (templates)

        return machine_page(report)

    others = {**of_outcome(outcome), "markdown": markdown, "html": html}
    return {"text": text, "json": lambda _: render_json(report), **others}

"""Ranks of one job (`torchrun envkit verify`): each checks its device, rank 0 compares them all.

They meet in the folder of `-o`: every rank writes its report there, whole or not at all, and rank 0
waits for those of this job. Launchers end all ranks when one ends badly, so the others wait for
rank 0's last word before they end with a code that is not 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import EnvkitError
from envkit.model import codec
from envkit.model.facts import Rank, Sibling
from envkit.model.observed import Known, NotApplicable, Observed, value_of
from envkit.model.report import Report
from envkit.render.json_ import render_json
from envkit.workflows.conclude import conclude
from envkit.workflows.save import choose_destination, write_atomically
from envkit.workflows.siblings import Member, compare_members
from envkit.workflows.verify import label_of

#: What torchrun sets, and others that start jobs for torch.distributed.
_NUMBERS: Final = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_OF_JOB: Final = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
)
#: How much later than the time limit of its probes a rank may come.
GRACE_S: Final = 30.0
#: Ranks do not start at the same moment; a report that is older than this is another run's.
SPREAD_S: Final = 60.0
POLL_S: Final = 0.2


def rank_of(environ: Mapping[str, str]) -> Rank | None:
    """Return which rank this process is; None outside of a job of several."""
    texts = [environ.get(name, "") for name in _NUMBERS]
    if "MASTER_ADDR" not in environ or not all(_is_number(text) for text in texts):
        return None
    rank, world, local = map(int, texts)
    if not 0 <= rank < world or world < 2:  # noqa: PLR2004 (one has no others)
        return None
    told = "\0".join(environ.get(name, "") for name in _OF_JOB)
    job = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Rank(rank=rank, world=world, local=local, job=job)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 7  # noqa: PLR2004


class Meeting:
    """The folder in which the ranks of a job leave their reports."""

    def __init__(  # noqa: PLR0913 (the parts that a test replaces, each by its name)
        self,
        rank: Rank,
        folder: str,
        *,
        label: str | None,
        limit_s: float,
        inputs: Iterable[Path | str] = (),
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rank = rank
        self._paths = [
            choose_destination(folder, label_of(label, f"rank-{number}"), inputs=inputs).path
            for number in range(rank.world)
        ]
        self._sleep, self._clock = sleep, clock
        self._started_s = clock()
        self._deadline_s = self._started_s + limit_s + GRACE_S
        with contextlib.suppress(OSError):  # what an earlier job left must not pass for ours
            self._own.unlink()

    @property
    def _own(self) -> Path:
        return self._paths[self._rank.rank]

    def settle(self, report: Report) -> Report:
        """Leave a report; return it as rank 0 has it once all have come, or as it is.

        Raises:
            UsageError: it cannot be written.

        """
        if self._rank.rank > 0:
            self._write(report)
            if report.verdict.exit_code:
                self._wait_for(lambda: self._concluded(self._read(0)))
            return report
        found: dict[int, Report] = {0: report}
        self._wait_for(lambda: self._all_in(found))
        settled = _with_siblings(report, self._siblings(found))
        self._write(settled)
        return settled

    def _write(self, report: Report) -> None:
        write_atomically(self._own, render_json(report).encode())

    def _wait_for(self, come: Callable[[], bool]) -> None:
        while not come() and self._clock() < self._deadline_s:
            self._sleep(POLL_S)

    def _all_in(self, found: dict[int, Report]) -> bool:
        for number in range(self._rank.world):
            report = None if number in found else self._read(number)
            if report is not None:
                found[number] = report
        return len(found) == self._rank.world

    def _read(self, number: int) -> Report | None:
        """Return a rank's report; None if it is not there, or of another job."""
        path = self._paths[number]
        try:
            if path.stat().st_mtime < self._started_s - SPREAD_S:
                return None
            report = codec.decode(path.read_bytes(), Report, origin=path.name)
        except (OSError, EnvkitError):
            return None
        said = value_of(report.facts.request.rank)
        ours = said is not None and (said.job, said.rank) == (self._rank.job, number)
        return report if ours else None

    @staticmethod
    def _concluded(report: Report | None) -> bool:
        return report is not None and isinstance(report.facts.gpus.siblings, (Known, NotApplicable))

    def _siblings(self, found: Mapping[int, Report]) -> Observed[tuple[Sibling, ...]]:
        source = f"reports of the {self._rank.world} ranks of this job"
        if isinstance(found[0].facts.request.suite, NotApplicable):
            return NotApplicable(reason="no fingerprint was asked for", source=source)
        members = [_member(number, found.get(number)) for number in range(self._rank.world)]
        return Known(value=compare_members(members), source=source)


def _member(number: int, report: Report | None) -> Member:
    place = f"rank {number}"
    if report is None:
        return Member(place=place, problem="it never came: no report of it within the time limit")
    wrong = next((one for one in report.findings if one.code == "TOR009"), None)
    return Member(
        place=place,
        fingerprint=report.fingerprint,
        problem=report.verdict.headline,
        wrong="" if wrong is None else wrong.title,
    )


def _with_siblings(report: Report, siblings: Observed[tuple[Sibling, ...]]) -> Report:
    gpus = msgspec.structs.replace(report.facts.gpus, siblings=siblings)
    return conclude(
        msgspec.structs.replace(report.facts, gpus=gpus),
        target=report.target,
        created=report.created,
        label=report.label,
        fingerprint=report.fingerprint,
    )

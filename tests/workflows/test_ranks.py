"""`torchrun envkit verify`: ranks meet in a folder, and rank 0 names those that differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from machines import fingerprint, readers

from envkit.errors import UsageError
from envkit.model import codec
from envkit.model.codec import digest
from envkit.model.facts import Rank, Sibling
from envkit.model.fingerprint import Fingerprint, ProbeResult
from envkit.model.observed import Known, NotApplicable, value_of
from envkit.model.report import Report
from envkit.probes.events import ChildRequest
from envkit.workflows.ranks import GRACE_S, Meeting, rank_of
from envkit.workflows.request import VerifyRequest
from envkit.workflows.verify import label_of, verify

JOB = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
ROOT = Path(__file__).parents[2]


def variables(rank: int = 0, **more: str) -> dict[str, str]:
    return {**JOB, "RANK": str(rank), "LOCAL_RANK": str(rank), **more}


def rank(number: int = 0, **more: str) -> Rank:
    found = rank_of(variables(number, **more))
    assert found is not None
    return found


def report(of: Rank, found: Fingerprint | None = None, suite: str = "quick") -> Report:
    request = VerifyRequest(
        suite=Known(value=suite, source="--suite"),
        rank=of,
        label=label_of(None, f"rank-{of.rank}"),
    )
    measured = found or fingerprint()
    return verify(request, readers(fingerprint=lambda *_, **__: measured), lambda *_: None)


class Clock:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.now_s = time.time()
        self.on_sleep: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.on_sleep()
        self.now_s += seconds


def meeting(of: Rank, folder: Path, clock: Clock | None = None) -> Meeting:
    clock = clock or Clock()
    return Meeting(of, f"{folder}/", label=None, limit_s=5.0, sleep=clock.sleep, clock=clock)


def siblings(one: Report) -> tuple[Sibling, ...]:
    found = value_of(one.facts.gpus.siblings)
    assert found is not None
    return found


def unlike() -> Fingerprint:
    bits = ProbeResult(status="exact", values={"n": 2}, digest=digest({"n": 2}))
    return fingerprint(matmul=bits)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"},
        variables(2),
        variables(WORLD_SIZE="1"),
        variables(RANK="-1"),
        variables(RANK="²"),
        variables(LOCAL_RANK="many"),
    ],
)
def test_what_is_no_rank_of_a_job(environ: dict[str, str]) -> None:
    assert rank_of(environ) is None


def test_ranks_of_a_job_have_one_name_and_other_jobs_another() -> None:
    assert rank(0).job == rank(1).job
    assert rank(0).job != rank(0, TORCHELASTIC_RESTART_COUNT="1").job
    assert rank(1).local == 1


def test_rank_0_compares_all_and_its_report_says_so(tmp_path: Path) -> None:
    assert meeting(rank(1), tmp_path).settle(report(rank(1))).verdict.exit_code == 0
    settled = meeting(rank(0), tmp_path).settle(report(rank(0)))
    assert [(one.place, one.outcome) for one in siblings(settled)] == [
        ("rank 0", "agrees"),
        ("rank 1", "agrees"),
    ]
    saved = codec.decode((tmp_path / "machine-rank-0.json").read_bytes(), Report, origin="it")
    assert siblings(saved) == siblings(settled)
    assert saved.label == "machine-rank-0"


def test_a_rank_that_differs_is_named(tmp_path: Path) -> None:
    meeting(rank(1), tmp_path).settle(report(rank(1), unlike()))
    settled = meeting(rank(0), tmp_path).settle(report(rank(0)))
    assert siblings(settled)[1].outcome != "agrees"
    assert settled.verdict.exit_code != 0
    assert "rank 1" in f"{settled.verdict.headline} {settled.findings}"


def test_a_rank_that_never_comes_is_named_after_the_time_limit(tmp_path: Path) -> None:
    clock = Clock()
    started_s = clock()
    settled = meeting(rank(0), tmp_path, clock).settle(report(rank(0)))
    assert clock() - started_s == pytest.approx(5.0 + GRACE_S, abs=1.0)
    assert settled.verdict.exit_code == 3
    assert "rank 1: it never came" in settled.verdict.headline


def test_reports_of_another_job_or_of_an_earlier_run_do_not_count(tmp_path: Path) -> None:
    meeting(rank(1, MASTER_PORT="1"), tmp_path).settle(report(rank(1, MASTER_PORT="1")))
    settled = meeting(rank(0), tmp_path).settle(report(rank(0)))
    assert "never came" in siblings(settled)[1].reason
    meeting(rank(1), tmp_path).settle(report(rank(1)))
    os.utime(tmp_path / "machine-rank-1.json", (1, 1))
    settled = meeting(rank(0), tmp_path).settle(report(rank(0)))
    assert "never came" in siblings(settled)[1].reason


def test_half_a_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "machine-rank-1.json"
    path.write_text("{")
    clock = Clock()
    clock.on_sleep = lambda: path.write_bytes(codec.encode(report(rank(1))))
    settled = meeting(rank(0), tmp_path, clock).settle(report(rank(0)))
    assert siblings(settled)[1].outcome == "agrees"


def test_a_rank_that_fails_waits_for_rank_0_since_launchers_end_all(tmp_path: Path) -> None:
    clock, first = Clock(), rank(0)
    first_meeting = meeting(first, tmp_path)
    waited: list[bool] = []

    def conclude() -> None:
        waited.append((tmp_path / "machine-rank-0.json").exists())
        if len(waited) == 3:
            first_meeting.settle(report(first))

    clock.on_sleep = conclude
    failing = report(rank(1))
    verdict = msgspec.structs.replace(failing.verdict, exit_code=1)
    second = meeting(rank(1), tmp_path, clock)
    second.settle(msgspec.structs.replace(failing, verdict=verdict))
    assert waited == [False, False, False]


def test_without_a_fingerprint_there_is_nothing_to_compare(tmp_path: Path) -> None:
    meeting(rank(1), tmp_path).settle(report(rank(1), suite="none"))
    settled = meeting(rank(0), tmp_path).settle(report(rank(0), suite="none"))
    assert isinstance(settled.facts.gpus.siblings, NotApplicable)


@pytest.mark.parametrize(
    ("asked", "device"), [("auto", "auto:1"), ("cuda", "auto:1"), ("cpu", "cpu")]
)
def test_a_rank_takes_the_gpu_of_its_number(asked: str, device: str) -> None:
    seen: list[str] = []

    def child(_: Path, request: ChildRequest, __: Any) -> Any:
        seen.append(request.device)
        return readers().child(_, request, __)

    request = VerifyRequest(device=Known(value=asked, source="--device"), rank=rank(1))
    verify(request, readers(child=child), lambda *_: None)
    assert seen == [device]


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        meeting(rank(0), tmp_path / "file")


# -- for real ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torchrun() -> str:
    pytest.importorskip("torch")
    found = shutil.which("torchrun", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("there is no torchrun beside this interpreter")
    return found


def start(torchrun: str, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    common = f"{sys.executable} -m envkit verify --python {sys.executable} --suite quick"
    return subprocess.run(
        [
            *(torchrun, "--standalone", "--nproc-per-node", "2", "--no-python"),
            *("sh", "-c", f"exec {common} --device cpu -o {folder}/ {script}"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )


def test_two_ranks_under_torchrun(torchrun: str, tmp_path: Path) -> None:
    done = start(torchrun, tmp_path / "ranks", "")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PASS") == 1  # rank 0 alone speaks
    assert {path.name for path in (tmp_path / "ranks").iterdir()} == {
        "machine-rank-0.json",
        "machine-rank-1.json",
    }
    path = tmp_path / "ranks" / "machine-rank-0.json"
    saved = codec.decode(path.read_bytes(), Report, origin=path.name)
    assert [one.outcome for one in siblings(saved)] == ["agrees", "agrees"]


def test_a_rank_with_other_inputs_is_named_under_torchrun(torchrun: str, tmp_path: Path) -> None:
    done = start(
        torchrun, tmp_path / "ranks", "$(test $RANK = 0 || echo --challenge 0123456789abcdef)"
    )
    assert done.returncode != 0
    assert "rank 1" in done.stdout
    path = tmp_path / "ranks" / "machine-rank-0.json"
    saved = codec.decode(path.read_bytes(), Report, origin=path.name)
    assert saved.verdict.exit_code == 3
    assert siblings(saved)[1].outcome == "incomplete"

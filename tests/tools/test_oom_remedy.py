"""The setting that a replay names, and the workload that needs it; the GPU's part is measured."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from types import ModuleType

import pytest
from recorded_process import RecordedProcess

from envkit.allocator.sizes import MIB
from envkit.workflows.replay import ReplayRequest, replay_with_courses

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def oom_remedy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("oom_remedy")


def growing(limit_bytes: int) -> RecordedProcess:
    """Keep half of ever larger blocks: each pins a segment that nothing later fits into."""
    process = RecordedProcess()
    process.allocator.set_memory_fraction(limit_bytes / (80 << 30))
    for step in range(20):
        size = (40 + 2 * step) * MIB
        large = process.malloc(size)
        if not large:
            process.trace[-1]["device_free"] = 70 << 30
            break
        process.free(large)
        process.malloc(size // 2)
    return process


def test_the_setting_that_fits_is_named_from_the_snapshot_alone(
    tmp_path: Path, oom_remedy: ModuleType
) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(growing(700 * MIB).snapshot(), 4))
    found = replay_with_courses(ReplayRequest(snapshot=str(path)), lambda *_: None)
    assert found.document.devices[0].proof.ooms == 1
    assert oom_remedy.recommended(found) == "expandable_segments:True"


def test_where_nothing_fits_it_says_so(tmp_path: Path, oom_remedy: ModuleType) -> None:
    process = RecordedProcess(capacity=100 * MIB)
    while process.malloc(30 * MIB):
        pass
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(process.snapshot(), 4))
    found = replay_with_courses(ReplayRequest(snapshot=str(path)), lambda *_: None)
    with pytest.raises(SystemExit, match="none of the other settings would change that"):
        oom_remedy.recommended(found)


def test_the_workload_learns(oom_remedy: ModuleType) -> None:
    del oom_remedy  # its folder is on the path
    torch = importlib.import_module("torch")
    texts = importlib.import_module("growing_texts")
    losses: list[float] = []
    texts.train(texts.TINY, torch.device("cpu"), losses)
    assert len(losses) == len(texts.TINY.lengths)
    assert all(0 < loss < 20 for loss in losses)

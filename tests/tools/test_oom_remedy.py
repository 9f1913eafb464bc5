"""The setting that a replay names, and the workload that needs it; the GPU's part is measured."""

from __future__ import annotations

import importlib
import json
import pickle
from pathlib import Path
from types import ModuleType

import msgspec
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


def test_the_page_says_what_was_measured(
    tmp_path: Path, oom_remedy: ModuleType, oom_remedy_page: ModuleType
) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(growing(700 * MIB).snapshot(), 4))
    found = replay_with_courses(ReplayRequest(snapshot=str(path)), lambda *_: None)
    run = {"oom": "", "steps": 3, "peak_allocated_bytes": 1 << 30, "peak_reserved_bytes": 3 << 29,
           "gpu": "Card X", "torch": "2.11.0"}  # fmt: skip
    oom = "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has more"
    result = {
        "date": "2026-11-30",
        "workload": importlib.import_module("growing_texts").TINY._asdict(),
        "limit_bytes": 700 * MIB,
        "runs": [{**run, "conf": "", "oom": oom}, {**run, "conf": "expandable_segments:True"}],
        "snapshot_bytes": path.stat().st_size,
        "replay": msgspec.to_builtins(found.document),
        "recommended": oom_remedy.recommended(found),
    }
    page = oom_remedy_page.page(result)
    assert "| 1 | default | 3 of 3 | 1.00 GiB | 1.50 GiB | CUDA out of memory. Tried" in page
    assert "| 2 | `expandable_segments:True` | 3 of 3 | 1.00 GiB | 1.50 GiB | passed |" in page
    reserved = oom_remedy_page.gib(found.document.devices[0].settings[0].peak_reserved_bytes)
    assert f"| default (recorded) | {reserved} | " in page
    assert "{" not in page


def test_the_page_is_up_to_date(oom_remedy_page: ModuleType) -> None:
    if not oom_remedy_page.RESULT.exists():
        pytest.skip("the run was not measured on a GPU yet")
    result = json.loads(oom_remedy_page.RESULT.read_text(encoding="utf-8"))
    assert oom_remedy_page.PAGE.read_text(encoding="utf-8") == oom_remedy_page.page(result)
    assert result["runs"][0]["oom"]
    assert not result["runs"][1]["oom"]

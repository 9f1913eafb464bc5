"""How GPUs are connected: the real probe over a fake NVML, and facts in four states."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.model.facts import Facts, Gpu, GpuFacts
from envkit.model.observed import Absent, Known, NotApplicable, Observed, Unreadable
from envkit.render.fact_rows import rows
from envkit.sources.gpu import gpu_devices
from envkit.sources.gpu_links import gpu_links
from envkit.sources.probe_answers import Answers, Asked, Failure, LinkAnswer, ask_driver

from .fake_driver import build_libnvml, write_pynvml
from .trees import known

TWO: Observed[tuple[Gpu, ...]] = Known(value=(Gpu(index=0), Gpu(index=1)), source="NVML")


def linked(**values: Asked) -> Answers:
    return Answers(links=(LinkAnswer(one=0, other=1, values=values),))


def test_the_probe_asks_for_each_pair_and_a_lost_gpu_costs_only_its_own(tmp_path: Path) -> None:
    folder = write_pynvml(tmp_path / "packages")
    more = """
def nvmlDeviceGetTopologyCommonAncestor(a, b): return 30
def nvmlDeviceGetP2PStatus(a, b, which): return [0, 4, 5][which]
def nvmlDeviceGetNvLinkState(h, link):
    if h == 1:
        raise NVMLError(3, "Not Supported")
    if link > 17:
        raise NVMLError(2, "Invalid Argument")
    return int(link != 3)
"""
    with (folder / "pynvml.py").open("a", encoding="utf-8") as file:
        file.write(more)
    library = build_libnvml(tmp_path)
    answers = ask_driver({}, pynvml_folder=folder, nvml_libraries=[str(library)], cuda_libraries=[])
    gpus = gpu_devices(answers, driver=known_driver())
    first, second, _ = known(gpus)
    assert known(first.nvlinks_active) == 17
    assert isinstance(second.nvlinks_active, NotApplicable)
    links = known(gpu_links(answers, gpus))
    assert [(one.one, one.other) for one in links] == [(0, 1), (0, 2), (1, 2)]
    assert known(links[0].path) == "host_bridge"
    assert known(links[0].p2p_read) == "ok"
    assert known(links[0].p2p_write) == "disabled_by_driver_setting"
    assert known(links[0].p2p_nvlink) == "not_supported"
    assert isinstance(links[1].path, Unreadable)
    assert "lost" in links[1].path.reason


def known_driver() -> Known[str]:
    return Known(value="570.86.15", source="NVML")


def test_one_gpu_has_no_links() -> None:
    one: Observed[tuple[Gpu, ...]] = Known(value=(Gpu(index=0),), source="NVML")
    assert isinstance(gpu_links(Answers(), one), NotApplicable)


def test_what_was_not_asked_is_unreadable_with_the_reason() -> None:
    silent = Answers(why_silent={"nvml": "it did not answer in time"})
    found = gpu_links(silent, TWO)
    assert isinstance(found, Unreadable)
    assert found.reason == "it did not answer in time"
    assert isinstance(gpu_links(Answers(), Absent(source="NVML")), Unreadable)


@pytest.mark.parametrize(
    ("asked", "state"),
    [
        (Asked(value=0), Known),
        (Asked(value=77), Unreadable),
        (Asked(error=Failure(code=3, message="Not Supported")), NotApplicable),
        (Asked(error=Failure(code=999, message="Unknown Error")), Unreadable),
    ],
)
def test_states(asked: Asked, state: type) -> None:
    (link,) = known(gpu_links(linked(path=asked), TWO))
    assert isinstance(link.path, state)


def test_the_row_counts_pairs_that_are_connected_alike() -> None:
    ok, path = Asked(value=0), Asked(value=50)
    links = gpu_links(linked(path=path, p2p_read=ok, p2p_write=ok, p2p_nvlink=ok), TWO)
    row = dict(rows(Facts(gpus=GpuFacts(devices=TWO, links=links))))["links"]
    assert row == "1 pair by NVLink, P2P"
    refused = Asked(value=2)
    links = gpu_links(linked(path=path, p2p_read=refused, p2p_nvlink=refused), TWO)
    row = dict(rows(Facts(gpus=GpuFacts(devices=TWO, links=links))))["links"]
    assert row == "1 pair by PCIe, nearest in common: system, no P2P (gpu not supported)"

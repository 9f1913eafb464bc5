from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import envkit
from envkit.errors import InputError
from envkit.model.codec import encode
from envkit.model.facts import Facts
from envkit.model.observed import NOT_RECORDED, Absent, Known, NotApplicable
from envkit.rules.engine import judge
from envkit.rules.verdict import decide
from envkit.sources.machine_profile import read_machine_profile

EXAMPLE = Path(envkit.__file__).parent / "schemas" / "examples" / "machine-1.json"
GPU = {"name": "NVIDIA GeForce RTX 3060", "compute_capability": "8.6", "memory_bytes": None}
TORCH = {"version": "2.9.1+cu128", "cuda": "12.8", "cuda_available": False}


def read(**fields: Any) -> Facts:
    profile = {"schema": "envkit.machine/1", **fields}
    return read_machine_profile(json.dumps(profile).encode(), origin="test")


def test_the_example_is_read() -> None:
    found = read_machine_profile(EXAMPLE.read_bytes(), origin="example")
    assert isinstance(found.torch.version, Known)


def test_what_is_absent_or_null_is_unknown() -> None:
    assert read() == Facts()
    assert read(os=None, gpus=None, torch=None, packages=None, env=None, glibc=None) == Facts()


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"driver": "535.146.02"}, Known(value="535.146.02", source="machine profile")),
        ({"driver": None, "gpus": [GPU], "torch": TORCH}, Absent),
        ({"driver": None, "gpus": [], "torch": TORCH}, Absent),
        ({"driver": None, "gpus": [GPU]}, NOT_RECORDED),
        ({"driver": None, "torch": TORCH}, NOT_RECORDED),
        ({"driver": None, "gpus": [GPU], "torch": {**TORCH, "cuda_available": None}}, NOT_RECORDED),
        ({"gpus": [GPU], "torch": TORCH}, NOT_RECORDED),
    ],
)
def test_a_driver_of_null_is_none_found_only_where_cuda_was_seen_not_to_work(
    fields: dict[str, Any], state: Any
) -> None:
    version = read(**fields).driver.version
    assert version == state if not isinstance(state, type) else isinstance(version, state)


def test_an_empty_list_of_gpus_is_none() -> None:
    assert read(gpus=[]).gpus.devices == Known(value=(), source="machine profile")


def test_no_torch_is_known_only_from_the_packages() -> None:
    assert read(torch=None).torch.version == NOT_RECORDED
    assert isinstance(read(packages={"numpy": "2.1.3"}).torch.version, Absent)
    assert read(packages={"torch": "2.5.1"}).torch.version == Known(
        value="2.5.1", source="machine profile"
    )


def test_a_build_without_cuda_is_told_by_what_stands_beside_the_null() -> None:
    cpu = read(torch={"version": "2.9.1+cpu", "cuda": None, "arch_list": []}).torch
    assert isinstance(cpu.cuda, Absent)
    assert isinstance(cpu.arch_list, NotApplicable)
    rocm = read(torch={"version": "2.9.1+rocm6.4", "cuda": None, "hip": "6.4"}).torch
    assert isinstance(rocm.cuda, Absent)
    assert read(torch={"version": "2.9.1", "cuda": None}).torch.cuda == NOT_RECORDED


def test_names_of_packages_are_normalised() -> None:
    distributions = read(packages={"NVIDIA_cudnn.cu12": "9.1.0.70"}).pip.distributions
    assert isinstance(distributions, Known)
    assert [one.name for one in distributions.value] == ["nvidia-cudnn-cu12"]


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"schema": "envkit.machine/2"}',
        b'{"schema": "envkit.machine/1", "surprise": 1}',
        b'{"schema": "envkit.machine/1", "gpus": [{"compute_capability": 8.0}]}',
        b"not json",
    ],
)
def test_a_profile_that_is_none_is_an_error_that_names_it(content: bytes) -> None:
    with pytest.raises(InputError, match=r"mine\.json"):
        read_machine_profile(content, origin="mine.json")


def test_its_facts_survive_a_report() -> None:
    found = read(driver="535.146.02", gpus=[GPU], torch=TORCH, env={"A": "b"})
    assert encode(found) == encode(
        read(driver="535.146.02", gpus=[GPU], torch=TORCH, env={"A": "b"})
    )


def test_the_corpus_of_machines_is_judged_right(shared: Path) -> None:
    lines = (shared / "corpus" / "machines.jsonl").read_text(encoding="utf-8").splitlines()
    wrong = [text for text in map(_judge, map(json.loads, lines)) if text]
    assert len(lines) == 45
    assert wrong == []


def _judge(row: dict[str, Any]) -> str:
    """Compare one labelled profile with what the rules say; empty where they agree."""
    facts = read_machine_profile(json.dumps(row["profile"]).encode(), origin=row["id"])
    result = judge(facts)
    codes = {one.code for one in result.findings}
    wrong = [one for one in row["must"] if not codes & set(one.split("|"))]
    wrong += [f"not {one}" for one in row["must_not"] if one in codes]
    failed = decide(facts, result.findings, result.checks).exit_code == 1
    if row["error"] is not None and failed != row["error"]:
        wrong.append(f"error {failed}")
    return f"{row['id']}: {', '.join(wrong)}" if wrong else ""


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"torch": {"version": "banana"}}, "$.torch.version"),
        ({"torch": {"cuda": "cu124"}}, "$.torch.cuda"),
        ({"torch": {"hip": "yes"}}, "$.torch.hip"),
        ({"torch": {"cudnn": -1}}, "$.torch.cudnn"),
        ({"gpus": [GPU, {"compute_capability": "sm_80"}]}, "$.gpus[1].compute_capability"),
        ({"gpus": [{"memory_bytes": -1}]}, "$.gpus[0].memory_bytes"),
        ({"driver": "newest"}, "$.driver"),
        ({"glibc": "glibc"}, "$.glibc"),
        ({"python": "three"}, "$.python"),
    ],
)
def test_a_value_that_reads_like_nothing_is_refused_where_it_stands(
    fields: dict[str, Any], where: str
) -> None:
    with pytest.raises(InputError) as raised:
        read(**fields)
    assert raised.value.exit_code == 2
    assert where in str(raised.value)


@pytest.mark.parametrize(
    "version", ["2.6.0a0+ecf3bae40a.nv25.01", "1.13.1", "2.9.0.dev20250801+cu128", "2.9.1+rocm6.4"]
)
def test_every_way_in_which_torch_writes_its_version_is_read(version: str) -> None:
    assert read(torch={"version": version}).torch.version == Known(
        value=version, source="machine profile"
    )

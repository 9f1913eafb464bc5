from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envkit.errors import UsageError
from envkit.model.observed import Known
from envkit.probes.events import OwnStep
from envkit.workflows.config import Configuration, Settings
from envkit.workflows.request import NO_FINGERPRINT, VerifyRequest, read_flags, request_from

NOTHING: dict[str, Any] = {
    "device": None,
    "suite": None,
    "no_fingerprint": None,
    "flags": (),
    "timeout": None,
    "challenge": None,
    "call": None,
    "against": None,
    "label": None,
    "fail_on": None,
    "spec": None,
    "lock": None,
    "strict": None,
    "deep": None,
}


def test_defaults() -> None:
    assert request_from(NOTHING, Configuration()) == VerifyRequest()


def test_flags_win() -> None:
    given = {
        **NOTHING,
        "device": "cuda:1",
        "no_fingerprint": True,
        "timeout": 5.0,
        "challenge": "ABcd0123",
        "label": "lab",
        "fail_on": "unknown",
    }
    request = request_from(given, Configuration(variables=Settings(label="x", suite="quick")))
    assert request.device == Known(value="cuda:1", source="--device")
    assert request.suite.value == "none"
    assert (request.timeout_s, request.challenge, request.label) == (5.0, "abcd0123", "lab")
    facts = request.facts(NO_FINGERPRINT)
    assert facts.needs_gpu == Known(value=True, source="--device")
    assert facts.fail_on == Known(value="unknown", source="--fail-on")


def test_spec_and_lock_are_passed_on() -> None:
    given = {**NOTHING, "spec": "vit", "lock": "conda-lock.yml", "strict": True, "deep": True}
    asked = request_from(given, Configuration()).contract
    assert (asked.spec, asked.lock, asked.strict, asked.deep) == (
        "vit",
        "conda-lock.yml",
        True,
        True,
    )


def test_a_step_of_the_user_s_is_looked_for_in_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = request_from({**NOTHING, "call": "my.train:Trainer.step"}, Configuration()).call
    assert asked == OwnStep(target="my.train:Trainer.step", folder=str(tmp_path))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("mine.py:step", "mine:step"),
        ("./my/mine.py:step", "my.mine:step"),
        ("mine.py", "mine:FUNCTION"),
    ],
)
def test_a_file_instead_of_a_module_is_refused_with_what_was_meant(given: str, meant: str) -> None:
    with pytest.raises(UsageError) as raised:
        request_from({**NOTHING, "call": given}, Configuration())
    assert raised.value.next_step == f"Did you mean --call {meant}?"


def test_switches_of_torch() -> None:
    texts = ("cudnn.benchmark=True", "a=off", "b=3", "c=-0.5", "float32_matmul_precision=high")
    assert read_flags(texts) == {
        "cudnn.benchmark": True,
        "a": False,
        "b": 3,
        "c": -0.5,
        "float32_matmul_precision": "high",
    }


@pytest.mark.parametrize(
    "given",
    [
        {"device": "gpu"},
        {"device": "cuda:x"},
        {"timeout": 0.0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"challenge": "xyz"},
        {"challenge": "abc"},
        {"label": " "},
        {"label": "a\x1b"},
        {"label": "a" * 101},
        {"flags": ("cudnn.benchmark",)},
        {"flags": ("=1",)},
        {"flags": ("a b=1",)},
        {"flags": ("a=1", "a=2")},
        {"suite": "quick", "no_fingerprint": True},
        {"call": "train:step", "no_fingerprint": True},
        {"call": "train"},
        {"call": "train:"},
        {"call": "../train:step"},
        {"call": "train.py:step"},
        {"call": "train:step()"},
        {"call": "train:" + "s" * 100},
    ],
)
def test_nonsense_is_a_usage_error(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        request_from({**NOTHING, **given}, Configuration())
    assert raised.value.exit_code == 2
    assert raised.value.next_step

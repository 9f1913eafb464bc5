"""The articles' claims: all of the measuring runs on the CPU, and the page says what was found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("torch")
    output = tmp_path_factory.mktemp("articles") / "result.json"
    script = ROOT / "benchmarks" / "articles_numbers.py"
    done = subprocess.run(
        [sys.executable, str(script), "--tiny", "-o", str(output)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(output.read_text())
    return result


def as_on_a_gpu(tiny: dict[str, Any]) -> dict[str, Any]:
    """Give the counters that the CPU does not have some value."""
    result = json.loads(json.dumps(tiny))
    result["machine"] |= {"gpu": "Card X", "cuda": "13.0"}
    for one in result["measurements"]:
        for name, value in one["figures"].items():
            if not value:
                one["figures"][name] = 0.25 if value is None else 1 << 20
    return dict(result)


def test_every_measurement_runs(tiny: dict[str, Any]) -> None:
    failed = {one["name"]: one["failed"] for one in tiny["measurements"] if "failed" in one}
    assert failed == {}
    assert tiny["tiny"] is True


def test_every_claim_has_its_measurement_and_its_figures(
    tiny: dict[str, Any], articles_checked: ModuleType
) -> None:
    found = {one["name"]: one["figures"] for one in tiny["measurements"]}
    claims = articles_checked.CLAIMS
    assert {claim.measurement for claim in claims} == set(found)
    for claim in claims:
        names = re.findall(r"\{(\w+):", claim.said)
        assert names
        assert set(names) <= set(found[claim.measurement]), claim.text
    page = articles_checked.page(as_on_a_gpu(tiny))
    assert page.count("\n| ") == len(claims) + 2
    assert "{" not in page
    assert "Card X" in page


def test_what_failed_is_said_not_to_be_measured(
    tiny: dict[str, Any], articles_checked: ModuleType
) -> None:
    result = as_on_a_gpu(tiny)
    result["measurements"][0] = {"name": "resnet_activations", "failed": "Error: a | b"}
    del result["measurements"][1]
    page = articles_checked.page(result)
    assert "activations | not measured | the measurement failed: Error: a / b |" in page
    assert "over 10 GB | not measured | the measurement failed: it is not in the result |" in page


@pytest.mark.parametrize(
    ("text", "figures", "verdict"),
    [
        ("ResNet-50 at batch", {"activation_bytes": 8e9, "peak_reserved_bytes": 9e9}, "true"),
        ("ResNet-50 at batch", {"activation_bytes": 5e9, "peak_reserved_bytes": 7.1e9},
         "only of reserved memory"),
        ("ResNet-50 at batch", {"activation_bytes": 5e9, "peak_reserved_bytes": 6e9}, "not so"),
        ("reserved memory stays",
         {"reserved_after_bytes": 1, "reserved_after_empty_cache_bytes": 0}, "true"),
        ("accumulating", {"share_of_whole": 0.6}, "not so"),
        ("reserved memory grows", {"same_times": 1.1, "varying_times": 3.0},
         "only if sizes change"),
        ("accumulation changes",
         {"vit_gradient_difference": 1e-6, "resnet_gradient_difference": 0.4},
         "only without BatchNorm"),
    ],
)  # fmt: skip
def test_figures_decide(
    articles_checked: ModuleType, text: str, figures: dict[str, float], verdict: str
) -> None:
    (claim,) = [one for one in articles_checked.CLAIMS if one.text.startswith(text)]
    assert claim.verdict(figures) == verdict


def test_forms(articles_checked: ModuleType) -> None:
    said = {"GiB": "1.50 GiB", "MiB": "1,536.0 MiB"}
    assert {form: articles_checked.shown(3 << 29, form) for form in said} == said
    said = {"%": "46 %", "x": "0.5", "ms": "456.0 ms", "us": "456000.0 µs", "e": "4.6e-01"}
    assert {form: articles_checked.shown(0.456, form) for form in said} == said
    assert articles_checked.filled("{a:n} of {b:n}", {"a": 1234.0, "b": 2}) == "1,234 of 2"


def test_the_page_is_what_the_figures_say(articles_checked: ModuleType) -> None:
    if not articles_checked.RESULT.exists():
        pytest.skip("the claims were not measured on a GPU yet")
    result = json.loads(articles_checked.RESULT.read_text(encoding="utf-8"))
    assert result["tiny"] is False
    assert articles_checked.PAGE.read_text(encoding="utf-8") == articles_checked.page(result)

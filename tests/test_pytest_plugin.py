"""The fixture in a project's own tests: it writes, agrees, explains, and passes errors on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import envkit

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "envkit.pytest_plugin", "-p", "no:randomly", "-p", "no:xdist")
STEP = """
import torch

def step():
    model = torch.nn.Linear(8, {width})
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    return loss

def test_step(envkit_fingerprint):
    {call}
"""
CALL = 'envkit_fingerprint(step, baseline="baselines/step.json", device="cpu")'


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    pytest.importorskip("torch").set_num_threads(1)


def project(
    pytester: pytest.Pytester, *args: str, width: int = 8, call: str = CALL
) -> pytest.RunResult:
    pytester.makepyfile(test_it=STEP.format(width=width, call=call))
    sys.modules.pop("test_it", None)
    return pytester.runpytest_inprocess(*PLUGIN, *args)


def test_without_a_baseline_the_test_fails_and_says_how_to_write_one(
    pytester: pytest.Pytester,
) -> None:
    result = project(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*There is no baseline baselines/step.json. `pytest --envkit-update`*"]
    )
    assert not (pytester.path / "baselines").exists()


def test_what_was_written_agrees_and_what_was_changed_does_not(pytester: pytest.Pytester) -> None:
    project(pytester, "--envkit-update").assert_outcomes(passed=1)
    path = pytester.path / "baselines" / "step.json"
    document = json.loads(path.read_text("utf-8"))
    assert (document["schema"], document["suite"]["name"]) == ("envkit.fingerprint/1", "step")
    assert document["layers"]["tensors"]["call.step.left"]["values"] == {"left_bytes": 0}
    project(pytester).assert_outcomes(passed=1)
    result = project(pytester, width=16)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*The step is not as in baselines/step.json:*",
            "*tensors call.step.tensors: *; first at request 1: 256 B against 512 B*",
            "*numerics call.step.outputs: *",
            "*If that is meant: pytest --envkit-update*",
        ]
    )
    project(pytester, "--envkit-update", width=16).assert_outcomes(passed=1)
    project(pytester, width=16).assert_outcomes(passed=1)


def test_a_baseline_that_was_edited_is_refused(pytester: pytest.Pytester) -> None:
    project(pytester, "--envkit-update").assert_outcomes(passed=1)
    path = pytester.path / "baselines" / "step.json"
    document = json.loads(path.read_text("utf-8"))
    document["layers"]["tensors"]["call.step.left"]["values"]["left_bytes"] = 1
    path.write_text(json.dumps(document), "utf-8")
    call = """
    def never():
        raise AssertionError("measured")
    envkit_fingerprint(never, baseline="baselines/step.json", device="cpu")
    """
    result = project(pytester, call=call)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*baselines/step.json cannot be used. *call.step.left*Restore it from git*"]
    )
    for unwanted in ("*Ask for the report*", "*During handling*", "*AssertionError: measured*"):
        result.stdout.no_fnmatch_line(unwanted)


def test_what_the_step_raises_is_raised_in_the_test(pytester: pytest.Pytester) -> None:
    call = """
    import pytest
    def wrong():
        raise ZeroDivisionError("mine")
    with pytest.raises(ZeroDivisionError, match="mine"):
        envkit_fingerprint(wrong, baseline="step.json", device="cpu")
    """
    result = project(pytester, "--envkit-update", call=call)
    result.assert_outcomes(passed=1)
    assert not (pytester.path / "step.json").exists()


def test_the_traceback_of_the_step_begins_in_the_users_code(pytester: pytest.Pytester) -> None:
    call = """
    def wrong():
        raise ZeroDivisionError("mine")
    envkit_fingerprint(wrong, baseline="step.json", device="cpu")
    """
    result = project(pytester, "--envkit-update", call=call)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_it.py:*: ZeroDivisionError"])
    for unwanted in ("*StepRaised*", "*in_process.py*", "*During handling*", "*pytest_plugin.py:*"):
        result.stdout.no_fnmatch_line(unwanted)


@pytest.mark.parametrize("step", ["step", "wrong"])
def test_the_random_numbers_of_the_test_go_on(pytester: pytest.Pytester, step: str) -> None:
    call = f"""
    import contextlib
    def wrong():
        raise ZeroDivisionError
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with contextlib.suppress(ZeroDivisionError):
        envkit_fingerprint({step}, baseline="step.json", device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    """
    project(pytester, "--envkit-update", call=call).assert_outcomes(passed=1)


def test_another_environment_is_named_before_what_it_changed(pytester: pytest.Pytester) -> None:
    project(pytester, "--envkit-update").assert_outcomes(passed=1)
    result = project(pytester, width=16, call="torch.set_num_threads(2); " + CALL)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*The environment is another: *threads 1 against 2*", "*The step is not as in *"]
    )


def test_loading_it_costs_nothing() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import envkit.pytest_plugin\n"
        "print(sorted(name for name in set(sys.modules) - before if 'torch' in name "
        "or 'msgspec' in name or name.startswith('envkit.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(envkit.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "['envkit.pytest_plugin']"

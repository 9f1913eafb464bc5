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


@pytest.mark.parametrize("update", [(), ("--envkit-update",)], ids=["check", "update"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('baseline="x.json", device=None', "device=None is none. Give 'auto'"),
        ('baseline="x.json", device=3', "device=3 is none. Give 'auto'"),
        ('baseline="x.json", device=""', "device='' is none. Give 'auto'"),
        ('baseline="x.json", device="gpu"', "device='gpu' is none. Give 'auto'"),
        ('baseline="x.json", device="cuda:-1"', "device='cuda:-1' is none. Give 'auto'"),
        ("baseline=None", "baseline=None names no file. Name a file"),
        ("baseline=3", "baseline=3 names no file. Name a file"),
        ('baseline=""', "baseline='' names no file. Name a file"),
        ('baseline=" "', "baseline=' ' names no file. Name a file"),
        ('baseline="."', "baseline='.' is a folder. Name a file"),
        ('baseline="folder"', "baseline='folder' is a folder. Name a file"),
        ('baseline="/dev/null"', "baseline='/dev/null' is outside of the project. Name a file"),
        ('baseline="../x.json"', "baseline='../x.json' is outside of the project. Name a file"),
        ('baseline="a\\0b"', "baseline='a\\x00b' names no file. Name a file"),
        (f'baseline="{"n" * 300}"', "*name too long*. Name a file"),
    ],
)
def test_what_makes_no_sense_fails_in_one_line(
    arguments: str, said: str, update: tuple[str, ...], pytester: pytest.Pytester
) -> None:
    (pytester.path / "folder").mkdir()
    before = sorted(path.name for path in pytester.path.parent.iterdir())
    result = project(pytester, *update, call=f"envkit_fingerprint(step, {arguments})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines_random([f"envkit_fingerprint: *{said.replace('[', '[[]')}*"])
    assert "Traceback" not in result.stdout.str()
    assert "Error" not in result.stdout.str()
    assert sorted(path.name for path in pytester.path.parent.iterdir()) == before
    assert not list((pytester.path / "folder").iterdir())


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff\xfe", b"\0", b"text", b"[" * 9999, b'{"schema":1}'],
    ids=lambda content: ascii(content)[:20],
)
def test_a_baseline_that_is_none_fails_in_one_line(
    content: bytes, pytester: pytest.Pytester
) -> None:
    (pytester.path / "step.json").write_bytes(content)
    call = 'envkit_fingerprint(step, baseline="step.json", device="cpu")'
    result = project(pytester, call=call)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["envkit_fingerprint: *step.json*"])
    assert "Traceback" not in result.stdout.str()


def test_a_baseline_that_cannot_be_written_fails_in_one_line(pytester: pytest.Pytester) -> None:
    (pytester.path / "baselines").write_text("a file where a folder is wanted")
    result = project(pytester, "--envkit-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["envkit_fingerprint: step.json was not written: *"])
    assert "wrote the baseline" not in result.stdout.str()


def test_a_device_that_is_not_there_fails_in_one_line(pytester: pytest.Pytester) -> None:
    result = project(pytester, "--envkit-update", call=CALL.replace("cpu", "cuda:999"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["envkit_fingerprint: torch finds no cuda:999 here. Give *'cpu'*"])
    assert not (pytester.path / "baselines").exists()


def test_an_update_says_what_it_wrote(pytester: pytest.Pytester) -> None:
    result = project(pytester, "--envkit-update", call=f"{CALL}; {CALL}")
    result.assert_outcomes(passed=1)
    told = [line for line in result.outlines if line.startswith("envkit wrote")]
    assert told == ["envkit wrote the baseline baselines/step.json"]
    assert "envkit wrote" not in project(pytester, call=CALL).stdout.str()


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

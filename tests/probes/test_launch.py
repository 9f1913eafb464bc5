"""Every way in which a target's interpreter or torch can fail has its own outcome."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from envkit.probes import launch
from envkit.probes.events import ChildRequest, Progress, Stage

if TYPE_CHECKING:
    from probes.conftest import Target

CUDNN_MESSAGE = "libcudnn.so.9: cannot open shared object file: No such file or directory"
WORKING_TORCH = """
import types, sys
__version__ = "9.9.9"
version = types.ModuleType("torch.version")
version.cuda = version.hip = None
"""


def only_error(run: launch.ChildRun) -> tuple[str, str, str]:
    assert len(run.errors) == 1
    return run.errors[0].stage, run.errors[0].type, run.errors[0].message


def test_target_without_torch(target: Target) -> None:
    target.module("torch.", "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    run = target.run()
    assert run.outcome == launch.Finished()
    assert only_error(run) == ("importing_torch", "ModuleNotFoundError", "No module named 'torch'")
    assert run.hello is not None
    assert run.hello.executable == sys.executable
    assert run.facts == {}


def test_torch_that_raises(target: Target) -> None:
    target.module("torch.", f"raise ImportError({CUDNN_MESSAGE!r})")
    run = target.run()
    assert run.outcome == launch.Finished()
    assert only_error(run) == ("importing_torch", "ImportError", CUDNN_MESSAGE)
    assert "torch" in run.errors[0].traceback_tail


def test_torch_that_exits_the_polite_way(target: Target) -> None:
    target.module("torch.", "raise SystemExit('no licence')")
    assert only_error(target.run()) == ("importing_torch", "SystemExit", "no licence")


def test_torch_that_raises_something_that_cannot_be_shown(target: Target) -> None:
    target.module(
        "torch.", "class E(Exception):\n    def __str__(self): raise ValueError\nraise E()"
    )
    assert only_error(target.run()) == ("importing_torch", "E", "E")


def test_torch_that_crashes(target: Target) -> None:
    target.module("torch.", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    run = target.run()
    assert run.outcome == launch.Crashed(signal="SIGSEGV")
    assert run.stage == "importing_torch"
    assert "Segmentation fault" in run.stderr_tail  # with the Python stack, by faulthandler
    assert "SIGSEGV" in launch.describe(run)
    assert "importing_torch" in launch.describe(run)


def test_torch_that_hangs(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "GRACE_S", 2.0)
    target.module("torch.", "import time\ntime.sleep(600)")
    run = target.run(time_limit_s=2.0)
    assert run.outcome == launch.TimedOut(stage="importing_torch", limit_s=2.0)
    assert run.stderr_tail == ""  # no stack: writing it from a timer crashed the child
    assert "ran out of time while importing torch" in launch.describe(run)
    assert "2 s" in launch.describe(run)


def test_a_short_time_limit_is_not_outlived_by_the_wait_for_a_reason(target: Target) -> None:
    target.module("torch.", "import faulthandler, time\nfaulthandler.disable()\ntime.sleep(600)")
    run = target.run(time_limit_s=1.0)
    assert isinstance(run.outcome, launch.TimedOut)
    assert run.seconds < launch.GRACE_S


def test_torch_that_prints_without_measure(target: Target) -> None:
    target.module(
        "torch.",
        "import os, sys\n"
        "for _ in range(100):\n"
        "    print('x' * 50_000)\n"
        "    os.write(1, b'y' * 50_000)\n"
        '    sys.__stdout__.write(\'{"event": "done"}\\n\')\n' + WORKING_TORCH,
    )
    run = target.run()
    assert run.outcome == launch.Finished()
    assert run.facts["torch"]["version"] == "9.9.9"
    assert len(run.stderr_tail) <= launch.MAX_STDERR_BYTES


def test_torch_that_ends_the_process(target: Target) -> None:
    target.module("torch.", "import os\nos._exit(3)")
    run = target.run()
    assert run.outcome == launch.Exited(code=3)
    assert run.stage == "importing_torch"
    assert launch.describe(run) == (
        "the target's Python ended early (exit code 3) in stage importing_torch"
    )


def test_torch_that_closes_stdout(target: Target) -> None:
    target.module("torch.", "import os\nos.close(1)\n" + WORKING_TORCH)
    run = target.run()
    assert run.outcome == launch.Finished()
    assert run.facts["torch"]["version"] == "9.9.9"


def test_torch_that_closes_every_descriptor(target: Target) -> None:
    target.module("torch.", "import os\nos.closerange(0, 256)\n" + WORKING_TORCH)
    run = target.run()
    assert isinstance(run.outcome, launch.Broken)
    assert "closed the probe's line" in run.outcome.reason


def test_torch_that_prints_to_a_closed_stderr(target: Target) -> None:
    target.module("torch.", "import os\nos.close(2)\nprint('x')\n" + WORKING_TORCH)
    assert target.run().outcome == launch.Finished()


def test_sitecustomize_that_exits(target: Target) -> None:
    target.module("sitecustomize", "raise SystemExit(5)")
    run = target.run()
    assert run.hello is None
    assert isinstance(run.outcome, launch.Exited)
    assert "sitecustomize" in launch.describe(run)


def test_sitecustomize_that_exits_without_complaint(target: Target) -> None:
    target.module("sitecustomize", "import os\nos._exit(0)")
    run = target.run()
    assert run.hello is None
    assert isinstance(run.outcome, launch.NotStarted)
    assert "sitecustomize" in launch.describe(run)


def test_sitecustomize_that_raises_is_survived(target: Target) -> None:
    target.module("sitecustomize", "raise RuntimeError('broken site')")
    target.module("torch.", WORKING_TORCH)
    run = target.run()
    assert run.outcome == launch.Finished()
    assert "broken site" in run.stderr_tail


def test_sitecustomize_that_prints_is_not_taken_for_an_answer(target: Target) -> None:
    target.module("sitecustomize", "import os\nos.write(1, b'Welcome!\\nno newline at the end')")
    target.module("torch.", WORKING_TORCH)
    run = target.run()
    assert run.outcome == launch.Finished()
    assert run.facts["torch"]["version"] == "9.9.9"


def test_no_folder_for_temporary_files(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    target.module("torch.", WORKING_TORCH)
    assert target.run().outcome == launch.Finished()


def test_the_temporary_folder_goes_away(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    target.module("torch.", "import os\n" + WORKING_TORCH + "__version__ = os.getcwd()\n")
    run = target.run()
    assert Path(run.facts["torch"]["version"]).parent == folder.resolve()
    assert list(folder.iterdir()) == []


def test_sitecustomize_that_closes_stdout(target: Target) -> None:
    target.module("sitecustomize", "import os\nos.close(1)")
    run = target.run()
    assert isinstance(run.outcome, launch.Broken)
    assert run.hello is None


def test_missing_interpreter(target: Target, tmp_path: Path) -> None:
    run = target.run(python=tmp_path / "no-python")
    assert isinstance(run.outcome, launch.NotStarted)
    assert "is not there" in run.outcome.reason


def test_interpreter_that_is_not_executable(target: Target, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\n")
    run = target.run(python=program)
    assert isinstance(run.outcome, launch.NotStarted)
    assert "may not be executed" in run.outcome.reason


def test_python_that_is_too_old_says_so(target: Target) -> None:
    target.module("sitecustomize", "import sys\nsys.version_info = (3, 6, 15)")
    target.module("torch.", "import os\nos._exit(9)")
    run = target.run()
    assert run.outcome == launch.NotStarted(
        reason="the target's Python is 3.6.15; the probes need 3.8 or newer"
    )


def test_python_that_cannot_read_the_probe(
    target: Target, fake_python: Callable[[str], Path]
) -> None:
    shell = f"echo '  File \"{launch.START}\", line 20' >&2; echo 'SyntaxError: x' >&2; exit 1"
    run = target.run(python=fake_python(shell))
    assert isinstance(run.outcome, launch.NotStarted)
    assert "3.8 or newer" in run.outcome.reason


def test_stages_and_progress_are_told(target: Target) -> None:
    target.module("torch.", WORKING_TORCH)
    told: list[Progress | Stage] = []
    request = ChildRequest(time_limit_s=60.0)
    launch.run_child(sys.executable, request, env=target.env, on_progress=told.append)
    names = [event.name for event in told]
    assert names[:2] == ["importing_torch", "imported"]
    assert "build_facts" in names
    assert "self_test" in names


def test_the_target_does_not_find_our_modules_nor_our_input(target: Target) -> None:
    target.module(
        "torch.",
        WORKING_TORCH + "import os, importlib.util as u\n"
        "ours = [n for n in ('flags', 'protocol', 'fork', 'start') if u.find_spec(n)]\n"
        "__version__ = repr((ours, os.listdir('.'), sys.stdin.read()))\n",
    )
    assert target.run().facts["torch"]["version"] == "([], [], '')"


def test_nothing_is_written_beside_the_target(target: Target) -> None:
    target.module("torch.", WORKING_TORCH)
    target.run()
    assert [path.name for path in target.site.rglob("*")] == ["torch", "__init__.py"]


@pytest.mark.parametrize("turned", [False, True])
def test_what_one_look_could_not_read_does_not_undo_the_other(*, turned: bool) -> None:
    values: list[dict[str, Any]] = [
        {"a": 1, "b": {"unreadable": "x"}},
        {"a": {"unreadable": "y"}, "b": 2},
    ]
    known: dict[str, Any] = {}
    for some in values[::-1] if turned else values:
        launch._Answer._learn(known, some)
    assert known == {"a": 1, "b": 2}

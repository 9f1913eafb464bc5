"""A pytest fixture that holds a training step against a baseline kept in the repository.

    def test_step(envkit_fingerprint):
        envkit_fingerprint(train_step, baseline="tests/step.json")

Loading this imports neither torch nor the rest of envkit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pytest

if TYPE_CHECKING:
    from envkit.model.fingerprint import Fingerprint

UPDATE = "--envkit-update"
_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]{1,3})?")
_WRITTEN = pytest.StashKey[list[str]]()
#: Differences that are written out; the rest is counted.
MOST_LINES = 12


class EnvkitFingerprint(Protocol):
    """What the fixture gives."""

    def __call__(
        self, step: Callable[[], Any], *, baseline: str | Path, device: str = "auto"
    ) -> Fingerprint:
        """Measure a step, and fail the test where it is not as in its baseline.

        Args:
            step: a function without arguments that runs a few steps from the start; it is called
                five times, with the same random numbers each time.
            baseline: a file, from the root folder of the tests on.
            device: `cpu`, `cuda`, `cuda:N`, or `auto`: a GPU if there is one.

        What is wrong with these, or with the file, fails the test in one line.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines."""
    parser.getgroup("envkit").addoption(
        UPDATE, action="store_true", help="Write the baselines of envkit_fingerprint anew."
    )


@pytest.fixture
def envkit_fingerprint(pytestconfig: pytest.Config) -> EnvkitFingerprint:
    """Hold a training step against a baseline: requests of memory, peaks and bits."""

    def check(
        step: Callable[[], Any], *, baseline: str | Path, device: str = "auto"
    ) -> Fingerprint:
        __tracebackhide__ = True
        path = _baseline_path(pytestconfig.rootpath, baseline)
        name = path.relative_to(pytestconfig.rootpath).as_posix()
        update = pytestconfig.getoption(UPDATE)
        found = _check(step, path, name, device=_device(device), update=update)
        if update:
            pytestconfig.stash.setdefault(_WRITTEN, []).append(name)
        return found

    return check


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which baselines were written."""
    written = config.stash.get(_WRITTEN, [])
    for name in dict.fromkeys(written):
        terminalreporter.write_line(f"envkit wrote the baseline {name}")


def _baseline_path(root: Path, baseline: Any) -> Path:
    """Return the file of a baseline; it has to be one in the project, for it is committed."""
    step = "Name a file from the root folder of the tests on, such as 'tests/step.json'."
    if not isinstance(baseline, str | Path) or not str(baseline).strip() or "\0" in str(baseline):
        _fail(f"baseline={baseline!r} names no file.", step)
    path = Path(os.path.abspath(root / baseline))  # noqa: PTH100 (a link stays what it is)
    try:
        inside, is_folder = path.is_relative_to(root), path.is_dir()
        is_other = path.exists() and not path.is_file()
    except OSError as error:  # a name that is too long
        _fail(f"baseline={str(baseline)[:80]!r} cannot be a file: {error}.", step)
    if not inside:
        _fail(f"baseline={str(baseline)!r} is outside of the project.", step)
    if is_folder or is_other:
        _fail(f"baseline={str(baseline)!r} is {'a folder' if is_folder else 'no file'}.", step)
    return path


def _device(device: Any) -> str:
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        _fail(f"device={device!r} is none.", "Give 'auto', 'cpu', 'cuda' or 'cuda:N'.")
    return "cuda:0" if device == "cuda" else device


def _fail(what: str, step: str) -> NoReturn:
    pytest.fail(f"envkit_fingerprint: {what} {step}", pytrace=False)


def _check(
    step: Callable[[], Any], path: Path, name: str, *, device: str, update: bool
) -> Fingerprint:
    __tracebackhide__ = True
    from envkit.errors import EnvkitError  # noqa: PLC0415  (not for tests that do not use it)
    from envkit.workflows import step_baseline  # noqa: PLC0415

    before = None if update else _read(path, name)
    try:
        now = step_baseline.fingerprint_of(step, device=device)
        if before is None:
            step_baseline.write_baseline(path, now)
            return now
    except EnvkitError as error:
        _fail(error.message, error.next_step)
    unlike = step_baseline.differences(before, now)
    if unlike:
        pytest.fail(_told(name, unlike, step_baseline.environment(before, now)), pytrace=False)
    return now


def _read(path: Path, name: str) -> Fingerprint:
    """Read a baseline before anything is measured; the test fails where there is none."""
    from envkit.errors import EnvkitError  # noqa: PLC0415
    from envkit.workflows import step_baseline  # noqa: PLC0415

    if not path.is_file():
        pytest.fail(f"There is no baseline {name}. `pytest {UPDATE}` writes it.", pytrace=False)
    try:
        return step_baseline.read_baseline(path)
    except EnvkitError as error:
        wrong = f"The baseline {name} cannot be used. {error.message}"
    # Here, where pytest has no other exception to show before it.
    _fail(wrong, f"Restore it from git, or write it anew: pytest {UPDATE}")


def _told(name: str, unlike: list[str], environment: list[str]) -> str:
    other = f"The environment is another: {', '.join(environment)}.\n" if environment else ""
    more = [f"and {len(unlike) - MOST_LINES} more"] if len(unlike) > MOST_LINES else []
    lines = "\n".join(f"  {line}" for line in [*unlike[:MOST_LINES], *more])
    return f"{other}The step is not as in {name}:\n{lines}\nIf that is meant: pytest {UPDATE}"

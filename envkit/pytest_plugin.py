"""A pytest fixture that holds a training step against a baseline kept in the repository.

    def test_step(envkit_fingerprint):
        envkit_fingerprint(train_step, baseline="tests/step.json")

Loading this imports neither torch nor the rest of envkit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from envkit.model.fingerprint import Fingerprint

UPDATE = "--envkit-update"
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
            device: `cpu`, `cuda:N`, or `auto`: a GPU if there is one.

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
        path = pytestconfig.rootpath / baseline
        name = Path(os.path.relpath(path, pytestconfig.rootpath)).as_posix()
        return _check(step, path, name, device=device, update=pytestconfig.getoption(UPDATE))

    return check


def _check(
    step: Callable[[], Any], path: Path, name: str, *, device: str, update: bool
) -> Fingerprint:
    __tracebackhide__ = True
    from envkit.workflows import step_baseline  # noqa: PLC0415  (not for tests without it)

    before = None if update else _read(path, name)
    now = step_baseline.fingerprint_of(step, device=device)
    if before is None:
        step_baseline.write_baseline(path, now)
        return now
    unlike = step_baseline.differences(before, now)
    if unlike:
        pytest.fail(_told(name, unlike, step_baseline.environment(before, now)), pytrace=False)
    return now


def _read(path: Path, name: str) -> Fingerprint:
    """Read a baseline before anything is measured; the test fails where there is none."""
    from envkit.errors import EnvkitError  # noqa: PLC0415
    from envkit.workflows import step_baseline  # noqa: PLC0415

    wrong = f"There is no baseline {name}. `pytest {UPDATE}` writes it."
    if path.is_file():
        try:
            return step_baseline.read_baseline(path)
        except EnvkitError as error:
            wrong = (
                f"The baseline {name} cannot be used. {error.message} "
                f"Restore it from git, or write it anew: pytest {UPDATE}"
            )
    pytest.fail(wrong, pytrace=False)


def _told(name: str, unlike: list[str], environment: list[str]) -> str:
    other = f"The environment is another: {', '.join(environment)}.\n" if environment else ""
    more = [f"and {len(unlike) - MOST_LINES} more"] if len(unlike) > MOST_LINES else []
    lines = "\n".join(f"  {line}" for line in [*unlike[:MOST_LINES], *more])
    return f"{other}The step is not as in {name}:\n{lines}\nIf that is meant: pytest {UPDATE}"

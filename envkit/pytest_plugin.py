"""A pytest fixture that holds a training step against a baseline kept in the repository.

    def test_step(envkit_fingerprint):
        envkit_fingerprint(train_step, baseline="tests/step.json")

Loading this imports neither torch nor the rest of envkit.
"""

from __future__ import annotations

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
        path = pytestconfig.rootpath / baseline
        return _check(step, path, device=device, update=pytestconfig.getoption(UPDATE))

    return check


def _check(step: Callable[[], Any], path: Path, *, device: str, update: bool) -> Fingerprint:
    from envkit.errors import EnvkitError  # noqa: PLC0415  (not for tests that do not use it)
    from envkit.workflows import step_baseline  # noqa: PLC0415

    if not update and not path.is_file():
        pytest.fail(
            f"There is no baseline {path.name}. `pytest {UPDATE}` writes it.", pytrace=False
        )
    now = step_baseline.fingerprint_of(step, device=device)
    if update:
        step_baseline.write_baseline(path, now)
        return now
    try:
        unlike = step_baseline.differences(step_baseline.read_baseline(path), now)
    except EnvkitError as error:
        pytest.fail(f"{error.message} {error.next_step}", pytrace=False)
    if unlike:
        pytest.fail(_told(path.name, unlike), pytrace=False)
    return now


def _told(name: str, unlike: list[str]) -> str:
    more = [f"and {len(unlike) - MOST_LINES} more"] if len(unlike) > MOST_LINES else []
    lines = "\n".join(f"  {line}" for line in [*unlike[:MOST_LINES], *more])
    return f"The step is not as in {name}:\n{lines}\nIf that is meant: pytest {UPDATE}"

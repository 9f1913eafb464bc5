"""A spec that asks for nothing is refused wherever a spec is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envkit.errors import InputError
from envkit.model.report import Target
from envkit.workflows.asked import Asked
from envkit.workflows.contract import find_contract
from envkit.workflows.lock import LockRequest, lock

HEAD = "name: a\nchannels: [conda-forge]\n"


def _lock(spec: Path) -> None:
    lock(LockRequest(specs=(str(spec),), check=True), os.environ, lambda *_: None)


def _verify(spec: Path) -> None:
    target = Target(kind="conda", prefix=str(spec.parent), python=None, chosen_by="--prefix")
    find_contract(Asked(spec=str(spec)), target, {})


@pytest.mark.parametrize("command", [_lock, _verify])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD, "there is no list `dependencies`"),
        (f"{HEAD}dependencies: []\n", "spec.yml:3: `dependencies` is empty"),
        (f"{HEAD}dependencies:\n", "spec.yml:3: `dependencies` is empty"),
        (f"{HEAD}dependencies:\n- pip:\n", "spec.yml:3: `dependencies` is empty"),
    ],
)
def test_nothing_is_asked_for(
    tmp_path: Path, command: Callable[[Path], None], text: str, reason: str
) -> None:
    spec = tmp_path / "spec.yml"
    spec.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        command(spec)

"""Jupyter started for real from the generated entry point."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from pathlib import Path

import pytest
from build_folders import NOTEBOOK, write_folder
from serving import as_user, free_port, serving

TOKEN = "not-a-secret-0123456789"  # noqa: S105
JUPYTER = Path(sys.prefix) / "bin" / "jupyter-server"

pytestmark = [
    pytest.mark.skipif(not JUPYTER.is_file(), reason="jupyter-server is not installed here"),
    pytest.mark.skipif(sys.platform != "linux", reason="the scripts are for Linux containers"),
]


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """The folder of entry points, beside a home and a folder of notebooks."""
    write_folder(NOTEBOOK, tmp_path / "image", mode="jupyter")
    for name in ("home", "notebooks"):
        (tmp_path / name).mkdir()
    return tmp_path / "image" / "entry"


def _environment(entry: Path, port: int, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(_home(entry)),
        "CONDA_PREFIX": sys.prefix,
        "ENVKIT_JUPYTER": "server",
        "ENVKIT_JUPYTER_PORT": str(port),
        "ENVKIT_JUPYTER_FOLDER": str(entry.parents[1] / "notebooks"),
        **more,
    }


def _status(port: int, path: str = "/api/contents", token: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {} if token is None else {"Authorization": f"token {token}"}
    connection.request("GET", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def _start(entry: Path) -> list[str]:
    script = str(entry / "entrypoint.sh")
    return [*as_user(), "/bin/bash", script, "/bin/bash", str(entry / "jupyter.sh")]


def _home(entry: Path) -> Path:
    return entry.parents[1] / "home"


def test_who_has_no_token_is_refused_and_who_has_it_gets_in(entry: Path) -> None:
    # What a home folder configures does not take the token away.
    config = _home(entry) / ".jupyter"
    config.mkdir(mode=0o755)
    for name in ("jupyter_config.py", "jupyter_server_config.py"):
        (config / name).write_text(
            "c.IdentityProvider.token = ''\nc.ServerApp.allow_unauthenticated_access = True\n"
        )
    port = free_port()
    variables = _environment(entry, port, JUPYTER_TOKEN=TOKEN)
    with serving(_start(entry), port, entry.parents[1] / "log", variables):
        assert _status(port) in {401, 403}
        assert _status(port, token="") in {401, 403}
        assert _status(port, token=f"{TOKEN}x") in {401, 403}
        assert _status(port, "/api/kernels") in {401, 403}
        assert _status(port, token=TOKEN) == 200
        assert _status(port, f"/api/contents?token={TOKEN}") == 200


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "JUPYTER_TOKEN is empty or not set"),
        ({"JUPYTER_TOKEN": ""}, "JUPYTER_TOKEN is empty or not set"),
        ({"JUPYTER_TOKEN": "short"}, "shorter than 16"),
        ({"JUPYTER_TOKEN": f"{TOKEN} '$(id)"}, "may hold letters"),
    ],
)
def test_without_a_good_token_nothing_is_started(
    entry: Path, variables: dict[str, str], said: str
) -> None:
    done = subprocess.run(
        _start(entry),
        env=_environment(entry, free_port(), **variables),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("option", ["--IdentityProvider.token=", "--ServerApp.password=''"])
def test_options_cannot_take_the_token_away(entry: Path, option: str) -> None:
    for command in ([*_start(entry), option], [*_start(entry)[:-2], option]):
        done = subprocess.run(
            command,
            env=_environment(entry, free_port(), JUPYTER_TOKEN=TOKEN),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.startswith("envkit: ")


def test_root_does_not_start_jupyter(entry: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to see it refused")
    done = subprocess.run(
        ["/bin/bash", str(entry / "jupyter.sh")],
        env=_environment(entry, free_port(), JUPYTER_TOKEN=TOKEN),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    assert "not started as root" in done.stderr

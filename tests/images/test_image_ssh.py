"""sshd started for real from the generated entry point, and logged in to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from build_folders import write_folder
from serving import as_user, free_port, serving

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the scripts are for Linux containers"),
    pytest.mark.skipif(not Path("/usr/sbin/sshd").is_file(), reason="openssh-server is not here"),
    pytest.mark.skipif(shutil.which("ssh") is None, reason="the ssh client is not here"),
]
SPEC_VARIABLES = {"ENVKIT_SPEC": "vit@1.0.0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Entry points, a home, a key with its public half, and a list of users with `envkit`.

    The state lies in the home: sshd trusts a folder only if nobody else may write to those above
    it, as far as the home; anybody may write to the folder of temporary files.
    """
    write_folder("vit", tmp_path / "image", mode="ssh")
    (tmp_path / "home").mkdir()
    _key(tmp_path / "mine")
    _key(tmp_path / "other")
    (tmp_path / "authorized_keys").write_text((tmp_path / "mine.pub").read_text())
    users = "root:x:0:0::/:/bin/bash\n"
    user = 1000 if os.getuid() == 0 else os.getuid()
    (tmp_path / "passwd").write_text(f"{users}envkit:x:{user}:{user}::{tmp_path}/home:/bin/bash\n")
    return tmp_path


def _key(path: Path) -> None:
    subprocess.run(
        ["/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True
    )


def _command(place: Path) -> list[str]:
    """The entry point, in a scratch root where the user of the image is in the list of users."""
    inside = [*as_user(), "/bin/bash", str(place / "image/entry/entrypoint.sh")]
    inside += ["/bin/bash", str(place / "image/entry/ssh.sh")]
    mounted = 'mount --bind "$0" /etc/passwd && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", mounted]
    if os.getuid():
        inside = ["unshare", "--user", f"--map-user={os.getuid()}", "--", *inside]
    tried = subprocess.run(
        [*command, str(place / "passwd"), "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"the kernel gives no mount namespace: {tried.stderr.strip()}")
    return [*command, str(place / "passwd"), *inside]


def _environment(place: Path, port: int, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "home"),
        "CONDA_PREFIX": str(place / "no-env"),
        "ENVKIT_SSH_PORT": str(port),
        "ENVKIT_SSH_STATE": str(place / "home/state"),
        "ENVKIT_SSH_KEYS": str(place / "authorized_keys"),
        **more,
    }


def _login(
    place: Path, port: int, *options: str, user: str = "envkit", command: str = "env"
) -> subprocess.CompletedProcess[str]:
    given = [word for option in options for word in ("-o", option)]
    return subprocess.run(
        [
            *("ssh", "-F", "none", "-p", str(port), "-o", "BatchMode=yes"),
            *("-o", f"UserKnownHostsFile={place}/known", "-o", "StrictHostKeyChecking=accept-new"),
            *("-o", "IdentitiesOnly=yes", *given, f"{user}@127.0.0.1", command),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def _with_key(place: Path, name: str) -> str:
    return f"IdentityFile={place}/{name}"


def test_the_key_gets_in_and_nothing_else_does(place: Path) -> None:
    port = free_port()
    log = place / "log"
    with serving(_command(place), port, log, _environment(place, port)):
        mine = _with_key(place, "mine")
        inside = _login(place, port, mine)
        assert inside.returncode == 0, inside.stderr + log.read_text()
        lines = inside.stdout.splitlines()
        assert {f"{name}={text}" for name, text in SPEC_VARIABLES.items()} <= set(lines)
        assert "CONDA_PREFIX=/opt/env" in lines
        assert next(line for line in lines if line.startswith("PATH=")).startswith("PATH=/opt/env/")
        assert _login(place, port, mine, command="id -u").stdout.strip() != "0"

        other = _login(place, port, _with_key(place, "other"))
        assert (other.returncode, "Permission denied (publickey)" in other.stderr) == (255, True)
        root = _login(place, port, mine, user="root")
        assert (root.returncode, "Permission denied (publickey)" in root.stderr) == (255, True)
        for method in ("password", "keyboard-interactive", "none"):
            refused = _login(place, port, f"PreferredAuthentications={method}")
            assert refused.returncode == 255
            assert "Permission denied (publickey)" in refused.stderr  # it offers nothing else


def test_host_keys_are_made_at_the_first_start_and_stay(place: Path) -> None:
    assert not [path for path in (place / "image").rglob("*") if "host_key" in path.name]
    keys = []
    for _ in range(2):
        port = free_port()
        with serving(_command(place), port, place / "log", _environment(place, port)):
            keys.append((place / "home/state/host_key").read_bytes())
            assert (place / "home/state/host_key").stat().st_mode & 0o077 == 0
    assert keys[0] == keys[1]
    shutil.rmtree(place / "home/state")
    port = free_port()
    with serving(_command(place), port, place / "log", _environment(place, port)):
        assert (place / "home/state/host_key").read_bytes() != keys[0]


@pytest.mark.parametrize(
    ("content", "said"), [(None, "no file of public keys"), ("nonsense\n", "holds no public key")]
)
def test_without_a_public_key_nothing_is_started(
    place: Path, content: str | None, said: str
) -> None:
    keys = place / "authorized_keys"
    if content is None:
        keys.unlink()
    else:
        keys.write_text(content)
    done = subprocess.run(
        _command(place),
        env=_environment(place, free_port()),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr


def test_root_does_not_start_sshd(place: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to see it refused")
    done = subprocess.run(
        ["/bin/bash", str(place / "image/entry/ssh.sh")],
        env=_environment(place, free_port()),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    assert "not started as root" in done.stderr

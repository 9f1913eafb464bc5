"""Servers that tests start: one that ends with the test, and waiting until it answers."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

Server = subprocess.Popen[bytes]
_LONGEST_S = 180.0


def as_user() -> list[str]:
    """What to put before a command so that it does not run as root.

    In a namespace of its own root is shown as user 1000, and so can still read its own files.
    """
    if os.getuid() != 0:
        return []
    command = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
    try:
        done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not here")
    if done.returncode:
        pytest.skip(f"the kernel gives no user namespace: {done.stderr.strip()}")
    return command


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving(command: list[str], port: int, log: Path, env: Mapping[str, str]) -> Iterator[Server]:
    """Start a server, wait until it listens, and end it with the block; its output is a file."""
    with log.open("wb") as file:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(env)
        )
        try:
            _wait(server, port, log)
            yield server
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait(server: Server, port: int, log: Path) -> None:
    deadline_s = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline_s and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"the server does not listen:\n{log.read_text(errors='replace')[-3000:]}")

"""The script that makes a virtual environment picks an interpreter that can, or says what to do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

SCRIPT = Path(__file__).parent.parent.parent / "tools" / "make_venv.sh"
Program = Callable[[str, str], Path]

# What the script asks an interpreter, and the answers of three kinds of them.
OLD = 'case "$2" in *version_info*) exit 1;; esac'
WITHOUT_ENSUREPIP = 'case "$2" in *ensurepip*) exit 1;; esac'
GOOD = """
case "$1" in --version) echo Python 3.12.1;; esac
if [ "$2" = venv ]; then
  /bin/mkdir -p "$4/bin"
  echo '#!/bin/sh' >"$4/bin/python"
  /bin/chmod +x "$4/bin/python"
fi
"""


def _run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), *arguments],
        env={"PATH": str(path)},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def test_skips_interpreters_that_cannot(program: Program, tmp_path: Path) -> None:
    program("python3", OLD)
    program("python3.13", WITHOUT_ENSUREPIP)
    done = _run(program("python3.12", GOOD), str(tmp_path / "venv"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Python 3.12.1 (python3.12)" in done.stdout
    assert (tmp_path / "venv" / "bin" / "python").exists()


def test_says_which_package_is_missing(program: Program, tmp_path: Path) -> None:
    done = _run(program("python3", WITHOUT_ENSUREPIP), str(tmp_path / "venv"))
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_says_that_python_is_too_old(program: Program, tmp_path: Path) -> None:
    done = _run(program("python3", OLD), str(tmp_path / "venv"))
    assert done.returncode == 1
    assert "older than Python 3.10" in done.stderr


def test_says_that_the_named_python_is_not_there(program: Program, tmp_path: Path) -> None:
    done = _run(program("python3", GOOD), str(tmp_path / "venv"), "python9")
    assert done.returncode == 1
    assert done.stderr.startswith("python9 was not found")

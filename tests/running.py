"""Starting the real command, with targets that tests make."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import envkit

#: Where the envkit under test is imported from: the checkout, or the folder of a built wheel.
PACKAGE_ROOT = Path(envkit.__file__).parents[1]

#: What must not decide about a test: the active environment and the user's own settings.
_NOT_PASSED_ON = (
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "CI", "NO_COLOR", "FORCE_COLOR"),
    *("GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"),
)


def environment(python_path: Path | None = None, **variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_PASSED_ON and not name.startswith("ENVKIT_")
    }
    # An installed envkit needs no path, and its neighbours are not to be seen by other targets.
    own = [] if "site-packages" in PACKAGE_ROOT.parts else [str(PACKAGE_ROOT)]
    paths = own if python_path is None else [str(python_path), *own]
    searched = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    return {**kept, **searched, "COLUMNS": "80", **variables}


def run_envkit(
    *arguments: str | Path,
    python_path: Path | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "envkit", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=environment(python_path, **variables),
        cwd=cwd,
        timeout=120,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def fake_torch(folder: Path, code: str, version: str = "2.9.1+cpu") -> Path:
    """Make a folder for PYTHONPATH in which `import torch` runs some code."""
    package = folder / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    (package / "version.py").write_text(
        f"__version__ = {version!r}\ncuda = None\nhip = None\ngit_version = 'abc'\n"
    )
    return folder


def bare_venv(folder: Path) -> Path:
    """Make an environment without torch; return its interpreter."""
    venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(folder)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

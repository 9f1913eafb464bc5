"""The conda plugin against stubs of conda's hooks, in the shape of its documentation.

With a real conda it was tried by hand: `docs/how-to/conda-plugin.md`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from running import PACKAGE_ROOT, bare_venv, environment

#: `conda.plugins` as conda 23.11 and newer have it: a marker, and types with these fields.
STUBS = {
    "conda/__init__.py": "",
    "conda/plugins/__init__.py": "def hookimpl(function):\n    function.conda_impl = True\n"
    "    return function\n",
    "conda/plugins/types.py": "from dataclasses import dataclass\nfrom typing import Any\n\n"
    "@dataclass\nclass CondaSubcommand:\n    name: str\n    summary: str\n    action: Any\n"
    "    configure_parser: Any = None\n\n"
    "@dataclass\nclass CondaHealthCheck:\n    name: str\n    action: Any\n    fixer: Any = None\n",
}
#: What conda does with a plugin that it has loaded.
HOST = """\
import sys
import envkit.conda_plugin as plugin
assert plugin.conda_subcommands.conda_impl and plugin.conda_health_checks.conda_impl
(subcommand,) = plugin.conda_subcommands()
(check,) = plugin.conda_health_checks()
"""
SUBCOMMAND = HOST + "sys.exit(subcommand.action(tuple(sys.argv[1:])))\n"
DOCTOR = HOST + "check.action(sys.argv[1], False)\nprint('conda goes on')\n"


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    for name, text in STUBS.items():
        path = tmp_path / "stubs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "stubs"


def host(code: str, *arguments: str, stubs: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment(stubs, PYTHONIOENCODING="utf-8"),
        timeout=120,
        check=False,
    )


def test_nothing_of_envkit_is_imported_before_it_is_used(stubs: Path) -> None:
    listed = "print(*sorted(m for m in sys.modules if m.split('.')[0] in ('envkit', *HEAVY)))"
    heavy = "HEAVY = ('click', 'msgspec', 'yaml', 'rich', 'packaging', 'pynvml', 'torch')\n"
    done = host(HOST + heavy + listed, stubs=stubs)
    assert (done.stdout.split(), done.stderr) == (["envkit", "envkit.conda_plugin"], "")


def test_the_subcommand_is_envkit_with_its_exit_codes(stubs: Path) -> None:
    done = host(SUBCOMMAND, "explain", "DRV002", stubs=stubs)
    assert (done.returncode, done.stdout.startswith("# DRV002: ")) == (0, True)
    done = host(SUBCOMMAND, "verfy", stubs=stubs)
    assert done.returncode == 2
    assert "envkit verify" in done.stderr
    assert host(SUBCOMMAND, "--help", stubs=stubs).returncode == 0


def test_doctor_says_the_verdict_of_the_prefix(stubs: Path, tmp_path: Path) -> None:
    prefix = bare_venv(tmp_path / "env").parent.parent
    (packages,) = prefix.glob("lib/python3*/site-packages")
    torch = packages / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open')")
    (torch / "version.py").write_text("__version__ = '2.9.1+cu126'\ncuda = '12.6'\nhip = None\n")
    done = host(DOCTOR, str(prefix), stubs=stubs)
    assert done.returncode == 0
    assert "envkit verify --no-fingerprint:\n✘ FAIL" in done.stdout
    assert done.stdout.endswith("\nconda goes on\n")


def test_doctor_leaves_an_environment_without_torch_alone(stubs: Path, tmp_path: Path) -> None:
    done = host(DOCTOR, str(tmp_path), stubs=stubs)
    assert done.stdout == (
        "envkit: no torch in this environment, nothing to check.\n\nconda goes on\n"
    )


def test_a_conda_without_these_types_goes_on_without_us(stubs: Path) -> None:
    (stubs / "conda/plugins/types.py").write_text("")
    code = "import envkit.conda_plugin as p\nprint([*p.conda_subcommands()])"
    assert host(code, stubs=stubs).stdout == "[]\n"
    assert host(code.replace("subcommands", "health_checks"), stubs=stubs).stdout == "[]\n"


@pytest.mark.parametrize(
    "fault", ["raise ImportError('broken')", "import no_such_module", "1/0", "raise SystemExit(7)"]
)
def test_a_broken_envkit_does_not_break_conda(stubs: Path, tmp_path: Path, fault: str) -> None:
    (stubs / "click").mkdir()
    (stubs / "click" / "__init__.py").write_text(fault)
    done = host(SUBCOMMAND, "verify", stubs=stubs)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("envkit: it does not work here: ")
    torch = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / "torch"
    torch.mkdir(parents=True)
    done = host(DOCTOR, str(tmp_path / "env"), stubs=stubs)
    assert (done.returncode, done.stdout.endswith("conda goes on\n")) == (0, True)


def test_the_entry_point_is_the_plugin() -> None:
    project = Path(__file__).parent.parent / "pyproject.toml"
    point = '[project.entry-points.conda]\nenvkit = "envkit.conda_plugin"\n'
    assert point in project.read_text(encoding="utf-8")
    assert (PACKAGE_ROOT / "envkit" / "conda_plugin.py").is_file()

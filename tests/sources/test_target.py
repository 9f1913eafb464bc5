"""Which environment is judged, in every situation."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envkit.errors import UsageError
from envkit.model.report import Target
from envkit.sources.target import ask_interpreter, choose_target

from .trees import plant


def program(root: Path, name: str) -> Path:
    plant(root, {name: "#!/bin/sh\n"})
    (root / name).chmod(0o755)
    return root / name


def venv(root: Path, name: str) -> Path:
    plant(root, {f"{name}/pyvenv.cfg": "home = /usr/bin\n"})
    program(root, f"{name}/bin/python")
    return root / name


def conda(root: Path, name: str) -> Path:
    plant(root, {f"{name}/conda-meta/history": ""})
    program(root, f"{name}/bin/python")
    return root / name


def nobody_answers(python: Path, environ: Mapping[str, str]) -> None:
    del python, environ


def choose(environ: Mapping[str, str], **options: Any) -> Target:
    options = {"running": "/envkit/own/python", "ask": nobody_answers, **options}
    return choose_target(environ=environ, **options)


def refused(environ: Mapping[str, str], **options: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        choose(environ, **options)
    return caught.value


# --- options ------------------------------------------------------------------------------------


def test_by_name(tmp_path: Path) -> None:
    prefix = conda(tmp_path, "envs/vit")
    found = choose({"CONDA_ENVS_DIRS": f"{tmp_path}/envs"}, name="vit")
    assert found == Target(
        kind="conda",
        prefix=str(prefix),
        python=str(prefix / "bin/python"),
        chosen_by="--name vit",
    )


def test_by_prefix(tmp_path: Path) -> None:
    prefix = venv(tmp_path, "env")
    found = choose({}, prefix=str(prefix))
    assert (found.kind, found.python) == ("venv", str(prefix / "bin/python"))


def test_a_prefix_without_an_interpreter_is_a_bare_one(tmp_path: Path) -> None:
    plant(tmp_path, {"env/conda-meta/history": ""})
    found = choose({}, prefix=str(tmp_path / "env"))
    assert (found.kind, found.python, found.chosen_by) == ("prefix", None, "--prefix")


def test_a_relative_prefix_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv(tmp_path, "env")
    monkeypatch.chdir(tmp_path)
    assert choose({}, prefix="env/../env/").prefix == str(tmp_path / "env")


def test_the_interpreter_of_a_venv_keeps_its_own_path(tmp_path: Path) -> None:
    real = program(tmp_path, "real/bin/python3.11")
    prefix = venv(tmp_path, "env")
    (prefix / "bin/python").unlink()
    (prefix / "bin/python").symlink_to(real)
    found = choose({}, python=str(prefix / "bin/python"))
    assert (found.kind, found.prefix) == ("venv", str(prefix))
    assert found.python == str(prefix / "bin/python")


def test_an_ordinary_interpreter_is_known_by_the_folders_around_it(tmp_path: Path) -> None:
    plant(tmp_path, {"usr/lib/python3.11/": ""})
    real = program(tmp_path, "usr/bin/python3.11")
    (tmp_path / "link").symlink_to(real)
    found = choose({}, python=str(tmp_path / "link"))
    assert (found.kind, found.prefix) == ("python", str(tmp_path / "usr"))
    assert found.python == str(tmp_path / "link")


def test_a_script_of_a_version_manager_is_asked(tmp_path: Path) -> None:
    shim = program(tmp_path, "shims/python")
    prefix = venv(tmp_path, "env")
    answer = (prefix / "bin/python", prefix)
    found = choose({}, python=str(shim), ask=lambda *_: answer)
    assert (found.kind, found.prefix) == ("venv", str(prefix))
    assert found.python == str(prefix / "bin/python")


def test_an_interpreter_that_tells_nothing_has_no_prefix(tmp_path: Path) -> None:
    found = choose({}, python=str(program(tmp_path, "shims/python")))
    assert (found.kind, found.prefix) == ("python", None)


def test_a_bare_name_is_looked_for_on_path(tmp_path: Path) -> None:
    prefix = venv(tmp_path, "env")
    found = choose({"PATH": str(prefix / "bin")}, python="python")
    assert found.prefix == str(prefix)


@pytest.mark.parametrize(
    ("options", "said", "step"),
    [
        ({"name": "a", "prefix": "b"}, "Only one of", "Leave out"),
        ({"name": "a", "python": "b"}, "Only one of", "Leave out"),
        ({"name": "nobody"}, "no conda environment called 'nobody'", "--prefix"),
        ({"prefix": "{root}/nothing"}, "is not there", "-p/--prefix"),
        ({"prefix": "{root}/file"}, "is a file", "--python"),
        ({"prefix": "{root}/loop"}, "cannot be read", "-p/--prefix"),
        ({"python": "{root}/nothing"}, "is not there", "--python"),
        ({"python": "{root}"}, "is a folder", "-p/--prefix"),
        ({"python": "{root}/file"}, "cannot be executed", "--python"),
        ({"python": "no-such-program"}, "no program 'no-such-program' on PATH", "--python"),
    ],
)
def test_what_cannot_be_judged(
    tmp_path: Path, options: dict[str, str], said: str, step: str
) -> None:
    plant(tmp_path, {"file": ""})
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    shown = {name: text.replace("{root}", str(tmp_path)) for name, text in options.items()}
    error = refused({"PATH": ""}, **shown)
    assert said in error.message
    assert step in error.next_step
    assert error.exit_code == 2


# --- without an option --------------------------------------------------------------------------


def test_an_active_venv(tmp_path: Path) -> None:
    prefix = venv(tmp_path, "env")
    found = choose({"VIRTUAL_ENV": str(prefix)})
    assert (found.kind, found.prefix, found.chosen_by) == ("venv", str(prefix), "VIRTUAL_ENV")


def test_an_active_conda_environment(tmp_path: Path) -> None:
    prefix = conda(tmp_path, "env")
    found = choose({"CONDA_PREFIX": str(prefix)})
    assert (found.kind, found.chosen_by) == ("conda", "CONDA_PREFIX")


@pytest.mark.parametrize(
    ("path", "prefix", "chosen_by"),
    [
        ("{root}/v/bin:{root}/c/bin", "v", "VIRTUAL_ENV, before CONDA_PREFIX on PATH"),
        ("{root}/c/bin:/x:{root}/v/bin", "c", "CONDA_PREFIX, before VIRTUAL_ENV on PATH"),
        ("/usr/bin:{root}/c/bin/", "c", "CONDA_PREFIX, before VIRTUAL_ENV on PATH"),
        ("/usr/bin", "v", "VIRTUAL_ENV, inside CONDA_PREFIX"),
    ],
)
def test_of_two_active_ones_the_innermost(
    tmp_path: Path, path: str, prefix: str, chosen_by: str
) -> None:
    environ = {
        "VIRTUAL_ENV": str(venv(tmp_path, "v")),
        "CONDA_PREFIX": str(conda(tmp_path, "c")),
        "PATH": path.replace("{root}", str(tmp_path)),
    }
    found = choose(environ)
    assert (found.prefix, found.chosen_by) == (str(tmp_path / prefix), chosen_by)


def test_an_active_environment_that_is_gone_is_named(tmp_path: Path) -> None:
    prefix = venv(tmp_path, "env")
    environ = {"VIRTUAL_ENV": f"{tmp_path}/gone", "PATH": str(prefix / "bin")}
    found = choose(environ)
    assert found.prefix == str(prefix)
    assert found.chosen_by == "python on PATH (VIRTUAL_ENV names no environment)"


def test_python3_counts_where_there_is_no_python(tmp_path: Path) -> None:
    plant(tmp_path, {"usr/lib/python3.11/": ""})
    program(tmp_path, "usr/bin/python3")
    found = choose({"PATH": str(tmp_path / "usr/bin")})
    assert (found.prefix, found.chosen_by) == (str(tmp_path / "usr"), "python3 on PATH")


def test_a_script_on_path_that_leads_nowhere_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "shims/python")
    plant(tmp_path, {"usr/lib/python3.11/": ""})
    program(tmp_path, "usr/bin/python3")
    found = choose({"PATH": f"{tmp_path}/shims:{tmp_path}/usr/bin"})
    assert found.chosen_by == "python3 on PATH"


def test_envkits_own_venv_is_the_target_only_as_the_last_resort(tmp_path: Path) -> None:
    own = venv(tmp_path, "own")
    other = venv(tmp_path, "other")
    running = str(own / "bin/python")
    found = choose({"PATH": str(other / "bin")}, running=running)
    assert found.prefix == str(other)
    last = choose({"PATH": ""}, running=running)
    assert last.prefix == str(own)
    assert last.chosen_by.startswith("the interpreter that runs envkit")


# --- asking an interpreter ----------------------------------------------------------------------


def test_this_interpreter_tells_its_prefix() -> None:
    answer = ask_interpreter(Path(sys.executable), os.environ)
    assert answer == (Path(sys.executable), Path(sys.prefix))


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
@pytest.mark.parametrize("script", ["exit 127", "echo one line", "echo a; echo b", "kill -9 $$"])
def test_a_program_that_is_no_interpreter_tells_nothing(tmp_path: Path, script: str) -> None:
    file = program(tmp_path, "python")
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    assert ask_interpreter(file, {"PATH": "/usr/bin:/bin"}) is None
    assert ask_interpreter(tmp_path / "nothing", {}) is None


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
def test_a_program_that_does_not_answer_has_the_limit_that_was_given(tmp_path: Path) -> None:
    file = program(tmp_path, "python")
    file.write_text("#!/bin/sh\nexec sleep 600\n", encoding="ascii")
    assert ask_interpreter(file, {"PATH": "/usr/bin:/bin"}, limit_s=0.2) is None

"""`envkit lock` and `envkit create` as processes: exit codes, streams, documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conda_channel import Package, write_channel
from running import run_envkit as envkit

import envkit as package

SCHEMAS = Path(package.__file__).parent / "schemas"
SPEC = "name: s\nchannels: [conda-forge]\ndependencies: [tool]\n"


def _schema(stem: str) -> Any:
    return json.loads((SCHEMAS / f"{stem}.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "s.yml"
    path.write_text(SPEC, encoding="utf-8")
    return path


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    pytest.importorskip("conda_lock", reason="needs the extra: pip install -e '.[lock]'")
    pytest.importorskip("rattler", reason="needs the extra: pip install -e '.[lock]'")
    write_channel(tmp_path / "mirror" / "conda-forge", Package("tool"))
    return tmp_path / "mirror"


def test_lock_check_create_and_create_again(spec: Path, mirror: Path, tmp_path: Path) -> None:
    done = envkit("lock", spec.name, "--mirror", str(mirror), cwd=tmp_path)
    said = "s.yml: locked, s.conda-lock.yml (1 package)\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    done = envkit("lock", "--check", spec.name, cwd=tmp_path)
    assert done.stdout == "s.yml: fits its spec, s.conda-lock.yml (1 package)\n"
    assert done.returncode == 0
    prefix = tmp_path / "env"
    done = envkit("create", str(spec), "-p", str(prefix), "--mirror", str(mirror), "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    jsonschema.validate(json.loads(done.stdout), _schema("installed-1"))
    done = envkit("create", str(spec), "-p", str(prefix), "--mirror", str(mirror))
    assert (done.returncode, done.stdout) == (2, "")
    assert "is there already" in done.stderr


def test_a_stale_lock_is_exit_1_with_reasons(spec: Path) -> None:
    done = envkit("lock", "--check", str(spec), "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    jsonschema.validate(document, _schema("lock-1"))
    assert document["locks"][0]["status"] == "stale"
    assert document["locks"][0]["reasons"] == ["there is no lock"]
    done = envkit("lock", "--check", str(spec))
    assert "STALE (CON008)" in " ".join(done.stdout.split())
    assert f"next: envkit lock {spec}" in done.stdout


def test_what_cannot_be_solved_is_exit_1_with_the_explanation(spec: Path, mirror: Path) -> None:
    spec.write_text(SPEC.replace("[tool]", "[tool=9]"), encoding="utf-8")
    done = envkit("lock", str(spec), "--mirror", str(mirror))
    assert done.returncode == 1
    assert "NOT SOLVABLE" in " ".join(done.stdout.split())
    assert "tool 9.*" in done.stdout
    assert done.stderr == ""


def test_a_refused_lock_is_exit_1_and_json_says_why(
    spec: Path, mirror: Path, tmp_path: Path
) -> None:
    envkit("lock", str(spec), "--mirror", str(mirror))
    lock = spec.with_name("s.conda-lock.yml")
    text = lock.read_text(encoding="utf-8")
    at = text.index("sha256: ", text.index("hash:\n    md5")) + len("sha256: ")
    lock.write_text(f"{text[:at]}'{'0' * 64}'{text[text.index(chr(10), at) :]}", encoding="utf-8")
    arguments = ("create", str(spec), "-p", str(tmp_path / "env"), "--mirror", str(mirror))
    done = envkit(*arguments, "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)
    assert (error["schema"], error["code"]) == ("envkit.error/1", "REFUSED")
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lock",), "No SPEC was given"),
        (("lock", "vit", "--update", "vit"), "--update takes the one spec"),
        (("lock", "none.yml"), "none.yml is no file"),
        (("lock", "vitt"), "Did you mean vit"),
        (("create", "vit"), "--prefix"),
        (("lock", "vit", "--solver", "magic"), "magic"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...], said: str) -> None:
    done = envkit(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr

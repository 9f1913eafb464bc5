"""What is known of the interpreter before and after it was started."""

from __future__ import annotations

from pathlib import Path

from envkit.model.observed import Known, NotApplicable, Unreadable
from envkit.sources.conda_prefix import read_conda
from envkit.sources.interpreter import read_python, started_python

from .trees import conda_record, known, plant


def test_conda_knows_the_version(tmp_path: Path) -> None:
    plant(tmp_path, conda_record("python", "3.11.9", "h1_0_cpython"))
    found = read_python(tmp_path, tmp_path / "bin/python", read_conda(tmp_path))
    assert found.version == Known(value="3.11.9", source="conda-meta: python")
    assert isinstance(found.implementation, Unreadable)


def test_a_venv_knows_the_version_by_either_key(tmp_path: Path) -> None:
    for key, text in (("version", "3.12.1"), ("version_info", "3.12.1.final.0")):
        plant(tmp_path, {"pyvenv.cfg": f"home = /usr/bin\n{key} = {text}\n"})
        found = read_python(tmp_path, tmp_path / "bin/python", read_conda(tmp_path))
        assert known(found.version) == "3.12.1"


def test_a_link_leads_to_a_file_with_a_version_in_its_name(tmp_path: Path) -> None:
    plant(tmp_path, {"bin/python3.9": ""})
    (tmp_path / "bin/python").symlink_to("python3.9")
    found = read_python(tmp_path, tmp_path / "bin/python", read_conda(tmp_path))
    assert known(found.version) == "3.9"


def test_nothing_tells(tmp_path: Path) -> None:
    found = read_python(tmp_path, tmp_path / "bin/python", read_conda(tmp_path))
    assert isinstance(found.version, Unreadable)


def test_a_bare_prefix_has_none(tmp_path: Path) -> None:
    found = read_python(tmp_path, None, read_conda(tmp_path))
    assert isinstance(found.version, NotApplicable)


def test_a_started_interpreter_speaks_for_itself() -> None:
    hello = {"python": "3.11.7", "executable": "/home/me/bin/python", "implementation": 5}
    found = started_python(hello, homes=("/home/me",))
    assert known(found.version) == "3.11.7"
    assert known(found.executable) == "~/bin/python"
    assert isinstance(found.implementation, Unreadable)

"""The part of conda's command line that the stand-in understands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envkit.specs.solver.channels import locate
from envkit.specs.solver.outcome import Outcome, read_outcome, write_outcome
from envkit.specs.solver.protocol import (
    is_made_for_virtual_packages,
    read_arguments,
    virtual_packages,
)

#: As recorded from conda-lock 4.0.3, paths shortened.
CREATE = [
    "create",
    "--prefix",
    "T/prefix",
    "--dry-run",
    "--json",
    "--override-channels",
    "--channel",
    "conda-forge",
    "--channel",
    "file:///T/fake",
]


@pytest.fixture
def fake(tmp_path: Path) -> str:
    (tmp_path / "linux-64").mkdir()
    packages = {
        "__cuda-12.6-0.tar.bz2": {"name": "__cuda", "version": "12.6", "build_string": ""},
        "__archspec-1-v3.tar.bz2": {"name": "__archspec", "version": "1", "build_string": "v3"},
    }
    index = {"packages": packages}
    (tmp_path / "linux-64" / "repodata.json").write_text(json.dumps(index), encoding="utf-8")
    return tmp_path.as_uri()


def test_a_recorded_call_is_taken_apart() -> None:
    found = read_arguments([*CREATE, "python 3.12.*", "pytorch 2.7.1 *cuda126*"])
    assert found.command == "create"
    assert found.channels == ("conda-forge", "file:///T/fake")
    assert found.specs == ("python 3.12.*", "pytorch 2.7.1 *cuda126*")
    assert found.prefix == "T/prefix"
    assert {"--dry-run", "--json"} <= found.flags


def test_values_behind_an_equals_sign_are_read() -> None:
    assert read_arguments(["create", "--channel=a", "-c", "b"]).channels == ("a", "b")


def test_an_option_without_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="--channel needs a value"):
        read_arguments(["create", "--channel"])


def test_virtual_packages_come_from_the_channel_and_the_variables(fake: str) -> None:
    variables = {"CONDA_OVERRIDE_GLIBC": "2.28", "CONDA_OVERRIDE_CUDA": ""}
    found = virtual_packages(["conda-forge", fake], "linux-64", variables)
    assert found == {"__cuda": ("12.6", "0"), "__archspec": ("1", "v3"), "__glibc": ("2.28", "0")}


def test_the_channel_of_virtual_packages_is_recognised(fake: str, tmp_path: Path) -> None:
    assert is_made_for_virtual_packages(fake)
    assert not is_made_for_virtual_packages("conda-forge")
    index = {"packages": {"a": {"name": "a"}, "b": {"name": "__cuda"}}}
    (tmp_path / "linux-64" / "repodata.json").write_text(json.dumps(index), encoding="utf-8")
    assert not is_made_for_virtual_packages(fake)


def test_channels_keep_their_address_wherever_they_are_looked_at(tmp_path: Path) -> None:
    upstream = "https://conda.anaconda.org/conda-forge"
    for name in ("conda-forge", upstream, f"{upstream}/"):
        assert locate(name, None).url == upstream
        assert locate(name, None).folder is None
        assert locate(name, tmp_path).folder == tmp_path / "conda-forge"
    nested = locate("https://conda.anaconda.org/../../etc", tmp_path).folder
    assert nested == tmp_path / "etc"
    local = locate(tmp_path.as_uri(), None)
    assert (local.url, local.folder) == (tmp_path.as_uri(), tmp_path)


def test_an_outcome_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    assert read_outcome(path) is None
    outcome = Outcome(kind="unsolvable", message="no candidates")
    write_outcome(path, outcome)
    assert read_outcome(path) == outcome
    path.write_text("{", encoding="utf-8")
    assert read_outcome(path) is None

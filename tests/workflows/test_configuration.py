from __future__ import annotations

from pathlib import Path

import pytest

from envkit.errors import InputError, UsageError
from envkit.model.facts import Waiver
from envkit.model.observed import Known
from envkit.workflows.config import Configuration, read_configuration


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def test_nothing_configured(project: Path) -> None:
    assert read_configuration(project, {}) == Configuration()
    assert Configuration().pick(None, "device", "auto") == Known(value="auto", source="default")


def test_flag_then_variable_then_file_then_default(project: Path) -> None:
    (project / "envkit.toml").write_text('device = "cpu"\nlabel = "file"\nsuite = "quick"\n')
    read = read_configuration(project, {"ENVKIT_LABEL": "variable", "ENVKIT_DEVICE": "cuda:1"})
    assert read.pick("cuda", "device", "auto") == Known(value="cuda", source="--device")
    assert read.pick(None, "device", "auto") == Known(value="cuda:1", source="ENVKIT_DEVICE")
    assert read.pick(None, "label", "") == Known(value="variable", source="ENVKIT_LABEL")
    assert read.pick(None, "suite", "auto") == Known(value="quick", source="envkit.toml")
    assert read.pick(None, "fail_on", "error") == Known(value="error", source="default")


def test_the_nearest_file_counts_and_the_repository_is_the_limit(project: Path) -> None:
    (project.parent / "envkit.toml").write_text("broken")
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    (project / "pyproject.toml").write_text('[tool.envkit]\nlabel = "outer"\n')
    assert read_configuration(inner, {}).path == project / "pyproject.toml"
    (project / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert read_configuration(inner, {}).path == project / "pyproject.toml"
    (project / "a" / "envkit.toml").write_text('label = "inner"\n')
    assert read_configuration(inner, {}).file.label == "inner"


def test_variables_are_read_as_numbers_too(project: Path) -> None:
    assert read_configuration(project, {"ENVKIT_TIMEOUT": "12.5"}).variables.timeout == 12.5
    assert read_configuration(project, {"ENVKIT_TIMEOUT": ""}).variables.timeout is None


def test_waivers(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[[tool.envkit.waivers]]\ncode = "GPU006"\nreason = "shared"\nuntil = 2027-01-31\n'
    )
    assert read_configuration(project, {}).waivers() == (
        Waiver(code="GPU006", reason="shared", until="2027-01-31"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("devise = 'cpu'", "there is no setting 'devise'; is 'device' meant?"),
        ("device = 3", "device: '3' is not auto, cpu, all, cuda or cuda:N"),
        ("device = 'gpu'", "device: 'gpu' is not auto, cpu, all, cuda or cuda:N"),
        ("suite = 'whole'", "suite: 'whole' is not quick, standard, full or none"),
        ("timeout = 0", "timeout: '0.0' is not a number of seconds from 1 to 86400"),
        ("timeout = nan", "timeout: 'nan' is not a number of seconds"),
        ("fail-on = 'all'", "fail-on: 'all' is not error, warning or unknown"),
        ("fail_on = 'error'", "there is no setting 'fail_on'; is 'fail-on' meant?"),
        ("waivers = 1", "waivers: '1' is not tables with code, reason and until"),
        ("[[waivers]]\ncode = 'X'", "waivers[0]: Object missing required field `reason`"),
        (
            "[[waivers]]\ncode='x'\nreason='r'\nuntil=2027-01-01",
            "waivers[0].code: 'x' is not the code of a finding",
        ),
        (
            "[[waivers]]\ncode='GPU006'\nreason=' '\nuntil=2027-01-01",
            "waivers[0].reason: a waiver needs a reason",
        ),
        (
            "[[waivers]]\ncode='GPU006'\nreason='r'\nuntil='soon'",
            "waivers[0].until: Invalid RFC3339 encoded date",
        ),
        ("device = ", "it is not TOML"),
    ],
)
def test_mistakes_are_errors_with_the_file_and_the_key(project: Path, text: str, said: str) -> None:
    (project / "envkit.toml").write_text(text)
    with pytest.raises(InputError) as raised:
        read_configuration(project, {})
    assert said in raised.value.message
    assert "envkit.toml" in raised.value.message


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DEVICE", "gpu", "device: 'gpu' is not auto, cpu, all, cuda or cuda:N"),
        ("SUITE", "all", "suite: 'all' is not quick, standard, full or none"),
        ("TIMEOUT", "x", "timeout: 'x' is not a number of seconds from 1 to 86400"),
        ("TIMEOUT", "-1", "timeout: '-1' is not a number of seconds from 1 to 86400"),
        ("FAIL_ON", "no", "fail-on: 'no' is not error, warning or unknown"),
    ],
)
def test_mistakes_in_variables_name_the_variable(
    project: Path, name: str, value: str, said: str
) -> None:
    with pytest.raises(UsageError) as raised:
        read_configuration(project, {"ENVKIT_LABEL": "lab", f"ENVKIT_{name}": value})
    assert raised.value.message == f"The variable ENVKIT_{name} is wrong: {said}."


def test_a_file_that_cannot_be_read_is_an_error(project: Path) -> None:
    (project / "envkit.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="it is not TOML"):
        read_configuration(project, {})

"""Generated files under hadolint, shellcheck and the schema of Compose."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from build_folders import write_folder

MODES = [("vit", "base"), ("notebook", "jupyter"), ("vit", "ssh"), ("cpu", "base")]


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


@pytest.fixture(params=MODES, ids="-".join, scope="module")
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, mode = request.param
    folder = tmp_path_factory.mktemp("written") / "image"
    write_folder(spec, folder, mode=mode)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(written, tmp_path / "image")


def _passes(*command: str | Path) -> None:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_finds_nothing_in_the_dockerfile(folder: Path) -> None:
    _passes(_tool("hadolint"), "--failure-threshold", "style", folder / "Dockerfile")


def test_shellcheck_finds_nothing_in_the_entry_points(folder: Path) -> None:
    _passes(_tool("shellcheck"), *sorted((folder / "entry").glob("*.sh")))


def test_shellcheck_finds_nothing_in_the_apptainer_definition(folder: Path) -> None:
    text = (folder / "Apptainer.def").read_text(encoding="utf-8")
    section = r"(?ms)^%(?:post|environment|runscript|test)\n(.*?)(?=^%|^Bootstrap|\Z)"
    scripts = re.findall(section, text)
    assert len(scripts) == 5
    for number, script in enumerate(scripts):
        path = folder / f"script{number}.sh"
        path.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
        _passes(_tool("shellcheck"), path)


def test_compose_file_is_one_by_the_schema(folder: Path) -> None:
    package = pytest.importorskip("check_jsonschema", reason="brings the schema of Compose")
    schemas = Path(package.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text(encoding="utf-8"))
    text = (folder / "compose.yaml").read_text(encoding="utf-8")
    jsonschema.validate(yaml.safe_load(text), schema)
    with pytest.raises(jsonschema.ValidationError, match="cap_dropped"):
        jsonschema.validate(yaml.safe_load(text.replace("cap_drop", "cap_dropped")), schema)


def test_dev_container_has_the_properties_of_its_reference(folder: Path) -> None:
    """What https://containers.dev/implementors/json_reference lists, with the types it gives."""
    said = json.loads((folder / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    kinds = {
        **dict.fromkeys(("name", "service", "workspaceFolder", "remoteUser"), str),
        "dockerComposeFile": str,
        "shutdownAction": str,
        "overrideCommand": bool,
        "hostRequirements": dict,
        "customizations": dict,
        "forwardPorts": list,
    }
    assert all(isinstance(value, kinds[key]) for key, value in said.items())
    assert said["shutdownAction"] in {"none", "stopCompose"}
    assert said["hostRequirements"]["gpu"] is ("NVIDIA_REQUIRE_CUDA" in _dockerfile(folder))
    assert (folder / ".devcontainer" / said["dockerComposeFile"]).resolve().is_file()


def _dockerfile(folder: Path) -> str:
    return (folder / "Dockerfile").read_text(encoding="utf-8")

"""What an image installs envkit from: all that it needs, in the versions that CI runs with."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envkit.render.container.quoting import template_text

ROOT = Path(__file__).parent.parent.parent


def _listed(name: str) -> dict[str, str]:
    """Version by name; each requirement is one with hashes."""
    text = re.sub(r" \\\n +", " ", template_text(name))
    found: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        said, *hashes = line.split(" --hash=")
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes)
        requirement = Requirement(said)
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        found[canonicalize_name(requirement.name)] = pin.version
    return found


def test_everything_that_envkit_needs_is_listed_in_a_version_that_it_accepts() -> None:
    """Where this fails after a dependency was added: run tools/image_requirements.py."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    pinned = _listed("requirements.txt")
    for line in re.findall(r'^  "(.*)",$', listed[1], re.MULTILINE):
        requirement = Requirement(line)
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), line


def test_what_they_need_is_listed_too() -> None:
    pinned = _listed("requirements.txt")
    for name in pinned.keys() - {"tomli"}:  # which is there on Python 3.10 alone
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in pinned, f"{name} needs {line}"


def test_versions_are_those_that_the_tests_run_with() -> None:
    text = (ROOT / "tests/constraints.txt").read_text(encoding="utf-8")
    tried: dict[str, str] = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    }
    pinned = {**_listed("requirements.txt"), **_listed("builder-requirements.txt")}
    assert {name: tried[name] for name in pinned.keys() & tried.keys()} == {
        name: version for name, version in pinned.items() if name in tried
    }
    assert len(pinned.keys() & tried.keys()) >= 8


def test_what_only_the_build_needs_stays_in_the_build(image_requirements: ModuleType) -> None:
    assert _listed("builder-requirements.txt").keys() == image_requirements.BUILDER
    assert not _listed("requirements.txt").keys() & image_requirements.BUILDER


def test_requirements_have_the_hash_of_each_wheel(
    image_requirements: ModuleType, tmp_path: Path
) -> None:
    for tag in ("cp312-cp312-linux_x86_64", "cp313-cp313-linux_x86_64"):
        (tmp_path / f"thing-1.0-{tag}.whl").write_text(tag)
    (made,) = image_requirements.requirements(tmp_path.glob("*.whl")).values()
    assert made.startswith("thing==1.0 \\\n    --hash=sha256:")
    assert made.count("--hash=sha256:") == 2
    (tmp_path / "thing-2.0-py3-none-any.whl").write_text("other")
    with pytest.raises(ValueError, match="more than one version"):
        image_requirements.requirements(tmp_path.glob("*.whl"))

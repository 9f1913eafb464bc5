from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from envkit.compare.compare import compare
from envkit.compare.package_names import in_gpu_stack, pip_name
from envkit.model.documents import Diff
from envkit.model.package_change import change_of, count_changes
from envkit.workflows.diff_inputs import recognise

HASH = "a" * 64
CHANNEL = "https://conda.anaconda.org/conda-forge"


def lock(*packages: tuple[str, str, str], platforms: tuple[str, ...] = ("linux-64",)) -> bytes:
    lines = ["version: 1", "metadata:", "  content_hash:"]
    lines += [f"    {platform}: {HASH}" for platform in platforms]
    lines += ["  channels:", "  - url: conda-forge", "    used_env_vars: []", "  platforms:"]
    lines += [f"  - {platform}" for platform in platforms]
    lines += ["  sources:", "  - environment.yml", "package:"]
    for platform in platforms:
        for name, version, build in packages:
            lines += [
                f"- name: {name}",
                f"  version: {version!r}",
                "  manager: conda",
                f"  platform: {platform}",
                "  dependencies: {}",
                f"  url: {CHANNEL}/{platform}/{name}-{version}-{build}.conda",
                "  hash:",
                f"    sha256: {HASH}",
                "  category: main",
                "  optional: false",
            ]
    return ("\n".join(lines) + "\n").encode()


def diff(*contents: bytes | str, **options: Any) -> Diff:
    sides = [
        recognise(c.encode() if isinstance(c, str) else c, f"input {n}", label=f"input {n}")
        for n, c in enumerate(contents)
    ]
    return compare(sides, **options).document


def changes(document: Diff) -> dict[str, str]:
    return {d.key: change_of(*d.values) for d in document.differences if d.layer == "packages"}


BEFORE = lock(("pytorch", "2.7.1", "cuda126_0"), ("numpy", "2.3.1", "py312_0"), ("a", "1", "0"))
AFTER = lock(("pytorch", "2.8.0", "cuda126_0"), ("numpy", "2.3.1", "py312_1"), ("b", "1", "0"))


def test_two_locks_by_kind_of_change_with_the_gpu_stack_first() -> None:
    document = diff(BEFORE, AFTER)
    found = changes(document)
    assert found == {"pytorch": "version", "a": "removed", "b": "added", "numpy": "build"}
    assert next(iter(found)) == "pytorch"
    assert (
        count_changes(document.differences)
        == "1 added, 1 removed, 1 version changed, 1 build changed"
    )
    assert document.verdict.exit_code == 1
    assert [c.code for c in document.causes] == ["CAU008", "CAU015"]


def test_the_same_lock_agrees() -> None:
    document = diff(BEFORE, BEFORE)
    assert document.verdict.exit_code == 0
    assert document.differences == ()


def test_another_file_of_the_same_build_is_another_hash() -> None:
    document = diff(
        BEFORE, BEFORE.replace(HASH.encode(), b"b" * 64, 2).replace(b"b" * 64, b"a" * 64, 1)
    )
    assert changes(document) == {"pytorch": "hash"}


def test_every_platform_of_two_locks_is_compared() -> None:
    one = lock(("numpy", "1", "0"), platforms=("linux-64", "osx-arm64"))
    other = one.replace(b"osx-arm64/numpy-1-0", b"osx-arm64/numpy-1-1")
    assert changes(diff(one, other)) == {"osx-arm64/numpy": "build"}
    assert "platforms" in {d.key for d in diff(one, lock(("numpy", "1", "0"))).differences}


def test_a_lock_and_its_explicit_form_agree() -> None:
    text = "# platform: linux-64\n@EXPLICIT\n"
    for file in ("pytorch-2.7.1-cuda126_0", "numpy-2.3.1-py312_0", "a-1-0"):
        text += f"https://conda.anaconda.org/conda-forge/linux-64/{file}.conda#sha256:{HASH}\n"
    document = diff(BEFORE, text)
    assert document.differences == ()
    assert document.verdict.exit_code == 0


CONDA_LIST = """\
# packages in environment at /home/me/envs/vit:
#
# Name                    Version                   Build  Channel
pytorch                   2.7.1           cuda126_0    conda-forge
numpy                     2.2.0           py312_0    conda-forge
a                         1               0    conda-forge
einops                    0.8.1                    pypi_0    pypi
"""


def test_a_lock_against_what_a_colleague_pasted() -> None:
    assert changes(diff(BEFORE, CONDA_LIST)) == {"numpy": "version", "pip:einops": "added"}


def test_a_conda_list_and_its_json_agree() -> None:
    rows = (
        '[{"name":"pytorch","version":"2.7.1","build_string":"cuda126_0","channel":"conda-forge"},'
        '{"name":"numpy","version":"2.2.0","build_string":"py312_0","channel":"conda-forge"},'
        '{"name":"a","version":"1","build_string":"0","channel":"conda-forge"},'
        '{"name":"einops","version":"0.8.1","build_string":"pypi_0","channel":"pypi"}]'
    )
    assert diff(CONDA_LIST, rows).verdict.exit_code == 0


def test_conda_packages_against_a_pip_freeze_by_name() -> None:
    freeze = "torch==2.7.0\nnumpy==2.3.1\nmy-tool @ git+https://example.org/x@0123abc\n"
    document = diff(BEFORE, freeze)
    assert changes(document) == {"pip:torch": "version"}
    assert "by name" in document.comparable["packages"].why


def test_what_pip_freeze_leaves_out_is_no_difference() -> None:
    assert (
        diff(
            "numpy==1\n", '[{"name":"numpy","version":"1"},{"name":"pip","version":"24"}]'
        ).verdict.exit_code
        == 0
    )


SPEC = """\
channels: [conda-forge]
dependencies:
- pytorch =2.7
- numpy >=2
- pip:
  - einops ==0.8
"""


def test_a_spec_is_held_against_what_is_there() -> None:
    assert diff(SPEC, CONDA_LIST.replace("0.8.1", "0.8")).verdict.exit_code == 0
    document = diff(SPEC, CONDA_LIST.replace("2.7.1 ", "2.8.0 "))
    assert changes(document) == {"pytorch": "wish", "pip:einops": "wish"}


def test_two_specs_are_compared_by_what_they_ask() -> None:
    assert diff(SPEC, SPEC.replace("numpy >=2", "numpy>=2")).verdict.exit_code == 0
    assert changes(diff(SPEC, SPEC.replace("=2.7", "=2.8"))) == {"pytorch": "wish"}


def test_a_partial_list_says_nothing_of_what_it_does_not_name() -> None:
    profile = '{"schema":"envkit.machine/1","packages":{"numpy":"2.2.0"}}'
    assert changes(diff(profile, "numpy==2.3.1\nscipy==1.0\n")) == {"pip:numpy": "version"}


def test_names() -> None:
    assert pip_name("pytorch") == "torch"
    assert pip_name("libcublas") is None
    assert in_gpu_stack("nvidia-cudnn-cu12")
    assert not in_gpu_stack("requests")


def test_pairs_of_the_example_locks_agree_with_a_simple_count(shared: Path) -> None:
    """Counted here from the YAML by nothing but dictionaries: added, removed, another version."""
    files = sorted(shared.glob("facts/conda/examples/*/conda-lock.yml"))
    assert len(files) > 5
    for one, other in pairwise(files):
        left, right = _plain(one), _plain(other)
        counted = {
            "added": len(right.keys() - left.keys()),
            "removed": len(left.keys() - right.keys()),
            "version": sum(left[name] != right[name] for name in left.keys() & right.keys()),
        }
        found = list(changes(diff(one.read_bytes(), other.read_bytes())).values())
        assert {kind: found.count(kind) for kind in counted} == counted, one.parent.name


def _plain(path: Path) -> dict[str, str]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    packages = yaml.load(path.read_bytes(), Loader=loader)["package"]  # noqa: S506 (a safe loader)
    return {f"{p['manager']}:{p['name'].replace('_', '-')}": p["version"] for p in packages}


def test_a_second_spelling_is_no_package_more() -> None:
    both = lock(("typing_extensions", "4.15.0", "0"), ("typing-extensions", "4.15.0", "1"))
    one = lock(("typing_extensions", "4.15.0", "0"))
    assert diff(both, one).differences == ()
    assert diff(lock(("typing-extensions", "4.15.0", "0")), one).verdict.exit_code == 0
    newer = lock(("typing_extensions", "4.16.0", "0"))
    assert changes(diff(both, newer)) == {"typing_extensions": "version"}


def test_both_spellings_are_compared_where_both_lists_have_them() -> None:
    both = lock(("typing_extensions", "4.15.0", "0"), ("typing-extensions", "4.15.0", "1"))
    other = lock(("typing_extensions", "4.15.0", "0"), ("typing-extensions", "4.15.0", "2"))
    assert changes(diff(both, other)) == {"typing-extensions": "build"}


@pytest.mark.parametrize("text", ["", "hello world, this is no list of anything\n"])
def test_what_is_nothing_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="cannot be"):
        recognise(text.encode(), "x", label="x")

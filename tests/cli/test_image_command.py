"""`envkit image` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from build_folders import small_wheel
from running import run_envkit


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return small_wheel(tmp_path)


def test_it_says_what_it_wrote_and_what_to_do_next(tmp_path: Path, wheel: Path) -> None:
    done = run_envkit("image", "vit", "-o", "box", "--envkit-wheel", wheel, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "box: vit@1.0.0, mode base, 180 packages, linux-64\n"
        "  docker.io/library/python:3.12-slim-bookworm is a tag, which can change: "
        "--base NAME@sha256:DIGEST\n"
        "  next: docker compose --project-directory box build\n"
    )


def test_json_is_the_document_that_lies_in_the_folder(tmp_path: Path, wheel: Path) -> None:
    done = run_envkit("image", "cpu", "-o", "box", "--envkit-wheel", wheel, "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == (tmp_path / "box/envkit-image.json").read_text(encoding="utf-8")
    assert json.loads(done.stdout)["schema"] == "envkit.image/1"


def test_quiet_says_one_line(tmp_path: Path, wheel: Path) -> None:
    done = run_envkit("image", "cpu", "-q", "-o", "box", "--envkit-wheel", wheel, cwd=tmp_path)
    assert done.stdout == "box: cpu@1.0.0, mode base, 163 packages, linux-64\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonsense", "-o", "box"), "has no spec 'nonsense'"),
        (("vit",), "Missing option '-o'"),
        (("vit", "-o", "box", "--mode", "web"), "'web' is not one of"),
        (("vit", "-o", "box", "--base", "a b"), "--base 'a b' is not valid"),
        (("vit", "-o", "."), "holds what envkit did not write there"),
    ],
)
def test_mistakes_are_exit_2_with_a_next_step(
    words: tuple[str, ...], said: str, tmp_path: Path, wheel: Path
) -> None:
    done = run_envkit("image", *words, "--envkit-wheel", wheel, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]

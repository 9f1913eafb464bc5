"""The tutorial is run as a reader would: its commands in order, in one shell, in a copy.

Lines after `$ ` in blocks marked `console` are typed, lines after `> ` continue them, and the rest
is what must be printed. As in a doctest, `...` stands for anything, white space is not compared.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from running import bare_venv, environment

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
#: What a reader's clone has, as far as the page uses it.
CLONE = (
    *("Makefile", "pyproject.toml", "environment.yml", "conda-lock.yml"),
    *("tools", "environments", "baselines"),
)
#: Ends a command's output; keeps `$?` for the next command.
MARK = "\x1e"
NEXT = "\nstatus=$?; printf '\\036'; (exit $status)\n"
BASH = shutil.which("bash") or ""
LAW = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Step(NamedTuple):
    command: str
    wanted: str


def steps(text: str) -> Iterator[Step]:
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed = re.match(r".*\n(?:> ?.*\n)*", part)
            assert typed is not None
            command = re.sub(r"^> ?", "", typed.group(), flags=re.MULTILINE)
            yield Step(command.rstrip("\n"), part[typed.end() :])


def clone(folder: Path) -> None:
    """Lay out what `git clone` and the first lines of `make verify` leave, without a network."""
    for name in CLONE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
        else:
            shutil.copy(ROOT / name, folder / name)
    for prerequisite in ("tests/constraints.txt", "envkit/__init__.py"):
        (folder / prerequisite).parent.mkdir()
        (folder / prerequisite).touch()
    bare_venv(folder / ".venv")
    borrow_torch(next((folder / ".venv" / "lib").glob("python*/site-packages")))
    command = folder / ".venv/bin/envkit"
    command.write_text(f"#!{sys.executable}\nfrom envkit.__main__ import run\nrun()\n")
    command.chmod(0o755)
    for stamp in (".made", ".envkit"):
        (folder / ".venv" / stamp).touch()


def borrow_torch(site: Path) -> None:
    """Put torch and its record into an environment; what torch imports is found by a path."""
    ours = Path(sysconfig.get_path("platlib"))
    for entry in (ours / "torch", *ours.glob("torch-*.dist-info")):
        (site / entry.name).symlink_to(entry)
    (site / "rest.pth").write_text(str(ours), encoding="utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a clone, without its environment and byte code."""
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    ours = (file for file in files if not {".venv", "__pycache__"} & set(file.parts))
    return {str(file): (folder / file).read_bytes() for file in ours}


def outputs(commands: list[str], folder: Path) -> list[str]:
    done = subprocess.run(
        [BASH, "-c", NEXT.join(commands) + NEXT],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=400,
        check=False,
    )
    return done.stdout.decode().split(MARK)


def test_page_does_what_it_shows(tmp_path: Path) -> None:
    if not BASH or shutil.which("make") is None:
        pytest.skip("no bash or no make to run the tutorial with")
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("with one processor, one thread changes nothing")
    clone(tmp_path)
    before = contents(tmp_path)
    page = list(steps(PAGE.read_text(encoding="utf-8")))
    printed = outputs([step.command for step in page], tmp_path)
    assert len(printed) == len(page) + 1, printed[-1]
    checker = doctest.OutputChecker()
    wrong = [
        f"$ {step.command}\n--- the page shows\n{step.wanted}\n--- printed\n{got}"
        for step, got in zip(page, printed, strict=False)
        if not checker.check_output(step.wanted, got, LAW)
    ]
    assert not wrong, "\n".join(wrong)
    assert contents(tmp_path) == before, "the page changes nothing of the clone, and tidies up"


def test_typed_lines_and_what_is_printed_are_told_apart() -> None:
    text = "```console\n$ cat <<E\n> a\n>   b\n> E\na\n  b\n$ true\n```\n```sh\n$ no\n```\n"
    assert list(steps(text)) == [Step("cat <<E\na\n  b\nE", "a\n  b\n"), Step("true", "")]

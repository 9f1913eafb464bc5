"""Text as terminals show it: width, colour, signs, progress."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from compared import BASE_REPORT, facts, fingerprint, report
from reports import FAILING
from running import environment, run_envkit

from envkit.model import codec

pty = pytest.importorskip("pty", reason="pseudo-terminals are there on POSIX only")

COLOR = re.compile(r"\x1b\[[0-9;]*m")
OOM = """\
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity \
of 40.00 GiB of which 512.00 MiB is free. Of the allocated memory 33.00 GiB is allocated by \
PyTorch, and 5.75 GiB is reserved by PyTorch but unallocated.
"""
COMMANDS = {
    "verify": ("verify", "--from", "failing.json"),
    "verify -v": ("verify", "--from", "failing.json", "-v"),
    "diff": ("diff", "mine.json", "hers.json"),
    "lint": ("lint", "environment.yml"),
    "lock": ("lock", "--check", "environment.yml"),
    "oom": ("oom", "train.log"),
    "explain": ("explain", "DRV002"),
    "rules": ("rules",),
}
#: Of these nothing is wrong or right, so nothing has a colour.
PLAIN = ("explain", "rules")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("text")
    conf = "expandable_segments:True"
    hers = report("hers", fingerprint(conf=conf), facts(variables={"PYTORCH_ALLOC_CONF": conf}))
    documents = {"failing": FAILING, "mine": BASE_REPORT, "hers": hers}
    for name, document in documents.items():
        (made / f"{name}.json").write_bytes(codec.encode(document))
    (made / "environment.yml").write_text(
        "name: x\nchannels: [pytorch, nvidia, defaults]\n"
        "dependencies: [python=3.12, pytorch=2.6.0, pytorch-cuda=12.4]\n"
    )
    (made / "train.log").write_text(OOM)
    return made


def on_terminal(*arguments: str, cwd: Path, stderr: bool = False, **variables: str) -> str:
    """Run the command with a terminal as stdout, or as stderr; return what it shows there."""
    ours, theirs = pty.openpty()
    streams = {"stdout": theirs, "stderr": subprocess.PIPE}
    if stderr:
        streams = {"stdout": subprocess.PIPE, "stderr": theirs}
    with subprocess.Popen(
        [sys.executable, "-m", "envkit", *arguments],
        **streams,
        cwd=cwd,
        env=environment(None, **{"PYTHONIOENCODING": "utf-8", "TERM": "xterm", **variables}),
    ):
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # how Linux says that nobody holds the other end any more
                break
            if not part:
                break
            shown += part
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_wider_than_the_terminal(folder: Path, name: str, columns: int) -> None:
    shown = on_terminal(*COMMANDS[name], cwd=folder, COLUMNS=str(columns))
    assert shown.strip()
    for line in COLOR.sub("", shown).splitlines():
        # A command is there to be copied; a heading, an address or a name cannot be broken.
        last = line.split(" ")[-1]
        whole = line.lstrip().startswith(("$ ", "# ")) or not line.strip().removesuffix(last).strip(
            "- "
        )
        assert len(line) <= columns or whole, line


@pytest.mark.parametrize("name", COMMANDS)
def test_colour_adds_nothing_but_colour(folder: Path, name: str) -> None:
    colored = on_terminal(*COMMANDS[name], cwd=folder)
    plain = on_terminal(*COMMANDS[name], cwd=folder, NO_COLOR="1")
    assert COLOR.sub("", colored) == plain
    assert (colored != plain) == (name not in PLAIN)


@pytest.mark.parametrize(
    ("options", "variables"),
    [((), {"TERM": "dumb"}), ((), {"NO_COLOR": "1"}), (("--color", "never"), {"FORCE_COLOR": "1"})],
)
def test_what_switches_colour_off(
    folder: Path, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    shown = on_terminal(*COMMANDS["lint"], *options, cwd=folder, stderr=False, **variables)
    assert "error" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_only_ascii_where_the_output_is_not_utf_8(folder: Path, name: str) -> None:
    done = run_envkit(*COMMANDS[name], cwd=folder, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.stdout.isascii()
    assert "\\u2714" not in done.stdout
    assert "\\u2718" not in done.stdout


def test_progress_is_on_stderr_and_on_a_terminal_only(folder: Path) -> None:
    command = ("lock", "--check", "environment.yml")
    shown = on_terminal(*command, cwd=folder, stderr=True)
    for silent in (
        on_terminal(*command, "-q", cwd=folder, stderr=True),
        on_terminal(*command, "--no-progress", cwd=folder, stderr=True),
        on_terminal(*command, cwd=folder, stderr=True, CI="1"),
        on_terminal(*command, cwd=folder, stderr=True, TERM="dumb"),
        run_envkit(*command, cwd=folder).stderr,
    ):
        assert silent == ""
    assert "starting" in shown

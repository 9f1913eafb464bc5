"""The text of explained out-of-memory messages, whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_text import assert_golden

from envkit.allocator.oom import explain_log
from envkit.model.documents import Oom
from envkit.render.github import render_github
from envkit.render.markdown import render_outcome
from envkit.render.oom_outcome import oom_outcome
from envkit.render.oom_text import MOST_SHOWN, render_oom_text
from envkit.render.style import Style

GOLDEN = Path(__file__).parent / "golden"
LOG = """\
epoch 3 step 120
[rank0]: Traceback (most recent call last):
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a \
total capacity of 40.00 GiB of which 512.00 MiB is free. Process 4711 has 39.25 GiB memory in \
use. Of the allocated memory 33.00 GiB is allocated by PyTorch, with 64.00 MiB allocated in \
private pools (e.g., CUDA Graphs), and 5.75 GiB is reserved by PyTorch but unallocated.
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a \
total capacity of 40.00 GiB of which 4.00 MiB is free. Process 4711 has 9.00 GiB memory in use. \
Including non-PyTorch memory, this process has 30.75 GiB memory in use. Of the allocated memory \
30.00 GiB is allocated by PyTorch, and 96.00 MiB is reserved by PyTorch but unallocated.
RuntimeError: CUDA error: out of memory
"""


@pytest.fixture
def found() -> Oom:
    return explain_log([LOG.encode()])


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("oom", Style()),
        ("oom-verbose", Style(verbosity=1, width=100)),
        ("oom-quiet", Style(verbosity=-1)),
        ("oom-ascii-color", Style(unicode=False, color=True)),
    ],
)
def test_golden(name: str, style: Style, found: Oom) -> None:
    text = render_oom_text(found, style)
    assert_golden(GOLDEN / f"{name}.txt", text)


def test_golden_markdown_and_annotations(found: Oom) -> None:
    outcome = oom_outcome(found)
    assert_golden(GOLDEN / "oom.md", render_outcome(outcome))
    assert_golden(GOLDEN / "oom.github.txt", render_github(outcome))


def test_only_the_first_are_shown_unless_more_is_asked_for() -> None:
    lines = [LOG.splitlines()[2].replace("1.50", f"1.{n:02}") for n in range(12)]
    many = explain_log(["\n".join(lines).encode()])
    assert "and 7 more (7 fragmentation): use -v or --json" in render_oom_text(many, Style())
    assert render_oom_text(many, Style()).count("rank0") == MOST_SHOWN
    assert render_oom_text(many, Style(verbosity=1)).count("rank0") == 12


def test_what_a_log_says_cannot_move_the_cursor() -> None:
    hostile = LOG.replace("[rank0]:", "(evil\u202e pid=1 \x1b[2J)")
    text = render_oom_text(explain_log([hostile.encode()]), Style())
    assert "\x1b" not in text
    assert "\u202e" not in text

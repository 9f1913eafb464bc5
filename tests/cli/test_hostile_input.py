"""`verify --from` on text that means harm: nothing reaches the terminal, nothing hangs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import run_envkit

import envkit

PASTE = (Path(__file__).parents[1] / "data" / "pastes" / "new-gpu.txt").read_text()
PROFILE = Path(envkit.__file__).parent / "schemas" / "examples" / "machine-1.json"
#: Clear the screen, a title, a link, a colour, a bell, right-to-left, a hidden mark, C1's CSI.
EVIL = "\x1b[2J\x1b]0;title\x07\x1b]8;;http://x.example\x1b\\link\x1b[31m\x07\u202e\u200b\x9b31m"
BAD = ("\x1b", "\x07", "\u202e", "\u200b", "\x9b", "\x00")


def run(folder: Path, content: bytes, *more: str) -> tuple[int, str, str]:
    (folder / "input").write_bytes(content)
    done = run_envkit("verify", "--from", folder / "input", *more)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def evil_profile() -> bytes:
    profile: dict[str, Any] = json.loads(PROFILE.read_text())
    profile["gpus"][0]["name"] = f"NVIDIA {EVIL} A100<script>alert(1)</script>"
    profile["env"] = {"CUDA_VISIBLE_DEVICES": f"{EVIL}7", "LD_LIBRARY_PATH": EVIL}
    profile["packages"] = {f"torch{EVIL}": EVIL, "torchvision": EVIL}
    return json.dumps(profile).encode()


@pytest.mark.parametrize("more", [(), ("-v",), ("--json",), ("--color", "always", "-q")])
@pytest.mark.parametrize("kind", ["paste", "profile"])
def test_nothing_of_an_input_moves_the_terminal(
    tmp_path: Path, kind: str, more: tuple[str, ...]
) -> None:
    paste = PASTE.replace("NVIDIA GeForce RTX 3090", f"RTX {EVIL} <b>3090</b>")
    content = paste.encode() if kind == "paste" else evil_profile()
    code, out, _ = run(tmp_path, content, *more)
    assert code in {0, 1, 3}
    without_colours = out if "always" not in more else out.replace("\x1b[", "")
    assert not [bad for bad in BAD if bad in without_colours]


def test_a_paste_full_of_colours_is_the_same_machine(tmp_path: Path) -> None:
    coloured = PASTE.replace("GeForce", "\x1b[1mGe\x1b[0mForce").replace(": ", ":\x1b[32m ")
    one, other = run(tmp_path, PASTE.encode(), "--json"), run(tmp_path, coloured.encode(), "--json")
    facts, again = (json.loads(out)["facts"] for _, out, _ in (one, other))
    assert one[0] == other[0] == 1
    assert facts["torch"] == again["torch"]
    assert facts["driver"] == again["driver"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(PASTE.encode() + b"x" * (10 << 20), id="10 MB line at the end"),
        pytest.param(b" " * (10 << 20) + PASTE.encode(), id="10 MB of blanks"),
        pytest.param(b"\x00" * 4096 + PASTE.encode(), id="NULs"),
        pytest.param(PASTE.encode().replace(b"NVIDIA", b"NV\x00DIA"), id="a NUL in a name"),
        pytest.param(bytes(range(256)) * 64, id="binary"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + PASTE.encode(), id="a picture's first bytes"),
        pytest.param(b"\xff\xfe" + PASTE.encode(), id="half a UTF-16"),
        pytest.param(
            b'{"schema": "envkit.machine/1", "driver": "' + b"9" * (10 << 20), id="cut JSON"
        ),
        pytest.param(b"[" * 200_000, id="deep JSON"),
        pytest.param(b"<html>" + b"<div>" * 300_000, id="HTML"),
    ],
)
def test_what_is_too_much_is_refused_or_judged_with_one_line(
    tmp_path: Path, content: bytes
) -> None:
    code, out, err = run(tmp_path, content)
    assert code in {0, 1, 2, 3}
    if code == 2:
        assert out == ""
        assert len(err.splitlines()) == 2
    assert len(out) + len(err) < 20_000
    assert not [bad for bad in BAD if bad in out + err]


@pytest.mark.parametrize(
    "page",
    [
        f"<!doctype html><html><body><pre>{PASTE}</pre></body></html>",
        f"<details>\n<summary>env</summary>\n\n```text\n{PASTE}```\n</details>\n",
        f"<script>alert(1)</script>\n{PASTE}",
    ],
)
def test_a_paste_inside_a_page_is_judged(tmp_path: Path, page: str) -> None:
    code, out, _ = run(tmp_path, page.encode(), "--json")
    assert code == 1
    assert {"GPU002", "GPU003"} <= {one["code"] for one in json.loads(out)["findings"]}


def test_a_long_line_that_is_a_paste_is_judged(tmp_path: Path) -> None:
    filler = "x" * (2 << 20)
    code, out, _ = run(tmp_path, f"{filler} {PASTE}".encode(), "--json")
    assert code == 1
    assert len(out) < 100_000

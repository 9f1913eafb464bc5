"""Every kind of input is recognised by what it holds; a broken one is an error that says where."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from compared import BASE_REPORT, fingerprint

from envkit.errors import EnvkitError, InputError, UsageError
from envkit.model import codec
from envkit.workflows.diff_inputs import read_sides, recognise
from envkit.workflows.git_revision import is_git_revision, read_git_revision

EXPLICIT = "@EXPLICIT\nhttps://conda.anaconda.org/conda-forge/noarch/a-1-0.conda\n"
FREEZE = "numpy==2.3.1\ntorch==2.9.1+cu128\n-e git+https://example.org/x@0123abc#egg=mine\n"
LIST = "# packages in environment at /x:\n#\nnumpy 2.3.1 py312_0 conda-forge\n"
PASTE = """\
PyTorch version: 2.9.1+cu128
CUDA used to build PyTorch: 12.8
OS: Ubuntu 24.04.3 LTS (x86_64)
Nvidia driver version: 570.124.06
[pip3] numpy==2.3.4
"""
REPORT = codec.encode(BASE_REPORT).decode()
TEXTS = {
    "report": REPORT,
    "fingerprint": json.dumps(fingerprint()),
    "machine": '{"schema":"envkit.machine/1","driver":"535.146.02"}',
    "collect_env": PASTE,
    "explicit-lock": EXPLICIT,
    "environment.yml": "name: x\ndependencies:\n- python=3.12\n",
    "conda-list": LIST,
    "pip-freeze": FREEZE,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_kinds_are_recognised_by_content(kind: str) -> None:
    found = recognise(TEXTS[kind].encode(), "some/path.dat", label="path.dat")
    assert found.kind == kind
    assert found.path == "some/path.dat"
    assert found.facts or found.fingerprint or found.packages


@pytest.mark.parametrize("kind", TEXTS)
def test_a_mark_at_the_start_or_windows_line_ends_change_nothing(kind: str) -> None:
    text = TEXTS[kind]
    for content in (b"\xef\xbb\xbf" + text.encode(), text.replace("\n", "\r\n").encode()):
        assert recognise(content, "x", label="x").kind == kind


def test_a_label_of_a_report_is_its_name() -> None:
    assert recognise(REPORT.encode(), "x.json", label="x.json").label == "lab-1"


def test_a_folder_of_reports_and_labels_that_are_the_same(tmp_path: Path) -> None:
    for name in ("b.json", "a.json"):
        (tmp_path / name).write_text(REPORT)
    (tmp_path / "notes.txt").write_text("not read")
    sides = read_sides([str(tmp_path)], {})
    assert [side.label for side in sides] == [str(tmp_path / "a.json"), str(tmp_path / "b.json")]


@pytest.mark.parametrize(
    "labels",
    [
        ["x", "x", "x"],
        ["1.json", "x", "x"],
        ["x", "x", "0.json", "0.json (2)"],
        ["x (2)", "x", "x"],
    ],
)
def test_labels_are_all_different_whatever_files_call_themselves(
    labels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = []
    for number, label in enumerate(labels):
        names.append(f"{number}.json")
        Path(names[-1]).write_text(REPORT.replace('"label": "lab-1"', f'"label": "{label}"'))
    found = [side.label for side in read_sides(names, {})]
    assert len(set(found)) == len(labels)


def test_a_prefix_is_read_as_one(tmp_path: Path) -> None:
    prefix = tmp_path / "env"
    site = prefix / "lib/python3.12/site-packages/numpy-2.3.1.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Name: numpy\nVersion: 2.3.1\n")
    (prefix / "pyvenv.cfg").write_text("version = 3.12.1\n")
    (prefix / "bin").mkdir()
    freeze = tmp_path / "freeze.txt"
    freeze.write_text("numpy==2.3.1\n")
    one, other = read_sides([str(prefix), str(freeze)], {})
    assert (one.kind, other.kind) == ("prefix", "pip-freeze")
    assert one.packages is not None
    assert [p.name for p in one.packages.listed] == ["numpy"]


HOSTILE = {
    "deep": ("[" * 100_000, "nested deeper"),
    "deep objects": ('{"a":' * 5000 + "1" + "}" * 5000, "nested deeper"),
    "huge number": (
        '{"schema":"envkit.machine/1","gpus":[{"memory_bytes":' + "9" * 5000 + "}]}",
        "too large",
    ),
    "a key twice": ('{"schema":"envkit.machine/1","driver":"1","driver":"2"}', "stands twice"),
    "not a number": ('{"schema":"envkit.machine/1","gpus":[{"memory_bytes":NaN}]}', "not JSON"),
    "a wrong type": (
        '{"schema":"envkit.machine/1","gpus":[{"memory_bytes":"many"}]}',
        r"\$\.gpus\[0\]\.memory_bytes",
    ),
    "an unknown document": ('{"schema":"envkit.oom/1"}', "of the kind"),
    "no schema": ('{"a": 1}', "without a schema"),
    "aliases": ("dependencies: &a [x]\nchannels: [*a, *a]\n", "x:1"),
    "a yaml tag": ("dependencies: !!python/object/apply:os.system [ls]\n", "x:1"),
    "a lock of another format": ("version: 9\nmetadata: {}\npackage: []\n", "format"),
    "a bad address": ("@EXPLICIT\njavascript:alert(1)\n", "x:2"),
    "a bad row": ("# packages in environment at /x:\nnumpy\n", "x:2"),
    "control characters": ("\x1b[2J\x1b[1;1Hgone", "none of the texts"),
    "binary": ("\0\1\2", "binary"),
    "more values than any": ("[" + "[]," * 1_000_000 + "1]", "more than 500000 values"),
    "half a character": (
        '{"schema":"envkit.machine/1","packages":{"\\ud800":"1"}}',
        "half a character",
    ),
    "a text without end": ("hello world " * 3_000_000, "more than 32 MiB"),
    "a lock of nothing": ("metadata: 1\npackage:\n" + "- a\n" * 1_500_000, "lines and commas"),
    "twice": ("numpy==1\nnumpy==2\n", "x:2"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_input_is_an_error_with_its_place(name: str) -> None:
    content, said = HOSTILE[name]
    begun = time.perf_counter()
    with pytest.raises(InputError, match=said) as caught:
        recognise(content.encode(), "x", label="x")
    assert time.perf_counter() - begun < 5, "it must not be worked through"
    assert caught.value.exit_code == 2
    assert caught.value.next_step


def test_a_pipe_that_nobody_writes_to_is_an_error(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="nobody writes to"):
        read_sides([str(pipe), str(pipe)], {})


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe, other = tmp_path / "pipe", tmp_path / "other"
    os.mkfifo(pipe)
    other.write_text(FREEZE)
    slow = [
        "sh",
        "-c",
        'exec 3>"$0"; sleep 0.2; printf "numpy==1\\n" >&3; sleep 0.2; printf "b==2" >&3',
    ]
    with subprocess.Popen([*slow, str(pipe)]):
        found = read_sides([str(pipe), str(other)], {})[0]
    assert found.packages is not None
    assert [one.name for one in found.packages.listed] == ["numpy", "b"]


def test_a_report_of_a_folder_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(REPORT)
    opened = Path.open

    def refused(path: Path, *args: Any, **more: Any) -> Any:
        if path.name == "b.json":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **more)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(InputError, match=r"b\.json cannot be read: Permission denied"):
        read_sides([str(tmp_path)], {})


def test_a_broken_report_of_a_folder_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(REPORT)
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "b.json"))):
        read_sides([str(tmp_path)], {})


def test_every_cut_of_a_report_is_an_error_not_a_crash() -> None:
    for end in range(0, len(REPORT) - 2, max(1, len(REPORT) // 60)):
        with pytest.raises(EnvkitError):
            recognise(REPORT[:end].encode(), "x", label="x")


@pytest.mark.parametrize("names", [["one.txt"], ["-", "-"]])
def test_too_little_to_compare(names: list[str], tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(FREEZE)
    with pytest.raises(UsageError):
        read_sides([str(tmp_path / n) if n != "-" else n for n in names], {})


def test_a_missing_file_and_an_empty_folder(tmp_path: Path) -> None:
    for name in ("missing.json", ""):
        with pytest.raises(InputError):
            read_sides([str(tmp_path / name), str(tmp_path / name)], {})


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)  # noqa: S607

    git("init", "-q")
    git("config", "user.email", "somebody@example.org")
    git("config", "user.name", "Somebody")
    for text in ("numpy==1.0\n", "numpy==2.0\n"):
        (tmp_path / "freeze.txt").write_text(text)
        git("add", "-A")
        git("commit", "-qm", "a version")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("repository")
def test_a_file_at_two_revisions() -> None:
    one, other = read_sides(["HEAD~1:freeze.txt", "freeze.txt"], {})
    assert one.packages is not None
    assert other.packages is not None
    assert one.packages.listed[0].version == "1.0"
    assert other.packages.listed[0].version == "2.0"
    assert one.path == one.label == "HEAD~1:freeze.txt"


@pytest.mark.parametrize(
    "name",
    ["HEAD:missing.txt", "nothing:freeze.txt", "--output=x:freeze.txt", "HEAD:", "-p:freeze.txt"],
)
def test_a_revision_that_is_none_is_an_error(name: str, repository: Path) -> None:
    with pytest.raises(InputError):
        read_git_revision(name)
    assert not (repository / "x:freeze.txt").exists()


def test_what_is_a_revision() -> None:
    assert is_git_revision("main:environments/vit.yml")
    assert not is_git_revision("C:/reports/x.json")
    assert not is_git_revision("https://example.org/x")
    assert not is_git_revision("-x:y")

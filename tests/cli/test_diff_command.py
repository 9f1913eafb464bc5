"""`envkit diff` as a process: exit codes, formats, files."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from compared import BASE_REPORT, facts, fingerprint, report
from golden_text import assert_golden
from running import run_envkit

import envkit
from envkit.model import codec

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = json.loads((Path(envkit.__file__).parent / "schemas/diff-1.schema.json").read_text())
A100 = "NVIDIA A100-SXM4-80GB"
CONF = "expandable_segments:True"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    hers = report(
        "hers", fingerprint(conf=CONF), facts(variables={"PYTORCH_CUDA_ALLOC_CONF": CONF})
    )
    for name, one in {
        "mine": BASE_REPORT,
        "same": report("same"),
        "hers": hers,
        "a100": report("a100", fingerprint(A100)),
    }.items():
        (folder / f"{name}.json").write_bytes(codec.encode(one))
    return folder


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        (("mine", "same"), (), 0),
        (("mine", "hers"), (), 1),
        (("mine", "hers"), ("--exit-zero",), 0),
        (("mine", "hers"), ("--require", "tensors,workspaces"), 0),
        (("mine", "a100"), (), 0),
        (("mine", "a100"), ("--require", "all"), 1),
        (("mine", "a100"), ("--require", "speed"), 2),
        (("mine", "missing"), (), 2),
        (("mine",), (), 2),
    ],
)
def test_exit_codes(
    team: Path, names: tuple[str, ...], options: tuple[str, ...], code: int
) -> None:
    files = [team / f"{name}.json" for name in names]
    assert run_envkit("diff", *files, *options).returncode == code


def test_a_bare_prefix_of_nothing_in_common_is_incomplete(team: Path, tmp_path: Path) -> None:
    (tmp_path / "freeze.txt").write_text("numpy==1\n")
    plain = json.loads((team / "mine.json").read_text())
    plain["facts"] = {}
    (tmp_path / "bare.json").write_text(json.dumps(plain))
    done = run_envkit("diff", tmp_path / "freeze.txt", tmp_path / "bare.json", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["verdict"]["status"] == "incomplete"


def test_the_document_fits_its_schema(team: Path) -> None:
    done = run_envkit("diff", team, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert next(iter(document)) == "schema"
    assert len(document["groups"]) == 2


def test_an_error_is_json_too(tmp_path: Path) -> None:
    done = run_envkit("diff", tmp_path / "a", tmp_path / "b", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["schema"] == "envkit.error/1"


@pytest.mark.parametrize(
    ("name", "names", "options"),
    [
        ("settings.txt", ("mine", "hers"), ()),
        ("settings.md", ("mine", "hers"), ("--format", "markdown")),
        ("settings-github.txt", ("mine", "hers"), ("--format", "github")),
        ("mixed-team.txt", ("mine", "a100"), ()),
        ("mixed-team.md", ("mine", "a100"), ("--format", "markdown")),
        ("fleet.txt", ("mine", "same", "hers", "a100"), ()),
        ("same-quiet.txt", ("mine", "same"), ("-q",)),
    ],
)
def test_output(team: Path, name: str, names: tuple[str, ...], options: tuple[str, ...]) -> None:
    files = [f"{one}.json" for one in names]
    done = run_envkit("diff", *files, *options, cwd=team, PYTHONIOENCODING="utf-8")
    assert done.stderr == ""
    assert_golden(GOLDEN / f"diff-{name}", done.stdout)


def test_a_file_gets_the_format_of_its_ending(team: Path, tmp_path: Path) -> None:
    for name, start in (("x.json", "{"), ("x.md", "### "), ("x.txt", "✔")):
        done = run_envkit("diff", team / "mine.json", team / "same.json", "-o", tmp_path / name)
        assert done.returncode == 0
        assert done.stdout.startswith("✔")
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_text_of_an_input_cannot_move_the_terminal_or_the_page(team: Path, tmp_path: Path) -> None:
    plain = json.loads((team / "hers.json").read_text())
    plain["label"] = "\x1b[2J<script>`::error::x"
    (tmp_path / "bad.json").write_text(json.dumps(plain))
    for kind in ("text", "markdown", "github", "json"):
        files = (team / "mine.json", tmp_path / "bad.json")
        done = run_envkit("diff", *files, "--format", kind)
        assert "\x1b" not in done.stdout
        if kind == "markdown":
            assert "<script>" not in done.stdout
        if kind == "github":
            assert all(line.startswith("::") for line in done.stdout.splitlines())


def test_explain_knows_the_causes() -> None:
    done = run_envkit("explain", "cau001")
    assert done.returncode == 0
    assert done.stdout.startswith("# CAU001: ")
    assert run_envkit("explain", "CAU999").returncode == 2

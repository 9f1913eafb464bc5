"""A command whose `-o` names a file that it reads writes nothing: what it reads would be lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from build_folders import small_wheel

import envkit.__main__ as entry
from envkit.cli.app import app
from envkit.specs.folders import baselines, environments

COMMANDS = (
    "verify --from input",
    "verify --against input",
    "verify --lock input",
    "verify --spec input",
    "lint input",
    "lint other input",
    "diff other input",
    "report input",
    "report input other",
    "lock input",
    "lock --check other input",
    "oom input",
    "memory replay input",
    "proof sign input --key other",
    "proof sign other --key input",
    "proof check input --signers other",
    "proof check other --signers input",
    "proof check other --signers other --signature input",
)
#: It runs a workload and reads no file.
READS_NOTHING = {"memory strategies"}
IN_A_TEST_OF_ITS_OWN = {"image"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_output(group: click.Group, before: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from with_output(command, f"{before}{name} ")
        elif any("-o" in option.opts for option in command.params):
            yield f"{before}{name}"


def test_every_command_with_o_is_here() -> None:
    assert isinstance(app, click.Group)
    tried = {name for name in with_output(app) for one in COMMANDS if f"{one} ".startswith(name)}
    assert {*with_output(app)} == tried | READS_NOTHING | IN_A_TEST_OF_ITS_OWN


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("output", ["input", "./input", "link", "twin"])
def test_an_input_is_not_written_over(
    command: str, output: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "input").write_text("what was read")
    (here / "other").write_text("and this")
    (here / "link").symlink_to("input")
    (here / "twin").hardlink_to(here / "input")
    assert entry.main([*command.split(), "-o", output]) == 2
    said = capsys.readouterr().err
    assert f"-o {Path(output)} would be written over input" in said.replace("./", "")
    assert (here / "input").read_text() == "what was read"
    assert len(list(here.iterdir())) == 4


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("lock some.yml --format text", "some.conda-lock.yml"),
        ("lock --check some.conda-lock.yml --format text", "some.yml"),
        ("lint vit --format text", str(environments() / "vit.yml")),
        ("verify --spec vit", str(environments() / "vit.conda-lock.yml")),
        ("verify --against h200-torch2.11.0", str(baselines() / "h200-torch2.11.0.json")),
        ("verify --against team/lab.json --label lab", "team/"),
        ("verify --from team/lab.json --label lab", "team"),
        ("report team", "team/lab.json"),
        ("diff team/", "team/lab.json"),
        ("proof check team/lab.json --signers some.yml --format text", "team/lab.json.sig"),
    ],
)
def test_neither_is_what_an_input_stands_for(
    command: str, output: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "some.yml").write_text("dependencies: [python]\n")
    (here / "team").mkdir()
    (here / "team/lab.json").write_bytes((baselines() / "h200-torch2.11.0.json").read_bytes())
    (here / "team/lab.json.sig").write_text("signed")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert entry.main([*command.split(), "-o", output]) == 2
    # A spec's lock is no report, and `verify` says that first.
    said = "over a file that is no report" if "--spec" in command else "would be written over"
    assert said in capsys.readouterr().err
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_a_rank_keeps_the_report_that_it_is_held_against(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "a"}
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    old = here / "ranks/machine-rank-0.json"
    old.parent.mkdir()
    before = (baselines() / "h200-torch2.11.0.json").read_bytes()
    old.write_bytes(before)
    assert entry.main(["verify", "--against", str(old), "-o", "ranks/"]) == 2
    assert "would be written over" in capsys.readouterr().err
    assert old.read_bytes() == before


@pytest.mark.parametrize("read", ["lock", "wheel"])
def test_a_build_folder_is_not_written_over_what_it_is_made_of(
    read: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = {"lock": environments() / "cpu.conda-lock.yml", "wheel": small_wheel(here)}
    content = sources[read].read_bytes()
    written = here / "box/Dockerfile"
    written.parent.mkdir()
    written.write_bytes(content)
    link = here / "links" / sources[read].name
    link.parent.mkdir()
    link.symlink_to(written)
    sources[read] = link
    wheel = ("--envkit-wheel", str(sources["wheel"]))
    assert entry.main(["image", str(sources["lock"]), "--force", "-o", "box", *wheel]) == 2
    assert f"-o box/Dockerfile would be written over {link}" in capsys.readouterr().err
    assert written.read_bytes() == content

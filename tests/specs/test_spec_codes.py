"""Each code: texts that must bring it, at which line, and near ones that must not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_texts import TODAY, codes, spec_of, spec_text

from envkit.model.finding import Severity
from envkit.model.spec_codes import SPEC_CODES
from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.lint.engine import CHECKS, lint
from envkit.specs.lint.subject import Registered, Surroundings

CLEAN = spec_text(
    "python=3.12", "pytorch=2.8.0=*cuda129*", "cuda-version=12.9", "pytorch-gpu", "torchvision"
)
PYTORCH = ("pytorch", "nvidia", "conda-forge", "nodefaults")
FORGE_FIRST = ("conda-forge", "pytorch", "nvidia", "nodefaults")
PIP = "pip:\n    - "

FIRES = [
    ("SPC001", spec_text("pytorch=2.8.0=*cuda129*"), 5),
    ("SPC001", spec_text("numpy", "python>=3.10"), 7),
    ("SPC001", spec_text("python<3.13"), 6),
    ("SPC002", spec_text("python=3.12", "pytorch=*=*cuda129*"), 7),
    ("SPC002", spec_text("pytorch>=2.1=*cuda*"), 6),
    ("SPC002", spec_text("pytorch=2"), 6),
    ("SPC002", spec_text(PIP + "torch"), 7),
    ("SPC002", spec_text(PIP + "torch<2.8"), 7),
    ("SPC003", spec_text("pytorch=2.8.0", "cuda-version=12.9"), 6),
    ("SPC003", spec_text("pytorch=2.2.2", channels=PYTORCH), 8),
    ("SPC003", spec_text("pytorch=1.13.1", "cudatoolkit=11.7", channels=PYTORCH), 8),
    ("SPC004", spec_text("pytorch=2.6.0", "pytorch-cuda=12.4", channels=PYTORCH), 8),
    ("SPC004", spec_text("pytorch::pytorch>=2.6", channels=PYTORCH), 8),
    ("SPC004", spec_text("pytorch=2.5.1", "pytorch-cuda=12.6", channels=PYTORCH), 9),
    ("SPC004", spec_text("pytorch=2.5.1", "pytorch-cuda=11.7", channels=PYTORCH), 9),
    ("SPC004", spec_text("pytorch=2.5.1", "pytorch-cuda=12.4"), 7),
    ("SPC005", spec_text("pytorch=2.1.0", "pytorch-cuda=12.1", channels=FORGE_FIRST), 8),
    ("SPC005", spec_text("conda-forge::pytorch=2.1.0", "pytorch-cuda=12.1", channels=PYTORCH), 8),
    ("SPC005", spec_text("pytorch-gpu=2.1.0", "pytorch-cuda=12.1", channels=PYTORCH), 8),
    ("SPC006", spec_text("pytorch=1.13.1", "cudatoolkit=11.7", channels=PYTORCH), 9),
    ("SPC006", spec_text("cudatoolkit=11.7", PIP + "torch==2.0.1"), 6),
    ("SPC007", spec_text("pytorch=2.8.0=*cuda129*", PIP + "torch==2.8.0"), 8),
    ("SPC008", spec_text("python=3.12", channels=("conda-forge", "defaults")), 4),
    ("SPC008", spec_text("python=3.12", channels=("anaconda", "conda-forge")), 3),
    ("SPC008", spec_text("python=3.12", channels=("https://repo.anaconda.com/pkgs/main",)), 3),
    ("SPC008", spec_text("python=3.12", channels=("conda-forge",)), 2),
    ("SPC008", "dependencies: [python=3.12]\n", 1),
    ("SPC009", CLEAN + "prefix: /home/me/envs/x\n", 11),
    ("SPC009", spec_text(*(f"p{i}=1.{i}=h0_{i}" for i in range(5)), "python=3.12"), 6),
    ("SPC010", CLEAN + "dependancies: []\n", 11),
    ("SPC010", spec_text("python=3.12", "npm:\n    - left-pad"), 7),
    ("SPC011", spec_text("python=3.9"), 6),
    ("SPC011", spec_text("python>=3.8,<3.10"), 6),
    ("SPC011", spec_text("python=2.7"), 6),
    ("SPC012", spec_text("pytorch=2.2.2", "numpy", channels=PYTORCH), 8),
    ("SPC012", spec_text("python=3.10", "numpy<=2.0", PIP + "torch==2.2.2"), 9),
    ("SPC012", spec_text("pytorch=1.10", channels=PYTORCH), 8),
    ("SPC013", spec_text("pytorch=2.2.2", "mkl", channels=PYTORCH), 8),
    ("SPC013", spec_text("pytorch=2.3.1", channels=PYTORCH), 8),
    ("SPC014", spec_text("pytorch=2.5.1", "pytorch-cuda=12.1", channels=PYTORCH), 9),
    ("SPC014", spec_text("pytorch=2.7.1=*cuda126*"), 6),
    ("SPC014", spec_text("pytorch=1.9.0=py3.8_cuda11.1_cudnn8.0.5_0", channels=PYTORCH), 8),
    ("SPC014", spec_text(PIP + "torch==2.4.0+cu121"), 7),
    ("SPC014", spec_text("cudatoolkit=10.2"), 6),
    ("SPC015", spec_text("python=3.12", channels=("https://mirror.example/conda-forge",)), 3),
    ("SPC015", spec_text("python=3.12", channels=("http://conda.anaconda.org/conda-forge",)), 3),
    ("SPC015", spec_text("python=3.12", channels=("https://[mirror",)), 3),
    ("SPC015", spec_text("https://files.example/linux-64/zlib-1.3-h0_1.conda"), 6),
    ("SPC016", spec_text(PIP + "--extra-index-url https://index.example/simple"), 7),
    ("SPC016", spec_text(PIP + "--extra-index-url https://[index"), 7),
    ("SPC016", spec_text(PIP + "tool @ https://[index/tool.whl"), 7),
    ("SPC016", spec_text(PIP + "-f https://index.example/x.html"), 7),
    ("SPC016", spec_text(PIP + "tqdm==4.66.1"), 7),
]

STAYS_SILENT = [
    ("SPC001", spec_text("python=3.12")),
    ("SPC001", spec_text("python>=3.10,<3.13")),
    ("SPC001", spec_text("conda-forge::python 3.11.*")),
    ("SPC002", spec_text("pytorch~=2.7.0=*cuda126*")),
    ("SPC002", spec_text("pytorch>=2.7.0,<2.8=*cuda126*")),
    ("SPC002", spec_text("python=3.12", "pytorch-lightning", PIP + "torchmetrics")),
    ("SPC003", spec_text("pytorch=2.8.0=*cuda129*")),
    ("SPC003", spec_text("pytorch=2.8.0=cuda129_mkl_py312_h0_302")),
    ("SPC003", spec_text("pytorch=2.8.0", "pytorch-gpu")),
    ("SPC003", spec_text("pytorch=2.8.0=*cpu*")),
    ("SPC003", spec_text("pytorch=2.5.1", "cpuonly", channels=PYTORCH)),
    ("SPC003", spec_text("pytorch-cpu=2.8.0")),
    ("SPC003", spec_text("pytorch=1.12.1", "cudatoolkit=11.6", channels=PYTORCH)),
    ("SPC003", spec_text("pytorch=2.0.1", "cudatoolkit=11.8", channels=FORGE_FIRST)),
    ("SPC003", spec_text(PIP + "torch==2.8.0")),
    ("SPC004", spec_text("pytorch", "pytorch-cuda=12.1", channels=PYTORCH)),
    ("SPC004", spec_text("pytorch=2.5.1", "pytorch-cuda=12.4", channels=PYTORCH)),
    ("SPC004", spec_text("pytorch=2.0.1", "pytorch-cuda~=11.8.0", channels=PYTORCH)),
    ("SPC004", spec_text("pytorch=2.0.0", "pytorch-cuda=11.7.0", channels=PYTORCH)),
    ("SPC004", spec_text("pytorch=2.6.0=*cuda126*", channels=FORGE_FIRST)),
    ("SPC005", spec_text("pytorch::pytorch=2.5.1", "pytorch-cuda=12.4", channels=FORGE_FIRST)),
    ("SPC005", spec_text("pytorch-cuda=12.1", channels=FORGE_FIRST)),
    ("SPC006", spec_text("pytorch=1.12.1", "cudatoolkit=11.6", channels=PYTORCH)),
    ("SPC006", spec_text("pytorch=2.0.1", "cudatoolkit=11.8", channels=FORGE_FIRST)),
    ("SPC007", spec_text(PIP + "torch==2.8.0\n    - torch==2.8.0")),
    ("SPC008", CLEAN),
    ("SPC009", spec_text("python=3.12", "pytorch=2.8.0=cuda129_mkl_py312_h0_302")),
    ("SPC009", spec_text(*(f"p{i}=1.{i}=*_{i}" for i in range(9)))),
    ("SPC010", CLEAN + "platforms: [linux-64]\ncategory: dev\nvariables: {A: b}\n"),
    ("SPC011", spec_text("python=3.12")),
    ("SPC011", spec_text("python>=3.8")),
    ("SPC012", spec_text("pytorch=2.3.0", channels=PYTORCH)),
    ("SPC012", spec_text("pytorch=2.2.2", "numpy<2", channels=PYTORCH)),
    ("SPC012", spec_text("pytorch=2.2.2", PIP + "numpy==1.26.4", channels=PYTORCH)),
    ("SPC012", spec_text("python=3.8", "pytorch=2.2.2", channels=PYTORCH)),
    ("SPC012", spec_text("pytorch=2.2.2=*cuda*")),
    ("SPC013", spec_text("pytorch=2.4.0", channels=PYTORCH)),
    ("SPC013", spec_text("pytorch=2.2.2", "mkl=2024.0.0", channels=PYTORCH)),
    ("SPC013", spec_text("pytorch=2.2.2", "mkl<2024.1", channels=PYTORCH)),
    ("SPC013", spec_text("pytorch=2.2.2=*cuda*")),
    ("SPC014", CLEAN),
    ("SPC014", spec_text("pytorch=2.8.0=*cpu*")),
    ("SPC014", spec_text("cuda-version>=12.0")),
    ("SPC015", spec_text("python=3.12", channels=("https://conda.anaconda.org/conda-forge",))),
    ("SPC016", spec_text("pip", PIP + "-e .")),
    ("SPC016", spec_text(PIP + "tqdm==4.66.1 --hash=sha256:00")),
]


@pytest.mark.parametrize(("code", "text", "line"), FIRES)
def test_it_fires_at_the_line(code: str, text: str, line: int) -> None:
    assert codes(text).get(code) == line


@pytest.mark.parametrize(("code", "text"), STAYS_SILENT)
def test_it_stays_silent(code: str, text: str) -> None:
    assert code not in codes(text)


def test_a_good_spec_has_no_fault() -> None:
    assert codes(CLEAN) == {}


def test_every_code_has_a_check_and_a_text_that_brings_it() -> None:
    known = {one.code for one in SPEC_CODES}
    assert set(CHECKS) == known
    assert {code for code, _, _ in FIRES} == known - {"SPC017"}
    assert {code for code, _ in STAYS_SILENT} == known - {"SPC017"}


DL_EXP = spec_text(
    "python=3.11",
    "pytorch",
    "torchvision",
    "torchaudio",
    "pytorch-cuda=12.1",
    "jupyter",
    "matplotlib",
    channels=("pytorch", "nvidia"),
)


def test_the_tutorial_environment() -> None:
    """Unpinned, it resolves to 2.5.1: a warning, and no talk of a channel that lacks it."""
    assert codes(DL_EXP) == {"SPC002": 7, "SPC008": 2, "SPC014": 10}


def test_a_python_ends_on_its_day() -> None:
    text = spec_text("python=3.10")
    assert "SPC011" not in codes(text, today=dt.date(2026, 10, 31))
    assert "SPC011" in codes(text, today=dt.date(2026, 11, 1))


def test_defaults_in_the_solve_weigh_less_when_the_lock_has_none_of_it() -> None:
    spec = spec_of(spec_text("python=3.12", channels=("conda-forge",)))
    for channels, severity in (
        (None, Severity.WARNING),
        (frozenset({"conda-forge"}), Severity.INFO),
        (frozenset({"conda-forge", "pkgs/main"}), Severity.WARNING),
    ):
        around = Surroundings(today=TODAY, lock_channels=channels)
        assert [(one.code, one.severity) for one in lint(spec, around)] == [("SPC008", severity)]


def test_a_torch_that_another_channel_has_is_a_warning() -> None:
    spec = spec_of(spec_text("pytorch=2.6.0=*cuda126*", channels=PYTORCH))
    found = {one.code: one.severity for one in lint(spec, Surroundings(today=TODAY))}
    assert found["SPC004"] is Severity.WARNING
    alone = spec_of(spec_text("pytorch=2.6.0", channels=("pytorch", "nvidia", "nodefaults")))
    found = {one.code: one.severity for one in lint(alone, Surroundings(today=TODAY))}
    assert found["SPC004"] is Severity.ERROR


def _registered(text: str, published: str | None) -> Registered:
    return Registered(
        name="test",
        version="1.0.0",
        content_hash=content_hash(spec_of(text)),
        published_hash=content_hash(spec_of(published)) if published else None,
        source="environments/envkit.toml",
    )


def test_a_registered_spec_may_change_only_with_its_version() -> None:
    changed = CLEAN.replace("python=3.12", "python=3.13")
    commented = CLEAN.replace("name: test", "# new comment\nname: test")
    assert codes(CLEAN, registered=_registered(CLEAN, CLEAN)) == {}
    assert codes(CLEAN, registered=_registered(CLEAN, None)) == {}
    assert codes(commented, registered=_registered(CLEAN, CLEAN)) == {}
    assert codes(changed, registered=_registered(CLEAN, CLEAN)) == {"SPC017": 1}
    assert codes(changed, registered=_registered(CLEAN, None)) == {"SPC017": 1}
    # The hash in the registry was edited along, the version was not.
    assert codes(changed, registered=_registered(changed, CLEAN)) == {"SPC017": 1}


def test_addresses_are_shown_without_secrets() -> None:
    address = "https://me:word@host.example/t/to-ken/channel"
    text = spec_text(
        PIP + "--index-url https://u:word@index.example/simple?t=1", channels=(address,)
    )
    found = lint(spec_of(text), Surroundings(today=TODAY))
    shown = repr([one for one in found if one.code in {"SPC015", "SPC016"}])
    assert "host.example" in shown
    assert "index.example" in shown
    assert "word" not in shown
    assert "to-ken" not in shown


def test_the_prefix_is_not_repeated() -> None:
    found = lint(spec_of(CLEAN + "prefix: /home/me/envs/x\n"), Surroundings(today=TODAY))
    assert "/home/me" not in repr(found)


def test_every_finding_has_a_line_evidence_and_a_fix() -> None:
    for _, text, _ in FIRES:
        for one in lint(spec_of(text), Surroundings(today=TODAY)):
            assert 1 <= one.line <= text.count("\n") + 1
            assert one.evidence
            assert one.evidence[0].source == f"environment.yml:{one.line}"
            assert one.fix.text
            assert one.url.startswith("https://")


words = st.sampled_from(
    ["python", "pytorch", "pytorch-cuda", "pytorch-gpu", "cudatoolkit", "numpy", "mkl", "cpuonly"]
)
versions = st.sampled_from(
    [
        "",
        "=2",
        "=2.5.1",
        ">=1.10,<2.3",
        "<2.8",
        "=12.1",
        "=1.13.0=*cuda11*",
        "!=1",
        "~=3.9",
        "*=*cpu*",
    ]
)
channels = st.lists(
    st.sampled_from(["pytorch", "nvidia", "conda-forge", "defaults", "nodefaults", "other"]),
    max_size=4,
    unique=True,
)


@given(st.lists(st.tuples(words, versions), max_size=5), st.lists(versions, max_size=2), channels)
def test_any_readable_spec_can_be_judged(
    conda: list[tuple[str, str]], pip: list[str], named: list[str]
) -> None:
    entries = [f"'{name}{version}'" for name, version in conda]
    lines = [f"'torch{one}'" for one in pip if "*" not in one and not one.startswith("=")]
    text = f"channels: [{', '.join(named)}]\ndependencies: [{', '.join(entries)}]\n"
    if lines:
        text = text.replace("dependencies: [", f"dependencies: [{{pip: [{', '.join(lines)}]}}, ")
    found = codes(text)
    assert set(found) <= {one.code for one in SPEC_CODES}
    assert found == codes(text), "the same text has the same faults"


def test_labels_of_the_corpus(shared: Path) -> None:
    """50 specs of known projects, with the codes that must and must not be reported."""
    import json  # noqa: PLC0415 (only here)

    wrong = []
    for row in (shared / "corpus" / "labels" / "env.jsonl").read_text().splitlines():
        label = json.loads(row)
        spec = read_spec_file(shared / "corpus" / "env" / f"{label['id']}.yml")
        found = {one.code for one in lint(spec, Surroundings(today=TODAY))}
        missed = [one for one in label["must"] if not found & set(one.split("|"))]
        alarms = sorted(found & set(label["must_not"]))
        if missed or alarms:
            wrong.append((label["id"], missed, alarms))
    assert wrong == []

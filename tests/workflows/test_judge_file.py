from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envkit
from envkit.errors import EnvkitError, InputError
from envkit.model.observed import Known
from envkit.workflows.judge_file import judge_file
from envkit.workflows.request import VerifyRequest

EXAMPLES = Path(envkit.__file__).parent / "schemas" / "examples"
REQUEST = VerifyRequest()


def test_a_machine_profile_is_judged() -> None:
    report = judge_file(str(EXAMPLES / "machine-1.json"), REQUEST, clock=lambda: "2026-11-30")
    assert report.target.kind == "recorded"
    assert report.target.chosen_by == "--from machine-1.json"
    assert "DRV003" in {finding.code for finding in report.findings}
    assert report.verdict.exit_code == 0
    assert report.created == "2026-11-30"


def test_a_report_keeps_its_label_date_and_target() -> None:
    report = judge_file(str(EXAMPLES / "report-1.json"), REQUEST)
    assert (report.label, report.created) == ("lab-1", "2026-11-30T12:00:00Z")
    assert report.target.chosen_by == "CONDA_PREFIX"
    renamed = judge_file(str(EXAMPLES / "report-1.json"), VerifyRequest(label="other"))
    assert renamed.label == "other"


def test_a_flag_tightens_the_verdict_and_a_configuration_does_not(tmp_path: Path) -> None:
    profile = json.loads((EXAMPLES / "machine-1.json").read_text())
    profile["packages"]["torchvision"] = "0.20.0+cu124"
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile))
    report = judge_file(str(path), REQUEST)
    assert report.verdict.exit_code in {0, 1}
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report))

    def code(source: str) -> int:
        request = VerifyRequest(fail_on=Known(value="warning", source=source))
        return judge_file(str(tmp_path / "report.json"), request).verdict.exit_code

    assert code("envkit.toml") == report.verdict.exit_code
    assert code("--fail-on") == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_shells_of_windows_write_can_be_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "report.json"
    path.write_text((EXAMPLES / "report-1.json").read_text(), encoding=encoding)
    assert judge_file(str(path), REQUEST).label == "lab-1"


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "text": b"hello\n",
    "binary": bytes(range(256)),
    "elf": b"\x7fELF\x00\x00",
    "truncated": (EXAMPLES / "report-1.json").read_bytes()[:900],
    "list": b"[]",
    "number": b"3",
    "no-schema": b"{}",
    "other-schema": (EXAMPLES / "diff-1.json").read_bytes(),
    "schema-is-no-text": b'{"schema": 3}',
    "twice": b'{"schema": "envkit.machine/1", "schema": "envkit.machine/1"}',
    "nan": b'{"schema": "envkit.machine/1", "glibc": NaN}',
    "deep": b'{"schema": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "huge-number": b'{"schema": "envkit.machine/1", "gpus": [{"memory_bytes": '
    + b"9" * 5000
    + b"}]}",
    "unknown-field": b'{"schema": "envkit.machine/1", "drivr": "1"}',
    "wrong-type": b'{"schema": "envkit.machine/1", "driver": 5}',
    "not-utf-8": b'{"schema": "envkit.machine/1", "driver": "\xff"}',
    "odd-utf-16": b"\xff\xfe{",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_judged_is_an_input_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(InputError) as raised:
        judge_file(str(path), REQUEST)
    assert raised.value.exit_code == 2
    assert "input" in raised.value.message
    assert raised.value.next_step


@pytest.mark.parametrize("name", ["missing", ".", "a\0b", "x" * 5000])
def test_what_cannot_be_read_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        judge_file(f"{tmp_path}/{name}", REQUEST)


def mutated(document: dict[str, Any], path: tuple[str | int, ...], value: Any) -> bytes:
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document).encode()


@given(
    name=st.sampled_from(["report-1", "machine-1"]),
    damage=st.tuples(st.integers(0, 20_000), st.integers(0, 40), st.binary(max_size=20)),
)
@settings(max_examples=150, deadline=None)
def test_no_damage_to_a_file_is_a_crash(
    tmp_path_factory: pytest.TempPathFactory, name: str, damage: tuple[int, int, bytes]
) -> None:
    start, length, inserted = damage
    content = (EXAMPLES / f"{name}.json").read_bytes()
    at = start % len(content)
    path = tmp_path_factory.mktemp("damaged") / "input"
    path.write_bytes(content[:at] + inserted + content[at + length :])
    try:
        judge_file(str(path), REQUEST)
    except EnvkitError as error:
        assert error.exit_code == 2  # noqa: PT017 (most damage is refused; the rest is judged)


@pytest.mark.parametrize(
    "path",
    [
        ("facts", "request", "fail_on"),
        ("facts", "request", "waivers"),
        ("facts", "torch", "version"),
        ("facts", "driver", "version"),
        ("created",),
    ],
)
@pytest.mark.parametrize("value", ["", "\x1b[2J", "x" * 10_000, "9" * 400, "🙂"])
def test_any_text_in_a_report_is_judged_or_refused(
    tmp_path: Path, path: tuple[str, ...], value: str
) -> None:
    document = json.loads((EXAMPLES / "report-1.json").read_text())
    fact: Any = {"state": "known", "value": value, "source": "x"}
    if path[-1] == "waivers":
        fact["value"] = [{"code": value, "reason": value, "until": value}]
    content = mutated(document, path, value if path == ("created",) else fact)
    (tmp_path / "input").write_bytes(content)
    try:
        report = judge_file(str(tmp_path / "input"), REQUEST)
    except InputError:
        return
    assert report.verdict.exit_code in {0, 1, 3}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of everything below a JSON value."""
    if isinstance(value, dict):
        return [p for key in value for p in [(*path, key), *leaves(value[key], (*path, key))]]
    if isinstance(value, list):
        return [p for i in range(len(value)) for p in [(*path, i), *leaves(value[i], (*path, i))]]
    return []


SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10**12) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(name=st.sampled_from(["report-1", "machine-1"]), pick=st.randoms(), value=SMALL)
@settings(max_examples=300, deadline=None)
def test_any_value_anywhere_is_judged_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, pick: Any, value: Any
) -> None:
    document = json.loads((EXAMPLES / f"{name}.json").read_text())
    path = tmp_path_factory.getbasetemp() / "anything.json"
    path.write_bytes(mutated(document, pick.choice(leaves(document)), value))
    try:
        report = judge_file(str(path), REQUEST)
    except InputError:
        return
    assert report.verdict.exit_code in {0, 1, 3}


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"gpus": [{"compute_capability": "9.0"}] * 1025}, "1025 entries, 1024 at most"),
        ({"env": {f"V{i}": "" for i in range(10_001)}}, "10001 entries, 10000 at most"),
        ({"packages": {f"p{i}": "1" for i in range(10_001)}}, "10001 entries"),
        ({"torch": {"arch_list": ["sm_90"] * 10_001}}, "10001 entries"),
        ({"python": "3" * (1 << 20)}, "a machine profile has at most"),
        ({"gpus": [[]] * 500_001}, "more than 500000 values"),
    ],
)
def test_a_document_of_no_machine_is_refused_before_it_is_judged(
    tmp_path: Path, profile: dict[str, Any], said: str
) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"schema": "envkit.machine/1", **profile}))
    with pytest.raises(InputError, match=said):
        judge_file(str(path), REQUEST)


def test_a_report_with_a_list_of_no_machine_is_refused(tmp_path: Path) -> None:
    report = json.loads((EXAMPLES / "report-1.json").read_text())
    report["facts"]["pip"] = {
        "distributions": {"state": "known", "source": "", "value": [{}] * 10_001}
    }
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    with pytest.raises(InputError, match="10001 entries"):
        judge_file(str(path), REQUEST)

"""Six reports and three other documents in every format that programs read."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints
from xml.etree import ElementTree as ET

import jsonschema
import msgspec
import pytest
from drawn_documents import DIFF, HOSTILE, LINT, LINTED, LOCK
from golden_text import assert_golden
from hypothesis import given
from hypothesis import strategies as st
from reports import REPORTS

from envkit.model import codec
from envkit.model.documents import DiffVerdict
from envkit.model.report import Report, Verdict
from envkit.render.diff_markdown import render_markdown
from envkit.render.diff_outcome import diff_outcome
from envkit.render.github import MOST_ANNOTATIONS, render_github
from envkit.render.json_ import render_json
from envkit.render.junit import render_junit
from envkit.render.lint_outcome import lint_outcome
from envkit.render.lock_outcome import lock_outcome
from envkit.render.markdown import code, folded, plain, render_outcome
from envkit.render.outcome import Outcome, Place, Remark, placed, verdict_case
from envkit.render.report_markdown import render_report_markdown
from envkit.render.report_outcome import report_outcome
from envkit.render.sarif import render_sarif

GOLDEN = Path(__file__).parent / "golden"
#: The shape of SARIF 2.1.0 as far as envkit writes it, by its specification.
SARIF = json.loads((Path(__file__).parent / "sarif-2.1.0.shape.json").read_text(encoding="utf-8"))

OUTCOMES = {
    **{name: report_outcome(report) for name, report in REPORTS.items()},
    "lint": lint_outcome(LINT, LINTED, exit_code=2),
    "lock": lock_outcome(LOCK, exit_code=1),
    "diff": diff_outcome(DIFF),
}
RENDERERS: dict[str, tuple[str, Callable[[Outcome], str]]] = {
    "junit": ("xml", render_junit),
    "sarif": ("sarif", render_sarif),
    "github": ("github.txt", render_github),
}


@pytest.mark.parametrize("kind", RENDERERS)
@pytest.mark.parametrize("name", OUTCOMES)
def test_whole(name: str, kind: str) -> None:
    ending, render = RENDERERS[kind]
    assert_golden(GOLDEN / f"{name}.{ending}", render(OUTCOMES[name]))


@pytest.mark.parametrize("name", OUTCOMES)
def test_whole_markdown(name: str) -> None:
    outcome = OUTCOMES[name]
    text = render_outcome(outcome)
    if name in REPORTS:
        text = render_report_markdown(REPORTS[name], outcome)
    if name == "diff":
        text = render_markdown(DIFF, ("Note | this.",))
    assert_golden(GOLDEN / f"{name}.md", text)


@pytest.mark.parametrize("name", REPORTS)
def test_whole_json(name: str) -> None:
    text = render_json(REPORTS[name])
    if name == "huge":  # 200 KB of the same
        assert codec.decode(text.encode(), Report, origin=name) == REPORTS[name]
        packed = GOLDEN / "huge.json.xz"
        assert lzma.decompress(packed.read_bytes()).decode() == text
        return
    assert_golden(GOLDEN / f"{name}.json", text)


@pytest.mark.parametrize("name", OUTCOMES)
def test_sarif_has_the_shape_of_the_standard(name: str) -> None:
    log = json.loads(render_sarif(OUTCOMES[name]))
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda log: log.update(version="2.0.0"),
        lambda log: log["runs"][0]["results"][0].pop("message"),
        lambda log: log["runs"][0]["results"][0].update(level="notice"),
        lambda log: log["runs"][0]["results"][0].update(line=1),
        lambda log: log["runs"][0]["invocations"][0].pop("executionSuccessful"),
    ],
)
def test_the_shape_refuses_what_is_none(spoil: Callable[[Any], Any]) -> None:
    log = json.loads(render_sarif(OUTCOMES["failing"]))
    spoil(log)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SARIF)


@pytest.mark.parametrize("name", OUTCOMES)
def test_junit_fails_where_the_exit_code_does(name: str) -> None:
    suites = ET.fromstring(render_junit(OUTCOMES[name]))  # noqa: S314 (our own)
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for attribute, element in kinds.items():
        number = len(suites.findall(f".//{element}"))
        assert suites.get(attribute) == str(number)
        assert sum(int(suite.get(attribute, "")) for suite in suites) == number
    assert suites.get("tests") == str(len(suites.findall(".//testcase")))
    exit_code = OUTCOMES[name].exit_code
    assert (suites.find(".//failure") is not None) >= (exit_code == 1)
    assert (suites.find(".//error") is not None) == (exit_code in {2, 3})
    if exit_code == 0:
        assert suites.find(".//failure") is None


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_line_for_github_is_one_whole_command(name: str) -> None:
    pattern = re.compile(
        r"::(error|warning|notice) (file=[^:,\r\n]+,line=\d+,)?title=[^:,\r\n]*::[^\r\n]+"
    )
    lines = render_github(OUTCOMES[name]).splitlines()
    assert all(pattern.fullmatch(line) for line in lines)
    for command in ("error", "warning", "notice"):
        assert sum(line.startswith(f"::{command} ") for line in lines) <= MOST_ANNOTATIONS + 1


def test_places_reach_every_format() -> None:
    lint = OUTCOMES["lint"]
    assert "file=envs/a.yml,line=3,title=SPC004" in render_github(lint)
    assert '"uri": "a%20b/c%25d.yml"' in render_sarif(lint)
    assert "envs/a.yml:3" in render_outcome(lint)
    lock = OUTCOMES["lock"]
    assert "file=conda-lock.yml,line=88," in render_github(lock)
    assert "file=environment.yml,line=1," in render_github(lock)


def test_a_package_difference_points_into_the_newer_lock() -> None:
    places = [one.place for one in OUTCOMES["diff"].remarks if one.code == "packages"]
    assert Place(file="x.conda-lock.yml", package="numpy", platform="linux-64") in places


def test_what_lies_elsewhere_has_no_place() -> None:
    outcome = placed(OUTCOMES["lint"], lambda _: None)
    assert "file=" not in render_github(outcome).replace("file=x", "")
    assert '"locations"' not in render_sarif(outcome)


@given(st.text(max_size=80))
def test_any_text_keeps_to_its_place(text: str) -> None:
    remark = Remark(code=text, level="error", title=text, lines=(text, f"$ {text}"), url="")
    outcome = msgspec.structs.replace(OUTCOMES["failing"], headline=text, remarks=(remark,))
    assert len(render_github(outcome).splitlines()) == 2
    ET.fromstring(render_junit(outcome))  # noqa: S314 (our own)
    assert json.loads(render_sarif(outcome))["version"] == "2.1.0"
    page = render_outcome(outcome)
    assert all(line.isprintable() for line in page.split("\n"))


def test_markdown_shows_text_as_it_is() -> None:
    shown = plain(HOSTILE)
    assert "\n" not in shown
    for raw in ("<script>", "a|b", " `c`", "@everyone", "#1 ", " **bold**", " &lt;", " $x$"):
        assert raw not in shown
    assert "<script>" not in folded(HOSTILE, "")
    assert code("a ``b`` c") == "``` a ``b`` c ```"
    assert code("x") == "`x`"


def test_a_warning_fails_a_file_only_where_warnings_fail() -> None:
    warning = tuple(one for one in LINT.findings if one.code == "SPC008")
    document = msgspec.structs.replace(LINT, findings=warning, unread=())
    for exit_code, status in ((0, "passed"), (1, "failed")):
        outcome = lint_outcome(document, LINTED, exit_code=exit_code)
        assert [case.status for case in outcome.cases] == [status, "passed", "passed", "passed"]


@pytest.mark.parametrize("kind", [Verdict, DiffVerdict])
def test_every_verdict_is_a_case_that_says_what_the_exit_code_says(
    kind: type[Verdict | DiffVerdict],
) -> None:
    statuses = get_args(get_type_hints(kind)["status"])
    cases = [verdict_case("x", kind(status=s, exit_code=0, headline=s)) for s in statuses]
    assert [case.status for case in cases] == ["passed", "failed", "unknown"]
    assert [case.said for case in cases] == list(statuses)

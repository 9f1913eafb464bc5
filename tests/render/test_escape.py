from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import HUGE, REPORTS

from envkit.model import codec
from envkit.model.report import Report
from envkit.render.escape import ascii_only, printable, printable_json
from envkit.render.json_ import render_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, é and 漢字", "plain text, é and 漢字"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("\x9b2J", r"\x9b2J"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("\U000e0041tag", r"\U000e0041tag"),
        ("\udcff", r"\udcff"),
        ("\u2028", r"\u2028"),
    ],
)
def test_what_is_not_printable_is_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_the_result_is_printable_and_stable(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown


def test_ascii() -> None:
    assert ascii_only("✔ é") == r"\u2714 \xe9"


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text(max_size=9)))
def test_escaped_json_has_the_same_value(value: dict[str, str]) -> None:
    clean = {key: text.encode("utf-8", "replace").decode() for key, text in value.items()}
    document = json.dumps(clean, ensure_ascii=False, indent=2)
    escaped = printable_json(document)
    assert json.loads(escaped) == clean
    assert all(line.isprintable() for line in escaped.split("\n"))


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_survives_its_json(name: str) -> None:
    text = render_json(REPORTS[name])
    assert codec.decode(text.encode(), Report, origin=name) == REPORTS[name]


def test_json_is_harmless_for_a_terminal() -> None:
    assert all(line.isprintable() for line in render_json(HUGE).split("\n"))
    assert r"\u202e" in render_json(HUGE)

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from golden_text import assert_golden
from hypothesis import given
from hypothesis import strategies as st
from reports import CLEAN, EMPTY, FAILING, HUGE, REPORTS

from envkit.model.finding import Evidence
from envkit.model.fingerprint import PeakReplay, ProbeResult
from envkit.render.fingerprint_rows import rows, title
from envkit.render.style import Style
from envkit.render.text import render_text

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", REPORTS)
def test_whole_text(name: str) -> None:
    assert_golden(GOLDEN / f"{name}.txt", render_text(REPORTS[name], Style()))


@pytest.mark.parametrize("name", ["clean", "huge"])
def test_whole_text_in_ascii_on_a_narrow_page(name: str) -> None:
    text = render_text(REPORTS[name], Style(width=60, unicode=False))
    assert text.isascii()
    assert_golden(GOLDEN / f"{name}-ascii.txt", text)


def test_whole_text_with_colour() -> None:
    assert_golden(GOLDEN / "failing-colour.txt", render_text(FAILING, Style(color=True)))


def test_quiet_is_the_verdict_and_what_counts() -> None:
    assert_golden(GOLDEN / "failing-quiet.txt", render_text(FAILING, Style(verbosity=-1)))


def test_verbose_has_every_check_and_fact() -> None:
    assert_golden(GOLDEN / "clean-verbose.txt", render_text(CLEAN, Style(verbosity=1)))


def test_what_was_saved_says_when_unless_it_has_no_date() -> None:
    recorded = f"recorded {CLEAN.created}"
    assert recorded in render_text(CLEAN, Style(), saved=True)
    assert recorded not in render_text(CLEAN, Style())
    profile = msgspec.structs.replace(EMPTY, label="lab-1")
    assert profile.target.kind == "recorded"
    for saved in (True, False):
        assert profile.created not in render_text(profile, Style(), saved=saved)


@pytest.mark.parametrize(
    ("capability", "threads", "ending"),
    [(None, 2, "the CPU, 2 threads"), (None, 1, "the CPU, 1 thread"), ("9.0", 2, "the CPU")],
)
def test_numbers_of_the_cpu_come_with_its_threads(
    capability: str | None, threads: int, ending: str
) -> None:
    fingerprint = CLEAN.fingerprint
    assert fingerprint is not None
    key = msgspec.structs.replace(fingerprint.key, capability=capability, threads=threads)
    here = msgspec.structs.replace(fingerprint, key=key, device="the CPU")
    assert title(here).endswith(f" on {ending}")


def test_a_good_machine_fits_a_screen() -> None:
    assert len(render_text(CLEAN, Style()).splitlines()) <= 30


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("verbosity", [-1, 0, 2])
def test_no_line_is_wider_than_the_page_but_commands(name: str, verbosity: int) -> None:
    for line in render_text(REPORTS[name], Style(verbosity=verbosity)).splitlines():
        assert len(line) <= 80 or line.startswith("       $ ")
        assert line == line.rstrip()


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_reaches_the_terminal_as_a_command(name: str) -> None:
    for verbosity in (-1, 0, 1):
        text = render_text(REPORTS[name], Style(verbosity=verbosity))
        assert all(line.isprintable() for line in text.split("\n"))


def test_all_errors_are_shown_when_asked() -> None:
    assert "CON039" not in render_text(HUGE, Style()).split("Checks")[0]
    assert "CON039" in render_text(HUGE, Style(verbosity=1)).split("Checks")[0]


@given(st.text(max_size=200))
def test_any_text_of_an_input_is_drawn_harmlessly(text: str) -> None:
    evidence = Evidence(what=text, seen=text, source=text)
    finding = FAILING.findings[0].__class__(
        code="DRV002",
        severity=FAILING.findings[0].severity,
        title=text,
        evidence=(evidence,),
        fix=FAILING.findings[0].fix,
        url="",
    )
    fields = {name: getattr(EMPTY, name) for name in EMPTY.__struct_fields__}
    report = EMPTY.__class__(**{**fields, "label": text, "findings": (finding,)})
    drawn = render_text(report, Style())
    assert all(line.isprintable() for line in drawn.split("\n"))


def test_what_a_step_leaves_behind_is_a_row() -> None:
    fingerprint = CLEAN.fingerprint
    assert fingerprint is not None
    left = ProbeResult(status="exact", values={"left_bytes": 4000}, digest=None, optional=True)
    tensors = {**fingerprint.layers.tensors, "call.train:step.left": left}
    layers = msgspec.structs.replace(fingerprint.layers, tensors=tensors)
    said = dict(rows(msgspec.structs.replace(fingerprint, layers=layers)))
    assert said["your step"] == "train:step leaves 4,000 B of tensors behind at every call"
    assert "your step" not in dict(rows(fingerprint))


def test_what_of_a_step_is_not_compared_is_a_row() -> None:
    fingerprint = CLEAN.fingerprint
    assert fingerprint is not None
    why = "not compared: returned.rows (generator)"
    half = ProbeResult(status="exact", values={}, digest="sha256:1", reason=why, optional=True)
    blind = ProbeResult(status="not_run", values=None, digest=None, reason="compiled")
    step = {f"call.train:step.{part}": blind for part in ("tensors", "left")}
    tensors = {**fingerprint.layers.tensors, **step}
    numerics = {**fingerprint.layers.numerics, "call.train:step.outputs": half}
    layers = msgspec.structs.replace(fingerprint.layers, tensors=tensors, numerics=numerics)
    told = rows(msgspec.structs.replace(fingerprint, layers=layers))
    assert [said for name, said in told if name == "your step"] == [
        "train:step: tensors, left not run: compiled",
        f"train:step: {why}",
    ]


EQUAL = {"allocated_bytes": 5 << 20, "reserved_bytes": 20 << 20, "segments": 1}
MORE = {**EQUAL, "reserved_bytes": 42 << 20, "segments": 3}


def peak(observed: dict[str, int], canonical: dict[str, int], *, conforms: bool) -> ProbeResult:
    return ProbeResult(
        status="exact",
        values=observed,
        digest=None,
        conforms=conforms,
        replay=PeakReplay(observed=observed, canonical=canonical),
    )


@pytest.mark.parametrize(
    ("peaks", "said"),
    [
        ([peak(EQUAL, EQUAL, conforms=True)], "1 exact, replay equal"),
        ([peak(EQUAL, EQUAL, conforms=False)], "1 exact, replay differs in p0"),
        (
            [peak(MORE, EQUAL, conforms=True), peak(EQUAL, MORE, conforms=True)],
            "2 exact, replay equal, p0 +2 segments and +22 MiB by addresses and 1 more",
        ),
    ],
)
def test_peaks_say_whether_the_replay_gives_them_and_what_addresses_moved(
    peaks: list[ProbeResult], said: str
) -> None:
    assert CLEAN.fingerprint is not None
    named = {f"p{number}": one for number, one in enumerate(peaks)}
    layers = msgspec.structs.replace(CLEAN.fingerprint.layers, peaks=named)
    found = dict(rows(msgspec.structs.replace(CLEAN.fingerprint, layers=layers)))
    assert found["peaks"].partition(": of equally large")[0] == said

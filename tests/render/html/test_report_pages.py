"""Every kind of page: sound, self-contained, accessible, and harmless whatever is in a report."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from itertools import pairwise

import compared
import msgspec
import pytest
from html_page import Page
from measured import h200_report
from reports import REPORTS

from envkit.compare.compare import compare
from envkit.compare.sides import Side
from envkit.model.facts import CondaFacts, CondaPackage, ContractFacts, Facts, RequestFacts
from envkit.model.finding import Evidence, Finding, Fix, Severity
from envkit.model.observed import Known
from envkit.model.report import Report, Verdict
from envkit.workflows.report import comparison_page, machine_page

MOST_BYTES = 1_500_000
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[2J\x00\u202eevil\u2066\n&amp;"
)


def side(label: str, device: str = "NVIDIA H200", conf: str = "") -> Side:
    return compared.side(label, compared.fingerprint(device, conf))


def team() -> str:
    sides = [
        side("lab-1"),
        side("lab-2"),
        side("mia", conf="expandable_segments:True"),
        side("node", "NVIDIA A100-SXM4-80GB"),
        side(HOSTILE),
    ]
    return comparison_page(compare(sides))


@cache
def pages() -> dict[str, str]:
    made = {name: machine_page(report) for name, report in REPORTS.items()}
    made["h200"] = machine_page(h200_report())
    made["pair"] = comparison_page(
        compare([side("lab-1"), side("mia", conf="expandable_segments:True")])
    )
    made["hostile pair"] = comparison_page(compare([side("lab-1"), side(HOSTILE, conf="")]))
    made["team"] = team()
    return made


NAMES = [*REPORTS, "h200", "pair", "hostile pair", "team"]


@pytest.fixture(params=NAMES)
def source(request: pytest.FixtureRequest) -> str:
    return pages()[request.param]


def page(name: str) -> Page:
    return Page(pages()[name])


def page_title(found: Page) -> str:
    titles = [one.text for one in found.all("title") if one.inside[-1] == "head"]
    assert len(titles) == 1
    return titles[0]


def test_nothing_is_loaded_and_nothing_of_ours_alone_may_run(source: str) -> None:
    found = Page(source)
    assert not {one.tag for one in found.elements} & {"img", "link", "iframe", "object", "base"}
    for one in found.elements:
        for name, value in one.attributes.items():
            assert not name.startswith("on"), one
            assert name not in {"src", "srcset", "style", "action", "ping"}, one
            if name == "href":
                assert value is not None
                assert re.match(r"#[a-z]+$|https?://", value), value
                assert one.tag == "a"
    assert "url(" not in found.one("style").text
    assert "@import" not in found.one("style").text


def test_the_policy_names_the_one_style_and_the_one_script(source: str) -> None:
    found = Page(source)
    policy = found.one("meta", http_equiv="Content-Security-Policy").attributes["content"] or ""
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        digest = hashlib.sha256(found.one(tag).text.encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "unsafe" not in policy
    # What is above the policy is not under it.
    head = [one.tag for one in found.elements if one.inside[-1:] == ("head",)]
    assert head[:2] == ["meta", "meta"]


def test_names_are_unique_and_references_lead_somewhere(source: str) -> None:
    found = Page(source)
    ids = [one.attributes["id"] for one in found.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    for one in found.elements:
        for name in ("aria-labelledby", "for", "data-filters"):
            for target in (one.attributes.get(name) or "").split():
                assert target in ids, (one.tag, name, target)
        href = one.attributes.get("href") or ""
        if href.startswith("#"):
            assert href[1:] in ids


def test_a_screen_reader_finds_its_way(source: str) -> None:
    found = Page(source)
    assert found.one("html").attributes["lang"] == "en"
    assert page_title(found)
    assert found.all("a")[0].attributes == {"class": "skip", "href": "#main"}
    assert found.one("main").attributes["id"] == "main"
    levels = [int(one.tag[1]) for one in found.elements if re.fullmatch(r"h[1-6]", one.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    for table in found.all("table"):
        name = table.attributes["id"]
        assert found.one("caption", id=f"{name}-caption").text.strip()
    for head in found.all("th"):
        assert head.attributes["scope"] == ("col" if "thead" in head.inside else "row")
    for drawing in found.all("svg"):
        assert drawing.attributes["role"] == "img"
        assert drawing.attributes["aria-labelledby"]


def test_a_page_is_small(source: str) -> None:
    assert len(source.encode()) < MOST_BYTES / 4


def test_what_a_report_holds_is_shown_as_text(source: str) -> None:
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", source
    )
    assert len(Page(source).all("script")) == 1


def test_hostile_labels_are_seen_for_what_they_are() -> None:
    shown = page("hostile pair").one("h1").text
    assert "<script>alert(1)</script>" in shown
    assert r"\x1b[2J\x00\u202eevil\u2066\n&amp;" in page_title(page("hostile pair"))
    assert page("team").rows("matrix-table")[5][0].startswith("<script>alert(1)</script>")


def test_the_verdict_comes_first() -> None:
    found = page("failing")
    assert " ".join(found.one("h1").text.split()) == "✘ Fail this machine"
    assert "CUDA cannot work here" in found.one("p", class_="headline").text
    titles = [" ".join(one.text.split()) for one in found.all("h3")]
    assert titles[0].startswith("✘ error DRV002 Driver older than")
    assert titles[2].startswith("! warning GPU006")
    assert "Follows from TOR009" not in found.source
    assert "torch==2.6.0" in found.all("pre")[0].text


def test_a_clean_report_and_an_empty_one_say_so() -> None:
    assert "✔ Pass" in " ".join(page("clean").one("h1").text.split())
    assert "No facts are recorded" in page("empty").one("main").text
    assert "Nothing was found that needs to be mended" in page("skipped").one("main").text
    assert "? Incomplete" in " ".join(page("unknown").one("h1").text.split())


def figures_by_name(found: Page) -> dict[str, tuple[str, str]]:
    """Drawing and caption of each workload."""
    drawn = [one.text for one in found.all("svg") if "Memory over" in one.text]
    captions = [one.text for one in found.all("figcaption")][: len(drawn)]
    names = [text.split("Memory over")[0] for text in drawn]
    return dict(zip(names, zip(drawn, captions, strict=True), strict=True))


def test_the_memory_of_each_workload_is_drawn_with_its_peak() -> None:
    found = page("h200")
    figures = figures_by_name(found)
    assert {"gpt.bf16", "resnet.bf16", "resnet.fp32", "vit.bf16", "vit.fp32"} <= set(figures)
    drawing, caption = figures["vit.fp32"]
    assert "allocated up to 1.68 GiB at request 2,938, reserved up to 1.87 GiB" in drawing
    assert "to the byte" in caption
    assert "717,488,640 B; measured were 715,284,480 B" in figures["resnet.bf16"][1]
    rows = {row[0]: row[1:] for row in found.rows("peak-table")}
    assert rows["vit.fp32"] == ["3,547", "1,806,011,904", "2,004,877,312", "98", "9.9 %"]


def test_the_checkerboard_is_drawn_with_its_holes() -> None:
    drawn = [one.text for one in page("h200").all("svg") if "Memory over" not in one.text]
    assert len(drawn) == 3
    assert "1 segment, 20 MiB reserved, 9 MiB in use, 7 free pieces" in drawn[1]
    assert "2 segments" in drawn[2]


def test_numbers_are_a_table() -> None:
    rows = page("h200").rows("numerics-table")
    fingerprint = h200_report().fingerprint
    assert fingerprint is not None
    assert len(rows) == 1 + len(fingerprint.layers.numerics)
    whys = {row[0]: row[3] for row in rows if row[0].startswith("vit.fp32.")}
    need_not = "need not repeat on this kind of device: in no digest"
    assert {why[2:] for why in whys.values()} == {need_not}
    assert ["resnet.bf16.losses", "✔ exact", "losses 6.64453, 7.10938", "7f87ed611584"] in rows


def locked(name: str, version: str, channel: str = "conda-forge", sha256: str = "") -> CondaPackage:
    return CondaPackage(name=name, version=version, build="0", channel=channel, sha256=sha256)


def with_lock(installed: tuple[CondaPackage, ...], wanted: tuple[CondaPackage, ...]) -> Report:
    def known(value: object) -> Known[object]:
        return Known(value=value, source="test")

    facts = Facts(
        request=RequestFacts(lock=known("vit.conda-lock.yml"), strict=known(value=True)),  # type: ignore[arg-type]
        conda=CondaFacts(packages=known(installed)),  # type: ignore[arg-type]
        contract=ContractFacts(packages=known(wanted), distributions=known(())),  # type: ignore[arg-type]
    )
    return msgspec.structs.replace(REPORTS["clean"], facts=facts)


def test_the_environment_is_held_against_its_lock() -> None:
    installed = (
        locked("numpy", "2.3.4"),
        locked("pytorch", "2.10.0"),
        locked("zlib", "1", channel="defaults"),
        locked("attrs", "1", sha256="a" * 64),
        locked("more", "1"),
    )
    wanted = (
        locked("numpy", "2.3.4"),
        locked("pytorch", "2.11.0"),
        locked("zlib", "1"),
        locked("attrs", "1", sha256="b" * 64),
        locked("gone", "1"),
    )
    found = Page(machine_page(with_lock(installed, wanted)))
    rows = {row[0]: row[-1] for row in found.rows("package-table")[1:]}
    assert rows == {
        "pytorch": "✘ other version",
        "attrs": "✘ other file",
        "gone": "✘ missing",
        "more": "✘ not locked",
        "zlib": "✘ other channel",
        "numpy": "✔ as locked",
    }
    assert found.rows("package-table")[1][0] == "pytorch"
    assert found.rows("package-table")[-1][0] == "numpy"
    assert "1 of 6 packages are as locked" in found.one("main").text


def test_without_a_lock_packages_are_listed_and_nothing_is_claimed() -> None:
    found = page("h200")
    assert found.rows("package-table")[0] == ["package", "by", "installed"]
    assert len(found.rows("package-table")) == 198
    assert "compared with nothing" in found.one("main").text


def test_a_pair_has_its_vector_its_cause_and_both_curves() -> None:
    found = page("pair")
    answers = [" ".join(one.text.split()) for one in found.all("li") if one.text.strip()]
    assert "tensors ✔ same" in answers
    assert "allocator ✘ different" in answers
    assert [" ".join(one.text.split()) for one in found.all("h3")] == [
        "CAU001 Other settings of the CUDA caching allocator"
    ]
    assert "The cause." in found.one("main").text
    for drawing in found.all("svg"):
        for line in ("lab-1: allocated", "lab-1: reserved", "mia: allocated", "mia: reserved"):
            assert line in drawing.text
    assert found.rows("differ-software")[0] == ["what", "lab-1", "mia", "class"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/mia/data/mine.json", "report mine.json"),
        ("C:\\Users\\mia\\mine.json", "report mine.json"),
        ("team/mine.json", "report team/mine.json"),
        ("HEAD~1:team/mine.json", "report HEAD~1:team/mine.json"),
    ],
)
def test_a_page_names_no_folder_of_the_machine_that_made_it(path: str, shown: str) -> None:
    one = msgspec.structs.replace(side("lab-1"), path=path)
    found = Page(comparison_page(compare([one, side("lab-2")])))
    assert shown in [cell.text.strip() for cell in found.all("dd")]


def test_a_team_is_a_matrix_with_its_outliers() -> None:
    found = page("team")
    head, *rows = found.rows("matrix-table")
    assert head[:4] == ["machine", "group", "packages", "software"]
    by_name = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert by_name["lab-2"]["allocator"] == "✔ same"
    assert by_name["mia"]["allocator"] == "✘ different"
    assert by_name["node"]["workspaces"] == "~ different, as expected"
    assert by_name["node"]["tensors"] == "✔ same"
    assert by_name["lab-1"]["group"] == "1"
    outliers = {" ".join(one.text.split()) for one in found.all("h3")}
    assert "Group 2: mia" in outliers
    assert not any("node" in one for one in outliers), "another model, and nothing unexpected"


def test_a_report_beyond_all_measure_stays_below_the_limit() -> None:
    finding = Finding(
        code="CON001",
        severity=Severity.ERROR,
        title="t" * 5000,
        evidence=tuple(
            Evidence(what="w" * 3000, seen="s" * 9000, source="x" * 3000) for _ in range(99)
        ),
        fix=Fix(text="f" * 9000, command=("c" * 3000 + "\n") * 99),
        url="https://example.org/" + "u" * 9000,
    )
    packages = tuple(locked(f"p{n}" + "n" * 900, "v" * 900) for n in range(9000))
    report = msgspec.structs.replace(
        with_lock(packages, packages[:4000]),
        findings=(finding,) * 5000,
        checks=REPORTS["huge"].checks * 200,
        label="l" * 90_000,
        verdict=Verdict(status="fail", exit_code=1, headline="h" * 90_000),
    )
    page_of_it = machine_page(report)
    assert len(page_of_it.encode()) < MOST_BYTES
    assert "And 4,9" in page_of_it


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "https://x\u202e.org",
        "file:///etc/passwd",
        " https://x",
    ],
)
def test_an_address_that_is_none_is_no_link(url: str) -> None:
    finding = msgspec.structs.replace(REPORTS["failing"].findings[0], url=url)
    found = Page(machine_page(msgspec.structs.replace(REPORTS["failing"], findings=(finding,))))
    assert all((one.attributes["href"] or "").startswith("#") for one in found.all("a"))

"""Pictures of a replayed snapshot: what is in them, and that nothing can get out of them."""

from __future__ import annotations

import html.parser
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from golden_text import assert_golden
from recorded_process import RecordedProcess, busy

from envkit.allocator.sizes import MIB
from envkit.render.html.replay import render_replay_html
from envkit.render.replay_picture import render_replay_svg
from envkit.render.svg import STYLE
from envkit.workflows.replay import Replayed, ReplayRequest, replay_with_courses

GOLDEN = Path(__file__).parent / "golden"
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '"><img src=//x onerror=alert(1)>\x1b[2J\u202e.py'


def replayed(process: RecordedProcess, folder: Path, **asked: int) -> Replayed:
    path = folder / "snapshot.json"
    path.write_bytes(msgspec.json.encode(process.snapshot()))
    request = ReplayRequest(
        snapshot=str(path), with_courses=True, total_memory_bytes=asked.get("total")
    )
    return replay_with_courses(request, lambda *_: None)


def fragmented() -> RecordedProcess:
    """Free blocks of 30 MiB, then ask for ones that only fit where two were."""
    process = RecordedProcess()
    for block in [process.malloc(30 * MIB) for _ in range(10)]:
        process.free(block)
    for _ in range(5):
        process.malloc(50 * MIB)
    return process


def full() -> RecordedProcess:
    """Run out of memory twice."""
    process = RecordedProcess(capacity=200 * MIB)
    for _ in range(8):
        process.malloc(30 * MIB)
    return process


def titles(svg: str) -> list[str]:
    root = ET.fromstring(svg)  # noqa: S314  (our own)
    return [figure.findtext(f"{SVG}title", "") for figure in root.findall(f"{SVG}svg")]


def test_a_picture_shows_memory_segments_and_what_was_alive(tmp_path: Path) -> None:
    found = replayed(fragmented(), tmp_path)
    shown = titles(render_replay_svg(found.document, found.courses))
    assert [title.partition(":")[0] for title in shown] == [
        "GPU 1",
        "Segments when most was allocated (event 19)",
        "Segments when most was reserved (event 49)",
        "Segments when most was reserved (event 49)",
        "Alive when most was allocated",
    ]
    assert shown[2].endswith("default settings (recorded)")
    assert shown[3].endswith("expandable_segments:True")


def test_an_oom_is_marked_and_its_segments_are_shown(tmp_path: Path) -> None:
    found = replayed(full(), tmp_path)
    document = found.document
    svg = render_replay_svg(document, found.courses)
    assert document.devices[0].proof.ooms == len(found.courses[0][0].ooms) == 2
    assert svg.count(">out of memory<") == 1
    assert svg.count(">would run out: ") == 4
    at = document.devices[0].settings[0].ran_out_at_event
    assert f"Segments when memory ran out (event {at}): default settings (recorded)" in svg
    assert "what torch could have: 200.0 MiB" in svg


def test_a_card_that_is_too_small_is_said_not_to_have_happened(tmp_path: Path) -> None:
    found = replayed(fragmented(), tmp_path, total=200 * MIB)
    svg = render_replay_svg(found.document, found.courses)
    assert ">out of memory<" not in svg
    assert svg.count(">would run out: ") == 5


def test_the_curve_reaches_the_peaks_of_every_setting(tmp_path: Path) -> None:
    found = replayed(busy(8, steps=3000), tmp_path)
    (device,), (courses,) = found.document.devices, found.courses
    assert len(courses) == len(device.settings) == 5
    for setting, course in zip(device.settings, courses, strict=True):
        assert max(course.reserved_bytes) <= setting.peak_reserved_bytes
        if not setting.retries and not setting.is_recorded:
            assert max(course.reserved_bytes) == setting.peak_reserved_bytes
            assert max(course.allocated_bytes) == setting.peak_allocated_bytes
        assert list(course.events) == sorted(set(course.events))


def test_what_is_reserved_and_used_on_the_map_is_what_the_curve_says(tmp_path: Path) -> None:
    found = replayed(fragmented(), tmp_path)
    for course in found.courses[0]:
        assert len(course.moments) == 2
        for moment in course.moments:
            at = course.events.index(moment.event)
            blocks = [block for segment in moment.segments for block in segment.blocks]
            assert sum(size for size, _ in blocks) == course.reserved_bytes[at]
            assert sum(size for size, used in blocks if used) == course.allocated_bytes[at]


def test_without_being_asked_for_there_is_no_course(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(msgspec.json.encode(busy(1).snapshot()))
    assert replay_with_courses(ReplayRequest(snapshot=str(path)), lambda *_: None).courses == ()


class Seen(html.parser.HTMLParser):
    """Collects tags and attributes as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [str(value) for name, value in attrs if name == "id"]


@pytest.fixture
def hostile_page(tmp_path: Path) -> str:
    process = fragmented()
    for entry in process.trace:
        entry["frames"] = [{"filename": f"/home/{HOSTILE}", "line": 1, "name": HOSTILE}]
    found = replayed(process, tmp_path)
    document = msgspec.structs.replace(found.document, source=HOSTILE)
    return render_replay_html(document, found.courses)


def test_a_hostile_file_name_or_frame_stays_text(hostile_page: str) -> None:
    seen = Seen()
    seen.feed(hostile_page)
    assert not seen.tags & {"img", "link", "iframe", "object", "image", "use"}
    assert not any(name.startswith("on") for name in seen.attributes)
    assert "src" not in seen.attributes
    assert len(seen.ids) == len(set(seen.ids))
    assert "&lt;img src=//x" in hostile_page
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", hostile_page)


def test_a_page_loads_nothing_and_says_so_to_the_browser(hostile_page: str) -> None:
    assert "default-src &#39;none&#39;" in hostile_page
    assert "url(" not in STYLE
    assert "@import" not in hostile_page
    assert "prefers-color-scheme:dark" in hostile_page
    assert 'content="light dark"' in hostile_page


def test_a_page_has_the_numbers_as_tables(tmp_path: Path) -> None:
    found = replayed(fragmented(), tmp_path)
    page = render_replay_html(found.document, found.courses)
    assert page.count("<table ") == 2
    assert ">expandable_segments:True</th>" in page
    assert ">train.py:42 step</th>" in page


def test_golden(tmp_path: Path) -> None:
    found = replayed(fragmented(), tmp_path)
    text = render_replay_svg(found.document, found.courses)
    assert_golden(GOLDEN / "replay-fragmented.svg", text)

"""Figures: well-formed, whole, and harmless whatever their texts are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.model.thinning import thin
from envkit.render.svg import (
    STYLE,
    Bar,
    Figure,
    Line,
    MapSegment,
    Mark,
    StepChart,
    bar_chart,
    bytes_of_row,
    element,
    segment_map,
    stacked,
    step_chart,
)
from envkit.render.svg.scale import Scale, byte_ticks, count_ticks, short_bytes, short_count
from envkit.render.svg.step_chart import step_path

MIB = 1 << 20
HOSTILE = "</title><script>alert(1)</script>\x1b[31m\u202e\x00\ud800 & \" ' onload=x"
SVG = "{http://www.w3.org/2000/svg}"
lengths = st.integers(0, 1 << 40)


def chart(ys: Sequence[float], text: str = "allocated") -> Figure:
    return step_chart(
        StepChart(
            name="one",
            title=text,
            description=text,
            lines=[Line(name=text, ys=ys), Line(name="reserved", ys=[2 * y for y in ys])],
            x_label=text,
            marks=[Mark(x=1, label=text), Mark(x=2, label="out of memory", is_bad=True)],
            limit=(1 << 30, text),
        )
    )


def segments(text: str) -> Figure:
    blocks = ((3 * MIB, True), (MIB, False), (512, True), (16 * MIB, False))
    return segment_map(
        [MapSegment(label=text, blocks=blocks)], name="map", title=text, description=text
    )


def bars(text: str) -> Figure:
    return bar_chart(
        [Bar(label=text, value=MIB, note=text), Bar(label="none", value=0)],
        name="bars",
        title=text,
        description=text,
    )


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  (our own)


@given(st.lists(lengths, min_size=1, max_size=900), st.integers(1, 40))
def test_thinning_keeps_the_peak_where_it_is(ys: list[int], columns: int) -> None:
    kept = thin(range(len(ys)), ys, columns)
    assert kept == sorted(set(kept))
    assert len(kept) <= 4 * columns
    assert ys.index(max(ys)) in kept
    assert ys.index(min(ys)) in kept
    assert {0, len(ys) - 1} <= set(kept)


@given(st.lists(st.tuples(st.integers(0, 50), lengths), min_size=1, max_size=300))
def test_thinning_of_uneven_times_keeps_the_extremes_of_each_column(
    points: list[tuple[int, int]],
) -> None:
    points.sort(key=lambda point: point[0])
    xs, ys = [x for x, _ in points], [y for _, y in points]
    columns = 7
    kept = thin(xs, ys, columns)
    assert max(ys) == max(ys[at] for at in kept)
    assert min(ys) == min(ys[at] for at in kept)
    assert len(kept) <= 4 * columns or len(points) <= 4 * columns


@given(st.lists(lengths, min_size=2, max_size=3000))
@settings(max_examples=50)
def test_a_path_reaches_the_highest_value(ys: list[int]) -> None:
    x = Scale(low=0, high=len(ys) - 1, start=0, end=100)
    y = Scale(low=0, high=max(ys), start=260, end=0)
    path = step_path(range(len(ys)), ys, x, y)
    heights = [float(number) for number in re.findall(r"(?:V|M\d+ )(-?[\d.e+-]+)", path)]
    assert min(heights) == round(y(max(ys)), 1)


def test_a_million_values_are_a_few_kilobytes() -> None:
    ys = [(at * 7919) % 1000003 for at in range(1_000_000)]
    assert len(chart(ys).svg()) < 60_000


@pytest.mark.parametrize("figure", [chart([1, 5, 2], HOSTILE), segments(HOSTILE), bars(HOSTILE)])
def test_no_text_becomes_markup(figure: Figure) -> None:
    svg = figure.svg(style=STYLE)
    root = parsed(svg)
    names = {node.tag.removeprefix(SVG) for node in root.iter()}
    assert names <= {"svg", "title", "desc", "style", "text", "path", "rect", "g"}
    assert not any(key.startswith("on") for node in root.iter() for key in node.attrib)
    assert "\x1b" not in svg
    assert "\u202e" not in svg
    assert "script>alert" in root.findtext(f"{SVG}title", "")


@pytest.mark.parametrize("figure", [chart([1, 5, 2]), segments("one"), bars("one")])
def test_a_screen_reader_is_told_what_it_is(figure: Figure) -> None:
    root = parsed(figure.svg())
    assert root.get("role") == "img"
    ids = {node.get("id"): node.text for node in root.iter() if node.get("id")}
    assert [ids[name] for name in str(root.get("aria-labelledby")).split()] == [
        figure.title,
        figure.description,
    ]


def test_nothing_is_loaded_from_elsewhere() -> None:
    file = stacked([chart([1, 2]), segments("one")], title="all")
    parsed(file)
    assert file.replace("http://www.w3.org/2000/svg", "").count("//") == 0
    assert "@import" not in file
    assert "url(" not in file
    assert "prefers-color-scheme:dark" in file


def test_figures_of_a_file_stand_one_below_the_other() -> None:
    one, two = chart([1, 2]), segments("one")
    outer = parsed(stacked([one, two], title="all"))
    tops = [int(node.get("y", 0)) for node in outer.findall(f"{SVG}svg")]
    assert tops == [0, one.height]
    assert int(outer.get("height", 0)) == one.height + two.height


def test_empty_figures_can_be_drawn() -> None:
    parsed(chart([]).svg())
    parsed(segment_map([], name="m", title="", description="").svg())
    parsed(bar_chart([], name="b", title="", description="").svg())


sizes = st.lists(st.tuples(st.integers(1, 64), st.booleans()), min_size=1, max_size=30)


@given(st.lists(sizes, min_size=1, max_size=10))
@settings(max_examples=20, deadline=None)
def test_the_map_draws_every_byte(made: list[list[tuple[int, bool]]]) -> None:
    blocks = [tuple((size * MIB, used) for size, used in one) for one in made]
    parts = [MapSegment(label="s", blocks=one) for one in blocks]
    root = parsed(segment_map(parts, name="m", title="", description="").svg())
    drawn = {
        shade: sum(
            int(width)
            for node in root.iter(f"{SVG}path")
            if node.get("class") == shade
            for width in re.findall(r"h(\d+)v", node.get("d", ""))
        )
        for shade in ("used", "mixed", "free")
    }
    total = sum(part.size_bytes for part in parts)
    pixel = bytes_of_row(total) / 936
    used = sum(part.used_bytes for part in parts)
    assert abs(sum(drawn.values()) - total / pixel) < 1.01
    assert drawn["used"] * pixel <= used + pixel
    assert (drawn["used"] + drawn["mixed"]) * pixel >= used - pixel


@given(st.integers(1, 1 << 50))
def test_byte_ticks_cover_the_range_in_few_steps(high: int) -> None:
    ticks = byte_ticks(high)
    assert ticks[0] == 0
    assert ticks[-1] >= high
    assert len(ticks) <= 7


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40))
def test_count_ticks_lie_in_the_range(low: int, span: int) -> None:
    ticks = count_ticks(low, low + span)
    assert 1 <= len(ticks) <= 8
    assert all(low <= tick <= low + span for tick in ticks)


def test_labels_are_short() -> None:
    sizes_said = [short_bytes(size) for size in (0, 512, 1536 << 20, 1023 << 20, 40 << 40)]
    assert sizes_said == ["0 B", "512 B", "1.5 GiB", "1023 MiB", "40 TiB"]
    assert [short_count(n) for n in (0, 1234567, 0.25)] == ["0", "1,234,567", "0.25"]


def test_attributes_are_escaped_and_left_out() -> None:
    assert element("a", "<", class_='"', aria_label=None) == '<a class="&quot;">&lt;</a>'

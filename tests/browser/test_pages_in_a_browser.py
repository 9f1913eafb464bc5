"""Pages in Debian's chromium, driven by Playwright; skipped with the reason where one is absent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compared
import pytest
from measured import h200_report
from reports import REPORTS

from envkit.compare.compare import compare
from envkit.workflows.report import comparison_page, machine_page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


def team() -> str:
    confs = {"b": "", "a": "", "odd <script>alert(1)</script>": "expandable_segments:True"}
    sides = [compared.side(n, compared.fingerprint(conf=conf)) for n, conf in confs.items()]
    return comparison_page(compare(sides))


def written(name: str) -> str:
    if name == "team":
        return team()
    return machine_page(h200_report() if name == "h200" else REPORTS[name])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A function that opens a page; at the end nothing was complained of and nothing fetched."""
    context = browser.new_context(color_scheme="light")
    wrong: list[str] = []

    def show(name: str) -> Any:
        path = tmp_path / "page.html"
        path.write_text(written(name), encoding="utf-8")
        tab = context.new_page()
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        tab.on("request", lambda r: None if r.url == path.as_uri() else wrong.append(r.url))
        tab.goto(path.as_uri())
        return tab

    yield show
    context.close()
    assert wrong == []


def names(tab: Any) -> list[str]:
    found: list[str] = tab.locator("#matrix-table tbody tr:visible th").all_inner_texts()
    return found


@pytest.mark.parametrize("name", [*REPORTS, "h200", "team"])
def test_it_opens_without_errors_and_requests(opened: Any, name: str) -> None:
    tab = opened(name)
    assert tab.locator("h1").is_visible()
    assert tab.locator("#theme").is_visible()


def test_a_heading_sorts_by_mouse_and_by_keyboard(opened: Any) -> None:
    tab = opened("team")
    head = tab.locator("#matrix-table thead th").first
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(tab) == ["a", "b", "odd <script>alert(1)</script>"]
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert names(tab)[0] == "odd <script>alert(1)</script>"


def test_the_filter_shows_what_has_the_words(opened: Any) -> None:
    tab = opened("team")
    tab.locator("[data-filters=matrix-table]").fill("ODD different")
    assert names(tab) == ["odd <script>alert(1)</script>"]
    assert tab.locator("output[for=matrix-table]").inner_text() == "1 of 3 rows"


def test_the_theme_follows_the_system_and_the_switch(opened: Any) -> None:
    tab = opened("clean")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(ground)
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate(ground)
    assert dark != light
    tab.locator("#theme").select_option("light")
    assert tab.evaluate(ground) == light


def test_the_first_key_reaches_the_skip_link(opened: Any) -> None:
    tab = opened("clean")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"


def test_print_has_no_controls_and_is_light(opened: Any) -> None:
    tab = opened("team")
    tab.locator("#theme").select_option("dark")
    tab.emulate_media(media="print")
    assert not tab.locator("nav").is_visible()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.pdf().startswith(b"%PDF")

"""The page on allocated, reserved and free memory is what the recordings say."""

from __future__ import annotations

from types import ModuleType


def test_page_and_picture_are_up_to_date(allocated_reserved_page: ModuleType) -> None:
    page, picture = allocated_reserved_page.page()
    assert allocated_reserved_page.PAGE.read_text(encoding="utf-8") == page
    assert allocated_reserved_page.PICTURE.read_text(encoding="utf-8") == picture


def test_the_figures_are_those_of_the_recordings(allocated_reserved_page: ModuleType) -> None:
    assert allocated_reserved_page.five_tensors() == {
        "five_allocated": 0,
        "five_reserved": 16_777_216,
        "five_flushed": 0,
    }
    stats = allocated_reserved_page.trainings()[""]["stats"]
    assert stats["reserved_bytes.all.peak"] == 7_526_678_528

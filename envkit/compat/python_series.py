"""When each Python series is past its end of life: no fixes any more, security included.

Source: the "eol" of endoflife.date's Python page, which follows the release PEPs and
https://devguide.python.org/versions/; read 2026-11-30.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

#: The day on which the table was read.
READ_ON: Final = dt.date(2026, 11, 30)
SOURCE: Final = f"https://devguide.python.org/versions/ (read {READ_ON})"

#: Last day of each series, oldest first.
END_OF_LIFE: Final = {
    (3, 6): dt.date(2021, 12, 23),
    (3, 7): dt.date(2023, 6, 27),
    (3, 8): dt.date(2024, 10, 7),
    (3, 9): dt.date(2025, 10, 31),
    (3, 10): dt.date(2026, 10, 31),
    (3, 11): dt.date(2027, 10, 31),
    (3, 12): dt.date(2028, 10, 31),
    (3, 13): dt.date(2029, 10, 31),
    (3, 14): dt.date(2030, 10, 31),
}


def end_of_life(series: tuple[int, int]) -> dt.date | None:
    """Return the last day of a Python series; None for one newer than the table."""
    oldest = min(END_OF_LIFE)
    return END_OF_LIFE[oldest] if series < oldest else END_OF_LIFE.get(series)


def ended(series: tuple[int, int]) -> dt.date | None:
    """Return the last day of a series that had ended when the table was read, else None.

    For rules: they go by tables alone, so that a report is judged alike on every day.
    """
    last_day = end_of_life(series)
    return last_day if last_day is not None and last_day < READ_ON else None

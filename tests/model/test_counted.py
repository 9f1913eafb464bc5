"""Counts of one and of many."""

from __future__ import annotations

from envkit.model.counted import counted


def test_one_thing_is_not_many() -> None:
    assert [counted(number, "probe") for number in (0, 1, 2, 1200)] == [
        "0 probes",
        "1 probe",
        "2 probes",
        "1,200 probes",
    ]

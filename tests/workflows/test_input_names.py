"""What messages call an input."""

from __future__ import annotations

import pytest

from envkit.workflows.input_bytes import origin_of


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("-", "standard input"),
        ("/home/somebody/report.json", "report.json"),
        ("/dev/null", "/dev/null"),
        ("/proc/self/fd/3", "/proc/self/fd/3"),
    ],
)
def test_a_folder_is_left_out_but_not_of_a_device(name: str, said: str) -> None:
    assert origin_of(name) == said

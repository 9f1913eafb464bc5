"""Paths of build machines and package hosts are found; look-alikes are not."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.mark.parametrize(
    "parts",
    [
        ("/wor", "k/main"),
        ("/roo", "t/x"),
        ("/tm", "p/abc"),
        ("https://pyp", "i.org/simple"),
        ("files.pythonhoste", "d.org"),
        ("registry.npmj", "s.org"),
        ("deb.debia", "n.org"),
    ],
)
def test_found(forbidden_strings: ModuleType, parts: tuple[str, str]) -> None:
    (said,) = forbidden_strings.faults("a.md", f"fine\nsee {''.join(parts)}\n")
    assert said.startswith("a.md:2: ")


@pytest.mark.parametrize(
    "text", ["a framework/tool", "tmp_path", "the PyPI index", "https://download.pytorch.org/whl"]
)
def test_not_found(forbidden_strings: ModuleType, text: str) -> None:
    assert list(forbidden_strings.faults("a.md", text)) == []

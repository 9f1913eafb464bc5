from __future__ import annotations

import re

import pytest

from envkit.render.reflow import reflow
from envkit.rules.registry import listing
from envkit.workflows.explain import explain

PAGE = """\
# A heading that is longer than the page is wide, and stays one

One two three four
five six.

- first entry that
  goes on
- second
1. counted https://example.org/an-address-that-is-long

| a table | that | is | wider | than the page |
```sh
a command   that is longer than the page
```
"""


def test_whole() -> None:
    assert reflow(PAGE, 20) == (
        "# A heading that is longer than the page is wide, and stays one\n\n"
        "One two three four\nfive six.\n\n"
        "- first entry that\n  goes on\n- second\n"
        "1. counted\n   https://example.org/an-address-that-is-long\n\n"
        "| a table | that | is | wider | than the page |\n"
        "```sh\na command   that is longer than the page\n```\n"
    )


@pytest.mark.parametrize("code", [rule.code for rule in listing()])
def test_every_page_fits_and_loses_nothing(code: str) -> None:
    page = explain(code)
    shown = reflow(page, 60)
    assert shown.split() == page.split()
    assert reflow(shown, 60) == shown
    kept = re.compile(r"\s*(\||#|\S+$|(?:-|\d+\.) \S+$)")
    code_lines = set(re.findall(r"^```.*?^```", page, re.DOTALL | re.MULTILINE))
    for line in shown.splitlines():
        fits = len(line) <= 60 or kept.match(line) is not None
        assert fits or any(line in block for block in code_lines)

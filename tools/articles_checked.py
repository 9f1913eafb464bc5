"""Writes the page of the articles' claims from the figures that were measured.

    python tools/articles_checked.py            # fails if the page is not what the figures say
    python tools/articles_checked.py --write

`benchmarks/articles_numbers.py` measures; its result is `docs/data/articles-h200.json`. No figure
of the page is written here: texts have places for them, and verdicts are drawn from them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from articles_claims import CLAIMS, Claim, Figures
from generated_pages import settle

ROOT: Final = Path(__file__).resolve().parent.parent
RESULT: Final = ROOT / "docs" / "data" / "articles-h200.json"
PAGE: Final = ROOT / "docs" / "explanation" / "articles-checked.md"

_HEAD: Final = """\
# The articles' numbers, checked

[Documentation](../index.md) / [Explanation](../index.md#explanation)

<!-- Written by tools/articles_checked.py from docs/data/articles-h200.json; do not edit. -->

The articles that envkit comes from make claims about GPU memory. Each was measured:
{machine}, torch {torch}, CUDA {cuda}, on {date}, by `benchmarks/articles_numbers.py` (float32 with
TF32 off unless said otherwise; ResNet-50 and ViT-B/16 at 224 x 224, random images). Another card or
another torch gives other figures: run it there. Sizes are in GiB (2^30 bytes) and MiB (2^20).

| claim | verdict | measured |
| --- | --- | --- |
"""


def page(result: dict[str, Any]) -> str:
    """Return the page.

    Args:
        result: what the benchmark wrote.

    """
    machine = result["machine"]
    head = _HEAD.format(
        machine=machine["gpu"], torch=machine["torch"], cuda=machine["cuda"], date=result["date"]
    )
    found = {one["name"]: one for one in result["measurements"]}
    rows = [row(claim, found.get(claim.measurement, {})) for claim in CLAIMS]
    return head + "".join(rows)


def row(claim: Claim, measurement: dict[str, Any]) -> str:
    """Return a claim's line of the table."""
    if "figures" not in measurement:
        why = measurement.get("failed", "it is not in the result").splitlines()[-1]
        verdict, said = "not measured", f"the measurement failed: {why}".replace("|", "/")
    else:
        figures = measurement["figures"]
        verdict = claim.verdict(figures)
        said = filled(claim.said, figures)
    return f"| {claim.text} | {verdict} | {said} |\n"


def filled(text: str, figures: Figures) -> str:
    """Put figures where `{name:form}` stands; the forms are GiB, MiB, %, x, ms, us and n."""
    return re.sub(r"\{(\w+):([\w%]+)\}", lambda at: shown(figures[at[1]], at[2]), text)


def shown(value: float, form: str) -> str:
    """Write a figure in a form."""
    forms = {
        "GiB": lambda: f"{value / (1 << 30):.2f} GiB",
        "MiB": lambda: f"{value / (1 << 20):,.1f} MiB",
        "%": lambda: f"{value:.0%}".replace("%", " %"),
        "x": lambda: f"{value:.1f}",
        "ms": lambda: f"{value * 1e3:.1f} ms",
        "us": lambda: f"{value * 1e6:.1f} µs",
        "e": lambda: f"{value:.1e}",
        "n": lambda: f"{value:,.0f}",
    }
    return forms[form]()


def pages() -> dict[Path, str]:
    """Return the page by its file; nothing before the claims were measured.

    Raises:
        SystemExit: the result is of a trial run.

    """
    if not RESULT.exists():
        print(f"{RESULT.name}: not measured yet")
        return {}
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    if result["tiny"]:
        message = "the result is of a trial run (--tiny)"
        raise SystemExit(message)
    return {PAGE: page(result)}


if __name__ == "__main__":
    raise SystemExit(settle(pages, __doc__))

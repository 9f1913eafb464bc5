"""Fill the measured figures into the pages of the remedies.

Run from the root of a checkout: `python tools/remedy_pages.py` checks, `--write` writes. Each page
of docs/how-to/remedies/ has a marker that names strategies; what stands between it and the end
marker is generated from docs/data/strategies-h200.json, a list of `envkit.strategies/1` documents.
Without that file the pages say that nothing was measured yet.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from generated_pages import settle

from envkit.model.codec import convert
from envkit.model.strategies import Strategies
from envkit.render.strategies_text import largest_said, table_lines

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "how-to" / "remedies"
FIGURES = ROOT / "docs" / "data" / "strategies-h200.json"
BLOCK = re.compile(
    r"(<!-- measured: ([a-z0-9 -]+) -->\n)(.*?)(<!-- end of what was measured -->)", re.DOTALL
)
NOT_YET = "Not measured yet."
#: The name for the search for the largest batch, which is no strategy.
LARGEST = "largest-batch"


def read_figures(path: Path) -> list[Strategies]:
    """Return the documents of a file; none where there is no file."""
    if not path.exists():
        return []
    values = json.loads(path.read_text(encoding="utf-8"))
    return [convert(value, Strategies, origin=path.name) for value in values]


def generated(names: list[str], documents: list[Strategies]) -> str:
    """Return what stands between the markers for some strategies."""
    parts = [part for document in documents if (part := part_of(names, document))]
    return "\n".join(parts or [f"\n{NOT_YET}\n"]) + "\n"


def part_of(names: list[str], document: Strategies) -> str:
    """Return one workload's figures; empty where none of the strategies has any."""
    title = (
        f"**{document.workload}**, batch {document.batch}, {document.device}, "
        f"torch {document.torch}, {document.created[:10]}"
    )
    if names == [LARGEST]:
        found = document.largest_batch
        return "" if found is None else f"\n{title}: {largest_said(found)}\n"
    compared = {one.name for one in document.strategies if one.against is not None}
    if not compared & set(names):
        return ""
    return "\n".join(["", f"{title}:", "", *table_lines(document, names), ""])


def page_with(page: str, documents: list[Strategies]) -> str:
    """Return a page with its generated parts made anew.

    Raises:
        ValueError: it has no marker.

    """
    if not BLOCK.search(page):
        message = "it has no marker `<!-- measured: ... -->` with an end"
        raise ValueError(message)

    def fill(block: re.Match[str]) -> str:
        return f"{block[1]}{generated(block[2].split(), documents)}{block[4]}"

    return BLOCK.sub(fill, page)


def pages() -> dict[Path, str]:
    """Return the text of every page by its file."""
    documents = read_figures(FIGURES)
    print(f"{len(documents)} workloads measured")
    files = [file for file in sorted(FOLDER.glob("*.md")) if file.name != "index.md"]
    return {file: page_with(file.read_text(encoding="utf-8"), documents) for file in files}


if __name__ == "__main__":
    raise SystemExit(settle(pages, __doc__))

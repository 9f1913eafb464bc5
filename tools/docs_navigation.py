"""Keep the line under each page's title that leads back: Documentation / How-to guides.

`python tools/docs_navigation.py` checks, `--write` writes. docs/index.md says which page is in
which part; a page that only its folder's index lists gets that index as a further step. Pages that
a script writes whole have the line in the script.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from check_docs import INDEX, ROOT, links, slug
from generated_pages import settle

#: The title, and the line that is there already.
TOP = re.compile(r"\A# (?P<title>.+)\n+(?P<line>\[Documentation\]\(.*\n\n)?")


def parts(index: str) -> dict[Path, str]:
    """Return the heading under which docs/index.md lists each page."""
    found: dict[Path, str] = {}
    for section in index.split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        for link in links(INDEX, section):
            page = Path(os.path.normpath(INDEX.parent / urlsplit(link.target).path))
            found.setdefault(page, heading)
    return found


def step(page: Path, target: Path, name: str, anchor: str = "") -> str:
    """Return a link from one page to another."""
    return f"[{name}]({Path(os.path.relpath(target, page.parent)).as_posix()}{anchor})"


def trail(root: Path, page: Path, listed: dict[Path, str]) -> str | None:
    """Return the line of a page; None for one that no index lists."""
    near = page.parent / "index.md"
    place = page if page in listed else near
    if place not in listed:
        return None
    heading = listed[place]
    steps = [
        step(page, INDEX, "Documentation"),
        step(page, INDEX, heading, f"#{slug(heading)}"),
    ]
    if place != page:
        top = TOP.match((root / near).read_text(encoding="utf-8"))
        steps.append(step(page, near, top["title"] if top else near.parent.name))
    return " / ".join(steps)


def navigated(text: str, line: str) -> str:
    """Return a page with its line under the title."""
    return TOP.sub(lambda top: f"# {top['title']}\n\n{line}\n\n", text, count=1)


def stale_pages(root: Path) -> dict[Path, str]:
    """Return the files whose line is missing or another one, with the text they are to have."""
    listed = parts((root / INDEX).read_text(encoding="utf-8"))
    stale = {}
    for file in sorted((root / INDEX.parent).rglob("*.md")):
        line = trail(root, file.relative_to(root), listed)
        text = file.read_text(encoding="utf-8")
        if line is not None and file != root / INDEX and navigated(text, line) != text:
            stale[file] = navigated(text, line)
    return stale


if __name__ == "__main__":
    raise SystemExit(settle(lambda: stale_pages(ROOT), __doc__))

"""What mkdocs has to know of our pages: their order, and GitHub's names for headings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

from check_docs import INDEX, ROOT, slug
from docs_navigation import parts

#: A list or a table that Python-Markdown took for text: it wants an empty line before it.
MISSED: Final = re.compile(r"<p>(?:(?!</p>).)*\n(?:[-*] |\d+\. |\|)", re.DOTALL)


def on_config(config: Any) -> Any:
    """Put docs/index.md's parts into the menu, and let anchors be those of GitHub."""
    config["mdx_configs"]["toc"] = {"slugify": lambda text, _: slug(text)}
    menu: dict[str, list[str]] = {}
    for page, part in parts((ROOT / INDEX).read_text(encoding="utf-8")).items():
        if page.suffix == ".md":
            menu.setdefault(part, []).append(page.as_posix())
    config["nav"] = ["README.md", INDEX.as_posix(), *({part: own} for part, own in menu.items())]
    return config


def on_page_content(html: str, page: Any, **_: Any) -> None:
    """Refuse a page on which a list or a table did not become one."""
    if missed := MISSED.search(html):
        message = f"{page.file.src_uri}: no empty line before: {missed.group()[-60:]!r}"
        raise ValueError(message)

"""The line under a page's title comes from the index."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

INDEX = """\
# Documentation

[Not a part](guides/other.md)

## How-to guides

- [One](guides/one.md)
- [Folder](guides/more/index.md)
"""


def test_parts_of_the_index(docs_navigation: ModuleType) -> None:
    assert docs_navigation.parts(INDEX) == {
        Path("docs/guides/one.md"): "How-to guides",
        Path("docs/guides/more/index.md"): "How-to guides",
    }


def test_line_of_a_page(docs_navigation: ModuleType, tmp_path: Path) -> None:
    listed = docs_navigation.parts(INDEX)
    folder = tmp_path / "docs/guides/more"
    folder.mkdir(parents=True)
    (folder / "index.md").write_text("# More of it\n\nText.\n", encoding="utf-8")
    one = "[Documentation](../index.md) / [How-to guides](../index.md#how-to-guides)"
    assert docs_navigation.trail(tmp_path, Path("docs/guides/one.md"), listed) == one
    below = docs_navigation.trail(tmp_path, Path("docs/guides/more/part.md"), listed)
    assert below == one.replace("../", "../../") + " / [More of it](index.md)"
    assert docs_navigation.trail(tmp_path, Path("docs/guides/other.md"), listed) is None


def test_line_is_written_once_and_renewed(docs_navigation: ModuleType) -> None:
    page = "# Title\n\nText.\n"
    once = docs_navigation.navigated(page, "[Documentation](a.md)")
    assert once == "# Title\n\n[Documentation](a.md)\n\nText.\n"
    assert docs_navigation.navigated(once, "[Documentation](b.md)") == once.replace("a.md", "b.md")


def test_pages_of_this_checkout_have_it(docs_navigation: ModuleType) -> None:
    assert docs_navigation.stale_pages(docs_navigation.ROOT) == {}

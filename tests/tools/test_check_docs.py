"""The documentation check finds what it promises to find, and only that."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

INDEX = """\
# Index

[Page](page.md#a-second-part) and [itself](#index), [README](../README.md),
[elsewhere](https://example.org/a_(b)).

```text
[not a link](nowhere.md)
```
`[nor](this.md)` <!-- [nor](that.md) -->
"""
PAGE = "# Page\n\n## A `second` part\n\n## Twice\n\n## Twice\n\n[up](index.md)\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# A\n\n[docs](docs/index.md)\n", encoding="utf-8")
    (tmp_path / "docs/index.md").write_text(INDEX, encoding="utf-8")
    (tmp_path / "docs/page.md").write_text(PAGE, encoding="utf-8")
    return tmp_path


def test_sound_site(check_docs: ModuleType, site: Path) -> None:
    found, said = check_docs.faults(site)
    assert said == []
    assert {str(page): len(links) for page, links in found.items()} == {
        "README.md": 1,
        "docs/index.md": 4,
        "docs/page.md": 1,
    }


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("[x](missing.md)", "no such file"),
        ("[x](index.md#nothing)", "no heading for #nothing"),
        ("[x](#twice-2)", "no heading for #twice-2"),
        ("[x](../../secret.md)", "leads out of the repository"),
        ("[x](http://example.org)", "https://"),
        ("[x](https://)", "no host name"),
        ("[x]()", "an empty link"),
        ("[x]: missing.md", "no such file"),
        ("![x](missing.png)", "no such file"),
    ],
)
def test_fault_is_named_with_its_line(
    check_docs: ModuleType, site: Path, link: str, fault: str
) -> None:
    (site / "docs/page.md").write_text(f"{PAGE}{link}\n", encoding="utf-8")
    (said,) = check_docs.faults(site)[1]
    assert said.startswith("docs/page.md:10: ")
    assert fault in said


def test_second_heading_of_a_name(check_docs: ModuleType) -> None:
    assert check_docs.anchors(PAGE) == {"page", "a-second-part", "twice", "twice-1"}


def test_lost_page(check_docs: ModuleType, site: Path) -> None:
    (site / "docs/lost.md").write_text("# Lost\n", encoding="utf-8")
    assert check_docs.faults(site)[1] == ["docs/lost.md: no link leads here from docs/index.md"]

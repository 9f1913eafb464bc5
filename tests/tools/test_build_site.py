"""The site is built from the pages as they are, and a fault of a page is an error."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import environment

ROOT = Path(__file__).parent.parent.parent
TOOLS = (
    "build_site",
    "check_docs",
    "docs_commands",
    "docs_navigation",
    "generated_pages",
    "site_hooks",
)
INDEX = "# Documentation\n\n## Guides\n\n- [A page](guides/page.md#what--why)\n"
PAGE = """\
# A page

[up](../index.md), [root](../../README.md), [file](../file.txt)

## What & why?
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed (dependency group docs)")
    (tmp_path / "docs/guides").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    for name in TOOLS:
        shutil.copy(ROOT / f"tools/{name}.py", tmp_path / "tools")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "README.md").write_text("# Project\n\n[docs](docs/index.md)\n")
    (tmp_path / "docs/index.md").write_text(INDEX)
    (tmp_path / "docs/guides/page.md").write_text(PAGE)
    (tmp_path / "docs/file.txt").write_text("text")
    return tmp_path


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/build_site.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_links_and_menu_work_from_disk(site: Path) -> None:
    done = build(site)
    assert done.returncode == 0, done.stderr
    built = site / "build/site"
    page = (built / "docs/guides/page.html").read_text()
    for link in ("../index.html", "../../index.html", "../file.txt"):
        assert f'href="{link}"' in page
        assert (built / "docs/guides" / link).exists()
    assert 'id="what--why"' in page, "GitHub's anchor"
    assert "Guides" in page, "the part of the index is in the menu"
    assert 'src="http' not in page
    assert 'rel="stylesheet" href="http' not in page


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("[x](missing.md)", "missing.md"),
        ("[x](../index.md#nothing)", "#nothing"),
        ("**A list**\n- one\n- two", "no empty line before"),
        ("Numbers\n1. one", "no empty line before"),
    ],
)
def test_fault_of_a_page_is_an_error(site: Path, more: str, why: str) -> None:
    (site / "docs/guides/page.md").write_text(f"{PAGE}\n{more}\n")
    done = build(site)
    assert done.returncode != 0
    assert why in done.stderr

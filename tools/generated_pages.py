"""Checks that generated pages hold what their script makes, or writes them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def settle(pages: Callable[[], Mapping[Path, str]], about: str | None) -> int:
    """Check a script's pages, or with `--write` write those that are not what they are to be.

    Args:
        pages: makes the text of each page.
        about: the script's docstring; its first line is what `--help` says.

    Returns:
        Exit code: 1 where a page is out of date and was not written.

    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the pages")
    write: bool = parser.parse_args().write
    wanted = pages()
    stale = [path for path, text in wanted.items() if read(path) != text]
    for path in stale:
        if write:
            path.write_text(wanted[path], encoding="utf-8")
        print(f"{path.name}: {'written' if write else 'out of date; run: make docs'}")
    print(f"{Path(sys.argv[0]).stem}: {len(wanted)} pages, {len(stale)} of them out of date before")
    return 1 if stale and not write else 0


def read(path: Path) -> str | None:
    """Return a page's text; None where there is none yet."""
    return path.read_text(encoding="utf-8") if path.exists() else None

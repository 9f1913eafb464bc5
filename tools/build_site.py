"""Build the documentation as a site: `python tools/build_site.py`, into build/site.

The pages are copied with the folders they lie in and the files they link to, so that the links that
work on GitHub work in the site, and mkdocs turns the copies into HTML. No network is needed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from check_docs import ROOT, links, pages, target_of

PAGES = ROOT / "build" / "pages"


def files(root: Path) -> set[Path]:
    """Return the pages and the files and pictures that they link to, named from the root."""
    texts = pages(root)
    found = set(texts)
    for page, text in texts.items():
        for link in links(page, text):
            target = None if urlsplit(link.target).scheme else target_of(root, link)
            if target is not None and (root / target).is_file():
                found.add(target)
    return found


def stage(root: Path, folder: Path) -> None:
    """Copy them into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for file in sorted(files(root)):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, folder / file)


def main() -> int:
    """Build the site; a link that leads nowhere is an error."""
    stage(ROOT, PAGES)
    # Not --quiet: with it mkdocs counts no warnings, and --strict passes whatever there is.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=300)  # noqa: S603 - fixed arguments
    if done.returncode == 0:
        print(f"site: {(ROOT / 'build/site/index.html').relative_to(ROOT)}")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())

"""Find what no committed file may hold: paths of the machines this is built on, package hosts.

Run from the root of a checkout: `python tools/forbidden_strings.py`. The patterns are written with
character classes so that this file does not match itself.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

PATTERNS = {
    "a path of a build machine": re.compile(r"/wor[k]/|/roo[t]/|/tm[p]/[a-z]|/opt/whee[l]s"),
    "a package registry's host": re.compile(
        r"\bpyp[i]\.org|\bpythonhoste[d]\.org|\bregistry\.npmj[s]|\bdeb\.debia[n]\.", re.IGNORECASE
    ),
}


def faults(name: str, text: str) -> Iterator[str]:
    """Yield a sentence for each forbidden string of a file."""
    for number, line in enumerate(text.splitlines(), start=1):
        for what, pattern in PATTERNS.items():
            if match := pattern.search(line):
                yield f"{name}:{number}: {what}: {match.group()}"


def main() -> int:
    """Search every file that git would keep."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603
    names = [name for name in listed.split("\0") if name and Path(name).is_file()]
    said = [
        fault
        for name in names
        for fault in faults(name, Path(name).read_text(encoding="utf-8", errors="replace"))
    ]
    print("\n".join([*said, f"strings: {len(names)} files, {len(said)} faults"]))
    return 1 if said else 0


if __name__ == "__main__":
    raise SystemExit(main())

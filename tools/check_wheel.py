"""Check that a wheel holds every file of the package and its folders that git would keep, no other.

Run from the root of a checkout: `python tools/check_wheel.py dist/NAME.whl`.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

#: Folder of the checkout to folder of the wheel.
FOLDERS = {
    "envkit": "envkit",
    "baselines": "envkit/_baselines",
    "environments": "envkit/_environments",
}


def expected(kept: Iterable[str]) -> set[str]:
    """Return the names that files of the checkout have inside the wheel."""
    return {
        f"{FOLDERS[top]}/{rest}"
        for top, _, rest in (path.partition("/") for path in kept)
        if top in FOLDERS
    }


def faults(names: Iterable[str], kept: Iterable[str]) -> list[str]:
    """Return a sentence for each file that is missing from the wheel or should not be in it."""
    held = {name for name in names if ".dist-info/" not in name}
    wanted = expected(kept)
    missing = [f"not in the wheel: {name}" for name in sorted(wanted - held)]
    return missing + [f"in the wheel but ignored by git: {name}" for name in sorted(held - wanted)]


def main() -> int:
    """Print what is wrong with the wheel named on the command line."""
    wheel = Path(sys.argv[1])
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    found = faults(names, [path for path in listed.split("\0") if path])
    print("\n".join([f"wheel: {wheel.name}, {len(names)} files", *found]))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())

r"""Write the requirement files that images install envkit from, with the hash of each wheel.

Run from the root of a checkout, with a folder that has the files of all Pythons and processors:

    for python in 3.10 3.11 3.12 3.13 3.14; do for machine in x86_64 aarch64; do
        pip download --no-deps --only-binary :all: --python-version $python \
            --platform manylinux_2_28_$machine --platform manylinux_2_17_$machine \
            --platform manylinux2014_$machine --dest FOLDER NAME==VERSION ...
    done; done
    python tools/image_requirements.py FOLDER

A file with another hash is refused by pip, from wherever it comes.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import parse_wheel_filename

TEMPLATES = Path(__file__).parent.parent / "envkit" / "render" / "container" / "templates"
#: What `envkit create` needs, which stays in the build stage.
BUILDER = frozenset({"py-rattler"})
#: Needed by older Pythons only.
MARKERS = {"tomli": ' ; python_version < "3.11"'}
HEAD = "# Written by tools/image_requirements.py: for CPython 3.10 to 3.14 on x86_64 and aarch64.\n"


def requirements(wheels: Iterable[Path]) -> dict[str, str]:
    """Return the requirement of each name, with the hashes of its wheels.

    Raises:
        ValueError: there are two versions of a name.

    """
    found: dict[str, dict[str, set[str]]] = {}
    for wheel in wheels:
        name, version, _, _ = parse_wheel_filename(wheel.name)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        found.setdefault(name, {}).setdefault(str(version), set()).add(digest)
    return {name: _requirement(name, versions) for name, versions in sorted(found.items())}


def _requirement(name: str, versions: dict[str, set[str]]) -> str:
    if len(versions) != 1:
        message = f"{name}: more than one version, {', '.join(versions)}"
        raise ValueError(message)
    (version, digests), *_ = versions.items()
    lines = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(digests))
    return f"{name}=={version}{MARKERS.get(name, '')}{lines}\n"


def main() -> int:
    """Write both files."""
    found = requirements(Path(sys.argv[1]).glob("*.whl"))
    for file, wanted in (
        ("requirements.txt", found.keys() - BUILDER),
        ("builder-requirements.txt", found.keys() & BUILDER),
    ):
        text = HEAD + "".join(found[name] for name in sorted(wanted))
        (TEMPLATES / file).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

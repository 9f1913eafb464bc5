"""How conda calls a platform: `linux-64`, `osx-arm64`."""

from __future__ import annotations

import platform as machine
import sys
from collections import Counter
from collections.abc import Iterable

from envkit.model.facts import CondaPackage


def host_platform() -> str:
    """Return the platform of this machine."""
    system = {"linux": "linux", "darwin": "osx", "win32": "win"}.get(sys.platform, sys.platform)
    found = machine.machine().lower()
    arch = {"x86_64": "64", "amd64": "64"}.get(found, found)
    return f"{system}-{arch}"


def platform_of(packages: Iterable[CondaPackage]) -> str | None:
    """Return the platform that an environment is for, by its packages; None: all are `noarch`."""
    found = Counter(one.subdir for one in packages if one.subdir not in {"", "noarch"})
    return next((name for name, _ in found.most_common(1)), None)

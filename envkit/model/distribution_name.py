"""The name of a Python distribution as the index knows it (PEP 503)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_SEPARATORS: Final = re.compile(r"[-_.]+")


@lru_cache(maxsize=1 << 12)
def canonical_name(name: str) -> str:
    """Return a name in small letters, one dash for each run of `-`, `_` and `.`.

    Not `packaging.utils.canonicalize_name`: that module loads `logging` and `subprocess`, more than
    a check of an environment takes.
    """
    return _SEPARATORS.sub("-", name).lower()

"""Scalars of YAML that end with their line, and which of them mean themselves."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

#: Bare ones start with no character that YAML gives a meaning.
SCALAR: Final = r"(?:[A-Za-z0-9_./<=][A-Za-z0-9_.+!/:*=<>,|~-]*|'(?:[^'\r\n\x85\u2028\u2029]|'')*')"
BARE_KEY: Final = r"[A-Za-z0-9_.][A-Za-z0-9_.+-]*"
#: What YAML 1.1 has no other reading of, told without loading a reader of YAML: no word such as
#: `no`, and no number or time: those have one dot at most and no letters but e, t, z, 0x and 0b.
_SURELY_PLAIN: Final = re.compile(
    r"(?!(?:y|n|yes|no|true|false|on|off|null)\Z)[a-z_/].*"
    r"|(?!0[bx])[0-9].*[a-df-su-y*!].*"
    r"|0b.*[2-9a-z].*"
    r"|[0-9]+(?:[a-z]|\.[0-9]+\..*)"
    r"|<(?!<).*|=.+",
    re.IGNORECASE | re.ASCII,
)


class NotPlainError(Exception):
    """Something that only a reader of YAML can tell."""


@lru_cache(maxsize=4096)
def plain_value(scalar: str) -> str:
    """Return the text that a scalar stands for.

    Raises:
        NotPlainError: it is a number, a word such as `no`, a key, or cannot be told.

    """
    if scalar.startswith("'"):
        return scalar[1:-1].replace("''", "'")
    # `a:` at the end of a line would be a key.
    if scalar.endswith(":") or not is_plain_string(scalar):
        raise NotPlainError
    return scalar


def is_plain_string(text: str) -> bool:
    """Say whether a scalar without quotes stands for itself, not for a number, a word or a date."""
    if _SURELY_PLAIN.fullmatch(text):
        return True
    if not text:
        return False
    from yaml.resolver import Resolver  # noqa: PLC0415 (it takes as long to load as reading a lock)

    by_first = Resolver.yaml_implicit_resolvers
    return not any(
        pattern.match(text) for _, pattern in (*by_first.get(text[0], ()), *by_first.get(None, ()))
    )

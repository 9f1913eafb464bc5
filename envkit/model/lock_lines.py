"""The package list of a lock read line by line, where it is laid out as conda-lock lays it out.

A reader of YAML builds 40 values for each package; this one knows which lines come in which order
and gives up (None) at the first that is anything else. What it reads is what YAML would say: only
scalars are taken that mean themselves, bare or in single quotes, one to a line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, Literal, cast

from envkit.model.conda_lock import LockedPackage, PackageHash
from envkit.model.yaml_values import is_plain_string

#: A scalar that ends with its line. Bare ones start with no character that YAML gives a meaning.
_SCALAR = r"(?:[A-Za-z0-9_./<=][A-Za-z0-9_.+!/:*=<>,|~-]*|'(?:[^'\r\n\x85\u2028\u2029]|'')*')"
_BARE = r"[A-Za-z0-9_.][A-Za-z0-9_.+-]*"
_PACKAGE: Final = re.compile(
    rf"- name: (?P<name>{_BARE})\n"
    rf"  version: (?P<version>{_SCALAR})\n"
    r"  manager: (?P<manager>conda|pip)\n"
    r"  platform: (?P<platform>[a-z]+-[a-z0-9]+)\n"
    rf"  dependencies:(?: \{{\}}\n|\n(?P<dependencies>(?:    {_BARE}: {_SCALAR}\n)+))"
    r"  url: (?P<url>https?://[A-Za-z0-9_.+!/:%$@~=-]+)\n"
    rf"  hash:\n(?:    md5: (?P<md5>{_SCALAR})\n)?(?:    sha256: (?P<sha256>{_SCALAR})\n)?"
    rf"(?:  build: (?P<build>{_SCALAR})\n)?"
    rf"  category: (?P<category>{_BARE})\n"
    r"  optional: (?P<optional>true|false)\n"
)
_DEPENDENCY: Final = re.compile(rf"    ({_BARE}): ({_SCALAR})\n")


class _NotPlainError(Exception):
    """Something that only a reader of YAML can tell."""


def read_packages(text: str) -> tuple[LockedPackage, ...] | None:
    """Read everything after the line `package:`; None where it is laid out differently."""
    packages: list[LockedPackage] = []
    position = 0
    try:
        while position < len(text):
            found = _PACKAGE.match(text, position)
            if found is None:
                return None
            packages.append(_package(found.groupdict()))
            position = found.end()
    except _NotPlainError:
        return None
    return tuple(packages)


def _package(fields: dict[str, Any]) -> LockedPackage:
    md5, sha256, build = fields["md5"], fields["sha256"], fields["build"]
    if md5 is None and sha256 is None:
        raise _NotPlainError
    return LockedPackage(
        name=_value(fields["name"]),
        version=_value(fields["version"]),
        manager=cast("Literal['conda', 'pip']", fields["manager"]),
        platform=fields["platform"],
        dependencies=_dependencies(fields["dependencies"] or ""),
        url=fields["url"],
        hash=PackageHash(
            md5=None if md5 is None else _value(md5),
            sha256=None if sha256 is None else _value(sha256),
        ),
        build=None if build is None else _value(build),
        category=_value(fields["category"]),
        optional=fields["optional"] == "true",
    )


def _dependencies(text: str) -> dict[str, str]:
    pairs = _DEPENDENCY.findall(text)
    dependencies = {name: _value(constraint) for name, constraint in pairs}
    if len(dependencies) != len(pairs):
        raise _NotPlainError  # a key twice
    return dependencies


@lru_cache(maxsize=4096)
def _value(scalar: str) -> str:
    if scalar.startswith("'"):
        return scalar[1:-1].replace("''", "'")
    # `a:` at the end of a line would be a key; everything else is asked of YAML's own rules.
    if scalar.endswith(":") or not is_plain_string(scalar):
        raise _NotPlainError
    return scalar

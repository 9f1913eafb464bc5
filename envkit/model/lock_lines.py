"""The package list of a lock read line by line, where it is laid out as conda-lock lays it out.

A reader of YAML builds 40 values for each package; this one knows which lines come in which order
and gives up (None) at the first that is anything else. What it reads is what YAML would say: only
scalars are taken that mean themselves, bare or in single quotes, one to a line.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, cast

from envkit.model.conda_lock import LockedPackage, PackageHash
from envkit.model.yaml_scalars import BARE_KEY, SCALAR, NotPlainError, plain_value

_PACKAGE: Final = re.compile(
    rf"- name: (?P<name>{BARE_KEY})\n"
    rf"  version: (?P<version>{SCALAR})\n"
    r"  manager: (?P<manager>conda|pip)\n"
    r"  platform: (?P<platform>[a-z]+-[a-z0-9]+)\n"
    rf"  dependencies:(?: \{{\}}\n|\n(?P<dependencies>(?:    {BARE_KEY}: {SCALAR}\n)+))"
    r"  url: (?P<url>https?://[A-Za-z0-9_.+!/:%$@~=-]+)\n"
    rf"  hash:\n(?:    md5: (?P<md5>{SCALAR})\n)?(?:    sha256: (?P<sha256>{SCALAR})\n)?"
    rf"(?:  build: (?P<build>{SCALAR})\n)?"
    rf"  category: (?P<category>{BARE_KEY})\n"
    r"  optional: (?P<optional>true|false)\n"
)
_DEPENDENCY: Final = re.compile(rf"    ({BARE_KEY}): ({SCALAR})\n")


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
    except NotPlainError:
        return None
    return tuple(packages)


def _package(fields: dict[str, Any]) -> LockedPackage:
    md5, sha256, build = fields["md5"], fields["sha256"], fields["build"]
    if md5 is None and sha256 is None:
        raise NotPlainError
    return LockedPackage(
        name=plain_value(fields["name"]),
        version=plain_value(fields["version"]),
        manager=cast("Literal['conda', 'pip']", fields["manager"]),
        platform=fields["platform"],
        dependencies=_dependencies(fields["dependencies"] or ""),
        url=fields["url"],
        hash=PackageHash(
            md5=None if md5 is None else plain_value(md5),
            sha256=None if sha256 is None else plain_value(sha256),
        ),
        build=None if build is None else plain_value(build),
        category=plain_value(fields["category"]),
        optional=fields["optional"] == "true",
    )


def _dependencies(text: str) -> dict[str, str]:
    pairs = _DEPENDENCY.findall(text)
    dependencies = {name: plain_value(constraint) for name, constraint in pairs}
    if len(dependencies) != len(pairs):
        raise NotPlainError  # a key twice
    return dependencies

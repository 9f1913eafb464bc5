"""The lines of the pip half of a spec: requirements, addresses, local paths and options."""

from __future__ import annotations

import re
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from envkit.model.conda_version import parse_constraint
from envkit.model.distribution_name import canonical_name
from envkit.model.environment_spec import PipDependency

#: Room for some 200 hashes.
_LONGEST: Final = 20_000
_LONG: Final = {
    "-e": "--editable",
    "-f": "--find-links",
    "-i": "--index-url",
    "-r": "--requirement",
    "-c": "--constraint",
    "--pypi-url": "--index-url",
}
_HASH: Final = re.compile(r"\s--hash[= ]\S+")
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
_OPTION: Final = re.compile(r"(?P<name>--?[A-Za-z][A-Za-z\-]*)\s*=?\s*(?P<value>.*)", re.DOTALL)
#: `./package`, `package/`, `a/b`, `x.whl`, `.`, `.[extra]`; names of packages hold no slash.
_LOCAL: Final = re.compile(r"[^\s:@]*(?:[/\\]|\.(?:whl|zip|tar\.gz)$)|^\.{1,2}(?:\[|$)")


def read_pip_line(text: str, line: int, selector: str | None) -> PipDependency:
    """Read one line as pip would.

    Raises:
        ValueError: pip would not understand it.

    """
    if len(text) > _LONGEST:
        message = f"a requirement of {len(text)} characters is not read"
        raise ValueError(message)
    hashed = bool(_HASH.search(text))
    plain = _HASH.sub("", _COMMENT.sub("", text)).strip()
    if plain.startswith("-"):
        return _option(plain, text, line, selector)
    if re.match(r"(?:git|hg|svn|bzr)\+|(?:https?|file|ftp|ssh)://", plain, re.IGNORECASE):
        name = re.search(r"[#&]egg=([\w.\-]+)", plain)
        named = canonical_name(name[1]) if name else None
        return PipDependency(
            text=text, line=line, kind="url", name=named, hashed=hashed, selector=selector
        )
    if _LOCAL.match(plain):
        return PipDependency(text=text, line=line, kind="local", selector=selector)
    try:
        requirement = Requirement(plain)
    except InvalidRequirement as error:
        message = f"{plain[:80]!r} is not a requirement as pip reads them"
        raise ValueError(message) from error
    if requirement.specifier:
        parse_constraint(str(requirement.specifier))  # later readers may rely on it
    return PipDependency(
        text=text,
        line=line,
        kind="url" if requirement.url else "named",
        name=canonical_name(requirement.name),
        specifier=str(requirement.specifier),
        hashed=hashed,
        selector=selector,
    )


def _option(plain: str, text: str, line: int, selector: str | None) -> PipDependency:
    found = _OPTION.fullmatch(plain)
    if found is None:
        message = f"{plain[:80]!r} is not an option of pip"
        raise ValueError(message)
    name = found["name"]
    return PipDependency(
        text=text,
        line=line,
        kind="option",
        name=_LONG.get(name, name),
        specifier=found["value"].strip().strip("'\""),
        selector=selector,
    )

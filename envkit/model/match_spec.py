"""How conda writes a dependency: `channel::name`, a version constraint, a build, and more.

Read here: `python=3.11`, `pytorch=2.7.1=*cuda126*`, `pytorch 2.6.0 *cuda126*`, `python >= 3.8`,
`pytorch::pytorch-cuda=12.4`, `numpy[version='>=1.26,<2', build=py*]`, and the URL of a package.
"""

from __future__ import annotations

import fnmatch
import re

import msgspec

from envkit.model.conda_channel import channel_name, is_platform
from envkit.model.conda_version import Constraint, parse_constraint

_LONGEST = 1000
_NAME = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.\-]*|\*)\s*(?P<rest>.*)", re.DOTALL)
_BRACKETS = re.compile(r"(?P<plain>[^\[\]]*)\[(?P<keys>[^\[\]]*)\]\s*")
_KEY = re.compile(r"""\s*(\w+)\s*=\s*('[^']*'|"[^"]*"|[^,'"\s]*)\s*(?:,|$)""")
_OPERATORS = re.compile(r"(===|==|!=|>=|<=|~=|>|<|=)\s+")
#: `=2.7.1=*cuda*`: the last single `=` that is no part of an operator.
_WITH_BUILD = re.compile(r"(?P<version>.*[^=<>!~,|\s])=(?P<build>[^=<>!~,|\s]+)")
_PACKAGE_FILE = re.compile(
    r"(?P<name>.+)-(?P<version>[^-]+)-(?P<build>[^-]+?)(?:\.conda|\.tar\.bz2)"
)
_BUILD = re.compile(r"[\w.*+\-]+")


class MatchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a dependency asks for; None: nothing in particular."""

    name: str
    """In lower case, as packages are named."""
    channel: str | None = None
    subdir: str | None = None
    version: Constraint | None = None
    build: str | None = None
    """With `*` for any text."""
    url: str | None = None
    """Of the very package, where the dependency is one."""
    keys: tuple[tuple[str, str], ...] = ()
    """Other `[key=value]` pairs, sorted: md5, build_number ..."""

    @property
    def pinned_build(self) -> bool:
        """Whether exactly one build is named, as in an exported file."""
        return self.build is not None and "*" not in self.build

    def admits(self, *, name: str, version: str, build: str, channel: str) -> bool:
        """Say whether a package fulfils the dependency; `keys` are not looked at.

        Raises:
            ValueError: the package's version is none.

        """
        if self.name not in {"*", name.lower()}:
            return False
        if self.channel is not None and channel_name(self.channel) != channel_name(channel):
            return False
        if self.build is not None and not fnmatch.fnmatchcase(build, self.build):
            return False
        return self.version is None or self.version.admits(version)

    def canonical(self) -> str:
        """Return the one spelling that equal dependencies share."""
        parts = [self.url or self.name]
        if self.version is not None:
            terms = sorted(
                ",".join(sorted(f"{term.operator} {term.version}" for term in alternative))
                for alternative in self.version.alternatives
            )
            parts.append("|".join(terms))
        parts.append(f"build={self.build}" if self.build else "")
        parts += [f"{key}={value}" for key, value in self.keys]
        channel = f"{self.channel}/{self.subdir}" if self.subdir else self.channel
        return ("" if channel is None else f"{channel}::") + " ".join(filter(None, parts))


def parse_match_spec(text: str) -> MatchSpec:
    """Read a dependency.

    Raises:
        ValueError: conda would not understand it either, or its version is a regular expression.

    """
    plain = text.strip()
    if not plain or len(plain) > _LONGEST:
        raise _not_a(text)
    if "://" in plain and "::" not in plain:
        return _from_url(plain)
    plain, keys = _take_keys(plain)
    channel, subdir, plain = _take_channel(plain)
    found = _NAME.fullmatch(plain)
    if found is None:
        raise _not_a(text)
    version, build = _version_and_build(found["rest"].strip(), text)
    return MatchSpec(
        name=found["name"].lower(),
        channel=keys.pop("channel", channel),
        subdir=keys.pop("subdir", subdir),
        version=_bracket_version(keys) or version,
        build=keys.pop("build", build),
        keys=tuple(sorted(keys.items())),
    )


def _from_url(url: str) -> MatchSpec:
    found = _PACKAGE_FILE.fullmatch(url.partition("#")[0].rpartition("/")[2])
    if found is None:
        raise _not_a(url)
    return MatchSpec(
        name=found["name"].lower(),
        version=parse_constraint(found["version"]),
        build=found["build"],
        url=url,
    )


def _take_keys(text: str) -> tuple[str, dict[str, str]]:
    if "[" not in text and "]" not in text:
        return text, {}
    found = _BRACKETS.fullmatch(text)
    if found is None:
        raise _not_a(text)
    keys: dict[str, str] = {}
    rest = found["keys"]
    while rest.strip():
        key = _KEY.match(rest)
        if key is None or key[1] in keys:
            raise _not_a(text)
        keys[key[1]] = key[2].strip("'\"")
        rest = rest[key.end() :]
    return found["plain"].strip(), keys


def _take_channel(text: str) -> tuple[str | None, str | None, str]:
    channel, separator, rest = text.partition("::")
    if not separator:
        return None, None, text
    if not channel.strip() or "::" in rest:
        raise _not_a(text)
    name, slash, last = channel.strip().rpartition("/")
    if slash and is_platform(last):
        return name, last, rest.strip()
    return channel.strip(), None, rest.strip()


def _version_and_build(rest: str, text: str) -> tuple[Constraint | None, str | None]:
    if not rest:
        return None, None
    plain = _OPERATORS.sub(r"\1", re.sub(r"\s*([,|])\s*|\s+(!)(?=\d)", r"\1\2", rest))
    version, _, build = plain.partition(" ")
    if not build and (found := _WITH_BUILD.fullmatch(plain)) is not None:
        version, build = found["version"], found["build"]
        # With a build, `=2.7.1` and `2.7.1` are this very version.
        version = version.lstrip("=") if re.match(r"=[^=]", version) else version
    build = build.strip()
    if build and not _BUILD.fullmatch(build):
        raise _not_a(text)
    constraint = parse_constraint(version)
    anything = constraint.text in {"*", "=*", "==*"}
    return (None if anything else constraint), (None if build in {"", "*"} else build)


def _bracket_version(keys: dict[str, str]) -> Constraint | None:
    text = keys.pop("version", None)
    return None if text is None else parse_constraint(text)


def _not_a(text: str) -> ValueError:
    return ValueError(f"{text[:80]!r} is not a dependency as conda writes them")

"""What an environment.yml asks for, with the line of everything in it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from envkit.model.match_spec import MatchSpec

PipKind = Literal["named", "url", "local", "option"]

#: What conda-lock's selectors call each platform (conda_lock/src_parser/selectors.py).
SELECTORS: Final = {
    "linux-64": frozenset({"linux64", "unix", "linux"}),
    "linux-aarch64": frozenset({"aarch64", "unix", "linux"}),
    "linux-ppc64le": frozenset({"ppc64le", "unix", "linux"}),
    "osx-64": frozenset({"osx64", "osx", "unix"}),
    "osx-arm64": frozenset({"arm64", "osx", "unix"}),
    "win-64": frozenset({"win64", "win"}),
}


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A text of the file and its line, counted from 1."""

    text: str
    line: int


class CondaDependency(Located, frozen=True, kw_only=True):
    """One entry of `dependencies`."""

    match: MatchSpec
    selector: str | None = None
    """conda-lock's, `linux64` of a comment `# [linux64]`; conda itself has none."""


class PipDependency(Located, frozen=True, kw_only=True):
    """One entry of the pip half: a line of a requirements file."""

    kind: PipKind
    name: str | None = None
    """Normalised; of an option its long name, `--find-links`; None where the line names nothing."""
    specifier: str = ""
    """PEP 440, `==2.4.0+cu121`; of an option its value."""
    hashed: bool = False
    selector: str | None = None


class Variable(Located, frozen=True, kw_only=True):
    """One entry of `variables`; `text` is the value."""

    name: str


class EnvironmentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An environment.yml."""

    origin: str
    """What the file is called in messages: the path as the user gave it."""
    name: Located | None = None
    channels: tuple[Located, ...] = ()
    dependencies: tuple[CondaDependency, ...] = ()
    pip: tuple[PipDependency, ...] = ()
    variables: tuple[Variable, ...] = ()
    platforms: tuple[Located, ...] = ()
    """conda-lock's key."""
    prefix: Located | None = None
    lock_keys: tuple[Located, ...] = ()
    """Keys that conda-lock reads and conda does not, `platforms` among them."""
    unknown_keys: tuple[Located, ...] = ()
    key_lines: tuple[tuple[str, int], ...] = ()
    """Line of each key of the file, for findings about what is not there."""

    def line_of(self, key: str) -> int:
        """Return the line of a key of the file, 1 where it is missing."""
        return dict(self.key_lines).get(key, 1)

    def on(self, platform: str) -> EnvironmentSpec:
        """Return the spec as conda-lock reads it for a platform: other platforms' lines left out.

        conda itself takes selectors for comments and reads every line.
        """
        names = SELECTORS.get(platform, frozenset())
        return msgspec.structs.replace(
            self,
            dependencies=tuple(
                one for one in self.dependencies if one.selector is None or one.selector in names
            ),
            pip=tuple(one for one in self.pip if one.selector is None or one.selector in names),
        )

    def conda_named(self, *names: str) -> tuple[CondaDependency, ...]:
        """Return the conda dependencies with one of these names."""
        return tuple(one for one in self.dependencies if one.match.name in names)

    def pip_named(self, *names: str) -> tuple[PipDependency, ...]:
        """Return the pip requirements with one of these names."""
        return tuple(one for one in self.pip if one.name in names and one.kind != "option")

    def variable(self, name: str) -> str | None:
        """Return the value of a variable."""
        return next((one.text for one in self.variables if one.name == name), None)

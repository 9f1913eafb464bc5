"""Whether what a lock holds can have come from its spec: by its channels, and for its dependencies.

A lock is text that anyone can edit. An address elsewhere, or a package that nothing asked for, is
what a reviewer would miss among some hundred entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envkit.model.conda_lock import LockedPackage
from envkit.model.environment_spec import EnvironmentSpec
from envkit.specs.solver.channels import UPSTREAM
from envkit.specs.stale import Stale

_DEFAULTS_HOST: Final = "https://repo.anaconda.com"
#: What `defaults` stands for in conda (default_channels of its configuration).
_DEFAULTS: Final = ("pkgs/main", "pkgs/r", "pkgs/msys2")
#: A user and password, or a token of anaconda.org in the path.
_CREDENTIALS: Final = re.compile(r"[a-z]+://(?:[^/]*@|.*/t/[^/]+(?:/|$))")
_NAMED: Final = 5
_SHOWN_CHARS: Final = 120


def from_elsewhere(
    spec: EnvironmentSpec, packages: Sequence[LockedPackage], platform: str
) -> Iterator[Stale]:
    """Yield a reason for each address that is none of the spec's channels, and for pip.

    A channel by name is the one of conda.anaconda.org: a lock cannot say that another host is
    meant, since whoever changes the addresses of packages would write that too.
    """
    allowed = _addresses(spec)
    strange: dict[str, list[str]] = {}
    for package in packages:
        if package.manager != "conda":
            strange.setdefault("locked for pip, and envkit locks conda's", []).append(package.name)
        elif has_credentials(package.url):
            strange.setdefault("locked at an address with credentials", []).append(package.name)
        elif package.channel_url not in allowed:
            where = package.channel_url[:_SHOWN_CHARS]
            why = f"locked at {where}, which is no channel of the spec"
            strange.setdefault(why, []).append(package.name)
    for why, names in strange.items():
        said = f"{platform}: {_list(names)}: {why}"
        yield Stale(text=said, package=names[0], platform=platform)


def has_credentials(address: str) -> bool:
    """Say whether the address of a package or of a channel holds a password or a token."""
    return _CREDENTIALS.match(address) is not None


def not_needed(
    spec: EnvironmentSpec, packages: Mapping[str, LockedPackage], platform: str
) -> Iterator[Stale]:
    """Yield a reason if there are packages that neither the spec nor a package of it needs."""
    wanted = [one.match.name for one in spec.on(platform).dependencies]
    if "*" in wanted:
        return
    if "python" in packages:
        wanted.append("pip")  # conda gives Python one (add_pip_as_python_dependency)
    needed: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in packages and name not in needed:
            needed.add(name)
            wanted.extend(packages[name].dependencies)
    extra = [name for name in packages if name not in needed]
    if extra:
        said = f"{platform}: {_list(extra)}: locked, and nothing needs it"
        yield Stale(text=said, package=extra[0], platform=platform)


def _addresses(spec: EnvironmentSpec) -> frozenset[str]:
    named = [one.text for one in spec.channels] or ["defaults"]
    named += [one.match.channel for one in spec.dependencies if one.match.channel is not None]
    found: set[str] = set()
    for channel in named:
        found.update(_addresses_of(channel.strip().rstrip("/")))
    exact = (one.match.url for one in spec.dependencies if one.match.url is not None)
    found.update(url.rpartition("/")[0].rpartition("/")[0] for url in exact)
    return frozenset(found)


def _addresses_of(channel: str) -> tuple[str, ...]:
    if "://" in channel:
        return (channel,)
    if channel == "defaults":
        return tuple(f"{_DEFAULTS_HOST}/{name}" for name in _DEFAULTS)
    if channel.startswith("pkgs/"):
        return (f"{_DEFAULTS_HOST}/{channel}",)
    return (f"{UPSTREAM}/{channel}",)


def _list(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

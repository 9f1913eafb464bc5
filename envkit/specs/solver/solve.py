"""The solve itself: channels, specs and virtual packages to the records of an environment.

This is the only place of the solver that imports py-rattler (extra `lock`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

import msgspec
import rattler
from rattler.exceptions import (
    FetchRepoDataError,
    GatewayError,
    InvalidMatchSpecError,
    IoError,
    SolverError,
)

from envkit.specs.solver.channels import Channel
from envkit.specs.solver.outcome import Kind, Outcome, SolveError

#: What the errors of py-rattler say where a channel could not be reached.
_NO_NETWORK: Final = re.compile(
    r"error sending request|dns error|tcp connect error|connection (?:refused|reset)|timed out",
    re.IGNORECASE,
)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be solved."""

    channels: tuple[Channel, ...]
    """Highest priority first; strict, as conda-forge advises."""
    specs: tuple[str, ...]
    subdir: str
    virtual_packages: Mapping[str, tuple[str, str]]
    """Version and build, by name."""


def solve(request: Request) -> list[rattler.RepoDataRecord]:
    """Return the records of the newest environment that fulfils the specs, sorted by name.

    Raises:
        SolveError: there is none, a channel is missing or cannot be reached, or a spec is none.

    """
    try:
        records = asyncio.run(_solve(request))
    except SolverError as error:
        raise SolveError(Outcome(kind="unsolvable", message=_said(error))) from error
    except (GatewayError, FetchRepoDataError) as error:
        no_network = _NO_NETWORK.search(str(error)) is not None
        kind: Kind = "no_network" if no_network else "missing_channel"
        raise SolveError(Outcome(kind=kind, message=_said(error))) from error
    except (InvalidMatchSpecError, IoError) as error:
        raise SolveError(Outcome(kind="failed", message=_said(error))) from error
    return sorted(records, key=lambda record: record.name.normalized)


def _said(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


async def _solve(request: Request) -> list[rattler.RepoDataRecord]:
    sources: list[rattler.SparseRepoData | rattler.Channel] = []
    for channel in request.channels:
        sources += _sources(channel, request.subdir)
    return await rattler.solve(
        sources=sources,
        specs=[rattler.MatchSpec(spec) for spec in request.specs],
        platforms=[rattler.Subdir(request.subdir), rattler.Subdir("noarch")],
        virtual_packages=[
            rattler.GenericVirtualPackage(
                rattler.PackageName(name), rattler.Version(version), rattler.BuildString(build)
            )
            for name, (version, build) in sorted(request.virtual_packages.items())
        ],
        channel_priority=rattler.ChannelPriority.Strict,
    )


def _sources(channel: Channel, subdir: str) -> list[rattler.SparseRepoData | rattler.Channel]:
    if channel.folder is None:
        return [rattler.Channel(channel.url)]
    found: list[rattler.SparseRepoData | rattler.Channel] = []
    for folder in (subdir, "noarch"):
        listed = channel.folder / folder / "repodata.json"
        if listed.is_file():
            found.append(rattler.SparseRepoData(rattler.Channel(channel.url), folder, listed))
    if not found:
        message = f"The channel {channel.url} has no {subdir} and no noarch in {channel.folder}."
        raise SolveError(Outcome(kind="missing_channel", message=message))
    return found

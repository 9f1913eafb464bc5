"""The part of conda's command line that conda-lock 4 uses, as it was measured on 4.0.3.

`create --prefix P --dry-run --json --override-channels --channel C ... SPEC ...`, `info --json`,
`config --json list pkgs_dirs` and `--version`. Nothing is ever installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from envkit.specs.solver.channels import folder_of

if TYPE_CHECKING:
    import rattler

_WITH_VALUE: Final = {
    "--channel": "channel",
    "-c": "channel",
    "--prefix": "prefix",
    "-p": "prefix",
    "--name": "name",
    "-n": "name",
}
_OVERRIDE: Final = "CONDA_OVERRIDE_"


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """A command line, taken apart."""

    command: str
    channels: tuple[str, ...] = ()
    specs: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    prefix: str = ""


def read_arguments(argv: Sequence[str]) -> Arguments:
    """Take a command line apart; raises ValueError for an option without its value."""
    command, *rest = argv or ("",)
    values: dict[str, list[str]] = {"channel": [], "prefix": [], "name": []}
    specs: list[str] = []
    flags: set[str] = set()
    parts = iter(rest)
    for part in parts:
        option, equals, value = part.partition("=")
        if option in _WITH_VALUE and part.startswith("-"):
            values[_WITH_VALUE[option]].append(value if equals else _next(parts, option))
        elif part.startswith("-"):
            flags.add(part)
        else:
            specs.append(part)
    return Arguments(
        command=command,
        channels=tuple(values["channel"]),
        specs=tuple(specs),
        flags=frozenset(flags),
        prefix=values["prefix"][-1] if values["prefix"] else "",
    )


def _next(parts: Any, option: str) -> str:
    value = next(parts, None)
    if value is None:
        message = f"{option} needs a value"
        raise ValueError(message)
    return str(value)


def virtual_packages(
    channels: Sequence[str], subdir: str, variables: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Return version and build of the virtual packages, by name.

    conda-lock gives them twice: as packages of a channel made for the purpose, and as variables,
    of which an empty one says nothing.
    """
    found: dict[str, tuple[str, str]] = {}
    for channel in channels:
        if channel.startswith("file://"):
            found.update(_of_channel(channel, subdir))
    for variable, value in variables.items():
        if variable.startswith(_OVERRIDE) and value:
            name = f"__{variable[len(_OVERRIDE) :].lower()}"
            build = found.get(name, ("", "0"))[1]
            found[name] = ("1", value) if name == "__archspec" else (value, build)
    return found


def is_made_for_virtual_packages(channel: str) -> bool:
    """Say whether a channel lists virtual packages and nothing else."""
    if not channel.startswith("file://"):
        return False
    listed = [
        record for folder in ("noarch", *_subdirs(channel)) for record in _listed(channel, folder)
    ]
    return bool(listed) and all(record["name"].startswith("__") for record in listed)


def _subdirs(channel: str) -> list[str]:
    folder = folder_of(channel)
    return sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name != "noarch")


def _of_channel(channel: str, subdir: str) -> dict[str, tuple[str, str]]:
    return {
        record["name"]: (
            record["version"],
            record.get("build_string") or record.get("build") or "0",
        )
        for folder in (subdir, "noarch")
        for record in _listed(channel, folder)
        if record["name"].startswith("__")
    }


def _listed(channel: str, folder: str) -> list[dict[str, Any]]:
    path = folder_of(channel) / folder / "repodata.json"
    if not path.is_file():
        return []
    index = msgspec.json.decode(path.read_bytes())
    return [*index.get("packages", {}).values(), *index.get("packages.conda", {}).values()]


def plan(records: Sequence[rattler.RepoDataRecord], prefix: str) -> dict[str, Any]:
    """Return what `conda create --dry-run --json` prints: each package to be fetched and linked."""
    return {
        "success": True,
        "dry_run": True,
        "prefix": prefix,
        "actions": {
            "PREFIX": prefix,
            "FETCH": [_fetch(record) for record in records],
            "LINK": [_link(record) for record in records],
        },
    }


def _fetch(record: rattler.RepoDataRecord) -> dict[str, Any]:
    return {
        "name": record.name.source,
        "version": str(record.version),
        "build": str(record.build),
        "build_string": str(record.build),
        "build_number": record.build_number,
        "channel": str(record.channel),
        "subdir": record.subdir,
        "fn": record.file_name,
        "url": str(record.url),
        "md5": record.md5.hex() if record.md5 else "",
        "sha256": record.sha256.hex() if record.sha256 else None,
        "depends": [str(one) for one in record.depends],
        "constrains": [str(one) for one in record.constrains],
        "size": record.size,
    }


def _link(record: rattler.RepoDataRecord) -> dict[str, Any]:
    name, version, build = record.name.source, str(record.version), str(record.build)
    return {
        "name": name,
        "version": version,
        "build_string": build,
        "build_number": record.build_number,
        "channel": str(record.channel),
        "platform": record.subdir,
        "base_url": str(record.channel).rstrip("/"),
        "dist_name": f"{name}-{version}-{build}",
    }

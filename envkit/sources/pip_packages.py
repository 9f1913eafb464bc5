"""The Python distributions of a target, read from their metadata folders without running it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from envkit.model.distribution_name import canonical_name
from envkit.model.facts import PipDistribution, PipFacts
from envkit.model.observed import Known, NotApplicable, Unreadable
from envkit.sources.files import NotRead, is_file, is_folder, list_folder, read_head, read_text
from envkit.sources.redacted import (
    clipped,
    escape_control,
    home_folders,
    shorten_home,
    without_credentials,
)
from envkit.sources.site_folders import site_folders

#: Headers end at the first empty line; a description of any length may follow.
MAX_HEADER_BYTES: Final = 256 << 10
MAX_CHARS: Final = 300
#: Distribution of envkit itself, which is never counted against the target.
OWN_NAME: Final = "envkit-torch"
_REQUIREMENT_NAME = re.compile(r"\s{0,9}([A-Za-z0-9][A-Za-z0-9._-]{0,200})")
_EXTRA_ONLY = re.compile(r"\bextra\s{0,9}==")


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution, the folder of its metadata, and how it came here."""

    distribution: PipDistribution
    metadata: Path
    """`*.dist-info`, `*.egg-info`, a folder or a file."""
    is_requested: bool
    """Whether the user asked for it by name (pip and uv leave a file REQUESTED)."""
    problem: str = ""
    """Why its metadata could not be read; the name and version are then those of the folder."""


#: Names of the GPU stack: torch and what must fit it.
_STACK = re.compile(r"(?:torch|triton|numpy|nvidia-|cuda-|pytorch-triton)")


def read_pip(
    prefix: Path | None, environ: Mapping[str, str], *, own_name: str = OWN_NAME
) -> PipFacts:
    """Return the distributions of a prefix, by name, then in the order of the search path.

    A distribution whose metadata cannot be read is listed by the name of its folder and named in
    the source. envkit and what only envkit needs are left out.
    """
    if prefix is None:
        state = NotApplicable(reason="the target has no prefix", source="site-packages")
        return PipFacts(distributions=state)
    folders = site_folders(prefix, environ)
    if not folders:
        state = NotApplicable(reason="the prefix has no Python packages", source="site-packages")
        return PipFacts(distributions=state)
    failed = next(
        (names for names in map(list_folder, folders) if isinstance(names, NotRead)), None
    )
    if failed is not None:
        reason = shorten_home(failed.reason, home_folders(environ))
        return PipFacts(distributions=Unreadable(reason=reason, source="site-packages"))
    installed = without_own(list_installed(prefix, environ), own_name)
    problems = [one.problem for one in installed if one.problem]
    source = "metadata folders in site-packages"
    if problems:
        source += f" ({len(problems)} known by the name of the folder only: {problems[0]})"
    found = tuple(_with_stack_requirements(one.distribution) for one in installed)
    return PipFacts(distributions=Known(value=found, source=source))


def _with_stack_requirements(distribution: PipDistribution) -> PipDistribution:
    """Keep the requirements that rules go by: a report needs none of the others."""
    named = ((text, _REQUIREMENT_NAME.match(text)) for text in distribution.requires)
    kept = tuple(
        text for text, name in named if name and _STACK.match(canonical_name(name.group(1)))
    )
    return msgspec.structs.replace(distribution, requires=kept)


def list_installed(prefix: Path, environ: Mapping[str, str]) -> tuple[Installed, ...]:
    """Return everything that is installed, envkit included, sorted by name."""
    homes = home_folders(environ)
    found: list[Installed] = []
    for folder in site_folders(prefix, environ):
        shown = relative_to_prefix(folder, prefix, homes)
        found += _in_folder(folder, shown)
    # The sort is stable: of two with one name the first on the search path stays first.
    return tuple(sorted(found, key=lambda one: one.distribution.name))


def relative_to_prefix(path: Path, prefix: Path, homes: Sequence[str]) -> str:
    """Write a path below the prefix without it, any other with the home folder shortened."""
    inside = path.is_relative_to(prefix)
    shown = path.relative_to(prefix).as_posix() if inside else shorten_home(str(path), homes)
    return clipped(escape_control(shown))


def _in_folder(folder: Path, shown: str) -> Iterator[Installed]:
    names = list_folder(folder)
    for name in () if isinstance(names, NotRead) else names:
        if name.startswith("~"):  # left over by an uninstallation that pip did not finish
            continue
        metadata = _metadata_place(folder, name)
        if metadata is not None:
            found = _read_one(metadata, name, shown)
            if found is not None:
                yield found


def _metadata_place(folder: Path, name: str) -> Path | None:
    if name.endswith((".dist-info", ".egg-info")):
        return folder / name
    if name.endswith(".egg") and is_folder(folder / name / "EGG-INFO"):
        return folder / name / "EGG-INFO"
    if name.endswith(".egg-link"):
        return _linked(folder / name)
    return None


def _linked(link: Path) -> Path | None:
    # First line: the folder of a checkout installed with `setup.py develop`.
    text = read_text(link)
    lines = [] if isinstance(text, NotRead) else text.splitlines()
    if not lines or not Path(lines[0].strip()).is_absolute():
        return None
    checkout = Path(lines[0].strip())
    names = list_folder(checkout)
    wanted = canonical_name(link.name.removesuffix(".egg-link"))
    for name in () if isinstance(names, NotRead) else names:
        if name.endswith(".egg-info") and canonical_name(name.removesuffix(".egg-info")) == wanted:
            return checkout / name
    return None


def _read_one(metadata: Path, folder_name: str, shown: str) -> Installed | None:
    headers, problem = _headers(metadata)
    from_folder = folder_name.rsplit(".", 1)[0].split("-")
    name = headers.get("name", [""])[0] or from_folder[0]
    version = headers.get("version", [""])[0]
    if not version and len(from_folder) > 1:
        version = from_folder[1]
    if not name or (problem and not version):
        return None
    if not problem and not headers.get("name"):
        problem = f"{_shown(folder_name)} has no name in it"
    requires = headers.get("requires-dist", [])
    if not requires and metadata.name.endswith(("egg-info", "EGG-INFO")):
        requires = _egg_requires(metadata / "requires.txt")
    distribution = PipDistribution(
        name=_shown(canonical_name(name)),
        version=_shown(version),
        installer=_installer(metadata),
        location=shown,
        # Before it is cut: half an address could hide its credentials.
        requires=tuple(_shown(without_credentials(text)) for text in requires),
    )
    return Installed(
        distribution=distribution,
        metadata=metadata,
        is_requested=is_file(metadata / "REQUESTED"),
        problem=problem,
    )


def _headers(metadata: Path) -> tuple[dict[str, list[str]], str]:
    """Return the headers by name in lower case, and why there are none."""
    if metadata.name.endswith(".dist-info"):
        place = metadata / "METADATA"
    else:
        place = metadata / "PKG-INFO" if is_folder(metadata) else metadata
    content = read_head(place, MAX_HEADER_BYTES)
    if isinstance(content, NotRead):
        return {}, f"{metadata.name}: {content.reason.replace(str(place), place.name)}"
    head = re.split(rb"\r?\n\r?\n", content, maxsplit=1)[0].decode("utf-8", "replace")
    found: dict[str, list[str]] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace():
            found.setdefault(key.lower(), []).append(value.strip())
    return found, ""


def _egg_requires(path: Path) -> list[str]:
    text = read_text(path)
    if isinstance(text, NotRead):
        return []
    lines = (line.strip() for line in text.split("\n[", 1)[0].splitlines())
    return [line for line in lines if line and not line.startswith("[")]


def _installer(metadata: Path) -> str:
    text = read_text(metadata / "INSTALLER") if metadata.name.endswith(".dist-info") else ""
    return "" if isinstance(text, NotRead) else _shown(text.strip())


def _shown(text: str) -> str:
    return clipped(escape_control(text), MAX_CHARS)


def without_own(installed: Sequence[Installed], own_name: str) -> tuple[Installed, ...]:
    """Leave out envkit and every distribution that is here only because envkit needs it."""
    by_name: dict[str, list[Installed]] = {}
    for one in installed:
        by_name.setdefault(one.distribution.name, []).append(one)
    if own_name not in by_name:
        return tuple(installed)
    candidates = _reachable(own_name, by_name)
    others = [name for name in by_name if name not in candidates]
    asked_for = [
        name
        for name in candidates
        if name != own_name and any(one.is_requested for one in by_name[name])
    ]
    kept: set[str] = set()
    for name in (*others, *asked_for):
        kept |= _reachable(name, by_name, stop_at=own_name)
    return tuple(one for one in installed if one.distribution.name in kept)


def _reachable(
    start: str, by_name: Mapping[str, Iterable[Installed]], *, stop_at: str = ""
) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in found or name not in by_name or name == stop_at:
            continue
        found.add(name)
        for one in by_name[name]:
            waiting += _needed(one.distribution)
    return found


def _needed(distribution: PipDistribution) -> Iterator[str]:
    for requirement in distribution.requires:
        match = _REQUIREMENT_NAME.match(requirement)
        if match and not _EXTRA_ONLY.search(requirement):
            yield canonical_name(match.group(1))

"""Checks of where packages come from: channels, indexes, addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

from envkit.model.environment_spec import PipDependency
from envkit.model.finding import Severity
from envkit.specs.lint.rule import Fault
from envkit.specs.lint.subject import DEFAULTS, Subject

#: Where conda's own names lead; the same channel, spelled out.
_UPSTREAM: Final = frozenset({"conda.anaconda.org", "repo.anaconda.com"})
_INDEX_OPTIONS: Final = frozenset({"--extra-index-url", "--index-url", "--find-links"})


def defaults_channel(subject: Subject) -> Iterator[Fault]:
    """SPC008: a defaults channel named, or none excluded."""
    if "nodefaults" in subject.channel_names:
        return
    channels = zip(subject.channel_names, subject.spec.channels, strict=True)
    named = next((one for name, one in channels if name in DEFAULTS), None)
    locked = subject.surroundings.lock_channels
    clean = locked is not None and not (locked & DEFAULTS)
    told = (("channels of its lock", ", ".join(sorted(locked or ()))),) if clean else ()
    yield Fault(
        line=named.line if named else subject.spec.line_of("channels"),
        seen=(("channels", ", ".join(subject.channel_names) or "none named"), *told),
        fix=_FROM_LOCK if clean else _TAKE_OUT if named else _KEEP_OUT,
        severity=Severity.INFO if clean else None,
    )


_FROM_LOCK: Final = "Install from the lock: `conda env create` may solve with more channels."
_TAKE_OUT: Final = "Delete the line; conda-forge has what most specs need from it."
_KEEP_OUT: Final = (
    "Lock the spec and install from the lock, or take defaults out of each machine's "
    "configuration: `conda config --remove channels defaults`. (The name nodefaults stops conda "
    "26.7 and newer.)"
)


def channel_address(subject: Subject) -> Iterator[Fault]:
    """SPC015: a channel that is an address and not one of conda's own."""
    for channel in subject.spec.channels:
        if _is_foreign(channel.text):
            yield Fault(
                line=channel.line,
                seen=(("channel", _without_secrets(channel.text)),),
                fix="Use the channel's name where it has one: others may not reach this address, "
                "and what it holds can differ.",
            )
    for one in subject.spec.dependencies:
        if _is_foreign(one.match.url or one.match.channel or ""):
            yield Fault(
                line=one.line,
                seen=(("package", f"{one.match.name} by its address"),),
                fix="Name the package and its channel instead.",
            )


def _is_foreign(text: str) -> bool:
    if "://" not in text:
        return False
    parts = _split(text)
    return parts is None or parts.scheme != "https" or (parts.hostname or "") not in _UPSTREAM


def _split(text: str) -> SplitResult | None:
    try:
        return urlsplit(text)
    except ValueError:  # such as a bracket that is never closed
        return None


def _without_secrets(text: str) -> str:
    parts = _split(text)
    if parts is None:
        return "an address that cannot be read"
    path = "/".join("..." if previous == "t" else part for previous, part in _pairs(parts.path))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path, query="").geturl()


def _pairs(path: str) -> Iterator[tuple[str, str]]:
    pieces = path.split("/")
    return zip(["", *pieces], pieces, strict=False)


def pip_from_elsewhere(subject: Subject) -> Iterator[Fault]:
    """SPC016: an index of its own, or requirements that no hash holds fast."""
    options = [one for one in subject.spec.pip if one.name in _INDEX_OPTIONS]
    for one in options:
        yield Fault(
            line=one.line,
            seen=((str(one.name), _without_secrets(one.specifier) or one.text),),
            fix="Take the package from a conda channel, or pin each requirement with --hash: pip "
            "takes the highest version of any index.",
        )
    loose = [one for one in subject.spec.pip if _is_loose(one)]
    if loose and not options:
        yield Fault(
            line=loose[0].line,
            seen=((f"{len(loose)} requirements without a hash, the first", _shown(loose[0])),),
            fix="Take them from a conda channel, where the lock has their hashes, or add --hash "
            "to each.",
        )


def _is_loose(one: PipDependency) -> bool:
    return one.kind in {"named", "url"} and not one.hashed


def _shown(one: PipDependency) -> str:
    return one.text if one.kind == "named" else (one.name or _without_secrets(one.text))

"""The digests of a report, for a run's metadata or a checkpoint, and their comparison later."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from envkit.errors import InputError, UsageError
from envkit.model import codec
from envkit.model.documents import Stamp
from envkit.model.fingerprint import DIGEST_LAYERS, Fingerprint, Key
from envkit.model.report import Report
from envkit.render.escape import printable
from envkit.render.fingerprint_rows import short_said
from envkit.workflows.fingerprint import must_hold
from envkit.workflows.input_bytes import read_input

VARIABLE: Final = "ENVKIT_REPORT"
_MAKE_ONE: Final = (
    f"Make one here: `envkit verify -o report.json`, then `export {VARIABLE}=$PWD/report.json`."
)
#: Parts of the key that people know; the others are only counted.
_NAMED: Final = ("torch", "cuda", "cudnn", "cublas", "capability", "sm_count", "threads")

Agreement: TypeAlias = Literal["same", "different", "not_comparable"]


class StampCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How a stamp compares with this machine."""

    same: bool
    """Every layer with a digest was compared, and is the same."""
    layers: dict[str, Agreement]
    differences: tuple[str, ...]
    """What else is not the same, such as `torch: 2.11.0+cu130 there, 2.13.0+cu130 here`."""
    text: str
    """All of it in one sentence or two."""


def stamp(report: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Return what a report says of this machine, as plain values that any format can hold.

    Args:
        report: file of `envkit verify -o`; None: the one that $ENVKIT_REPORT names.

    Raises:
        UsageError: no report is named.
        InputError: it cannot be read, does not hold, has no fingerprint, or is of another torch or
            GPU than the ones that this process uses.

    """
    name = os.environ.get(VARIABLE) if report is None else os.fspath(report)
    if not name:
        message = f"No report to stamp with: neither a file nor ${VARIABLE} was given."
        raise UsageError(message, next_step=_MAKE_ONE)
    made: dict[str, Any] = msgspec.to_builtins(_stamp_of(name))
    return made


def check_stamp(
    made: Mapping[str, Any], report: str | os.PathLike[str] | None = None
) -> StampCheck:
    """Compare the stamp of a checkpoint with this machine.

    Args:
        made: what `stamp` returned when the checkpoint was written.
        report: as for `stamp`.

    Raises:
        UsageError, InputError: as for `stamp`; also: `made` is no stamp.

    """
    there = codec.convert(_plain(made), Stamp, origin="the stamp")
    here = codec.convert(stamp(report), Stamp, origin="this machine's stamp")
    layers: dict[str, Agreement] = {
        layer: _agreement(layer, there, here) for layer in DIGEST_LAYERS
    }
    differences = tuple(_differences(there, here))
    same = all(answer == "same" for answer in layers.values())
    return StampCheck(
        same=same,
        layers=layers,
        differences=differences,
        text=_text(there, here, layers, differences),
    )


def _plain(made: Any) -> dict[str, Any]:
    """Return what a checkpoint held; a checkpoint without a stamp has None there."""
    if not isinstance(made, Mapping):
        message = f"The stamp is {type(made).__name__}, and no mapping."
        step = "Save what envkit.stamp() returns with the checkpoint, as it is."
        raise InputError(message, next_step=step)
    return dict(made)


def _stamp_of(name: str) -> Stamp:
    origin = Path(name).name
    report = codec.decode(read_input(name, _MAKE_ONE), Report, origin=origin)
    fingerprint = report.fingerprint
    if fingerprint is None:
        message = f"{origin} has no fingerprint: it was made with --no-fingerprint."
        raise InputError(message, next_step=_MAKE_ONE)
    must_hold(fingerprint)
    _must_be_ours(fingerprint, origin)
    return Stamp(
        envkit_version=report.envkit_version,
        created=report.created,
        suite=fingerprint.suite,
        challenge=fingerprint.challenge,
        device=fingerprint.device,
        digests=fingerprint.digests,
        short=fingerprint.short,
        key=fingerprint.key,
    )


def _must_be_ours(fingerprint: Fingerprint, origin: str) -> None:
    """Refuse a report of another torch or GPU than this process has loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    found = str(torch.__version__)
    if found != fingerprint.key.torch:
        message = f"{origin} is of torch {fingerprint.key.torch}; this process runs {found}."
        raise InputError(message, next_step=_MAKE_ONE)
    on_gpu = fingerprint.key.capability is not None
    if on_gpu and torch.cuda.is_initialized():
        gpu = torch.cuda.get_device_name()
        if gpu != fingerprint.device:
            message = f"{origin} is of a {fingerprint.device}; this process uses a {gpu}."
            raise InputError(message, next_step=_MAKE_ONE)


def _agreement(layer: str, there: Stamp, here: Stamp) -> Agreement:
    ours, theirs = here.digests.get(layer), there.digests.get(layer)
    if ours is None or theirs is None or _measured(there) != _measured(here):
        return "not_comparable"
    return "same" if ours == theirs else "different"


def _measured(one: Stamp) -> tuple[object, ...]:
    return one.suite, one.challenge


def _differences(there: Stamp, here: Stamp) -> Iterator[str]:
    if _measured(there) != _measured(here):
        yield _said("suite", _suite(there), _suite(here))
    if there.device != here.device:
        yield _said("device", there.device, here.device)
    for name in _NAMED:
        if getattr(there.key, name) != getattr(here.key, name):
            yield _said(name, getattr(there.key, name), getattr(here.key, name))
    for part in ("settings", "flags"):
        yield from _unequal(part, there.key, here.key)


def _unequal(part: str, there: Key, here: Key) -> Iterator[str]:
    old, new = getattr(there, part), getattr(here, part)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield _said(name, old.get(name, "not there"), new.get(name, "not there"))


def _said(name: str, there: Any, here: Any) -> str:
    return printable(f"{name}: {there} there, {here} here")


def _suite(one: Stamp) -> str:
    challenged = f" with challenge {one.challenge}" if one.challenge else ""
    return f"{one.suite.name}/{one.suite.version}{challenged}"


def _text(
    there: Stamp, here: Stamp, layers: Mapping[str, Agreement], differences: tuple[str, ...]
) -> str:
    made = printable(f"Made under {short_said(there.short.mem, there.short.num)}")
    if all(answer == "same" for answer in layers.values()):
        return f"{made}, as here."
    ours = f"here {short_said(here.short.mem, here.short.num)}"
    by_answer = {
        answer.replace("_", " "): [name for name, found in layers.items() if found == answer]
        for answer in ("different", "not_comparable")
    }
    parts = [f"{answer}: {', '.join(names)}" for answer, names in by_answer.items() if names]
    why = f" {'; '.join(differences)}." if differences else ""
    return f"{made}; {ours} ({'; '.join(parts)}).{why}"

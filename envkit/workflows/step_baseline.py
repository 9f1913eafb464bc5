"""A project's own step against the baseline that its tests keep."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from envkit.compare.comparability import find_ground
from envkit.compare.fingerprints import compare_fingerprints
from envkit.compare.layer import LayerResult
from envkit.compare.sides import Side
from envkit.errors import InputError, UsageError
from envkit.model.codec import decode, encode
from envkit.model.fingerprint import Fingerprint, Suite
from envkit.probes.child.membership import VERSION
from envkit.probes.events import Probe
from envkit.render.diff_words import line, sentence
from envkit.workflows.fingerprint import assemble, must_hold, read_key
from envkit.workflows.input_bytes import read_input
from envkit.workflows.save import write_atomically

#: Name of the suite of a step alone.
SUITE: Final = "step"


def fingerprint_of(step: Callable[[], Any], *, device: str = "auto") -> Fingerprint:
    """Measure a step in this process; raises what it raises.

    Raises:
        InputError: there is no such device, or this torch does not say enough of itself to
            compare anything.

    """
    __tracebackhide__ = True
    # By name and only now: it imports torch.
    in_process = importlib.import_module("envkit.probes.child.in_process")
    told: dict[str, Any] = in_process.measure_here(step, device)
    if "no_device" in told:
        message = f"torch finds no {told['no_device']} here."
        raise InputError(message, next_step="Give device='cpu', or 'auto' for what there is.")
    key = read_key(told["key"])
    if key is None:
        message = "This torch does not tell its version, flags and threads."
        raise InputError(message, next_step="`envkit verify` says what is wrong with it.")
    probes = msgspec.convert(told["probes"], list[Probe])
    return assemble(probes, key, Suite(name=SUITE, version=VERSION), device=told["name"])


def write_baseline(path: Path, fingerprint: Fingerprint) -> None:
    """Write a baseline, whole or not at all.

    Raises:
        UsageError: it cannot be written.

    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, encode(fingerprint))
    except (OSError, UsageError) as error:
        said = error.message if isinstance(error, UsageError) else f"{error.strerror}."
        message = f"{path.name} was not written: {said}"
        raise UsageError(message, next_step="Name another file as the baseline.") from error


def read_baseline(path: Path) -> Fingerprint:
    """Read a baseline.

    Raises:
        InputError: it cannot be read, is none, or was changed after it was written.

    """
    step = "Check the file, or write it anew with `pytest --envkit-update`."
    content = read_input(str(path), step)
    found = decode(content, Fingerprint, origin=path.name)
    must_hold(found)
    return found


def differences(baseline: Fingerprint, now: Fingerprint) -> list[str]:
    """Say in a sentence each what is not as in the baseline; empty when all that counts is.

    What another GPU lawfully has otherwise does not count, and what does not repeat on either side
    accuses nobody. Tensors that cannot be compared at all are a difference.
    """
    sides = [
        Side(label=label, kind="report", path=label, fingerprint=one)
        for label, one in (("baseline", baseline), ("now", now))
    ]
    results = compare_fingerprints(find_ground(sides))
    return [*_unlike(results), *_not_comparable(results)]


def environment(baseline: Fingerprint, now: Fingerprint) -> list[str]:
    """Say which parts of the environment are not as in the baseline: `threads 1 against 2`."""
    first, second = _key_parts(baseline), _key_parts(now)
    return [
        f"{name} {first.get(name)} against {second.get(name)}"
        for name in {**first, **second}
        if first.get(name) != second.get(name)
    ]


def _key_parts(one: Fingerprint) -> dict[str, Any]:
    key = msgspec.structs.asdict(one.key)
    nested = {**key.pop("settings"), **key.pop("flags")}
    return {**key, "device": one.device, **nested}


def _unlike(results: Sequence[LayerResult]) -> list[str]:
    return [
        "; ".join(filter(None, (f"{one.layer} {one.key}: {line(one)}", sentence(one))))
        for result in results
        if result.moved
        for one in result.differences
        if one.kind == "unexpected"
    ]


def _not_comparable(results: Sequence[LayerResult]) -> list[str]:
    return [
        f"tensors cannot be compared: {result.comparable.why}"
        for result in results
        if result.layer == "tensors" and result.agreement == "not_comparable"
    ]

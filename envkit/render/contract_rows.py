"""What an environment is judged by, as rows of a name and a short text."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.model.facts import Facts
from envkit.model.observed import Known, Unreadable, value_of

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def contract_rows(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the spec, the lock and the files that were compared; nothing where none was named."""
    request = facts.request
    if isinstance(request.spec, Known):
        yield "spec", f"{request.spec.value} ({request.spec.source})"
    elif isinstance(request.spec, Unreadable) and request.spec.source:
        yield "spec", f"(unreadable: {request.spec.reason})"
    yield from _lock(facts)
    for one in value_of(facts.contract.baselines) or ():
        yield "against", f"{one.name} ({one.named_by}): {one.headline}"
    checked, size_bytes = value_of(facts.files.checked), value_of(facts.files.checked_bytes)
    if checked is not None:
        yield "files", f"{number_of(checked, 'file')} hashed, {_size(size_bytes or 0)}"


def _lock(facts: Facts) -> Iterator[tuple[str, str]]:
    packages = value_of(facts.contract.packages)
    lock = value_of(facts.request.lock)
    if lock is None or packages is None:
        return
    strict = facts.request.strict
    how = "need not be it"
    if isinstance(strict, Known) and strict.value:
        how = f"has to be it: {strict.source}"
    yield "lock", f"{lock} ({number_of(len(packages), 'package')}; the environment {how})"


def number_of(number: int, noun: str) -> str:
    """Say a number of things: `1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _size(size_bytes: int) -> str:
    for unit, least in _UNITS:
        if size_bytes >= least:
            return f"{size_bytes / least:.1f} {unit}"
    return f"{size_bytes} bytes"

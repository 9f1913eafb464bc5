"""What rules about spec and lock share: when they apply, how they list packages, how to mend."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TypeVar

from envkit.model.finding import Evidence, Fix
from envkit.model.observed import Known, NotApplicable, value_of
from envkit.rules.agreement import Pair, said
from envkit.rules.outcome import Outcome, fix, missing, seen, skipped
from envkit.rules.subject import Subject, source_of, text_of

T = TypeVar("T")

#: Packages that a finding lists one by one.
MOST_LISTED = 12


def without_yardstick(subject: Subject) -> Outcome | None:
    """Settle rules where nothing says what the environment is to be."""
    agreement = subject.agreement
    if agreement.has_spec or (agreement.strict and agreement.locked is not None):
        return None
    return missing("contract.packages", subject.facts.contract.packages)


def without_contract(subject: Subject) -> Outcome | None:
    """Settle rules where nothing says what the environment is to be, or it is not conda's."""
    settled = without_yardstick(subject)
    if settled is None and isinstance(subject.facts.conda.packages, NotApplicable):
        return skipped("CON001 says it")
    return settled


def without_strict_lock(subject: Subject) -> Outcome | None:
    """Settle rules that compare with the lock alone."""
    settled = without_contract(subject)
    if settled is None and not subject.agreement.strict:
        return skipped("the environment need not be the lock: CON011 compares them")
    return settled


def without_both(subject: Subject) -> Outcome | None:
    """Settle rules that ask whether a spec or a lock was named at all."""
    contract = subject.facts.contract
    if isinstance(contract.packages, Known) or isinstance(contract.dependencies, Known):
        return None
    return missing("contract.packages", contract.packages)


def listed(items: Iterable[T], show: Callable[[T], Evidence]) -> tuple[Evidence, ...]:
    """Show the first items, and say how many there are."""
    found = list(items)
    first = [show(one) for one in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        more = f"{len(found) - MOST_LISTED} more"
        first.append(seen("and", more, first[-1].source))
    return tuple(first)


def pair_evidence(subject: Subject, pair: Pair) -> Evidence:
    """Show a package as it is installed and as it is locked."""
    return seen(
        pair.name,
        f"{said(pair.installed)} installed, {said(pair.locked)} locked",
        lock_source(subject),
    )


def lock_source(subject: Subject) -> str:
    """Name the two things that were compared."""
    return f"conda-meta, {text_of(subject.facts.request.lock) or 'the lock'}"


def spec_source(subject: Subject) -> str:
    """Name the environment and its spec."""
    return f"conda-meta, spec {source_of(subject.facts.contract.dependencies)}"


def get_locked(subject: Subject) -> Fix:
    """Say how to get the environment that was locked."""
    return fix(
        "Make a new environment from the lock: `conda env create` and `conda install` solve "
        "afresh, with what the channels offer today; `envkit create`, `conda-lock install` and an "
        "explicit file (`conda create --file`) install what is written down.",
        _commands(subject),
    )


def command(subject: Subject, *words: str, after: tuple[str, ...] = ()) -> str:
    """Return a command of conda for the target's prefix: `words`, `-p PREFIX`, `after`."""
    prefix = value_of(subject.facts.conda.prefix)
    where = ["-p", _quoted(prefix)] if prefix else []
    return " ".join([*words, *where, *map(_quoted, after)])


def _commands(subject: Subject) -> str | None:
    lock, spec = text_of(subject.facts.request.lock), text_of(subject.facts.request.spec)
    if lock.endswith(".txt"):
        return f"conda create -p NEW_PREFIX --file {_quoted(lock)}"
    named = lock.endswith(("conda-lock.yml", "conda-lock.yaml"))
    source = spec or (lock if named else "")
    lines = [f"envkit create {_quoted(source)} -p NEW_PREFIX"] if source else []
    if lock and not lock.startswith("conda-meta/"):
        lines.append(f"conda-lock install -p NEW_PREFIX {_quoted(lock)}")
    return "\n".join(lines) or None


def _quoted(path: str) -> str:
    # A leading ~ has to stay bare, or the shell does not expand it.
    return path if path.startswith("~/") else shlex.quote(path)


def count(number: int, noun: str) -> str:
    """Write `1 package`, `2 packages`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def count_are(number: int, noun: str) -> str:
    """Write `1 package is`, `2 packages are`."""
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


def spec_name(subject: Subject) -> str:
    """Return the spec as the user knows it."""
    return value_of(subject.facts.request.spec) or "its spec"

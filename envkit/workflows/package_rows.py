"""The packages of an environment held against its lock, one by one, for a page that shows all."""

from __future__ import annotations

from collections.abc import Iterable

from envkit.model.facts import CondaPackage, Facts, PipDistribution
from envkit.model.observed import value_of
from envkit.render.html.machine import PackageRow, PackageState
from envkit.rules import pip_agreement
from envkit.rules.agreement import Agreement, Pair, said, weight


def package_rows(facts: Facts) -> tuple[PackageRow, ...]:
    """Return all packages, those that are not as locked first, then those of the GPU stack."""
    agreement = Agreement(facts)
    rows = [*_conda(agreement), *_pip(facts, is_locked=agreement.locked is not None)]
    return tuple(sorted(rows, key=lambda row: (row.state in {"", "as locked"}, weight(row.name))))


def _conda(agreement: Agreement) -> Iterable[PackageRow]:
    if agreement.locked is None:
        yield from (_row(installed=one) for one in agreement.installed.values())
        return
    states: dict[str, PackageState] = {}
    ordered: tuple[tuple[PackageState, tuple[Pair, ...]], ...] = (
        ("other file", agreement.rehashed),
        ("other channel", agreement.rechanneled),
        ("other version", agreement.changed),
    )
    for state, pairs in ordered:
        states |= {pair.name: state for pair in pairs}
    for pair in agreement.pairs:
        state = states.get(pair.name, "as locked")
        yield _row(installed=pair.installed, locked=pair.locked, state=state)
    yield from (_row(locked=one, state="missing") for one in agreement.missing)
    yield from (_row(installed=one, state="not locked") for one in agreement.extra)


def _row(
    *,
    installed: CondaPackage | None = None,
    locked: CondaPackage | None = None,
    state: PackageState = "",
) -> PackageRow:
    named = installed or locked
    return PackageRow(
        name="" if named is None else named.name,
        manager="conda",
        installed="" if installed is None else said(installed),
        locked="" if locked is None else said(locked),
        state=state,
    )


def _pip(facts: Facts, *, is_locked: bool) -> Iterable[PackageRow]:
    """Yield what conda did not install itself; there its own records say more."""
    has_conda = value_of(facts.conda.packages) is not None
    found: dict[str, PipDistribution] = {}
    for one in value_of(facts.pip.distributions) or ():
        if not (has_conda and one.installer == "conda"):
            found.setdefault(one.name, one)
    locked = {one.name: one.version for one in value_of(facts.contract.distributions) or ()}
    unlocked = {one.name for one in pip_agreement.unlocked(facts)} if is_locked else set()
    for name in {**found, **locked}:
        installed = found[name].version if name in found else ""
        wanted = locked.get(name, "")
        state = (
            _pip_state(installed, wanted) if wanted else ("not locked" if name in unlocked else "")
        )
        yield PackageRow(name=name, manager="pip", installed=installed, locked=wanted, state=state)


def _pip_state(installed: str, wanted: str) -> PackageState:
    if not installed:
        return "missing"
    return "as locked" if installed == wanted else "other version"

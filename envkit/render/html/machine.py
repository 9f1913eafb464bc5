"""The page of one machine: verdict, findings, environment, memory and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, Literal

import msgspec

from envkit.allocator.workloads import WorkloadMemory, workload_memory
from envkit.model.finding import Check, Finding, Severity, Status
from envkit.model.fingerprint import (
    DIGEST_LAYERS,
    SHORT_DIGITS,
    Fingerprint,
    ProbeResult,
    shortened,
)
from envkit.model.observed import value_of
from envkit.model.report import Report
from envkit.render import fact_rows, fingerprint_rows
from envkit.render.html.engine import MOST_CHARACTERS, draw
from envkit.render.html.figures import Drawing, checkerboard_drawings, workload_drawing
from envkit.render.html.table import Cell, Mark, Room, Table, number
from envkit.render.report_words import counted_checks, target_line

#: Findings of one severity that are shown.
MOST_FINDINGS: Final = 100
MOST_EVIDENCE: Final = 12
#: Workloads whose memory is drawn; a suite has four to ten.
MOST_DRAWINGS: Final = 24
#: Facts with tables of their own, or too long for one line.
_LISTS: Final = ("conda.packages", "pip.distributions", "contract.", "torch.libraries")

VERDICTS: Final[Mapping[str, tuple[Mark, str, str]]] = {
    "pass": ("good", "✔", "Pass"),
    "fail": ("bad", "✘", "Fail"),
    "incomplete": ("unknown", "?", "Incomplete"),
}
_SEVERITIES: Final[Mapping[Severity, tuple[str, str, str]]] = {
    Severity.ERROR: ("bad", "✘", "error"),
    Severity.WARNING: ("warn", "!", "warning"),
    Severity.INFO: ("info", "·", "info"),
}
_CHECKS: Final[Mapping[Status, tuple[Mark, str]]] = {
    Status.PASS: ("good", "passed"),
    Status.FAIL: ("warn", "fired"),
    Status.UNKNOWN: ("unknown", "could not be told"),
    Status.SKIP: ("quiet", "does not apply"),
}
_HASHES: Final = frozenset({"sha256", "md5"})
_PROBES: Final[Mapping[str, Mark]] = {
    "exact": "good",
    "unstable": "warn",
    "failed": "bad",
    "not_run": "unknown",
}

PackageState = Literal[
    "as locked", "other version", "other channel", "other file", "missing", "not locked", ""
]


class PackageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A package of the environment and of its lock; empty where one does not have it."""

    name: str
    manager: Literal["conda", "pip"]
    installed: str
    locked: str
    state: PackageState
    """Empty where there is no lock to compare with."""


class _Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of one workload."""

    name: str
    drawing: Drawing | None
    reason: str


def render_machine(report: Report, packages: Sequence[PackageRow]) -> str:
    """Draw the page of a report.

    Args:
        report: what was found.
        packages: those of the environment, held against its lock.

    """
    fingerprint = report.fingerprint
    measured = () if fingerprint is None else workload_memory(fingerprint)
    room = Room()
    mark, sign, word = VERDICTS[report.verdict.status]
    return draw(
        "machine.html",
        title=f"{word}: {report.label or 'this machine'} - envkit",
        sections=tuple(_sections(report, packages)),
        mark=mark,
        sign=sign,
        word=word,
        report=report,
        meta=tuple(_meta(report)),
        severities=tuple(_by_severity(report.findings, room)),
        facts=fact_rows.rows(report.facts),
        all_facts=_all_facts(report, room),
        packages=_package_table(packages, room),
        lock=_lock_line(report, packages),
        fingerprint=fingerprint,
        fingerprint_title="" if fingerprint is None else fingerprint_rows.title(fingerprint),
        layers=_layer_table(fingerprint, room),
        key=_key_table(fingerprint, room),
        workloads=tuple(_workloads(measured)),
        peaks=_peak_table(measured, room),
        checkerboard=() if fingerprint is None else checkerboard_drawings(fingerprint),
        exercises=_exercise_table(fingerprint, room),
        numerics=_numerics_table(fingerprint, room),
        checks=_check_table(report.checks, room),
        counted=counted_checks(report.checks),
    )


def _sections(report: Report, packages: Sequence[PackageRow]) -> Iterator[tuple[str, str]]:
    yield "findings", "Findings"
    yield "environment", "Environment"
    if packages:
        yield "packages", "Packages"
    if report.fingerprint is not None:
        yield "memory", "Memory"
        yield "numerics", "Numbers"
    if report.checks:
        yield "checks", "Checks"


def _meta(report: Report) -> Iterator[tuple[str, str]]:
    yield "environment", target_line(report)
    yield "recorded", f"{report.created} by envkit {report.envkit_version}"
    fingerprint = report.fingerprint
    if fingerprint is not None:
        yield "measured on", fingerprint.device
        yield "memory digest, to be read aloud", fingerprint.short.mem or "none"
        yield "numbers digest", fingerprint.short.num or "none"
    yield "exit code", str(report.verdict.exit_code)


def _by_severity(
    findings: Sequence[Finding], room: Room
) -> Iterator[tuple[tuple[str, str, str], Sequence[Finding], int]]:
    """Yield a severity's look, its findings and how many are left out."""
    for severity in Severity:
        group = [one for one in findings if one.severity is severity]
        shown = list(takewhile(lambda one: room.takes(*_texts(one)), group[:MOST_FINDINGS]))
        if group:
            yield _SEVERITIES[severity], shown, len(group) - len(shown)


def _texts(finding: Finding) -> Iterator[str]:
    """Yield the texts of a finding in pieces of the size of a cell."""
    whole = [
        finding.title,
        finding.fix.text,
        finding.url,
        *(finding.fix.command or "").splitlines(),
    ]
    for one in finding.evidence[:MOST_EVIDENCE]:
        whole += (one.what, one.seen, one.source)
    for text in whole:
        shown = text[:MOST_CHARACTERS]
        yield from (shown[at : at + 200] for at in range(0, len(shown), 200))


def _all_facts(report: Report, room: Room) -> Table:
    rows = [
        (Cell(name, is_code=True), Cell(value))
        for name, value in fact_rows.rows(report.facts, everything=True)
        if not name.startswith(_LISTS)
    ]
    return room.table("all-facts", "Every fact that was recorded", ("fact", "value"), rows)


def _package_table(packages: Sequence[PackageRow], room: Room) -> Table:
    is_compared = any(one.state for one in packages)
    columns = ("package", "by", "installed", *(("locked", "answer") if is_compared else ()))
    rows = [_package_cells(one, is_compared=is_compared) for one in packages]
    return room.table("package-table", "Packages of the environment", columns, rows)


def _package_cells(one: PackageRow, *, is_compared: bool) -> list[Cell]:
    cells = [Cell(one.name), Cell(one.manager), Cell(one.installed)]
    if is_compared:
        mark: Mark = "good" if one.state == "as locked" else "bad"
        cells += [Cell(one.locked), Cell(one.state, mark if one.state else "")]
    return cells


def _lock_line(report: Report, packages: Sequence[PackageRow]) -> str:
    lock, spec = value_of(report.facts.request.lock), value_of(report.facts.request.spec)
    if lock is None or not any(one.state for one in packages):
        named = f"The spec {spec} has no lock" if spec is not None else "No lock was named"
        return f"{named}, so these are listed and compared with nothing."
    alike = sum(one.state == "as locked" for one in packages)
    return f"Against the lock {lock}: {alike} of {len(packages)} packages are as locked."


def _layer_table(fingerprint: Fingerprint | None, room: Room) -> Table:
    rows = []
    for layer, said in () if fingerprint is None else fingerprint_rows.layers(fingerprint):
        digest = fingerprint.digests.get(layer) if fingerprint is not None else None
        shown = "not digested" if layer not in DIGEST_LAYERS else "none"
        code = shortened(digest) if digest is not None else shown
        rows.append((Cell(layer), Cell(said), Cell(code, is_code=digest is not None)))
    return room.table(
        "layer-table", "Layers of the fingerprint", ("layer", "probes", "digest"), rows
    )


def _key_table(fingerprint: Fingerprint | None, room: Room) -> Table:
    built: dict[str, Any] = {} if fingerprint is None else msgspec.to_builtins(fingerprint.key)
    rows = []
    for name, value in built.items():
        entries = value.items() if isinstance(value, dict) else ((None, value),)
        for entry, one in entries:
            shown = one if isinstance(one, str) else msgspec.json.encode(one).decode()
            rows.append((Cell(f"{name} {entry or ''}".rstrip(), is_code=True), Cell(shown)))
    caption = "What must agree for two fingerprints to be compared in full"
    return room.table("key-table", caption, ("part of the key", "value"), rows)


def _workloads(measured: Sequence[WorkloadMemory]) -> Iterator[_Workload]:
    for place, one in enumerate(measured[:MOST_DRAWINGS], 1):
        yield _Workload(name=one.name, drawing=workload_drawing(one, place), reason=one.reason)


def _peak_table(measured: Sequence[WorkloadMemory], room: Room) -> Table:
    columns = ("workload", "requests", "allocated, B", "reserved, B", "segments", "unused at peak")
    return room.table(
        "peak-table", "Peaks as measured", columns, [_peak_cells(one) for one in measured]
    )


def _peak_cells(one: WorkloadMemory) -> list[Cell]:
    allocated, reserved = one.measured.get("allocated_bytes"), one.measured.get("reserved_bytes")
    unused = Cell("", sort=-1)
    if allocated is not None and reserved:
        thousandth = 1000 * (reserved - allocated) // reserved
        unused = Cell(f"{thousandth / 10:.1f} %", sort=thousandth)
    sizes = (number(allocated), number(reserved), number(one.measured.get("segments")))
    return [Cell(one.name), number(one.requests or None), *sizes, unused]


def _exercise_table(fingerprint: Fingerprint | None, room: Room) -> Table:
    probes = {} if fingerprint is None else fingerprint.layers.allocator
    rows = [(Cell(name), *_exercise_cells(result)) for name, result in sorted(probes.items())]
    columns = ("exercise", "status", "operations", "against the model", "digest")
    return room.table("exercise-table", "Allocator exercises", columns, rows)


def _exercise_cells(result: ProbeResult) -> list[Cell]:
    steps = (result.values or {}).get("steps")
    answer = {
        True: Cell("every counter agrees", "good"),
        False: Cell(f"differs: {result.reason}", "bad"),
        None: Cell("the model's own answer" if result.modelled else "not compared", "quiet"),
    }[result.conforms]
    operations = number(len(steps) if isinstance(steps, list) else None)
    return [_status(result), operations, answer, _digest(result)]


def _numerics_table(fingerprint: Fingerprint | None, room: Room) -> Table:
    probes = {} if fingerprint is None else fingerprint.layers.numerics
    rows = [
        (Cell(name), _status(result), Cell(_outputs(result)), _digest(result))
        for name, result in sorted(probes.items())
    ]
    columns = ("probe", "status", "outputs", "digest")
    return room.table("numerics-table", "Numbers, bit for bit", columns, rows)


def _outputs(result: ProbeResult) -> str:
    """Name what was hashed, or say why nothing was."""
    if not result.values:
        return result.reason
    said = [_output(name, value) for name, value in result.values.items()]
    return "; ".join(said[:4]) + (f"; and {len(said) - 4} more" if len(said) > 4 else "")  # noqa: PLR2004


def _output(name: str, value: Any) -> str:
    if isinstance(value, dict):
        shape = value.get("shape")
        size = " x ".join(map(str, shape)) if isinstance(shape, list) else ""
        return " ".join(filter(None, (name, str(value.get("dtype", "")), size)))
    if name == "losses" and isinstance(value, list):
        return f"losses {', '.join(map(_decimal, value))}"
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"{name} {shown[:SHORT_DIGITS] if name in _HASHES else shown}"


def _decimal(loss: Any) -> str:
    """Return a loss as people write it; a report has its exact value, `0x1.d94p+2`."""
    try:
        return f"{float.fromhex(loss):.6g}"
    except (TypeError, ValueError, OverflowError):
        return str(loss)


def _status(result: ProbeResult) -> Cell:
    word = "modelled" if result.modelled else result.status.replace("_", " ")
    return Cell(word, "quiet" if result.modelled else _PROBES[result.status])


def _digest(result: ProbeResult) -> Cell:
    """Write it, or say why a result that was measured has none; why others failed stands before."""
    if result.digest is not None:
        return Cell(shortened(result.digest), is_code=True)
    return Cell(result.reason if result.values else "", "quiet" if result.values else "")


def _check_table(checks: Sequence[Check], room: Room) -> Table:
    rows = []
    for check in checks:
        mark, word = _CHECKS[check.status]
        rows.append((Cell(check.code, is_code=True), Cell(word, mark), Cell(check.reason)))
    return room.table("check-table", "Every rule that was run", ("rule", "answer", "reason"), rows)

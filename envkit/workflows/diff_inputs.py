"""What is compared: read, recognised by its content, and turned into a side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from envkit.compare.sides import Side
from envkit.errors import InputError, UsageError
from envkit.model import codec
from envkit.model.documents import Machine
from envkit.model.facts import Facts
from envkit.model.fingerprint import Fingerprint
from envkit.model.report import Report
from envkit.workflows import package_lists
from envkit.workflows.git_revision import is_git_revision, read_git_revision
from envkit.workflows.input_bytes import origin_of, read_input, read_text

KNOWN: Final = (
    "envkit diff takes reports, fingerprints, machine profiles, collect_env pastes, "
    "conda-lock.yml, explicit locks, environment.yml, `conda list`, `pip freeze`, prefix folders, "
    "folders of reports and REVISION:PATH."
)
_MOST_FILES: Final = 20_000


def read_sides(names: Sequence[str], environ: Mapping[str, str]) -> tuple[Side, ...]:
    """Read all inputs; a folder that is no prefix is a folder of reports.

    Raises:
        InputError: one of them cannot be read or is nothing that can be compared.
        UsageError: they are fewer than two.

    """
    if list(names).count("-") > 1:
        message = "Standard input can be read once only."
        raise UsageError(message, next_step="Save one of the inputs to a file.")
    sides = [side for name in names for side in _read(name, environ)]
    if len(sides) < 2:  # noqa: PLR2004
        message = f"There is nothing to compare: {len(sides)} input."
        raise UsageError(message, next_step="Name two inputs, or a folder with two reports.")
    return _labelled(sides)


def _read(name: str, environ: Mapping[str, str]) -> list[Side]:
    path = Path(name)
    if name != "-" and path.is_dir():
        from envkit.workflows.prefix_side import is_prefix, read_prefix  # noqa: PLC0415 (folders)

        if is_prefix(path):
            return [read_prefix(path, name, environ)]
        return [_report_in(file) for file in reports_in(path)]
    if name != "-" and not path.exists() and is_git_revision(name):
        return [recognise(read_git_revision(name), name, label=name)]
    label = origin_of(name)
    return [recognise(read_input(name, KNOWN), name, label=label)]


def reports_in(folder: Path) -> list[Path]:
    """Return the files of a folder that may be reports, by name.

    Raises:
        InputError: there is none, or there are too many.

    """
    files = sorted(path for path in folder.glob("*.json") if path.is_file())
    if len(files) > _MOST_FILES:
        message = f"{folder} has {len(files)} files; {_MOST_FILES} can be compared."
        raise InputError(message, next_step="Compare a part of them.")
    if not files:
        message = f"{folder} is neither a prefix nor a folder with reports (*.json)."
        raise InputError(message, next_step=KNOWN)
    return files


def _report_in(file: Path) -> Side:
    name = str(file)
    return recognise(read_input(name, KNOWN), name, label=file.stem, origin=name)


def recognise(content: bytes, name: str, *, label: str, origin: str = "") -> Side:
    """Turn the bytes of an input into a side.

    Args:
        content: the bytes.
        name: the input as the user gave it.
        label: what to call it in the answer, where it has no name of its own.
        origin: what to call it in messages; the label where it is empty.

    Raises:
        InputError: it is nothing that can be compared, or is broken.

    """
    shown = origin or label
    text = read_text(content, shown, KNOWN)
    start = text.lstrip()[:1]
    if start in {"{", "["}:
        kind, fields = _json(text.encode(), shown)
    else:
        from envkit.workflows.diff_texts import read_text_input  # noqa: PLC0415 (texts only)

        found = read_text_input(text, shown)
        if found is None:
            raise _not_ours(shown, "it is none of the texts that envkit knows")
        kind, fields = found
    return Side(label=fields.pop("label", None) or label, kind=kind, path=name, **fields)


def _json(content: bytes, origin: str) -> tuple[str, dict[str, Any]]:
    value = codec.read_json(content, origin=origin)
    if isinstance(value, list):
        from envkit.workflows.diff_texts import read_json_list  # noqa: PLC0415 (lists only)

        return read_json_list(content, origin)
    schema = value.get("schema") if isinstance(value, dict) else None
    reader = _DOCUMENTS.get(schema) if isinstance(schema, str) else None
    if reader is None:
        kind = f"of the kind {schema[:60]!r}" if isinstance(schema, str) else "without a schema"
        raise _not_ours(origin, f"it is JSON {kind}")
    return reader(value, origin)


def _report(value: Any, origin: str) -> tuple[str, dict[str, Any]]:
    report = codec.convert(value, Report, origin=origin)
    packages = package_lists.from_facts(report.facts, complete=True)
    return "report", {
        "label": report.label,
        "facts": report.facts,
        "fingerprint": report.fingerprint,
        "packages": packages,
    }


def _fingerprint(value: Any, origin: str) -> tuple[str, dict[str, Any]]:
    return "fingerprint", {"fingerprint": codec.convert(value, Fingerprint, origin=origin)}


def _machine(value: Any, origin: str) -> tuple[str, dict[str, Any]]:
    from envkit.sources.machine_profile import facts_of  # noqa: PLC0415 (profiles only)

    return "machine", _described(facts_of(codec.convert(value, Machine, origin=origin)))


_DOCUMENTS: Final[Mapping[str, Callable[[Any, str], tuple[str, dict[str, Any]]]]] = {
    "envkit.report/1": _report,
    "envkit.fingerprint/1": _fingerprint,
    "envkit.machine/1": _machine,
}


def _described(facts: Facts) -> dict[str, Any]:
    return {"facts": facts, "packages": package_lists.from_facts(facts, complete=False)}


def _labelled(sides: Sequence[Side]) -> tuple[Side, ...]:
    """Make labels different from each other: by path where names are the same, else by number."""
    names = Counter(side.label for side in sides)
    used: set[str] = set()
    taken: Counter[str] = Counter()
    found = []
    for side in sides:
        wanted = label = side.label if names[side.label] == 1 else side.path
        while label in used:
            taken[wanted] += 1
            label = f"{wanted} ({taken[wanted] + 1})"
        used.add(label)
        found.append(msgspec.structs.replace(side, label=label))
    return tuple(found)


def _not_ours(origin: str, reason: str) -> InputError:
    return InputError(f"{origin} cannot be compared: {reason}.", next_step=KNOWN)

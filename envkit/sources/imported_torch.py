"""torch as the child that imported it describes it, put over what its files say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from envkit.model.facts import (
    ImportFailure,
    MappedLibrary,
    SelfTest,
    TorchFacts,
)
from envkit.model.observed import Absent, Known, NotApplicable, Observed, Unreadable
from envkit.sources.child_values import (
    MAX_CHARS,
    as_bool,
    as_cuda_error,
    as_devices,
    as_int,
    as_intra_threads,
    as_items,
    as_scalars,
    as_settings,
    as_text,
    as_texts,
    state_without_value,
)
from envkit.sources.owners import owners_of
from envkit.sources.pip_packages import relative_to_prefix
from envkit.sources.redacted import clipped, escape_control, home_folders, redact

T = TypeVar("T")

SOURCE: Final = "the imported torch"
MAX_MESSAGE_CHARS: Final = 1000
MAX_STDERR_CHARS: Final = 4000
#: Kinds of file in which an owner is looked for: every other is the system's.
_IN_PACKAGES = re.compile(r"/(?:site|dist)-packages/")

Convert = Callable[[Any], T]


def imported_torch_facts(  # noqa: PLR0913 (what the child sent, each part by its name)
    static: TorchFacts,
    values: Mapping[str, object],
    *,
    prefix: Path | None,
    environ: Mapping[str, str],
    failure: ImportFailure | None = None,
    why_missing: str = "the child did not tell",
    self_tests: Sequence[Mapping[str, object]] = (),
    stderr: bytes = b"",
) -> TorchFacts:
    """Return the facts of torch after a child has tried to import it.

    Args:
        static: what the files say; stays where the child says nothing better.
        values: `values` of the child's event `facts`; empty when the import failed.
        prefix: prefix of the target, for paths and owners.
        environ: environment of the target.
        failure: how the import failed (`import_failure`), None when it worked.
        why_missing: reason for what was not told, e.g. that the child crashed later on.
        self_tests: the outcomes in the child's event `self_test`: name, status, reason, kind.
        stderr: end of what the child wrote to standard error.

    """
    homes = home_folders(environ)
    reason = f"torch could not be imported: {failure.message}" if failure else why_missing
    told = _Told(values, clipped(reason, MAX_CHARS))
    location = _location(values.get("file"), prefix, homes)
    return msgspec.structs.replace(
        static,
        version=told.over(static.version, "version", as_text),
        cuda=told.over(static.cuda, "cuda_version", as_text),
        hip=told.over(static.hip, "hip_version", as_text),
        location=static.location if location is None else location,
        git_version=told.over(static.git_version, "git_version", as_text),
        import_failure=_failure_state(failure, homes),
        arch_list=told.fact("arch_list", as_texts),
        cuda_available=told.fact("cuda_available", as_bool),
        cuda_error=told.fact("cuda_init_error", as_cuda_error),
        devices=told.fact("devices", as_devices),
        cudnn_compiled=told.fact("cudnn_version_compiled", as_int),
        cudnn=told.fact("cudnn_version_loaded", as_int),
        nccl=told.fact("nccl_version", as_text),
        cublas=told.fact("cublas_version", as_text),
        allocator_backend=told.fact("allocator_backend", as_text),
        allocator_settings=told.fact("allocator_settings", as_settings),
        flags=told.fact("flags", as_scalars),
        threads=told.fact("threads", as_intra_threads),
        numpy=told.fact("numpy_version", as_text),
        libraries=told.fact(
            "mapped_libraries", lambda found: _libraries(found, prefix, environ, homes)
        ),
        self_tests=_self_tests(self_tests, told.reason),
        stderr_tail=_stderr_tail(stderr, homes) if failure is not None else _NOT_KEPT,
    )


#: What a program prints is its own affair, unless it is why torch cannot be imported.
_NOT_KEPT: Final = NotApplicable(reason="torch was imported", source="standard error of the child")


# --- states -------------------------------------------------------------------------------------


class _Told:
    """The child's values; a value that it could not give is an object that says so."""

    def __init__(self, values: Mapping[str, object], reason: str) -> None:
        self._values = values
        self.reason = reason

    def fact(self, name: str, convert: Convert[T]) -> Observed[T]:
        source = f"{SOURCE}: {name}"
        if name not in self._values:
            return Unreadable(reason=self.reason, source=source)
        value = self._values[name]
        state = state_without_value(value, source)
        if state is not None:
            return state
        try:
            return Known(value=convert(value), source=source)
        except (TypeError, ValueError, KeyError) as error:
            reason = f"the child's answer has another form: {clipped(str(error), MAX_CHARS)}"
            return Unreadable(reason=escape_control(reason), source=source)

    def over(self, static: Observed[T], name: str, convert: Convert[T]) -> Observed[T]:
        """Prefer the child's answer; what the files say stands where it has none."""
        fact = self.fact(name, convert)
        return static if isinstance(fact, Unreadable) else fact


def _failure_state(failure: ImportFailure | None, homes: Sequence[str]) -> Observed[ImportFailure]:
    source = "import torch"
    if failure is None:
        return Absent(source=source, reason="torch could be imported")
    message = redact(failure.message, homes=homes, limit=MAX_MESSAGE_CHARS)
    return Known(value=msgspec.structs.replace(failure, message=message), source=source)


def import_failure(
    error: Mapping[str, object] | None,
    *,
    signal: str | None,
    exit_code: int | None,
    stage: str,
) -> ImportFailure:
    """Describe an import that did not work.

    Args:
        error: the child's event `error`, where it sent one.
        signal: name of the signal that ended the child.
        exit_code: its exit code.
        stage: the last stage it announced.

    """
    if error is not None:
        message = str(error.get("message") or "")
        last_line = (message.strip().splitlines() or ["no message"])[-1]
        return ImportFailure(how="raised", message=f"{error.get('type', 'Error')}: {last_line}")
    if signal is not None:
        return ImportFailure(how="crashed", message=f"{signal}, last stage: {stage}")
    return ImportFailure(how="exited", message=f"exit code {exit_code}, last stage: {stage}")


# --- paths and events ---------------------------------------------------------------------------


def _location(file: object, prefix: Path | None, homes: Sequence[str]) -> Observed[str] | None:
    if not isinstance(file, str) or not file:
        return None
    return Known(value=_place(Path(file).parent, prefix, homes), source=f"{SOURCE}: file")


def _place(path: Path, prefix: Path | None, homes: Sequence[str]) -> str:
    """Write a path relative to the prefix, whichever of its two names the path begins with."""
    if prefix is None:
        return clipped(escape_control(redact(str(path), homes=homes)))
    real = Path(os.path.realpath(prefix))
    inside = real if path.is_relative_to(real) else prefix
    return relative_to_prefix(path, inside, homes)


def _libraries(
    value: Any, prefix: Path | None, environ: Mapping[str, str], homes: Sequence[str]
) -> tuple[MappedLibrary, ...]:
    paths = [Path(item["path"]) for item in as_items(value)]
    owned = [path for path in paths if _may_have_owner(path, prefix)]
    owners = owners_of(owned, prefix, environ) if prefix is not None and owned else {}
    return tuple(
        MappedLibrary(
            name=escape_control(path.name)[:MAX_CHARS],
            path=_place(path, prefix, homes),
            owner=owners.get(path, ""),
        )
        for path in sorted(paths, key=lambda path: (path.name, str(path)))
    )


def _may_have_owner(path: Path, prefix: Path | None) -> bool:
    if _IN_PACKAGES.search(path.as_posix()):
        return True
    if prefix is None:
        return False
    return path.is_relative_to(os.path.realpath(prefix)) or path.is_relative_to(prefix)


def _self_tests(
    events: Sequence[Mapping[str, object]], reason: str
) -> Observed[tuple[SelfTest, ...]]:
    source = "operations with known answers in the child"
    if not events:
        return Unreadable(reason=reason, source=source)
    try:
        found = msgspec.convert([_outcome(event) for event in events], tuple[SelfTest, ...])
    except msgspec.ValidationError as error:
        return Unreadable(reason=f"the child's answer has another form: {error}", source=source)
    return Known(value=found, source=source)


def _outcome(event: Mapping[str, object]) -> dict[str, object]:
    kind, reason = event.get("kind") or "", str(event.get("reason") or "")
    if kind not in {"", "other"}:
        reason = f"{kind}: {reason}"
    named = {key: event[key] for key in ("name", "status") if key in event}
    return {**named, "reason": redact(reason, homes=(), limit=MAX_CHARS)}


def _stderr_tail(stderr: bytes, homes: Sequence[str]) -> Observed[str]:
    source = "standard error of the child"
    text = stderr.decode("utf-8", "replace").strip()
    if not text:
        return Absent(source=source, reason="nothing was written")
    if len(text) > MAX_STDERR_CHARS:
        # From the next whole line on: a cut address could hide its credentials from `redact`.
        text = text[-MAX_STDERR_CHARS:].partition("\n")[2]
    shown = redact(text, homes=homes, limit=MAX_STDERR_CHARS, keep="\n\t")
    return Known(value=shown, source=source)

"""The configuration: flag, then `ENVKIT_*`, then `envkit.toml` or `[tool.envkit]`, then default.

The file is the nearest one from the current folder upwards, as far as the repository (`.git`) or
the home folder; in one folder `envkit.toml` comes before `pyproject.toml`. An
`envkit.toml` that is a registry of specs is passed over. Every mistake in it is
an error with the file and the key: a waiver that is not read would be a silent verdict.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from envkit.errors import InputError, UsageError
from envkit.model.facts import FailOnName, Waiver
from envkit.model.observed import Known
from envkit.specs.registry import REGISTRY_SCHEMA
from envkit.specs.toml_file import read_toml

T = TypeVar("T")
SuiteName: TypeAlias = Literal["quick", "standard", "full", "none"]

DEVICE: Final = re.compile(r"auto|cpu|all|cuda(:\d{1,3})?")
LONGEST_TIMEOUT_S: Final = 24 * 3600.0
#: What each setting can be, for messages.
_VALUES: Final = {
    "device": "auto, cpu, all, cuda or cuda:N",
    "suite": "quick, standard, full or none",
    "label": "a text",
    "timeout": f"a number of seconds from 1 to {LONGEST_TIMEOUT_S:.0f}",
    "fail-on": "error, warning or unknown",
    "waivers": "tables with code, reason and until",
}
_CODE: Final = re.compile(r"[A-Z]{3}\d{3}")


class _WaiverEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    code: str
    reason: str
    until: dt.date


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """What a configuration can say; None: it does not."""

    device: str | None = None
    suite: SuiteName | None = None
    label: str | None = None
    timeout: float | None = None
    """Seconds."""
    fail_on: FailOnName | None = None
    waivers: tuple[_WaiverEntry, ...] = ()


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the variables and of the file, and which file it was."""

    variables: Settings = Settings()
    file: Settings = Settings()
    path: Path | None = None

    def pick(self, flag: T | None, name: str, default: T) -> Known[T]:
        """Return the value of a setting by precedence, and what decided it."""
        in_file = self.path.name if self.path else ""
        chosen: tuple[tuple[T | None, str], ...] = (
            (flag, f"--{name.replace('_', '-')}"),
            (getattr(self.variables, name), f"ENVKIT_{name.upper()}"),
            (getattr(self.file, name), in_file),
        )
        for value, source in chosen:
            if value is not None:
                return Known(value=value, source=source)
        return Known(value=default, source="default")

    def waivers(self) -> tuple[Waiver, ...]:
        """Return the waivers of the file."""
        return tuple(
            Waiver(code=one.code, reason=one.reason, until=one.until.isoformat())
            for one in self.file.waivers
        )


def read_configuration(folder: Path, variables: Mapping[str, str]) -> Configuration:
    """Read the configuration that holds in a folder.

    Raises:
        InputError: the file cannot be read, is no TOML, or has a wrong key or value.
        UsageError: an `ENVKIT_*` variable has a wrong value.

    """
    for path, table in _candidates(folder):
        origin = f"{path}: [tool.envkit]" if path.name == "pyproject.toml" else str(path)
        settings = _settings(table, origin)
        return Configuration(variables=_from_variables(variables), file=settings, path=path)
    return Configuration(variables=_from_variables(variables))


def current_folder() -> Path:
    """Return the current folder.

    Raises:
        UsageError: it was deleted, or may not be entered; relative paths then mean nothing.

    """
    try:
        return Path.cwd()
    except OSError as error:
        message = f"The current folder cannot be used: {error.strerror or error}."
        step = "It may have been deleted; change to one that is there (cd) and try again."
        raise UsageError(message, next_step=step) from error


def check_device(device: str) -> str:
    """Return a device name that is one; raises ValueError otherwise."""
    if not DEVICE.fullmatch(device):
        message = f"{device!r} is not a device: auto, cpu, all, cuda or cuda:N"
        raise ValueError(message)
    return device


def check_one_device(device: str) -> str:
    """Return the name of one device; raises ValueError for what is none, or several."""
    if check_device(device) == "all":
        message = "'all' is several devices, and this measures on one: auto, cpu, cuda or cuda:N"
        raise ValueError(message)
    return device


def check_timeout(timeout_s: float) -> float:
    """Return a time limit that is one; raises ValueError otherwise."""
    if not 1 <= timeout_s <= LONGEST_TIMEOUT_S:
        message = f"{timeout_s} is not a time limit: from 1 to {LONGEST_TIMEOUT_S:.0f} seconds"
        raise ValueError(message)
    return timeout_s


def _candidates(folder: Path) -> Iterator[tuple[Path, Any]]:
    for place in (folder, *folder.parents):
        own = place / "envkit.toml"
        if own.is_file() and (table := _read_toml(own)).get("schema") != REGISTRY_SCHEMA:
            yield own, table
        project = place / "pyproject.toml"
        if project.is_file():
            tool = _read_toml(project).get("tool")
            if isinstance(tool, dict) and "envkit" in tool:
                yield project, tool["envkit"]
        if (place / ".git").exists() or place == Path.home():
            return


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except ValueError as error:
        raise _wrong(str(path), str(error)) from error


def _settings(table: Any, origin: str) -> Settings:
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise _wrong(origin, _in_words(str(error), table)) from error
    try:
        _check_values(settings)
    except ValueError as error:
        raise _wrong(origin, str(error)) from error
    return settings


def _check_values(settings: Settings) -> None:
    if settings.device is not None and not DEVICE.fullmatch(settings.device):
        raise ValueError(_not_one("device", settings.device))
    if settings.timeout is not None and not 1 <= settings.timeout <= LONGEST_TIMEOUT_S:
        raise ValueError(_not_one("timeout", settings.timeout))
    for number, waiver in enumerate(settings.waivers):
        if not _CODE.fullmatch(waiver.code):
            message = f"waivers[{number}].code: {waiver.code!r} is not the code of a finding"
            raise ValueError(message)
        if _is_unknown(waiver.code):
            message = f"waivers[{number}].code: there is no rule {waiver.code}"
            raise ValueError(message)
        if not waiver.reason.strip():
            message = f"waivers[{number}].reason: a waiver needs a reason"
            raise ValueError(message)


def _is_unknown(code: str) -> bool:
    """Whether a code is of a family that rules judge, and of none of its rules."""
    from envkit.rules.registry import BY_CODE  # noqa: PLC0415 (only where something is waived)

    judged = {known[:3] for known in BY_CODE}
    return code[:3] in judged and code not in BY_CODE


def _from_variables(variables: Mapping[str, str]) -> Settings:
    found: dict[str, Any] = {}
    for key in ("device", "suite", "label", "timeout", "fail-on"):
        name = f"ENVKIT_{key.replace('-', '_').upper()}"
        text = variables.get(name, "")
        if not text:
            continue
        found[key] = text
        try:  # alone, so that the message is of this variable
            _check_values(msgspec.convert({key: text}, Settings, strict=False))
        except (msgspec.ValidationError, ValueError) as error:
            message = f"The variable {name} is wrong: {_not_one(key, text)}."
            raise UsageError(message, next_step=f"Correct it, or unset {name}.") from error
    return msgspec.convert(found, Settings, strict=False)


def _not_one(key: str, value: Any) -> str:
    """Say that a value is none of a setting, and which there are."""
    return f"{key}: {str(value)[:80]!r} is not {_VALUES[key]}"


def _in_words(message: str, table: Any) -> str:
    said, _, path = message.partition(" - at `$")
    named = path.rstrip("`").lstrip(".")
    if named in _VALUES and isinstance(table, dict):
        return _not_one(named, table.get(named))
    unknown = re.search(r"unknown field `(.+)`", said)
    if unknown:
        names = (*Settings.__struct_encode_fields__, *_WaiverEntry.__struct_fields__)
        near = difflib.get_close_matches(unknown[1], names, n=1)
        said = f"there is no setting {unknown[1]!r}" + (f"; is {near[0]!r} meant?" if near else "")
    return f"{named}: {said}" if named else said


def _wrong(origin: str, reason: str) -> InputError:
    return InputError(
        f"The configuration is wrong. {origin}: {reason}",
        next_step="Correct the file; docs/reference/configuration.md lists the settings.",
    )

"""The interpreter of a target: from files before it is started, from its own words afterwards."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from envkit.model.facts import CondaFacts, PythonFacts
from envkit.model.observed import Known, NotApplicable, Observed, Unreadable, value_of
from envkit.sources.redacted import redact
from envkit.sources.site_folders import pyvenv_settings

_VERSION = re.compile(r"3\.\d{1,3}(?:\.\d{1,3})?(?:(?:a|b|rc)\d{1,2}\+?)?")
_FILE_NAME = re.compile(r"python(3\.\d{1,3})t?(?:\.exe)?")


def read_python(
    prefix: Path | None, python: Path | None, conda: CondaFacts, *, homes: Sequence[str] = ()
) -> PythonFacts:
    """Return what files say of the interpreter; it is not started."""
    if python is None:
        state = NotApplicable(reason="the target has no interpreter", source="choice of the target")
        return PythonFacts(version=state, executable=state, implementation=state)
    return PythonFacts(
        version=_version(prefix, python, conda),
        executable=Known(value=redact(str(python), homes=homes), source="choice of the target"),
        implementation=Unreadable(reason="the interpreter was not started", source="files"),
    )


def _version(prefix: Path | None, python: Path, conda: CondaFacts) -> Observed[str]:
    for package in value_of(conda.packages) or ():
        if package.name == "python":
            return Known(value=package.version, source="conda-meta: python")
    settings = pyvenv_settings(prefix) if prefix is not None else {}
    for key in ("version_info", "version"):
        match = _VERSION.match(settings.get(key, ""))
        if match:
            return Known(value=match.group(), source=f"pyvenv.cfg: {key}")
    match = _FILE_NAME.fullmatch(Path(os.path.realpath(python)).name)
    if match:
        return Known(value=match.group(1), source="file name of the interpreter")
    return Unreadable(reason="no file tells the version", source="files")


def started_python(hello: Mapping[str, object], *, homes: Sequence[str] = ()) -> PythonFacts:
    """Return what the interpreter says of itself in the child's event `hello`."""
    source = "the interpreter itself"

    def told(name: str) -> Observed[str]:
        value = hello.get(name)
        if not isinstance(value, str) or not value:
            return Unreadable(reason=f"the interpreter does not tell its {name}", source=source)
        return Known(value=redact(value, homes=homes), source=source)

    return PythonFacts(
        version=told("python"), executable=told("executable"), implementation=told("implementation")
    )

"""torch as its files describe it, without importing it: version, CUDA build, where it came from."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from envkit.model.facts import (
    CondaFacts,
    CondaPackage,
    PipDistribution,
    PipFacts,
    TorchFacts,
)
from envkit.model.observed import (
    NOT_RECORDED,
    Absent,
    Known,
    NotApplicable,
    Observed,
    Unreadable,
    value_of,
)
from envkit.sources.files import NotRead, is_folder, read_text
from envkit.sources.pip_packages import relative_to_prefix
from envkit.sources.redacted import clipped, escape_control, home_folders
from envkit.sources.site_folders import site_folders
from envkit.sources.torch_origin import torch_channel, torch_installer

MAX_VERSION_FILE_BYTES: Final = 64 << 10
MAX_CHARS: Final = 200
#: `__version__ = '2.6.0+cu124'`, `cuda: Optional[str] = '12.4'`, `debug = False`
_ASSIGNMENT = re.compile(
    r"(?P<name>[A-Za-z_]\w{0,40})(?:\s*:[^=]{0,80})?\s*=\s*(?P<value>.{1,200})"
)
#: conda packages that hold torch, the first found counts.
_CONDA_NAMES: Final = ("pytorch", "pytorch-gpu", "pytorch-cpu", "libtorch")
#: Distributions that make a build without CUDA compute on something else.
_EXTENSIONS: Final = {"torch-npu": "npu", "torch-xla": "tpu"}
NOT_INSTALLED: Final = "torch is not installed"

Literal = str | bool | int | float | None


def read_torch_build(
    prefix: Path | None, conda: CondaFacts, pip: PipFacts, environ: Mapping[str, str]
) -> TorchFacts:
    """Return what the files of the torch that would be imported say.

    Args:
        prefix: the prefix of the target, None if it is not known.
        conda: the conda packages of the prefix.
        pip: the Python distributions of the prefix.
        environ: environment of the target: PYTHONPATH and the user's folder can hold a torch.

    """
    if prefix is None:
        return _everything(NotApplicable(reason="the target has no prefix", source="files"))
    folders = site_folders(prefix, environ)
    folder = next((one / "torch" for one in folders if is_folder(one / "torch")), None)
    distribution = _distribution(pip, folder, prefix, environ)
    # What conda recorded for the prefix says nothing of a torch that lies elsewhere.
    record = _record(conda) if folder is None or folder.is_relative_to(prefix) else None
    if folder is None and distribution is None:
        return _everything(_no_torch(prefix, folders, pip, record))
    build = _build(prefix, folder, distribution, environ)
    names = {one.name for one in value_of(pip.distributions) or ()}
    installer = torch_installer(distribution, record, conda)
    return msgspec.structs.replace(
        build,
        accelerator=_accelerator(build, names, sys.platform),
        installer=installer,
        channel=torch_channel(installer, distribution, record, conda),
        import_failure=NotApplicable(reason="the import was not tried", source="import torch"),
    )


def _everything(state: Absent | Unreadable | NotApplicable) -> TorchFacts:
    """Return the facts of a target without a torch that could be looked at."""
    if not isinstance(state, Absent):
        return TorchFacts(version=state)
    other = NotApplicable(reason=NOT_INSTALLED, source=state.source)
    return TorchFacts(
        version=state,
        cuda=other,
        hip=other,
        accelerator=other,
        channel=other,
        installer=other,
        location=other,
        git_version=other,
        import_failure=other,
    )


def _no_torch(
    prefix: Path, folders: Sequence[Path], pip: PipFacts, record: CondaPackage | None
) -> Absent | Unreadable:
    source = "site-packages"
    if isinstance(pip.distributions, Unreadable):
        return Unreadable(reason=pip.distributions.reason, source=source)
    if record is not None and record.name != "libtorch":
        reason = f"conda lists {record.name} {record.version}, but there is no folder torch"
        return Absent(source=source, reason=reason)
    shown = ", ".join(relative_to_prefix(folder, prefix, ()) for folder in folders)
    return Absent(source=source, reason=f"{NOT_INSTALLED} in {shown or 'the prefix'}")


def _distribution(
    pip: PipFacts, folder: Path | None, prefix: Path, environ: Mapping[str, str]
) -> PipDistribution | None:
    """Return the metadata that belong to the folder; any when torch lies in a checkout."""
    found = [one for one in value_of(pip.distributions) or () if one.name == "torch"]
    if folder is not None:
        beside = relative_to_prefix(folder.parent, prefix, home_folders(environ))
        found = [one for one in found if one.location == beside]
    return next(iter(found), None)


def _record(conda: CondaFacts) -> CondaPackage | None:
    by_name = {package.name: package for package in value_of(conda.packages) or ()}
    return next((by_name[name] for name in _CONDA_NAMES if name in by_name), None)


# --- version.py ---------------------------------------------------------------------------------


def _build(
    prefix: Path,
    folder: Path | None,
    distribution: PipDistribution | None,
    environ: Mapping[str, str],
) -> TorchFacts:
    failed = NotRead(kind="missing", reason="there is no folder torch")
    text = (
        failed
        if folder is None
        else read_text(folder / "version.py", limit_bytes=MAX_VERSION_FILE_BYTES)
    )
    homes = home_folders(environ)
    location: Observed[str] = Absent(source="site-packages", reason=failed.reason)
    if folder is not None:
        shown = relative_to_prefix(folder, prefix, homes)
        location = Known(value=shown, source="site-packages")
    if folder is None or isinstance(text, NotRead):
        reason = text.reason if isinstance(text, NotRead) else failed.reason
        unknown = Unreadable(reason=reason, source="torch/version.py")
        return TorchFacts(
            version=_distribution_version(distribution, unknown),
            cuda=unknown,
            hip=unknown,
            git_version=unknown,
            location=location,
        )
    written = literal_assignments(text)
    return TorchFacts(
        version=_distribution_version(distribution, _text(written, "__version__")),
        cuda=_text(written, "cuda", "the build has no CUDA"),
        hip=_text(written, "hip", "the build has no ROCm"),
        git_version=_text(written, "git_version"),
        accelerator=_told_accelerator(written),
        location=location,
    )


def literal_assignments(text: str) -> dict[str, Literal]:
    """Return the top-level assignments of plain literals in Python source; nothing is run.

    Args:
        text: the source; lines that are anything else are passed over.

    """
    found: dict[str, Literal] = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.fullmatch(line.split("#", 1)[0].rstrip())
        if match:
            with_value = _literal(match.group("value"))
            if with_value:
                found[match.group("name")] = with_value[0]
    return found


def _literal(text: str) -> tuple[Literal] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return (value,) if value is None or isinstance(value, str | bool | int | float) else None


def _accelerator(build: TorchFacts, names: Collection[str], system: str) -> Observed[str]:
    """Tell what the build computes on; an extension for other hardware is a distribution apart."""
    if isinstance(build.accelerator, Known):
        return build.accelerator
    if isinstance(build.cuda, Unreadable) or isinstance(build.hip, Unreadable):
        return Unreadable(reason="the build could not be read", source="torch/version.py")
    extension = next((kind for name, kind in _EXTENSIONS.items() if name in names), None)
    if extension is not None:
        return Known(value=extension, source="distributions beside torch")
    kind = "mps" if system == "darwin" else "cpu"
    return Known(value=kind, source="torch/version.py")


def _told_accelerator(written: Mapping[str, Literal]) -> Observed[str]:
    for name, kind in (("hip", "rocm"), ("cuda", "cuda"), ("xpu", "xpu")):
        if isinstance(written.get(name), str):
            return Known(value=kind, source="torch/version.py")
    return NOT_RECORDED


def _text(written: Mapping[str, Literal], name: str, none_means: str = "") -> Observed[str]:
    source = "torch/version.py"
    if name not in written:
        return Unreadable(reason=f"{source} does not assign {name} a plain value", source=source)
    value = written[name]
    if value is None and none_means:
        return Absent(source=source, reason=none_means)
    if not isinstance(value, str) or not value:
        return Unreadable(reason=f"{name} in {source} is not a text", source=source)
    return Known(value=clipped(escape_control(value), MAX_CHARS), source=source)


def _distribution_version(
    distribution: PipDistribution | None, written: Observed[str]
) -> Observed[str]:
    if isinstance(written, Known) or distribution is None or not distribution.version:
        return written
    return Known(value=distribution.version, source="metadata of the distribution torch")

"""Where the labels of a collect_env paste stand, whatever was done to its lines.

A browser may have joined all lines into one, a terminal may have wrapped them, other programs may
have written between them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from packaging.utils import canonicalize_name

#: Labels that only this tool (and vLLM's edition of it) prints.
_OWN_LABELS: Final = (
    "PyTorch version",
    "Is debug build",
    "CUDA used to build PyTorch",
    "ROCM used to build PyTorch",
    "ROCm SDK used to build PyTorch",
    "HIP used to build PyTorch",
    "XPU used to build PyTorch",
    "Is CUDA available",
    "CUDA runtime version",
    "CUDA_MODULE_LOADING set to",
    "GPU models and configuration",
    "Nvidia driver version",
    "cuDNN version",
    "Is XPU available",
    "Intel GPU driver version",
    "Intel GPU models onboard",
    "Intel GPU models detected",
    "HIP runtime version",
    "MIOpen runtime version",
    "Is XNNPACK available",
    "Caching allocator config",
    "Versions of relevant libraries",
)
#: Labels that other programs print too: taken only at the start of a line.
_LINE_LABELS: Final = (
    "OS",
    "GCC version",
    "Clang version",
    "CMake version",
    "Libc version",
    "CPU",
    "Model name",
    "ROCM Version",
    "Neuron SDK Version",
    "vLLM Version",
    "vLLM Build Flags",
    "GPU Topology",
)
#: Labels that may follow other text in a wrapped line.
_INNER_LABELS: Final = ("Python version", "Python platform")

_LABEL: Final = re.compile(
    r"(?:(?<![\w])(?P<own>"
    + "|".join(re.escape(label) for label in (*_OWN_LABELS, *_INNER_LABELS))
    + r")|^[ \t>|]*(?P<line>"
    + "|".join(re.escape(label) for label in _LINE_LABELS)
    + r"))[ \t]*:|^[ \t>|]*(?P<header>Versions of relevant libraries|Environment Variables)[ \t]*$",
    re.MULTILINE,
)
_PIP: Final = re.compile(r"\[pip3?\][ \t]+([A-Za-z0-9][\w.-]*)==([^\s\[]+)")
_CONDA: Final = re.compile(
    r"\[conda\][ \t]+([\w.-]+)[ \t]+([\w.+!-]+)(?:[ \t]+(\S+))?(?:[ \t]+([\w./:-]+))?"
    r"[ \t]*(?=\n|\[|$)"
)
#: What the tool writes where it has nothing to say; in a joined line more text may follow.
_NOTHING: Final = re.compile(r"(?:n/a|none|could not collect|no cuda)(?!\S)|$", re.IGNORECASE)
#: Own labels that must be seen before a text counts as such a paste, unless one says enough.
_ENOUGH_LABELS: Final = 2
_TELLING_LABEL: Final = "PyTorch version"
#: Longest paste that is read, in characters; the largest known has 40,000.
MAX_PASTE_CHARS: Final = 4 * 1024 * 1024


class CondaRow(NamedTuple):
    """A `[conda]` line; what a cut line lacks is empty."""

    name: str
    version: str
    build: str
    channel: str


def is_collect_env(text: str) -> bool:
    """Tell whether a text holds enough of what only this tool prints: labels, or its list."""
    seen = {found["own"] or found["header"] for found in _LABEL.finditer(text)} & {*_OWN_LABELS}
    listed = "torch" in {canonicalize_name(name) for name, _ in _PIP.findall(text)}
    return len(seen) >= _ENOUGH_LABELS or _TELLING_LABEL in seen or listed


def fields_of(text: str) -> dict[str, str]:
    """Return the text after each label up to the next one; the first of a repeated label counts.

    The text before the first label is under `""`, all of it under `"*"`.
    """
    fields = {"*": text}
    label, start = "", 0
    for found in _LABEL.finditer(text):
        fields.setdefault(label, text[start : found.start()])
        label = found["own"] or found["line"] or found["header"]
        start = found.end()
    fields.setdefault(label, text[start:])
    return fields


def first_line(fields: dict[str, str], label: str) -> str | None:
    """Return the first line after a label, or None where the label is not in the paste."""
    raw = fields.get(label)
    return None if raw is None else raw.partition("\n")[0].strip()


def says_nothing(line: str) -> bool:
    """Tell whether a line starts with one of the ways to say nothing."""
    return _NOTHING.match(line) is not None


def has_package_list(fields: dict[str, str]) -> bool:
    """Tell whether the paste reaches its list of packages."""
    return "Versions of relevant libraries" in fields or "[pip" in fields["*"]


def pip_rows(text: str) -> list[tuple[str, str]]:
    """Return name and version of every `[pip3]` line."""
    return _PIP.findall(text)


def conda_rows(text: str) -> list[CondaRow]:
    """Return every `[conda]` line that names a package."""
    rows = (CondaRow(*found) for found in _CONDA.findall(text))
    return [row for row in rows if (row.name, row.version) != ("Could", "not")]

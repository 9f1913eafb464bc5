"""Where the labels of a collect_env paste stand, whatever was done to its lines.

A browser may have joined all lines into one, a terminal may have wrapped them, other programs may
have written between them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from envkit.model.distribution_name import canonical_name

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
#: What terminals and web pages put between the characters of a text: colours and links of a
#: terminal, other control characters, marks of no width. A word is whole again without them.
_INVISIBLE: Final = re.compile(
    r"\x1b\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"
    r"|\x1b\[[0-9;:?<=>!]{0,40}[@-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_LINE_ENDS: Final = re.compile(r"\r\n?|[\x85\u2028\u2029]")
#: Blanks of other widths, and the colon of a Chinese keyboard or a translated page.
_LIKE_ASCII: Final = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u3000": " ", "\uff1a": ":"})
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


def clean(text: str) -> str:
    """Return a text without what cannot be seen, its line ends and blanks as this tool wrote them.

    Cleaning twice is the same as cleaning once.
    """
    text = _LINE_ENDS.sub("\n", text)
    if text.isascii() and "\x1b" not in text and text.replace("\n", "").isprintable():
        return text
    return _INVISIBLE.sub("", text).translate(_LIKE_ASCII)


def is_collect_env(text: str) -> bool:
    """Tell whether a text holds enough of what only this tool prints: labels, or its list."""
    text = clean(text)
    seen = {found["own"] or found["header"] for found in _LABEL.finditer(text)} & {*_OWN_LABELS}
    listed = "torch" in {canonical_name(name) for name, _ in _PIP.findall(text)}
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

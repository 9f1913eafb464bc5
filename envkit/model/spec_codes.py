"""The codes of faults in environment.yml files: what each says, its weight and its source.

Here, and not with the checks, because the list of all rules (`envkit rules`, `envkit explain`) and
the linter both need it and do not import each other.
"""

from __future__ import annotations

from typing import Final

from envkit.model.finding import Severity
from envkit.model.rule_entry import RuleEntry

_SPECS: Final = (
    "https://docs.conda.io/projects/conda/en/latest/user-guide/tasks/manage-environments.html"
)
_CHANNELS: Final = (
    "https://docs.conda.io/projects/conda/en/latest/user-guide/concepts/channels.html"
)
_VERSIONS: Final = "https://pytorch.org/get-started/previous-versions/"
_CHANNEL_END: Final = "https://github.com/pytorch/pytorch/issues/138506"
_RELEASES: Final = "https://github.com/pytorch/pytorch/blob/main/RELEASE.md"


def _code(code: str, severity: Severity, title: str, url: str, *, varies: str = "") -> RuleEntry:
    return RuleEntry(code=code, title=title, severity=severity, url=url, varies=varies)


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

SPEC_CODES: Final = (
    _code("SPC001", _W, "Python is not pinned", _SPECS),
    _code("SPC002", _W, "torch is not pinned to one minor version", _SPECS),
    _code("SPC003", _W, "Nothing selects a CUDA build, so a CPU build can be resolved", _VERSIONS),
    _code(
        "SPC004",
        _E,
        "The `pytorch` channel does not have what is asked of it",
        _CHANNEL_END,
        varies="a warning where conda's flexible priority finds it in another channel",
    ),
    _code("SPC005", _E, "pytorch-cuda together with another channel's pytorch", _VERSIONS),
    _code("SPC006", _W, "cudatoolkit selects nothing for torch 1.13 and newer", _VERSIONS),
    _code("SPC007", _W, "torch in both the conda and the pip half", _SPECS),
    _code(
        "SPC008",
        _W,
        "The defaults channel is named, or added by conda because nothing excludes it",
        _CHANNELS,
        varies="information for a spec with a lock that holds no package of it",
    ),
    _code("SPC009", _W, "Exported with build strings or a prefix: one platform only", _SPECS),
    _code("SPC010", _W, "A key that conda does not know and ignores", _SPECS),
    _code(
        "SPC011",
        _W,
        "Python is past its end of life",
        "https://devguide.python.org/versions/",
    ),
    _code(
        "SPC012",
        _W,
        "NumPy is not capped below 2 for a torch older than 2.3",
        "https://github.com/pytorch/pytorch/issues/132179",
    ),
    _code(
        "SPC013",
        _W,
        "MKL is not capped below 2024.1 for a conda torch that breaks with it",
        "https://github.com/pytorch/pytorch/issues/123097",
    ),
    _code("SPC014", _I, "This CUDA is too old for newer GPUs", _RELEASES),
    _code(
        "SPC015", _W, "A channel by its address: a mirror, a private or an http channel", _CHANNELS
    ),
    _code(
        "SPC016",
        _W,
        "The pip half takes packages from elsewhere or without hashes",
        "https://pip.pypa.io/en/stable/topics/secure-installs/",
    ),
    _code(
        "SPC017",
        _E,
        "The spec of the registry changed, and its version did not",
        "https://semver.org/",
    ),
)

BY_CODE: Final = {one.code: one for one in SPEC_CODES}

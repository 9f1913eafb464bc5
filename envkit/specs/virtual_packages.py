"""What a solver is told about the machine a lock is for: `__cuda`, `__glibc`, `__archspec` ...

The registry says it for its specs. For others it follows from the CUDA version that they pin; a
spec that pins none is solved for a machine without a GPU. conda-lock's default, CUDA 11.4, would
rule out every build for CUDA 12, silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from envkit.model.environment_spec import EnvironmentSpec

#: By the first half of a platform. glibc 2.28 is what conda-forge's builds for CUDA ask for.
_BASE: Final[Mapping[str, Mapping[str, str]]] = {
    "linux": {"__unix": "0", "__linux": "5.10", "__glibc": "2.28"},
    "osx": {"__unix": "0", "__osx": "13.0"},
    "win": {"__win": "10"},
}
_ARCHSPEC: Final[Mapping[str, str]] = {
    "64": "1 x86_64",
    "aarch64": "1 aarch64",
    "arm64": "1 arm64",
    "ppc64le": "1 ppc64le",
}
#: What names the CUDA of an environment, in the order in which it is asked.
_NAMES_CUDA: Final = ("cuda-version", "pytorch-cuda", "cudatoolkit")
PLATFORMS: Final = ("linux-64", "linux-aarch64", "linux-ppc64le", "osx-64", "osx-arm64", "win-64")


def virtual_packages(
    platform: str, spec: EnvironmentSpec, registered: Mapping[str, str] | None
) -> dict[str, str]:
    """Return version, and build where there is one, of each virtual package of a platform.

    Args:
        platform: one of `PLATFORMS`.
        spec: asked for its CUDA where the registry says nothing.
        registered: what the registry says, for linux-64; None: the spec is in none.

    """
    system, _, machine = platform.partition("-")
    found = {**_BASE[system], "__archspec": _ARCHSPEC[machine]}
    given = registered if registered is not None else _cuda_of(spec)
    for name, version in given.items():
        is_here = name in found or (name == "__cuda" and system != "osx")
        if is_here and not (name == "__archspec" and machine != "64"):
            found[name] = version
    return dict(sorted(found.items()))


def _cuda_of(spec: EnvironmentSpec) -> dict[str, str]:
    for dependency in spec.conda_named(*_NAMES_CUDA):
        version = dependency.match.version
        series = version.bounds.first_series if version is not None else None
        if series is not None:
            return {"__cuda": f"{series[0]}.{series[1]}"}
    return {}

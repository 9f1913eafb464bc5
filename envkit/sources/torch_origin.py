"""Who installed a torch and where it was published, told from its metadata and its record."""

from __future__ import annotations

import re

from envkit.model.facts import CondaFacts, CondaPackage, PipDistribution
from envkit.model.observed import Known, Observed, Unreadable, value_of

#: Local version tags of the wheels on PyTorch's own index.
_INDEX_TAG = re.compile(
    r"(?:cpu|cu\d{2,3}|rocm[\d.]{1,10}|xpu)(?:\.cxx11\.abi|\.with\.pypi\.cudnn)?"
)
_NVIDIA_TAG = re.compile(r"(?:[0-9a-f]{7,12}\.)?nv\d{2}\.\d{1,2}")


def torch_installer(
    distribution: PipDistribution | None, record: CondaPackage | None, conda: CondaFacts
) -> Observed[str]:
    """Return who installed torch: its metadata say so, else its conda record does."""
    source = "INSTALLER of the distribution torch"
    if distribution is not None and distribution.installer:
        return Known(value=distribution.installer, source=source)
    if record is not None:
        return Known(value="conda", source="conda-meta")
    if isinstance(conda.packages, Unreadable):
        return Unreadable(reason=conda.packages.reason, source="conda-meta")
    if distribution is not None and _is_built_here(distribution.version):
        return Known(value="source", source="version of the distribution torch")
    return Unreadable(reason="no installer left its name", source=source)


def torch_channel(
    installer: Observed[str],
    distribution: PipDistribution | None,
    record: CondaPackage | None,
    conda: CondaFacts,
) -> Observed[str]:
    """Return the channel or index that torch came from."""
    if value_of(installer) == "conda":
        if record is not None and record.channel:
            return Known(value=record.channel, source=f"conda-meta: {record.name}")
        reason = "the conda record of torch names no channel"
        if record is None and isinstance(conda.packages, Unreadable):
            reason = conda.packages.reason
        return Unreadable(reason=reason, source="conda-meta")
    if distribution is None or not distribution.version:
        return Unreadable(reason="no metadata say where torch came from", source="site-packages")
    return Known(
        value=wheel_channel(distribution.version),
        source=f"version {distribution.version} of the distribution torch",
    )


def wheel_channel(version: str) -> str:
    """Tell from the version in a wheel's metadata where the wheel was published.

    Wheels on the Python index have no local tag in their metadata, though `torch.__version__` has;
    those of PyTorch's own index say `+cu124`; NVIDIA's containers say `+nv25.4`.
    """
    _, _, local = version.partition("+")
    if _INDEX_TAG.fullmatch(local):
        return "pytorch"
    if _NVIDIA_TAG.fullmatch(local):
        return "nvidia"
    return "source" if _is_built_here(version) else "pypi"


def _is_built_here(version: str) -> bool:
    _, plus, local = version.partition("+")
    return bool(plus) and not _INDEX_TAG.fullmatch(local) and not _NVIDIA_TAG.fullmatch(local)

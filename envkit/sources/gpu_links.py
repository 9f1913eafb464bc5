"""How the GPUs of a machine reach each other, from what NVML says of each pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from envkit.model.facts import Gpu, GpuLink
from envkit.model.observed import Known, NotApplicable, Observed, Unreadable
from envkit.sources.gpu import fact_of
from envkit.sources.probe_answers import Answers, Asked

_SOURCE: Final = "NVML"
#: nvmlGpuTopologyLevel_t
PATHS: Final = {
    0: "board",
    10: "pci_switch",
    20: "pci_switches",
    30: "host_bridge",
    40: "numa_node",
    50: "system",
}
#: nvmlGpuP2PStatus_t
P2P: Final = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "io_hub_not_supported",
    4: "disabled_by_driver_setting",
    5: "not_supported",
    6: "unknown",
}


def gpu_links(
    answers: Answers, devices: Observed[tuple[Gpu, ...]]
) -> Observed[tuple[GpuLink, ...]]:
    """Return each pair of GPUs that was asked for."""
    if not isinstance(devices, Known):
        return Unreadable(reason="the GPUs could not be listed", source=_SOURCE)
    if len(devices.value) < 2:  # noqa: PLR2004 (a pair)
        return NotApplicable(reason="there are not two GPUs to be connected", source=_SOURCE)
    if not answers.links:
        why = answers.why_silent.get("nvml", "NVML was not asked for links")
        return Unreadable(reason=why, source=_SOURCE)
    return Known(
        value=tuple(
            GpuLink(
                one=pair.one,
                other=pair.other,
                path=_named(pair.values.get("path"), PATHS),
                p2p_read=_named(pair.values.get("p2p_read"), P2P),
                p2p_write=_named(pair.values.get("p2p_write"), P2P),
                p2p_nvlink=_named(pair.values.get("p2p_nvlink"), P2P),
            )
            for pair in answers.links
        ),
        source=_SOURCE,
    )


def _named(asked: Asked | None, names: Mapping[int, str]) -> Observed[str]:
    number = fact_of(asked, int, _SOURCE, optional=True)
    if not isinstance(number, Known):
        return number
    if number.value not in names:
        return Unreadable(reason=f"NVML's answer {number.value} has no name", source=_SOURCE)
    return Known(value=names[number.value], source=_SOURCE)

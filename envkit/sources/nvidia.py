"""The NVIDIA side of a machine, read in one go: driver, PCI bus and GPUs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from envkit.model.facts import DriverFacts, GpuFacts
from envkit.sources.driver import driver_facts
from envkit.sources.gpu import gpu_devices, pids_are_ours
from envkit.sources.gpu_links import gpu_links
from envkit.sources.pci import read_pci
from envkit.sources.probe_answers import LIMIT_S, Answers, ask_driver
from envkit.sources.redacted import home_folders


def read_driver_and_gpus(
    environ: Mapping[str, str] | None = None,
    *,
    root: Path = Path("/"),
    limit_s: float = LIMIT_S,
    own_pids: Collection[int] = (),
    answers: Answers | None = None,
) -> tuple[DriverFacts, GpuFacts]:
    """Return the facts of the driver and of the GPUs; takes at most `limit_s` and a few seconds.

    Best asked before a child of envkit uses a GPU: then every process that holds memory on one is
    somebody else's, in a container too.

    Args:
        environ: environment of the target; that of this process by default.
        root: folder that stands for `/`.
        limit_s: how long NVML and libcuda may take.
        own_pids: processes of envkit that may be using a GPU already.
        answers: what the probe said, where it was asked before.

    """
    environ = os.environ if environ is None else environ
    said = ask_driver(environ, limit_s=limit_s) if answers is None else answers
    driver = driver_facts(said, root=root, homes=home_folders(environ))
    devices = gpu_devices(
        said, driver=driver.version, own_pids=own_pids, pids_are_ours=pids_are_ours(root=root)
    )
    links = gpu_links(said, devices)
    return driver, GpuFacts(pci_devices=read_pci(root=root), devices=devices, links=links)

"""GPU models by name, and which toolkits and drivers know a compute capability."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal

from envkit.compat.answers import Unknown
from envkit.compat.rows import Row, Table
from envkit.compat.store import load
from envkit.model.versions import parse_capability

Kind = Literal[
    "datacenter", "desktop-soc", "geforce", "geforce-laptop", "jetson", "titan", "workstation"
]


class CapabilityRow(Row, frozen=True, kw_only=True):
    """What software knows a compute capability. An absent field: no source, or no limit yet."""

    capability: str
    architecture: str
    #: First CUDA toolkit that compiles for it.
    min_toolkit: str | None = None
    #: Last toolkit that supports it; None: the newest in the tables still does.
    max_toolkit: str | None = None
    #: Driver branch of `min_toolkit`; a card launched later can need a newer one.
    min_driver_branch: int | None = None
    #: Last driver branch that drives it; None: the newest in the tables still does.
    last_driver_branch: int | None = None
    #: Last cuDNN that supports it; None: the newest in the tables still does.
    last_cudnn: str | None = None
    unsure: tuple[str, ...] = ()


class Model(Row, frozen=True, kw_only=True):
    """A GPU as it is sold."""

    name: str
    kind: Kind
    capability: str
    #: Memory of its variants in GB as advertised; what a driver reports is less.
    memory_gb: tuple[int, ...]
    #: Names as `nvidia-smi` and `torch.cuda.get_device_name` print them.
    device_names: tuple[str, ...] = ()
    #: First open-kernel driver that lists it (read it as a branch).
    first_open_driver: str | None = None
    unsure: tuple[str, ...] = ()


class GpuTable(Table, frozen=True, kw_only=True):
    """`data/gpus.yaml`."""

    notes: Mapping[str, str]
    capabilities: tuple[CapabilityRow, ...]
    models: tuple[Model, ...]


#: Words of a device name that tell variants of one model apart.
_VARIANT = re.compile(r"sxm\d?|pcie|nvl|\d+gb?|hbm\d\w?|dgxs|fhhl")
_MAKERS = frozenset({"nvidia", "tesla"})
_MIG = re.compile(r"\s+mig\s+\d+g\.\d+gb.*", re.IGNORECASE)


@functools.cache
def table() -> GpuTable:
    """Return the table of GPUs, read once a process."""
    return load("gpus", GpuTable)


def find_gpu(device_name: str) -> Model | Unknown:
    """Return the model of a device by the name that the driver gives it.

    The name of a MIG slice finds the whole GPU. Words that only tell variants apart (SXM4, PCIe,
    80GB) may follow; any other word means another model, so `NVIDIA H20` is not an H200.
    """
    words = _words(_MIG.sub("", device_name))
    for length in range(len(words), 0, -1):
        model = _by_words().get(words[:length])
        if model is not None and all(_VARIANT.fullmatch(word) for word in words[length:]):
            return model
    return Unknown(why=f"the GPU {device_name!r} is not in the tables")


@functools.cache
def _by_words() -> dict[tuple[str, ...], Model]:
    names = [
        (name, model) for model in table().models for name in (model.name, *model.device_names)
    ]
    return {_words(name): model for name, model in names}


def _words(name: str) -> tuple[str, ...]:
    words = re.split(r"[\s\-]+", name.strip().lower())
    return tuple(words[1:] if words[0] in _MAKERS else words)


def capability_row(capability: str) -> CapabilityRow | Unknown:
    """Return what is known of a compute capability.

    Raises:
        ValueError: `capability` cannot be read.

    """
    asked = parse_capability(capability)
    rows = table().capabilities
    found = next((row for row in rows if parse_capability(row.capability) == asked), None)
    newer = asked > parse_capability(rows[-1].capability)
    why = f"compute capability {capability} is {'newer than' if newer else 'not in'} the tables"
    return found or Unknown(why=why, newer=newer)


def driven_by(capability: str, branch: int) -> bool | Unknown:
    """Say whether a driver branch drives GPUs of a capability.

    The one question whose answer a newer driver can turn from yes to no: R580 is the last branch
    for Maxwell, Pascal and Volta.

    Raises:
        ValueError: `capability` cannot be read.

    """
    row = capability_row(capability)
    if isinstance(row, Unknown):
        return row
    if row.last_driver_branch is not None and branch >= row.last_driver_branch:
        # Windows numbers a branch over five: 581 to 584 are R580.
        return branch < row.last_driver_branch + 5
    if row.min_driver_branch is None:
        return Unknown(why=f"no source gives the first driver for capability {capability}")
    return branch >= row.min_driver_branch

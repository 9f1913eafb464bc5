"""What the files of a build folder say: everything that differs between two folders."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from envkit.model.image import Mode

#: Where things are in the image.
PREFIX: Final = "/opt/env"
OWN_PREFIX: Final = "/opt/envkit"
SPEC: Final = "/opt/spec/environment.yml"
LOCK: Final = "/opt/spec/conda-lock.yml"
ENTRY: Final = "/opt/entry"
CODE: Final = "/workspace"
LOGS: Final = "/logs"
SSH_STATE: Final = "/var/lib/envkit-ssh"
SSH_KEYS: Final = "/etc/envkit/authorized_keys"
USER: Final = "envkit"

Jupyter: TypeAlias = Literal["lab", "notebook", "server"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What `compose.yaml` lets a container have."""

    gpus: tuple[str, ...] | Literal["all"]
    """Indexes or UUIDs; empty: no GPU."""
    memory: str
    """`16g`."""
    cpus: str
    """`4`."""


class ImagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be in an image, and how it is started. Every text was checked by who made it."""

    name: str
    """Small letters, digits and hyphens: of the image and of the service."""
    reference: str
    """What labels call the spec."""
    tag: str
    mode: Mode
    base: str
    architecture: Literal["amd64", "arm64"]
    has_spec: bool
    """Whether the spec is in the folder, and not the lock alone."""
    needs_gpu: bool
    variables: dict[str, str]
    """Of the spec, with `ENVKIT_SPEC`."""
    requirements: dict[str, str]
    """`NVIDIA_*` variables, which NVIDIA's container runtime reads."""
    labels: dict[str, str]
    limits: Limits
    port: int
    """Of Jupyter or sshd."""
    jupyter: Jupyter
    notebooks: str
    """Folder in the container that Jupyter shows."""
    code: str
    """Folder of the user that is mounted, as `compose.yaml` is to name it."""

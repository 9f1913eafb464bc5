"""`compose.yaml` of a build folder: which GPUs, how much memory, what is mounted."""

from __future__ import annotations

from typing import Any, Final

import yaml

from envkit.render.container.plan import CODE, LOGS, SSH_KEYS, SSH_STATE, ImagePlan
from envkit.render.container.quoting import compose_literal

_HEAD: Final = """\
# Written by `envkit image`: the same lock and options give the same bytes.
# What differs between machines is taken from variables of the shell, or from a file .env here:
#   ENVKIT_UID, ENVKIT_GID     who you are, so that files in the code folder stay yours
#   ENVKIT_MEMORY, ENVKIT_CPUS, ENVKIT_SHM
#   ENVKIT_BIND                the address that the port is opened on
"""
#: Only this machine reaches a port, unless the user opens it.
_BIND: Final = "${ENVKIT_BIND:-127.0.0.1}"


def render_compose(plan: ImagePlan) -> str:
    """Draw the file."""
    volumes = ["logs"] if plan.mode != "ssh" else ["logs", "ssh"]
    document = {
        "name": f"envkit-{plan.name}",
        "services": {plan.name: _service(plan)},
        "volumes": {volume: {} for volume in volumes},
    }
    return _HEAD + yaml.safe_dump(document, sort_keys=False, default_flow_style=False, width=100)


def _service(plan: ImagePlan) -> dict[str, Any]:
    service: dict[str, Any] = {
        "image": f"envkit-{plan.name}:{plan.tag}",
        "platform": f"linux/{plan.architecture}",
        "build": {
            "context": ".",
            "args": {"UID": "${ENVKIT_UID:-1000}", "GID": "${ENVKIT_GID:-1000}"},
        },
        "init": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "shm_size": "${ENVKIT_SHM:-2gb}",
        "deploy": {"resources": _resources(plan)},
        "volumes": [*_volumes(plan)],
    }
    if plan.mode == "base":
        return {**service, "stdin_open": True, "tty": True}
    service["ports"] = [f"{_BIND}:{plan.port}:{plan.port}"]
    if plan.mode == "jupyter":
        wanted = "JUPYTER_TOKEN: set it to a secret of 16 characters or more"
        service["environment"] = {"JUPYTER_TOKEN": f"${{JUPYTER_TOKEN:?{wanted}}}"}
    return service


def _resources(plan: ImagePlan) -> dict[str, Any]:
    limits = {
        "cpus": f"${{ENVKIT_CPUS:-{plan.limits.cpus}}}",
        "memory": f"${{ENVKIT_MEMORY:-{plan.limits.memory}}}",
    }
    if not plan.limits.gpus:
        return {"limits": limits}
    which: dict[str, Any] = {"count": "all"}
    if plan.limits.gpus != "all":
        which = {"device_ids": list(plan.limits.gpus)}
    device = {"driver": "nvidia", **which, "capabilities": ["gpu"]}
    return {"limits": limits, "reservations": {"devices": [device]}}


def _volumes(plan: ImagePlan) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"type": "bind", "source": compose_literal(plan.code), "target": CODE},
        {"type": "volume", "source": "logs", "target": LOGS},
    ]
    if plan.mode == "ssh":
        wanted = "ENVKIT_SSH_KEYS: set it to the path of a file of public keys"
        volumes += [
            {"type": "volume", "source": "ssh", "target": SSH_STATE},
            {
                "type": "bind",
                "source": f"${{ENVKIT_SSH_KEYS:?{wanted}}}",
                "target": SSH_KEYS,
                "read_only": True,
                "bind": {"create_host_path": False},
            },
        ]
    return volumes

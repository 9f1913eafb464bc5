"""`.devcontainer/devcontainer.json` of a build folder, for editors."""

from __future__ import annotations

import json
from typing import Any

from envkit.render.container.plan import CODE, PREFIX, USER, ImagePlan


def render_devcontainer(plan: ImagePlan) -> str:
    """Draw the file: the service of `compose.yaml`, on a machine with what it needs."""
    document: dict[str, Any] = {
        "name": plan.reference,
        "dockerComposeFile": "../compose.yaml",
        "service": plan.name,
        "workspaceFolder": CODE,
        "remoteUser": USER,
        # A shell without a terminal would end at once; Jupyter and sshd go on by themselves.
        "overrideCommand": plan.mode == "base",
        "shutdownAction": "stopCompose",
        "hostRequirements": {"gpu": plan.needs_gpu},
        "customizations": {
            "vscode": {
                "extensions": ["ms-python.python", "ms-toolsai.jupyter"],
                "settings": {"python.defaultInterpreterPath": f"{PREFIX}/bin/python"},
            }
        },
    }
    if plan.mode != "base":
        document["forwardPorts"] = [plan.port]
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"

"""The Dockerfile of a build folder."""

from __future__ import annotations

import json
from collections.abc import Mapping

from envkit.render.container.commands import command, environment, to_create
from envkit.render.container.plan import (
    CODE,
    ENTRY,
    LOGS,
    OWN_PREFIX,
    PREFIX,
    SSH_STATE,
    USER,
    ImagePlan,
)
from envkit.render.container.quoting import docker_quoted, filled, template_text


def render_dockerfile(plan: ImagePlan) -> str:
    """Draw the Dockerfile: a stage that installs, and one that only copies."""
    ssh = plan.mode == "ssh"
    return filled(
        "Dockerfile",
        {
            "base": plan.base,
            "own_prefix": OWN_PREFIX,
            "prefix": PREFIX,
            "create": to_create(plan),
            "packages": template_text("ssh-packages") if ssh else "",
            "user": USER,
            "folders": " ".join((CODE, LOGS, *((SSH_STATE,) if ssh else ()))),
            "entry": ENTRY,
            "code": CODE,
            "labels": _words(plan.labels),
            "environment": _words(environment(plan)),
            "expose": "" if plan.mode == "base" else f"EXPOSE {plan.port}\n",
            "command": ", ".join(json.dumps(word) for word in command(plan)),
        },
    )


def _words(values: Mapping[str, str]) -> str:
    return " \\\n    ".join(f"{name}={docker_quoted(text)}" for name, text in values.items())

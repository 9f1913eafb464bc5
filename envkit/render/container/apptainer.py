"""The Apptainer definition of a build folder, for clusters."""

from __future__ import annotations

import shlex

from envkit.render.container.commands import command, environment, to_create
from envkit.render.container.plan import CODE, ENTRY, LOGS, OWN_PREFIX, PREFIX, ImagePlan
from envkit.render.container.quoting import checked, filled, shell_quoted


def render_apptainer(plan: ImagePlan) -> str:
    """Draw the definition: the stages of the Dockerfile, without a user of its own.

    Apptainer runs as whoever starts it. A cluster has its own way in by SSH, so that an image of
    mode ssh starts a shell here.
    """
    started = ("bash",) if plan.mode == "ssh" else command(plan)
    return filled(
        "Apptainer.def",
        {
            "name": plan.name,
            "source": plan.base,
            "own_prefix": OWN_PREFIX,
            "prefix": PREFIX,
            "create": to_create(plan),
            "entry": ENTRY,
            "code": CODE,
            "logs": LOGS,
            "environment": "\n".join(
                f"    export {name}={shell_quoted(text)}"
                for name, text in environment(plan).items()
            ),
            "labels": "\n".join(
                f"    {name} {checked(text)}" for name, text in plan.labels.items()
            ),
            "command": shlex.join(started),
        },
    )

"""What an image sets and starts, whoever runs it: shared by all files of a build folder."""

from __future__ import annotations

from typing import Final

from envkit.render.container.plan import ENTRY, LOCK, PREFIX, SPEC, ImagePlan

_PATH: Final = f"{PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: How each mode starts.
_COMMANDS: Final = {
    "base": ("bash",),
    "jupyter": ("/bin/bash", f"{ENTRY}/jupyter.sh"),
    "ssh": ("/bin/bash", f"{ENTRY}/ssh.sh"),
}


def command(plan: ImagePlan) -> tuple[str, ...]:
    """Return what is started where nothing else was asked for."""
    return _COMMANDS[plan.mode]


def to_create(plan: ImagePlan) -> str:
    """Return what `envkit create` is given in the build."""
    return SPEC if plan.has_spec else LOCK


def activation(plan: ImagePlan) -> dict[str, str]:
    """Return the variables of an active environment, those of the spec among them."""
    return {
        "PATH": _PATH,
        "CONDA_PREFIX": PREFIX,
        "CONDA_DEFAULT_ENV": plan.name,
        **plan.variables,
    }


def environment(plan: ImagePlan) -> dict[str, str]:
    """Return every variable that the image sets."""
    return {**activation(plan), **plan.requirements, **_of_mode(plan)}


def _of_mode(plan: ImagePlan) -> dict[str, str]:
    if plan.mode == "jupyter":
        return {
            "ENVKIT_JUPYTER": plan.jupyter,
            "ENVKIT_JUPYTER_PORT": str(plan.port),
            "ENVKIT_JUPYTER_FOLDER": plan.notebooks,
        }
    return {"ENVKIT_SSH_PORT": str(plan.port)} if plan.mode == "ssh" else {}

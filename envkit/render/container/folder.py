"""All files of a build folder that are text: path to content."""

from __future__ import annotations

from typing import Final

from envkit.render.container.apptainer import render_apptainer
from envkit.render.container.commands import activation
from envkit.render.container.compose import render_compose
from envkit.render.container.devcontainer import render_devcontainer
from envkit.render.container.dockerfile import render_dockerfile
from envkit.render.container.plan import ImagePlan
from envkit.render.container.quoting import entry_text, sshd_quoted, template_text

_JUPYTER_CONFIG: Final = "jupyter_server_config"
_SCRIPTS: Final = {
    "base": ("entrypoint.sh",),
    "jupyter": ("entrypoint.sh", "jupyter.sh"),
    "ssh": ("entrypoint.sh", "ssh.sh"),
}


def render_folder(plan: ImagePlan, *, wheel: str, wheel_sha256: str) -> dict[str, str]:
    """Draw every file.

    Args:
        plan: what is to be in the image.
        wheel: name of the wheel of envkit in the folder `wheels`.
        wheel_sha256: its SHA-256 as hexadecimal digits.

    Raises:
        ValueError: a text of the plan cannot stand on a line.

    """
    own = f"./wheels/{wheel} \\\n    --hash=sha256:{wheel_sha256}\n"
    files = {
        "Dockerfile": render_dockerfile(plan),
        ".dockerignore": template_text("dockerignore"),
        "compose.yaml": render_compose(plan),
        ".devcontainer/devcontainer.json": render_devcontainer(plan),
        "Apptainer.def": render_apptainer(plan),
        "requirements.txt": template_text("requirements.txt") + own,
        "builder-requirements.txt": template_text("builder-requirements.txt"),
    }
    files |= {f"entry/{name}": entry_text(name) for name in _SCRIPTS[plan.mode]}
    if plan.mode == "jupyter":
        files[f"entry/{_JUPYTER_CONFIG}.py"] = entry_text(_JUPYTER_CONFIG)
    if plan.mode == "ssh":
        files["entry/sshd_config"] = entry_text("sshd_config") + _session(plan)
    return files


def _session(plan: ImagePlan) -> str:
    """Return the variables of a login: sshd passes none of its own on, and reads one line only."""
    words = (sshd_quoted(f"{name}={text}") for name, text in activation(plan).items())
    return f"SetEnv {' '.join(words)}\n"

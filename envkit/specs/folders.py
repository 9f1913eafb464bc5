"""Where the specs are that envkit ships: inside the package, or beside it in a checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from envkit.errors import InternalError


def environments() -> Path:
    """Return the folder of the registry.

    Raises:
        InternalError: it is not there; the installation is incomplete.

    """
    return _shipped("environments")


def baselines() -> Path:
    """Return the folder of reports measured on named hardware; errors as for `environments`."""
    return _shipped("baselines")


def _shipped(name: str) -> Path:
    # In a wheel the folders are inside the package; an editable install has them beside it.
    package = Path(str(resources.files("envkit")))
    for folder in (package / f"_{name}", package.parent / name):
        if folder.is_dir():
            return folder
    message = f"the folder {name} that comes with envkit is missing"
    raise InternalError(message, next_step="Install envkit again.")

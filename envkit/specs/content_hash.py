"""The content hash of a spec: changes with what is asked for, and with nothing else.

Comments, white space, quotes, the order of keys and of conda dependencies do not count; every
dependency, its selector, the order of channels (it is their priority), the pip half in its order,
and every variable do. So does the name: it is the name of the environment that conda creates.
"""

from __future__ import annotations

from typing import Any

from envkit.model import codec
from envkit.model.environment_spec import EnvironmentSpec


def content_hash(spec: EnvironmentSpec) -> str:
    """Return `sha256:` and the SHA-256 of the canonical content of a spec."""
    return codec.digest(canonical_content(spec))


def canonical_content(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return what the content hash is taken over, as a JSON value."""
    return {
        "schema": "envkit.spec-content/1",
        "name": spec.name.text if spec.name else "",
        "channels": [channel.text.rstrip("/") for channel in spec.channels],
        "dependencies": sorted(
            [one.match.canonical(), _selector(one.selector)] for one in spec.dependencies
        ),
        "pip": [[" ".join(one.text.split()), _selector(one.selector)] for one in spec.pip],
        "variables": {one.name: one.text for one in spec.variables},
        "platforms": sorted(platform.text for platform in spec.platforms),
    }


def _selector(selector: str | None) -> str:
    return " ".join((selector or "").split())

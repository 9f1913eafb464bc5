"""What stands around a spec: its lock, and what the registry says of it."""

from __future__ import annotations

import datetime as dt

from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.lint.subject import Registered, Surroundings
from envkit.specs.lock_channels import channels_of_lock
from envkit.specs.registry import REGISTRY_FILE
from envkit.specs.resolve import ResolvedSpec


def surroundings_of(resolved: ResolvedSpec, *, today: dt.date) -> Surroundings:
    """Read what a spec is judged with.

    Raises:
        InputError: the published spec of the same version cannot be read.

    """
    return Surroundings(
        today=today,
        lock_channels=channels_of_lock(resolved.lock_path),
        registered=_registered(resolved),
    )


def _registered(resolved: ResolvedSpec) -> Registered | None:
    name, entry, registry = resolved.name, resolved.entry, resolved.registry
    if name is None or entry is None or registry is None:
        return None
    published = registry.archived(name, entry.version) / f"{name}.yml"
    return Registered(
        name=name,
        version=entry.version,
        content_hash=entry.content_hash,
        published_hash=content_hash(read_spec_file(published)) if published.is_file() else None,
        source=f"{registry.folder.name}/{REGISTRY_FILE}",
    )

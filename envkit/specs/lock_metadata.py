"""What envkit notes in a lock about the spec it was made from: the `custom_metadata` of the format.

conda-lock drops the variables of a spec and its own content hash cannot be computed without it;
these notes are what `envkit lock --check`, `envkit create` and `envkit verify` go by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from envkit.model.conda_lock import CondaLock

SPEC: Final = "envkit_spec"
"""Name in the registry, else the `name:` of the spec."""
VERSION: Final = "envkit_spec_version"
CONTENT_HASH: Final = "envkit_content_hash"
VARIABLES: Final = "envkit_variables"
VIRTUAL_PACKAGES: Final = "envkit_virtual_packages"


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """What a lock says about its spec; empty where it was not made by envkit."""

    spec: str = ""
    version: str = ""
    content_hash: str = ""
    variables: dict[str, str] = {}
    virtual_packages: dict[str, dict[str, str]] = {}
    """By platform."""

    @property
    def reference(self) -> str:
        """Return `vit@1.0.0`, or the bare name of a spec without version."""
        return f"{self.spec}@{self.version}" if self.version else self.spec

    def as_metadata(self) -> dict[str, str]:
        """Return the notes as the format holds them: texts by name, empty ones left out."""
        values = {
            SPEC: self.spec,
            VERSION: self.version,
            CONTENT_HASH: self.content_hash,
            VARIABLES: _written(self.variables),
            VIRTUAL_PACKAGES: _written(self.virtual_packages),
        }
        return {key: value for key, value in values.items() if value}


def notes_of(lock: CondaLock) -> Notes:
    """Return what a lock says about its spec; a note that cannot be read counts as missing."""
    return Notes(
        spec=lock.noted(SPEC) or "",
        version=lock.noted(VERSION) or "",
        content_hash=lock.noted(CONTENT_HASH) or "",
        variables=_read(lock.noted(VARIABLES), dict[str, str]),
        virtual_packages=_read(lock.noted(VIRTUAL_PACKAGES), dict[str, dict[str, str]]),
    )


def _written(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if value else ""


def _read(text: str | None, kind: Any) -> Any:
    try:
        return msgspec.json.decode(text or "{}", type=kind)
    except msgspec.MsgspecError:
        return {}

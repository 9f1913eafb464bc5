"""Inputs that are no JSON: locks, specs, lists and pastes, told apart by what stands in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from envkit.model.explicit_lock import is_explicit_lock, read_explicit_lock
from envkit.model.invalid_file import invalid
from envkit.model.lock_reading import MAX_LOCK_BYTES, read_conda_lock
from envkit.sources.collect_env import read_collect_env
from envkit.sources.collect_env_text import MAX_PASTE_CHARS, is_collect_env
from envkit.sources.conda_list import is_conda_list, read_conda_list, read_conda_list_json
from envkit.sources.requirements import is_pip_freeze, read_pip_freeze
from envkit.specs.environment_yml import read_spec
from envkit.workflows import package_lists

_LOCK: Final = re.compile(r"^(?:package|metadata):", re.MULTILINE)
_SPEC: Final = re.compile(r"^[\"']?(?:dependencies|channels)[\"']?\s*:", re.MULTILINE)

#: Kind of an input, and the fields of its side.
Read = tuple[str, dict[str, Any]]


def read_json_list(content: bytes, origin: str) -> Read:
    """Read the list that `conda list --json` or `pip list --format json` print."""
    found = read_conda_list_json(content, origin=origin)
    return "conda-list", {"packages": package_lists.from_conda_list(found)}


def read_text_input(text: str, origin: str) -> Read | None:
    """Read a text; None where it is none that is known.

    Raises:
        InputError: it is a known one, and broken, with the place; or larger than any of them.

    """
    if len(text) > MAX_LOCK_BYTES:
        raise invalid(origin, None, f"it has more than {MAX_LOCK_BYTES >> 20} MiB")
    reader = next((read for is_one, read in _KINDS if is_one(text)), None)
    return None if reader is None else reader(text, origin)


def _explicit(text: str, origin: str) -> Read:
    packages = read_explicit_lock(text.encode(), origin=origin)
    return "explicit-lock", {"packages": package_lists.from_explicit(packages)}


def _lock(text: str, origin: str) -> Read:
    lock = read_conda_lock(text.encode(), origin=origin)
    return "conda-lock", {"packages": package_lists.from_conda_lock(lock)}


def _paste(text: str, _: str) -> Read:
    facts = read_collect_env(text)
    packages = package_lists.from_facts(facts, complete=False)
    return "collect_env", {"facts": facts, "packages": packages}


def _spec(text: str, origin: str) -> Read:
    spec = read_spec(text.encode(), origin=origin)
    return "environment.yml", {"packages": package_lists.from_spec(spec)}


def _freeze(text: str, origin: str) -> Read:
    found = read_pip_freeze(text, origin=origin)
    return "pip-freeze", {"packages": package_lists.from_freeze(found)}


def _list(text: str, origin: str) -> Read:
    found = read_conda_list(text, origin=origin)
    return "conda-list", {"packages": package_lists.from_conda_list(found)}


#: In this order: a lock is YAML with channels too, and a paste may have anything in it.
_KINDS: Final[tuple[tuple[Callable[[str], bool], Callable[[str, str], Read]], ...]] = (
    (lambda text: is_explicit_lock(text.encode()), _explicit),
    (lambda text: len(set(_LOCK.findall(text))) > 1, _lock),
    (lambda text: len(text) <= MAX_PASTE_CHARS and is_collect_env(text), _paste),
    (lambda text: _SPEC.search(text) is not None, _spec),
    (is_pip_freeze, _freeze),
    (is_conda_list, _list),
)

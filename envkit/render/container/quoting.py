"""How a text stands in each language of a build folder without being read as anything else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib import resources
from typing import Final

#: A place of a template. Shells and Dockerfiles need every `$` themselves.
_PLACE: Final = re.compile(r"@\{([a-z_]+)\}")


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with all its places filled; what is put in is not looked at again."""
    return _PLACE.sub(lambda place: values[place[1]], template_text(template))


def template_text(name: str) -> str:
    """Return a file of `templates/`."""
    return _text("templates", name)


def entry_text(name: str) -> str:
    """Return a file of `entry/`, which is the same in every image."""
    return _text("entry", name)


def _text(folder: str, name: str) -> str:
    return (resources.files(__package__) / folder / name).read_text(encoding="utf-8")


def checked(text: str) -> str:
    """Return a text that stays on its line; raises ValueError for any other."""
    if not text.isprintable():
        message = f"{text[:80]!r} holds a line break or another control character"
        raise ValueError(message)
    return text


def docker_quoted(text: str) -> str:
    r"""Return a text as a word of ENV or LABEL; `\`, `"` and `$` mean nothing behind a `\`."""
    escaped = checked(text)
    for character in ("\\", '"', "$"):
        escaped = escaped.replace(character, f"\\{character}")
    return f'"{escaped}"'


def shell_quoted(text: str) -> str:
    """Return a text as a word of a shell, in which Apptainer finds no `{{ variable }}` either."""
    return shlex.quote(checked(text)).replace("{{", "{''{")


def compose_literal(text: str) -> str:
    """Return a text in which Compose replaces nothing."""
    return checked(text).replace("$", "$$")


def sshd_quoted(text: str) -> str:
    r"""Return a text as a word of sshd_config; `\` and `"` mean nothing behind a `\`."""
    escaped = checked(text)
    for character in ("\\", '"'):
        escaped = escaped.replace(character, f"\\{character}")
    return f'"{escaped}"'

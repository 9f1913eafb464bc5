"""Which values the options of `envkit image` can have; anything else is an error that says so."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from envkit.errors import UsageError
from envkit.model.image import Mode

DEFAULT_BASE: Final = "docker.io/library/python:3.12-slim-bookworm"
PORTS: Final[dict[Mode, int]] = {"base": 0, "jupyter": 8888, "ssh": 2222}
#: The grammar of references of the OCI distribution specification, with a digest of SHA-256 only.
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)
_MEMORY: Final = re.compile(r"[1-9][0-9]{0,6}[mg]")
_CPUS: Final = re.compile(r"(?:[1-9][0-9]{0,3}(?:\.[0-9]{1,2})?|0\.[0-9][1-9]|0\.[1-9][0-9]?)")
_GPU: Final = re.compile(r"[0-9]{1,3}|(?:GPU|MIG)-[0-9A-Za-z-]{1,60}")
_NOTEBOOKS: Final = re.compile(r"(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,20}")
_LOWEST_PORT: Final = 1024
_HIGHEST_PORT: Final = 65535


class ImageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, beside the spec."""

    mode: Mode
    base: str = DEFAULT_BASE
    gpus: str = ""
    """`all`, `none`, or indexes and UUIDs with commas; empty: all where the spec needs one."""
    memory: str = "16g"
    cpus: str = "4"
    port: int | None = None
    notebooks: str = "/workspace"
    code: str = ".."


def check_options(options: ImageOptions) -> None:
    """Raise UsageError where a value cannot be what its option asks for."""
    for name, value, pattern, example in (
        ("--base", options.base, _IMAGE, "python:3.12-slim, or NAME@sha256:DIGEST"),
        ("--memory", options.memory, _MEMORY, "16g or 512m"),
        ("--cpus", options.cpus, _CPUS, "4 or 1.5"),
        ("--notebooks", options.notebooks, _NOTEBOOKS, "/workspace/notebooks"),
    ):
        if not pattern.fullmatch(value):
            raise _wrong_value((name, value), example)
    if not options.code.strip() or not options.code.isprintable():
        raise _wrong_value(("--code", options.code), "../experiments")
    _check_port(options)
    chosen_gpus(options.gpus, needed=False)


def pinned(base: str) -> str:
    """Return the digest of an image reference, `sha256:...`; empty: it names a tag."""
    found = _IMAGE.fullmatch(base)
    return ((found["digest"] if found else None) or "").removeprefix("@")


def chosen_gpus(text: str, *, needed: bool) -> tuple[str, ...] | Literal["all"]:
    """Return which GPUs a container gets.

    Raises:
        UsageError: they are not named as NVIDIA's runtime names them.

    """
    if text in {"", "all", "none"}:
        return "all" if text == "all" or (not text and needed) else ()
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if not _GPU.fullmatch(name):
            raise _wrong_value(("--gpus", name), "all, none, 0 or 0,1 or a UUID")
    return names


def compose_path(code: str) -> str:
    """Return a path as Compose takes it for one: a bare name would be a volume."""
    return code if code.startswith((".", "/")) else f"./{code}"


def _check_port(options: ImageOptions) -> None:
    if options.port is None:
        return
    if options.mode == "base":
        message = "--port is of the modes jupyter and ssh; base opens none."
        raise UsageError(message, next_step="Leave --port out, or choose another --mode.")
    if not _LOWEST_PORT <= options.port <= _HIGHEST_PORT:
        raise _wrong_value(("--port", str(options.port)), "8888; lower than 1024 is for root")


def _wrong_value(given: tuple[str, str], example: str) -> UsageError:
    option, value = given
    return UsageError(f"{option} {value[:80]!r} is not valid.", next_step=f"For example: {example}")

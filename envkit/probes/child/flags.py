"""The switches of torch that change numbers or memory: names, state, and setting one."""

from __future__ import annotations

import difflib
from typing import Any, Callable, Tuple

from .torch_api import (
    Missing,
    attempt,
    call,
    lookup,
    preferred_library,
    set_preferred_library,
)

#: Switches that are a plain attribute: name here -> path below torch, type.
_ATTRIBUTES = {
    "cudnn.enabled": ("backends.cudnn.enabled", bool),
    "cudnn.benchmark": ("backends.cudnn.benchmark", bool),
    "cudnn.benchmark_limit": ("backends.cudnn.benchmark_limit", int),
    "cudnn.deterministic": ("backends.cudnn.deterministic", bool),
    "cudnn.allow_tf32": ("backends.cudnn.allow_tf32", bool),
    "matmul.allow_tf32": ("backends.cuda.matmul.allow_tf32", bool),
    "matmul.allow_fp16_reduced_precision_reduction": (
        "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
        bool,
    ),
    "matmul.allow_bf16_reduced_precision_reduction": (
        "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
        bool,
    ),
    "matmul.allow_fp16_accumulation": ("backends.cuda.matmul.allow_fp16_accumulation", bool),
}

#: Attention backends: name here -> function that tells, function that sets, below torch.
_SDP = {
    "sdp.flash": ("flash_sdp_enabled", "enable_flash_sdp"),
    "sdp.mem_efficient": ("mem_efficient_sdp_enabled", "enable_mem_efficient_sdp"),
    "sdp.math": ("math_sdp_enabled", "enable_math_sdp"),
    "sdp.cudnn": ("cudnn_sdp_enabled", "enable_cudnn_sdp"),
}

_TYPE_NAMES = {bool: "true or false", int: "a whole number", str: "a word"}


class FlagRefused(Exception):  # noqa: N818  (named for what happened)
    """A flag was not set: unknown, of the wrong type, or torch did not take it."""


class Flag(object):
    """One switch: the type of its value, how to read it and how to set it, and its words."""

    __slots__ = ("kind", "read", "words", "write")

    def __init__(
        self,
        kind: type,
        read: "Callable[[Any], Any]",
        write: "Callable[[Any, Any], Any]",
        words: "Tuple[str, ...]" = (),
    ) -> None:
        self.kind = kind
        self.read = read
        self.write = write
        self.words = words


def _attribute(path: str, kind: type) -> Flag:
    def read(torch: Any) -> Any:
        found = lookup(torch, path)
        # benchmark_limit is None in a build without cuDNN
        return Missing("torch.{} is None".format(path), exists=False) if found is None else found

    def write(torch: Any, value: Any) -> Any:
        # Setting an attribute that is not there would succeed on a plain module and do nothing.
        before = read(torch)
        if isinstance(before, Missing):
            return before
        owner, name = path.rsplit(".", 1)
        return attempt(lambda: setattr(lookup(torch, owner), name, value))

    return Flag(kind, read, write)


def _sdp(tells: str, sets: str) -> Flag:
    return Flag(
        bool,
        lambda torch: call(torch, "backends.cuda." + tells),
        lambda torch, value: call(torch, "backends.cuda." + sets, value),
    )


def _library(kind: str) -> Flag:
    return Flag(
        str,
        lambda torch: preferred_library(torch, kind),
        lambda torch, value: set_preferred_library(torch, kind, value),
    )


def _set_warn_only(torch: Any, value: Any) -> Any:
    now = call(torch, "are_deterministic_algorithms_enabled")
    if isinstance(now, Missing):
        return now
    return call(torch, "use_deterministic_algorithms", now, warn_only=value)


def _set_deterministic(torch: Any, value: Any) -> Any:
    # Two flags behind one call: setting one must not reset the other.
    warn_only = call(torch, "is_deterministic_algorithms_warn_only_enabled")
    if isinstance(warn_only, Missing):
        return call(torch, "use_deterministic_algorithms", value)
    return call(torch, "use_deterministic_algorithms", value, warn_only=warn_only)


def _all_flags() -> "dict[str, Flag]":
    flags = {name: _attribute(path, kind) for name, (path, kind) in _ATTRIBUTES.items()}
    flags.update({name: _sdp(tells, sets) for name, (tells, sets) in _SDP.items()})
    flags["preferred_blas_library"] = _library("blas")
    flags["preferred_linalg_library"] = _library("linalg")
    flags["deterministic_algorithms"] = Flag(
        bool,
        lambda torch: call(torch, "are_deterministic_algorithms_enabled"),
        _set_deterministic,
    )
    flags["deterministic_warn_only"] = Flag(
        bool,
        lambda torch: call(torch, "is_deterministic_algorithms_warn_only_enabled"),
        _set_warn_only,
    )
    flags["float32_matmul_precision"] = Flag(
        str,
        lambda torch: call(torch, "get_float32_matmul_precision"),
        lambda torch, value: call(torch, "set_float32_matmul_precision", value),
        # torch only warns of another word, and changes nothing.
        ("highest", "high", "medium"),
    )
    return flags


#: Every switch that is known here, by name.
FLAGS = _all_flags()


def read_flags(torch: Any) -> "dict[str, Any]":
    """Return the state of every switch; Missing for one that this torch does not have."""
    return {name: FLAGS[name].read(torch) for name in sorted(FLAGS)}


def set_flags(torch: Any, wanted: "dict[str, Any]") -> None:
    """Set switches and check that they took.

    Raises:
        FlagRefused: the first one that could not be set; what came before stays set, so nothing may
            be measured after this.

    """
    # Alphabetical, but the precision word first: it is the coarser switch over matmul.allow_tf32.
    for name in sorted(wanted, key=lambda name: (name != "float32_matmul_precision", name)):
        _set_one(torch, name, wanted[name])


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, FLAGS, n=1)
    if near:
        return "there is no switch {!r} (did you mean {}?)".format(name, near[0])
    return "there is no switch {!r}; there are: {}".format(name, ", ".join(sorted(FLAGS)))


def _set_one(torch: Any, name: str, value: Any) -> None:
    flag = FLAGS.get(name)
    if flag is None:
        raise FlagRefused(_unknown(name[:80]))
    if type(value) is not flag.kind or (flag.words and value not in flag.words):
        takes = ", ".join(flag.words) or _TYPE_NAMES[flag.kind]
        message = "{} takes {}, not {!r}".format(name, takes, value)
        raise FlagRefused(message[:200])
    done = flag.write(torch, value)
    if isinstance(done, Missing):
        message = "{} could not be set: {}".format(name, done.reason)
        raise FlagRefused(message)
    now = flag.read(torch)
    # "default" is not a library: torch may answer with the one that it stands for.
    if isinstance(now, Missing) or value not in (now, "default"):
        shown = now.reason if isinstance(now, Missing) else repr(now)
        message = "{} was set to {!r} but torch says {}".format(name, value, shown)
        raise FlagRefused(message[:400])

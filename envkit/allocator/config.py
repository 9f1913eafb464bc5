"""The allocator settings that a text gives under a release of torch, or what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from envkit.allocator.options import (
    OPTIONS,
    Option,
    Setting,
    SettingsSyntaxError,
    Takes,
    Version,
    read_settings,
)
from envkit.allocator.sizes import (
    DIRECT_LIMIT_BYTES,
    LARGE_SEGMENT_BYTES,
    MIB,
    ROUNDUP_SLOTS,
    UNLIMITED_BYTES,
    is_power_of_two,
    roundup_slot,
)
from envkit.errors import InputError

_INTEGER: Final = re.compile(r"\d{1,13}")
_DECIMAL: Final = re.compile(r"\d+\.?\d*(e-?\d+)?|\.\d+(e-?\d+)?", re.IGNORECASE)
_HOST_NAMES: Final = {
    "release_lock_on_hipmalloc": "release_lock_on_cudamalloc",
    "pinned_use_hip_host_register": "pinned_use_cuda_host_register",
}


class ConfigError(InputError):
    """A settings text that torch would refuse."""

    code = "ALLOCATOR_SETTINGS"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with a settings text."""

    option: str
    """Name of the option; empty where the text as a whole cannot be read."""
    kind: str
    """`unknown` to every release, `unavailable` in this one, `invalid` value, or `syntax`."""
    message: str


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that change what the native allocator does; defaults are torch's."""

    text: str = ""
    version: Version = (2, 11)
    max_split_size_bytes: int = UNLIMITED_BYTES
    max_non_split_rounding_bytes: int = LARGE_SEGMENT_BYTES
    garbage_collection_threshold: float = 0.0
    """0 is off."""
    roundup_divisions: tuple[int, ...] = (0,) * ROUNDUP_SLOTS
    """For sizes below 2 MiB, below 4 MiB, ... from 32 GiB on."""
    expandable_segments: bool = False
    large_segment_bytes: int = LARGE_SEGMENT_BYTES
    memory_fraction: float | None = None
    """None: `per_process_memory_fraction` is not given."""
    backend: str = "native"
    throw_on_oom: bool = False
    others: tuple[tuple[str, str], ...] = ()
    """Options without effect on the model, as written."""

    @classmethod
    def parse(cls, text: str | None, version: Version = (2, 11)) -> Config:
        """Read a settings text as a release of torch does.

        Stricter than torch in one respect: torch reads numbers up to the first odd character
        (`64x` is 64) and skips some punctuation unseen; here that is an error.

        Raises:
            ConfigError: an option this release does not know, a value it refuses, or no
                `name:value` list at all. The first problem is told; `problems` tells all.

        """
        found, wrong = _read(text or "", version)
        if wrong:
            raise ConfigError(
                wrong[0].message,
                next_step="Correct the allocator settings, or leave the option out.",
            )
        return cls(text=text or "", version=version, **found)

    def as_torch_reports(self) -> dict[str, object]:
        """Return `allocator_settings` of torch's memory snapshot (2.3 and later) for these.

        Only the keys whose value follows from the settings modelled here.
        """
        limit = self.max_split_size_bytes
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self.text,
            "max_split_size": -1 if limit == UNLIMITED_BYTES else limit,
            "garbage_collection_threshold": self.garbage_collection_threshold,
            "expandable_segments": self.expandable_segments,
            "roundup_power2_divisions": {
                str(1 << slot): parts for slot, parts in enumerate(self.roundup_divisions)
            },
        }


def problems(text: str, version: Version) -> tuple[Problem, ...]:
    """Return everything that is wrong with a settings text under a release of torch."""
    return _read(text, version)[1]


def _read(text: str, version: Version) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    try:
        settings = read_settings(text)
    except SettingsSyntaxError as error:
        return {}, (Problem(option="", kind="syntax", message=f"allocator settings: {error}"),)
    if version >= (2, 13):
        # Measured on 2.13.0: the bound of max_split_size_mb is the large segment size wherever
        # that stands. 2.11 (read from its source) goes from left to right.
        settings = tuple(sorted(settings, key=lambda one: one.name != "large_segment_size_mb"))
    found: dict[str, Any] = {}
    wrong = []
    for setting in settings:
        option = OPTIONS.get(setting.name)
        if option is None or not option.known_to(version):
            wrong.append(_unknown(setting.name, option, version))
            continue
        try:
            found.update(_READERS[option.takes](setting, found, version))
        except ValueError as error:
            wrong.append(Problem(option=setting.name, kind="invalid", message=str(error)))
    return found, tuple(wrong)


def _unknown(name: str, option: Option | None, version: Version) -> Problem:
    release = f"torch {version[0]}.{version[1]}"
    if option is None:
        message = f"no release of torch up to 2.15 knows the allocator option {name!r}"
        return Problem(option=name, kind="unknown", message=message)
    if option.until is None:
        when = "since {}.{}".format(*option.since)
    else:
        when = "from {}.{} to {}.{}".format(*option.since, *option.until)
    message = f"{release} does not know the allocator option {name!r}; it exists {when}"
    return Problem(option=name, kind="unavailable", message=message)


def _refuse(setting: Setting, detail: str = "") -> ValueError:
    given = "a list" if setting.entries is not None else repr(setting.word)
    takes = OPTIONS[setting.name].takes.value
    return ValueError(f"{setting.name} is {given} but must be {detail or takes}")


def _whole(setting: Setting) -> int:
    if setting.entries is not None or not _INTEGER.fullmatch(setting.word):
        raise _refuse(setting)
    return int(setting.word)


def _share(setting: Setting) -> float:
    if setting.entries is not None or not _DECIMAL.fullmatch(setting.word):
        raise _refuse(setting)
    return float(setting.word)


def _split_limit(setting: Setting, found: dict[str, Any], version: Version) -> dict[str, Any]:
    size = _whole(setting) * MIB
    least = LARGE_SEGMENT_BYTES
    if version >= (2, 11):
        least = found.get("large_segment_bytes", least)
    if size < least or (size == least and version < (2, 10)):
        bound = f"{'at least' if version >= (2, 10) else 'above'} {least // MIB}"
        raise _refuse(setting, f"a whole number of MiB, {bound}")
    return {setting.name.removesuffix("_mb") + "_bytes": size}


def _large_segment(setting: Setting, _: dict[str, Any], __: Version) -> dict[str, Any]:
    size = _whole(setting) * MIB
    if size <= DIRECT_LIMIT_BYTES:
        raise _refuse(setting)
    return {"large_segment_bytes": size}


def _threshold(setting: Setting, _: dict[str, Any], __: Version) -> dict[str, Any]:
    share = _share(setting)
    if not 0.0 < share < 1.0:
        raise _refuse(setting)
    return {setting.name: share}


def _fraction(setting: Setting, _: dict[str, Any], __: Version) -> dict[str, Any]:
    share = _share(setting)
    if share > 1.0:
        raise _refuse(setting)
    return {"memory_fraction": share}


def _flag(setting: Setting, found: dict[str, Any], _: Version) -> dict[str, Any]:
    if setting.word not in {"True", "False"}:
        raise _refuse(setting)
    if setting.name == "expandable_segments":
        return {"expandable_segments": setting.word == "True"}
    if setting.name == "throw_on_cudamalloc_oom":
        return {"throw_on_oom": setting.word == "True"}
    return _other(setting, found)


def _backend(setting: Setting, _: dict[str, Any], __: Version) -> dict[str, Any]:
    if setting.word not in {"native", "cudaMallocAsync"}:
        raise _refuse(setting)
    return {"backend": setting.word}


def _number(setting: Setting, found: dict[str, Any], _: Version) -> dict[str, Any]:
    _whole(setting)
    return _other(setting, found)


def _word(setting: Setting, found: dict[str, Any], _: Version) -> dict[str, Any]:
    if setting.entries is not None:
        raise _refuse(setting)
    return _other(setting, found)


def _anything(setting: Setting, found: dict[str, Any], _: Version) -> dict[str, Any]:
    return _other(setting, found)


def _other(setting: Setting, found: dict[str, Any]) -> dict[str, Any]:
    name = _HOST_NAMES.get(setting.name, setting.name)
    value = setting.word
    if setting.entries is not None:
        value = "[" + ",".join(f"{left}:{right}" for left, right in setting.entries) + "]"
    return {"others": (*found.get("others", ()), (name, value))}


def _divisions(setting: Setting, found: dict[str, Any], version: Version) -> dict[str, Any]:
    if setting.entries is None:
        parts = _whole(setting)
        if not is_power_of_two(parts):
            raise _refuse(setting)
        return {"roundup_divisions": (parts,) * ROUNDUP_SLOTS}
    slots = list(found.get("roundup_divisions", (0,) * ROUNDUP_SLOTS))
    last: int | None = None
    for left, right in setting.entries:
        parts = _entry_number(setting, right)
        if parts and not is_power_of_two(parts):
            raise _refuse(setting, f"built of powers of two or 0, not {right!r}")
        if left == ">":
            # Up to 2.9 the open end also replaced the entry before it.
            at = last or 0
            start = at + 1 if version >= (2, 10) else at
            slots[start:] = [parts] * (ROUNDUP_SLOTS - start)
            continue
        interval = _entry_number(setting, left)
        if not is_power_of_two(interval):
            raise _refuse(setting, f"built of intervals that are powers of two, not {left!r}")
        slot = roundup_slot(interval * MIB)
        first = 0 if last is None else slot
        slots[first : slot + 1] = [parts] * (slot + 1 - first)
        last = slot
    return {"roundup_divisions": tuple(slots)}


def _entry_number(setting: Setting, word: str) -> int:
    if not _INTEGER.fullmatch(word):
        raise _refuse(setting, f"built of numbers, not {word!r}")
    return int(word)


_Reader = Callable[[Setting, "dict[str, Any]", Version], "dict[str, Any]"]
_READERS: Final[dict[Takes, _Reader]] = {
    Takes.SPLIT_LIMIT: _split_limit,
    Takes.MEGABYTES: _number,
    Takes.LARGE_SEGMENT: _large_segment,
    Takes.NUMBER: _number,
    Takes.OPEN_SHARE: _threshold,
    Takes.SHARE: _fraction,
    Takes.FLAG: _flag,
    Takes.BACKEND: _backend,
    Takes.WORD: _word,
    Takes.ANYTHING: _anything,
    Takes.DIVISIONS: _divisions,
}

"""The options of PYTORCH_CUDA_ALLOC_CONF: which release of torch knows which, and their grammar.

Sources: the allocator sources and wheels of torch 1.12 to 2.15 as listed in
`docs/reference/allocator-model.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

Version = tuple[int, int]
#: The releases whose allocator is modelled.
FIRST_VERSION: Final = (2, 1)
LAST_VERSION: Final = (2, 14)

_PUNCTUATION: Final = ",:[]"


class Takes(Enum):
    """What may stand behind the colon."""

    SPLIT_LIMIT = "a whole number of MiB, not below the large segment size"
    MEGABYTES = "a whole number of MiB"
    LARGE_SEGMENT = "a whole number of MiB above 10"
    NUMBER = "a whole number"
    OPEN_SHARE = "a number above 0 and below 1"
    SHARE = "a number from 0 to 1"
    FLAG = "True or False, written so"
    BACKEND = "native or cudaMallocAsync"
    WORD = "a word"
    ANYTHING = "a word or a list"
    DIVISIONS = "a power of two, or a list such as [256:1,512:2,>:8]"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option and the releases that know it."""

    name: str
    takes: Takes
    since: Version
    until: Version | None = None
    """Last release that knows it; None: it is still known."""

    def known_to(self, version: Version) -> bool:
        """Tell whether a release accepts the option."""
        return self.since <= version and (self.until is None or version <= self.until)


def _option(
    name: str, takes: Takes, since: Version, until: Version | None = None
) -> tuple[str, Option]:
    return name, Option(name=name, takes=takes, since=since, until=until)


OPTIONS: Final[Mapping[str, Option]] = dict(
    (
        # In 1.12, the oldest release looked at, or before.
        _option("max_split_size_mb", Takes.SPLIT_LIMIT, (1, 12)),
        _option("roundup_power2_divisions", Takes.DIVISIONS, (1, 12)),
        _option("garbage_collection_threshold", Takes.OPEN_SHARE, (1, 12)),
        _option("roundup_bypass_threshold_mb", Takes.MEGABYTES, (1, 13), (2, 0)),
        _option("backend", Takes.BACKEND, (2, 0)),
        _option("expandable_segments", Takes.FLAG, (2, 1)),
        _option("release_lock_on_cudamalloc", Takes.FLAG, (2, 2)),
        _option("release_lock_on_hipmalloc", Takes.FLAG, (2, 2)),
        _option("pinned_use_cuda_host_register", Takes.FLAG, (2, 2)),
        _option("pinned_use_hip_host_register", Takes.FLAG, (2, 2)),
        _option("pinned_num_register_threads", Takes.NUMBER, (2, 2)),
        _option("max_non_split_rounding_mb", Takes.SPLIT_LIMIT, (2, 6)),
        _option("pinned_use_background_threads", Takes.FLAG, (2, 6)),
        _option("graph_capture_record_stream_reuse", Takes.FLAG, (2, 9)),
        _option("per_process_memory_fraction", Takes.SHARE, (2, 10)),
        _option("pinned_reserve_segment_size_mb", Takes.MEGABYTES, (2, 10)),
        _option("large_segment_size_mb", Takes.LARGE_SEGMENT, (2, 11)),
        _option("throw_on_cudamalloc_oom", Takes.FLAG, (2, 12)),
        _option("pinned_free_catch_all", Takes.FLAG, (2, 12)),
        _option("expandable_segments_handle_type", Takes.WORD, (2, 13)),
        _option("pinned_max_round_threshold_mb", Takes.MEGABYTES, (2, 13)),
        _option("pinned_max_cached_size_mb", Takes.MEGABYTES, (2, 13)),
        _option("expandable_segments_reserve", Takes.WORD, (2, 15)),
        _option("expandable_segments_reserve_by_class", Takes.ANYTHING, (2, 15)),
    )
)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One `name:value` of the text; a list value keeps its entries."""

    name: str
    word: str = ""
    entries: tuple[tuple[str, str], ...] | None = None
    """`[a:b,c:d]` as pairs; None where the value is a single word."""


class SettingsSyntaxError(ValueError):
    """The text is not a list of `name:value`."""

    def __init__(self, missing: str, *, found: str, text: str) -> None:
        where = f"found {found!r}" if found else "the text ends"
        super().__init__(f"{missing} is missing: {where} in {text!r}")


def _tokens(text: str) -> list[str]:
    for mark in _PUNCTUATION:
        text = text.replace(mark, f"\0{mark}\0")
    words = ("".join(piece.split()) for piece in text.split("\0"))
    return [word for word in words if word]


class _Reader:
    """Goes through the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    @property
    def upcoming(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def word(self, what: str) -> str:
        token = self.upcoming
        if not token or token in _PUNCTUATION:
            raise SettingsSyntaxError(what, found=token, text=self.text)
        self.at += 1
        return token

    def mark(self, mark: str, after: str) -> None:
        if self.upcoming != mark:
            missing = f"{mark!r} after {after!r}"
            raise SettingsSyntaxError(missing, found=self.upcoming, text=self.text)
        self.at += 1

    def setting(self) -> Setting:
        name = self.word("an option name")
        self.mark(":", name)
        if self.upcoming != "[":
            return Setting(name=name, word=self.word(f"the value of {name}"))
        self.at += 1
        entries = []
        while self.upcoming != "]":
            left = self.word(f"an entry of {name}")
            self.mark(":", left)
            entries.append((left, self.word(f"the value of {left}")))
            if self.upcoming != "]":
                self.mark(",", entries[-1][1])
        self.at += 1
        return Setting(name=name, entries=tuple(entries))

    def settings(self) -> tuple[Setting, ...]:
        found = []
        while self.upcoming:
            found.append(self.setting())
            if self.upcoming:
                self.mark(",", found[-1].name)
        return tuple(found)


def read_settings(text: str) -> tuple[Setting, ...]:
    """Split a settings text into its settings, in order; blanks do not count.

    A comma may stand at the end, as in torch.

    Raises:
        SettingsSyntaxError: it is not a list of `name:value`.

    """
    return _Reader(text).settings()


def unknown_options(text: str, version: Version) -> tuple[str, ...]:
    """Return the option names in `text` that a release of torch does not know, in order.

    Raises:
        SettingsSyntaxError: the text is not a list of `name:value`.

    """
    return tuple(
        setting.name
        for setting in read_settings(text)
        if setting.name not in OPTIONS or not OPTIONS[setting.name].known_to(version)
    )


def variable_in_effect(
    variables: Mapping[str, str], version: Version, *, rocm: bool = False
) -> str | None:
    """Return the name of the environment variable that torch reads its settings from.

    Up to 2.9 that is PYTORCH_CUDA_ALLOC_CONF alone (PYTORCH_HIP_ALLOC_CONF on ROCm was not looked
    at); since 2.10 the first one set wins whole. None: no such variable is set.
    """
    names = ["PYTORCH_CUDA_ALLOC_CONF"]
    if version >= (2, 10):
        names += [*(["PYTORCH_HIP_ALLOC_CONF"] if rocm else []), "PYTORCH_ALLOC_CONF"]
    return next((name for name in names if name in variables), None)

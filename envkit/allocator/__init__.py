"""The model of PyTorch's native CUDA caching allocator: same answers, same statistics, no GPU."""

from __future__ import annotations

from envkit.allocator.config import Config, ConfigError, Problem, problems
from envkit.allocator.messages import OutOfMemory
from envkit.allocator.model import CachingAllocator
from envkit.allocator.options import (
    OPTIONS,
    Option,
    SettingsSyntaxError,
    unknown_options,
    variable_in_effect,
)
from envkit.allocator.replay import Event, Replay, events_from_history, replay
from envkit.allocator.snapshot import BlockRow, Segment

#: Version of the model: a change of any answer it gives is a new one.
MODEL_VERSION = "1"

__all__ = [
    "MODEL_VERSION",
    "OPTIONS",
    "BlockRow",
    "CachingAllocator",
    "Config",
    "ConfigError",
    "Event",
    "Option",
    "OutOfMemory",
    "Problem",
    "Replay",
    "Segment",
    "SettingsSyntaxError",
    "events_from_history",
    "problems",
    "replay",
    "unknown_options",
    "variable_in_effect",
]

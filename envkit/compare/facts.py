"""What the facts of machines have in common: the software compared, the machine only shown.

Host, driver and GPU are shown and never make two machines different; versions, settings, flags
and variables are compared, wherever they were recorded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from envkit.compare.empty_variables import without_empty
from envkit.compare.layer import MACHINE, Collector, LayerResult, Lost
from envkit.compare.sides import Side
from envkit.model.documents import Comparable
from envkit.model.facts import Gpu
from envkit.model.fingerprint import Key
from envkit.model.observed import NOT_RECORDED, Known, Observed, Unreadable

#: Facts of the software, as `family.name`.
SOFTWARE: Final = (
    "torch.version",
    "torch.cuda",
    "torch.hip",
    "torch.accelerator",
    "torch.git_version",
    "torch.cudnn",
    "torch.cudnn_compiled",
    "torch.cublas",
    "torch.nccl",
    "torch.arch_list",
    "torch.allocator_backend",
    "torch.threads",
    "torch.numpy",
    "python.version",
    "python.implementation",
)
VARIABLES: Final = "environment.variables"
#: Facts that are tables, compared entry by entry.
TABLES: Final = ("torch.allocator_settings", "torch.flags", VARIABLES)
#: Facts that are shown only.
SHOWN: Final = (
    "driver.version",
    "driver.cuda_version",
    "driver.kernel_module",
    "host.os",
    "host.os_release",
    "host.kernel",
    "host.arch",
    "host.glibc",
    "host.container",
    "host.cpu_model",
    "host.cpu_count",
    "host.memory_bytes",
)
GPU_SHOWN: Final = ("name", "compute_capability", "memory_bytes", "mig", "compute_mode")
#: Variables that say where things lie or which devices are there, not what torch does with them.
PLACES: Final = frozenset(
    {
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONNOUSERSITE",
        "LD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "CUDA_MPS_PIPE_DIRECTORY",
    }
)
#: Part of a fingerprint's key -> the fact that says the same.
_KEY_FACTS: Final = {
    "torch": "torch.version",
    "cuda": "torch.cuda",
    "cudnn": "torch.cudnn",
    "cublas": "torch.cublas",
    "threads": "torch.threads",
    "settings": "torch.allocator_settings",
    "flags": "torch.flags",
}


def compare_software(sides: Sequence[Side]) -> LayerResult:
    """Compare versions, settings, flags and variables."""
    collector = Collector("software")
    recorded = [side for side in sides if side.facts is not None or side.fingerprint is not None]
    if len(recorded) < 2:  # noqa: PLR2004
        return collector.finish(Comparable(answer="no", why=_too_few(recorded)))
    for key, facts in _software(sides):
        _take(collector, key, facts)
    _take_keys(collector, sides)
    result = collector.finish(Comparable(answer="yes", why="versions, settings and variables"))
    if result.compared == 0:
        why = "the inputs record nothing that they share"
        return msgspec.structs.replace(result, comparable=Comparable(answer="no", why=why))
    if result.cannot_compare or len(recorded) < len(sides):
        why = f"over the {result.compared} values that were recorded on two sides or more"
        return msgspec.structs.replace(result, comparable=Comparable(answer="partly", why=why))
    return result


def show_machine(sides: Sequence[Side]) -> LayerResult:
    """Put host, driver and GPUs side by side."""
    collector = Collector(MACHINE)
    for path in SHOWN:
        _take(collector, path, [_fact(side, path) for side in sides], shown_only=True)
    for key, facts in _gpus(sides):
        _take(collector, key, facts, shown_only=True)
    for name in sorted(PLACES):
        tables = [_fact(side, VARIABLES) for side in sides]
        entries = [_entry(table, name) for table in tables]
        _take(collector, f"{VARIABLES}.{name}", entries, shown_only=True)
    for part in ("capability", "sm_count"):
        keys = [_key_value(side, part) for side in sides]
        _take(collector, f"key.{part}", keys, shown_only=True)
    devices = [
        NOT_RECORDED if side.fingerprint is None else _known(side.fingerprint.device)
        for side in sides
    ]
    _take(collector, "fingerprint.device", devices, shown_only=True)
    collector.drop_repeated()
    return collector.finish(Comparable(answer="no", why="shown, never compared"))


def software_value(side: Side, path: str) -> Observed[Any]:
    """Return a fact of the software: from the fingerprint's key where the facts do not say it.

    Of a table, `torch.flags.cudnn.enabled` is one entry.
    """
    for table in TABLES:
        if path.startswith(f"{table}."):
            return _entry(_keyed(side, table), path[len(table) + 1 :])
    return _keyed(side, path)


def variables(side: Side) -> Mapping[str, str] | None:
    """Return the variables that an input records; None where it says nothing about them."""
    fact = _fact(side, VARIABLES)
    return fact.value if isinstance(fact, Known) else None


def _software(sides: Sequence[Side]) -> Iterator[tuple[str, list[Observed[Any]]]]:
    for path in SOFTWARE:
        yield path, [_keyed(side, path) for side in sides]
    for table in TABLES:
        tables = [_keyed(side, table) for side in sides]
        names = {name for one in tables if isinstance(one, Known) for name in one.value}
        if not names:
            yield table, tables
        for name in sorted(names - PLACES):
            yield f"{table}.{name}", [_entry(one, name) for one in tables]


def _take_keys(collector: Collector, sides: Sequence[Side]) -> None:
    """Compare the parts of the key that the facts do not say, or say otherwise."""
    keys = [None if side.fingerprint is None else side.fingerprint.key for side in sides]
    for part in Key.__struct_fields__:
        if part in {"capability", "sm_count"}:
            continue
        values = [_key_value(side, part) for side in sides]
        facts = [_fact(side, _KEY_FACTS.get(part, "")) for side in sides]
        told = [f.value if isinstance(f, Known) else None for f in facts]
        stated = [None if key is None else getattr(key, part) for key in keys]
        if part in _KEY_FACTS and (told == stated or not any(told)):
            continue
        _take(collector, f"key.{part}", values)


def _keyed(side: Side, path: str) -> Observed[Any]:
    fact = _fact(side, path)
    if isinstance(fact, Known) or side.fingerprint is None:
        return fact
    part = next((part for part, name in _KEY_FACTS.items() if name == path), None)
    if part is None:
        return fact
    value = getattr(side.fingerprint.key, part)
    return fact if value is None else _known(value)


def _fact(side: Side, path: str) -> Observed[Any]:
    family, _, name = path.partition(".")
    if side.facts is None or not name:
        return NOT_RECORDED
    found: Observed[Any] = getattr(getattr(side.facts, family), name)
    if path == VARIABLES and isinstance(found, Known):
        return Known(value=without_empty(found.value), source=found.source)
    return found


def _entry(table: Observed[Any], name: str) -> Observed[Any]:
    """Return an entry of a table; one that is not in it is known to be not set."""
    if isinstance(table, Known):
        return _known(table.value.get(name))
    return table


def _key_value(side: Side, part: str) -> Observed[Any]:
    if side.fingerprint is None:
        return NOT_RECORDED
    return _known(getattr(side.fingerprint.key, part))


def _known(value: Any) -> Known[Any]:
    return Known(value=value, source="")


def _gpus(sides: Sequence[Side]) -> Iterator[tuple[str, list[Observed[Any]]]]:
    lists = [_fact(side, "gpus.devices") for side in sides]
    yield "gpus.count", [_mapped(one, len) for one in lists]
    most = max((len(one.value) for one in lists if isinstance(one, Known)), default=0)
    for index in range(most):
        for name in GPU_SHOWN:
            yield f"gpus[{index}].{name}", [_gpu_fact(one, index, name) for one in lists]


def _gpu_fact(gpus: Observed[Any], index: int, name: str) -> Observed[Any]:
    if not isinstance(gpus, Known):
        return gpus
    cards: tuple[Gpu, ...] = gpus.value
    if index >= len(cards):
        return _known(None)
    found: Observed[Any] = getattr(cards[index], name)
    return found


def _mapped(fact: Observed[Any], function: Callable[[Any], Any]) -> Observed[Any]:
    return _known(function(fact.value)) if isinstance(fact, Known) else fact


def _take(
    collector: Collector, key: str, facts: Sequence[Observed[Any]], *, shown_only: bool = False
) -> None:
    """Compare one fact; what no input recorded is not worth a line."""
    if all(fact == NOT_RECORDED for fact in facts):
        return
    values = [_value(fact) for fact in facts]
    if shown_only:
        values = [None if isinstance(value, Lost) else value for value in values]
        readable = [value for value in values if value is not None]
        if len(readable) > 1 and any(value != readable[0] for value in readable[1:]):
            collector.differ(key, values, kind="expected", within_tolerance=True)
        return
    collector.take(key, values, same=operator.eq)


def _value(fact: Observed[Any]) -> Any:
    if isinstance(fact, Unreadable):
        # Lawful: what one fact of the software is does not make the layer as a whole unchecked.
        return Lost(reason=fact.reason, lawful=True)
    return msgspec.to_builtins(fact.value) if isinstance(fact, Known) else None


def _too_few(recorded: Sequence[Side]) -> str:
    return "only one input describes a machine" if recorded else "no input describes a machine"

"""Which layers must agree, and the verdict that follows: same, different, or incomplete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from envkit.compare.comparability import Ground
from envkit.compare.facts import TABLES
from envkit.compare.fingerprints import OWN_STEP
from envkit.compare.layer import ORDER, LayerResult
from envkit.errors import UsageError
from envkit.model.documents import Cause
from envkit.model.fingerprint import LAYERS
from envkit.model.package_change import count_changes

#: Across GPU models only what torch itself asks for must agree.
ACROSS_MODELS: Final = ("allocator", "tensors")
#: Differences of the software that the first sentence names.
MOST_NAMED: Final = 3
_LONGEST_NAME: Final = 60
#: What stands before the name of a flag, a setting or a variable.
_TABLE: Final = re.compile(rf"^(?:{'|'.join(map(re.escape, TABLES))})\.")
_ALIASES: Final = {"lock": "packages"}


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The layers that must agree."""

    required: tuple[str, ...]
    named: bool
    """Whether the user named them: then what the hardware explains counts too."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the required layers ended."""

    differing: tuple[str, ...]
    unchecked: tuple[str, ...]
    gate: Gate

    @property
    def status(self) -> Literal["same", "different", "incomplete"]:
        """`same`, `different` or `incomplete`."""
        if self.differing:
            return "different"
        return "incomplete" if self.unchecked or not self.gate.required else "same"

    @property
    def exit_code(self) -> int:
        """0, 1 or 3."""
        return {"same": 0, "different": 1, "incomplete": 3}[self.status]


def read_layers(text: str) -> tuple[str, ...]:
    """Read `--require`: layers with commas between, `all` for every layer of a fingerprint.

    Raises:
        UsageError: there is no such layer.

    """
    names = [_ALIASES.get(name.strip(), name.strip()) for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return tuple(LAYERS)
    unknown = [name for name in names if name not in ORDER]
    if unknown or not names:
        message = f"--require: there is no layer {(unknown or [text])[0][:40]!r}."
        raise UsageError(message, next_step=f"Layers are {', '.join(ORDER)}, or all.")
    return tuple(layer for layer in ORDER if layer in names)


def choose_gate(
    ground: Ground, results: Mapping[str, LayerResult], required: Sequence[str] | None
) -> Gate:
    """Choose the layers that must agree, where the user named none.

    Measured on the same model: every layer, and the packages where both list them. On different
    models: allocator and tensors. Without two fingerprints: whatever the inputs have in common.
    """
    if required is not None:
        return Gate(required=tuple(required), named=True)
    if sum(one is not None for one in ground.fingerprints) < 2:  # noqa: PLR2004
        common = [name for name in ("packages", "software") if results[name].compared]
        return Gate(required=tuple(common), named=False)
    if not ground.same_device:
        return Gate(required=ACROSS_MODELS, named=False)
    packages = ["packages"] if results["packages"].compared else []
    return Gate(required=(*packages, *LAYERS), named=False)


def judge(gate: Gate, results: Mapping[str, LayerResult]) -> Outcome:
    """Hold the layers against the gate."""
    differing = [name for name in gate.required if _differs(results[name], named=gate.named)]
    unchecked = [
        name
        for name in gate.required
        if results[name].agreement == "not_comparable" or results[name].lost
    ]
    return Outcome(differing=tuple(differing), unchecked=tuple(unchecked), gate=gate)


def _differs(result: LayerResult, *, named: bool) -> bool:
    """Whether a layer fails: what hardware or driver explain fails only where it was asked for."""
    if result.agreement != "different":
        return False
    return named or any(one.kind == "unexpected" for one in result.differences)


def headline(
    outcome: Outcome, results: Mapping[str, LayerResult], causes: Sequence[Cause], extra: str
) -> str:
    """Return the answer in one sentence: what agrees, what does not, and why."""
    same = [name for name in ORDER if results[name].agreement == "same"]
    moved = [name for name in ORDER if results[name].agreement == "different"]
    said = [f"same {_listed(same)}"] if same else []
    if not moved and not same:
        said = ["nothing could be compared"]
    if moved:
        said.append(f"different {_listed([_counted(results[name]) for name in moved])}")
    if causes:
        named = [f"{cause.code}, {_lower(cause.title)}" for cause in causes]
        said.append(f"because of {', and '.join(named)}")
    if extra:
        said.append(extra)
    said += what_was_left_out(results)
    if outcome.status == "incomplete" and outcome.unchecked:
        said.append(f"{_listed(outcome.unchecked)} could not be compared as required")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def what_was_left_out(results: Mapping[str, LayerResult]) -> list[str]:
    """Say over how much of each layer the inputs are the same, where that is not all of it.

    The user's own step is named by itself: whoever measured it asked about it.
    """
    parts = []
    for name in ORDER:
        suite = _of_suite(results[name].probes)
        compared = len(suite) - len(_of_suite(results[name].left_out))
        if results[name].agreement == "same" and compared < len(suite):
            parts.append(f"{compared} of {len(suite)} {name}")
    said = [f"over {_listed(parts)} probes"] if parts else []
    return said + _step_left_out(results)


def _step_left_out(results: Mapping[str, LayerResult]) -> list[str]:
    """Say that the user's step was not compared, or in which layers it was not."""
    having = [name for name in ORDER if _of_step(results[name].probes)]
    lacking = [name for name in having if _of_step(results[name].left_out)]
    if not lacking:
        return []
    if all(_of_step(results[name].probes) == _of_step(results[name].left_out) for name in having):
        return ["your step was not compared"]
    return [f"your step was not compared in {_listed(lacking)}"]


def _of_step(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(OWN_STEP)]


def _of_suite(names: Sequence[str]) -> list[str]:
    return [name for name in names if not name.startswith(OWN_STEP)]


def _counted(result: LayerResult) -> str:
    number = len(result.differences)
    changes = count_changes(result.differences)
    if changes:
        return f"{result.layer} ({changes})"
    if result.layer == "software":
        return f"{result.layer} ({_few(result)})"
    expected = all(one.kind == "expected" for one in result.differences)
    return f"{result.layer} ({number}{', as expected' if expected else ''})"


def _few(result: LayerResult) -> str:
    """Name the settings and versions that differ, or count them where they are many."""
    names = dict.fromkeys(_TABLE.sub("", one.key)[:_LONGEST_NAME] for one in result.differences)
    return _listed(list(names)) if len(names) <= MOST_NAMED else str(len(result.differences))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)


def _lower(title: str) -> str:
    return title if title[:2].isupper() or title.startswith("cu") else title[0].lower() + title[1:]

"""`verify --from`: something recorded, recognised by its content, judged as a machine is.

A report is judged again from its facts, with the request that was made then; it gives the verdict
that it gave when it was made, unless the rules have changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from envkit.errors import InputError
from envkit.model import codec
from envkit.model.documents import Machine
from envkit.model.facts import Facts
from envkit.model.observed import NOT_RECORDED
from envkit.model.report import Report, Target
from envkit.sources.collect_env import read_collect_env
from envkit.sources.collect_env_text import MAX_PASTE_CHARS, is_collect_env
from envkit.sources.machine_profile import facts_of
from envkit.workflows.baselines import find_yardsticks, hold_against
from envkit.workflows.conclude import conclude, now
from envkit.workflows.fingerprint import must_hold
from envkit.workflows.input_bytes import origin_of, read_input, read_text
from envkit.workflows.request import VerifyRequest

MAX_PROFILE_BYTES: Final = 1 << 20
#: Entries of one list or object of the facts.
MAX_ITEMS: Final = 10_000
MAX_GPUS: Final = 1024

_NEXT_STEP: Final = (
    "--from takes a report (envkit verify -o FILE), the output of `python -m "
    "torch.utils.collect_env`, or a machine profile (envkit.machine/1)."
)


def judge_file(name: str, request: VerifyRequest, *, clock: Callable[[], str] = now) -> Report:
    """Judge a file, or standard input for `-`.

    Raises:
        InputError: it cannot be read, or is nothing that can be judged.

    """
    origin = origin_of(name)
    text = read_text(read_input(name, _NEXT_STEP), origin, _NEXT_STEP)
    if not text.lstrip().startswith("{"):
        return judge_recorded(_paste(text, origin), request, origin=origin, created=clock())
    plain = text.encode()
    document = codec.read_json(plain, origin=origin)
    schema = _schema(document, origin)
    if schema == "envkit.report/1":
        _check_lengths(document.get("facts"), origin)
        return judge_report(codec.convert(document, Report, origin=origin), request)
    if schema == "envkit.machine/1":
        if len(plain) > MAX_PROFILE_BYTES:
            raise _not_ours(origin, f"a machine profile has at most {MAX_PROFILE_BYTES} bytes")
        _check_lengths(document, origin)
        facts = facts_of(codec.convert(document, Machine, origin=origin))
        return judge_recorded(facts, request, origin=origin, created=clock())
    raise _not_ours(origin, f"it is a document of the kind {schema[:80]!r}")


def _check_lengths(value: Any, origin: str) -> None:
    """Refuse lists that no machine has: the rules look at every entry, some at every pair."""
    level = [value] if isinstance(value, (dict, list)) else []
    while level:
        inner: list[Any] = []
        for one in level:
            limit = MAX_GPUS if isinstance(one, list) and _lists_gpus(one) else MAX_ITEMS
            if len(one) > limit:
                raise _not_ours(origin, f"it has a list of {len(one)} entries, {limit} at most")
            inner.extend(one.values() if isinstance(one, dict) else one)
        level = [one for one in inner if isinstance(one, (dict, list))]


def _lists_gpus(items: list[Any]) -> bool:
    first = items[0] if items else None
    return isinstance(first, dict) and bool(first.keys() & {"compute_capability", "memory_bytes"})


def _paste(text: str, origin: str) -> Facts:
    if len(text) > MAX_PASTE_CHARS:
        raise _not_ours(origin, f"it is no JSON, and longer than a paste ({MAX_PASTE_CHARS})")
    if not is_collect_env(text):
        raise _not_ours(origin, "it is neither JSON nor the output of torch.utils.collect_env")
    return read_collect_env(text)


def judge_report(old: Report, request: VerifyRequest) -> Report:
    """Judge a saved report again from its facts.

    Raises:
        InputError: a digest in it is not that of its values: somebody changed one of the two.

    """
    if old.fingerprint is not None:
        must_hold(old.fingerprint)
    recorded, facts = old.facts.request, old.facts
    if request.against is not None:
        yardsticks = find_yardsticks(request.against)
        facts = hold_against(yardsticks, facts, old.fingerprint, whole=True)
    if request.fail_on.source == "--fail-on":
        recorded = msgspec.structs.replace(recorded, fail_on=request.fail_on)
    return conclude(
        msgspec.structs.replace(facts, request=recorded),
        target=old.target,
        created=old.created,
        label=request.label or old.label,
        fingerprint=old.fingerprint,
    )


def judge_recorded(facts: Facts, request: VerifyRequest, *, origin: str, created: str) -> Report:
    """Judge the facts of a machine that is not a report of ours."""
    asked = request.facts(NOT_RECORDED)
    asked = msgspec.structs.replace(asked, device=NOT_RECORDED, needs_gpu=NOT_RECORDED)
    if request.against is not None:
        facts = hold_against(find_yardsticks(request.against), facts, None, whole=False)
    target = Target(kind="recorded", prefix=None, python=None, chosen_by=f"--from {origin}")
    return conclude(
        msgspec.structs.replace(facts, request=asked),
        target=target,
        created=created,
        label=request.label,
        fingerprint=None,
    )


def _schema(value: Any, origin: str) -> str:
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, str):
        raise _not_ours(origin, "it is JSON without a schema that envkit knows")
    return schema


def _not_ours(origin: str, reason: str) -> InputError:
    message = f"{origin} cannot be judged: {reason}."
    return InputError(message, next_step=_NEXT_STEP)

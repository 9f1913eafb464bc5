"""What a user asks of `verify`, put together from flags and configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from envkit.errors import UsageError
from envkit.model.facts import FailOnName, Rank, RequestFacts, Scalar, Waiver
from envkit.model.observed import NOT_RECORDED, Known, NotApplicable, Observed
from envkit.probes.events import OwnStep
from envkit.workflows.asked import Asked
from envkit.workflows.config import (
    Configuration,
    check_device,
    check_timeout,
    current_folder,
)

DEFAULT_TIMEOUT_S: Final = 300.0
_CHALLENGE: Final = re.compile(r"(?:[0-9a-fA-F]{2}){4,64}")
_FLAG_NAME: Final = re.compile(r"[a-zA-Z_][\w.]{0,80}")
#: Names of Python, at most 100 characters in all: it becomes a part of the probes' names.
_TARGET: Final = re.compile(r"(?=.{3,100}$)[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LONGEST_LABEL: Final = 100


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be judged, and how."""

    device: Known[str] = Known(value="auto", source="default")
    suite: Known[str] = Known(value="auto", source="default")
    """`quick`, `standard`, `auto` (standard with a GPU, quick without) or `none`."""
    flags: dict[str, Scalar] = {}
    """Switches of torch to set before anything is measured."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    challenge: str | None = None
    call: OwnStep | None = None
    """The user's own step, measured like a workload."""
    label: str | None = None
    against: str | None = None
    """A measured report to be held against: a path, or the name of a baseline."""
    fail_on: Known[FailOnName] = Known(value="error", source="default")
    waivers: tuple[Waiver, ...] = ()
    waivers_source: str = "no configuration"
    rank: Rank | None = None
    """Where this process is one of a job's."""
    contract: Asked = Asked()
    """Spec and lock that the environment is judged by."""

    def facts(self, suite: Observed[str]) -> RequestFacts:
        """Return the request as facts, with the suite that was run."""
        on_gpu = self.device.value.startswith(("cuda", "all"))
        return RequestFacts(
            device=self.device,
            suite=suite,
            rank=NOT_RECORDED if self.rank is None else Known(value=self.rank, source="variables"),
            needs_gpu=Known(value=on_gpu, source=self.device.source if on_gpu else "no spec"),
            fail_on=self.fail_on,
            waivers=Known(value=self.waivers, source=self.waivers_source),
        )


NO_FINGERPRINT: Final = NotApplicable(reason="no fingerprint was asked for")


def request_from(options: Mapping[str, Any], configuration: Configuration) -> VerifyRequest:
    """Check the flags of a command line and fill in the configuration.

    Raises:
        UsageError: a flag has a value that means nothing.

    """
    if options["no_fingerprint"] and options["suite"]:
        message = "--suite chooses probes and --no-fingerprint runs none."
        raise UsageError(message, next_step="Leave one of the two out.")
    _check("--device", check_device, options["device"])
    _check("--timeout", check_timeout, options["timeout"])
    suite = "none" if options["no_fingerprint"] else options["suite"]
    label = configuration.pick(options["label"], "label", "").value
    return VerifyRequest(
        device=configuration.pick(options["device"], "device", "auto"),
        suite=configuration.pick(suite, "suite", "auto"),
        flags=read_flags(options["flags"]),
        timeout_s=configuration.pick(options["timeout"], "timeout", DEFAULT_TIMEOUT_S).value,
        challenge=read_challenge(options["challenge"]),
        call=_call(options["call"], without_probes=suite == "none"),
        label=_label(label) if label else None,
        against=options["against"],
        fail_on=configuration.pick(options["fail_on"], "fail_on", "error"),
        waivers=configuration.waivers(),
        waivers_source=configuration.path.name if configuration.path else "no configuration",
        contract=Asked(
            spec=options["spec"],
            lock=options["lock"],
            strict=bool(options["strict"]),
            deep=bool(options["deep"]),
        ),
    )


def read_flags(texts: Sequence[str]) -> dict[str, Scalar]:
    """Read `--set FLAG=VALUE`: true, false, a number, else a text."""
    flags: dict[str, Scalar] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _FLAG_NAME.fullmatch(name) or not value:
            message = f"--set {text}: it is not FLAG=VALUE."
            raise UsageError(message, next_step="As in --set cudnn.benchmark=true.")
        if name in flags:
            message = f"--set names {name} twice."
            raise UsageError(message, next_step="Leave one of the two out.")
        flags[name] = _scalar(value)
    return flags


def _scalar(text: str) -> Scalar:
    words: dict[str, Scalar] = {"true": True, "false": False, "on": True, "off": False}
    if text.lower() in words:
        return words[text.lower()]
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?\d{1,18}\.\d{1,18}", text):
        return float(text)
    return text


def _check(flag: str, check: Callable[[Any], Any], value: Any) -> None:
    if value is None:
        return
    try:
        check(value)
    except ValueError as error:
        message = f"{flag}: {error}."
        raise UsageError(message, next_step="`envkit verify --help` says what it takes.") from error


def read_challenge(text: str | None) -> str | None:
    """Check a challenge; digits are compared in small letters.

    Raises:
        UsageError: it is none.

    """
    if text is None or _CHALLENGE.fullmatch(text):
        return None if text is None else text.lower()
    message = "--challenge is not 8 to 128 hexadecimal digits, two for each byte."
    raise UsageError(message, next_step="Pass on exactly the number that you were given.")


def _call(target: str | None, *, without_probes: bool) -> OwnStep | None:
    if target is None:
        return None
    if without_probes:
        message = "--call measures a step and --no-fingerprint measures nothing."
        raise UsageError(message, next_step="Leave one of the two out.")
    return own_step(target)


def own_step(target: str) -> OwnStep:
    """Return the function that `--call` names, to be found from the current folder.

    Raises:
        UsageError: it is no name of a function.

    """
    module, _, name = target.partition(":")
    if module.endswith(".py"):
        meant = module[: -len(".py")].removeprefix("./").replace("/", ".")
        message = f"--call {target}: a module is named without .py and with dots between folders."
        raise UsageError(message, next_step=f"Did you mean --call {meant}:{name or 'FUNCTION'}?")
    if not _TARGET.fullmatch(target):
        message = f"--call {target}: it is not MODULE:FUNCTION."
        raise UsageError(message, next_step="As in --call train:step, for def step() in train.py.")
    return OwnStep(target=target, folder=str(current_folder()))


def _label(text: str) -> str:
    if len(text) <= _LONGEST_LABEL and text.strip() and text.isprintable():
        return text
    message = f"The label is not a name of 1 to {_LONGEST_LABEL} printable characters."
    raise UsageError(message, next_step="Choose a short name for this machine, such as lab-1.")

"""Every check of a spec, run in the order of the codes."""

from __future__ import annotations

from typing import Final

from envkit.model.documents import LintFinding
from envkit.model.environment_spec import EnvironmentSpec
from envkit.specs.lint import company, cuda, keys, pins, sources, torch_channel
from envkit.specs.lint.rule import Check, finding
from envkit.specs.lint.subject import Subject, Surroundings

CHECKS: Final[dict[str, Check]] = {
    "SPC001": pins.python_not_pinned,
    "SPC002": pins.torch_not_pinned,
    "SPC003": cuda.no_cuda_selected,
    "SPC004": torch_channel.channel_without_it,
    "SPC005": torch_channel.mixed_channels,
    "SPC006": cuda.toolkit_ignored,
    "SPC007": company.two_torches,
    "SPC008": sources.defaults_channel,
    "SPC009": pins.exported,
    "SPC010": keys.unknown_key,
    "SPC011": pins.python_past_its_end,
    "SPC012": company.numpy_not_capped,
    "SPC013": company.mkl_not_capped,
    "SPC014": cuda.old_cuda,
    "SPC015": sources.channel_address,
    "SPC016": sources.pip_from_elsewhere,
    "SPC017": keys.version_not_bumped,
}


def lint(spec: EnvironmentSpec, surroundings: Surroundings) -> tuple[LintFinding, ...]:
    """Return every fault of a spec, by line and then by code."""
    subject = Subject(spec, surroundings)
    found = [
        finding(code, fault, spec.origin)
        for code, check in CHECKS.items()
        for fault in check(subject)
    ]
    return tuple(sorted(found, key=lambda one: (one.line, one.code)))

"""Outcomes as SARIF 2.1.0 (OASIS standard, errata 01), which code hosts and editors read."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

from envkit import __version__
from envkit.render.escape import printable, printable_json
from envkit.render.outcome import Outcome, Remark

SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
#: What SARIF's readers replace by the root of the checkout.
_ROOT: Final = "%SRCROOT%"


def render_sarif(outcome: Outcome) -> str:
    """Write one run: a result a remark; what could not be checked as notifications."""
    rules = {remark.code: remark for remark in reversed(outcome.remarks)}
    codes = sorted(rules)
    run = {
        "tool": {
            "driver": {
                "name": "envkit",
                "semanticVersion": __version__,
                "rules": [_rule(rules[code]) for code in codes],
            }
        },
        "automationDetails": {"id": f"envkit/{outcome.command}/"},
        "invocations": [_invocation(outcome)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, codes.index(one.code)) for one in outcome.remarks],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    spread = msgspec.json.format(msgspec.json.encode(log), indent=2)
    return printable_json(spread.decode()) + "\n"


def _rule(remark: Remark) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": remark.code}
    if remark.url:
        rule["helpUri"] = remark.url
    return rule


def _invocation(outcome: Outcome) -> dict[str, Any]:
    return {
        "executionSuccessful": True,
        "exitCode": outcome.exit_code,
        "exitCodeDescription": printable(outcome.headline),
        "toolExecutionNotifications": [
            {"level": "warning", "message": {"text": f"could not be checked: {printable(said)}"}}
            for said in outcome.untold
        ],
    }


def _result(remark: Remark, rule: int) -> dict[str, Any]:
    lines = (remark.title, *remark.lines)
    result: dict[str, Any] = {
        "ruleId": remark.code,
        "ruleIndex": rule,
        "level": remark.level,
        "message": {"text": "\n".join(printable(line) for line in lines)},
    }
    if remark.place is not None:
        place = {
            "artifactLocation": {"uri": quote(remark.place.file), "uriBaseId": _ROOT},
            "region": {"startLine": remark.place.line or 1},
        }
        result["locations"] = [{"physicalLocation": place}]
    return result

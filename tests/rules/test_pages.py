from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from envkit.errors import UsageError
from envkit.model.rule_entry import RuleEntry
from envkit.rules.explain import PAGES, explain, page
from envkit.rules.registry import BY_CODE, ENTRIES, RULES, listing

ROOT = Path(__file__).parent.parent.parent
#: The codes that are promised: issue trackers, waivers and other tools name them.
PROMISED = {
    "DRV": range(1, 11),
    "GPU": range(1, 12),
    "TOR": range(1, 14),
    "LIB": range(1, 10),
    "ALC": range(1, 6),
    "CON": range(1, 14),
    "SPC": range(1, 18),
}


def test_every_promised_code_is_registered_once() -> None:
    promised = [f"{family}{number:03}" for family, one in PROMISED.items() for number in one]
    assert [one.code for one in listing()] == promised
    assert len(RULES) == len(BY_CODE)


@pytest.mark.parametrize("rule", listing(), ids=lambda rule: rule.code)
def test_every_rule_has_a_page_that_is_complete(rule: RuleEntry) -> None:
    text = page(rule)
    assert text.startswith(f"# {rule.code}: {rule.title}\n")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["What it checks", "Why it matters", "How to mend it", "Sources"]
    sources = text.rpartition("## Sources")[2]
    assert "<https://" in sources or "Table: " in sources


def test_there_is_no_page_without_a_rule() -> None:
    assert {path.stem for path in PAGES.glob("*")} == set(ENTRIES)


def test_codes_named_on_a_page_exist() -> None:
    for rule in listing():
        named = set(re.findall(r"\b(?:DRV|GPU|TOR|LIB|ALC|CON|SPC)\d{3}\b", page(rule)))
        assert named <= set(ENTRIES), rule.code


def test_a_code_is_found_however_it_is_written() -> None:
    assert explain(" drv002 ") == page(BY_CODE["DRV002"])


def test_an_unknown_code_is_an_error_with_the_nearest_ones() -> None:
    with pytest.raises(UsageError, match="DRV002") as error:
        explain("DRV02")
    assert "envkit rules" in error.value.next_step


def test_the_reference_is_in_step_with_the_rules() -> None:
    tool = ROOT / "tools" / "generate_rules_doc.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""`explain`: the page of a code, be it a rule's or a cause's."""

from __future__ import annotations

from envkit.compare.explain import cause_page
from envkit.rules.explain import explain as rule_page


def explain(code: str) -> str:
    """Return the page of a code as Markdown.

    Raises:
        UsageError: there is no such code; the message has the nearest ones.

    """
    return cause_page(code) or rule_page(code)

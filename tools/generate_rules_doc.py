"""Write docs/rules.md from the rules and their pages.

Run from a checkout: `python tools/generate_rules_doc.py`. With `--check` it only says whether the
file is in step.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from envkit.model.rule_entry import RuleEntry  # noqa: E402
from envkit.rules.explain import page  # noqa: E402
from envkit.rules.registry import listing  # noqa: E402
from envkit.rules.rule import FAMILIES  # noqa: E402

TARGET = ROOT / "docs" / "rules.md"
_HEAD = """\
# Rules

[Documentation](index.md) / [Reference](index.md#reference)

Written by `tools/generate_rules_doc.py` from the rules themselves: change those, not this file.
`envkit rules` lists them, `envkit explain CODE` shows one page. Tables named here are
`envkit/compat/data/*.yaml`; every row there has its source and the day it was read.
"""


def document() -> str:
    """Return the whole page."""
    rules = listing()
    parts = [_HEAD, _table(rules)]
    parts += [_deeper(page(rule)) for rule in rules]
    return "\n".join(parts)


def _table(rules: tuple[RuleEntry, ...]) -> str:
    lines = ["| code | family | severity | what |", "| --- | --- | --- | --- |"]
    lines += [
        f"| [{rule.code}](#{rule.code.lower()}) | {FAMILIES[rule.family]} "
        f"| {rule.severity.value} | {rule.title} |"
        for rule in rules
    ]
    return "\n".join(lines) + "\n"


def _deeper(text: str) -> str:
    """Put a page one level deeper, with an anchor that does not depend on its title."""
    heading, _, rest = text.partition("\n")
    code = heading.removeprefix("# ").partition(":")[0]
    anchor = f'<a id="{code.lower()}"></a>\n\n#{heading}'
    return f"{anchor}\n{rest}".replace("\n## ", "\n### ")


def main() -> int:
    """Write the file, or compare it."""
    wanted = document()
    if "--check" in sys.argv[1:]:
        in_step = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == wanted
        print("docs/rules.md is in step" if in_step else "docs/rules.md is not in step")
        return 0 if in_step else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(wanted, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What the package defines is used by the package, not by tests alone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import envkit

PACKAGE = Path(envkit.__file__).parent
#: Called by Python or by scripts of this checkout.
FROM_OUTSIDE = {"__getattr__", "check_files", "read_machine_profile"}
#: How the names of what pytest calls begin.
HOOK = "pytest_"


def test_every_function_is_named_a_second_time() -> None:
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    words = Counter(word for source in sources for word in re.findall(r"\w+", source))
    defined = {
        node.name
        for source in sources
        for node in ast.parse(source).body
        # A decorator can make something known: a command, a hook.
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list
    }
    hooks = {name for name in defined if name.startswith(HOOK)}
    assert {name for name in defined - hooks if words[name] == 1} == FROM_OUTSIDE

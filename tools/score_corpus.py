"""Score envkit against the labelled corpus beside the checkout: `python tools/score_corpus.py env`.

The corpus (`../shared/corpus`) is private; without it this says so and ends with 2. Each kind is
one function that turns a file into a result line for the corpus's own `score.py`.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from envkit.model.finding import Severity  # noqa: E402
from envkit.workflows.lint import lint_specs  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
#: The labels were written for this day: ends of life are judged by it.
LABELLED = dt.date(2026, 11, 30)

Results = Iterator[dict[str, Any]]


def score_env(corpus: Path) -> Results:
    """Lint every environment file."""
    for path in sorted((corpus / "env").glob("*.yml")):
        found = lint_specs([str(path)], today=LABELLED).findings
        yield {
            "id": path.stem,
            "codes": sorted({finding.code for finding in found}),
            "error": any(finding.severity is Severity.ERROR for finding in found),
        }


KINDS: dict[str, Callable[[Path], Results]] = {"env": score_env}


def main(arguments: list[str]) -> int:
    """Print the score of each kind named, or of all."""
    if not CORPUS.is_dir():
        print("../shared/corpus is not here")
        return 2
    unknown = [one for one in arguments if one not in KINDS]
    if unknown:
        print(f"no such kind: {', '.join(unknown)}; there is {', '.join(KINDS)}")
        return 2
    for kind in arguments or list(KINDS):
        _print_score(kind)
    return 0


def _print_score(kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        lines = [json.dumps(one) for one in KINDS[kind](CORPUS)]
        results.write_text("\n".join(lines) + "\n", encoding="utf-8")
        labels = CORPUS / "labels" / f"{kind}.jsonl"
        command = [sys.executable, str(CORPUS / "score.py"), kind, str(labels), str(results)]
        subprocess.run(command, check=True)  # noqa: S603 (our own interpreter and a fixed script)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

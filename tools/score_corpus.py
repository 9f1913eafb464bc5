"""Judge the private corpus beside the checkout and hold the answers against its labels.

    python tools/score_corpus.py [FOLDER]      default: ../shared/corpus

Prints for machine profiles, collect_env pastes, environment.yml files and the described cases that
such a machine or file can show (`corpus_cases.py`) how many agree with their
label, and every disagreement with its reason. The corpus is other people's text: it is read, never
copied. A label wants codes (`must`, `A|B`: either), forbids others (`must_not`) and may say whether
the verdict is an error (null: both are right).
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import corpus_cases
import msgspec

from envkit.model.finding import Finding
from envkit.rules.engine import judge
from envkit.sources.collect_env import read_collect_env
from envkit.sources.collect_env_text import is_collect_env
from envkit.sources.machine_profile import read_machine_profile
from envkit.workflows.lint import lint_specs

DEFAULT = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"
#: The day the labels were written for: ends of life are judged by it.
LABELLED = dt.date(2026, 11, 30)


class Score(msgspec.Struct, kw_only=True):
    """How one part of the corpus went."""

    name: str
    total: int = 0
    alarms: int = 0
    """Codes reported that the label forbids, and errors where it wants none."""
    disagreements: list[str] = msgspec.field(default_factory=list)
    elsewhere: list[str] = msgspec.field(default_factory=list)
    """What is not counted, and why."""

    @property
    def agreed(self) -> int:
        """Entries whose label is met in full."""
        return self.total - len(self.disagreements)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    for line in path.read_text("utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def machines(corpus: Path) -> Score:
    """Judge the machine profiles."""
    score = Score(name="machine profiles")
    for row in rows(corpus / "machines.jsonl"):
        content = json.dumps(row["profile"]).encode()
        hold(row, judge(read_machine_profile(content, origin=row["id"])).findings, score)
    return score


def pastes(corpus: Path) -> Score:
    """Judge the collect_env pastes."""
    score = Score(name="collect_env pastes")
    for row in rows(corpus / "labels" / "collect_env.jsonl"):
        path = corpus / "collect_env" / f"{row['id']}.txt"
        text = path.read_text("utf-8", errors="replace")
        if is_collect_env(text):
            hold(row, judge(read_collect_env(text)).findings, score)
        else:
            score.total += 1
            score.disagreements.append(f"{row['id']}: not recognised")
    return score


def specs(corpus: Path) -> Score:
    """Lint the environment.yml files; their labels say nothing about the exit code."""
    score = Score(name="environment files")
    for row in rows(corpus / "labels" / "env.jsonl"):
        path = corpus / "env" / f"{row['id']}.yml"
        hold(row, lint_specs([str(path)], today=LABELLED).findings, score)
    return score


def cases(corpus: Path) -> Score:
    """Judge the described cases that a machine or an environment file shows.

    `error` of a case that is linted is about what a solver or a user gets, not about the file.
    """
    labels = {row["id"]: row for row in rows(corpus / "labels" / "cases.jsonl")}
    score = Score(name="described cases")
    for case, facts in corpus_cases.machines().items():
        hold(_as_label(labels.pop(case)), judge(facts).findings, score)
    with tempfile.TemporaryDirectory() as folder:
        for case, text in corpus_cases.SPECS.items():
            path = Path(folder, f"{case}.yml")
            path.write_text(text, encoding="utf-8")
            hold(
                _as_label(labels.pop(case)), lint_specs([str(path)], today=LABELLED).findings, score
            )
    left = sorted(labels)
    score.elsewhere = [
        f"{len(corpus_cases.MEMORY & {*left})} are out-of-memory messages, for `envkit oom`",
        *(
            f"{case}: {corpus_cases.NOT_HERE[case]}"
            for case in left
            if case not in corpus_cases.MEMORY
        ),
    ]
    return score


def _as_label(row: dict[str, Any]) -> dict[str, Any]:
    """Return the label of a case in the terms of the others: any one of its codes is enough."""
    return {**row, "must": ["|".join(row["codes"])] if row["codes"] else []}


def hold(label: dict[str, Any], findings: Iterable[Finding], score: Score) -> None:
    """Hold findings against a label."""
    found = tuple(findings)
    codes = {finding.code for finding in found}
    error = any(finding.severity.value == "error" for finding in found)
    wrong = [f"misses {must}" for must in label["must"] if not codes & set(must.split("|"))]
    alarms = [f"false alarm {code}" for code in label["must_not"] if code in codes]
    if label.get("error") is not None and error != label["error"]:
        (alarms if error else wrong).append(f"error is {error}, the label says {label['error']}")
    score.total += 1
    score.alarms += len(alarms)
    if wrong or alarms:
        score.disagreements.append(f"{label['id']}: {'; '.join(wrong + alarms)}")


def main() -> int:
    """Print the scores; 1 if the folder is not there."""
    corpus = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    if not corpus.is_dir():
        print(f"{corpus} is not there: name the folder of the corpus", file=sys.stderr)
        return 1
    for score in (machines(corpus), pastes(corpus), specs(corpus), cases(corpus)):
        print(f"{score.name}: {score.agreed} of {score.total}, {score.alarms} false alarms")
        for line in score.disagreements:
            print(f"  {line}")
        for line in score.elsewhere:
            print(f"  not counted: {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

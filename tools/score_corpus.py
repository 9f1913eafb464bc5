"""Judge the private corpus beside the checkout and hold the answers against its labels.

    python tools/score_corpus.py [FOLDER]      default: ../shared/corpus

Prints for machine profiles and for collect_env pastes how many agree with their label, and every
disagreement with its reason. The corpus is other people's text: it is read, never copied. A label
wants codes (`must`, `A|B`: either), forbids others (`must_not`) and says whether the verdict is an
error (null: both are right).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from envkit.model.facts import Facts
from envkit.rules.engine import judge
from envkit.sources.collect_env import read_collect_env
from envkit.sources.collect_env_text import is_collect_env
from envkit.sources.machine_profile import read_machine_profile

DEFAULT = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"


class Score(msgspec.Struct, kw_only=True):
    """How one part of the corpus went."""

    name: str
    total: int = 0
    alarms: int = 0
    """Codes reported that the label forbids, and errors where it wants none."""
    disagreements: list[str] = msgspec.field(default_factory=list)

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
        hold(row, read_machine_profile(content, origin=row["id"]), score)
    return score


def pastes(corpus: Path) -> Score:
    """Judge the collect_env pastes."""
    score = Score(name="collect_env pastes")
    for row in rows(corpus / "labels" / "collect_env.jsonl"):
        path = corpus / "collect_env" / f"{row['id']}.txt"
        text = path.read_text("utf-8", errors="replace")
        if is_collect_env(text):
            hold(row, read_collect_env(text), score)
        else:
            score.total += 1
            score.disagreements.append(f"{row['id']}: not recognised")
    return score


def hold(label: dict[str, Any], facts: Facts, score: Score) -> None:
    """Hold the judgement of facts against a label."""
    findings = judge(facts).findings
    codes = {finding.code for finding in findings}
    error = any(finding.severity.value == "error" for finding in findings)
    wrong = [f"misses {must}" for must in label["must"] if not codes & set(must.split("|"))]
    alarms = [f"false alarm {code}" for code in label["must_not"] if code in codes]
    if label["error"] is not None and error != label["error"]:
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
    for score in (machines(corpus), pastes(corpus)):
        print(f"{score.name}: {score.agreed} of {score.total}, {score.alarms} false alarms")
        for line in score.disagreements:
            print(f"  {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

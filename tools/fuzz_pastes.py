"""Damage collect_env pastes in many ways, judge what is left, and count what must not happen.

    python tools/fuzz_pastes.py [FOLDER ...] [--count 200000] [--seed 1]

FOLDER: folders of `*.txt` (default: ../shared/corpus/collect_env and tests/data/pastes). Every
damaged paste is read, judged, given its verdict and, one in fifty, drawn. What must not happen:

- a crash: an error other than the refusal of the whole text;
- a hang: more than two seconds for one paste;
- another value: damage that leaves every line whole (`layout`) may lose a fact by its place, but
  never give one another value;
- a pass that the undamaged text did not have: after damage that leaves every word whole
  (`layout`) or only takes text away (`loss`) a check that failed passes, although every list
  (GPUs, packages, variables) kept its rows. A list that lost rows is that of another machine, a
  number that was cut short is another number (`value`): nobody can see that from the text, so
  those are only counted, as are verdicts that became a pass because the failing fact is gone.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import msgspec

from envkit.model.facts import Facts
from envkit.model.finding import Status
from envkit.model.observed import Absent, Known
from envkit.render.style import Style
from envkit.render.text import render_text
from envkit.sources.collect_env import read_collect_env
from envkit.sources.collect_env_text import is_collect_env
from envkit.workflows.judge_file import judge_recorded
from envkit.workflows.request import VerifyRequest

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = (ROOT.parent / "shared" / "corpus" / "collect_env", ROOT / "tests/data/pastes")
LIMIT_S: Final = 2.0
#: Every so many pastes the report is drawn too.
DRAWN: Final = 50
_PLAIN: Final = Style(color=False, unicode=True, verbosity=1)

Mutation = Callable[[str, random.Random], str]

_NOISE: Final = (
    "\x1b[31m", "\x1b[0m", "\x1b[1;32;40m", "\x1b]8;;http://x.example\x07", "\x07", "\x0b", "\x7f",
    "\u200b", "\ufeff", "\u202e", "\u2066", "\x9b", "\x1b",
)  # fmt: skip
_FOREIGN: Final = (
    "/usr/lib/python3/site.py:1: UserWarning: something (Triggered internally at x.cpp:1.)",
    "$ python collect_env.py", "<details>", "```", "WARNING 11-30 12:00:00 some.py:1] no", "---",
    "Traceback (most recent call last):", "Error: nothing", "100%|#####| 1/1", "\x1b[2K\x1b[1G",
)  # fmt: skip
_WORDS: Final = {
    "False": "Falsch",
    "True": "Vrai",
    "N/A": "\u65e0",
    "None": "Keine",
    "No CUDA": "Kein CUDA",
    "Could not collect": "Kein Wert",
    "PyTorch version": "PyTorch-Version",
    "Is CUDA available": "CUDA ist verfügbar",
    "Nvidia driver version": "Version du pilote Nvidia",
    "GPU": "\u663e\u5361",
    ".": ",",
}


def _lines(change: Callable[[list[str], random.Random], list[str]]) -> Mutation:
    def mutate(text: str, pick: random.Random) -> str:
        return "\n".join(change(text.split("\n"), pick))

    return mutate


def _quote(lines: list[str], pick: random.Random) -> list[str]:
    mark = pick.choice(["> ", ">> ", "    ", "\t", "| "])
    return [mark + line for line in lines]


def _insert_foreign(lines: list[str], pick: random.Random) -> list[str]:
    for _ in range(pick.randint(1, 8)):
        lines.insert(pick.randint(0, len(lines)), pick.choice(_FOREIGN))
    return lines


def _repeat(lines: list[str], pick: random.Random) -> list[str]:
    at = pick.randrange(len(lines))
    return [*lines[: at + 1], *([lines[at]] * pick.randint(1, 30)), *lines[at + 1 :]]


def _invisible(text: str, pick: random.Random) -> str:
    # From the end on, so that no mark falls into another one.
    for at in sorted(pick.choices(range(len(text) + 1), k=pick.randint(1, 12)), reverse=True):
        text = text[:at] + pick.choice(_NOISE) + text[at:]
    return text


#: Leaves every line and word whole.
LAYOUT: Final[dict[str, Mutation]] = {
    "quote": _lines(_quote),
    "foreign lines": _lines(_insert_foreign),
    "repeat a line": _lines(_repeat),
    "twice": lambda text, _: f"{text}\n{text}",
    "line ends": lambda text, pick: text.replace("\n", pick.choice(["\r\n", "\r", "\u2028"])),
    "blank lines": lambda text, _: text.replace("\n", "\n\n"),
    "trailing blanks": lambda text, pick: text.replace("\n", " " * pick.randint(1, 80) + "\n"),
    "odd blanks": lambda text, _: text.replace(" ", "\u00a0"),
    "invisible": _invisible,
    "wide colons": lambda text, _: text.replace(": ", "\uff1a "),
}


def _cut(text: str, pick: random.Random) -> str:
    ends = sorted(pick.choices(range(len(text) + 1), k=2))
    return pick.choice([text[: ends[0]], text[ends[1] :], text[ends[0] : ends[1]]])


def _cut_lines(lines: list[str], pick: random.Random) -> list[str]:
    ends = sorted(pick.choices(range(len(lines) + 1), k=2))
    return pick.choice([lines[: ends[0]], lines[ends[1] :], lines[: ends[0]] + lines[ends[1] :]])


def _drop(lines: list[str], pick: random.Random) -> list[str]:
    share = pick.random()
    return [line for line in lines if pick.random() > share]


def _swap(lines: list[str], pick: random.Random) -> list[str]:
    for _ in range(pick.randint(1, 12)):
        one, other = pick.randrange(len(lines)), pick.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
    return lines


def _shuffle(lines: list[str], pick: random.Random) -> list[str]:
    pick.shuffle(lines)
    return lines


def _wrap(lines: list[str], pick: random.Random) -> list[str]:
    width = pick.randint(8, 100)
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


def _margin(lines: list[str], pick: random.Random) -> list[str]:
    width = pick.randint(8, 100)
    return [line[:width] for line in lines]


def _localise(text: str, pick: random.Random) -> str:
    for word in pick.sample(sorted(_WORDS), k=pick.randint(1, 4)):
        text = text.replace(word, _WORDS[word])
    return text


#: Takes text away, or moves it to where it may not be found.
LOSS: Final[dict[str, Mutation]] = {
    "cut": _cut,
    "cut lines": _lines(_cut_lines),
    "drop lines": _lines(_drop),
    "swap lines": _lines(_swap),
    "shuffle": _lines(_shuffle),
    "wrap": _lines(_wrap),
    "right margin": _lines(_margin),
    "flat": lambda text, _: " ".join(text.split()),
    "localise": _localise,
    "no blanks": lambda text, _: text.replace(" ", ""),
}


def _digits(text: str, pick: random.Random) -> str:
    rate = pick.choice([0.002, 0.02, 0.3])
    return "".join(
        pick.choice("0123456789") if c.isdigit() and pick.random() < rate else c for c in text
    )


def _characters(text: str, pick: random.Random) -> str:
    for _ in range(pick.randint(1, 40)):
        at = pick.randint(0, len(text))
        new = pick.choice(
            ["", " ", "\n", ":", "=", "==", "[", "9" * 400, "é", "\U0001d7d9", "٣", "\x00", "%s"]
        )
        text = text[:at] + new + text[at + pick.randint(0, 3) :]
    return text


def _grow(text: str, pick: random.Random) -> str:
    line = pick.choice(text.split("\n")) + "\n"
    return text + line * pick.randint(10, 400)


#: Makes other values: another machine, so that only crashes and hangs count.
VALUE: Final[dict[str, Mutation]] = {
    "digits": _digits,
    "characters": _characters,
    "grow": _grow,
    "upper case": lambda text, _: text.upper(),
}

KINDS: Final = {"layout": LAYOUT, "loss": LOSS, "value": VALUE}


class Judged(NamedTuple):
    """What came of one text."""

    facts: Facts
    status: str
    checks: dict[str, Status]


def judged(text: str, *, draw: bool = False) -> Judged | None:
    """Judge a text as `verify --from` does; None where it is refused as no such paste."""
    if not is_collect_env(text):
        return None
    facts = read_collect_env(text)
    report = judge_recorded(facts, VerifyRequest(), origin="paste", created="2026-11-30T00:00:00Z")
    if draw:
        render_text(report, _PLAIN)
        msgspec.json.encode(report)
    checks = {one.code: one.status for one in report.checks}
    return Judged(facts, report.verdict.status, checks)


def values(facts: Facts) -> Iterator[tuple[str, Any]]:
    """Return every known or absent fact that is one value."""
    for family in facts.__struct_fields__:
        for name in (part := getattr(facts, family)).__struct_fields__:
            fact = getattr(part, name)
            if isinstance(fact, Known) and not isinstance(fact.value, (tuple, dict)):
                yield f"{family}.{name}", fact.value
            elif isinstance(fact, Absent):
                yield f"{family}.{name}", None


def rows(facts: Facts) -> dict[str, frozenset[str]]:
    """Return the rows of every list of facts, by the list."""
    found: dict[str, frozenset[str]] = {}
    for path, fact in (
        ("gpus.devices", facts.gpus.devices),
        ("pip.distributions", facts.pip.distributions),
        ("conda.packages", facts.conda.packages),
        ("environment.variables", facts.environment.variables),
    ):
        value: Any = fact.value if isinstance(fact, Known) else ()
        members = value.items() if isinstance(value, dict) else value
        found[path] = frozenset(repr(member) for member in members)
    return found


def compare(whole: Judged, left: Judged, kind: str) -> str:
    """Name what happened that must not, or what is only worth counting; empty for neither."""
    before, after = dict(values(whole.facts)), dict(values(left.facts))
    other = sorted(path for path, value in after.items() if before.get(path, value) != value)
    gained = sorted(
        code
        for code, status in left.checks.items()
        if status is Status.PASS and whole.checks[code] is Status.FAIL
    )
    if kind == "layout" and other:
        return f"VIOLATION another value: {', '.join(other)}"
    if other:
        return "a value cut short or taken from another line"
    kept = all(rows(left.facts)[path] >= old for path, old in rows(whole.facts).items())
    if gained and kept:
        return f"VIOLATION a pass gained: {', '.join(gained)}"
    if gained:
        return "a list lost rows, and a check passes that failed on them"
    if left.status == "pass" and whole.status != "pass":
        return "the failing fact is gone: pass on what is left"
    return ""


class Hang(Exception):  # noqa: N818  (named for what happened)
    """A paste took longer than it may."""


def _too_long(_: int, __: FrameType | None) -> None:
    raise Hang


def run(texts: list[tuple[str, str]], count: int, seed: int, *, limit_s: float) -> Counter[str]:
    """Damage and judge `count` pastes; return how often what happened."""
    pick, seen = random.Random(seed), Counter[str]()  # noqa: S311  (repeatable, not secret)
    whole = {name: judged(text) for name, text in texts}
    signal.signal(signal.SIGALRM, _too_long)
    for number in range(count):
        name, text = pick.choice(texts)
        kind = pick.choice(sorted(KINDS))
        how = pick.choice(sorted(KINDS[kind]))
        damaged = KINDS[kind][how](text, pick)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            left = judged(damaged, draw=number % DRAWN == 0)
        except Hang:
            seen[f"VIOLATION hang: {kind}, {how}, {name}"] += 1
            continue
        except Exception as error:  # noqa: BLE001  (a crash is what is looked for)
            seen[f"VIOLATION crash: {kind}, {how}, {name}: {type(error).__name__}: {error}"] += 1
            continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        base = whole[name]
        if left is None or base is None:
            seen["refused: no such paste any more"] += 1
        elif kind == "value":
            seen["value: judged"] += 1
        else:
            seen[_entry(compare(base, left, kind), kind, how, name)] += 1
    return seen


def _entry(what: str, kind: str, how: str, name: str) -> str:
    if what.startswith("VIOLATION"):
        return f"{what} ({kind}, {how}, {name})"
    return f"{kind}: {what or 'nothing gained'}"


def read_texts(folders: list[Path]) -> list[tuple[str, str]]:
    """Read every paste of some folders that are there."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.txt"))]
    return [(path.stem, path.read_text("utf-8", errors="replace")) for path in paths]


def main() -> int:
    """Run and print the counts; 1 if anything happened that must not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folders", nargs="*", type=Path, default=list(FOLDERS))
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts = read_texts(options.folders)
    if not texts:
        print("No pastes: name a folder of *.txt files.", file=sys.stderr)
        return 2
    started = time.monotonic()
    seen = run(texts, options.count, options.seed, limit_s=LIMIT_S)
    took = time.monotonic() - started
    print(
        f"{options.count} damaged pastes of {len(texts)} texts, seed {options.seed}, {took:.0f} s"
    )
    for what, times in sorted(seen.items()):
        print(f"{times:>8}  {what}")
    return 1 if any(what.startswith("VIOLATION") for what in seen) else 0


if __name__ == "__main__":
    raise SystemExit(main())

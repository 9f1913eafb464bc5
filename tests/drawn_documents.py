"""Documents besides reports that every renderer must be able to draw, hostile ones among them.

`reports.REPORTS` are the six reports; these are what `lint`, `lock` and `diff` found.
"""

from __future__ import annotations

from envkit.model.documents import (
    Cause,
    Comparable,
    Diff,
    Difference,
    DiffInput,
    DiffVerdict,
    Lint,
    LintFinding,
    Lock,
    LockedSpec,
    ReasonPlace,
    UnreadFile,
)
from envkit.model.finding import Evidence, Fix, Severity

#: What a renderer of any format could take for its own: tables, commands, markup, controls.
HOSTILE = (
    "a|b `c` ``d`` ::error file=x::y %0A &lt;&amp; <script> ]]> \x00\x07\x1b[2J\u202e @everyone #1 "
    "$x$ **bold** \ud800 \ufffe\nsecond line\r\nthird"
)


def lint_finding(code: str, severity: Severity, line: int, file: str = "envs/a.yml") -> LintFinding:
    return LintFinding(
        code=code,
        severity=severity,
        title="What is wrong, in a few words",
        evidence=(Evidence(what="torch", seen=HOSTILE, source=f"{file}:{line}"),),
        fix=Fix(text="Pin it: `- pytorch=2.11`", command="envkit lint vit | cat"),
        url="https://example.org/a?b=c&d",
        file=file,
        line=line,
    )


LINT = Lint(
    findings=(
        lint_finding("SPC008", Severity.WARNING, 12),
        lint_finding("SPC004", Severity.ERROR, 3),
        lint_finding("SPC014", Severity.INFO, 7, "a b/c%d.yml"),
    ),
    unread=(UnreadFile(file="bad.yml", message="It is not YAML.", next_step="Correct line 2."),),
)
LINTED = ("envs/a.yml", "a b/c%d.yml", "clean.yml", "bad.yml")

LOCK = Lock(
    locks=(
        LockedSpec(spec="vit.yml", file="vit.conda-lock.yml", packages=190, status="fresh"),
        LockedSpec(
            spec="environment.yml",
            file="conda-lock.yml",
            packages=190,
            status="stale",
            reasons=("the spec has changed since it was locked", HOSTILE),
            places=(
                ReasonPlace(file="environment.yml", line=1),
                ReasonPlace(file="conda-lock.yml", line=88),
            ),
        ),
        LockedSpec(
            spec="cnn",
            file="cnn.conda-lock.yml",
            packages=0,
            status="unsolvable",
            reasons=("nothing provides torch 9",),
            spec_file="envs/cnn.yml",
        ),
    )
)

DIFF = Diff(
    inputs=(
        DiffInput(label="old", kind="conda-lock", path="HEAD:x.conda-lock.yml"),
        DiffInput(label=HOSTILE, kind="conda-lock", path="x.conda-lock.yml"),
    ),
    comparable={
        "packages": Comparable(answer="yes", why="complete lists of the same kind"),
        "software": Comparable(answer="no", why="only one input says anything of it"),
        "numerics": Comparable(answer="partly", why=HOSTILE),
    },
    agreement={"packages": "different", "software": "not_comparable", "numerics": "same"},
    differences=(
        Difference(
            layer="packages",
            key="linux-64/numpy",
            values=({"version": "2.3.4"}, {"version": "2.4.0"}),
            kind="unexpected",
        ),
        Difference(layer="packages", key=HOSTILE, values=(None, HOSTILE), kind="unexpected"),
        Difference(layer="machine", key="driver", values=("1", "2"), kind="expected"),
    ),
    cannot_compare=(),
    causes=(
        Cause(
            code="CAU015",
            title="Another set of packages",
            evidence=(Evidence(what="cause", seen=HOSTILE, source="packages"),),
            confirmed=None,
        ),
    ),
    groups=(),
    verdict=DiffVerdict(status="different", exit_code=1, headline=HOSTILE),
)

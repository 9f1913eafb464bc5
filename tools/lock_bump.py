"""The step of `action.yml`: what a changed lock brings, as a step summary and a comment.

Run in a checkout by the Python that has envkit; `ENVKIT_BUMP_*` variables are the action's inputs.
Ends with 0 unless `fail-on` is met (1) or an input is wrong (2); what cannot be compared is said
in the summary.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: What GitHub takes as a comment, less what the heading and the note need.
MOST_CHARACTERS = 60_000
TIMEOUT_S = 300
#: A sign by which the comment of an earlier push is known.
MARKER = "<!-- envkit lock bump -->"
_NO_COMMIT = "0" * 40
_FAIL_ON = ("never", "fingerprint")


class InputError(Exception):
    """An input of the action that cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the workflow asks for."""

    base: str
    locks: tuple[str, ...]
    team: str
    report: str
    comment: bool
    fail_on: str
    pull_request: str
    repository: str
    summary: Path | None
    output: Path | None
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Section:
    """One comparison: its Markdown, and the exit code of `envkit diff`."""

    text: str
    code: int


def main(environ: Mapping[str, str]) -> int:
    """Compare, write, and return the exit code."""
    try:
        inputs = read_inputs(environ)
        base = commit_of(inputs.base)
        locks = inputs.locks or changed_files(base, "*conda-lock.yml", "*conda-lock.yaml")
        reports = changed_files(base, f"{inputs.team}/*.json") if inputs.team else ()
    except InputError as error:
        print(f"::error title=envkit lock bump::{escaped(str(error))}")
        return 2
    sections = [*of_files(base, locks), *of_files(base, reports)]
    measured = list(of_report(inputs))
    sections += [*measured, *of_team(inputs, locks)]
    text = written(sections, [*locks, *reports])
    publish(text, inputs, len(locks) + len(reports))
    differs = any(section.code not in {0, 3} for section in measured)
    return int(inputs.fail_on == "fingerprint" and differs)


def read_inputs(environ: Mapping[str, str]) -> Inputs:
    """Read the variables; what would be an option of git or of envkit is refused."""

    def given(name: str) -> str:
        text = environ.get(f"ENVKIT_BUMP_{name}", "").strip()
        if text.startswith("-") or "\0" in text:
            message = f"{name.lower()}: {text!r} is no name"
            raise InputError(message)
        return text

    fail_on = given("FAIL_ON") or "never"
    if fail_on not in _FAIL_ON:
        message = f"fail-on is one of {', '.join(_FAIL_ON)}, and not {fail_on!r}"
        raise InputError(message)
    locks = tuple(line.strip() for line in given("LOCKS").splitlines() if line.strip())
    if any(name.startswith("-") for name in locks):
        message = "locks: a name begins with a dash"
        raise InputError(message)
    return Inputs(
        base=given("BASE") or base_of(environ),
        locks=locks,
        team=given("TEAM").rstrip("/"),
        report=given("REPORT"),
        comment=given("COMMENT") == "true",
        fail_on=fail_on,
        pull_request=given("PULL_REQUEST"),
        repository=environ.get("GITHUB_REPOSITORY", ""),
        summary=_path(environ, "GITHUB_STEP_SUMMARY"),
        output=_path(environ, "GITHUB_OUTPUT"),
        folder=Path(environ.get("RUNNER_TEMP", ".")),
    )


def base_of(environ: Mapping[str, str]) -> str:
    """Return what a run is compared with: the target of a pull request, or the push before."""
    if environ.get("GITHUB_BASE_REF"):
        return f"origin/{environ['GITHUB_BASE_REF']}"
    before = environ.get("ENVKIT_BUMP_BEFORE", "")
    return "HEAD~1" if before in {"", _NO_COMMIT} else before


def commit_of(revision: str) -> str:
    """Return the commit of a revision, which cannot be taken for anything else any more."""
    code, said = run(
        "git", "rev-parse", "--verify", "--short=12", "--end-of-options", f"{revision}^0"
    )
    if code:
        message = (
            f"there is no revision {revision!r} in this checkout; actions/checkout gets all of "
            "them with `fetch-depth: 0`"
        )
        raise InputError(message)
    return said.strip()


def changed_files(base: str, *patterns: str) -> tuple[str, ...]:
    """Return the files of patterns that are not as they were at a commit, and are still there.

    No links: what one leads to may be any file of the runner, and the comment is public.
    """
    paths = [f":(glob){'**/' if '/' not in one else ''}{one}" for one in patterns]
    code, said = run("git", "diff", "--name-only", "-z", "--diff-filter=AMR", base, "--", *paths)
    if code:
        message = f"git cannot compare with {base}: {said.strip()[:300]}"
        raise InputError(message)
    return tuple(name for name in said.split("\0") if name and not Path(name).is_symlink())


def of_files(base: str, names: tuple[str, ...]) -> Iterator[Section]:
    """Compare each file with what it was; one that is new has nothing to be compared with."""
    for name in names:
        # `./`: a name that begins with a dash is no option, and one with a colon no revision.
        if run("git", "cat-file", "-e", f"{base}:{name}")[0]:
            yield Section(text=f"### {plain(name)} is new", code=0)
            continue
        yield diff(f"{base}:./{name}", f"./{name}", title=name)


def of_report(inputs: Inputs) -> Iterator[Section]:
    """Compare the report of this run with each machine of the team."""
    if not inputs.report:
        return
    for path in team_reports(inputs):
        yield diff(str(path), inputs.report, title=f"this run against {path.stem}")


def of_team(inputs: Inputs, locks: tuple[str, ...]) -> Iterator[Section]:
    """Hold the machines of the team against each other, and against each changed lock."""
    reports = team_reports(inputs)
    if len(reports) > 1:
        yield diff(*map(str, reports), title="the machines of the team")
    for name in locks:
        for path in reports:
            yield diff(str(path), f"./{name}", title=f"{path.stem} against {name}")


def team_reports(inputs: Inputs) -> list[Path]:
    """Return the reports of the team's folder."""
    found = Path(inputs.team).glob("*.json") if inputs.team else ()
    return sorted(path for path in found if not path.is_symlink())


def diff(*names: str, title: str) -> Section:
    """Compare with `envkit diff`; what cannot be compared is said as it says it."""
    command = (sys.executable, "-m", "envkit", "diff", "--format", "markdown", "--", *names)
    code, said = run(*command)
    text = said if code in {0, 1, 3} else f"### {plain(title)}\n\n{fenced(said)}\n"
    named = one_line(title).encode("ascii", "replace").decode().replace("-", "_")
    heading = f"<!-- {named} -->"
    return Section(text=f"{heading}\n{text}", code=code)


def run(*argv: str) -> tuple[int, str]:
    """Run a program; return its exit code, and what it printed or complained of."""
    # As bytes: a name in git need not be text.
    environ = {**os.environ, "PYTHONIOENCODING": "utf-8", "GIT_LITERAL_PATHSPECS": "0"}
    try:
        done = subprocess.run(  # noqa: S603 (a list of arguments, no shell)
            argv, capture_output=True, check=False, timeout=TIMEOUT_S, env=environ
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return 2, f"{argv[0]}: {error}"
    return done.returncode, (done.stdout or done.stderr).decode("utf-8", "replace")


def written(sections: list[Section], changed: list[str]) -> str:
    """Put the sections together, and leave out what does not fit into a comment."""
    listed = ", ".join(plain(name) for name in changed) or "no lock and no report"
    text = f"{MARKER}\n## envkit: changed {listed}\n"
    for number, section in enumerate(sections):
        if len(text) + len(section.text) > MOST_CHARACTERS:
            text += f"\n{len(sections) - number} comparisons more do not fit here.\n"
            break
        text += f"\n{section.text}\n"
    return text


def publish(text: str, inputs: Inputs, changed: int) -> None:
    """Write the summary, the outputs and, where it is asked for, the comment."""
    path = inputs.folder / "envkit-lock-bump.md"
    path.write_text(text, encoding="utf-8")
    for file, content in (
        (inputs.summary, text),
        (inputs.output, f"changed={changed}\nsummary={path}\n"),
    ):
        if file is not None:
            with file.open("a", encoding="utf-8") as opened:
                opened.write(content)
    print_quoted(text)
    if inputs.comment and changed:
        comment(path, inputs)


def print_quoted(text: str) -> None:
    """Print text in which the runner looks for no commands: names and labels are anybody's."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}\n{text}\n::{token}::")


def comment(path: Path, inputs: Inputs) -> None:
    """Comment with GitHub's own command; a fork's token may not, and that fails nothing."""
    if not inputs.pull_request.isdigit() or shutil.which("gh") is None:
        print("::notice title=envkit lock bump::no comment: not a pull request, or gh is not here")
        return
    comments = f"repos/{inputs.repository}/issues/{inputs.pull_request}/comments"
    # Our own of an earlier push is written anew: the last one of the bot may be somebody else's.
    chosen = f'.[] | select(.user.type == "Bot" and (.body | startswith("{MARKER}"))) | .id'
    code, said = run("gh", "api", "--paginate", comments, "--jq", chosen)
    earlier = said.split() if code == 0 else []
    place = ["--method", "POST", comments]
    if earlier and earlier[0].isdigit():
        place = ["--method", "PATCH", f"repos/{inputs.repository}/issues/comments/{earlier[0]}"]
    code, said = run("gh", "api", *place, "--field", f"body=@{path}")
    if code:
        print(f"::warning title=envkit lock bump::no comment: {escaped(said[:300])}")


def plain(text: str) -> str:
    """Write a name as code, whatever it holds."""
    shown = one_line(text).replace("`", "'")
    return f"`{shown}`"


def one_line(text: str) -> str:
    """Show what cannot be printed, line breaks among it, as a question mark."""
    return "".join(c if c.isprintable() else "?" for c in text)


def fenced(text: str) -> str:
    """Write a message of a program as it is."""
    lines = (one_line(line) for line in text.splitlines())
    return "~~~text\n" + "\n".join(line.replace("~~~", "---") for line in lines) + "\n~~~"


def escaped(text: str) -> str:
    """Escape a message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None


if __name__ == "__main__":
    raise SystemExit(main(os.environ))

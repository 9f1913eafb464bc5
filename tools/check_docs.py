"""Check the documentation: links lead somewhere, pages can be reached, commands exist.

Run from the root of a checkout: `python tools/check_docs.py`. Links inside the repository must
exist, anchors included; links to elsewhere must be well-formed https (nothing is fetched); every
page under docs/ must be reachable from docs/index.md; every `envkit ...` must be a command line
that envkit understands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import docs_commands

ROOT = Path(__file__).parent.parent
INDEX = Path("docs/index.md")
#: Pages outside docs/ whose links are checked too.
OUTSIDE = ("*.md", "environments/*.md", "baselines/*.md")

FENCED = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]*)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link as written, on a page named from the root."""

    page: Path
    line: int
    target: str


def blanked(text: str, *patterns: re.Pattern[str]) -> str:
    """Return the text with every match replaced by as many empty lines."""
    for pattern in patterns:
        text = pattern.sub(lambda match: "\n" * match.group().count("\n"), text)
    return text


def links(page: Path, text: str) -> Iterator[Link]:
    """Yield the links of a page, code and comments left out."""
    prose = blanked(text, FENCED, COMMENT, INLINE_CODE)
    for match in LINK.finditer(prose):
        line = prose.count("\n", 0, match.start()) + 1
        yield Link(page=page, line=line, target=match.group(1) or match.group(2) or "")


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return every anchor of a page; the second heading of a name gets -1, the third -2."""
    found: set[str] = set(ANCHOR.findall(text))
    seen: dict[str, int] = {}
    for heading in HEADING.findall(blanked(text, FENCED)):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return found


def fault_of_address(target: str) -> str | None:
    """Say what is wrong with a link to elsewhere."""
    parts = urlsplit(target)
    if parts.scheme != "https":
        return "links to elsewhere start with https://"
    if not re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc):
        return "no host name"
    return None


def target_of(root: Path, link: Link) -> Path | None:
    """Return the file that an internal link names, from the root; None where it leaves the root."""
    path = unquote(urlsplit(link.target).path)
    file = (root / link.page.parent / path).resolve() if path else (root / link.page).resolve()
    return file.relative_to(root) if file.is_relative_to(root) else None


def fault_of_internal(root: Path, link: Link) -> str | None:
    """Say what is wrong with a link inside the repository."""
    target = target_of(root, link)
    if target is None:
        return "leads out of the repository"
    if not (root / target).exists():
        return "no such file"
    fragment = urlsplit(link.target).fragment
    if not fragment or target.suffix != ".md":
        return None
    known = anchors((root / target).read_text(encoding="utf-8"))
    return None if fragment in known else f"{target} has no heading for #{fragment}"


def fault_of(root: Path, link: Link) -> str | None:
    """Say what is wrong with a link; None where it leads somewhere."""
    if not link.target:
        return "an empty link"
    if urlsplit(link.target).scheme or link.target.startswith("//"):
        return fault_of_address(link.target)
    return fault_of_internal(root, link)


def unreachable(root: Path, found: dict[Path, list[Link]]) -> set[Path]:
    """Return the pages under docs/ to which no chain of links leads from the index."""
    waiting, seen = [INDEX], {INDEX}
    while waiting:
        for link in found.get(waiting.pop(), []):
            target = target_of(root, link) if not urlsplit(link.target).scheme else None
            if target in found and target not in seen:
                seen.add(target)
                waiting.append(target)
    return {page for page in found if page.parts[0] == "docs"} - seen


def pages(root: Path) -> dict[Path, str]:
    """Return every page that is checked, named from the root, with its text."""
    files = [*root.glob("docs/**/*.md"), *(file for glob in OUTSIDE for file in root.glob(glob))]
    return {file.relative_to(root): file.read_text(encoding="utf-8") for file in sorted(files)}


def faults(root: Path) -> tuple[dict[Path, list[Link]], list[str]]:
    """Return the links of every page, and a sentence for each fault."""
    root = root.resolve()
    found = {page: list(links(page, text)) for page, text in pages(root).items()}
    said = [
        f"{link.page}:{link.line}: {link.target}: {fault}"
        for page in found.values()
        for link in page
        if (fault := fault_of(root, link)) is not None
    ]
    lost = sorted(unreachable(root, found))
    return found, said + [f"{page}: no link leads here from {INDEX}" for page in lost]


def main() -> int:
    """Print the faults of this checkout's documentation."""
    found, said = faults(ROOT)
    count = sum(map(len, found.values()))
    commands = 0
    for page, text in pages(ROOT).items():
        on_page, wrong = docs_commands.faults(text)
        commands += on_page
        said += [f"{page}:{fault}" for fault in wrong]
    counted = f"{len(found)} pages, {count} links, {commands} commands, {len(said)} faults"
    print("\n".join([*said, f"docs: {counted}"]))
    return 1 if said else 0


if __name__ == "__main__":
    raise SystemExit(main())

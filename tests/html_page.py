"""A page taken apart, so that tests can ask what is in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"meta", "input", "br", "hr", "link", "img"})


@dataclass
class Element:
    """One element with its attributes and all text inside of it."""

    tag: str
    attributes: dict[str, str | None]
    inside: tuple[str, ...]
    """Tags of what it stands in, outermost first."""
    text: str = ""


@dataclass
class Page(HTMLParser):
    """All elements of a page in their order; badly nested ones are an error."""

    source: str
    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self.feed(self.source)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        inside = tuple(one.tag for one in self._open)
        element = Element(tag, dict(attrs), inside)
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            one
            for one in self.elements
            if one.tag == tag and all(one.attributes.get(n) == v for n, v in wanted.items())
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} of {tag} {attributes}"
        return found[0]

    def rows(self, table: str) -> list[list[str]]:
        """Return the text of a table's cells, its heading included."""
        found: list[list[str]] = []
        is_here = False
        for element in self.elements:
            if element.tag == "table":
                is_here = element.attributes.get("id") == table
            elif is_here and element.tag == "tr":
                found.append([])
            elif is_here and element.tag in {"th", "td"}:
                found[-1].append(" ".join(element.text.split()))
        return found

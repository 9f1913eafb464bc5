from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.specs.pip_lines import read_pip_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch==2.4.0+cu121", ("named", "torch", "==2.4.0+cu121")),
        ("Simple_Parsing", ("named", "simple-parsing", "")),
        ("einops~=0.7.0  # why", ("named", "einops", "~=0.7.0")),
        ("ray[default,tune]==2.2.0", ("named", "ray", "==2.2.0")),
        ("torch>=2; python_version<'3.12'", ("named", "torch", ">=2")),
        ("r3m @ https://example.org/a.tar.gz", ("url", "r3m", "")),
        ("git+https://example.org/a/b.git@v1#egg=my_pkg", ("url", "my-pkg", "")),
        ("git+https://example.org/a/b.git", ("url", None, "")),
        ("-e .", ("option", "--editable", ".")),
        ("-f https://example.org/x.html", ("option", "--find-links", "https://example.org/x.html")),
        ("--index-url=https://example.org", ("option", "--index-url", "https://example.org")),
        ("--pre", ("option", "--pre", "")),
        ("submodules/simple-knn", ("local", None, "")),
        ("./wheel.whl", ("local", None, "")),
        (".", ("local", None, "")),
        ("a.whl", ("local", None, "")),
    ],
)
def test_lines_as_pip_reads_them(text: str, expected: tuple[str | None, ...]) -> None:
    found = read_pip_line(text, 3, None)
    assert (found.kind, found.name, found.specifier) == expected
    assert (found.text, found.line, found.hashed) == (text, 3, False)


def test_a_hash_is_seen() -> None:
    found = read_pip_line("tqdm==4.66.1 --hash=sha256:0f --hash=sha256:1e", 1, None)
    assert (found.hashed, found.name, found.specifier) == (True, "tqdm", "==4.66.1")


@pytest.mark.parametrize("text", ["a b c", "==1", "a==", "- x", "a=1"])
def test_what_pip_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        read_pip_line(text, 1, None)


@given(st.text(max_size=60))
def test_reading_is_total(text: str) -> None:
    with contextlib.suppress(ValueError):
        read_pip_line(text, 1, None)

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_texts import spec_of

from envkit.errors import InputError
from envkit.specs.environment_yml import read_spec, read_spec_file
from envkit.specs.spec_tree import MAX_BYTES

TEXT = """\
# a comment
name: study
channels:
  - pytorch  # first
  - "conda-forge"
dependencies:
  - python=3.12
  - pytorch::pytorch-cuda=12.1  # [linux]
  - pytorch::pytorch-cuda=11.8  # only on Windows [win]
  # - numpy
  - pip
  - pip:
      - -e .
      - torch==2.4.0+cu121
      - --extra-index-url https://example.org/simple
variables:
  OMP_NUM_THREADS: "4"
  EMPTY:
platforms:
  - linux-64
prefix: /opt/study
colour: blue
"""


def test_everything_is_read_with_its_line() -> None:
    spec = spec_of(TEXT)
    assert spec.name is not None
    assert (spec.name.text, spec.name.line) == ("study", 2)
    assert [(one.text, one.line) for one in spec.channels] == [("pytorch", 4), ("conda-forge", 5)]
    assert [(one.match.name, one.line) for one in spec.dependencies] == [
        ("python", 7),
        ("pytorch-cuda", 8),
        ("pytorch-cuda", 9),
        ("pip", 11),
    ]
    assert [one.selector for one in spec.dependencies] == [None, "linux", "win", None]
    assert [(one.name, one.kind, one.line) for one in spec.pip] == [
        ("--editable", "option", 13),
        ("torch", "named", 14),
        ("--extra-index-url", "option", 15),
    ]
    assert [(one.name, one.text) for one in spec.variables] == [
        ("OMP_NUM_THREADS", "4"),
        ("EMPTY", ""),
    ]
    assert [one.text for one in spec.platforms] == ["linux-64"]
    assert spec.prefix is not None
    assert [(one.text, one.line) for one in spec.unknown_keys] == [("colour", 22)]
    assert [one.text for one in spec.lock_keys] == ["platforms"]
    assert spec.line_of("variables") == 16
    assert spec.variable("OMP_NUM_THREADS") == "4"


def test_selectors_choose_lines_for_a_platform() -> None:
    spec = spec_of(TEXT)
    found = {
        platform: [one.line for one in spec.on(platform).conda_named("pytorch-cuda")]
        for platform in ("linux-64", "linux-aarch64", "win-64", "osx-arm64", "other")
    }
    expected = {"linux-64": [8], "linux-aarch64": [8], "win-64": [9], "osx-arm64": [], "other": []}
    assert found == expected
    assert spec.on("linux-64").pip == spec.pip


def test_an_empty_list_is_no_fault() -> None:
    spec = spec_of("channels:\ndependencies:\n  - pip:\nvariables:\nname:\n")
    assert (spec.channels, spec.dependencies, spec.pip, spec.name) == ((), (), (), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mapping"),
        ("- a\n", "environment.yml:1: an environment.yml is a mapping"),
        ("dependencies: python\n", "environment.yml:1: `dependencies` is a list"),
        ("dependencies:\n  -\n", "environment.yml:2: a dependency is a text"),
        ("dependencies:\n  - [a]\n", "environment.yml:2: a dependency is a text"),
        ("dependencies:\n  - a\n  - ^^\n", "environment.yml:3: '^^' is not a dependency"),
        ("dependencies:\n  - a=1..2\n", "environment.yml:2: '1..2' is not a version"),
        ("dependencies:\n  - pip: a\n", "environment.yml:2: `pip` is a list"),
        ("dependencies:\n  - pip:\n    - 'a b c'\n", "environment.yml:3: 'a b c' is not a req"),
        ("name: [a]\n", "environment.yml:1: `name` is a single value"),
        ("channels:\n  - {}\n", "environment.yml:2: an entry of `channels`"),
        ("variables: [a]\n", "environment.yml:1: `variables` is a mapping"),
        ("variables:\n  A: [b]\n", "environment.yml:2: the variable 'A' has a single value"),
        ("name: a\nchannels: []\nname: b\n", "environment.yml:3: the key 'name' stands twice"),
        ("name: a\n---\nname: b\n", "environment.yml:2: a second document"),
        ("x: &a [1]\ny: *a\n", "environment.yml:1: anchors and aliases"),
        ("name: !!python/name:os.system ''\n", "environment.yml:1: the tag"),
        ("? [a]\n: b\n", "environment.yml:1: a list or mapping cannot be a key"),
        ("name: 'a\n", "YAML: "),
        ("name: \x01\n", "YAML: "),
        ("a: " + "[" * 40 + "]" * 40 + "\n", "levels"),
        ("a: [" + "x," * 60_000 + "]\n", "values"),
    ],
)
def test_faults_are_named_with_their_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        spec_of(text)
    assert said in error.value.message
    assert error.value.next_step


def test_a_bomb_of_aliases_is_refused_at_its_first_anchor() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    with pytest.raises(InputError, match=r"yml:1: anchors"):
        spec_of("\n".join(lines))


@pytest.mark.parametrize("piece", ["[x]", "[", "a[", "# [", "\t"])
def test_a_hostile_comment_is_no_work(piece: str) -> None:
    comment = piece * (900_000 // len(piece))
    spec = spec_of(f"dependencies:\n  - zlib # {comment}(\n")
    assert spec.dependencies[0].selector is None


def test_too_large_is_refused_unread() -> None:
    with pytest.raises(InputError, match="bytes are more than"):
        read_spec(b"#" * (MAX_BYTES + 1), origin="x.yml")


def test_other_encodings_are_refused_and_a_byte_order_mark_is_not() -> None:
    with pytest.raises(InputError, match="UTF-8"):
        read_spec("name: ä".encode("latin-1"), origin="x.yml")
    spec = read_spec(b"\xef\xbb\xbfname: a\n", origin="x.yml")
    assert spec.name is not None
    assert spec.name.text == "a"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_spec_file(tmp_path / "none.yml")


def test_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    found = read_spec_file(path, origin="environment.yml")
    assert found == spec_of(TEXT)


edits = st.lists(
    st.tuples(st.integers(0, len(TEXT)), st.integers(0, 12), st.text(max_size=6)), max_size=4
)


@given(edits)
def test_a_mutated_file_is_read_or_refused_and_never_more(
    changes: list[tuple[int, int, str]],
) -> None:
    text = TEXT
    for start, length, new in changes:
        text = text[:start] + new + text[start + length :]
    with contextlib.suppress(InputError):
        spec = read_spec(text.encode("utf-8", "surrogatepass"), origin="x.yml")
        last = text.count("\n") + 1
        assert all(1 <= one.line <= last for one in (*spec.channels, *spec.dependencies, *spec.pip))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(InputError):
        read_spec(content, origin="x.yml")


def test_every_spec_of_the_corpus_is_read(shared: Path) -> None:
    paths = sorted((shared / "corpus" / "env").glob("*.yml"))
    assert len(paths) == 50
    for path in paths:
        assert read_spec_file(path).line_of("dependencies") > 0

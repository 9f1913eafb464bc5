from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_texts import spec_of

from envkit.specs.content_hash import content_hash

TEXT = """\
name: study
channels:
  - pytorch
  - conda-forge
dependencies:
  - python=3.12
  - pytorch=2.5.1
  - numpy>=1.26,<2
  - pip
  - pip:
    - tqdm==4.66.1
    - einops
variables:
  OMP_NUM_THREADS: "4"
  LC_ALL: C
"""
HASH = content_hash(spec_of(TEXT))

#: One change each; all of them ask for something else.
CHANGES = [
    ("name: study", "name: other"),
    ("  - pytorch\n  - conda-forge\n", "  - conda-forge\n  - pytorch\n"),
    ("  - conda-forge\n", ""),
    ("python=3.12", "python=3.13"),
    ("python=3.12", "python==3.12"),
    ("pytorch=2.5.1", "pytorch=2.5.1=*cuda*"),
    ("pytorch=2.5.1", "pytorch::pytorch=2.5.1"),
    ("numpy>=1.26,<2", "numpy>=1.26,<=2"),
    ("  - pip\n", "  - pip\n  - scipy\n"),
    ("  - pytorch=2.5.1\n", "  - pytorch=2.5.1 # [linux64]\n"),
    ("einops", "einops==0.8"),
    ("    - tqdm==4.66.1\n    - einops\n", "    - einops\n    - tqdm==4.66.1\n"),
    ('"4"', '"8"'),
    ("  LC_ALL: C\n", ""),
    ("LC_ALL: C", "LANG: C"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_it_changes_with_whatever_is_asked_for(old: str, new: str) -> None:
    assert old in TEXT
    assert content_hash(spec_of(TEXT.replace(old, new, 1))) != HASH


SAME = [
    ("name: study", "# a comment\nname:   'study'  # another"),
    ("python=3.12", "'python =3.12'"),
    ("python=3.12", "python 3.12.*"),
    ("numpy>=1.26,<2", "numpy <2, >=1.26"),
    ("  - python=3.12\n  - pytorch=2.5.1\n", "  - pytorch=2.5.1\n  - python=3.12\n"),
    ("channels:\n  - pytorch\n  - conda-forge\n", "channels: [pytorch, conda-forge/]\n"),
    ("tqdm==4.66.1", "tqdm==4.66.1   "),
    ('  OMP_NUM_THREADS: "4"\n  LC_ALL: C\n', "  LC_ALL: C\n  OMP_NUM_THREADS: '4'\n"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_it_does_not_change_with_how_it_is_written(old: str, new: str) -> None:
    assert old in TEXT
    assert content_hash(spec_of(TEXT.replace(old, new, 1))) == HASH


@given(st.randoms(use_true_random=False), st.integers(0, 3), st.text("abc: #[]-", max_size=10))
def test_the_order_of_keys_blank_lines_and_comments_do_not_count(
    chance: random.Random, blanks: int, words: str
) -> None:
    blocks: list[str] = []
    for line in TEXT.splitlines(keepends=True):
        if line.startswith(" "):
            blocks[-1] += line + "\n" * blanks
        else:
            blocks.append(line)
    chance.shuffle(blocks)
    text = "".join(f"# {words.replace('[', '(')}\n{block}" for block in blocks)
    assert content_hash(spec_of(text)) == HASH


def test_it_is_the_same_on_every_machine_and_version() -> None:
    """A change of this value is a change of every published hash: never edit it."""
    assert HASH == "sha256:262b79e9e816ff2cb528d6acff51fb6e15dda88568a9a53e7fbe9a22bff0e99d"

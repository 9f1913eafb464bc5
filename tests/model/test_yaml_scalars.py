"""What is told without YAML's reader is what YAML's reader says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from envkit.model.yaml_scalars import is_plain_string

_PIECES = st.sampled_from(
    [*"0123456789abefnotyxTZ._:+-<=*!/", "0x", "0b", "1e", ".inf", "2024-01-02", "true", "no"]
)


def _by_yaml(text: str) -> bool:
    tag: str = Resolver().resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag == "tag:yaml.org,2002:str"


@given(st.lists(_PIECES, min_size=1, max_size=8).map("".join))
def test_every_scalar_is_read_as_yaml_reads_it(text: str) -> None:
    assert is_plain_string(text) == _by_yaml(text)


@pytest.mark.parametrize("text", ["1.2.3", "9e", "0b6c506ec1f2", "<2.0", "=1.2", "2021.*", "main"])
def test_what_locks_are_made_of_needs_no_reader_of_yaml(text: str) -> None:
    code = (
        "import sys; from envkit.model.yaml_scalars import is_plain_string as ask;"
        f"print(ask({text!r}), 'yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]

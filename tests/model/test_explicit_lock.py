"""Explicit locks: what conda and conda-lock write is read, everything else has its line named."""

from __future__ import annotations

import pytest

from envkit.errors import InputError
from envkit.model.explicit_lock import is_explicit_lock, read_explicit_lock

CHANNEL = "https://conda.anaconda.org/conda-forge"
TEXT = f"""\
# This file may be used to create an environment using:
# platform: linux-64
@EXPLICIT
{CHANNEL}/linux-64/zlib-1.3.1-hb9d3cd8_2.conda#c9f075ab2f33b3bbee9e62d4ad0a6cd8
{CHANNEL}/noarch/six-1.17.0-pyhd8ed1ab_0.conda#sha256:{"a" * 64}

{CHANNEL}/linux-64/tqdm-4.67.1-py312_0.tar.bz2
"""


def test_packages_are_read_with_platform_and_hashes() -> None:
    zlib, six, tqdm = read_explicit_lock(TEXT.encode(), origin="x.lock")
    assert (zlib.name, zlib.version, zlib.build_string) == ("zlib", "1.3.1", "hb9d3cd8_2")
    assert zlib.hash.md5 == "c9f075ab2f33b3bbee9e62d4ad0a6cd8"
    assert (six.platform, six.subdir, six.hash.sha256) == ("linux-64", "noarch", "a" * 64)
    assert tqdm.hash.md5 is None
    assert tqdm.channel_url == CHANNEL


def test_the_mark_tells_them_from_other_files() -> None:
    assert is_explicit_lock(TEXT.encode())
    assert is_explicit_lock(b"@EXPLICIT\r\n")
    assert not is_explicit_lock(b"name: x # @EXPLICIT\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("zlib=1.3.1", "x.lock:3: 'zlib=1.3.1' is not the address"),
        (f"{CHANNEL}/linux-64/zlib.conda", "x.lock:3:"),
        (f"{CHANNEL}/linux-64/zlib-1-0.conda#abc", "x.lock:3:"),
        ("gopher://a/linux-64/zlib-1-0.conda", "x.lock:3:"),
        (f"{CHANNEL}/linux-64/a-1-0.conda", "x.lock:3: 'a' stands twice"),
    ],
)
def test_a_wrong_line_is_named(line: str, said: str) -> None:
    text = f"@EXPLICIT\n{CHANNEL}/linux-64/a-1-0.conda\n{line}\n"
    with pytest.raises(InputError) as caught:
        read_explicit_lock(text.encode(), origin="x.lock")
    assert said in caught.value.message


def test_without_the_mark_it_is_none() -> None:
    with pytest.raises(InputError, match="no line @EXPLICIT"):
        read_explicit_lock(b"# nothing\n", origin="x.lock")

"""What is taken out of kept values."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.sources.redacted import (
    clipped,
    escape_control,
    home_folders,
    redact,
    shorten_home,
    without_credentials,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:secret@host/path", "https://host/path"),
        ("https://me:s@cret@host/path", "https://host/path"),
        ("https://host/t/tk-1234/org/linux-64", "https://host/org/linux-64"),
        ("https://host/x?token=abc#frag", "https://host/x"),
        ("a https://u@h/p b ftp://u:p@g/q", "a https://h/p b ftp://g/q"),
        ("no address at all @ here", "no address at all @ here"),
    ],
)
def test_credentials_are_removed_from_addresses(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/me", "~"),
        ("/home/me/lib:/opt/lib:/home/me/x", "~/lib:/opt/lib:~/x"),
        ("/home/meg/lib", "/home/meg/lib"),
        ("/mnt/home/me/lib", "/mnt/home/me/lib"),
        ("path=/home/me/x", "path=~/x"),
        ("file:///home/me/x", "file://~/x"),
    ],
)
def test_the_home_folder_is_shortened_where_a_path_begins(text: str, shown: str) -> None:
    assert shorten_home(text, ("/home/me",)) == shown


def test_a_home_that_is_the_root_or_not_absolute_is_none() -> None:
    assert home_folders({"HOME": "/"}) == ()
    assert home_folders({"HOME": "here"}) == ()
    assert home_folders({}) == ()
    assert home_folders({"HOME": "/home/me/"})[0] == "/home/me"


def test_control_characters_are_written_out() -> None:
    assert escape_control("a\x1b[2J\u202eb\n") == "a\\x1b[2J\\u202eb\\x0a"
    assert escape_control("a\n\tb\r", keep="\n\t") == "a\n\tb\\x0d"


def test_a_cut_text_says_so() -> None:
    assert clipped("x" * 10, 4) == "xxxx... (10 characters)"
    assert clipped("xxxx", 4) == "xxxx"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(), st.text(min_size=1).filter(lambda text: not set(text) & set("/@ \t\n\r\f\v?#")))
def test_nothing_harmful_is_left(text: str, secret: str) -> None:
    shown = redact(f"{text} https://user:{secret}@host/", homes=(), limit=10_000)
    assert not any(ord(character) < 32 or ord(character) == 127 for character in shown)
    assert shown.encode("utf-8")
    assert f"user:{secret}@" not in shown

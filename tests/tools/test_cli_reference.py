"""The page of --help texts: every command below every command, between two markers."""

from __future__ import annotations

from types import ModuleType

import pytest

HELPS = {
    (): "Usage: envkit\n\nCommands:\n  memory  Memory.\n          More words.\n  verify  Judge.",
    (
        "memory",
    ): "Usage: envkit memory\n\nCommands:\n  replay  Again.\n\nExamples:\n  envkit memory",
    ("memory", "replay"): "Usage: envkit memory replay",
    ("verify",): "Usage: envkit verify\n\nOptions:\n  -q  Quiet.",
}


def test_walks_the_commands(cli_reference: ModuleType) -> None:
    blocks = list(cli_reference.blocks(HELPS.__getitem__))
    assert [block.splitlines()[0] for block in blocks] == [
        "## envkit",
        "## envkit memory",
        "## envkit memory replay",
        "## envkit verify",
    ]
    assert "  -q  Quiet.\n```" in blocks[-1]


def test_replaces_only_between_the_markers(cli_reference: ModuleType) -> None:
    page = f"# Head\n{cli_reference.BEGIN}\nold\n{cli_reference.END}\ntail\n"
    once = cli_reference.page_with(page, "new")
    assert once.startswith("# Head\n")
    assert once.endswith("\ntail\n")
    assert "old" not in once
    assert cli_reference.page_with(once, "new") == once


def test_says_that_a_marker_is_missing(cli_reference: ModuleType) -> None:
    with pytest.raises(ValueError, match="lost a marker"):
        cli_reference.page_with("# Head\n", "new")

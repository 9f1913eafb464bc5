"""What stands below a figure of a page is what is drawn in it."""

from __future__ import annotations

import pytest

from envkit.allocator.curve import Curve
from envkit.allocator.workloads import WorkloadMemory
from envkit.render.html.figures import overlaid_drawing


@pytest.mark.parametrize(
    ("reserved", "held"),
    [((), "vit: allocated over"), ((4, 4), "vit: allocated and reserved over")],
)
def test_a_caption_names_reserved_memory_only_where_there_is_some(
    reserved: tuple[int, ...], held: str
) -> None:
    one = WorkloadMemory(name="vit", curve=Curve(allocated_bytes=(1, 2), reserved_bytes=reserved))
    drawn = overlaid_drawing("vit", [("mine", one), ("hers", one)], 1)
    assert drawn is not None
    assert drawn.caption.startswith(held)
    assert ("mine: reserved" in drawn.svg) is bool(reserved)

from __future__ import annotations

import pytest
from spec_texts import spec_of, spec_text

from envkit.specs import folders
from envkit.specs.needs import needs_gpu
from envkit.specs.registry import read_registry


@pytest.mark.parametrize(
    ("dependencies", "expected"),
    [
        (("pytorch=2.8.0=*cuda129*",), True),
        (("pytorch::pytorch=2.5.1", "pytorch-cuda=12.1"), True),
        (("pytorch=2.8.0", "pytorch-gpu"), True),
        (("pip:\n    - torch==2.4.0+cu121",), True),
        (("pytorch=2.8.0",), False),
        (("pytorch=2.8.0=*cpu*",), False),
        (("pytorch=2.5.1", "cpuonly"), False),
        (("pip:\n    - torch==2.4.0",), False),
        (("pip:\n    - torch==2.4.0+cpu",), False),
        (("numpy",), False),
    ],
)
def test_what_a_spec_selects_says_what_it_needs(
    dependencies: tuple[str, ...], *, expected: bool
) -> None:
    assert needs_gpu(spec_of(spec_text(*dependencies)), None) is expected


def test_the_registry_has_the_last_word() -> None:
    specs = read_registry(folders.environments()).specs
    nothing = spec_of(spec_text("numpy"))
    assert needs_gpu(nothing, specs["vit"])
    assert not needs_gpu(nothing, specs["cpu"])

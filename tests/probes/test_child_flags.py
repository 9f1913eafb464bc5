"""Switches of torch: known names, right types, and a check that they took."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Child = Callable[[str], ModuleType]


class FakeTorch:
    """A torch with the switches that the tests set."""

    def __init__(self) -> None:
        self.state = {"deterministic": False, "warn_only": False, "precision": "highest"}
        matmul = SimpleNamespace(allow_tf32=False)
        cuda = SimpleNamespace(
            matmul=matmul,
            flash_sdp_enabled=lambda: self.state["flash"],
            enable_flash_sdp=lambda on: self.state.update(flash=on),
        )
        self.state["flash"] = True
        cudnn = SimpleNamespace(enabled=True, benchmark=False, benchmark_limit=None)
        self.backends = SimpleNamespace(cuda=cuda, cudnn=cudnn)

    def are_deterministic_algorithms_enabled(self) -> Any:
        return self.state["deterministic"]

    def is_deterministic_algorithms_warn_only_enabled(self) -> Any:
        return self.state["warn_only"]

    def use_deterministic_algorithms(self, mode: bool, *, warn_only: bool = False) -> None:  # noqa: FBT001
        self.state.update(deterministic=mode, warn_only=warn_only)

    def get_float32_matmul_precision(self) -> Any:
        return self.state["precision"]

    def set_float32_matmul_precision(self, precision: str) -> None:
        self.state["precision"] = precision
        self.backends.cuda.matmul.allow_tf32 = precision != "highest"


@pytest.fixture
def flags(child_module: Child) -> ModuleType:
    return child_module("flags")


def test_flags_are_set(flags: ModuleType) -> None:
    torch = FakeTorch()
    wanted = {
        "cudnn.benchmark": True,
        "cudnn.enabled": False,
        "sdp.flash": False,
        "deterministic_algorithms": True,
        "deterministic_warn_only": True,
        "matmul.allow_tf32": True,
    }
    flags.set_flags(torch, wanted)
    seen = flags.read_flags(torch)
    assert {name: seen[name] for name in wanted} == wanted


def test_two_flags_behind_one_call_do_not_reset_each_other(flags: ModuleType) -> None:
    torch = FakeTorch()
    torch.state.update(deterministic=True, warn_only=True)
    flags.set_flags(torch, {"deterministic_warn_only": False})
    assert (torch.state["deterministic"], torch.state["warn_only"]) == (True, False)
    torch.state.update(warn_only=True)
    flags.set_flags(torch, {"deterministic_algorithms": False})
    assert (torch.state["deterministic"], torch.state["warn_only"]) == (False, True)


def test_the_precision_word_does_not_undo_the_finer_switch(flags: ModuleType) -> None:
    torch = FakeTorch()
    with pytest.raises(flags.FlagRefused, match="float32_matmul_precision takes highest, high"):
        flags.set_flags(torch, {"float32_matmul_precision": 1})
    flags.set_flags(torch, {"matmul.allow_tf32": False, "float32_matmul_precision": "high"})
    assert torch.backends.cuda.matmul.allow_tf32 is False


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (
            {"cudnn.benchmrk": True},
            "there is no switch 'cudnn.benchmrk' (did you mean cudnn.benchmark?)",
        ),
        ({"x.y": True}, "there is no switch 'x.y'; there are: cudnn.allow_tf32, cudnn.benchmark"),
        (
            {"float32_matmul_precision": "hgh"},
            "float32_matmul_precision takes highest, high, medium, not 'hgh'",
        ),
        ({"cudnn.benchmark": 1}, "cudnn.benchmark takes true or false, not 1"),
        ({"cudnn.benchmark": "yes"}, "cudnn.benchmark takes true or false, not 'yes'"),
        ({"cudnn.benchmark_limit": True}, "cudnn.benchmark_limit takes a whole number, not True"),
        ({"cudnn.deterministic": True}, "this torch has no torch.backends.cudnn.deterministic"),
        ({"sdp.cudnn": True}, "this torch has no torch.backends.cuda.enable_cudnn_sdp"),
        ({"preferred_blas_library": "cublas"}, "could not be set: this torch has no"),
        ({"cudnn.benchmark_limit": 5}, "torch.backends.cudnn.benchmark_limit is None"),
    ],
)
def test_flags_that_are_refused(flags: ModuleType, wanted: dict[str, Any], reason: str) -> None:
    with pytest.raises(flags.FlagRefused) as caught:
        flags.set_flags(FakeTorch(), wanted)
    assert reason in str(caught.value)


def test_a_switch_that_does_not_take_is_refused(flags: ModuleType) -> None:
    torch = FakeTorch()
    torch.backends.cuda.enable_flash_sdp = lambda _on: None
    with pytest.raises(flags.FlagRefused, match="was set to False but torch says True"):
        flags.set_flags(torch, {"sdp.flash": False})


def test_nothing_is_invented_on_a_torch_without_the_attribute(flags: ModuleType) -> None:
    torch = FakeTorch()
    with pytest.raises(flags.FlagRefused):
        flags.set_flags(torch, {"cudnn.allow_tf32": True})
    assert not hasattr(torch.backends.cudnn, "allow_tf32")

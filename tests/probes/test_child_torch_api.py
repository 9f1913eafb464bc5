"""Private calls of many versions of torch, played by fakes with the signatures of each."""

# ruff: noqa: ARG002, FBT001, PLR0913  (signatures of torch)

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Child = Callable[[str], ModuleType]


@pytest.fixture
def api(child_module: Child) -> ModuleType:
    return child_module("torch_api")


def torch_with(**memory: Any) -> SimpleNamespace:
    return SimpleNamespace(cuda=SimpleNamespace(memory=SimpleNamespace(**memory)))


# The arguments are there for their names: the child looks at them.
class Recorded:
    """A fake of `_record_memory_history` of one version: keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def torch_2_0(
        self,
        enabled: bool,
        *,
        record_context: bool = True,
        trace_alloc_max_entries: int = 1,
        trace_alloc_record_context: bool = False,
        device: Any = None,
        record_context_cpp: bool = False,
    ) -> None:
        assert isinstance(enabled, bool)
        self.calls.append({"enabled": enabled, "entries": trace_alloc_max_entries})

    def torch_2_1(self, enabled: Any = "all", *args: Any, **kwargs: Any) -> None:
        return self.torch_2_1_impl(enabled, *args, **kwargs)

    def torch_2_1_impl(
        self,
        enabled: Any = "all",
        *,
        context: Any = "all",
        stacks: str = "all",
        max_entries: int = 2**63 - 1,
        device: Any = None,
    ) -> None:
        assert enabled in ("all", None)
        self.calls.append({"enabled": enabled, "entries": max_entries, "context": context})

    def torch_2_13(self, enabled: Any = "all", *args: Any, **kwargs: Any) -> None:
        return self.torch_2_13_impl(enabled, *args, **kwargs)

    def torch_2_13_impl(
        self,
        enabled: Any = "all",
        *,
        context: Any = "all",
        stacks: str = "all",
        max_entries: int = 2**63 - 1,
        device: Any = None,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: Any = None,
    ) -> None:
        self.calls.append({"enabled": enabled, "entries": max_entries, "clear": clear_history})


def history(recorded: Recorded, version: str) -> SimpleNamespace:
    memory = {"_record_memory_history": getattr(recorded, version)}
    implementation = getattr(recorded, version + "_impl", None)
    if implementation is not None:
        memory["_record_memory_history_impl"] = implementation
    return torch_with(**memory)


@pytest.mark.parametrize(
    ("version", "on", "off"),
    [
        ("torch_2_0", {"enabled": True, "entries": 1000}, False),
        ("torch_2_1", {"enabled": "all", "entries": 1000, "context": None}, None),
        ("torch_2_13", {"enabled": "all", "entries": 1000, "clear": True}, None),
    ],
)
def test_memory_history_of_every_version(
    api: ModuleType, version: str, on: dict[str, Any], off: Any
) -> None:
    recorded = Recorded()
    torch = history(recorded, version)
    assert api.start_memory_history(torch, 1000) is True
    assert api.stop_memory_history(torch) is True
    assert recorded.calls[0] == on
    assert recorded.calls[1]["enabled"] is off


def test_memory_history_that_is_not_there(api: ModuleType) -> None:
    for answer in (
        api.start_memory_history(torch_with(), 1),
        api.stop_memory_history(torch_with()),
    ):
        assert isinstance(answer, api.Missing)
        assert answer.reason == "this torch has no torch.cuda.memory._record_memory_history"
        assert not answer.exists


def test_memory_history_of_a_future_version(api: ModuleType) -> None:
    torch = torch_with(_record_memory_history=lambda *, policy: policy)
    answer = api.start_memory_history(torch, 1)
    assert isinstance(answer, api.Missing)
    assert "not known" in answer.reason


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        ({"allocator_settings": {"expandable_segments": True}}, {"expandable_segments": True}),
        ({"segments": []}, "the memory snapshot of this torch has no allocator_settings"),
        ([], "torch.cuda.memory._snapshot gave list"),
    ],
)
def test_allocator_settings(api: ModuleType, snapshot: Any, expected: Any) -> None:
    answer = api.allocator_settings(torch_with(_snapshot=lambda: snapshot))
    assert (answer.reason if isinstance(answer, api.Missing) else answer) == expected


def test_what_a_call_raises_is_a_reason(api: ModuleType) -> None:
    def fail(_device: object) -> None:
        message = "CUDA error:\n  device lost"
        raise RuntimeError(message)

    torch = SimpleNamespace(cuda=SimpleNamespace(memory_stats=fail))
    answer = api.memory_stats(torch, 0)
    assert answer.reason == "RuntimeError: CUDA error: device lost"
    assert answer.exists


@pytest.mark.parametrize(
    ("version", "expected"),
    [((9, 10, 2), 91002), ((8, 9, 7), 8907), ([7, 6, 5], 7605), ((9, 19, 0), 91900)],
)
def test_cudnn_integer(api: ModuleType, version: Any, expected: int) -> None:
    cudnn = SimpleNamespace(getCompileVersion=lambda: version)
    assert api.cudnn_compiled(SimpleNamespace(_C=SimpleNamespace(_cudnn=cudnn))) == expected


@pytest.mark.parametrize("version", [None, "9.1", (9, 1), 91002, ("a", "b", "c")])
def test_cudnn_version_in_a_form_that_is_not_known(api: ModuleType, version: Any) -> None:
    cudnn = SimpleNamespace(getCompileVersion=lambda: version)
    answer = api.cudnn_compiled(SimpleNamespace(_C=SimpleNamespace(_cudnn=cudnn)))
    assert isinstance(answer, api.Missing)


def test_cudnn_that_does_not_fit_still_tells_its_version(api: ModuleType) -> None:
    def refuse() -> int:
        message = "cuDNN version incompatibility: compiled against (9, 10, 2) but found (9, 1, 0)"
        raise RuntimeError(message)

    torch = SimpleNamespace(
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=refuse)),
        _C=SimpleNamespace(_cudnn=SimpleNamespace(getRuntimeVersion=lambda: (9, 1, 0))),
    )
    assert api.cudnn_loaded(torch) == 90100


@pytest.mark.parametrize(
    ("version", "expected"), [((2, 27, 5), "2.27.5"), (2708, "2.7.8"), (21003, "2.10.3")]
)
def test_nccl(api: ModuleType, version: Any, expected: str) -> None:
    torch = SimpleNamespace(cuda=SimpleNamespace(nccl=SimpleNamespace(version=lambda: version)))
    assert api.nccl_version(torch) == expected


@pytest.mark.parametrize("answer", ["_BlasBackend.Cublaslt", SimpleNamespace(name="Cublaslt")])
def test_preferred_library(api: ModuleType, answer: Any) -> None:
    cuda = SimpleNamespace(preferred_blas_library=lambda: answer)
    torch = SimpleNamespace(backends=SimpleNamespace(cuda=cuda))
    assert api.preferred_library(torch, "blas") == "cublaslt"
    assert isinstance(api.preferred_library(torch, "linalg"), api.Missing)


def test_lookup_names_the_first_part_that_is_missing(api: ModuleType) -> None:
    torch = SimpleNamespace(cuda=SimpleNamespace())
    assert api.lookup(torch, "cuda.nccl.version").reason == "this torch has no torch.cuda.nccl"


def test_lookup_survives_an_attribute_that_raises(api: ModuleType) -> None:
    class Lazy:
        @property
        def cuda(self) -> None:
            message = "DLL load failed"
            raise OSError(message)

    assert isinstance(api.lookup(Lazy(), "cuda.memory"), api.Missing)


def test_the_profiler_is_asked_in_both_places(api: ModuleType) -> None:
    def torch(**autograd: Any) -> SimpleNamespace:
        inner = SimpleNamespace(**{k: v for k, v in autograd.items() if k == "inside"})
        private = SimpleNamespace(_autograd=SimpleNamespace())
        if hasattr(inner, "inside"):
            private._autograd._profiler_enabled = lambda: inner.inside
        public = SimpleNamespace()
        if "outside" in autograd:
            public._profiler_enabled = lambda: autograd["outside"]
        return SimpleNamespace(_C=private, autograd=public)

    assert api.profiler_is_on(torch(inside=True))
    assert api.profiler_is_on(torch(outside=True))
    assert not api.profiler_is_on(torch(inside=False, outside=False))
    assert not api.profiler_is_on(torch())


def test_what_is_asked_of_devices_and_kernels(api: ModuleType) -> None:
    asked: list[int] = []
    torch = SimpleNamespace(
        cuda=SimpleNamespace(_sleep=asked.append),
        _C=SimpleNamespace(_cuda_getArchFlags=lambda: "sm_80 sm_90"),
    )
    assert api.keep_busy(torch, 5) is True
    assert asked == [5]
    assert api.arch_flags(torch) == "sm_80 sm_90"
    older = SimpleNamespace(cuda=SimpleNamespace(), _C=SimpleNamespace())
    for answer in (api.keep_busy(older, 5), api.arch_flags(older), api.dispatch_mode(older)):
        assert isinstance(answer, api.Missing)
        assert not answer.exists
    assert isinstance(api.event_tree(SimpleNamespace()), api.Missing)


def test_the_torch_that_is_here_answers_everything(api: ModuleType) -> None:
    """Not a fake: whatever the torch of this environment is, none of these is missing in it."""
    torch = pytest.importorskip("torch")
    assert isinstance(api.dispatch_mode(torch), type)
    assert api.profiler_is_on(torch) is False
    with torch.autograd.profiler.profile(profile_memory=True) as running:
        kept = torch.empty(4096, dtype=torch.uint8)
        assert api.profiler_is_on(torch) is True
    waiting = list(api.event_tree(running))
    sizes = []
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        if node.tag.name == "Allocation":
            assert node.extra_fields.ptr == kept.data_ptr()
            sizes.append(node.extra_fields.alloc_size)
    assert sizes == [4096]

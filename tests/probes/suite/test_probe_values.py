"""What counts as a value: membership, repetition, exact text of floats and tensors."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Child = Callable[[str], ModuleType]


# --- membership -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_suite_is_a_part_of_the_next_larger_one(child: Child, kind: str) -> None:
    suites = child("membership").SUITES
    quick, standard, full = (set(suites[name].probes[kind]) for name in suites)
    assert quick < standard < full


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_names_are_unique(child: Child, kind: str) -> None:
    names = [probe.name for probe in child("membership").SUITES["full"].probes[kind]]
    assert len(names) == len(set(names))


def test_what_need_not_repeat_on_a_gpu_is_fixed(child: Child) -> None:
    members = child("membership").SUITES["standard"].probes["cuda"]
    assert sorted(probe.name for probe in members if not probe.must_repeat) == [
        "context.memory",
        "gpt.bf16.peaks",
        "lifetimes.leak.peaks",
        "lifetimes.moved.peaks",
        "lifetimes.optimizer.peaks",
        "options.accumulation.peaks",
        "options.channels_last.peaks",
        "options.checkpointing.peaks",
        "options.fp16.peaks",
        "options.inference.peaks",
        "resnet.bf16.peaks",
        "resnet.fp32.peaks",
        "vit.bf16.peaks",
        "vit.fp32.losses",
        "vit.fp32.peaks",
        "vit.fp32.weights",
    ]


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_only_the_full_suite_has_members_that_may_be_missing(child: Child, kind: str) -> None:
    suites = child("membership").SUITES
    assert not [
        p for name in ("quick", "standard") for p in suites[name].probes[kind] if p.optional
    ]
    optional = {p.group for p in suites["full"].probes[kind] if p.optional}
    assert optional >= {"compiled.gpt", "quantised.vit"}


def test_every_member_can_be_measured(child: Child, torch: Any) -> None:
    del torch
    operations = child("numerics.operations").OPERATIONS
    workloads = child("workloads.catalogue").WORKLOADS
    recipes = child("workloads.recipes").RECIPES
    exercises = child("exercises.catalogue").EXERCISES
    families, order = child("families").NEED_BYTES, child("suite")._ORDER
    spread, recipe_of = child("families").SPREAD, child("spread.sharded").WORKLOADS
    parts = child("spread.collectives")
    assert (*parts.DTYPES, parts.ROUNDING) == child("members").COLLECTIVES
    for kind, members in child("membership").SUITES["full"].probes.items():
        known = {*operations, *workloads[kind], *exercises, "memory"}
        alone = [probe for probe in members if probe.family not in spread]
        assert {probe.group for probe in alone} <= known
        assert {probe.group for probe in members} <= known | {"all_reduce", "sharded.gpt"}
        assert recipe_of[kind][0] in recipes
        assert {workload.recipe for workload in workloads[kind].values()} <= {*recipes}
        assert {probe.family for probe in members} <= {*order, *spread, "context"} & {*families}


# --- repetition -----------------------------------------------------------------------------------


def test_equal_runs_are_exact(child: Child) -> None:
    assert child("repeats").judge([{"a": [1, 2]}, {"a": [1, 2]}]) == ("exact", None)


def test_one_run_says_nothing(child: Child) -> None:
    with pytest.raises(ValueError, match="at least twice"):
        child("repeats").judge([{"a": 1}])


def test_the_spread_names_where_runs_differ(child: Child) -> None:
    runs = [{"a": [1, 2], "b": "x"}, {"a": [1, 3], "b": "x"}, {"a": [1, 2], "b": "y"}]
    status, spread = child("repeats").judge(runs)
    assert status == "unstable"
    assert spread == {
        "runs": 3,
        "differences": 2,
        "differs": [
            {"path": "/a/1", "values": [2, 3, 2]},
            {"path": "/b", "values": ["x", "x", "y"]},
        ],
    }


def test_a_name_with_slashes_is_one_name(child: Child) -> None:
    # A step of the user's own may name its losses so.
    _, spread = child("repeats").judge([{"loss/train": [1]}, {"loss/train": [2]}])
    assert spread["differs"] == [{"path": "/loss/train/0", "values": [1, 2]}]


def test_lists_of_other_lengths_differ_as_a_whole(child: Child) -> None:
    _, spread = child("repeats").judge([{"a": [1]}, {"a": [1, 2]}])
    assert spread["differs"] == [{"path": "/a", "values": ["list of 1", "list of 2"]}]


def test_a_missing_value_is_a_difference(child: Child) -> None:
    status, spread = child("repeats").judge([{"a": 1}, {"b": 1}])
    assert status == "unstable"
    assert spread["differs"][0]["path"] == "/"


# --- events ---------------------------------------------------------------------------------------


def test_an_unstable_probe_keeps_its_first_values_and_its_spread(child: Child) -> None:
    probe = child("membership").SUITES["quick"].probes["cpu"][0]
    event = child("families").probe_event(probe, 1.5, runs=[{"a": 1}, {"a": 2}])
    assert (event["status"], event["values"], event["seconds"]) == ("unstable", {"a": 1}, 1.5)
    assert event["spread"]["differences"] == 1


def test_no_value_is_null_and_has_a_reason(child: Child) -> None:
    probe = child("membership").SUITES["quick"].probes["cpu"][0]
    event = child("families").probe_event(probe, 0.0, not_run="no device")
    assert (event["status"], event["values"], event["reason"]) == ("not_run", None, "no device")


# --- exact text -----------------------------------------------------------------------------------


def test_a_tensor_s_digest_is_over_its_raw_bytes(child: Child, torch: Any) -> None:
    values = [1.0, -2.5, 3.25]
    digest = child("digests").of_tensor(torch.tensor(values))
    raw = struct.pack("<3f", *values)
    assert digest == {
        "sha256": hashlib.sha256(raw).hexdigest(),
        "dtype": "float32",
        "shape": [3],
    }


def test_strides_do_not_count_and_bits_do(child: Child, torch: Any) -> None:
    of_tensor = child("digests").of_tensor
    square = torch.arange(6.0).reshape(2, 3)
    assert of_tensor(square.T.contiguous().T) == of_tensor(square)
    assert of_tensor(torch.tensor([0.0])) != of_tensor(torch.tensor([-0.0]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "bool", "uint8"])
def test_every_dtype_has_a_digest(child: Child, torch: Any, dtype: str) -> None:
    tensor = torch.tensor([0, 1, 1]).to(getattr(torch, dtype))
    assert child("digests").of_tensor(tensor)["dtype"] == dtype


def test_long_tensors_are_read_whole(
    child: Child, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = torch.arange(1000, dtype=torch.int64)
    whole = child("digests").of_tensors([tensor])
    monkeypatch.setattr(child("digests"), "_CHUNK_BYTES", 96)
    assert child("digests").of_tensors([tensor]) == whole
    assert child("digests").of_tensors([tensor[:500], tensor[500:]]) == whole


def test_an_empty_tensor_has_the_digest_of_nothing(child: Child, torch: Any) -> None:
    assert child("digests").of_tensors([torch.empty(0)]) == hashlib.sha256().hexdigest()


def test_floats_are_written_exactly(child: Child) -> None:
    assert child("digests").of_float(0.1) == "0x1.999999999999ap-4"


def test_inputs_are_exact_in_every_dtype(child: Child, torch: Any) -> None:
    place = SimpleNamespace(torch=torch, device=torch.device("cpu"))
    pattern = child("numerics.inputs").pattern
    for exact_dtype, dtypes in (
        (torch.float64, (torch.float32,)),
        (torch.bfloat16, (torch.float16,)),
    ):
        exact = pattern(place, (300, 7), 5, exact_dtype).double()
        assert exact.abs().max() < 1
        assert exact.unique().numel() > 200
        for dtype in dtypes:
            assert torch.equal(pattern(place, (300, 7), 5, dtype).double(), exact)


def test_inputs_are_made_where_they_are_used(child: Child, torch: Any) -> None:
    # On an H200 eleven children with as many threads as processors each made them on the CPU.
    place = SimpleNamespace(torch=torch, device=torch.device("meta"))
    seen: list[str] = []

    class Eye(child("torch_api").dispatch_mode(torch)):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            result = func(*args, **(kwargs or {}))
            seen.append(result.device.type)
            return result

    with Eye():
        child("numerics.inputs").pattern(place, (30, 7), 5)
    assert set(seen) == {"meta"}


def test_gradients_through_a_scalar_are_those_of_a_given_gradient(child: Child, torch: Any) -> None:
    operations = child("numerics.operations")
    place = SimpleNamespace(torch=torch, device=torch.device("cpu"), kind="cpu")
    for dtype in (torch.float32, torch.bfloat16):
        inputs, weight, gradient = (
            child("numerics.inputs").pattern(place, shape, 5, dtype)
            for shape in ((9, 31), (31, 17), (9, 17))
        )
        found = []
        for send in (lambda out, back: out.backward(back), operations._send_back):
            weight = weight.detach().requires_grad_()
            send((inputs @ weight).tanh(), gradient)
            found.append(weight.grad)
        assert torch.equal(*found)


def on_gpu(torch: Any, tensor: Any) -> Any:
    """Make a tensor look as if it were on a GPU."""

    class Elsewhere(torch.Tensor):  # type: ignore[misc]
        @property
        def device(self) -> Any:
            return SimpleNamespace(type="cuda")

    return tensor.as_subclass(Elsewhere)


@pytest.mark.parametrize("where", ["cpu", "gpu", "gpu of a torch that shows no bytes"])
def test_hashing_beside_gives_the_digest(
    child: Child, torch: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    digests = child("digests")
    if "no bytes" in where:
        monkeypatch.setattr(digests, "_in_one_piece", lambda _: 1 // 0)
    tensors = [
        *(torch.arange(10), torch.ones(3, 4).T, torch.tensor(5), torch.ones(0)),
        *(torch.ones(5, dtype=torch.bfloat16), torch.randn(2, 3, 4, 5)[:, ::2] > 0),
    ]
    wanted = digests.of_tensors([tensor.clone() for tensor in tensors])
    hashing = digests.Hashing(
        tensors if where == "cpu" else [on_gpu(torch, tensor) for tensor in tensors]
    )
    if "no bytes" not in where:
        tensors[0].zero_()  # what is on a GPU was copied, the rest is hashed
    assert digests.finished({"sha256": hashing, "tensors": 6}) == {"sha256": wanted, "tensors": 6}


def test_hashing_that_fails_gives_no_digest(
    child: Child, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = child("digests")
    monkeypatch.setattr(digests, "of_tensors", lambda _: 1 // 0)
    monkeypatch.setattr(digests.threading, "excepthook", lambda _: None)
    with pytest.raises(RuntimeError, match="could not be hashed"):
        digests.Hashing([on_gpu(torch, torch.ones(2))]).hexdigest()


def test_inputs_in_float32_are_too_fine_for_tf32(child: Child, torch: Any) -> None:
    # TF32 keeps 10 bits behind the leading one: on coarser inputs its use would not show (seen on
    # an H200 with a first version of these inputs).
    place = SimpleNamespace(torch=torch, device=torch.device("cpu"))
    values = child("numerics.inputs").pattern(place, (64, 64), 5)
    mantissa, _ = torch.frexp(values.double())
    kept = torch.round(mantissa * 2048) / 2048
    assert (kept != mantissa).double().mean() > 0.9


# --- workloads ------------------------------------------------------------------------------------


def test_the_models_have_their_published_sizes(child: Child, torch: Any) -> None:
    vit, resnet = child("workloads.vit"), child("workloads.resnet")
    with torch.device("meta"):
        models = {"vit": vit.ViT(vit.B16), "resnet": resnet.ResNet(resnet.R50)}
    sizes = {
        name: sum(parameter.numel() for parameter in model.parameters())
        for name, model in models.items()
    }
    assert sizes == {"vit": 86567656, "resnet": 25557032}


@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_the_optimizers_step_as_torch_s_classes_do(child: Child, torch: Any, name: str) -> None:
    theirs = {
        "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-4),
        "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    }
    weights = []
    for make in (getattr(child("workloads.optimizers"), name), theirs[name]):
        torch.manual_seed(0)
        model = torch.nn.Linear(5, 3)
        optimizer = make(model.parameters())
        for _ in range(3):
            model(torch.ones(2, 5)).square().sum().backward()
            optimizer.step()
            for parameter in model.parameters():
                parameter.grad = None
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*weights)


def test_training_is_the_same_twice_and_another_one_with_another_seed(
    child: Child, torch: Any
) -> None:
    catalogue = child("workloads.catalogue")
    place = child("place").Place(torch, child("torch_api"), "cpu")
    workload = catalogue.WORKLOADS["cpu"]["resnet.fp32"]

    def values(seed: int) -> dict[str, Any]:
        bits = catalogue.carry_out(place, workload, seed, lambda _moment: None)
        return {part: child("digests").finished(value()) for part, value in bits.items()}

    first = values(3)
    assert set(first) == {"losses", "weights"}
    assert values(3) == first
    assert values(4)["weights"] != first["weights"]

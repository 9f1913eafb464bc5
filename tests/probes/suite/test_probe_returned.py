"""What a step returned: every value that has exact bits is compared, and the rest is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Child = Callable[[str], ModuleType]


@pytest.fixture
def returned(child: Child) -> Callable[[Any], Any]:
    made: Callable[[Any], Any] = child("workloads.returned").Returned
    return made


def exact(returned: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    found = returned(value)
    assert found.not_compared() == ""
    json.dumps(found.exact, allow_nan=False)
    told: dict[str, Any] = found.exact
    return told


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (1, 2),
        (0.0, -0.0),
        (1 + 2j, 1 - 2j),
        (complex("nan"), complex("inf")),
        ("a", "b"),
        ("a\udc80", "a"),
        (b"a", "a"),
        ([1, None], [None, 1]),
    ],
)
def test_plain_values_are_told_apart(returned: Callable[[Any], Any], one: Any, other: Any) -> None:
    assert exact(returned, one) == exact(returned, one)
    assert exact(returned, one) != exact(returned, other)


def test_arrays_and_their_scalars_are_compared(returned: Callable[[Any], Any]) -> None:
    numpy = pytest.importorskip("numpy")
    values = [
        numpy.arange(6, dtype="float32").reshape(2, 3),
        numpy.arange(6, dtype="float32").reshape(3, 2),
        numpy.arange(6, dtype="int32").reshape(2, 3),
        numpy.float32(1.5),
        numpy.int64(3),
        numpy.bool_(True),  # noqa: FBT003  (numpy's own)
        numpy.complex64(1j),
        numpy.datetime64("2026-12-01"),
    ]
    told = exact(returned, values)
    assert len({json.dumps(one) for one in told.values()}) == len(values)
    turned = exact(returned, numpy.asfortranarray(values[0]))
    assert turned["returned"] == told["returned.0"]
    assert exact(returned, numpy.float64(0.5)) == exact(returned, 0.5)


def test_arrays_without_bytes_of_their_own_are_named(returned: Callable[[Any], Any]) -> None:
    numpy = pytest.importorskip("numpy")
    values = {
        "objects": numpy.array([object()]),
        "records": numpy.zeros(2, dtype=numpy.dtype([("a", "i1"), ("b", "f8")], align=True)),
        "long": numpy.longdouble(1),
    }
    found = returned(values)
    assert not found.exact
    assert found.not_compared() == (
        "not compared: returned.objects (ndarray), returned.records (ndarray), "
        "returned.long (longdouble)"
    )


def test_modules_and_optimizers_are_their_state(
    returned: Callable[[Any], Any], torch: Any, child: Child
) -> None:
    model = torch.nn.Linear(3, 2)
    told = exact(returned, (model, torch.optim.SGD(model.parameters(), lr=0.5)))
    assert told["returned.0.weight"] == child("digests").of_tensor(model.weight)
    assert told["returned.1.param_groups.0.lr"] == {"value": "0x1.0000000000000p-1"}


def test_tensors_are_hashed_as_ever(
    returned: Callable[[Any], Any], torch: Any, child: Child
) -> None:
    tensor = torch.arange(6.0).reshape(2, 3).t()
    assert exact(returned, tensor) == {"returned": child("digests").of_tensor(tensor)}


@pytest.mark.filterwarnings("ignore:Sparse .* is in beta")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_sparse_tensors_are_compared_by_their_parts(
    returned: Callable[[Any], Any], torch: Any, layout: str
) -> None:
    def sparse(value: float) -> Any:
        dense = torch.eye(4)
        dense[0, 3] = value
        block = {"blocksize": (2, 2)} if layout == "sparse_bsr" else {}
        return dense.to_sparse(layout=getattr(torch, layout), **block)

    told = exact(returned, sparse(2.0))
    assert told == exact(returned, sparse(2.0))
    assert told != exact(returned, sparse(3.0))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:.*quantiz.*")
def test_quantised_and_nested_tensors_are_compared(
    returned: Callable[[Any], Any], torch: Any
) -> None:
    ones = torch.ones(2, 3)
    one, other = (torch.quantize_per_tensor(ones, 1 / n, 0, torch.qint8) for n in (1, 2))
    assert exact(returned, one) != exact(returned, other)
    scales, points = torch.tensor([0.5, 0.25]), torch.tensor([0, 0])
    by_row = torch.quantize_per_channel(ones, scales, points, 0, torch.qint8)
    assert "channels_sha256" in exact(returned, by_row)["returned"]
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert {*exact(returned, nested)} == {"returned.0", "returned.1"}


def test_what_cannot_be_hashed_is_named_and_why(returned: Callable[[Any], Any], torch: Any) -> None:
    endless: list[Any] = []
    endless.append(endless)
    found = returned({"meta": torch.ones(2, device="meta"), "endless": endless, "set": {1}})
    assert not found.exact
    assert "returned.meta (Tensor: NotImplementedError" in found.not_compared()
    assert "(list: too deep)" in found.not_compared()
    assert "returned.set (set)" in found.not_compared()


def test_names_of_what_is_left_out_are_few_and_short(returned: Callable[[Any], Any]) -> None:
    told = returned({f"{number}{'x' * 10_000}": {number} for number in range(50)}).not_compared()
    assert told.endswith(", 45 more")
    assert len(told) < 1_500
    assert (
        returned([1] * 1002)
        .not_compared()
        .startswith("not compared: returned.1000 (int: after the first 1000), ")
    )

"""Workloads: models, options, and steps that are what their options say."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Child = Callable[[str], ModuleType]
TINY = ["vit-tiny", "resnet-tiny", "gpt-tiny"]


@pytest.fixture
def place(child: Child, torch: Any) -> Any:
    return child("place").Place(torch, child("torch_api"), "cpu")


def trained(child: Child, place: Any, recipe: str = "gpt-tiny", **options: Any) -> Any:
    """Train for two steps; `.losses` has their losses."""
    wanted = child("workloads.options").Options(**{"batch": 2, **options})
    child("workloads.options").must_support(place, wanted)
    training = child("workloads.training").Training(
        place, child("workloads.recipes").RECIPES[recipe], wanted, seed=1
    )
    training.losses = []
    for _ in range(2):
        training.step()
        training.losses.append(training.loss.item())
    return training


def weights(training: Any) -> list[Any]:
    return [parameter.detach().clone() for parameter in training.model.parameters()]


def test_the_small_gpt_has_the_size_that_is_written_down(child: Child, torch: Any) -> None:
    gpt = child("workloads.gpt")
    with torch.device("meta"):
        model = gpt.GPT(gpt.SMALL)
    assert sum(parameter.numel() for parameter in model.parameters()) == 41735168


def test_a_gpt_does_not_see_later_tokens(child: Child, torch: Any) -> None:
    gpt = child("workloads.gpt")
    torch.manual_seed(0)
    model = gpt.GPT(gpt.TINY)
    tokens = torch.randint(0, 128, (1, 16))
    changed = tokens.clone()
    changed[0, 9] = (changed[0, 9] + 1) % 128
    one, other = model(tokens), model(changed)
    assert torch.equal(one[:, :9], other[:, :9])
    assert not torch.equal(one[:, 9:], other[:, 9:])


def test_attention_without_the_fused_kernel_is_the_same(
    child: Child, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    vit = child("workloads.vit")
    query, key, value = torch.randn(3, 1, 2, 8, 4)
    fused = vit.attend(query, key, value, causal=True)
    monkeypatch.delattr(vit.functional, "scaled_dot_product_attention")
    torch.testing.assert_close(vit.attend(query, key, value, causal=True), fused)


@pytest.mark.parametrize("recipe", TINY)
def test_activations_computed_again_give_the_same_bits(
    child: Child, place: Any, torch: Any, recipe: str
) -> None:
    plain = trained(child, place, recipe)
    again = trained(child, place, recipe, checkpointing=True)
    assert again.losses == plain.losses
    # Batch normalisation sees every batch twice: only its running statistics may differ.
    assert all(map(torch.equal, weights(again), weights(plain)))


@pytest.mark.parametrize("recipe", ["vit-tiny", "gpt-tiny"])
def test_accumulation_is_one_step_on_the_mean_of_all_gradients(
    child: Child, place: Any, torch: Any, monkeypatch: pytest.MonkeyPatch, *, recipe: str
) -> None:
    recipes, training = child("workloads.recipes"), child("workloads.training")
    options = child("workloads.options").Options
    samples = recipes.RECIPES[recipe].draw(torch, "cpu", 4)
    halves = [tuple(part[first : first + 2] for part in samples) for first in (0, 2)]
    gradients = []
    for wanted, batches in ((options(4), [samples]), (options(2, accumulation=2), halves)):
        one = training.Training(place, recipes.RECIPES[recipe], wanted, seed=1)
        monkeypatch.setattr(one, "draw", iter(batches).__next__)
        monkeypatch.setattr(one.optimizer, "drop_gradients", lambda **_: None)
        one.step()
        gradients.append([parameter.grad for parameter in one.model.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("autocast", ["bf16", "fp16"])
def test_autocast_changes_the_losses_a_little(child: Child, place: Any, autocast: str) -> None:
    plain, cast = trained(child, place), trained(child, place, autocast=autocast)
    assert cast.losses != plain.losses
    assert cast.losses == pytest.approx(plain.losses, rel=0.02)


def test_fp16_scales_the_gradients(child: Child, place: Any) -> None:
    training = trained(child, place, autocast="fp16")
    assert training._scaler.get_scale() == 65536.0
    assert trained(child, place, autocast="bf16")._scaler is None


def test_fp16_without_a_scaler_gives_no_value(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    monkeypatch.delattr(torch.amp, "GradScaler")
    with pytest.raises(child("place").Unmet, match=r"no gradient scaler for cpu.*GradScaler"):
        trained(child, place, autocast="fp16")


def test_channels_last_is_in_weights_and_images(child: Child, place: Any, torch: Any) -> None:
    training = trained(child, place, "resnet-tiny", channels_last=True)
    last = {"memory_format": torch.channels_last}
    assert training.model.stages[0].conv2[0].weight.is_contiguous(**last)
    inputs, _ = training.draw()
    assert inputs.is_contiguous(**last)
    assert not inputs.is_contiguous()


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_are_dropped_or_zeroed(child: Child, place: Any, *, set_to_none: bool) -> None:
    training = trained(child, place, set_to_none=set_to_none)
    gradients = [parameter.grad for parameter in training.model.parameters()]
    if set_to_none:
        assert gradients == [None] * len(gradients)
    else:
        assert not any(gradient.any() for gradient in gradients)


def test_inference_makes_no_graph_and_changes_no_weight(
    child: Child, place: Any, torch: Any
) -> None:
    training = trained(child, place, "vit-tiny")
    before = weights(training)
    outputs = training.infer()
    assert outputs.shape == (2, 10)
    assert not outputs.requires_grad
    assert all(map(torch.equal, weights(training), before))

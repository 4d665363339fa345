"""Packed products equal plain ones, are used only where possible, and never use old weights."""

import pytest
import torch

from breadth.lm import acceleration
from breadth.lm.acceleration import PackedWeights
from breadth.lm.batches import make_batch
from breadth.lm.split_model import SplitModel

pytestmark = pytest.mark.skipif(not acceleration._has_onednn(), reason="this build of torch has no oneDNN products")


@pytest.fixture
def counted(monkeypatch):
    """How many rows every packed product had."""
    rows = []
    own = torch.ops.mkldnn._linear_pointwise

    def count(hidden, *rest):
        rows.append(hidden.shape[:-1].numel())
        return own(hidden, *rest)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", count)
    return rows


@pytest.fixture
def batch():
    return make_batch([[5 + k, 6, 7, 8, 9, 10 + k, 11, 12] for k in range(6)], list(range(6)), "cpu")


def hidden_states(split, batch):
    with torch.inference_mode():
        return split.hidden_states(batch)


@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_packed_products_are_the_plain_ones(tiny, family, batch, counted):
    split = SplitModel(tiny(family).model)
    split.model.eval()
    plain = hidden_states(split, batch)
    assert not counted
    with split.packed.enabled():
        assert torch.allclose(hidden_states(split, batch), plain, atol=1e-5, rtol=1e-5)
    assert set(counted) == {48}
    counted.clear()
    assert torch.equal(hidden_states(split, batch), plain)
    assert not counted


def test_few_rows_and_gradients_are_left_alone(counted):
    layer = torch.nn.Linear(16, 16)
    with PackedWeights(layer).enabled():
        with torch.inference_mode():
            layer(torch.ones(acceleration.PACKED_ROWS - 1, 16))
        layer(torch.ones(64, 16)).sum().backward()
        assert not counted
        with torch.no_grad():
            layer(torch.ones(4, 16, 16))
    assert counted == [64]
    assert layer.weight.grad is not None


def test_frozen_weights_are_packed_once_and_trained_ones_every_time(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
    model[0].weight.requires_grad_(False)
    packed, own = [], torch.ops.mkldnn._reorder_linear_weight
    monkeypatch.setattr(
        torch.ops.mkldnn, "_reorder_linear_weight", lambda weight, rows: packed.append(weight) or own(weight, rows)
    )
    packs, hidden = PackedWeights(model), torch.randn(64, 16)
    for _ in range(3):
        model[1].weight.data.mul_(-2)  # which does not change the weight's version
        with torch.no_grad():
            plain = model(hidden)
            with packs.enabled():
                assert torch.allclose(model(hidden), plain, atol=1e-5)
    assert len(packed) == 4
    once = PackedWeights(model)
    with torch.no_grad(), once.enabled(keep=False):
        model(hidden)
    assert len(packed) == 6
    assert not once.weights


def test_weights_that_are_no_longer_frozen_are_packed_again():
    layer, hidden = torch.nn.Linear(16, 16).requires_grad_(False), torch.randn(64, 16)
    packs = PackedWeights(layer)
    with torch.no_grad(), packs.enabled():
        layer(hidden)
    assert packs.weights
    layer.requires_grad_(True)
    layer.weight.data.mul_(-2)
    with torch.no_grad():
        plain = layer(hidden)
        with packs.enabled():
            assert torch.allclose(layer(hidden), plain, atol=1e-5)
    assert not packs.weights


def test_too_little_memory_or_another_dtype(monkeypatch, counted):
    layer = torch.nn.Linear(16, 16)
    with torch.no_grad(), PackedWeights(layer.to(torch.bfloat16)).enabled():
        layer(torch.ones(64, 16, dtype=torch.bfloat16))
    monkeypatch.setattr(acceleration, "available_memory", lambda: 1000)
    with torch.no_grad(), PackedWeights(layer.float()).enabled():
        layer(torch.ones(64, 16))
    assert not counted


@pytest.mark.parametrize("trouble", ["wrong", "refused"])
def test_disabled_where_it_is_wrong(tiny, monkeypatch, trouble):
    """If packed products differ, or do not exist for these shapes, the plain ones are used."""
    own = torch.ops.mkldnn._linear_pointwise

    def product(*given):
        if trouble == "refused":
            raise RuntimeError("could not create a primitive")
        return own(*given) + 1

    split = SplitModel(tiny().model)
    assert split.agrees([5, 6, 7])
    assert split.packed.supported
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", product)
    assert split.agrees([5, 6, 7])
    assert not split.packed.supported

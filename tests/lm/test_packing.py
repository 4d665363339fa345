"""Packed products give what plain ones give, are used where they may be, and never go stale."""

import pytest
import torch

from breadth.lm import packing
from breadth.lm.batches import make_batch
from breadth.lm.body import Body
from breadth.lm.packing import Packing

pytestmark = pytest.mark.skipif(not packing._has_products(), reason="this build of torch has no oneDNN products")


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


def features(body, batch):
    with torch.inference_mode():
        return body.features(batch)


@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_packed_products_are_the_plain_ones(tiny, family, batch, counted):
    body = Body(tiny(family).model)
    body.model.eval()
    plain = features(body, batch)
    assert not counted
    with body.packing.on():
        assert torch.allclose(features(body, batch), plain, atol=1e-5, rtol=1e-5)
    assert set(counted) == {48}
    counted.clear()
    assert torch.equal(features(body, batch), plain)
    assert not counted


def test_few_rows_and_gradients_are_left_alone(counted):
    layer = torch.nn.Linear(16, 16)
    with Packing(layer).on():
        with torch.inference_mode():
            layer(torch.ones(packing.ROWS - 1, 16))
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
    packs, hidden = Packing(model), torch.randn(64, 16)
    for _ in range(3):
        model[1].weight.data.mul_(-2)  # as nobody would notice who only looked at the weight's version
        with torch.no_grad():
            plain = model(hidden)
            with packs.on():
                assert torch.allclose(model(hidden), plain, atol=1e-5)
    assert len(packed) == 4
    once = Packing(model)
    with torch.no_grad(), once.on(keep=False):
        model(hidden)
    assert len(packed) == 6
    assert not once._frozen


def test_no_room_or_another_kind_of_number(monkeypatch, counted):
    layer = torch.nn.Linear(16, 16)
    with torch.no_grad(), Packing(layer.to(torch.bfloat16)).on():
        layer(torch.ones(64, 16, dtype=torch.bfloat16))
    monkeypatch.setattr(packing, "available_memory", lambda: 1000)
    with torch.no_grad(), Packing(layer.float()).on():
        layer(torch.ones(64, 16))
    assert not counted


@pytest.mark.parametrize("trouble", ["wrong", "refused"])
def test_given_up_where_it_goes_wrong(tiny, monkeypatch, trouble):
    """On a machine whose products differ, or which has none for these shapes, answers come from the plain ones."""
    own = torch.ops.mkldnn._linear_pointwise

    def product(*given):
        if trouble == "refused":
            raise RuntimeError("could not create a primitive")
        return own(*given) + 1

    body = Body(tiny().model)
    assert body.agrees([5, 6, 7])
    assert body.packing.works
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", product)
    assert body.agrees([5, 6, 7])
    assert not body.packing.works

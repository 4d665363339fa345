"""Packed products equal plain ones, are used only where possible, and never use old weights."""

from functools import partial

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from breadth.lm import acceleration
from breadth.lm.acceleration import PackedWeights
from breadth.lm.batches import make_batch
from breadth.lm.layers import gated_feed_forward
from breadth.lm.split_model import SplitModel

pytestmark = pytest.mark.skipif(not acceleration._has_onednn(), reason="this build of torch has no oneDNN products")


@pytest.fixture
def counted(monkeypatch):
    """How many rows every packed product had."""
    rows = []

    def count(own, hidden, *rest):
        rows.append(hidden.shape[:-1].numel())
        return own(hidden, *rest)

    replace_products(monkeypatch, count)
    return rows


def replace_products(monkeypatch, by):
    """Replace both packed products, plain and multiplied by something; ``by`` gets the original first."""
    own = torch.ops.mkldnn._linear_pointwise

    def product(*given):
        return by(own, *given)

    product.binary = partial(by, own.binary)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", product)


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


def test_copies_of_trained_weights_are_kept_only_while_they_do_not_change():
    layer, hidden = torch.nn.Linear(16, 16), torch.randn(64, 16)
    packs = PackedWeights(layer)
    with torch.no_grad(), packs.unchanged():
        with packs.rounded(), packs.enabled():
            layer(hidden)
        with packs.enabled():
            layer(hidden)
        assert set(packs.weights[layer.weight]) == {torch.bfloat16, torch.float32}
    assert not packs.weights


class ScaledMLP(LlamaMLP):
    """Has the parts of a gated feed-forward part, and does something else besides, as Falcon-H1's does."""

    def forward(self, x):
        return 1.02 * super().forward(x)


def mlp(cls=LlamaMLP, **options):
    torch.manual_seed(0)
    return cls(LlamaConfig(hidden_size=16, intermediate_size=48, num_attention_heads=2, **options)).eval()


def packed_result(module, hidden):
    with torch.no_grad(), PackedWeights(module).enabled():
        return module(hidden)


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_pytorch_tanh", "relu"])
@pytest.mark.parametrize("bias", [False, True])
def test_gated_feed_forward_parts_are_computed_as_one(counted, activation, bias):
    module, hidden = mlp(hidden_act=activation, mlp_bias=bias), torch.randn(4, 16, 16)
    with torch.no_grad():
        plain = module(hidden)
    assert (gated_feed_forward(module) is None) == (activation == "relu")
    assert torch.allclose(packed_result(module, hidden), plain, atol=1e-6)
    assert counted == [64] * 3


@pytest.mark.parametrize("trouble", ["scaled", "hook", "own forward", "hook of a part"])
def test_feed_forward_parts_that_do_something_else_are_left_whole(trouble):
    module, hidden = mlp(ScaledMLP if trouble == "scaled" else LlamaMLP), torch.randn(64, 16)
    packs = PackedWeights(module)
    if trouble.startswith("hook"):
        part = module if trouble == "hook" else module.up_proj
        part.register_forward_hook(lambda own, given, out: 1.02 * out)
    if trouble == "own forward":
        module.act_fn.forward = lambda gate: 1.02 * torch.nn.functional.silu(gate)
    with torch.no_grad():
        plain = module(hidden)
        with packs.enabled():
            assert torch.allclose(module(hidden), plain, atol=1e-6)
    assert torch.allclose(packed_result(module, hidden), plain, atol=1e-6)


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

    def product(own, *given):
        if trouble == "refused":
            raise RuntimeError("could not create a primitive")
        return own(*given) + 1

    split = SplitModel(tiny().model)
    assert split.agrees([5, 6, 7])
    assert split.packed.supported
    replace_products(monkeypatch, product)
    assert split.agrees([5, 6, 7])
    assert not split.packed.supported

"""A model of somebody else's loop is recognised, and left as it was."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from breadth.errors import InputError
from breadth.lm.borrowed import as_found, borrow, unwrapped
from breadth.lm.layers import attach_lora
from breadth.lm.tiny import tiny_config


@pytest.fixture
def loaded(tiny):
    return tiny()


def test_everything_is_left_as_found(loaded):
    model = attach_lora(loaded.model, dropout=0.1)
    model.train()
    model.get_base_model().model.layers[1].eval()  # as a loop that freezes one block does
    model(input_ids=torch.arange(5)[None], labels=torch.arange(5)[None]).loss.backward()
    before = snapshot(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with as_found(model):
            assert not torch.is_autocast_enabled("cpu")
            model.eval()
            random.random()
            np.random.rand()  # noqa: NPY002
            torch.rand(3)
            rotary = model.get_base_model().model.rotary_emb
            rotary.register_buffer("inv_freq", rotary.inv_freq * 2)
            rotary.longest = 7
        assert torch.is_autocast_enabled("cpu")
    same(before, snapshot(model))


def test_everything_is_left_as_found_after_an_error(loaded):
    loaded.model.train()
    before = snapshot(loaded.model)

    def fail():
        loaded.model.eval()
        torch.rand(1)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"), as_found(loaded.model):
        fail()
    same(before, snapshot(loaded.model))


def snapshot(model):
    return {
        "modes": [module.training for module in model.modules()],
        "names": [sorted(vars(module)) for module in model.modules()],
        "buffers": [(name, id(value), value.clone()) for name, value in model.named_buffers()],
        "weights": [(name, weight.requires_grad, weight.detach().clone()) for name, weight in model.named_parameters()],
        "gradients": [None if weight.grad is None else weight.grad.clone() for weight in model.parameters()],
        "random": (random.getstate(), torch.get_rng_state(), *np.random.get_state()),  # noqa: NPY002
    }


def same(one, other):
    if isinstance(one, dict):
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            same(*pair)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert np.array_equal(one, other)


def test_wrappers_are_seen_through(loaded):
    adapted = attach_lora(loaded.model)
    compiled = torch.compile(adapted)
    assert compiled is not adapted
    for wrapped in (adapted, nn.DataParallel(adapted), compiled, nn.DataParallel(compiled)):
        assert unwrapped(wrapped) is adapted
        assert borrow(wrapped, loaded.tokenizer).model is adapted


def test_a_borrowed_model_is_described(loaded, tiny):
    described = borrow(loaded.model, loaded.tokenizer)
    assert (described.name, described.device, described.dtype, described.bos) == ("llama", "cpu", "float32", False)
    assert borrow(loaded.model.bfloat16(), loaded.tokenizer, "mine").dtype == "bfloat16"
    other = tiny("opt")
    assert borrow(other.model, other.tokenizer).bos


def test_a_forward_in_autocast_is_evaluated_without(loaded):
    """As accelerate prepares a model for mixed precision."""
    model, ids = loaded.model, torch.arange(3, 40)[None]
    with torch.no_grad():
        plain = model(input_ids=ids).logits
        model._original_forward = model.forward
        wrapped = torch.autocast("cpu", dtype=torch.bfloat16)(model.forward)
        model.forward = wrapped
        assert not torch.equal(model(input_ids=ids).logits, plain)
        with as_found(model):
            assert torch.equal(model(input_ids=ids).logits, plain)
    assert model.forward is wrapped


def not_causal():
    import transformers

    small = {
        "num_hidden_layers": 1,
        "hidden_size": 8,
        "num_attention_heads": 1,
        "intermediate_size": 8,
        "vocab_size": 9,
    }
    yield nn.Linear(2, 2)
    yield "smollm2-135m"
    yield transformers.LlamaForSequenceClassification(tiny_config("llama"))
    yield transformers.LlamaModel(tiny_config("llama"))
    yield transformers.BertForMaskedLM(transformers.BertConfig(**small))
    yield transformers.T5ForConditionalGeneration(
        transformers.T5Config(d_model=8, d_ff=8, num_layers=1, num_heads=1, vocab_size=9)
    )


@pytest.mark.parametrize("model", [*not_causal()], ids=lambda model: type(model).__name__)
def test_what_is_not_a_causal_language_model(model, loaded):
    with pytest.raises(InputError, match=f"^{type(model).__name__}: is not a causal language model of transformers; "):
        borrow(model, loaded.tokenizer)


def test_weights_spread_over_processes(loaded):
    next(loaded.model.parameters()).ds_id = 0  # as ZeRO-3 marks them
    with pytest.raises(InputError, match="spread over processes"):
        borrow(loaded.model, loaded.tokenizer)

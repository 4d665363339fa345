import pytest
import torch
import transformers

from breadth.errors import InputError
from breadth.lm.adapters import attach_lora, trainable, unfreeze
from breadth.lm.layers import base_model_of, decoder_layers, head_of, lora_targets
from breadth.lm.tiny import tiny_config

IDS = torch.arange(3, 13).reshape(1, -1)


def make(family):
    torch.manual_seed(0)
    if family == "gpt2":
        config = transformers.GPT2Config(vocab_size=128, n_embd=32, n_layer=4, n_head=4)
    else:
        config = tiny_config(family)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(params=["llama", "opt", "olmo2", "gemma3", "gpt2"])
def model(request):
    return make(request.param)


def test_adapters_sit_where_they_were_asked_for(model):
    wanted = lora_targets(model, "attention", 2)
    before = model(input_ids=IDS).logits
    adapted = attach_lora(model, rank=4, alpha=8, dropout=0.0, targets="attention", layers=2)
    names = trainable(adapted)
    assert {name.removeprefix("base_model.model.").split(".lora_")[0] for name in names} == set(wanted)
    assert len(names) == 2 * len(wanted)
    assert torch.equal(adapted(input_ids=IDS).logits, before)


def test_parts_are_found_under_adapters(model):
    blocks, base, head = decoder_layers(model).blocks, base_model_of(model), head_of(model)
    targets = lora_targets(model, "all")
    adapted = attach_lora(model, rank=2)
    assert decoder_layers(adapted).blocks is blocks
    assert base_model_of(adapted) is base
    assert head_of(adapted) is head
    assert lora_targets(adapted, "all") == targets


def test_a_step_changes_adapters_only(model):
    adapted = attach_lora(model, rank=2)
    before = {name: parameter.clone() for name, parameter in adapted.named_parameters()}
    optimiser = torch.optim.SGD(trainable(adapted).values(), lr=1.0)
    adapted(input_ids=IDS, labels=IDS).loss.backward()
    optimiser.step()
    changed = {name for name, parameter in adapted.named_parameters() if not torch.equal(parameter, before[name])}
    # B begins at zero, so that the first step moves B and leaves A, whose gradient passes through B.
    assert changed == {name for name in before if "lora_B" in name}


def test_more_than_twenty_targets_stay_exact():
    """PEFT shortens long lists of targets to suffixes; none may be caught that was not named."""
    config = tiny_config("llama")
    config.num_hidden_layers = 12
    model = transformers.AutoModelForCausalLM.from_config(config)
    wanted = lora_targets(model, "attention", 11)
    assert len(wanted) == 44
    adapted = attach_lora(model, rank=2, layers=11)
    assert {name.removeprefix("base_model.model.").split(".lora_")[0] for name in trainable(adapted)} == set(wanted)


def test_the_seed_decides_and_the_surroundings_do_not():
    def drawn(seed, noise):
        model = make("llama")
        torch.manual_seed(noise)
        weights = trainable(attach_lora(model, rank=2, seed=seed))
        after = torch.rand(1)
        return torch.cat([weight.flatten() for weight in weights.values()]), after

    first, after = drawn(1, 5)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    assert torch.equal(first, drawn(1, 6)[0])
    assert not torch.equal(first, drawn(2, 5)[0])


def test_adapters_are_not_stacked():
    adapted = attach_lora(make("llama"), rank=2)
    with pytest.raises(InputError, match="already carries adapters"):
        attach_lora(adapted, rank=2)


NORMS = {
    "llama": "model.norm",
    "opt": "model.decoder.final_layer_norm",
    "olmo2": "model.norm",
    "gemma3": "model.norm",
    "gpt2": "transformer.ln_f",
}


@pytest.mark.parametrize("family", NORMS)
def test_top_blocks_and_final_norm(family):
    model = make(family)
    unfreeze(model, 2)
    inside = {
        name
        for name, module in model.named_modules()
        if module in list(decoder_layers(model).blocks)[2:] or name == NORMS[family]
    }
    expected = {f"{name}.{rest}" for name in inside for rest, _ in model.get_submodule(name).named_parameters()}
    assert set(trainable(model)) == expected
    assert not model.get_input_embeddings().weight.requires_grad


def test_all_means_all(model):
    unfreeze(model, 1)
    unfreeze(model, "all")
    assert set(trainable(model)) == {name for name, _ in model.named_parameters()}
    with pytest.raises(InputError, match="9 were asked for"):
        unfreeze(model, 9)


def test_a_quantised_model_is_not_tuned_in_full():
    model = make("llama")
    model.is_quantized = True
    with pytest.raises(InputError, match="quantised model cannot be tuned in full"):
        unfreeze(model)

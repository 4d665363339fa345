import pytest
import torch
import transformers
from torch import nn

from breadth.errors import InputError
from breadth.lm.layers import (
    attach_ia3,
    attach_lora,
    base_model_of,
    decoder_layers,
    head_of,
    ia3_targets,
    lora_targets,
    trainable,
    unfreeze,
    unfreeze_biases,
)
from breadth.lm.tiny import tiny_config

SHAPE = {"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
SMALL = {**SHAPE, "intermediate_size": 64, "num_key_value_heads": 2, "pad_token_id": 0}
SEPARATE = {"q_proj", "k_proj", "v_proj", "o_proj"}
GATED = {"gate_proj", "up_proj", "down_proj"}

#: Configuration, path of the blocks, attention's linear modules, the others.
FAMILIES = {
    "opt": (
        lambda: transformers.OPTConfig(**SHAPE, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64),
        "model.decoder.layers",
        {"q_proj", "k_proj", "v_proj", "out_proj"},
        {"fc1", "fc2"},
    ),
    "opt projected": (
        lambda: transformers.OPTConfig(**SHAPE, ffn_dim=64, word_embed_proj_dim=16, do_layer_norm_before=False),
        "model.decoder.layers",
        {"q_proj", "k_proj", "v_proj", "out_proj"},
        {"fc1", "fc2"},
    ),
    "olmo2": (lambda: transformers.Olmo2Config(**SMALL), "model.layers", SEPARATE, GATED),
    "gemma3": (lambda: transformers.Gemma3TextConfig(**SMALL, head_dim=8), "model.layers", SEPARATE, GATED),
    "llama": (lambda: transformers.LlamaConfig(**SMALL), "model.layers", SEPARATE, GATED),
    "qwen2": (lambda: transformers.Qwen2Config(**SMALL), "model.layers", SEPARATE, GATED),
    "smollm3": (lambda: transformers.SmolLM3Config(**SMALL), "model.layers", SEPARATE, GATED),
    "gpt2": (
        lambda: transformers.GPT2Config(**SHAPE),
        "transformer.h",
        {"c_attn", "attn.c_proj"},
        {"c_fc", "mlp.c_proj"},
    ),
    "gptneox": (
        lambda: transformers.GPTNeoXConfig(**SHAPE, intermediate_size=64),
        "gpt_neox.layers",
        {"query_key_value", "dense"},
        {"dense_h_to_4h", "dense_4h_to_h"},
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    make, path, attention, rest = FAMILIES[request.param]
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(make()).eval(), path, attention, rest


def short_names(names, path):
    """Last parts of full names; with the module above where the last part alone would be ambiguous."""
    tails = [name.removeprefix(f"{path}.").split(".", 1)[1] for name in names]
    last = {tail.rpartition(".")[2] for tail in tails}
    return {".".join(tail.split(".")[-2:]) if "c_proj" in tail else tail.rpartition(".")[2] for tail in tails}, last


def test_blocks_are_found(family):
    model, path, _, _ = family
    parent, attribute, blocks = decoder_layers(model)
    assert blocks is model.get_submodule(path)
    assert getattr(parent, attribute) is blocks
    assert isinstance(blocks, nn.ModuleList)
    assert len(blocks) == 4


def test_head_on_base_gives_the_logits(family):
    model = family[0]
    ids = torch.arange(3, 13).reshape(1, -1)
    with torch.no_grad():
        states = base_model_of(model)(input_ids=ids).last_hidden_state
        assert torch.allclose(head_of(model)(states), model(input_ids=ids).logits, atol=1e-5)


@pytest.mark.parametrize("targets", ["attention", "mlp", "all"])
def test_targets_by_kind(family, targets):
    model, path, attention, rest = family
    names = lora_targets(model, targets, "all")
    expected = {"attention": attention, "mlp": rest, "all": attention | rest}[targets]
    assert short_names(names, path)[0] == expected
    assert len(names) == len(set(names)) == 4 * len(expected)
    assert all(hasattr(model.get_submodule(name), "weight") for name in names)


def test_vectors_scale_keys_values_and_what_enters_the_end_of_a_feed_forward_part(family):
    model, path, attention, _ = family
    inside, outputs = ia3_targets(model, 3)
    expected = {"k_proj", "v_proj"} & attention or {"c_attn", "query_key_value"} & attention
    assert short_names(inside, path)[0] == expected
    assert len(inside) == 3 * len(expected)
    ends = {"down_proj", "fc2", "mlp.c_proj", "dense_4h_to_h"}
    [end] = short_names(outputs, path)[0]
    assert end in ends
    assert len(outputs) == 3


def test_top_layers_only(family):
    model, path, attention, _ = family
    names = lora_targets(model, "attention", 2)
    assert {name.removeprefix(f"{path}.").split(".")[0] for name in names} == {"2", "3"}
    assert len(names) == 2 * len(attention)


def test_more_layers_than_there_are(family):
    with pytest.raises(InputError, match="5 is too many; the model has 4 layers"):
        lora_targets(family[0], "attention", 5)


@pytest.mark.parametrize("layers", [0, -1, True, "top"])
def test_layers_that_are_no_number(layers):
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES["llama"][0]())
    with pytest.raises(InputError, match="give 'all' or a number"):
        lora_targets(model, "attention", layers)


def test_explicit_names():
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES["llama"][0]())
    names = lora_targets(model, ["q_proj", "mlp.up_proj"], 1)
    assert names == ["model.layers.3.self_attn.q_proj", "model.layers.3.mlp.up_proj"]
    with pytest.raises(InputError, match=r"no module 'qproj'\. Did you mean q_proj.*Modules: self_attn\.q_proj"):
        lora_targets(model, ["q_proj", "qproj"])
    with pytest.raises(InputError, match="list is empty"):
        lora_targets(model, [])


def test_a_list_of_other_length_is_not_taken():
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES["llama"][0]())
    model.model.layers = model.model.layers[:3]
    with pytest.raises(InputError, match="has no list of 4 transformer blocks"):
        decoder_layers(model)


def test_an_image_encoder_of_the_same_depth_is_not_taken():
    text = {**SMALL, "head_dim": 8}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = transformers.Gemma3Config(text_config=text, vision_config={**vision, "image_size": 28, "patch_size": 14})
    model = transformers.Gemma3ForConditionalGeneration(config)
    assert type(decoder_layers(model).blocks[0]).__name__ == "Gemma3DecoderLayer"


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


def test_adapters_are_on_the_requested_modules(model):
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
    """PEFT shortens long lists of targets to suffixes; no other module may match."""
    config = tiny_config("llama")
    config.num_hidden_layers = 12
    model = transformers.AutoModelForCausalLM.from_config(config)
    wanted = lora_targets(model, "attention", 11)
    assert len(wanted) == 44
    adapted = attach_lora(model, rank=2, layers=11)
    assert {name.removeprefix("base_model.model.").split(".lora_")[0] for name in trainable(adapted)} == set(wanted)


def test_adapters_depend_only_on_the_seed():
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
    with pytest.raises(InputError, match="has adapters already"):
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
    with pytest.raises(InputError, match="9 is too many"):
        unfreeze(model, 9)


def test_a_quantised_model_is_not_fine_tuned_in_full():
    model = make("llama")
    model.is_quantized = True
    with pytest.raises(InputError, match="full fine-tuning of a quantised model"):
        unfreeze(model)


@pytest.mark.parametrize("layers", [2, "all"])
def test_vectors_begin_as_ones_and_are_all_that_changes(model, layers):
    before = model(input_ids=IDS).logits
    inside, outputs = ia3_targets(model, layers)
    adapted = attach_ia3(model, layers)
    assert torch.equal(adapted(input_ids=IDS).logits, before)
    names = {name.removeprefix("base_model.model.").split(".ia3_l")[0] for name in trainable(adapted)}
    assert names == {*inside, *outputs}
    assert all((weight == 1).all() for weight in trainable(adapted).values())
    # An output is scaled before its product, keys and values after theirs.
    for name in outputs:
        module = model.get_submodule(name)
        assert module.is_feedforward
    assert not any(model.get_submodule(name).is_feedforward for name in inside)
    with pytest.raises(InputError, match="has adapters already"):
        attach_ia3(adapted)


def test_vectors_of_more_than_twenty_modules_are_where_they_belong():
    config = tiny_config("llama")
    config.num_hidden_layers = 12
    model = transformers.AutoModelForCausalLM.from_config(config)
    inside, outputs = ia3_targets(model, 11)
    adapted = attach_ia3(model, 11)
    names = {name.removeprefix("base_model.model.").split(".ia3_l")[0] for name in trainable(adapted)}
    assert names == {*inside, *outputs}
    assert sum(module.is_feedforward for module in adapted.modules() if hasattr(module, "ia3_l")) == 11


@pytest.mark.parametrize("family", ["opt", "gpt2"])
def test_biases_alone_are_trained(family):
    model = make(family)
    unfreeze_biases(model)
    everywhere = trainable(model)
    assert set(everywhere) == {name for name, _ in model.named_parameters() if name.endswith("bias")}
    unfreeze_biases(model, 2)
    at_the_top = set(trainable(model))
    assert 0 < len(at_the_top) < len(everywhere)
    blocks = decoder_layers(model).blocks
    frozen = {id(parameter) for block in blocks[:-2] for parameter in block.parameters()}
    assert not any(id(parameter) in frozen for parameter in trainable(model).values())


@pytest.mark.parametrize("layers", ["all", 2])
def test_a_model_without_biases_is_refused(layers):
    with pytest.raises(InputError, match="method bitfit trains bias terms, and LlamaForCausalLM has none"):
        unfreeze_biases(make("llama"), layers)

"""Trained weights on the disk: PEFT and transformers load them and compute what the trained model computes."""

import json

import pytest
import torch

from breadth.errors import InputError
from breadth.lm import (
    attach_lora,
    base_name,
    estimate_kept_bytes,
    kept_bytes,
    kept_fault,
    load_model,
    readable,
    record_weights,
    refuse_damaged_weights,
    save_weights,
    trainable,
    unfreeze,
)
from breadth.lm.checkpoints import Checkpoint
from breadth.study import Recipe

IDS = torch.tensor([[5, 9, 30, 77, 12]])


def logits(model):
    with torch.inference_mode():
        return model.eval()(input_ids=IDS, use_cache=False).logits


def trained(loaded, method, layers="all"):
    """A model whose trainable weights have moved."""
    from dataclasses import replace

    if method == "lora":
        loaded = replace(loaded, model=attach_lora(loaded.model, rank=4, layers=layers))
    else:
        unfreeze(loaded.model, layers)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in trainable(loaded.model).values():
            weight.add_(0.1 * torch.randn(weight.shape, generator=draw).to(weight.dtype))
    return loaded


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "step-000010").mkdir()
    return tmp_path / "step-000010"


@pytest.mark.parametrize("layers", ["all", 2])
@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_peft_loads_adapters(tiny, tiny_folders, folder, family, layers):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    loaded = trained(tiny(family), "lora", layers)
    save_weights(loaded, folder, str(tiny_folders[family]))
    assert {*files(folder)} == {"adapter_config.json", "adapter_model.safetensors"}
    config = json.loads((folder / "adapter_config.json").read_text())
    base = AutoModelForCausalLM.from_pretrained(config["base_model_name_or_path"], dtype=torch.float32)
    assert torch.equal(logits(PeftModel.from_pretrained(base, folder)), logits(loaded.model))


@pytest.mark.parametrize("layers", ["all", 2])
@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_transformers_loads_whole_weights_and_tokenizer(tiny, folder, family, layers):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = trained(tiny(family), "full", layers)
    loaded.tokenizer.chat_template = "{{ messages[0]['content'] }}!"
    save_weights(loaded, folder, "unused")
    again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert torch.equal(logits(again), logits(loaded.model))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("The cat sat")["input_ids"] == loaded.tokenizer("The cat sat")["input_ids"]
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == "Hi!"


@pytest.mark.parametrize("method", ["lora", "full"])
def test_the_same_weights_are_the_same_bytes(tiny, tmp_path, method):
    loaded = trained(tiny(), method)
    before = logits(loaded.model)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_weights(loaded, tmp_path / name, "base")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert torch.equal(logits(loaded.model), before)
    settings = tmp_path / "a" / "tokenizer_config.json"
    if method == "full":
        assert "local" not in settings.read_text()  # or the bytes would tell whether there was a network
    else:
        modules = json.loads((tmp_path / "a" / "adapter_config.json").read_text())["target_modules"]
        assert modules == sorted(modules)


def test_adapters_of_a_model_in_half_precision_are_float32(tiny_folders, folder):
    from safetensors.torch import load_file

    loaded = load_model(str(tiny_folders["llama"]), dtype="bfloat16", device="cpu")
    save_weights(trained(loaded, "lora"), folder, "base")
    assert {tensor.dtype for tensor in load_file(folder / "adapter_model.safetensors").values()} == {torch.float32}


def test_contradictory_settings_for_writing_texts_do_not_keep_weights_from_being_saved(tiny, folder):
    loaded = trained(tiny(), "full")
    settings = loaded.model.generation_config
    settings.do_sample, settings.temperature, settings.eos_token_id = False, 0.6, 2
    save_weights(loaded, folder, "base")
    assert loaded.model.generation_config is settings
    saved = json.loads((folder / "generation_config.json").read_text())
    assert (saved["eos_token_id"], saved.get("temperature")) == (2, None)


@pytest.mark.parametrize(
    "recipe",
    [{"method": "lora", "rank": 4}, {"method": "lora", "rank": 4, "layers": 2}, {"method": "full", "layers": 2}],
)
def test_the_estimate_is_what_the_weights_take(tiny, tiny_folders, folder, recipe):
    loaded = trained(tiny("olmo2"), recipe["method"], recipe.get("layers", "all"))
    save_weights(loaded, folder, "base")
    estimate = estimate_kept_bytes(str(tiny_folders["olmo2"]), Recipe(**recipe))
    assert estimate == kept_bytes(loaded)
    (weights,) = folder.glob("*.safetensors")
    assert estimate < weights.stat().st_size < estimate + 10_000


def test_adapters_name_their_base_by_a_path_that_holds_anywhere(tiny_folders, monkeypatch):
    monkeypatch.chdir(tiny_folders["llama"].parent)
    assert base_name("llama") == str(tiny_folders["llama"])
    assert base_name("smollm2-135m") == "smollm2-135m"
    assert base_name("org/model") == "org/model"


def changed(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_config.json", "breadth.json"])
@pytest.mark.parametrize("damage", [changed, cut, lambda path: path.unlink()], ids=["changed", "cut", "gone"])
def test_damage_is_noticed(tiny, folder, name, damage):
    save_weights(trained(tiny(), "lora"), folder, "base")
    record_weights(folder, {"step": 10, "kept": "all"})
    assert kept_fault(folder) is None
    damage(folder / name)
    if name == "breadth.json" and not (folder / name).exists():
        assert kept_fault(folder) is None  # a checkpoint as anybody's
        return
    assert kept_fault(folder) is not None
    with pytest.raises(InputError, match="step-000010: is damaged"):
        refuse_damaged_weights(folder)
    unreadable = (folder / name).name == "adapter_model.safetensors" or not (folder / name).exists()
    if damage is not changed and unreadable:
        with pytest.raises(InputError, match="step-000010: is damaged"):
            readable([Checkpoint(10, str(folder))])

"""One model that takes the weights of many checkpoints answers as each of them loaded by its own library does."""

import json
import shutil

import pytest
import torch

from breadth.errors import InputError
from breadth.lm import (
    Batch,
    LoraAdapters,
    SplitModel,
    WholeWeights,
    changed_top,
    group_sums,
    load_model,
    weight_paths,
)

IDS = torch.tensor([[5, 9, 30, 77, 12]])
STEPS = (10, 20, 30)


def logits(model):
    with torch.inference_mode():
        return model(input_ids=IDS, use_cache=False).logits[0, -1]


def sums(folder):
    return group_sums(weight_paths(folder))


def by_peft(base, folder):
    """What PEFT computes when it loads an adapter itself."""
    from peft import PeftModel

    return logits(PeftModel.from_pretrained(load_model(str(base)).model, folder).eval())


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"use_rslora": True},
        {"use_dora": True},
        {"alpha_pattern": {"q_proj": 64}, "rank_pattern": {"v_proj": 2}},
        {"alpha_pattern": {"layers.3.self_attn.q_proj": 64, "q_proj": 2}},
        {"modules_to_save": ["lm_head"]},
        {"lora_bias": True, "init_lora_weights": True},
    ],
    ids=["plain", "rslora", "dora", "patterns", "patterns that overlap", "saved head", "bias of adapters"],
)
def test_adapters_give_what_peft_gives(tmp_path, tiny_base, write_adapters, config):
    folder = write_adapters(tiny_base, tmp_path / "lora", **config)
    paths = [folder / f"checkpoint-{step}" for step in STEPS]
    swapped = LoraAdapters(paths[0], str(tiny_base))
    assert swapped.merges != ("lora_bias" in config)
    for path in (*paths, paths[0]):  # and back again
        swapped.load(path, sums(path))
        # Merging rounds differently, by up to 6e-5 here; a wrong scale or rank differs by more than 0.1.
        torch.testing.assert_close(logits(swapped.language_model.model), by_peft(tiny_base, path), atol=1e-3, rtol=0)


@pytest.mark.parametrize("targets", [["q_proj", "lm_head"], ["q_proj", "embed_tokens"]])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("saved", [True, False])
def test_adapters_of_a_weight_that_head_and_embedding_share(
    tmp_path, tiny_base, write_adapters, monkeypatch, targets, dtype, saved
):
    """Merged into one of them, an adapter would change the other; PEFT saves the shared weight as well, or not."""
    from peft import PeftModel

    own = PeftModel.save_pretrained
    monkeypatch.setattr(
        PeftModel, "save_pretrained", lambda self, folder: own(self, folder, save_embedding_layers=saved)
    )
    folder = write_adapters(tiny_base, tmp_path / "lora", steps=(10, 20), target_modules=targets)
    paths = [folder / f"checkpoint-{step}" for step in (10, 20)]
    swapped = LoraAdapters(paths[0], str(tiny_base), dtype=dtype)
    assert not swapped.merges
    split, tolerance = SplitModel(swapped.language_model.model), 1e-3 if dtype == "float32" else 0.3
    for path in (*paths, paths[0]):
        swapped.load(path, sums(path))
        wanted = by_peft(tiny_base, path)
        torch.testing.assert_close(logits(split.model).float(), wanted, atol=tolerance, rtol=0.1)
        hidden, few = split.hidden_states(Batch([0], IDS)), torch.tensor([3, 99])
        torch.testing.assert_close(split.logits(hidden[0, -1], few).detach(), wanted[few], atol=tolerance, rtol=0.1)


def test_adapters_that_are_not_merged_give_the_same(tiny_base, adapters):
    path = adapters / "checkpoint-20"
    swapped = LoraAdapters(path, str(tiny_base), dtype="bfloat16")
    assert not swapped.merges
    swapped.load(path, sums(path))
    torch.testing.assert_close(
        logits(swapped.language_model.model).float(), by_peft(tiny_base, path), atol=0.3, rtol=0.1
    )


def test_swapping_leaves_no_trace(tiny_base, adapters):
    """Weights do not depend on which checkpoints were there before, to the last bit."""
    paths = [adapters / f"checkpoint-{step}" for step in STEPS]
    alone = LoraAdapters(paths[2], str(tiny_base))
    alone.load(paths[2], sums(paths[2]))
    after = LoraAdapters(paths[0], str(tiny_base))
    for path in paths:
        after.load(path, sums(path))
    assert torch.equal(logits(alone.language_model.model), logits(after.language_model.model))


def test_whole_weights_give_what_loading_each_gives(whole):
    paths = [whole / f"checkpoint-{step}" for step in STEPS]
    swapped = WholeWeights(paths[0], sums(paths[0]))
    for path in (*paths, paths[1]):
        swapped.load(path, sums(path))
        assert torch.equal(logits(swapped.language_model.model), logits(load_model(str(path)).model))


def test_names_that_transformers_converts_are_loaded_by_it(tmp_path, whole):
    """A file without the prefix of the base model is still understood, and loaded afresh each time."""
    from safetensors.torch import load_file, save_file

    paths = [shutil.copytree(whole / f"checkpoint-{step}", tmp_path / f"checkpoint-{step}") for step in STEPS]
    for path in paths:
        tensors = load_file(path / "model.safetensors")
        bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
        save_file(bare, path / "model.safetensors", metadata={"format": "pt"})
    swapped = WholeWeights(paths[0], sums(paths[0]))
    for path in paths:
        swapped.load(path, sums(path))
        assert torch.equal(logits(swapped.language_model.model), logits(load_model(str(whole / path.name)).model))


def test_the_split_is_above_the_layers_that_are_equal(tmp_path, tiny_base, write_adapters, write_whole):
    model = load_model(str(tiny_base)).model

    def top(folder):
        return changed_top(model, [sums(folder / f"checkpoint-{step}") for step in STEPS])

    assert top(write_adapters(tiny_base, tmp_path / "all")) is None
    assert top(write_adapters(tiny_base, tmp_path / "top", layers=2)) == 2
    assert top(write_whole(tiny_base, tmp_path / "upper", pick=lambda name: "layers.3." in name)) == 1
    assert top(write_whole(tiny_base, tmp_path / "middle", pick=lambda name: "layers.1.mlp" in name)) == 3
    assert top(write_whole(tiny_base, tmp_path / "norm", pick=lambda name: name == "model.norm.weight")) == 1
    assert top(write_whole(tiny_base, tmp_path / "below", pick=lambda name: "embed" in name)) is None
    assert changed_top(model, [sums(tiny_base)] * 2) == 1


def test_an_adapter_of_another_model(tmp_path, adapters):
    from breadth.lm import write_tiny_model

    other = write_tiny_model(tmp_path / "opt", "opt")
    with pytest.raises(InputError, match=r"is not an adapter of .*opt, which has no module"):
        LoraAdapters(adapters / "checkpoint-10", str(other))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "breadth evaluates LORA adapters"),
        ({"init_lora_weights": "pissa"}, "changes the base model"),
        ({"lora_alpha": "16"}, "not a number"),
        ({"lora_alpha": float("inf")}, "lora_alpha is inf, not a number"),
        ({"alora_invocation_tokens": [5, 6]}, "alora_invocation_tokens is not supported, .* is not plain LoRA"),
        ({"layer_replication": [[0, 2], [1, 3]]}, "layer_replication is not supported"),
        ({"trainable_token_indices": [3]}, "trainable_token_indices is not supported"),
        ({"alpha_pattern": {"(a+)+$": 8}}, "regular expressions are not evaluated"),
    ],
)
def test_configurations_that_are_refused(tmp_path, tiny_base, adapters, change, message):
    folder = shutil.copytree(adapters / "checkpoint-10", tmp_path / "checkpoint-10")
    config = folder / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    with pytest.raises(InputError, match=message):
        LoraAdapters(folder, str(tiny_base))


def test_a_hostile_configuration_runs_nothing(tmp_path, tiny_base, adapters, monkeypatch):
    """Classes to import, code of a repository and patterns that take for ever are not even looked at."""
    folder = shutil.copytree(adapters / "checkpoint-10", tmp_path / "checkpoint-10")
    (tmp_path / "evil.py").write_text("raise SystemExit('code from a configuration was run')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    hostile = {
        "auto_mapping": {"base_model_class": "Evil", "parent_library": "evil"},
        "target_modules": "(a+)+$" + "a" * 40,
        "base_model_name_or_path": "evil/evil",
        "layers_pattern": "(a+)+$",
        "runtime_config": {"evil": "evil"},
        "custom_modules": "evil",
    }
    config = folder / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **hostile}))
    swapped = LoraAdapters(folder, str(tiny_base))
    swapped.load(folder, sums(folder))
    expected = by_peft(tiny_base, adapters / "checkpoint-10")
    torch.testing.assert_close(logits(swapped.language_model.model), expected, atol=1e-3, rtol=0)


def test_weights_that_are_not_finite(tmp_path, tiny_base, adapters):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(adapters / "checkpoint-10", tmp_path / "checkpoint-10")
    tensors = load_file(folder / "adapter_model.safetensors")
    tensors[next(iter(tensors))][0, 0] = float("nan")
    save_file(tensors, folder / "adapter_model.safetensors")
    with pytest.raises(InputError, match="not finite"):
        LoraAdapters(folder, str(tiny_base))

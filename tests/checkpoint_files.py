"""Checkpoints of a tiny model as trainers write them: adapters saved by PEFT, whole weights by transformers."""

import json


def change(model, pick, seed):
    """Add some noise to the parameters whose names ``pick`` accepts."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if pick(name):
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))


def save(model, folder, step, tokenizer=None):
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []}))


def write_adapters(base, folder, steps=(10, 20, 30), layers="all", rank=4, seed=0, **config):
    """LoRA adapters in directories checkpoint-STEP; each differs from the one before."""
    import torch
    from peft import LoraConfig, get_peft_model

    from breadth.lm import load_model
    from breadth.lm.layers import lora_targets

    model = load_model(str(base)).model
    targets = lora_targets(model, "attention", layers)
    settings = {"r": rank, "lora_alpha": 16, "target_modules": targets, "task_type": "CAUSAL_LM", **config}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = get_peft_model(model, LoraConfig(**settings))
    for step in steps:
        change(adapted, lambda name: "lora_B" in name or "modules_to_save" in name, seed + step)
        save(adapted, folder / f"checkpoint-{step}", step)
    return folder


def write_whole(base, folder, steps=(10, 20, 30), pick=lambda name: "norm" not in name, tokenizer=True):
    """Whole weights in directories checkpoint-STEP; parameters that ``pick`` accepts differ."""
    from breadth.lm import load_model

    loaded = load_model(str(base))
    for step in steps:
        change(loaded.model, pick, step)
        save(loaded.model, folder / f"checkpoint-{step}", step, loaded.tokenizer if tokenizer else None)
    return folder

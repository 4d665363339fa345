"""What is trained: low-rank adapters on some modules, or the weights of some blocks themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from breadth.errors import InputError
from breadth.lm.extra import quiet, require_lm
from breadth.lm.layers import causal_model_of, decoder_layers, lora_targets, top_blocks


def attach_lora(
    model: Any,
    *,
    rank: int = 8,
    alpha: float = 32,
    dropout: float = 0.0,
    targets: str | Sequence[str] = "attention",
    layers: int | str = "all",
    seed: int = 0,
) -> Any:
    """Put low-rank adapters (Hu et al. 2021, arXiv 2106.09685) on a model; everything else is frozen.

    A module's output becomes ``W x + alpha / rank * B A dropout(x)``. ``B`` begins at zero, so the adapted model first
    answers exactly as the bare one; ``A`` depends only on ``seed``. See ``lora_targets`` for targets and layers.
    """
    require_lm("torch", "transformers", "peft")
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    if hasattr(model, "peft_config"):
        raise InputError("the model already carries adapters; load it afresh before new ones are attached")
    names = lora_targets(model, targets, layers)
    make: Any = LoraConfig
    config = make(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=names,
        bias="none",
        task_type="CAUSAL_LM",
        # GPT-2's Conv1D keeps its weight transposed.
        fan_in_fan_out=isinstance(model.get_submodule(names[0]), Conv1D),
    )
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return get_peft_model(model, config)


def unfreeze(model: Any, layers: int | str = "all") -> None:
    """Make weights themselves trainable: all of them, or those of the top blocks and of the final norm.

    With a number of layers the embedding stays frozen, and so does a head that is tied to it.
    """
    inner = causal_model_of(model)
    if getattr(inner, "is_quantized", False):
        raise InputError("a quantised model cannot be tuned in full; use `method: lora`, or leave `quantise` out")
    blocks = top_blocks(model, layers)
    for parameter in inner.parameters():
        parameter.requires_grad_(layers == "all")
    if layers == "all":
        return
    for module in (*blocks, *_final_norms(model)):
        for parameter in module.parameters():
            parameter.requires_grad_(True)


def trainable(model: Any) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name; a tied one stands there once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _final_norms(model: Any) -> list[nn.Module]:
    """Norms beside the stack of blocks; one that belongs to the embedding is not final."""
    parent = decoder_layers(model).parent
    return [
        child
        for name, child in parent.named_children()
        if "norm" in type(child).__name__.lower() and "emb" not in name.lower()
    ]

"""temporary"""

from typing import Any
from torch import nn


def decoder_layers(model: Any) -> Any:
    n = model.config.num_hidden_layers
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == n:
            parent, _, attribute = name.rpartition(".")
            return model.get_submodule(parent), attribute, module


def base_model_of(model: Any) -> Any:
    m = model.get_base_model() if hasattr(model, "peft_config") else model
    return m.base_model


def head_of(model: Any) -> Any:
    return model.get_output_embeddings()

"""In what precision a model that is trained computes, and in what precision its weights are kept. Needs torch.

Half precision is for products and for what is frozen. A weight that is trained is float32, because an update that is
small beside its weight rounds away otherwise: at a learning rate of 5e-6, bfloat16 loses 99 % of full fine-tuning.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch

from breadth.errors import InputError
from breadth.lm.layers import trainable
from breadth.lm.loading import LanguageModel
from breadth.lm.placement import BFLOAT16, NO_LOSS_SCALE, PURE_BFLOAT16


def computing_in(
    dtype: torch.dtype | None, device: torch.device | str, *, keep_casts: bool = False
) -> AbstractContextManager[Any]:
    """A context in which products are computed in ``dtype``; with None, in that of the weights.

    Enter it for one forward pass, in the thread that runs it, and leave it before the backward pass. Autocast may keep
    the weights that it casts until its outermost context ends, and would miss every update until then. One pass uses a
    weight once, so nothing is kept by default; ``keep_casts`` is for a model that writes, one token at a time.
    """
    if dtype is None:
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=dtype, cache_enabled=keep_casts)


def prepare_training(language_model: LanguageModel) -> LanguageModel:
    """Convert what will be trained (see ``attach_lora``, ``unfreeze``) to float32; the result says how to compute.

    Parameters stay the same objects, so embedding and head remain tied. Frozen weights stay as they were loaded. With
    ``dtype: pure-bfloat16``, trained weights are bfloat16 as well.
    """
    name = language_model.dtype
    if name == "float16":
        raise InputError(f"dtype float16: {NO_LOSS_SCALE}")
    kept_in = torch.bfloat16 if name == PURE_BFLOAT16 else torch.float32
    for parameter in trainable(language_model.model).values():
        parameter.data = parameter.data.to(kept_in)
    return replace(language_model, compute=torch.bfloat16 if name == BFLOAT16 else None)


def check_trained_weights(weights: dict[str, torch.nn.Parameter], dtype: str) -> None:
    """Refuse to train weights in half precision, unless the recipe's ``dtype`` asks for it by name."""
    for name, weight in weights.items():
        if weight.dtype is torch.float16 or dtype == "float16":
            raise InputError(f"{name}: {NO_LOSS_SCALE}")
        if weight.dtype is torch.bfloat16 and dtype != PURE_BFLOAT16:
            raise InputError(
                f"{name}: is in bfloat16, in which small updates round away; call breadth.lm.prepare_training first, "
                f"or set the recipe's dtype to {PURE_BFLOAT16}"
            )

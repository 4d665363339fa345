"""A model that belongs to somebody else's training loop: recognised, evaluated, and left exactly as it was."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from breadth.errors import InputError
from breadth.lm.layers import causal_model_of
from breadth.lm.loading import LanguageModel, adds_bos

#: Attributes under which DataParallel, DistributedDataParallel, DeepSpeed and torch.compile keep the model.
_WRAPPED = ("module", "_orig_mod")


def unwrapped(model: Any) -> Any:
    """The model inside the wrappers for several processes and for compilation; a PEFT wrapper stays."""
    while isinstance(model, nn.Module):
        inner = next((model._modules[name] for name in _WRAPPED if name in model._modules), None)
        if inner is None:
            break
        model = inner
    return model


def borrow(model: Any, tokenizer: Any, name: str | None = None) -> LanguageModel:
    """A causal language model of transformers, with or without adapters, as it is used for evaluation.

    ``name`` is by default the name under which the model was loaded.
    """
    model = unwrapped(model)
    _refuse_sharded(model)
    inner: Any = causal_model_of(model)
    kind = type(inner).__name__
    if not getattr(inner, "can_generate", bool)() or getattr(inner.config, "is_encoder_decoder", False):
        raise InputError(
            f"{kind}: is not a causal language model of transformers; pass one that AutoModelForCausalLM loads, with "
            "or without PEFT adapters"
        )
    weight = inner.get_input_embeddings().weight
    named = name or str(getattr(inner.config, "_name_or_path", "")).rstrip("/").rpartition("/")[2] or kind
    dtype = str(weight.dtype).removeprefix("torch.")
    return LanguageModel(named, model, tokenizer, str(weight.device), dtype, adds_bos(tokenizer), ())


@contextmanager
def as_found(model: nn.Module) -> Iterator[None]:
    """Evaluate a model inside this context, and leave it as found: nothing that training depends on changes.

    Afterwards, every attribute and buffer of every module (training mode included) and the random state of Python,
    numpy and torch are what they were; gradients are not computed. Inside, autocast is disabled, also the one that
    accelerate puts around ``forward``: a checkpoint gives the same answers when it is loaded and evaluated later.
    """
    attributes = [(module, {**vars(module)}, {**module._buffers}) for module in model.modules()]
    states = _random_states()
    try:
        with ExitStack() as stack:
            for kind in {"cpu", *(weight.device.type for weight in model.parameters())}:
                stack.enter_context(torch.autocast(kind, enabled=False))
            if "_original_forward" in vars(model):
                vars(model)["forward"] = vars(model)["_original_forward"]
            yield
    finally:
        for module, values, buffers in attributes:
            # Some rotary embeddings register other frequencies for long texts.
            module._buffers.clear()
            module._buffers.update(buffers)
            vars(module).clear()
            vars(module).update(values)
        _restore_random_states(states)


def _random_states() -> tuple[Any, ...]:
    used = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if used else None
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda, mps  # noqa: NPY002


def _restore_random_states(states: tuple[Any, ...]) -> None:
    plain, numpy, cpu, cuda, mps = states
    random.setstate(plain)
    np.random.set_state(numpy)  # noqa: NPY002
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)
    if mps is not None:
        torch.mps.set_rng_state(mps)


def _refuse_sharded(model: Any) -> None:
    """Refuse a model whose weights are spread over processes (FSDP, ZeRO-3): no process could evaluate it alone."""
    weights = model.named_parameters() if isinstance(model, nn.Module) else ()
    if any(
        hasattr(weight, "device_mesh") or hasattr(weight, "ds_id") or "_flat_param" in name for name, weight in weights
    ):
        raise InputError(
            f"{type(model).__name__}: its weights are spread over processes (FSDP or ZeRO-3), so that no process can "
            "evaluate it; save checkpoints and evaluate these, or train with DDP or ZeRO-2"
        )

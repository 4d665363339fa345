"""The parts of a decoder, found by what they are rather than by what a family calls them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import nn

from breadth.errors import InputError, listed


class DecoderLayers(NamedTuple):
    """The stack of transformer blocks, and where it hangs."""

    parent: nn.Module
    attribute: str
    blocks: nn.ModuleList


def causal_model_of(model: Any) -> Any:
    """The transformers model itself, without a PEFT wrapper around it."""
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def base_model_of(model: Any) -> Any:
    """The model without its head: its ``last_hidden_state`` is what the head is applied to.

    The final norm is included, and so is the projection some families (OPT 350m) put after it.
    """
    inner = causal_model_of(model)
    base = inner.base_model
    return base if base is not inner else inner.get_decoder()


def head_of(model: Any) -> Any:
    """The head that turns hidden states into logits over the vocabulary."""
    head = causal_model_of(model).get_output_embeddings()
    if head is None:
        raise InputError(f"{type(causal_model_of(model)).__name__} has no language-model head; it cannot answer")
    return head


def decoder_layers(model: Any) -> DecoderLayers:
    """The list of transformer blocks: as long as the configuration says, of modules that hold attention.

    With a picture encoder of the same depth beside it, the one inside the text decoder is meant.
    """
    inner = causal_model_of(model)
    count = inner.config.get_text_config(decoder=True).num_hidden_layers
    for root in (inner.get_decoder(), inner):
        for parent in root.modules() if isinstance(root, nn.Module) else ():
            for name, child in parent.named_children():
                if isinstance(child, nn.ModuleList) and len(child) == count and all(map(_is_block, child)):
                    return DecoderLayers(parent, name, child)
    raise InputError(f"{type(inner).__name__}: no list of {count} transformer blocks was found in it")


def top_blocks(model: Any, layers: int | str) -> list[nn.Module]:
    """The blocks that are adapted: all, or the last so many."""
    blocks = list(decoder_layers(model).blocks)
    if layers == "all":
        return blocks
    if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
        raise InputError(f"layers: {layers!r} is neither 'all' nor a number of at least 1")
    if layers > len(blocks):
        raise InputError(
            f"layers: {layers} were asked for, but the model has {len(blocks)}; give at most that, or 'all'"
        )
    return blocks[-layers:]


def lora_targets(model: Any, targets: str | Sequence[str] = "attention", layers: int | str = "all") -> list[str]:
    """Full names of the linear modules that get an adapter.

    Parameters
    ----------
    targets
        ``"attention"`` (every projection in an attention module, fused or not), ``"mlp"`` (every other one in a
        block), ``"all"``, or names as the model spells them, such as ``["q_proj", "mlp.up_proj"]``.
    layers
        ``"all"``, or how many blocks from the top.
    """
    blocks = top_blocks(model, layers)
    paths = {id(module): name for name, module in causal_model_of(model).named_modules()}
    found = [
        (f"{paths[id(block)]}.{name}", name, inside) for block in blocks for name, inside in _linear_modules(block)
    ]
    if isinstance(targets, str) and targets in {"attention", "mlp", "all"}:
        wanted = {"attention": (True,), "mlp": (False,), "all": (True, False)}[targets]
        chosen = [full for full, _, inside in found if inside in wanted]
        if not chosen:
            raise InputError(f"targets: the model has no linear modules of kind {targets!r}; there are {_known(found)}")
        return chosen
    names = [targets] if isinstance(targets, str) else list(targets)
    if not names:
        raise InputError("targets: the list is empty; give 'attention', 'mlp', 'all' or names of modules")
    for wanted_name in names:
        if not any(_ends_with(short, wanted_name) for _, short, _ in found):
            last = dict.fromkeys(short.rpartition(".")[2] for _, short, _ in found)
            near = difflib.get_close_matches(wanted_name.rpartition(".")[2], last, n=2, cutoff=0.5)
            hint = f" Did you mean {listed(near)}?" if near else ""
            raise InputError(f"targets: the model has no module {wanted_name!r}.{hint} There are: {_known(found)}")
    return [full for full, short, _ in found if any(_ends_with(short, name) for name in names)]


def feed_forward_of(block: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    """What a block has beside attention: children with linear modules in them, and linear modules of its own."""
    modules, linear = [], []
    for name, child in block.named_children():
        if _is_linear(child):
            linear.append(child)
        elif any(True for _ in _linear_inside(child)) and not _is_attention(name, child) and not _is_block(child):
            modules.append(child)
    return modules, linear


def _known(found: Sequence[tuple[str, str, bool]]) -> str:
    return listed(dict.fromkeys(short for _, short, _ in found), most=20)


def _ends_with(path: str, name: str) -> bool:
    return path == name or path.endswith(f".{name}")


def _is_attention(name: str, module: nn.Module) -> bool:
    kind = type(module).__name__.lower()
    # A norm beside the attention may carry its name ("post_attention_layernorm").
    return ("attn" in name or "attention" in kind) and any(True for _ in _linear_inside(module))


def _is_block(module: nn.Module) -> bool:
    return any(_is_attention(name.rpartition(".")[2], child) for name, child in module.named_modules() if name)


def _is_linear(module: nn.Module) -> bool:
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, nn.Linear | Conv1D) or hasattr(module, "base_layer")


def _linear_inside(module: nn.Module) -> Iterator[str]:
    """Names of linear modules under a module; one that already has an adapter counts once."""
    for name, child in module.named_modules():
        if name and _is_linear(child) and not any(part in name for part in ("base_layer", "lora_")):
            yield name


def _linear_modules(block: nn.Module) -> Iterator[tuple[str, bool]]:
    """Linear modules of a block by their name in it, and whether they belong to attention."""
    modules = dict(block.named_modules())
    for name in _linear_inside(block):
        parts = name.split(".")
        above = (".".join(parts[:k]) for k in range(1, len(parts)))
        yield name, any(_is_attention(path.rpartition(".")[2], modules[path]) for path in above)

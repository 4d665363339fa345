"""The parts of a decoder, recognised by structure rather than by name, and which of them are trained."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from breadth.errors import InputError, listed
from breadth.lm.extra import quiet, require_lm

#: Names of projections for queries and of the attention's output, where keys and values have projections of their own.
QUERIES = frozenset(("q_proj", "o_proj", "out_proj"))

#: Activation functions that oneDNN applies to a product, as it calls them; by their classes in torch and transformers.
ACTIVATIONS = {
    "SiLU": ("swish", ""),
    "SiLUActivation": ("swish", ""),
    "GELUActivation": ("gelu", "none"),
    "GELUTanh": ("gelu", "tanh"),
}


class GatedFeedForward(NamedTuple):
    """A feed-forward part that computes ``down(activation(gate(x)) * up(x))``."""

    module: nn.Module
    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear
    activation: tuple[str, str]

    @property
    def is_plain(self) -> bool:
        """Whether nothing is attached to any of its parts."""
        return not any(map(has_attachments, self.module.modules()))


class DecoderLayers(NamedTuple):
    """The list of transformer blocks, and the module and attribute that hold it."""

    parent: nn.Module
    attribute: str
    blocks: nn.ModuleList


def causal_model_of(model: Any) -> Any:
    """The transformers model itself, without a PEFT wrapper around it."""
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def base_model_of(model: Any) -> Any:
    """The model without its head: the head is applied to its ``last_hidden_state``.

    The final norm is included, and so is the projection after it that some families have (OPT 350m).
    """
    inner = causal_model_of(model)
    base = inner.base_model
    return base if base is not inner else inner.get_decoder()


def head_of(model: Any) -> Any:
    """The head that turns hidden states into logits over the vocabulary."""
    head = causal_model_of(model).get_output_embeddings()
    if head is None:
        raise InputError(
            f"{type(causal_model_of(model)).__name__} has no language-model head, so it cannot be evaluated"
        )
    return head


def decoder_layers(model: Any) -> DecoderLayers:
    """The list of transformer blocks: modules with attention, as many as the configuration says.

    If there is also an image encoder of the same depth, the list inside the text decoder is taken.
    """
    inner = causal_model_of(model)
    count = inner.config.get_text_config(decoder=True).num_hidden_layers
    # Settings may say that there are none, and any empty list of modules would do.
    roots = (inner.get_decoder(), inner) if count else ()
    for root in roots:
        for parent in root.modules() if isinstance(root, nn.Module) else ():
            for name, child in parent.named_children():
                if isinstance(child, nn.ModuleList) and len(child) == count and all(map(_is_block, child)):
                    return DecoderLayers(parent, name, child)
    raise InputError(f"{type(inner).__name__}: has no list of {count} transformer blocks")


def top_blocks(model: Any, layers: int | str) -> list[nn.Module]:
    """The blocks that are trained: all, or the last ``layers`` of them."""
    blocks = list(decoder_layers(model).blocks)
    if layers == "all":
        return blocks
    if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
        raise InputError(f"layers: {layers!r} is wrong; give 'all' or a number of at least 1")
    if layers > len(blocks):
        raise InputError(
            f"layers: {layers} is too many; the model has {len(blocks)} layers, so give at most that, or 'all'"
        )
    return blocks[-layers:]


def lora_targets(model: Any, targets: str | Sequence[str] = "attention", layers: int | str = "all") -> list[str]:
    """Full names of the linear modules to adapt.

    Parameters
    ----------
    targets
        ``"attention"`` (every projection in an attention module, fused or not), ``"mlp"`` (every other linear module
        of a block), ``"all"``, or module names of the model, such as ``["q_proj", "mlp.up_proj"]``.
    layers
        ``"all"``, or a number of blocks counted from the top.
    """
    blocks = top_blocks(model, layers)
    paths = {id(module): name for name, module in causal_model_of(model).named_modules()}
    linear = [
        (f"{paths[id(block)]}.{name}", name, inside) for block in blocks for name, inside in _linear_modules(block)
    ]
    if isinstance(targets, str) and targets in {"attention", "mlp", "all"}:
        wanted = {"attention": (True,), "mlp": (False,), "all": (True, False)}[targets]
        chosen = [full for full, _, inside in linear if inside in wanted]
        if not chosen:
            raise InputError(
                f"targets: the model has no {targets!r} modules; its linear modules are {_list_modules(linear)}"
            )
        return chosen
    names = [targets] if isinstance(targets, str) else list(targets)
    if not names:
        raise InputError("targets: the list is empty; give 'attention', 'mlp', 'all' or module names")
    for wanted_name in names:
        if not any(_ends_with(short, wanted_name) for _, short, _ in linear):
            last = dict.fromkeys(short.rpartition(".")[2] for _, short, _ in linear)
            near = difflib.get_close_matches(wanted_name.rpartition(".")[2], last, n=2, cutoff=0.5)
            hint = f" Did you mean {listed(near)}?" if near else ""
            raise InputError(
                f"targets: the model has no module {wanted_name!r}.{hint} Modules: {_list_modules(linear)}"
            )
    return [full for full, short, _ in linear if any(_ends_with(short, name) for name in names)]


def feed_forward_of(block: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    """A block without its attention: children that contain linear modules, and linear modules of its own."""
    modules, linear = [], []
    for name, child in block.named_children():
        if _is_linear(child):
            linear.append(child)
        elif any(True for _ in _linear_inside(child)) and not _is_attention(name, child) and not _is_block(child):
            modules.append(child)
    return modules, linear


def gated_feed_forward(module: nn.Module) -> GatedFeedForward | None:
    """The parts of a gated feed-forward module, if it has their names and is tested to compute nothing else."""
    children = dict(module.named_children())
    act = children.pop("act_fn", None)
    activation = ACTIVATIONS.get(type(act).__name__)
    if activation is None or set(children) != {"gate_proj", "up_proj", "down_proj"}:
        return None
    gate, up, down = (children[name] for name in ("gate_proj", "up_proj", "down_proj"))
    if act is None or not (type(gate) is type(up) is type(down) is nn.Linear) or gate.weight.device.type != "cpu":
        return None
    parts = GatedFeedForward(module, gate, up, down, activation)
    if not parts.is_plain:
        return None
    hidden = torch.linspace(-1, 1, 4 * gate.in_features).reshape(1, 4, -1).sin().to(gate.weight.dtype)
    with torch.no_grad():
        own, expected = module(hidden), down(act(gate(hidden)) * up(hidden))
    same = isinstance(own, torch.Tensor) and torch.allclose(own, expected, rtol=1e-4, atol=1e-6)
    return parts if same else None


def has_attachments(module: nn.Module) -> bool:
    """Whether something is attached to a module that its class does not say: a hook, or a forward of its own."""
    return bool("forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks)


def query_projections(block: nn.Module) -> list[nn.Module]:
    """The projections of a block's attention whose result for a token serves that token alone: query and output."""
    attention = [child for name, child in block.named_children() if _is_attention(name, child)]
    named = [(name, module) for child in attention for name, module in child.named_children()]
    return [module for name, module in named if name in QUERIES and _is_linear(module)]


def _list_modules(linear: Sequence[tuple[str, str, bool]]) -> str:
    return listed(dict.fromkeys(short for _, short, _ in linear), most=20)


def _ends_with(path: str, name: str) -> bool:
    return path == name or path.endswith(f".{name}")


def _is_attention(name: str, module: nn.Module) -> bool:
    kind = type(module).__name__.lower()
    # A norm next to the attention may have its name ("post_attention_layernorm").
    return ("attn" in name or "attention" in kind) and any(True for _ in _linear_inside(module))


def _is_block(module: nn.Module) -> bool:
    return any(_is_attention(name.rpartition(".")[2], child) for name, child in module.named_modules() if name)


def _is_linear(module: nn.Module) -> bool:
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, nn.Linear | Conv1D) or hasattr(module, "base_layer")


def _linear_inside(module: nn.Module) -> Iterator[str]:
    """Names of the linear modules in a module; one with an adapter counts once."""
    for name, child in module.named_modules():
        if name and _is_linear(child) and not any(part in name for part in ("base_layer", "lora_")):
            yield name


def _linear_modules(block: nn.Module) -> Iterator[tuple[str, bool]]:
    """Names of a block's linear modules, and whether each belongs to attention."""
    modules = dict(block.named_modules())
    for name in _linear_inside(block):
        parts = name.split(".")
        above = (".".join(parts[:k]) for k in range(1, len(parts)))
        yield name, any(_is_attention(path.rpartition(".")[2], modules[path]) for path in above)


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
    """Attach low-rank adapters (Hu et al. 2021, arXiv 2106.09685) to a model and freeze everything else.

    A module's output becomes ``W x + alpha / rank * B A dropout(x)``. ``B`` starts at zero, so the adapted model first
    gives exactly the outputs of the original; ``A`` depends only on ``seed``. For the targets see ``lora_targets``.
    """
    require_lm("torch", "transformers", "peft")
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    if hasattr(model, "peft_config"):
        raise InputError("the model has adapters already; load it again before attaching new ones")
    names = lora_targets(model, targets, layers)
    make: Any = LoraConfig
    config = make(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=names,
        bias="none",
        task_type="CAUSAL_LM",
        # GPT-2's Conv1D stores its weight transposed.
        fan_in_fan_out=isinstance(model.get_submodule(names[0]), Conv1D),
    )
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return get_peft_model(model, config)


def ia3_targets(model: Any, layers: int | str = "all") -> tuple[list[str], list[str]]:
    """Full names of the modules that give keys and values, and of those that end a feed-forward part.

    In every family the last linear module of an attention is its output, as the last of a feed-forward part is. A
    module that gives queries, keys and values together counts, as in PEFT, although its queries are scaled with them.
    """
    paths = {id(module): name for name, module in causal_model_of(model).named_modules()}
    keys_and_values, outputs = [], []
    for block in top_blocks(model, layers):
        place = paths[id(block)]
        attention = [f"{place}.{name}" for name, inside in _linear_modules(block) if inside]
        rest = [f"{place}.{name}" for name, inside in _linear_modules(block) if not inside]
        keys_and_values += [name for name in attention[:-1] if name.rpartition(".")[2] not in QUERIES]
        outputs += rest[-1:]
    return keys_and_values, outputs


def attach_ia3(model: Any, layers: int | str = "all") -> Any:
    """Attach vectors that scale keys, values and inner activations, and freeze everything else.

    This is (IA)3 of Liu et al. 2022, arXiv 2205.05638. The vectors begin as ones, so the adapted model first gives
    exactly the outputs of the original.
    """
    require_lm("torch", "transformers", "peft")
    from peft import IA3Config, get_peft_model
    from transformers.pytorch_utils import Conv1D

    if hasattr(model, "peft_config"):
        raise InputError("the model has adapters already; load it again before attaching new ones")
    keys_and_values, outputs = ia3_targets(model, layers)
    names = [*keys_and_values, *outputs]
    make: Any = IA3Config
    config = make(
        target_modules=names,
        feedforward_modules=outputs,
        task_type="CAUSAL_LM",
        # GPT-2's Conv1D stores its weight transposed.
        fan_in_fan_out=isinstance(model.get_submodule(names[0]), Conv1D),
    )
    with quiet():
        return get_peft_model(model, config)


def unfreeze_biases(model: Any, layers: int | str = "all") -> None:
    """Make bias terms alone trainable (BitFit: Ben Zaken et al. 2022, arXiv 2106.10199), those of norms included.

    With a number of layers, those of the top blocks and the final norm.
    """
    inner = causal_model_of(model)
    modules = [inner] if layers == "all" else [*top_blocks(model, layers), *final_norms(model)]
    for parameter in inner.parameters():
        parameter.requires_grad_(False)
    for module in modules:
        for name, parameter in module.named_parameters():
            if name.rpartition(".")[2] == "bias":
                parameter.requires_grad_(True)
    if not trainable(inner):
        raise InputError(
            f"method bitfit trains bias terms, and {type(inner).__name__} has none there; use method ia3 or lora"
        )


def unfreeze(model: Any, layers: int | str = "all") -> None:
    """Make weights trainable: all, or those of the top blocks and the final norm.

    With a number of layers, the embedding stays frozen, and so does a head that is tied to it.
    """
    inner = causal_model_of(model)
    if getattr(inner, "is_quantized", False):
        raise InputError(
            "full fine-tuning of a quantised model is not possible; use `method: lora`, or remove `quantise`"
        )
    blocks = top_blocks(model, layers)
    for parameter in inner.parameters():
        parameter.requires_grad_(layers == "all")
    if layers == "all":
        return
    for module in (*blocks, *final_norms(model)):
        for parameter in module.parameters():
            parameter.requires_grad_(True)


def trainable(model: Any) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name; tied ones are listed once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def final_norms(model: Any) -> list[nn.Module]:
    """Norms next to the list of blocks, without one that belongs to the embedding."""
    parent = decoder_layers(model).parent
    return [
        child
        for name, child in parent.named_children()
        if "norm" in type(child).__name__.lower() and "emb" not in name.lower()
    ]

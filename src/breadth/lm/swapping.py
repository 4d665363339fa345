"""One loaded model whose weights are exchanged for those of one checkpoint after another. Needs torch.

Loading a model takes longer than reading what a checkpoint changes: adapters are swapped into one base model, and whole
weights are copied into the same modules, only where they differ from those that are there.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from breadth.boundary import first_line, reading
from breadth.errors import InputError, listed
from breadth.lm.checkpoints import ADAPTER_CONFIG, ADAPTER_WEIGHTS, weight_paths
from breadth.lm.extra import quiet, require_lm
from breadth.lm.layers import causal_model_of, decoder_layers, final_norms, head_of
from breadth.lm.loading import LanguageModel, load_model, refuse_degenerate
from breadth.lm.model_files import read_json_object
from breadth.lm.weight_files import ADAPTER_PREFIX, layer_of_tensor

_LORA = re.compile(
    r"^base_model\.model\.(.+?)\.lora_(A|B|embedding_A|embedding_B|magnitude_vector)(?:\.weight|\.bias)?$"
)
_PLAIN = re.compile(r"^[\w.]+$")

#: Settings of adapters that compute something else than plain LoRA, and are not evaluated.
_UNSUPPORTED = (
    *("alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "monteclora_config"),
    *("trainable_token_indices", "use_bdlora", "use_qalora"),
)

#: Ways to initialise an adapter that leave the base model's weights as they are.
_HARMLESS = (None, True, False, "gaussian", "orthogonal")


class SwappableModel(ABC):
    """A model that takes the weights of one checkpoint after another; ``language_model`` is the model as it is now."""

    language_model: LanguageModel

    @abstractmethod
    def load(self, folder: Path, sums: Mapping[str, str]) -> None:
        """Take the weights of a checkpoint; ``sums`` are the checksums of its layers."""

    def unpack(self, top: int | None) -> None:  # noqa: B027
        """Say which weights will change, so that no packed copies of them are kept; ``top`` layers do."""


class WholeWeights(SwappableModel):
    """A model whose checkpoints hold all weights."""

    def __init__(self, folder: Path, sums: Mapping[str, str], tokenizer_of: str | None = None, **options: Any) -> None:
        self.options = {**options, "tokenizer_of": tokenizer_of}
        self.language_model = load_model(str(folder), **self.options)
        self._state = self.language_model.model.state_dict()
        self._sums = dict(sums)
        # Names that transformers converts while it loads are not those of the module; then it has to load every file.
        there = {self._state[name].data_ptr() for name in _tensor_names(folder) if name in self._state}
        self._same_names = all(tensor.data_ptr() in there for tensor in self._state.values())

    def load(self, folder: Path, sums: Mapping[str, str]) -> None:
        """Copy the tensors that differ into the modules."""
        changed = {group for group, total in sums.items() if self._sums.get(group) != total}
        self._sums = {}  # until all are copied
        if changed and self._same_names:
            with torch.no_grad():
                for name, tensor in _tensors(folder):
                    if layer_of_tensor(name) in changed and name in self._state:
                        self._copy(folder, name, tensor)
        elif changed:
            other = load_model(str(folder), **self.options).model.state_dict()
            with torch.no_grad():
                for name in self._state:
                    self._copy(folder, name, other[name])
        refuse_degenerate(self.language_model.model, str(folder))
        self._sums = dict(sums)

    def unpack(self, top: int | None) -> None:
        """Layers below the split never change."""
        blocks = decoder_layers(self.language_model.model).blocks
        self.language_model.model.requires_grad_(True)
        for block in list(blocks)[: 0 if top is None else len(blocks) - top]:
            block.requires_grad_(False)

    def _copy(self, folder: Path, name: str, tensor: torch.Tensor) -> None:
        if tensor.shape != self._state[name].shape:
            raise InputError(
                f"{folder}: {name} is {list(tensor.shape)} and not {list(self._state[name].shape)} as in the other "
                "checkpoints; evaluate them as two models"
            )
        self._state[name].copy_(tensor)


class LoraAdapters(SwappableModel):
    """A base model whose checkpoints hold LoRA adapters.

    In float32 on a CPU, adapters are merged into copies of the weights, so that a pass costs what it costs without
    them; elsewhere merging would lose precision, and they stay beside the weights. So they do if another module uses an
    adapted weight, as embedding and head may do.
    """

    def __init__(self, folder: Path, base: str, quantise: str | None = None, **options: Any) -> None:
        require_lm("torch", "transformers", "peft")
        loaded = load_model(base, quantise=quantise, **options)
        self.base = base
        model = _attach(loaded.model, folder, base)
        self.language_model = replace(loaded, model=model)
        self._layers = [module for module in model.modules() if hasattr(module, "lora_A") and hasattr(module, "merge")]
        suited = [getattr(module.get_base_layer(), "weight", None) for module in self._layers]
        uses = Counter(tensor.data_ptr() for tensor in model.state_dict().values())
        settings = model.peft_config["default"]
        plain = quantise is None and not settings.lora_bias and settings.bias == "none"
        self.merges = plain and all(
            weight is not None
            and weight.dtype is torch.float32
            and weight.device.type == "cpu"
            and uses[weight.data_ptr()] == 1
            for weight in suited
        )
        self._own: list[torch.Tensor] = []
        if self.merges:
            self._own = [module.get_base_layer().weight.detach().clone() for module in self._layers]
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("lora_" in name or "modules_to_save" in name)
        saved = _adapter_tensors(folder)
        for name, parameter in model.named_parameters(remove_duplicate=False):
            if name in saved:  # of an adapted embedding or head, which PEFT saves with the adapter
                parameter.requires_grad_(True)
        for module in self._layers if self.merges else ():
            module.get_base_layer().weight.requires_grad_(True)

    def load(self, folder: Path, sums: Mapping[str, str]) -> None:
        """Put the adapter's tensors into the modules, in place of the last ones."""
        from peft import set_peft_model_state_dict

        tensors = _adapter_tensors(folder)
        with torch.no_grad():
            for module, own in zip(self._layers, self._own, strict=True) if self.merges else ():
                if module.merged:
                    module.unmerge()
                    module.get_base_layer().weight.copy_(own)  # exactly, without what unmerging rounds
            try:
                with quiet():
                    result: Any = set_peft_model_state_dict(self.language_model.model, tensors)
            except (RuntimeError, ValueError, KeyError) as error:
                raise InputError(f"{folder}: does not fit {self.base} ({first_line(error)})") from error
            lacking = [name for name in result.missing_keys if ".lora_" in name or ".modules_to_save." in name]
            if result.unexpected_keys or lacking:
                names = [*result.unexpected_keys, *lacking]
                raise InputError(
                    f"{folder}: does not fit {self.base}, or the other checkpoints: {listed(names, most=3)}"
                )
            for module in self._layers if self.merges else ():
                module.merge()


def changed_top(model: Any, sums: Sequence[Mapping[str, str]]) -> int | None:
    """How many layers, counted from the top, contain all that differs between checkpoints; None for the whole model.

    ``sums`` are the checksums of every checkpoint's layers (see ``group_sums``).
    """
    inner, (_, _, blocks) = causal_model_of(model), decoder_layers(model)
    names = {id(module): name for name, module in inner.named_modules()}
    own, lowest = names[id(blocks)], len(blocks)
    above = {names[id(module)] for module in final_norms(model)}
    head, embedding = head_of(model), inner.get_input_embeddings()
    if head.weight.data_ptr() != embedding.weight.data_ptr():
        above.add(names[id(head)])
    for group in sorted({group for each in sums for group in each}):
        if len({each.get(group) for each in sums}) == 1:
            continue
        prefix, _, number = group.rpartition(".")
        if number.isdigit() and (prefix == own or own.endswith(f".{prefix}")):
            lowest = min(lowest, int(number))
        elif not any(name == group or name.endswith(f".{group}") for name in above):
            return None
    return None if lowest == 0 else max(len(blocks) - lowest, 1)


def _tensor_names(folder: Path) -> list[str]:
    names: list[str] = []
    for path in weight_paths(folder):
        with reading(path, "safetensors"), safe_open(path, framework="pt") as file:
            names += file.keys()
    return names


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for path in weight_paths(folder):
        with reading(path, "safetensors"), safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name)


def _adapter_tensors(folder: Path) -> dict[str, torch.Tensor]:
    with reading(folder / ADAPTER_WEIGHTS, "safetensors"):
        tensors = load_file(folder / ADAPTER_WEIGHTS)
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise InputError(f"{folder}: the weights of {name} are not finite numbers; the file is damaged")
    return tensors


def _attach(model: Any, folder: Path, base: str) -> Any:
    """Attach adapters as a checkpoint has them, but without its weights.

    Modules and ranks are those of its tensors. Of its configuration only the few keys below are used, after a look at
    their values: it may come from anywhere, and PEFT takes classes to import and regular expressions from it.
    """
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    path = folder / ADAPTER_CONFIG
    config, tensors = read_json_object(path), _adapter_tensors(folder)
    if config.get("peft_type") != "LORA":
        raise InputError(f"{path}: is an adapter of type {config.get('peft_type')!r}; breadth evaluates LORA adapters")
    if config.get("init_lora_weights") not in _HARMLESS:
        raise InputError(
            f"{path}: init_lora_weights {config['init_lora_weights']!r} changes the base model; convert the adapter to "
            "plain LoRA, or save whole weights with `merge_and_unload`"
        )
    if unknown := [key for key in _UNSUPPORTED if config.get(key) not in (None, False)]:
        raise InputError(
            f"{path}: {listed(unknown)} is not supported, because such an adapter is not plain LoRA; save whole "
            "weights with `merge_and_unload`"
        )
    matches = {name: match for name in tensors if (match := _LORA.match(name))}
    for name in matches:
        if tensors[name].ndim == 0 or not tensors[name].numel():
            raise InputError(f"{folder / ADAPTER_WEIGHTS}: {name} holds no matrix; copy the adapter again")
    ranks = {match[1]: tensors[name].shape[0] for name, match in matches.items() if match[2] in ("A", "embedding_A")}
    if not ranks:
        raise InputError(f"{folder / ADAPTER_WEIGHTS}: has no LoRA weights")
    others = [name.removeprefix(ADAPTER_PREFIX).rpartition(".") for name in tensors if name not in matches]
    saved = sorted({module for module, _, kind in others if kind != "bias" and not module.endswith(".base_layer")})
    linear = {name: module for name, module in model.named_modules() if name in ranks}
    if absent := sorted(set(ranks) - set(linear)):
        raise InputError(f"{folder}: is not an adapter of {base}, which has no module {listed(absent, most=3)}")
    for name, module in linear.items():
        _check_adapter_shapes(folder, name, module, tensors)
    rank = Counter(ranks.values()).most_common(1)[0][0]
    alpha = _read_number(path, config, "lora_alpha", rank)
    make: Any = LoraConfig
    settings = make(
        r=rank,
        lora_alpha=alpha,
        rank_pattern={name: own for name, own in ranks.items() if own != rank},
        alpha_pattern=_alphas(path, config, list(ranks)),
        target_modules=sorted(ranks),
        modules_to_save=saved or None,
        bias="all" if any(kind == "bias" and module not in saved for module, _, kind in others) else "none",
        use_rslora=config.get("use_rslora") is True,
        use_dora=config.get("use_dora") is True,
        lora_bias=any(".lora_B.bias" in name for name in tensors),
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in linear.values()),
        task_type="CAUSAL_LM",
    )
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            return get_peft_model(model, settings).eval()
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{folder}: its adapter cannot be attached to {base} ({first_line(error)})") from error


def _check_adapter_shapes(folder: Path, name: str, module: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse the two matrices of an adapted module if they do not fit it: PEFT makes room by the rank before it looks.

    Those of an embedding are stored the other way round.
    """
    weight = getattr(module, "weight", None)
    sides = ("lora_A.weight", "lora_B.weight")
    first, second = (tensors.get(f"{ADAPTER_PREFIX}{name}.{side}") for side in sides)
    if weight is None or weight.ndim != 2 or first is None:
        return
    size = {*getattr(getattr(module, "quant_state", None), "shape", weight.shape)}
    fits = second is not None and first.ndim == second.ndim == 2 and first.shape[0] == second.shape[1]
    if second is None or not fits or {first.shape[1], second.shape[0]} != size:
        shapes = f"{list(first.shape)} and {None if second is None else list(second.shape)}"
        raise InputError(
            f"{folder / ADAPTER_WEIGHTS}: the matrices of {name} are {shapes}, which do not fit {list(weight.shape)}"
        )


def _read_number(path: Path, values: Mapping[str, Any], key: str, default: float) -> float:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{path}: {key} is {value!r}, not a number")
    return value


def _alphas(path: Path, config: Mapping[str, Any], modules: Sequence[str]) -> dict[str, float]:
    """Modules with a scale of their own; names that are regular expressions are refused."""
    patterns = config.get("alpha_pattern") or {}
    if not isinstance(patterns, dict) or not all(_PLAIN.match(key) for key in patterns):
        raise InputError(f"{path}: alpha_pattern must name modules; regular expressions are not evaluated")
    return {
        module: _read_number(path, patterns, key, 0.0)
        for key in reversed(patterns)  # the first one that matches counts
        for module in modules
        if module == key or module.endswith(f".{key}")
    }

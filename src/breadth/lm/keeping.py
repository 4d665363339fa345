"""Trained weights written as PEFT and transformers write them, and how much disk that takes. Needs torch.

An adapter is ``adapter_config.json`` and ``adapter_model.safetensors``; a whole model comes with its tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from breadth.boundary import first_line
from breadth.errors import InputError
from breadth.lm.checkpoints import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from breadth.lm.extra import quiet
from breadth.lm.layers import lora_targets
from breadth.lm.loading import HUB_ID, LanguageModel, locate, read_weight_headers
from breadth.lm.model_files import check_model_files
from breadth.lm.skeleton import build_skeleton

#: Larger weights are written in several files, so that none is too large for a file system or a copy.
SHARD = "5GB"

#: Bytes of a trained weight: they are float32 wherever something is trained.
WEIGHT_BYTES = 4


def save_weights(loaded: LanguageModel, folder: Path, base: str) -> None:
    """Write the adapters of a model, or the whole model if it has none, into an empty directory.

    The same weights give the same bytes. ``base`` is what adapters call the model that they belong to.
    """
    from safetensors import SafetensorError

    try:
        if hasattr(loaded.model, "peft_config"):
            _save_adapter(loaded.model, folder, base)
        else:
            _save_whole(loaded, folder)
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{folder.parent}: the weights cannot be written ({first_line(error)}); free some space, then run the same "
            "command again"
        ) from error


def _save_adapter(model: Any, folder: Path, base: str) -> None:
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    settings = model.peft_config["default"].to_dict()
    settings |= {"base_model_name_or_path": base, "inference_mode": True}
    for key, value in settings.items():
        if isinstance(value, set):  # whose order differs from process to process
            settings[key] = sorted(value)
    content = json.dumps(settings, indent=2, sort_keys=True)
    (folder / ADAPTER_CONFIG).write_text(content, encoding="utf-8")
    # "auto" would ask the Hub whether the base model's vocabulary has grown; adapters are in the blocks only.
    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})


def _save_whole(loaded: LanguageModel, folder: Path) -> None:
    with quiet(), _savable(loaded.model):
        loaded.model.save_pretrained(folder, max_shard_size=SHARD)
        loaded.tokenizer.save_pretrained(folder)
    _forget_origin(folder / "tokenizer_config.json")


def _forget_origin(path: Path) -> None:
    """Take out of a tokenizer's settings how it was loaded: from the Hub or not, with a network or without."""
    if not path.is_file():
        return
    settings = json.loads(path.read_text(encoding="utf-8"))
    for key in ("is_local", "local_files_only", "name_or_path"):
        settings.pop(key, None)
    path.write_text(json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def _savable(model: Any) -> Iterator[None]:
    """A model that transformers agrees to save, and that is afterwards as it was.

    Settings for writing texts that contradict each other, which some models come with, make saving fail; then only
    their special tokens are saved. What saving writes into the configuration is taken back.
    """
    from transformers import GenerationConfig

    generation, config = model.generation_config, model.config
    dtype, architectures = config.dtype, config.architectures
    try:
        if generation is not None:
            generation.validate(strict=True)
    except ValueError:
        tokens = {key: getattr(generation, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
        make: Any = GenerationConfig
        model.generation_config = make(**tokens)
    try:
        yield
    finally:
        model.generation_config = generation
        config.dtype, config.architectures = dtype, architectures


def kept_bytes(loaded: LanguageModel) -> int:
    """How much disk the trained weights of a loaded model take."""
    parameters = loaded.model.parameters()
    if hasattr(loaded.model, "peft_config"):
        parameters = (weight for weight in parameters if weight.requires_grad)
    return sum(weight.numel() * weight.element_size() for weight in parameters)


def estimate_kept_bytes(model: str, recipe: Any) -> int | None:
    """The same for a recipe, from a model's configuration alone; None if the configuration is not on this machine."""
    folder = _cached_folder(model)
    if folder is None:
        return None
    try:
        check_model_files(folder, read_weight_headers(folder))
        skeleton = build_skeleton(folder)
    except InputError:  # loading says what is wrong
        return None
    if recipe.method == "full":
        return WEIGHT_BYTES * int(sum(weight.numel() for weight in skeleton.parameters()))
    if recipe.method != "lora":
        return None
    names = lora_targets(skeleton, recipe.targets, recipe.layers)
    sides = sum(sum(skeleton.get_submodule(name).weight.shape) for name in names)
    return WEIGHT_BYTES * int(recipe.rank) * sides


def _cached_folder(model: str) -> Path | None:
    """The directory of a model that is on this machine, be it in the Hub's cache; None if it is not."""
    source, _ = locate(model)
    if Path(source).is_dir():
        return Path(source) if (Path(source) / "config.json").is_file() else None
    if not HUB_ID.match(source):
        return None
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(source, "config.json")
    return Path(config).parent if isinstance(config, str) else None

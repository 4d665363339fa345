"""Whether checkpoints are of one model: tensors, settings and tokenizers that must not differ. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import xxhash

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.lm.checkpoints import ADAPTER_CONFIG, Checkpoint, weight_paths
from breadth.lm.loading import TOKENIZERS
from breadth.lm.model_files import read_json_object
from breadth.lm.weight_files import Tensor, read_tensor_headers

#: Keys of a model's configuration that do not change what its weights compute.
_IDLE = {
    *("_name_or_path", "_commit_hash", "_attn_implementation_autoset", "transformers_version", "architectures"),
    *("torch_dtype", "dtype", "use_cache", "pad_token_id"),
}

#: Keys of an adapter's configuration that change what it computes.
_COMPUTING = ("peft_type", "r", "lora_alpha", "use_rslora", "use_dora", "alpha_pattern", "rank_pattern", "bias")

#: Keys of tokenizer.json that do not change the tokens of a text, but with how it was last used.
_LAST_USE = {"version", "truncation", "padding"}


def check_alike(checkpoints: Sequence[Checkpoint], *, own_tokenizer: bool = False) -> None:
    """Refuse checkpoints of one model whose tensors differ in name or shape, or that compute with other settings.

    With ``own_tokenizer``, whole models may not differ in their tokenizers: that of one of them is used for all.
    """
    first: tuple[Checkpoint, dict[str, Tensor], dict[str, Any]] | None = None
    for each in checkpoints:
        if not each.is_local:
            continue
        tensors = read_tensor_headers(weight_paths(Path(each.place))) or {}
        settings = computing_settings(each)
        if first is None:
            first = each, tensors, settings
            continue
        other, before, settings_before = first
        names = f"{other.place} and {each.place}"
        if each.is_adapter != other.is_adapter:
            raise InputError(f"{names}: one holds an adapter, the other a whole model; give each its own name")
        remedy = "evaluate them as two models, each with its own name"
        if wrong := next(_unlike(before, tensors), None):
            raise InputError(f"{names} have different shapes: {wrong}; {remedy}")
        if wrong := next(_unlike(settings_before, settings), None):
            raise InputError(f"{names} have different settings: {wrong}; {remedy}")
        if own_tokenizer and len({tokenizer_sum(one) for one in (other, each)} - {""}) > 1:
            raise InputError(
                f"{names} have different tokenizers; give the model whose tokenizer all of them use (base: in a study "
                f"file, --base on the command line), or {remedy}"
            )


def _unlike(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *now}):
        pair = [each.get(name) for each in (before, now)]
        shown = [list(each.shape) if isinstance(each, Tensor) else each for each in pair]
        if (None in pair) or shown[0] != shown[1]:
            yield f"{name} is {' and '.join('absent' if each is None else str(each) for each in shown)}"


def computing_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the configuration of a model or an adapter says about what it computes."""
    path = config_path(checkpoint)
    config = read_json_object(path) if path.is_file() else {}
    keys = _COMPUTING if checkpoint.is_adapter else sorted({*config} - _IDLE)
    return {key: config[key] for key in keys if config.get(key) not in (None, {}, False)}


def tokenizer_paths(checkpoint: Checkpoint) -> list[Path]:
    """The files that say how a text becomes tokens, of those that are there."""
    folder = checkpoint.folder()
    return [folder / name for name in (*TOKENIZERS, "merges.txt") if (folder / name).is_file()]


def tokenizer_sum(checkpoint: Checkpoint) -> str:
    """A checksum of a checkpoint's tokenizer; empty if it has none."""
    digest = xxhash.xxh3_128()
    paths = tokenizer_paths(checkpoint)
    for path in paths:
        with reading(path, "tokenizer"):
            content = path.read_bytes()
            digest.update(_lasting(content) if path.name == "tokenizer.json" else content)
    return digest.hexdigest() if paths else ""


@lru_cache(maxsize=2)  # checkpoints have the same one, as a rule
def _lasting(content: bytes) -> bytes:
    """What tokenizer.json says about the tokens of a text, without how it was last used."""
    values = json.loads(content)
    return json.dumps({key: values[key] for key in sorted({*values} - _LAST_USE)}).encode()


def config_path(checkpoint: Checkpoint) -> Path:
    """The configuration of a model or an adapter."""
    return checkpoint.folder() / (ADAPTER_CONFIG if checkpoint.is_adapter else "config.json")

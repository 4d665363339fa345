"""A model without its weights, compared with the files that hold them. Needs torch.

transformers builds a model by its settings first and looks for its weights afterwards. Whatever the files lack is
filled with random numbers, which takes the memory that the settings declare, not that of the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.lm.extra import quiet
from breadth.lm.weight_files import Tensor

#: How many times the weights of the files a model may have: some compute a part of theirs, as sines of positions.
MOST_EXTRA = 2

#: Weights that any model may have beside those in its files.
FREE = 1_000_000

#: Bytes of tables that a model computes when it is built, whatever the size of its weights: masks and positions.
MOST_TABLES = 512_000_000


def check_skeleton(folder: Path, tensors: Mapping[str, Tensor] | None) -> None:
    """Refuse a model whose settings need far more memory than its weights; ``tensors`` are those of its files."""
    path = folder / "config.json"
    model = build_skeleton(folder)
    held = sum(tensor.end - tensor.begin for tensor in (tensors or {}).values())
    tables = sum(table.numel() * table.element_size() for table in model.buffers())
    if tables > max(MOST_TABLES, held):
        raise InputError(f"{path}: needs {tables:,} bytes of tables beside its weights; copy the model again")
    # Quantised weights are packed: bytes of the file are fewer than weights of the model.
    if tensors is None or getattr(model.config, "quantization_config", None) is not None:
        return
    declared = sum(weight.numel() for weight in model.parameters())
    elements = sum(_count(tensor) for tensor in tensors.values())
    if declared > MOST_EXTRA * elements + FREE:
        raise InputError(
            f"{path}: declares a model of {declared:,} weights, and its files hold {elements:,}; copy the model again"
        )


def build_skeleton(folder: Path) -> Any:
    """A model as its settings describe it, without memory for its weights."""
    import torch
    import transformers

    configs: Any = transformers.AutoConfig
    models: Any = transformers.AutoModelForCausalLM
    path = folder / "config.json"
    try:
        with quiet(), reading(path, "the settings of a language model"), torch.device("meta"):
            config = configs.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
            return models.from_config(config, trust_remote_code=False)
    except InputError as error:
        if "trust_remote_code" in str(error.__cause__):
            raise InputError(
                f"{path}: requires code from its own repository (auto_map), which breadth does not run"
            ) from error
        raise


def _count(tensor: Tensor) -> int:
    """The elements of a tensor."""
    elements = 1
    for size in tensor.shape:
        elements *= size
    return elements

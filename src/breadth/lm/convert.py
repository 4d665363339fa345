"""From a GGUF file to a directory that transformers loads: float32 weights in safetensors, and the tokenizer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from breadth.errors import InputError, listed
from breadth.lm.extra import quiet, require_lm

#: Called with the stage, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


def convert(gguf: Path, folder: Path, *, needs_bos: bool, progress: Progress) -> None:
    """Write ``config.json``, ``model.safetensors`` and the tokenizer's files for a GGUF file into ``folder``.

    Weights are dequantised once, so that loading later need not do it, and fine-tuning works. Where the model needs
    its BOS token in front of every prompt, the saved tokenizer puts it there.
    """
    require_lm("torch", "transformers", "gguf")
    import torch
    import transformers
    from safetensors import SafetensorError

    tokenizers: Any = transformers.AutoTokenizer
    models: Any = transformers.AutoModelForCausalLM

    with quiet(), _counted_tensors(progress):
        progress("reading the tokenizer", 0, 1)
        tokenizer = tokenizers.from_pretrained(str(gguf.parent), gguf_file=gguf.name, local_files_only=True)
        if needs_bos:
            tokenizer.add_bos_token = True
        tokenizer.save_pretrained(str(folder))
        model, found = models.from_pretrained(
            str(gguf.parent),
            gguf_file=gguf.name,
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
        )
        if found["missing_keys"]:
            raise InputError(f"{gguf.name}: has no weights for {listed(sorted(found['missing_keys']), most=3)}")
        # Loading leaves a mark that the weights are quantised, which they no longer are; saving would fail on it.
        model.hf_quantizer = None
        model.is_quantized = False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        progress("writing the weights", 0, 1)
        # One file whatever its size, so that a model is one name and one size to check.
        try:
            model.save_pretrained(str(folder), max_shard_size="100GB")
        except SafetensorError as error:
            # A full disk, said by a library that does not use the system's own exception.
            raise OSError(str(error)) from error


@contextmanager
def _counted_tensors(progress: Progress) -> Iterator[None]:
    """Report tensors as they are dequantised; transformers would draw a bar of its own over ours."""
    # By its path: transformers fills its namespace lazily, and this module is not always in it.
    reader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")

    def counted(tensors: Iterable[Any], **_: Any) -> Iterator[Any]:
        everything = list(tensors)
        for done, tensor in enumerate(everything):
            progress("dequantising", done, len(everything))
            yield tensor

    bar = getattr(reader, "tqdm", None)
    if bar is None:
        yield
        return
    reader.tqdm = counted
    try:
        yield
    finally:
        reader.tqdm = bar

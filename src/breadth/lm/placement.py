"""On what a model runs and in what precision: the user's wish, checked, or the choice for this machine with its why."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any

from breadth.errors import InputError

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Placement:
    """Arguments for ``from_pretrained``, where to move the model afterwards, and notes on why."""

    dtype: Any
    dtype_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    move_to: str | None = None
    notes: tuple[str, ...] = ()


def place(dtype: str = "auto", device: str = "auto", quantise: str | None = None) -> Placement:
    """Decide on device, precision and quantisation."""
    import torch

    if dtype not in DTYPES:
        raise InputError(f"dtype: {dtype!r} is not one of {', '.join(DTYPES)}")
    chosen, device_note = _choose_device(device)
    kind = chosen.partition(":")[0]
    name, dtype_note = _choose_dtype(dtype, kind)
    arguments: dict[str, Any] = {}
    notes = [device_note, dtype_note]
    several = kind == "cuda" and device == "auto" and torch.cuda.device_count() > 1
    if quantise is not None:
        arguments["quantization_config"] = _quantisation(quantise, kind, getattr(torch, name))
        notes.append(f"weights in {quantise}: asked for")
    if several:
        arguments["device_map"] = "auto"
        notes.append(f"layers spread over {torch.cuda.device_count()} GPUs by accelerate")
    elif quantise is not None:
        # Quantised weights are made on the GPU and cannot be moved there later.
        arguments["device_map"] = {"": chosen}
    return Placement(
        getattr(torch, name), name, arguments, None if arguments.get("device_map") else chosen, tuple(notes)
    )


def _choose_device(device: str) -> tuple[str, str]:
    import torch

    cuda = torch.cuda.is_available()
    if device == "auto":
        return ("cuda", "device cuda: a GPU was found") if cuda else ("cpu", "device cpu: no CUDA GPU found")
    try:
        parsed = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device: {device!r} is not a device; give auto, cpu, cuda, cuda:0, ... or mps") from error
    if parsed.type == "cuda":
        if not cuda:
            raise InputError(f"device: {device!r} was asked for, but torch finds no CUDA GPU; use auto or cpu")
        if parsed.index is not None and parsed.index >= torch.cuda.device_count():
            raise InputError(f"device: there is no {device!r}; torch finds {torch.cuda.device_count()} CUDA GPUs")
    elif parsed.type == "mps":
        if not torch.backends.mps.is_available():
            raise InputError("device: 'mps' was asked for, but this machine has none; use auto or cpu")
    elif parsed.type != "cpu":
        raise InputError(f"device: {device!r} is not supported; give auto, cpu, cuda, cuda:0, ... or mps")
    return str(parsed), f"device {parsed}: asked for"


def _choose_dtype(dtype: str, kind: str) -> tuple[str, str]:
    import torch

    if dtype != "auto":
        return dtype, f"{dtype}: asked for"
    if kind != "cuda":
        return "float32", f"float32: half precision is not used on {kind} unless asked for"
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return "bfloat16", "bfloat16: the GPU supports it"
    return "float32", "float32: the GPU does not support bfloat16"


def _quantisation(quantise: str, kind: str, dtype: Any) -> Any:
    if quantise not in {"4bit", "8bit"}:
        raise InputError(f"quantise: {quantise!r} is neither 4bit nor 8bit")
    if kind != "cuda":
        raise InputError(f"quantise: {quantise} needs a CUDA GPU, and the model runs on {kind}; leave quantise out")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise InputError(f"quantise: {quantise} needs bitsandbytes; install with: pip install bitsandbytes")
    import transformers

    make: Any = transformers.BitsAndBytesConfig
    if quantise == "8bit":
        return make(load_in_8bit=True)
    return make(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)

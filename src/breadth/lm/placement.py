"""Where a model runs and in what precision, as requested or chosen for this machine, and how much memory is free."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import psutil

from breadth.errors import InputError

Dtype = Literal["auto", "float32", "mixed", "bfloat16", "float16", "pure-bfloat16"]
Quantisation = Literal["4bit", "8bit"]

#: Weights in float32, of which a CPU computes products in bfloat16 where that cannot change an answer.
MIXED = "mixed"

#: Frozen weights and products in bfloat16; what is trained is float32.
BFLOAT16 = "bfloat16"

#: Everything in bfloat16, also what is trained and the optimiser's moments.
PURE_BFLOAT16 = "pure-bfloat16"

#: What is known about training in bfloat16 alone (full fine-tuning of SmolLM2, the recipe of level-transfer).
PURE_WARNING = (
    "weights and optimiser in bfloat16 hardly learn, because small updates round away: in 40 steps at lr 5e-6, the "
    "loss of SmolLM2 went from 5.54 to 5.84 where float32 went from 3.55 to 0.83, and its weights moved 0.9% as far in "
    "that direction; dtype bfloat16 computes in bfloat16 and trains weights in float32"
)

#: Why nothing is trained in float16.
NO_LOSS_SCALE = (
    "training in float16 needs a loss scale, which breadth does not have, so small gradients would become 0; "
    "use bfloat16 or float32"
)

#: The format of the weights, where its name is not the requested one.
_WEIGHTS = {MIXED: "float32", PURE_BFLOAT16: "bfloat16"}

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Placement:
    """Arguments for ``from_pretrained``, the device to move the model to afterwards, and the reasons as notes.

    ``dtype`` is that of the weights, ``dtype_name`` what was requested or chosen.
    """

    dtype: Any
    dtype_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    move_to: str | None = None
    notes: tuple[str, ...] = ()


def place(dtype: str = "auto", device: str = "auto", quantise: str | None = None) -> Placement:
    """Choose device, precision and quantisation."""
    import torch

    if dtype not in get_args(Dtype):
        raise InputError(f"dtype: {dtype!r} is not one of {', '.join(get_args(Dtype))}")
    chosen, device_note = _choose_device(device)
    kind = chosen.partition(":")[0]
    name, dtype_note = _choose_dtype(dtype, kind)
    arguments: dict[str, Any] = {}
    notes, weights = [device_note, dtype_note], getattr(torch, _WEIGHTS.get(name, name))
    several = kind == "cuda" and device == "auto" and torch.cuda.device_count() > 1
    if quantise is not None:
        arguments["quantization_config"] = _quantisation(quantise, kind, weights)
        notes.append(f"weights in {quantise}: as requested")
    if several:
        arguments["device_map"] = "auto"
        notes.append(f"layers spread over {torch.cuda.device_count()} GPUs by accelerate")
    elif quantise is not None:
        # Quantised weights are created on the GPU and cannot be moved there later.
        arguments["device_map"] = {"": chosen}
    return Placement(weights, name, arguments, None if arguments.get("device_map") else chosen, tuple(notes))


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
            raise InputError(f"device: {device!r} needs a CUDA GPU, and torch finds none; use auto or cpu")
        if parsed.index is not None and parsed.index >= torch.cuda.device_count():
            raise InputError(f"device: {device!r} does not exist; torch finds {torch.cuda.device_count()} CUDA GPUs")
    elif parsed.type == "mps":
        if not torch.backends.mps.is_available():
            raise InputError("device: 'mps' is not available on this machine; use auto or cpu")
    elif parsed.type != "cpu":
        raise InputError(f"device: {device!r} is not supported; give auto, cpu, cuda, cuda:0, ... or mps")
    return str(parsed), f"device {parsed}: as requested"


def _choose_dtype(dtype: str, kind: str) -> tuple[str, str]:
    import torch

    if dtype == MIXED and kind != "cpu":
        raise InputError(f"dtype: mixed is for CPUs, and the model runs on {kind}; use bfloat16")
    if dtype == MIXED and not has_bfloat16():
        return "float32", "float32 instead of mixed: this CPU has no bfloat16 instructions"
    if dtype != "auto":
        return dtype, f"{dtype}: as requested"
    if kind != "cuda":
        return "float32", f"float32: half precision is used on {kind} only on request"
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return "bfloat16", "bfloat16: the GPU supports it"
    return "float32", "float32: the GPU does not support bfloat16"


def has_bfloat16() -> bool:
    """Whether this CPU multiplies numbers in bfloat16; without such instructions that is slower than in float32."""
    import torch

    return any(value for name, value in torch.cpu.get_capabilities().items() if name.endswith("bf16"))


def _quantisation(quantise: str, kind: str, dtype: Any) -> Any:
    if quantise not in get_args(Quantisation):
        raise InputError(f"quantise: {quantise!r} is not one of {', '.join(get_args(Quantisation))}")
    if kind != "cuda":
        raise InputError(f"quantise: {quantise} needs a CUDA GPU, and the model runs on {kind}; remove quantise")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise InputError(f"quantise: {quantise} needs bitsandbytes; install with: pip install bitsandbytes")
    import transformers

    make: Any = transformers.BitsAndBytesConfig
    if quantise == "8bit":
        return make(load_in_8bit=True)
    return make(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def available_memory(device: Any = "cpu") -> int:
    """Bytes of memory that are free on a device, within the limit of a container."""
    import torch

    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    return min(psutil.virtual_memory().available, _container_memory())


def _container_memory() -> int:
    """Bytes that a control group leaves; without a limit, more than any machine has."""
    try:
        limit, used = (int((_CGROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no control group of version 2, or "max"
        return 2**62
    return max(limit - used, 0)

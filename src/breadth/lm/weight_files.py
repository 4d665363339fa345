"""Safetensors files as they lie on the disk: what they declare, whether they are whole, which layers two of them share.

Tensors are compared by checksums of their bytes, without torch: a file is read once, in blocks.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from breadth.boundary import reading
from breadth.errors import InputError

#: Most bytes of a header; the safetensors library has the same limit.
MOST_HEADER = 100_000_000

#: Bits of an element, by the names that safetensors has for its kinds.
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6},
}

#: No size or place in a file is larger; products of larger ones are beyond what libraries count with.
_LARGEST = 1 << 48

_BLOCK = 1 << 22
#: Up to the first number in a tensor's name: the layer it belongs to.
_LAYER = re.compile(r"^(.*?\.\d+)\.")
_LORA = re.compile(r"\.lora_(?:embedding_)?(A|B)(?:\.|$)")

#: What PEFT puts in front of the names of a model's own modules.
ADAPTER_PREFIX = "base_model.model."


class Tensor(NamedTuple):
    """A tensor as a header declares it; ``begin`` and ``end`` are positions in the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: Path) -> dict[str, Tensor] | None:
    """The tensors of a file by name; None if the file is shorter than it declares: it is being written, or was cut."""
    # A disk may refuse the read of a file that it let us open, and that error does not say which file it is.
    with reading(path, "safetensors"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) == 8 and length > MOST_HEADER:
            raise InputError(f"{path}: is not a safetensors file")
        if len(start) < 8 or size < 8 + length:
            return None
        values = json.loads(file.read(length))
    if not isinstance(values, dict):
        raise InputError(f"{path}: is not a safetensors file")
    tensors = {name: _tensor(path, value, 8 + length) for name, value in values.items() if name != "__metadata__"}
    _check_places(path, tensors.values(), 8 + length)
    end = max((tensor.end for tensor in tensors.values()), default=8 + length)
    return tensors if size >= end else None


def _tensor(path: Path, value: Any, offset: int) -> Tensor:
    try:
        dtype, shape, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
        numbers = [*shape, begin, end]
        bits = _BITS[dtype]
    except (TypeError, ValueError, KeyError) as error:
        raise _wrong_header(path) from error
    # The text "8", a truth value or 1e9 are numbers to Python, and none of them is one in a header.
    if any(type(number) is not int or not 0 <= number <= _LARGEST for number in numbers):
        raise _wrong_header(path)
    if begin > end or math.prod(shape) * bits != 8 * (end - begin):
        raise _wrong_header(path)
    return Tensor(dtype, tuple(shape), offset + begin, offset + end)


def _check_places(path: Path, tensors: Iterable[Tensor], start: int) -> None:
    """Refuse tensors that share bytes, or leave some unused: the same bytes would be read any number of times."""
    place = start
    for tensor in sorted(tensors, key=lambda each: (each.begin, each.end)):
        if tensor.begin != place:
            raise _wrong_header(path)
        place = tensor.end


def _wrong_header(path: Path) -> InputError:
    return InputError(f"{path}: is not a safetensors file (its header is wrong); copy it again")


def read_tensor_headers(paths: Iterable[Path]) -> dict[str, Tensor] | None:
    """The tensors of several files together; None if one of the files is not whole."""
    tensors: dict[str, Tensor] = {}
    for path in paths:
        header = read_header(path)
        if header is None:
            return None
        tensors |= header
    return tensors


def layer_of_tensor(name: str) -> str:
    """The layer that a tensor belongs to, or else its module.

    >>> layer_of_tensor("model.layers.3.mlp.up_proj.weight"), layer_of_tensor("base_model.model.lm_head.weight")
    ('model.layers.3', 'lm_head')
    """
    own = name.removeprefix(ADAPTER_PREFIX)
    if match := _LAYER.match(own):
        return match[1]
    if match := _LORA.search(own):
        return own[: match.start()]
    return own.rpartition(".")[0] or own


def group_sums(paths: Sequence[Path]) -> dict[str, str]:
    """A checksum per layer (or module outside the layers) of everything in it.

    An adapter whose ``lora_B`` is zero changes nothing, so it counts as none.
    """
    sums: dict[str, list[str]] = defaultdict(list)
    contents = dict(_tensor_sums(paths))
    for name, (total, zero) in sorted(contents.items()):
        if not _is_idle(name, zero, contents):
            sums[layer_of_tensor(name)].append(f"{name} {total}")
    return {group: xxhash.xxh3_128_hexdigest("\n".join(lines).encode()) for group, lines in sums.items()}


def _is_idle(name: str, zero: bool, contents: Mapping[str, tuple[str, bool]]) -> bool:
    """Whether a tensor belongs to an adapter that adds nothing."""
    match = _LORA.search(name)
    if match is None or any(f"{name[: match.start()]}.lora_magnitude" in other for other in contents):
        return False
    if match[1] == "B":
        return zero
    twin = contents.get(name[: match.start(1)] + "B" + name[match.end(1) :])
    return twin is not None and twin[1]


def _tensor_sums(paths: Sequence[Path]) -> Iterator[tuple[str, tuple[str, bool]]]:
    """The checksum of every tensor, and whether it is all zero."""
    for path in paths:
        tensors = read_header(path)
        if tensors is None:
            raise InputError(f"{path}: is incomplete; copy the checkpoint again")
        with reading(path), path.open("rb", buffering=0) as file:
            for name, tensor in sorted(tensors.items(), key=lambda entry: entry[1].begin):
                digest, zero = xxhash.xxh3_128(f"{tensor.dtype} {tensor.shape} ".encode()), True
                file.seek(tensor.begin)
                left = tensor.end - tensor.begin
                while left:
                    block = file.read(min(left, _BLOCK))
                    if not block:
                        raise InputError(f"{path}: became shorter while it was read; copy the checkpoint again")
                    digest.update(block)
                    zero = zero and block.count(0) == len(block)
                    left -= len(block)
                yield name, (digest.hexdigest(), zero)

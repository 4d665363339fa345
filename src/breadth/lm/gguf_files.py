"""The header of a GGUF file, walked before a library reads it: every count and length in it may lie.

The ``gguf`` package reads beyond the end of a file without noticing, as often as a count says.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import IO

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.sources import regular_file

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)

#: struct's letter for each kind of value that has a fixed size; 8 is a text, 9 a list.
_KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9

#: Most layers, most of anything else that is a number of a model, and most sizes of a tensor.
MOST_LAYERS, MOST_SIZE, MOST_DIMENSIONS = 1_000, 1 << 24, 8

#: No kind of weights takes less than a bit.
_ELEMENTS_PER_BYTE = 8


def check_gguf(path: Path) -> None:
    """Refuse a GGUF file whose header declares more than the file holds."""
    size = regular_file(path)
    with reading(path, "GGUF"), path.open("rb") as file:
        _Walk(path, file, size).check()


class _Walk:
    """A walk over a header, which never reads more than the file has left."""

    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self.path, self.file, self.size = path, file, size

    def check(self) -> None:
        """Read everything in front of the weights."""
        if self._bytes(4) != _MAGIC or self._number("I") not in _VERSIONS:
            raise self._refusal("is not a GGUF file that breadth reads")
        tensors, values = self._number("Q"), self._number("Q")
        # The shortest value and the shortest tensor take more than eight bytes.
        if 8 * (tensors + values) > self.size:
            raise self._refusal(f"declares {tensors:,} tensors and {values:,} settings")
        for _ in range(values):
            self._check_setting()
        for _ in range(tensors):
            self._check_tensor()

    def _check_setting(self) -> None:
        name, kind = self._text(), self._number("I")
        if kind == _TEXT:
            self._text()
        elif kind == _LIST:
            self._check_list(name)
        else:
            value = self._value(name, kind)
            most = MOST_LAYERS if name.endswith("block_count") else MOST_SIZE
            is_model = not name.startswith(("general.", "tokenizer.")) and kind not in {6, 12}
            if is_model and value > most:
                raise self._refusal(f"{name} is {value:,}")

    def _check_list(self, name: str) -> None:
        kind, count = self._number("I"), self._number("Q")
        letter = "Q" if kind == _TEXT else self._letter(name, kind)
        if count * struct.calcsize(letter) > self.size:
            raise self._refusal(f"{name} has {count:,} elements")
        if kind != _TEXT:
            self._bytes(count * struct.calcsize(letter))
            return
        for _ in range(count):
            self._text()

    def _check_tensor(self) -> None:
        name, dimensions = self._text(), self._number("I")
        if dimensions > MOST_DIMENSIONS:
            raise self._refusal(f"{name} has {dimensions:,} dimensions")
        shape = [self._number("Q") for _ in range(dimensions)]
        self._number("I")  # the kind of its numbers, which the library knows
        place = self._number("Q")
        if math.prod(shape) > _ELEMENTS_PER_BYTE * self.size or place > self.size:
            raise self._refusal(f"{name} is {shape} at byte {place:,}")

    def _value(self, name: str, kind: int) -> float:
        return self._number(self._letter(name, kind))

    def _letter(self, name: str, kind: int) -> str:
        if kind not in _KINDS:
            raise self._refusal(f"{name} is of the unknown kind {kind}")
        return _KINDS[kind]

    def _text(self) -> str:
        return self._bytes(self._number("Q")).decode("utf-8", "replace")

    def _number(self, letter: str) -> int:
        (value,) = struct.unpack(f"<{letter}", self._bytes(struct.calcsize(letter)))
        return value  # type: ignore[no-any-return]

    def _bytes(self, count: int) -> bytes:
        if count > self.size - self.file.tell():
            raise self._refusal("is shorter than it declares")
        return self.file.read(count)

    def _refusal(self, why: str) -> InputError:
        return InputError(f"{self.path}: {why} in {self.size:,} bytes; its header is wrong, so copy it again")

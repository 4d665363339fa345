"""How many values a Parquet file declares, by its footer: one row may hold a list of a billion.

polars does not say it before it has read them. The footer is in Thrift's compact protocol
(https://github.com/apache/parquet-format); of its fields, only the number of values of every column chunk is used.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from breadth.errors import InputError

# Types of fields in the compact protocol. True and false are types of their own.
_TRUE, _FALSE, _BYTE, _INT16, _INT32, _INT64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

#: Where the footer says it: row groups of the file, columns of a row group, and the values of a column.
_ROW_GROUPS, _COLUMNS, _META_DATA, _NUM_VALUES = 4, 1, 3, 5


def declared_values(file: BinaryIO, name: object) -> int:
    """Number of values in all columns of a Parquet file, those of lists counted one by one."""
    total = 0
    try:
        end = file.seek(-8, 2)
        (length,) = struct.unpack("<I", file.read(4))
        file.seek(max(end - length, 0))
        footer = _Reader(file.read(length)).struct()
        for group in footer[_ROW_GROUPS]:
            for column in group[_COLUMNS]:
                total += int(column[_META_DATA][_NUM_VALUES])
    except (IndexError, KeyError, TypeError, ValueError, RecursionError, struct.error) as error:
        raise InputError(f"{name}: cannot be read as PARQUET; its footer is damaged") from error
    return total


class _Reader:
    """Reads values of the compact protocol one after the other. Structs are dictionaries by the number of a field."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("an integer of more than 64 bits")

    def number(self) -> int:
        """An integer whose last bit is its sign."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while True:
            header = self.byte()
            if header == 0:
                return fields
            step, kind = header >> 4, header & 0x0F
            number = number + step if step else self.number()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind)

    def value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # in lists, true and false take a byte
            return self.byte()
        if kind in (_INT16, _INT32, _INT64):
            return self.number()
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            header = self.byte()
            size = header >> 4
            if size == 15:
                size = self.varint()
            return [self.value(header & 0x0F) for _ in range(size)]
        if kind == _MAP:
            return self._map()
        length = 8 if kind == _DOUBLE else self.varint()
        self.place += length
        return self.content[self.place - length : self.place]

    def _map(self) -> dict[Any, Any]:
        size = self.varint()
        if size == 0:
            return {}
        kinds = self.byte()
        return {self.value(kinds >> 4): self.value(kinds & 0x0F) for _ in range(size)}

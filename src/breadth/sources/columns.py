"""Columns of logs are declared, and one engine reads them.

A tool's module says what it needs of a record, where it stands, of what type it is and whether it must be there:

    COLUMNS = Columns(
        Column("item", "sample_id", text, required=True),
        Column("score", "evaluation.score", a_number),
        Column("model", "model_id|model.name", text),
    )

What needs code (margins from log-probabilities, retries, epochs) stands beside its declaration.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from breadth.errors import InputError
from breadth.sources.source_files import SourceFile, parse

#: Turns the value at a path into what a column holds; None means that nothing usable is there.
Converter = Callable[[Any], Any]


def as_is(value: Any) -> Any:
    """The value, whatever it is."""
    return value


def json_list(value: Any) -> list[Any] | None:
    """A list of JSON."""
    return value if isinstance(value, list) else None


def whole_number(value: Any) -> int | None:
    """A whole number; a truth value is none."""
    return value if type(value) is int else None


def text(value: Any) -> str | None:
    """A text, which may be empty."""
    return value if isinstance(value, str) else None


def json_object(value: Any) -> dict[str, Any] | None:
    """An object of JSON."""
    return value if isinstance(value, dict) else None


@dataclass(frozen=True)
class Column:
    """One thing that is read of every record.

    ``path`` leads through nested objects by dots; alternatives, tried in order, are separated by ``|``. By default it
    is the column's name. ``type`` converts what is there and gives None for what cannot be used. Where nothing
    usable is found, the column is ``default``; if it is ``required``, the record is refused. If it is ``strict``, it
    may be absent, but the record is refused where something else is there: a number of an epoch that is not a whole
    number must not be taken for the first epoch.
    """

    name: str
    path: str = ""
    type: Converter = as_is
    required: bool = False
    default: Any = None
    strict: bool = False


class Columns:
    """The columns of a kind of record, and the one engine that reads them."""

    def __init__(self, *columns: Column) -> None:
        """Take the paths apart once, not for every record."""
        self.columns = columns
        # Objects in which columns lie, each after the one that it lies in: every one is looked up once a record.
        objects: dict[tuple[str, ...], int] = {(): 0}
        for column in columns:
            for path in _parsed_paths(column.path or column.name):
                for depth in range(1, len(path)):
                    objects.setdefault(path[:depth], len(objects))
        self._objects = [(objects[path[:-1]], path[-1]) for path in objects if path]
        self._plan = []
        for column in columns:
            places = [(objects[path[:-1]], path[-1]) for path in _parsed_paths(column.path or column.name)]
            checked = column.required or column.strict
            self._plan.append((column, column.name, column.type, places, checked))

    def read(self, record: Any, where: str) -> dict[str, Any]:
        """The columns of one record by name; ``where`` is what a message calls the record."""
        if not isinstance(record, dict):
            raise InputError(f"{where}: expected a JSON object; the file is damaged")
        objects = [record]
        for outer, key in self._objects:
            inner = objects[outer].get(key)
            objects.append(inner if isinstance(inner, dict) else {})
        values: dict[str, Any] = {}
        for column, name, convert, places, checked in self._plan:
            value = None
            for outer, key in places:
                value = convert(objects[outer].get(key))
                if value is not None:
                    break
            if value is None:
                value = _default(column, record, where) if checked else column.default
            values[name] = value
        return values

    def read_rows(self, file: SourceFile) -> Iterator[tuple[str, dict[str, Any]]]:
        """The columns of every row of a file of JSON, each with what a message calls it."""
        for line, content in file.rows():
            where = f"{file.path}, line {line}"
            yield where, self.read(parse(content, str(file.path), line), where)


@cache
def _parsed_paths(alternatives: str) -> list[tuple[str, ...]]:
    return [tuple(path.split(".")) for path in alternatives.split("|")]


def _default(column: Column, record: Any, where: str) -> Any:
    """What a column holds where nothing usable is; refused where that must not be."""
    if column.required or column.strict:
        paths = _parsed_paths(column.path or column.name)
        for path in paths:
            found = _value_at(record, path)
            if found is not None:
                shown = reprlib.repr(found)  # however large it is, or deeply nested
                raise InputError(f"{where}: {'.'.join(path)} is {shown}, which cannot be used; the file is damaged")
        if column.required:
            names = " or ".join(".".join(path) for path in paths)
            raise InputError(f"{where}: has no {names}; the file is damaged")
    return column.default


def _value_at(record: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(record, dict):
            return None
        record = record.get(key)
    return record

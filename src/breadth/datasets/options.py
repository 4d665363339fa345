"""Options of a question: lists in whatever form a file holds them, their letters, and which one is right."""

from __future__ import annotations

import ast
import json
import string
from typing import Any

from breadth.errors import InputError, listed, unknown_column
from breadth.records import Table

LETTERS = string.ascii_uppercase


def letters(count: int) -> list[str]:
    """A, B, C ... for so many options."""
    return list(LETTERS[:count])


def read_options(table: Table, column: str) -> list[list[str]]:
    """The options of every row: a list, or a list written as text (JSON or Python).

    >>> import polars as pl
    >>> read_options(Table(pl.DataFrame({"o": ['["yes", "no"]']}), "t"), "o")
    [['yes', 'no']]
    """
    if column not in table.frame.columns:
        raise unknown_column(column, table.frame.columns, table.name, "the options of an item")
    return [_options(value, table.place(row, column)) for row, value in enumerate(table.frame[column].to_list())]


def _options(value: Any, place: str) -> list[str]:
    if isinstance(value, str):
        value = _from_text(value, place)
    if not isinstance(value, list) or len(value) < 2 or any(option is None for option in value):
        raise InputError(f"{place}: two options or more are needed, as a list of texts; found {str(value)[:60]!r}")
    if len(value) > len(LETTERS):
        raise InputError(f"{place}: has {len(value)} options; at most {len(LETTERS)} can be told apart by letters")
    texts = [str(option) for option in value]
    if any(not text.strip() for text in texts):
        raise InputError(f"{place}: an option is empty")
    if any("\0" in text for text in texts):
        raise InputError(f"{place}: an option holds a NUL character; remove it from the file")
    return texts


def _from_text(text: str, place: str) -> Any:
    for read in (json.loads, ast.literal_eval):  # the latter reads literals only and runs nothing
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise InputError(f'{place}: {text[:60]!r} is no list of options; write it as ["first", "second"]')


def right_letter(answer: Any, options: list[str], names: list[str], place: str) -> str:
    """The letter of the right option, given by its name, its text, or its position counted from 0.

    >>> right_letter("2", ["liquid", "gas"], ["1", "2"], "row 1"), right_letter(0, ["x", "y"], ["A", "B"], "row 1")
    ('B', 'A')
    """
    said = str(answer).strip()
    if said in names:
        return LETTERS[names.index(said)]
    if options.count(said) == 1:
        return LETTERS[options.index(said)]
    if said.isdecimal() and int(said) < len(options):
        return LETTERS[int(said)]
    raise InputError(
        f"{place}: {said[:60]!r} is none of the options; give the letter ({listed(names)}), the text, or the position "
        "counted from 0"
    )


def lined_up(options: list[str]) -> str:
    """The options one per line with their letters, for a prompt."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))

"""How the file of a set is laid out, and its conversion into the canonical frame.

The frame has columns item, testset, shift, label, the texts, and every other column of the file. Each problem is one
message with file, row and remedy. The functions at the end read the options of items.
"""

from __future__ import annotations

import ast
import hashlib
import json
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from breadth.datasets.tasks import Task
from breadth.errors import InputError, listed, unknown_column
from breadth.sources import Table

#: Names of options.
LETTERS = string.ascii_uppercase

_RESERVED = ("item", "testset", "shift")
_ID = "__id"

#: Raw label to canonical label; None drops the item.
Labels = Mapping[int | str, str | None]
Kind = Literal["nli", "qa", "generated"]


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """How the file of a set is laid out.

    ``columns`` maps canonical column names to the file's. They are used where the canonical name is absent; with
    ``explicit`` they take precedence. ``item`` is the column of ids, ``keep`` a column and the value that rows must
    have, and ``prepare`` turns a raw table into canonical columns (options, worked solutions).
    """

    name: str
    shift: str
    task: Task
    columns: Mapping[str, str] = field(default_factory=dict)
    label: str = "label"
    labels: Labels | None = None
    item: str | None = None
    keep: tuple[str, str] | None = None
    prepare: Callable[[Table], pl.DataFrame] | None = None
    explicit: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry(FileLayout):
    """A set that can be loaded by name: what it is, and where it comes from.

    ``items`` is the number of test items after preprocessing; for generated sets, the maximum. ``extra_columns`` are
    columns beside the fields of its prompt that the set always has.
    """

    kind: Kind
    description: str
    licence: str
    items: int
    hub: str | None = None
    configs: tuple[str | None, ...] = (None,)
    test_split: str = "test"
    train_split: str | None = None
    extra_columns: tuple[str, ...] = ()

    @property
    def usual_columns(self) -> tuple[str, ...]:
        """Columns that a prompt or a completion can use, wherever the set comes from."""
        options = ("choices",) if self.task.uses_options else ()
        return tuple(dict.fromkeys((*self.task.fields, *options, "label", *self.extra_columns)))

    @property
    def source(self) -> str:
        """The Hub id with its configuration, or "generated"."""
        if self.hub is None:
            return "generated"
        if len(self.configs) > 1:
            return f"{self.hub} ({len(self.configs)} configurations)"
        return f"{self.hub} {self.configs[0]}" if self.configs[0] else self.hub


def canonical(table: Table, layout: FileLayout, lenient: bool = False) -> tuple[pl.DataFrame, list[str]]:
    """Check a table row by row and convert it to canonical columns, with notes on what was dropped.

    ``lenient`` drops rows without text, which public collections contain; in a user's file they are an error.
    `identify` adds the item ids.
    """
    table = Table(_renamed(table.frame, layout), table.name, table.header_lines)
    notes: list[str] = []
    fields = layout.task.fields
    if layout.keep is not None and layout.keep[0] in table.frame.columns:
        table = Table(table.frame.filter(pl.col(layout.keep[0]) == layout.keep[1]), table.name)
    present = [name for name in fields if name in table.frame.columns]
    if lenient and present:
        blank = pl.any_horizontal([blank_texts(table.frame[name]) for name in present])
        complete = table.frame.filter(~blank)
        notes += _dropped(table.frame.height - complete.height, "without text")
        table = Table(complete, table.name)
    if layout.prepare is not None:
        table = Table(layout.prepare(table), table.name, table.header_lines)
    require_columns(table, fields)
    check_texts(table, fields)
    frame = _add_labels(table, layout).with_columns(
        pl.lit(layout.name).alias("testset"),
        pl.lit(layout.shift).alias("shift"),
        *(pl.col(name).cast(pl.String) for name in fields),
    )
    kept = frame.filter(pl.col("label").is_not_null())
    notes += _dropped(frame.height - kept.height, "whose label the set excludes")
    if not kept.height:
        raise InputError(f"{table.name}: no items are left, because the set excludes every label in the file")
    return kept, notes


def _add_labels(table: Table, layout: FileLayout) -> pl.DataFrame:
    labels = map_labels(table, layout.label, layout.labels, layout.task)
    ids = _ids(table, layout.item)
    frame = table.frame
    clashing = [name for name in (*_RESERVED, "label") if name in frame.columns and name != layout.label]
    frame = frame.rename({name: f"{name}_in_file" for name in clashing})
    if layout.label != "label" and layout.label in frame.columns:
        frame = frame.drop(layout.label)
    return frame.with_columns(
        pl.Series(_ID, ids, dtype=pl.String),
        pl.Series("label", labels, dtype=pl.String),
    )


def identify(
    frame: pl.DataFrame, layout: FileLayout, where: str, by_split: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """Give every item an id that starts with the set's name, and sort by it.

    The file's own ids are used if it has them, prefixed with the split where each split numbers its own items.
    Otherwise the id is a hash of the texts: rows that repeat a text with the same label become one item, rows that
    repeat it with different labels are dropped.
    """
    if frame[_ID].null_count():
        return _hashed(frame, layout)
    ids = frame[_ID]
    if by_split or (ids.n_unique() < frame.height and "split" in frame.columns):
        ids = frame["split"].cast(pl.String) + "-" + ids
    prefix = f"{layout.name}-"
    frame = frame.with_columns(ids.alias(_ID))
    ids = frame.select(pl.when(pl.col(_ID).str.starts_with(prefix)).then(_ID).otherwise(prefix + pl.col(_ID)))[_ID]
    repeated = ids.is_duplicated()
    if repeated.any():
        first = ids[int(repeated.arg_max() or 0)]
        raise InputError(f"{where}: id {first!r} occurs more than once; ids must be unique")
    return _order_columns(frame.with_columns(ids.alias("item")), layout).sort("item"), []


def _hashed(frame: pl.DataFrame, layout: FileLayout) -> tuple[pl.DataFrame, list[str]]:
    texts = frame.select(layout.task.texts).rows()
    items = [f"{layout.name}-{_hash(row)}" for row in texts]
    frame = _order_columns(frame.with_columns(pl.Series("item", items, dtype=pl.String)), layout)
    agreed = frame.filter(pl.col("label").n_unique().over("item") == 1)
    # A text that is in both splits stays in both: the split decides whether it is for training or for testing.
    key = [name for name in ("item", "split") if name in frame.columns]
    unique = agreed.unique(key, keep="first", maintain_order=True).sort(key)
    return unique, [
        *_dropped(frame.height - agreed.height, "with the same text and different labels"),
        *_dropped(agreed.height - unique.height, "with the same text and label as another item"),
    ]


def _hash(row: tuple[object, ...]) -> str:
    joined = "\x1f".join("\x1e".join(cell) if isinstance(cell, list) else str(cell) for cell in row)
    return hashlib.blake2b(joined.encode(), digest_size=8).hexdigest()


def _ids(table: Table, column: str | None) -> list[str | None]:
    if column is None:
        column = next((name for name in ("id", "item") if name in table.frame.columns), None)
    if column is None:
        return [None] * table.frame.height
    require_columns(table, [column], "the item id")
    check_texts(table, [column])
    return [str(value).strip() for value in table.frame[column].to_list()]


def _renamed(frame: pl.DataFrame, layout: FileLayout) -> pl.DataFrame:
    present = set(frame.columns)
    wanted = {
        raw: name
        for name, raw in layout.columns.items()
        if raw != name and raw in present and (layout.explicit or name not in present)
    }
    replaced = {name: f"{name}_in_file" for name in wanted.values() if name in present and name not in wanted}
    return frame.rename({**replaced, **wanted})


def _order_columns(frame: pl.DataFrame, layout: FileLayout) -> pl.DataFrame:
    options = [name for name in ("options", "option_labels") if name in frame.columns]
    first = list(dict.fromkeys(["item", "testset", "shift", "label", *layout.task.fields, *options]))
    return frame.select(*first, *(name for name in frame.columns if name not in first and name != _ID))


def _dropped(count: int, which: str) -> list[str]:
    return [f"dropped {count:,} {'item' if count == 1 else 'items'} {which}"] if count else []


def require_columns(table: Table, columns: Iterable[str], role: str = "a field of the pattern") -> None:
    """Refuse a table that lacks one of the columns."""
    for name in columns:
        if name not in table.frame.columns:
            raise unknown_column(name, table.frame.columns, table.name, role)


def blank_texts(texts: pl.Series) -> pl.Series:
    """Where a text is missing or blank."""
    return texts.is_null() | (texts.cast(pl.String).str.strip_chars() == "").fill_null(True)


def check_texts(table: Table, fields: Iterable[str]) -> None:
    """Refuse texts that are missing, blank or contain NUL characters, which tokenizers and files may truncate."""
    for name in fields:
        texts = table.frame[name]
        if texts.dtype.is_nested():
            raise InputError(f"{table.name}, column {name!r}: contains {texts.dtype}, not text")
        _refuse(table, name, blank_texts(texts), "the text is empty; fill it in or remove the row")
        nul = texts.cast(pl.String).str.contains("\0", literal=True)
        _refuse(table, name, nul, "the text contains a NUL character; remove it from the file")


def _refuse(table: Table, column: str, wrong: pl.Series, complaint: str) -> None:
    if wrong.any():
        others = int(wrong.sum()) - 1
        more = f" ({others} more such {'row' if others == 1 else 'rows'})" if others else ""
        raise InputError(f"{table.place(int(wrong.arg_max() or 0), column)}: {complaint}{more}")


def label_text(value: Any) -> str:
    """A raw label as text: 1, 1.0 and "1 " are the same label."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def map_labels(table: Table, column: str, labels: Labels | None, task: Task | None = None) -> list[str | None]:
    """The label of every row; None where the mapping drops it. Without a mapping, labels stay as they are.

    A task whose items share labels must know every label that occurs.
    """
    require_columns(table, [column], "the label")
    values = table.frame[column]
    blank = blank_texts(values) if not values.dtype.is_nested() else values.is_null()
    _refuse(table, column, blank, "the label is missing; fill it in or remove the row")
    raw = [label_text(value) for value in values.to_list()]
    known = {label: label for label in raw} if labels is None else {str(key): to for key, to in labels.items()}
    for row, label in enumerate(raw):
        if label not in known:
            raise InputError(f"{table.place(row, column)}: unknown label {label[:60]!r}; the set has {listed(known)}")
    mapped = [known[label] for label in raw]
    if task is not None and task.labels:
        unanswered = pl.Series([label is not None and label not in task.labels for label in mapped], dtype=pl.Boolean)
        first = mapped[int(unanswered.arg_max() or 0)] if mapped else None
        complaint = f"label {str(first)[:60]!r} has no answer; answers are defined for {listed(task.labels)}"
        _refuse(table, column, unanswered, complaint)
    return mapped


def check_labels(labels: pl.Series, task: Task, where: str) -> None:
    """Refuse a test set with a single label: it measures nothing."""
    present: list[str] = labels.unique().sort().to_list()
    if task.labels and len(present) == 1:
        raise InputError(f"{where}: every item has the label {present[0]!r}; a test set needs at least two labels")


def read_item_options(table: Table, column: str) -> list[list[str]]:
    """The options of every row: a list, or a list written as text (JSON or Python).

    >>> import polars as pl
    >>> read_item_options(Table(pl.DataFrame({"o": ['["yes", "no"]']}), "t"), "o")
    [['yes', 'no']]
    """
    require_columns(table, [column], "the options of an item")
    return [_options(value, table.place(row, column)) for row, value in enumerate(table.frame[column].to_list())]


def _options(value: Any, place: str) -> list[str]:
    if isinstance(value, str):
        value = _from_text(value, place)
    if not isinstance(value, list) or len(value) < 2 or any(option is None for option in value):
        raise InputError(f"{place}: needs a list of at least two options, not {str(value)[:60]!r}")
    if len(value) > len(LETTERS):
        raise InputError(f"{place}: has {len(value)} options; at most {len(LETTERS)} can be named by letters")
    texts = [str(option) for option in value]
    if any(not text.strip() for text in texts):
        raise InputError(f"{place}: an option is empty")
    if any("\0" in text for text in texts):
        raise InputError(f"{place}: an option contains a NUL character; remove it from the file")
    return texts


def _from_text(text: str, place: str) -> Any:
    for read in (json.loads, ast.literal_eval):  # literal_eval reads literals and runs no code
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise InputError(f'{place}: {text[:60]!r} is not a list of options; write it as ["first", "second"]')


def right_letter(answer: Any, options: list[str], names: list[str], place: str) -> str:
    """The letter of the correct option, given by its name, its text, or its position counted from 0.

    >>> right_letter("2", ["liquid", "gas"], ["1", "2"], "row 1"), right_letter(0, ["x", "y"], ["A", "B"], "row 1")
    ('B', 'A')
    """
    value = str(answer).strip()
    if value in names:
        return LETTERS[names.index(value)]
    if options.count(value) == 1:
        return LETTERS[options.index(value)]
    if value.isdecimal() and int(value) < len(options):
        return LETTERS[int(value)]
    raise InputError(
        f"{place}: {value[:60]!r} is not an option; give the letter ({listed(names)}), the text, or the position "
        "counted from 0"
    )


def lined_up(options: list[str]) -> str:
    """The options one per line with their letters, for a prompt."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def with_options(table: Table, options: str, answer: str, names: str | None = None) -> pl.DataFrame:
    """Replace the column ``options`` by options and option_labels (letters), and ``answer`` by the correct letter.

    ``names`` is the column with the file's own names of the options, if it has one.
    """
    texts = read_item_options(table, options)
    require_columns(table, [answer], "the correct option")
    letters = [list(LETTERS[: len(row)]) for row in texts]
    named = table.frame[names].to_list() if names else letters
    correct = [
        right_letter(label_text(value), row, [str(name) for name in called], table.place(number, answer))
        for number, (value, row, called) in enumerate(zip(table.frame[answer].to_list(), texts, named, strict=True))
    ]
    return table.frame.drop([name for name in (options, names) if name is not None]).with_columns(
        pl.Series("options", texts, dtype=pl.List(pl.String)),
        pl.Series("option_labels", letters, dtype=pl.List(pl.String)),
        pl.Series(answer, correct, dtype=pl.String),
    )


def with_choices(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the options as one text, for the prompts of tasks that generate."""
    return frame.with_columns(pl.Series("choices", [lined_up(row) for row in frame["options"].to_list()], pl.String))

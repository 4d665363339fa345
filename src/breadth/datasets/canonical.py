"""From a file's own columns to the canonical frame: item, testset, shift, label, the texts, and all the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from breadth.datasets.checks import check_fields, check_texts, faulty_texts, map_labels, text_fields
from breadth.datasets.entry import Entry, Labels
from breadth.datasets.tasks import Choice, Task
from breadth.errors import InputError
from breadth.records import Table

_RESERVED = ("item", "testset", "shift")
_ID = "__id"


@dataclass(frozen=True)
class Reading:
    """How a file is read: ``columns`` maps canonical names to the file's, and ``item`` is the column of ids, if any.

    Names in ``columns`` are a fallback where the canonical one is absent, unless ``explicit``, when they come first.
    ``lenient`` leaves out rows without text, as public collections have them; in a user's file they are an error.
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
    lenient: bool = False
    explicit: bool = False

    @classmethod
    def of(cls, entry: Entry, lenient: bool = False) -> Reading:
        """How the file of a registered set is read."""
        return cls(
            entry.name, entry.shift, entry.task, columns=entry.columns, labels=entry.labels, keep=entry.keep,
            prepare=entry.prepare, lenient=lenient,
        )  # fmt: skip

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that make an item what it is: the fields of the template, and the options."""
        return (*text_fields(self.task), *(("options",) if isinstance(self.task, Choice) else ()))


def canonical(table: Table, reading: Reading) -> tuple[pl.DataFrame, list[str]]:
    """Check a table row by row and bring it into canonical columns; ids are given by `identify`."""
    table = Table(_renamed(table.frame, reading), table.name, table.header_lines)
    notes: list[str] = []
    fields = text_fields(reading.task)
    if reading.keep is not None and reading.keep[0] in table.frame.columns:
        table = Table(table.frame.filter(pl.col(reading.keep[0]) == reading.keep[1]), table.name)
    if reading.lenient:
        there = [name for name in fields if name in table.frame.columns]
        blank = pl.any_horizontal([faulty_texts(table.frame[name]) for name in there])
        whole = table.frame.filter(~blank) if there else table.frame
        notes += _dropped(table.frame.height - whole.height, "without text")
        table = Table(whole, table.name)
    if reading.prepare is not None:
        table = Table(reading.prepare(table), table.name, table.header_lines)
    check_fields(table, fields)
    check_texts(table, fields)
    labels = map_labels(table, reading.label, reading.labels, reading.task)
    frame = table.frame
    identities = _ids(table, reading.item)
    clashing = [name for name in (*_RESERVED, "label") if name in frame.columns and name != reading.label]
    frame = frame.rename({name: f"{name}_in_file" for name in clashing})
    if reading.label != "label" and reading.label in frame.columns:
        frame = frame.drop(reading.label)
    frame = frame.with_columns(
        pl.Series(_ID, identities, dtype=pl.String),
        pl.Series("label", labels, dtype=pl.String),
        pl.lit(reading.name).alias("testset"),
        pl.lit(reading.shift).alias("shift"),
        *(pl.col(name).cast(pl.String) for name in fields),
    )
    kept = frame.filter(pl.col("label").is_not_null())
    notes += _dropped(frame.height - kept.height, "whose label the set leaves out")
    if not kept.height:
        raise InputError(f"{table.name}: no item is left; every label is one that the set leaves out")
    return kept, notes


def identify(
    frame: pl.DataFrame, reading: Reading, where: str, by_split: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """Give every item an id that begins with the set's name, and sort by it.

    The file's own ids are used if it has them, with the split in front where splits count anew; otherwise a hash of
    the texts. Rows that repeat a text with the same label are then one item; with another label, no item.
    """
    if frame[_ID].null_count():
        return _hashed(frame, reading)
    own = frame[_ID]
    if by_split or (own.n_unique() < frame.height and "split" in frame.columns):
        own = frame["split"].cast(pl.String) + "-" + own
    front = f"{reading.name}-"
    frame = frame.with_columns(own.alias(_ID))
    own = frame.select(pl.when(pl.col(_ID).str.starts_with(front)).then(_ID).otherwise(front + pl.col(_ID)))[_ID]
    again = own.is_duplicated()
    if again.any():
        raise InputError(f"{where}: id {own[int(again.arg_max() or 0)]!r} stands in more than one row; ids must differ")
    return _in_order(frame.with_columns(own.alias("item")), reading).sort("item"), []


def _hashed(frame: pl.DataFrame, reading: Reading) -> tuple[pl.DataFrame, list[str]]:
    texts = frame.select(reading.texts).rows()
    items = [f"{reading.name}-{_hash(row)}" for row in texts]
    frame = _in_order(frame.with_columns(pl.Series("item", items, dtype=pl.String)), reading)
    agreed = frame.filter(pl.col("label").n_unique().over("item") == 1)
    # A text that stands in two splits is kept in both: the split decides whether it is trained on or tested.
    key = [name for name in ("item", "split") if name in frame.columns]
    single = agreed.unique(key, keep="first", maintain_order=True).sort(key)
    return single, [
        *_dropped(frame.height - agreed.height, "with the same text and different labels"),
        *_dropped(agreed.height - single.height, "with the text and label of another one"),
    ]


def _hash(row: tuple[object, ...]) -> str:
    joined = "\x1f".join("\x1e".join(cell) if isinstance(cell, list) else str(cell) for cell in row)
    return hashlib.blake2b(joined.encode(), digest_size=8).hexdigest()


def _ids(table: Table, column: str | None) -> list[str | None]:
    if column is None:
        column = next((name for name in ("id", "item") if name in table.frame.columns), None)
    elif column not in table.frame.columns:
        check_fields(table, [column])
    if column is None:
        return [None] * table.frame.height
    check_texts(table, [column])
    return [str(value).strip() for value in table.frame[column].to_list()]


def _renamed(frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    there = set(frame.columns)
    wanted = {
        raw: name
        for name, raw in reading.columns.items()
        if raw != name and raw in there and (reading.explicit or name not in there)
    }
    away = {name: f"{name}_in_file" for name in wanted.values() if name in there and name not in wanted}
    return frame.rename({**away, **wanted})


def _in_order(frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    options = [name for name in ("options", "option_labels") if name in frame.columns]
    first = list(dict.fromkeys(["item", "testset", "shift", "label", *text_fields(reading.task), *options]))
    return frame.select(*first, *(name for name in frame.columns if name not in first and name != _ID))


def _dropped(count: int, which: str) -> list[str]:
    items, were = ("item", "was") if count == 1 else ("items", "were")
    return [f"{count:,} {items} {which} {were} dropped"] if count else []

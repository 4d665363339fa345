"""Load a set by name, or a user's own file, as one canonical frame with its task."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from breadth.datasets.canonical import Reading, canonical, identify
from breadth.datasets.checks import check_labels
from breadth.datasets.entry import Entry
from breadth.datasets.hub import fetch
from breadth.datasets.registry import find
from breadth.datasets.shots import draw_items, without
from breadth.datasets.splits import Parts, halve, part
from breadth.datasets.suite import generate
from breadth.datasets.tasks import Task
from breadth.errors import InputError, listed
from breadth.records import Table, read_table

Split = Literal["test", "train", "all"]
SPLITS = ("test", "train", "all")
ENDINGS = (".parquet", ".jsonl", ".csv", ".tsv")
#: How many items of a generated set are made where no number is asked for.
GENERATED_ITEMS = 2000


@dataclass(frozen=True)
class Loaded:
    """A set ready to use.

    ``frame`` has columns item, testset, shift, label, the fields of the task's template, options and option_labels
    where items have options, and every further column of the file; rows are sorted by item. ``source`` says where it
    came from and how test was told from train, ``notes`` what was left out.
    """

    name: str
    shift: str
    task: Task
    frame: pl.DataFrame
    source: str
    notes: tuple[str, ...] = ()


def load(
    name: str,
    split: Split = "test",
    data: str | os.PathLike[str] | None = None,
    *,
    most: int | None = None,
    seed: int = 0,
) -> Loaded:
    """Load a registered set: generated, else from a local directory, else from the Hub.

    The directory is ``data`` or the environment's BREADTH_DATA; it (or nli/ or qa/ in it) holds NAME.parquet, .jsonl,
    .csv or .tsv. A file's column ``split`` tells train from test by the registry's names or near kin (test,
    validation, dev; train). Where there is only one split, an item goes to train or test by one bit of a hash of its
    id: about half and half, never in both, whatever the order of rows. A test item whose texts are those of a train
    item of the same file is dropped. The Hub's own splits are taken as they are. ``split="all"`` gives train and test
    together.

    ``most`` draws so many items (see `draw_items`) with ``seed``. Of a generated set ``most`` items (by default 2,000
    per split) are made from ``seed``, and ids name a seed other than 0.
    """
    if split not in SPLITS:
        raise InputError(f"{name}: split {split!r} is none of {listed(SPLITS)}")
    entry = find(name)
    if entry.kind == "generated":
        return _generated(entry, split, most, seed)
    path = find_file(name, data)
    loaded = _from_hub(entry, split) if path is None else _from_file(entry, split, path)
    return loaded if most is None else _replaced(loaded, draw_items(loaded.frame, most, seed))


def find_file(name: str, data: str | os.PathLike[str] | None = None) -> Path | None:
    """The file of a set in ``data`` (or BREADTH_DATA), or None."""
    where = data if data is not None else os.environ.get("BREADTH_DATA") or None
    if where is None:
        return None
    folder = Path(where).expanduser()
    if not folder.is_dir():
        given = "--data" if data is not None else "BREADTH_DATA"
        raise InputError(f"{folder}: is no directory; {given} names a directory with files such as mnli.parquet")
    places = [folder / room / f"{name}{ending}" for room in ("", "nli", "qa") for ending in ENDINGS]
    return next((path for path in places if path.is_file()), None)


def finish(reading: Reading, parts: Parts, split: str, source: str, notes: list[str], where: str) -> Loaded:
    """Take test items that repeat a train item away, check what is left, and hand out the part asked for."""
    train, whole = (side.unique("item", keep="first", maintain_order=True) for side in (parts.train, parts.test))
    test = without(whole, train, reading.texts)
    shared = whole.height - test.height
    if shared and split != "train":
        notes = [*notes, f"{shared:,} of the test part, whose texts are in the train part, dropped"]
    chosen = {"test": test, "train": train, "all": pl.concat([train, test])}[split].sort("item")
    if not chosen.height:
        raise InputError(f"{where}: no item is left for {split}; it needs more rows, or a train file apart from it")
    check_labels(chosen["label"], reading.task, where)
    return Loaded(reading.name, reading.shift, reading.task, chosen, source, tuple(notes))


def _from_file(entry: Entry, split: str, path: Path) -> Loaded:
    reading = Reading.of(entry)
    frame, notes = canonical(read_table(path), reading)
    frame, more = identify(frame, reading, str(path))
    parts = part(frame, entry.test_split, entry.train_split, str(path))
    return finish(reading, parts, split, f"{path}: {parts.how}", [*notes, *more], str(path))


def _from_hub(entry: Entry, split: str) -> Loaded:
    reading = Reading.of(entry, lenient=True)
    frames, notes = {}, []
    for name, hub_split in (("train", entry.train_split), ("test", entry.test_split)):
        if hub_split is not None and (entry.train_split is None or split in (name, "all")):
            table = Table(fetch(entry, hub_split), f"{entry.source} {hub_split}")
            frame, dropped = canonical(table, reading)
            frames[name], more = identify(frame, reading, table.name, by_split=True)
            notes += [*dropped, *more]
    source = f"Hub: {entry.source}"
    if entry.train_split is None:
        halves = halve(frames["test"])
        return finish(reading, halves, split, f"{source} {entry.test_split}, {halves.how}", notes, source)
    chosen = pl.concat(frames.values(), how="diagonal_relaxed").unique("item", keep="first").sort("item")
    check_labels(chosen["label"], entry.task, source)
    splits = {"train": entry.train_split, "test": entry.test_split}
    source = f"{source}, split {' and '.join(splits[name] for name in frames)}"
    return Loaded(entry.name, entry.shift, entry.task, chosen, source, tuple(notes))


def _generated(entry: Entry, split: str, most: int | None, seed: int) -> Loaded:
    wanted: tuple[Literal["train", "test"], ...] = ("train", "test") if split == "all" else (split,)  # type: ignore[assignment]
    frame = pl.concat([generate(entry.name, most or GENERATED_ITEMS, seed, each) for each in wanted])
    if seed:
        # Other seeds write other texts under the same numbers; ids must tell them apart.
        frame = frame.with_columns(pl.col("item").str.replace(f"^{entry.name}-", f"{entry.name}-s{seed}-"))
    return Loaded(entry.name, entry.shift, entry.task, frame.sort("item"), f"generated, seed {seed}")


def _replaced(loaded: Loaded, frame: pl.DataFrame) -> Loaded:
    return Loaded(loaded.name, loaded.shift, loaded.task, frame, loaded.source, loaded.notes)

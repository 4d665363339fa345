"""From logs to one study: a metric per test set, one log per subject and test set, items that are the same item."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isnan
from typing import Any, Literal

import numpy as np
import polars as pl

from breadth.errors import InputError, listed
from breadth.importers.collecting import Known
from breadth.importers.logs import Log, Options
from breadth.importers.reading import text_hash
from breadth.importers.scoring import Choice, choose_metrics, mean_notes
from breadth.importers.subjects import LOG, Entry, fill_unknown, name_subjects, split_by_settings
from breadth.records import LOGS, Imported, imported_responses
from breadth.results.words import count

Keep = Literal["newest", "all"]

#: Columns of items that hold lists.
LISTS = ("options", "option_labels")

#: Types of the answers of one log.
ANSWERS = {"item": pl.UInt32, "correct": pl.Float64, "margin": pl.Float64, "answer": pl.String}

#: Logs that a message names.
SHOWN = 3


@dataclass
class Assembly:
    """The tables of an import, and what was decided on the way."""

    imported: Imported
    choices: dict[str, Choice]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def assemble(
    entries: Sequence[Entry],
    options: Options,
    keep: Keep | None = None,
    before: Imported | None = None,
) -> Assembly:
    """Put logs together. ``entries`` include those of an earlier import, whose items are in ``before``."""
    left_out: dict[str, str] = {}
    choices = choose_metrics(entries, options, left_out)
    used = [entry for entry in entries if entry.metric in entry.log.values]
    if not used:
        raise InputError("\n".join(f"{name}: {reason}" for name, reason in left_out.items()))
    for entry in used:
        entry.notes = list(dict.fromkeys([*entry.log.notes, *mean_notes(entry)]))
    fill_unknown(used)
    split_by_settings(used)
    items, notes = _items(used, before)
    used = _without_repeats(used, keep, left_out)
    name_subjects(used)
    notes += [*_document_notes(used, items), *_setting_notes(used)]
    return Assembly(_tables(used, items), choices, left_out, notes)


def _without_repeats(entries: Sequence[Entry], keep: Keep | None, left_out: dict[str, str]) -> list[Entry]:
    """One answer per subject and item: equal answers are merged, different ones need the user's choice."""
    groups: dict[Any, list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.asked, entry.log.testset), []).append(entry)
    kept: set[int] = set()
    problems: list[str] = []
    for group in groups.values():
        newest_first = sorted(group, key=lambda entry: (entry.log.stamp, entry.log.path), reverse=True)
        used = _merged(newest_first, keep, left_out, problems) if len(group) > 1 else group
        kept |= {id(entry) for entry in used}
    if problems:
        raise InputError("\n".join(problems))
    return [entry for entry in entries if id(entry) in kept]


@dataclass
class _Merged:
    """Logs that agree: the newest of them, and all their answers by the places of the items."""

    newest: Entry
    answers: dict[int, float] = field(default_factory=dict)


def _merged(group: Sequence[Entry], keep: Keep | None, left_out: dict[str, str], problems: list[str]) -> list[Entry]:
    """The logs of one subject and test set, newest first, that are used.

    Logs that agree with the newest are merged with it. One that does not is merged with logs that an earlier import
    kept, is refused or left out, or becomes a subject of its own. One that an earlier import left out, as the user
    chose then, is left out again.
    """
    replaced = {Known.of(*older) for entry in group for older in entry.older}
    used: list[Entry] = []
    merged: dict[str, _Merged] = {}
    for entry in sorted(group, key=lambda entry: LOG not in entry.own):  # what is kept already comes first
        own = _answers(entry)
        if LOG in entry.own:
            together = merged.setdefault(str(entry.own[LOG]), _Merged(entry))
            together.answers |= own
            used.append(entry)
            continue
        newest = merged.setdefault("", _Merged(entry)).newest
        agreeing = (label for label in ("", *merged) if not _differing(own, merged[label]))
        label = next(agreeing, None)
        if label is None and keep is None and Known.of(entry.log.path, entry.checksum) not in replaced:
            problems.append(
                f"{entry.log.path} and {newest.log.path} hold different answers of {entry.model!r} to "
                f"{count(_differing(own, merged['']), 'item')} of {entry.log.testset}; use --keep newest for the later "
                "log, --keep all for both as subjects of their own"
            )
            continue
        if label is None and keep != "all":
            left_out[entry.log.path] = f"older than {newest.log.path}, which has the same subject and test set"
            older = [(entry.log.path, entry.checksum), *entry.older]
            newest.older += [one for one in older if one not in newest.older]
            continue
        if label is None:
            taken = {newest.log.stamp, *merged}
            label = entry.log.path if entry.log.stamp in taken else entry.log.stamp
            merged[label] = _Merged(entry)
        if label:
            entry.own[LOG] = entry.attributes[LOG] = label
        used += _added(entry, own, merged[label], left_out)
    return used


def _answers(entry: Entry) -> dict[int, float]:
    values = entry.log.scores(entry.metric).tolist()
    return {place: value for place, value in zip(entry.places, values, strict=True) if not isnan(value)}


def _differing(own: Mapping[int, float], merged: _Merged) -> int:
    """How many answers differ from those of other logs."""
    return sum(value != merged.answers.get(place, value) for place, value in own.items())


def _added(entry: Entry, own: Mapping[int, float], merged: _Merged, left_out: dict[str, str]) -> list[Entry]:
    """Add a log to those with which it agrees: only its answers that they do not have are used."""
    if merged.answers:
        entry.rows = [k for k, place in enumerate(entry.places) if place in own and place not in merged.answers]
        if not entry.rows:
            left_out[entry.log.path] = f"the same answers as {merged.newest.log.path}"
            return []
        if len(entry.rows) < len(own):
            shared = len(own) - len(entry.rows)
            entry.notes.append(f"shares {shared:,} of its {len(own):,} answers with {merged.newest.log.path}")
    merged.answers |= own
    return [entry]


def _setting_notes(entries: Sequence[Entry]) -> list[str]:
    """Say where subjects were asked in different ways."""
    asked: dict[tuple[str, str], dict[str, list[str]]] = {}
    for entry in entries:
        for key, value in entry.log.settings.items():
            if value is not None:
                asked.setdefault((entry.log.testset, key), {}).setdefault(str(value), []).append(entry.subject)
    return [
        f"{testset}: {key} differs between subjects: "
        + "; ".join(f"{value} for {listed(dict.fromkeys(names), SHOWN)}" for value, names in values.items())
        for (testset, key), values in asked.items()
        if len(values) > 1
    ]


class _Hash(str):
    """The hash of a question whose text was not read."""

    __slots__ = ()


def _questions(columns: Mapping[str, Sequence[Any]]) -> list[str | None] | None:
    """The question of every row, or its hash; None where columns have neither."""
    texts, hashes = columns.get("text"), columns.get("text_hash")
    if hashes is None:
        return None if texts is None else list(texts)
    hashed: list[str | None] = [None if one is None else _Hash(one) for one in hashes]
    return hashed if texts is None else [text or one for text, one in zip(texts, hashed, strict=True)]


@dataclass
class _Items:
    """All items: places by test set and name; questions; and where texts are, as columns with a row in them."""

    places: dict[tuple[str, str], int] = field(default_factory=dict)
    questions: list[str | None] = field(default_factory=list)
    sources: list[tuple[Mapping[str, Sequence[Any]], int]] = field(default_factory=list)

    def add(self, key: tuple[str, str], question: str | None, columns: Mapping[str, Sequence[Any]], row: int) -> int:
        """Add an item; returns its place."""
        place = self.places[key] = len(self.places)
        self.questions.append(question)
        self.sources.append((columns, row))
        return place

    def describe(self, place: int, question: str | None, columns: Mapping[str, Sequence[Any]], row: int) -> None:
        """Give texts to an item that has none."""
        known, known_row = self.sources[place]
        if all(column[known_row] is None for name, column in known.items() if name != "text_hash"):
            self.questions[place], self.sources[place] = question, (columns, row)


def _items(entries: Sequence[Entry], before: Imported | None) -> tuple[_Items, list[str]]:
    """Every item with its texts, and notes; entries learn the places of their items.

    Items of one name with different texts are different items: the later ones get a name of their own.
    """
    items = _Items()
    if before is not None:
        columns = before.items.to_dict(as_series=False)
        keys = zip(columns.pop("testset"), columns.pop("item"), strict=True)
        known = _questions(columns) or [None] * before.items.height
        for k, (key, question) in enumerate(zip(keys, known, strict=True)):
            items.add(key, question, columns, k)
    apart: dict[str, int] = {}
    # Most logs of a test set hold the same items in the same order.
    last: dict[str, tuple[Log, list[str | None] | None, list[int]]] = {}
    for entry in entries:
        log, places = entry.log, list[int]()
        own = _questions(log.texts)
        same, same_questions, places_of_same = last.get(log.testset, (None, None, places))
        if same is not None and same.items == log.items and own in (None, same_questions):
            entry.places = places_of_same
            continue
        last[log.testset] = log, own, places
        questions: Sequence[str | None] = [None] * len(log.items) if own is None else own
        for k, (name, question) in enumerate(zip(log.items, questions, strict=True)):
            key = (log.testset, name)
            place = items.places.get(key)
            if place is not None and question and _differ(question, items.questions[place]):
                key = (log.testset, f"{name}~{_hash(question)[:6]}")
                apart[log.testset] = apart.get(log.testset, 0) + 1
                place = items.places.get(key)
            if place is None:
                place = items.add(key, question, log.texts, k)
            elif log.texts and (not (known_text := items.questions[place]) or isinstance(known_text, _Hash)):
                items.describe(place, question, log.texts, k)
            places.append(place)
        entry.places = places
    notes = [
        f"{testset}: {count(number, 'answer')} to items of the same name but another text; these items are kept apart"
        for testset, number in apart.items()
    ]
    return items, notes


def _document_notes(entries: Sequence[Entry], items: _Items) -> list[str]:
    """Say where logs have the same questions under other names, as lm-eval's hashes where choices are shuffled."""
    testsets: dict[str, dict[int, Sequence[int]]] = {}
    for entry in entries:  # most logs of a test set share one list of places
        testsets.setdefault(entry.log.testset, {}).setdefault(id(entry.places), entry.places)
    notes: list[str] = []
    for testset, lists in testsets.items():
        number = _renamed(list(lists.values()), items) if len(lists) > 1 else 0
        if number:
            notes.append(
                f"{testset}: {count(number, 'question')} with the same text but different documents in different logs "
                "(shuffled choices, for instance); they count as different items"
            )
    return notes


def _renamed(lists: Sequence[Sequence[int]], items: _Items) -> int:
    """How many questions logs have under several names.

    Different questions may share a text, so most of what a log does not share with the others must be such questions.
    """
    renamed: set[str] = set()
    known: dict[str, int] = {}
    for places in lists:
        own, former = set(places), set(known.values())
        texts = {items.questions[place]: place for place in places if place not in former}
        same = {text for text in texts if text and known.get(text, places[0]) not in own}
        if 2 * len(same) > len(own - former):
            renamed |= same
        known |= {text: place for text, place in texts.items() if text and text not in known}
    return len(renamed)


def _differ(question: str, known: str | None) -> bool:
    """Whether two questions differ, in more than spaces."""
    return bool(known and question != known and _hash(question) != _hash(known))


def _hash(question: str) -> str:
    return question if isinstance(question, _Hash) else text_hash(question)


def _tables(entries: Sequence[Entry], items: _Items) -> Imported:
    """The tables of an import; items that nobody answered are left out.

    Polars gets lists: the first array that it gets loads numpy.ma, which takes longer than most logs.
    """
    parts, logs = [], []
    for number, entry in enumerate(entries):
        log, values, margin = entry.log, entry.log.scores(entry.metric), entry.log.margins.get(entry.metric)
        columns = {
            "item": entry.places,
            "correct": values.tolist(),
            "margin": [None] * len(values) if margin is None else np.asarray(margin).tolist(),
            "answer": log.answers or [None] * len(values),
        }
        part = pl.DataFrame(columns, schema=ANSWERS).with_columns(log=pl.lit(number, pl.UInt32))
        used = part if entry.rows is None else part[list(entry.rows)]
        parts.append(used.filter(pl.col("correct").is_not_nan()))
        correct = parts[-1]["correct"].to_numpy()
        logs.append(
            {
                "subject": entry.subject, "run": entry.run, "model": entry.model, "step": entry.step,
                "testset": log.testset, "metric": entry.metric.name, "variant": entry.metric.variant,
                "rows": entry.total or len(log.items), "answered": len(correct),
                "mean": float(correct.mean()) if len(correct) else None,
                "stated": log.stated.get(entry.metric), "tool": log.tool, "version": log.version, "path": log.path,
                "checksum": entry.checksum, "stamp": log.stamp,
                "identity": json.dumps(entry.own, sort_keys=True, default=str),
                "attributes": json.dumps(entry.attributes, sort_keys=True, default=str),
                "settings": json.dumps(dict(log.settings), sort_keys=True, default=str), "notes": entry.notes,
                "texts": entry.texts, "older": json.dumps(entry.older),
            }
        )  # fmt: skip
    responses = imported_responses(pl.concat(parts))
    answered = responses["item"].unique().sort().to_list()
    renumbered = [0] * len(items.places)
    for k, place in enumerate(answered):
        renumbered[place] = k
    responses = responses.with_columns(item=pl.Series(renumbered, dtype=pl.UInt32)[responses["item"]])
    return Imported(pl.DataFrame(logs, schema=LOGS), _item_table(items, answered), responses)


def _item_table(items: _Items, answered: Sequence[int]) -> pl.DataFrame:
    """The items at some places, with their texts."""
    keys = list(items.places)
    table = {
        "testset": pl.Series([keys[k][0] for k in answered], dtype=pl.String),
        "item": pl.Series([keys[k][1] for k in answered], dtype=pl.String),
    }
    sources = [items.sources[place] for place in answered]
    distinct = {id(columns): columns for columns, _ in sources}
    for name in dict.fromkeys(name for columns in distinct.values() for name in columns):
        values = [columns[name][k] if name in columns else None for columns, k in sources]
        if name in LISTS and any(value is not None for value in values):
            table[name] = _list_series(values)
        elif any(value is not None for value in values):
            table[name] = pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
    return pl.DataFrame(table)


def _list_series(values: Sequence[Sequence[Any] | None]) -> pl.Series:
    """A column of lists of texts; polars takes twenty times as long for a list of lists."""
    lengths: dict[int | None, list[int]] = {}
    for k, value in enumerate(values):
        lengths.setdefault(None if value is None else len(value), []).append(k)
    parts = []
    for length, rows in lengths.items():
        if length:
            texts = map(str, chain.from_iterable(values[k] or () for k in rows))
            parts.append(pl.Series(list(texts), dtype=pl.String).reshape((len(rows), length)).arr.to_list())
        else:
            parts.append(pl.Series([None if length is None else []] * len(rows), dtype=pl.List(pl.String)))
    order = pl.Series([k for rows in lengths.values() for k in rows])
    return pl.concat(parts)[order.arg_sort()]

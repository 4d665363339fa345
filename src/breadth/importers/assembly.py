"""From logs to one study: a metric per test set, one log per subject and test set, items that are the same item."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Literal

import numpy as np
import orjson
import polars as pl

from breadth.errors import InputError, listed
from breadth.importers.logs import Log, Options
from breadth.importers.scoring import Choice, choose_metrics, mean_notes
from breadth.importers.subjects import LOG, Entry, name_subjects, split_by_settings
from breadth.records import LOGS, Imported, imported_responses
from breadth.results.words import count

Keep = Literal["newest", "all"]

#: Columns of items that hold lists.
LISTS = ("options", "option_labels")

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
    split_by_settings(used)
    items, notes = _items(used, before)
    used = _without_repeats(used, keep, left_out)
    name_subjects(used)
    return Assembly(_tables(used, items), choices, left_out, [*notes, *_setting_notes(used)])


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
    kept, is refused or left out, or becomes a subject of its own.
    """
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
        if label is None and keep is None:
            problems.append(
                f"{entry.log.path} and {newest.log.path} hold different answers of {entry.model!r} to "
                f"{count(_differing(own, merged['']), 'item')} of {entry.log.testset}; use --keep newest for the later "
                "log, --keep all for both as subjects of their own"
            )
            continue
        if label is None and keep == "newest":
            left_out[entry.log.path] = f"older than {newest.log.path}, which has the same subject and test set"
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


def _items(
    entries: Sequence[Entry], before: Imported | None
) -> tuple[dict[tuple[str, str], dict[str, Any]], list[str]]:
    """Every item with its texts, and notes; entries learn the places of their items.

    Items of one name with different texts are different items: the later ones get a name of their own.
    """
    texts: dict[tuple[str, str], dict[str, Any]] = {}
    if before is not None:
        described = before.items.select(pl.exclude("testset", "item"))
        rows = before.items.select("testset", "item").iter_rows()
        texts = dict(zip(rows, described.iter_rows(named=True), strict=True))
    place = {key: k for k, key in enumerate(texts)}
    apart: dict[str, int] = {}
    last: dict[str, tuple[Log, list[int]]] = {}  # most logs of a test set hold the same items in the same order
    for entry in entries:
        log, column = entry.log, list[int]()
        own = log.texts.get("text")
        same, place_of_same = last.get(log.testset, (None, column))
        if same is not None and same.items == log.items and own in (None, same.texts.get("text")):
            entry.places = place_of_same
            continue
        last[log.testset] = log, column
        for k, name in enumerate(log.items):
            key = (log.testset, name)
            known = texts.get(key, {}).get("text")
            if own is not None and own[k] and known and _plain(own[k]) != _plain(known):
                key = (log.testset, f"{name}~{hashlib.sha256(_plain(own[k]).encode()).hexdigest()[:6]}")
                apart[log.testset] = apart.get(log.testset, 0) + 1
            if key not in place:
                place[key] = len(place)
            if not texts.get(key):
                texts[key] = {column: values[k] for column, values in log.texts.items() if values[k] is not None}
            column.append(place[key])
        entry.places = column
    notes = [
        f"{testset}: {count(number, 'answer')} to items of the same name but another text; these items are kept apart"
        for testset, number in apart.items()
    ]
    return texts, notes


def _plain(text: str) -> str:
    return " ".join(text.split())


def _tables(entries: Sequence[Entry], items: Mapping[tuple[str, str], Mapping[str, Any]]) -> Imported:
    """The tables of an import; items that nobody answered are left out."""
    parts, logs = [], []
    for number, entry in enumerate(entries):
        log = entry.log
        rows = np.arange(len(log.items)) if entry.rows is None else np.array(entry.rows, dtype=np.intp)
        values = log.scores(entry.metric)
        rows = rows[~np.isnan(values[rows])]
        margin = log.margins.get(entry.metric)
        answers = log.answers or [None] * len(log.items)
        parts.append(
            pl.DataFrame(
                {
                    "log": np.full(len(rows), number),
                    "item": np.array(entry.places, dtype=np.int64)[rows],
                    "correct": values[rows],
                    "margin": np.full(len(rows), np.nan) if margin is None else np.asarray(margin)[rows],
                    "answer": [answers[k] for k in rows],
                },
                schema_overrides={"answer": pl.String},
            )
        )
        logs.append(
            {
                "subject": entry.subject, "run": entry.run, "model": entry.model, "step": entry.step,
                "testset": log.testset, "metric": entry.metric.name, "variant": entry.metric.variant,
                "rows": entry.total or len(log.items), "answered": len(rows),
                "mean": float(values[rows].mean()) if len(rows) else None,
                "stated": log.stated.get(entry.metric), "tool": log.tool, "version": log.version, "path": log.path,
                "checksum": entry.checksum, "stamp": log.stamp,
                "identity": json.dumps(entry.own, sort_keys=True, default=str),
                "attributes": json.dumps(entry.attributes, sort_keys=True, default=str),
                "settings": json.dumps(dict(log.settings), sort_keys=True, default=str), "notes": entry.notes,
            }
        )  # fmt: skip
    responses = imported_responses(pl.concat(parts))
    answered = responses["item"].unique().sort().to_numpy()  # numpy's unique loads numpy.ma, which takes longer
    renumbered = np.zeros(len(items), dtype=np.int64)
    renumbered[answered] = np.arange(len(answered))
    responses = responses.with_columns(item=pl.Series(renumbered[responses["item"].to_numpy()], dtype=pl.UInt32))
    keys = list(items)
    described = [items[keys[k]] for k in answered]
    names = dict.fromkeys(name for row in described for name in row)
    frame = pl.DataFrame(
        {
            "testset": pl.Series([keys[k][0] for k in answered], dtype=pl.String),
            "item": pl.Series([keys[k][1] for k in answered], dtype=pl.String),
            **{name: _text_series([row.get(name) for row in described], name in LISTS) for name in names},
        }
    )
    return Imported(pl.DataFrame(logs, schema=LOGS), frame, responses)


def _text_series(values: Sequence[Any], are_lists: bool) -> pl.Series:
    """A column of texts, or of lists of texts, which polars takes ten times as fast as JSON."""
    if not are_lists:
        return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
    lines = [None if value is None else orjson.dumps(list(map(str, value))).decode() for value in values]
    return pl.Series(lines, dtype=pl.String).str.json_decode(pl.List(pl.String))

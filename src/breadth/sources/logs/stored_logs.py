"""Logs of an earlier import: read from its tables, and joined with new ones."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from breadth.records import Imported
from breadth.sources.logs.log import Log, Metric
from breadth.sources.logs.subjects import SubjectLog


def read_stored_logs(before: Imported) -> list[SubjectLog]:
    """The logs of an earlier import, with the one metric that was kept of each."""
    responses = before.responses.partition_by("log", as_dict=True)
    names = before.items["item"].to_numpy()
    logs = []
    for number, row in enumerate(before.logs.iter_rows(named=True)):
        answers = responses.get((number,), before.responses.clear())
        metric = Metric(row["metric"], row["variant"])
        log = Log(
            path=row["path"],
            tool=row["tool"],
            version=row["version"],
            testset=row["testset"],
            model=row["model"],
            items=list(names[answers["item"].to_numpy()]),
            values={metric: answers["correct"].to_numpy()},
            margins={metric: answers["margin"].fill_null(np.nan).to_numpy()},
            answers=answers["answer"].to_list(),
            settings=json.loads(row["settings"]),
            step=row["step"],
            stamp=row["stamp"],
            stated={} if row["stated"] is None else {metric: row["stated"]},
            notes=row["notes"],
        )
        own = json.loads(row["identity"])
        stored = SubjectLog(log, row["checksum"], row["model"], row["step"], own, total=row["rows"], texts=row["texts"])
        stored.older.extend(map(tuple, json.loads(row["older"])))
        logs.append(stored)
    return logs


def add_new_logs(stored: Sequence[SubjectLog], new: Sequence[SubjectLog], left_out: dict[str, str]) -> list[SubjectLog]:
    """Logs of an earlier import and new ones, each once.

    A copy of a file that was imported is left out; it may bring texts that were not imported.
    """
    known = {_content_of(log): log for log in stored}
    added = list(stored)
    for log in new:
        original = known.get(_content_of(log))
        if original is None:
            added.append(log)
        elif log.texts and not original.texts:
            original.content, original.texts = _with_texts(original.content, log.content), True
        else:
            left_out[log.path] = f"a copy of {original.path}"
    return added


def replace_read_again(stored: Sequence[SubjectLog], new: Sequence[SubjectLog]) -> list[SubjectLog]:
    """Logs of an earlier import and those that were read again on purpose, which take their places."""
    known = {_content_of(log): log for log in stored}
    replaced: set[int] = set()
    for log in new:
        original = known.get(_content_of(log))
        if original is not None:
            log.older = original.older
            replaced.add(id(original))
    new_files = {log.file for log in new}
    joined = list(new)
    places = {}
    for place, log in enumerate(stored):
        places[log.file] = place
        if id(log) not in replaced and log.file not in new_files:
            joined.append(log)
    return sorted(joined, key=lambda log: places.get(log.file, len(stored)))


def _content_of(log: SubjectLog) -> tuple[Hashable, ...]:
    """What makes a log the copy of another: the same bytes, about the same subject and test set."""
    return (log.checksum, log.asked, log.testset)


def _with_texts(stored: Log, read: Log) -> Log:
    """A log of an earlier import with the texts of its file, which was read again."""
    rows = {item: row for row, item in enumerate(read.items)}
    places = []
    for item in stored.items:
        # An item that shares its name with another question was renamed: its name ends in a hash.
        places.append(rows.get(item, rows.get(item.rpartition("~")[0])))
    texts = {}
    for name, packed in read.texts.items():
        column = list(packed)
        texts[name] = [None if place is None else column[place] for place in places]
    return replace(stored, texts=texts)

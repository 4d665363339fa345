"""From logs to one study: a metric for every test set, its items, one answer per subject and item, and the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from breadth.errors import InputError, listed
from breadth.records import LOGS, Imported, imported_responses
from breadth.sources.logs.items import ItemIndex, index_items, same_question_notes
from breadth.sources.logs.log import MOST_LOGS, Options
from breadth.sources.logs.repeats import KeepLogs, merge_repeated_logs
from breadth.sources.logs.scoring import MetricChoice, choose_metrics, mean_notes
from breadth.sources.logs.subjects import SubjectLog, fill_unknown_sha, name_subjects, split_by_settings

#: Types of the answers of one log.
ANSWER_TYPES = {"item": pl.UInt32, "correct": pl.Float64, "margin": pl.Float64, "answer": pl.String}


@dataclass
class Assembly:
    """The tables of an import, and what was decided on the way."""

    imported: Imported
    choices: dict[str, MetricChoice]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def assemble(
    logs: Sequence[SubjectLog],
    options: Options,
    keep: KeepLogs | None = None,
    before: Imported | None = None,
) -> Assembly:
    """Put logs together. ``logs`` include those of an earlier import, whose items are in ``before``."""
    left_out: dict[str, str] = {}
    choices = choose_metrics(logs, options, left_out)
    used = [log for log in logs if log.metric in log.content.values]
    if not used:
        raise InputError("\n".join(f"{name}: {reason}" for name, reason in left_out.items()))
    for log in used:
        log.notes = list(dict.fromkeys([*log.content.notes, *mean_notes(log)]))
    fill_unknown_sha(used)
    split_by_settings(used)
    index, notes = index_items(used, before)
    used = merge_repeated_logs(used, keep, left_out)
    name_subjects(used)
    notes += [*same_question_notes(used, index), *_setting_notes(used)]
    return Assembly(_make_tables(used, index), choices, left_out, notes)


def _setting_notes(logs: Sequence[SubjectLog]) -> list[str]:
    """Say where subjects were asked in different ways."""
    subjects_by_value: dict[tuple[str, str], dict[str, list[str]]] = {}
    for log in logs:
        for key, value in log.content.settings.items():
            if value is not None:
                by_value = subjects_by_value.setdefault((log.testset, key), {})
                by_value.setdefault(str(value), []).append(log.subject)
    notes = []
    for (testset, key), by_value in subjects_by_value.items():
        if len(by_value) == 1:
            continue
        words = []
        for value, names in by_value.items():
            words.append(f"{value} for {listed(dict.fromkeys(names), MOST_LOGS)}")
        notes.append(f"{testset}: {key} differs between subjects: {'; '.join(words)}")
    return notes


def _make_tables(logs: Sequence[SubjectLog], index: ItemIndex) -> Imported:
    """The tables of an import; items that nobody answered are left out."""
    parts, rows = [], []
    for number, log in enumerate(logs):
        answers = _answer_table(log)
        rows.append(_log_row(log, answers["correct"]))
        parts.append(answers.with_columns(log=pl.lit(number, pl.UInt32)))
    responses = imported_responses(pl.concat(parts))
    answered = responses["item"].unique().sort().to_list()
    new_places = [0] * len(index.places)
    for new_place, place in enumerate(answered):
        new_places[place] = new_place
    responses = responses.with_columns(item=pl.Series(new_places, dtype=pl.UInt32)[responses["item"]])
    return Imported(pl.DataFrame(rows, schema=LOGS), index.table(answered), responses)


def _answer_table(log: SubjectLog) -> pl.DataFrame:
    """The answers of a log that are used and scored.

    Polars gets lists: the first array that it gets loads numpy.ma, which takes longer than most logs.
    """
    values = log.content.scores(log.metric)
    margin = log.content.margins.get(log.metric)
    missing = [None] * len(values)
    columns = {
        "item": log.places,
        "correct": values.tolist(),
        "margin": missing if margin is None else np.asarray(margin).tolist(),
        "answer": log.content.answers or missing,
    }
    table = pl.DataFrame(columns, schema=ANSWER_TYPES)
    if log.rows is not None:
        table = table[list(log.rows)]
    return table.filter(pl.col("correct").is_not_nan())


def _log_row(log: SubjectLog, correct: pl.Series) -> dict[str, Any]:
    """What the table of logs says about one: where it came from, whose it is, how it was scored."""
    content = log.content
    return {
        "subject": log.subject,
        "run": log.run,
        "model": log.model,
        "step": log.step,
        "testset": content.testset,
        "metric": log.metric.name,
        "variant": log.metric.variant,
        "rows": log.total or len(content.items),
        "answered": len(correct),
        "mean": float(correct.to_numpy().mean()) if len(correct) else None,
        "stated": content.stated.get(log.metric),
        "tool": content.tool,
        "version": content.version,
        "path": content.path,
        "checksum": log.checksum,
        "stamp": content.stamp,
        "identity": json.dumps(log.own, sort_keys=True, default=str),
        "attributes": json.dumps(log.attributes, sort_keys=True, default=str),
        "settings": json.dumps(dict(content.settings), sort_keys=True, default=str),
        "notes": log.notes,
        "texts": log.texts,
        "older": json.dumps(log.older),
    }

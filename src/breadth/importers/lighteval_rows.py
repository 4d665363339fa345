"""Rows of lighteval's details: the new and the old layout as one kind of question, and margins.

Parquet files are read by their own schema, and a panic of the reader is a message like any other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from breadth.errors import InputError
from breadth.importers.logs import Metric
from breadth.importers.reading import LogFile, log_odds, mapping, number, option_letters, text_item, words
from breadth.records import reading

NEW = frozenset({"doc", "metric", "model_response"})
OLD = frozenset({"example", "full_prompt", "predictions"})

#: What is read of each column; lists of tokens, which make up most of a file, are not, but for their lengths.
FIELDS = {
    "doc": ("query", "choices", "gold_index", "task_name"),
    "model_response": ("text", "text_post_processed", "logprobs"),
}
FLAT = ("example", "choices", "gold", "gold_index", "predictions", "pred_logits", "metrics")

#: Metrics that are columns of their own where there is no column ``metrics``.
COLUMNS = ("acc", "acc_norm", "em", "exact_match", "mc1", "mc2", "f1")

#: Bytes up to which a file is read at once, and rows that are read at a time of a larger one.
SMALL, ROWS = 1 << 26, 2000

#: Longest output that is kept as an answer; longer ones are reasoning.
ANSWER = 200

Row = Mapping[str, Any]


class Question(NamedTuple):
    """A row: what was asked, the log-probability of each choice if the model chose, and the metrics."""

    query: str
    choices: Sequence[str]
    gold: Sequence[int]
    logprobs: Sequence[float]
    reply: str | None
    metrics: Mapping[str, float]
    task: str | None

    @property
    def item(self) -> str:
        """The identity of the question."""
        choices = [choice.strip() for choice in self.choices] if self.logprobs else []
        return text_item(" ".join(self.query.split()), *choices)

    @property
    def labels(self) -> list[str]:
        """Labels of choices: the choices themselves where they are letters, else letters by position."""
        bare = [choice.strip() for choice in self.choices]
        if all(re.fullmatch(r"[A-Z]", choice) for choice in bare):
            return bare
        return option_letters(len(bare))


def questions(file: LogFile) -> Iterator[Question]:
    """The rows of a file, some at a time."""
    where = str(file.path)
    frame = pl.scan_parquet(file.path, glob=False)
    schema = dict(_collected(frame, where).schema)
    new = schema.keys() >= NEW
    wanted = frame.select(_new_columns(schema) if new else _old_columns(schema))
    total = _collected(frame.select(pl.len()), where, 1).item()
    step = max(total, 1) if file.size <= SMALL else ROWS
    for start in range(0, total, step):
        rows = _collected(wanted.slice(start, step), where, step).iter_rows(named=True)
        for k, row in enumerate(rows, start + 1):
            yield _new(row, f"{where}, row {k}") if new else _old(row, f"{where}, row {k}")


def _collected(frame: pl.LazyFrame, where: str, rows: int = 0) -> pl.DataFrame:
    """The first rows of a frame."""
    with reading(where):
        return frame.head(rows).collect()


def _new_columns(schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    columns = [pl.col("metric")] if isinstance(schema["metric"], pl.Struct) else []
    for column, wanted in FIELDS.items():
        dtype = schema[column]
        fields = {field.name for field in dtype.fields} if isinstance(dtype, pl.Struct) else set()
        columns += [pl.col(column).struct.field(name) for name in wanted if name in fields]
    return columns or [pl.lit(None).alias("metric")]


def _old_columns(schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    names = [*FLAT, *([] if "metrics" in schema else COLUMNS)]
    return [pl.col(name) for name in names if name in schema]


def _new(row: Row, where: str) -> Question:
    query = row.get("query")
    if not isinstance(query, str):
        raise InputError(f"{where}: doc has no query; the file is damaged")
    choices, logprobs = _strings(row.get("choices")), _numbers(row.get("logprobs"))
    texts = _strings(row.get("text_post_processed")) or _strings(row.get("text"))
    return Question(
        query,
        choices,
        _indices(row.get("gold_index"), len(choices)),
        logprobs if len(logprobs) == len(choices) else (),
        texts[0].strip() if texts and len(texts[0].strip()) <= ANSWER else None,
        _metrics(row.get("metric")),
        words(row.get("task_name")),
    )


def _old(row: Row, where: str) -> Question:
    query = row.get("example")
    if not isinstance(query, str):
        raise InputError(f"{where}: has no example; the file is damaged")
    choices, gold = _strings(_literal(row.get("choices"))), _literal(row.get("gold"))
    predictions = _literal(row.get("predictions"))
    chosen = [_numbers(_literal(row.get("pred_logits"))), _numbers(predictions)] if choices else []
    replies = _strings(predictions)
    metrics = row["metrics"] if "metrics" in row else {name: row.get(name) for name in COLUMNS}
    indices = _indices(_literal(row.get("gold_index")), len(choices))
    if not choices:
        choices = _strings(gold if isinstance(gold, list) else [gold])
        indices = list(range(len(choices)))
    return Question(
        query,
        choices,
        indices,
        next((numbers for numbers in chosen if len(numbers) == len(choices)), ()),
        replies[0].strip() if replies and len(replies[0].strip()) <= ANSWER else None,
        _metrics(_literal(metrics)),
        None,
    )


def _literal(value: Any) -> Any:
    """A cell that was cast to text as what it was; other cells, and texts that are just that, as they are."""
    if not isinstance(value, str) or value[:1] not in tuple("[{(-+.0123456789TFN"):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


def _strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def _numbers(value: Any) -> list[float]:
    """Log-probabilities; each alone, or with whether it is the likeliest continuation."""
    numbers = []
    for one in value if isinstance(value, list | tuple) else ():
        alone = one[0] if isinstance(one, list | tuple) and one else one
        converted = None if isinstance(alone, bool) else number(alone)
        if converted is None:
            return []
        numbers.append(converted)
    return numbers


def _indices(value: Any, count: int) -> list[int]:
    indices = list(value) if isinstance(value, list | tuple) else [value]
    return [k for k in indices if type(k) is int and 0 <= k < count]


def _metrics(value: Any) -> dict[str, float]:
    converted = {name: number(_literal(one)) for name, one in mapping(value).items()}
    return {name: one for name, one in converted.items() if one is not None}


def margins_of(
    rows: Sequence[Question], names: Sequence[str], asked: str | None
) -> tuple[dict[Metric, list[float | None]], list[str | None]]:
    """Log-odds of the right choices by metric, and what was chosen, by the metric that is asked for or preferred."""
    margins: dict[Metric, list[float | None]] = {}
    chosen: dict[str, list[str | None]] = {}
    for name in names:
        if not re.fullmatch(r"(?:loglikelihood_)?acc(?:_norm)?(?:_\w+)?|mc1", name):
            continue
        for lengths in (_characters, _without_space) if "norm" in name else (_undivided,):
            scores = [[p / n for p, n in zip(row.logprobs, lengths(row.choices), strict=False)] for row in rows]
            best = [max(range(len(one)), key=one.__getitem__) if one else None for one in scores]
            reproduced = all(
                k is not None and row.metrics.get(name) in (0.0, 1.0) and (k in row.gold) is (row.metrics[name] == 1)
                for k, row in zip(best, rows, strict=True)
            )
            if reproduced:
                margins[Metric(name)] = [log_odds(one, row.gold) for one, row in zip(scores, rows, strict=True)]
                chosen[name] = [None if k is None else row.labels[k] for k, row in zip(best, rows, strict=True)]
                break
    replies = [row.reply for row in rows]
    return margins, chosen.get(asked or names[0], next(iter(chosen.values()), replies))


def _undivided(choices: Sequence[str]) -> list[int]:
    return [1] * len(choices)


def _characters(choices: Sequence[str]) -> list[int]:
    return [max(len(choice), 1) for choice in choices]


def _without_space(choices: Sequence[str]) -> list[int]:
    return [max(len(choice.removeprefix(" ")), 1) for choice in choices]

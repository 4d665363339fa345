"""Changes to what a file means: its columns, types, rows, keys, arrays, members and parts.

A :class:`Case` is a seed, a base and a list of changes, each with a seed of its own, so that a case can be repeated and
made smaller by leaving changes out. ``build`` writes the files of a case and returns the path that verbs are given.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import json
import math
import random
import shutil
import zipfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fuzzing
import numpy as np
import polars as pl

#: A table whose names may be missing or double, which a frame does not allow.
Columns = list[tuple[str, pl.Series]]

#: Names that mean something to some tool, and names that mean trouble.
VOCABULARY = [
    "run", "model", "subject", "name", "seed", "train_set", "dataset", "split", "subset", "examples", "method",
    "strategy", "train_level", "step", "epoch", "checkpoint", "tokens", "testset", "task", "benchmark", "metric",
    "filter", "item", "question_id", "doc_id", "id", "index", "idx", "correct", "is_correct", "passed", "acc",
    "acc_norm", "accuracy", "score", "value", "mean", "loss", "eval_loss", "ppl", "stderr", "acc_stderr", "n", "date",
    "timestamp", "params", "size", "family", "base_model", "label", "answer", "prediction", "margin", "difficulty",
    "level", "shift", "text", "prompt", "passage", "language", "revision", "in_domain", "mnli", "hans", "average",
    "train_loss", "eval/hans_acc", "hidden_size", "learning_rate", "ease",
]  # fmt: skip
STRANGE = [
    "", " ", "  ", "1", "0.5", "nan", "null", "True", "a" * 5000, "^x$", "^.*$", "*", "x\u2028y", "x\x00y", "x\ny", "é",
    "\ufeffmodel", "acc__MIN", "run - eval/acc", "run - eval/acc__MIN", "item_duplicated_0", "acc_duplicated_0",
    "__metric", "__value", "__all", "testset/", "../x", ".", "a/b/c", "unnamed: 0", "model ", " Model", "MODEL",
    "=1+1", "\x1b[31m", "a,b", 'a"b', "a;b", "a|b", "[red]", "{x}", "%s", "\u202ex", "column_1", "literal", "len",
    "𝔘" * 40, "row", "group", "weight", "bias", "index_right", "item_right", "count", "rank",
]  # fmt: skip
TEXTS = [
    "", " ", "NaN", "nan", "NA", "null", "None", "-", "?", "inf", "-inf", "1e400", "1,5", "1.000,5", "50%", "true",
    "Yes", "right", "0x10", "1_000", "007", "９", "½", "x\u2028y", "x\x00y", "x\ny", "a" * 3000, "=1+1", "\x1b[31m",
    '"', "[1]", "{}", "step-100", "final", "2024-01-01", "12:30", "1:02:03", "1e3", "+1", "−1", "\u202ex", "😀", "m0*",
    "[a]", "*",
]  # fmt: skip
NUMBERS = [
    math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -1, 2, 100, 1e15, 0.1, -0.0, 2**31, 2**53 + 1,
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kind of input, what it starts from, the seeds of its changes, and that of the form it is written in."""

    kind: str
    base: str
    seed: str
    changes: tuple[int, ...]
    form: int

    def smaller(self) -> list[Case]:
        """The same with one change less."""
        without = [self.changes[:k] + self.changes[k + 1 :] for k in range(len(self.changes))]
        return [replace(self, changes=changes) for changes in without]


#: What was changed in the case that is being built, in words, for whoever reads about a finding.
NOTES: list[str] = []


# ---- What cases start from ------------------------------------------------------------------------------------------


def scores_wide(chance: random.Random) -> Columns:
    """A row per run and step, a column per test set, as breadth's own simulation."""
    runs, steps = chance.choice([(3, 8), (6, 5), (1, 12), (2, 2)])
    names = chance.choice([["mnli", "hans", "anli", "snli"], ["in_domain", "negation", "science"], ["a_acc", "b_acc"]])
    rows = [(run, step) for run in range(runs) for step in range(steps)]
    generator = np.random.default_rng(chance.randrange(1 << 32))
    columns: Columns = [
        ("run", pl.Series([f"run-{run:02d}" for run, _ in rows])),
        ("model", pl.Series([f"opt-{125 * (1 + run % 2)}m" for run, _ in rows])),
        ("step", pl.Series([100 * step for _, step in rows])),
    ]
    rise = np.array([step / steps for _, step in rows])
    for name in names:
        columns.append((name, pl.Series((0.4 + 0.4 * rise + generator.normal(0, 0.05, len(rows))).round(3))))
    return columns


def scores_long(chance: random.Random) -> Columns:
    """A row per model, test set and metric."""
    rows = [(m, t, k) for m in range(24) for t in ("arc", "mmlu", "hellaswag") for k in ("acc", "acc_stderr")]
    generator = np.random.default_rng(chance.randrange(1 << 32))
    return [
        ("model", pl.Series([f"org/m{m:02d}-7b" for m, _, _ in rows])),
        ("task", pl.Series([t for _, t, _ in rows])),
        ("metric", pl.Series([k for _, _, k in rows])),
        ("value", pl.Series(generator.uniform(0.2, 0.9, len(rows)).round(4))),
    ]


def leaderboard(chance: random.Random) -> Columns:
    """A row per model with its size, family and date."""
    generator = np.random.default_rng(chance.randrange(1 << 32))
    ability = generator.normal(60, 10, 26)
    columns: Columns = [
        ("model", pl.Series([f"m{m:02d}" for m in range(26)])),
        ("family", pl.Series([f"family-{m % 7}" for m in range(26)])),
        ("params_b", pl.Series([[1, 3, 7, 13, 70][m % 5] for m in range(26)])),
        ("date", pl.Series([datetime.date(2024, 1, 1) + datetime.timedelta(days=9 * m) for m in range(26)])),
    ]
    for name in ("arc", "hellaswag", "mmlu", "gsm8k", "winogrande"):
        columns.append((name, pl.Series((ability + generator.normal(0, 4, 26)).round(2))))
    return columns


def answers_long(chance: random.Random, models: int = 0, items: int = 0) -> Columns:
    """A row per model and item."""
    models, items = models or chance.choice([2, 3, 24, 24]), items or chance.choice([6, 30, 30])
    generator = np.random.default_rng(chance.randrange(1 << 32))
    rows = [(m, i) for m in range(models) for i in range(items)]
    ability, difficulty = np.linspace(-2, 2, models), np.linspace(-2, 2, items)
    right = [int(generator.random() < 1 / (1 + np.exp(difficulty[i] - ability[m]))) for m, i in rows]
    return [
        ("model", pl.Series([f"m{m:02d}" for m, _ in rows])),
        ("testset", pl.Series(["ab"[i % 2] for _, i in rows])),
        ("item", pl.Series([f"q{i:02d}" for _, i in rows])),
        ("correct", pl.Series(right)),
        ("label", pl.Series([["yes", "no"][i // 2 % 2] for _, i in rows])),
        ("margin", pl.Series(generator.normal(0, 1, len(rows)).round(3))),
        ("passage", pl.Series([f"p{i // 3}" for _, i in rows])),
    ]


def answers_trained(chance: random.Random) -> Columns:
    """Answers of models that were trained on levels of difficulty, and before."""
    generator = np.random.default_rng(chance.randrange(1 << 32))
    rows = [(level, seed, i) for level in (None, 0, 1, 2) for seed in (0, 1, 2) for i in range(45)]
    return [
        ("model", pl.Series(["opt"] * len(rows))),
        ("train_level", pl.Series([level for level, _, _ in rows])),
        ("strategy", pl.Series([None if level is None else ["easy", "hard", "full"][level] for level, _, _ in rows])),
        ("seed", pl.Series([seed for _, seed, _ in rows])),
        ("step", pl.Series([0 if level is None else 64 for level, _, _ in rows])),
        ("item", pl.Series([f"q{i:02d}" for _, _, i in rows])),
        ("level", pl.Series([i // 15 for _, _, i in rows])),
        ("correct", pl.Series(generator.integers(0, 2, len(rows)))),
    ]


def answers_wide(chance: random.Random) -> Columns:
    """A row per model, a column per item."""
    models, items = chance.choice([(24, 24), (3, 6), (2, 40), (40, 2)])
    generator = np.random.default_rng(chance.randrange(1 << 32))
    columns: Columns = [("model", pl.Series([f"m{m:02d}" for m in range(models)]))]
    columns += [(f"q{i:02d}", pl.Series(generator.integers(0, 2, models))) for i in range(items)]
    return columns


def items_table(chance: random.Random) -> Columns:
    """The questions of the answers, with measures of how hard they are."""
    generator = np.random.default_rng(chance.randrange(1 << 32))
    return [
        ("item", pl.Series([f"q{i:02d}" for i in range(24)])),
        ("text", pl.Series([f"How many are {i} and {i * i}? Say it in words." for i in range(24)])),
        ("answer", pl.Series([str(i + i * i) for i in range(24)])),
        ("difficulty", pl.Series(generator.normal(0, 1, 24).round(3))),
        ("score", pl.Series(generator.integers(0, 100, 24))),
        ("grade", pl.Series([i // 6 for i in range(24)])),
    ]


TABLES = {"scores_wide": scores_wide, "scores_long": scores_long, "leaderboard": leaderboard}
ANSWERS = {"answers_long": answers_long, "answers_wide": answers_wide, "answers_trained": answers_trained}


# ---- Changes to tables ----------------------------------------------------------------------------------------------


def _place(columns: Columns, chance: random.Random) -> int:
    return chance.randrange(len(columns))


def change_columns(columns: Columns, chance: random.Random) -> Columns:
    """One change to the names, the number, the types or the values of columns, or to the rows."""
    if not columns:
        return columns
    columns = list(columns)
    at = _place(columns, chance)
    change = chance.choices(list(COLUMN_CHANGES), list(COLUMN_CHANGES.values()))[0]
    NOTES.append(f"{change} (column {columns[at][0][:30]!r})")
    for changed in (_changed_names, _changed_values):
        result = changed(change, columns, at, chance)
        if result is not None:
            return result
    rows = _chosen_rows(change, columns, at, chance)
    return [(name, _taken(values, rows)) for name, values in columns]


def _changed_names(change: str, columns: Columns, at: int, chance: random.Random) -> Columns | None:
    """A change to which columns there are and what they are called; None if the change is of another kind."""
    name, values = columns[at]
    if change == "rename":
        columns[at] = (chance.choice(VOCABULARY), values)
        NOTES.append(f"to {columns[at][0]!r}")
    elif change == "strange name":
        columns[at] = (chance.choice(STRANGE), values)
        NOTES.append(f"to {columns[at][0][:30]!r}")
    elif change == "swap names":
        other = _place(columns, chance)
        columns[at], columns[other] = (columns[other][0], values), (name, columns[other][1])
    elif change == "drop":
        del columns[at]
    elif change == "double":
        columns.insert(_place(columns, chance), (name, chance.choice(columns)[1]))
    elif change == "add":
        added = retyped(pl.Series(range(values.len())), chance)
        place = _place(columns, chance)
        columns.insert(place, (chance.choice(VOCABULARY), added))
        NOTES.append(f"called {columns[place][0]!r}")
    elif change == "no text":
        columns = [column for column in columns if column[1].dtype != pl.String]
    elif change == "only":
        columns = [columns[at]]
    else:
        return None
    return columns


def _changed_values(change: str, columns: Columns, at: int, chance: random.Random) -> Columns | None:
    """A change to the type or the values of a column; None if the change is of another kind."""
    name, values = columns[at]
    height = values.len()
    if change == "retype":
        values = retyped(values, chance)
    elif change == "retype all":
        seed = chance.randrange(1 << 32)
        return [(each, retyped(cells, random.Random(seed))) for each, cells in columns]
    elif change == "null":
        values = pl.Series([None] * height, dtype=chance.choice([pl.Null, values.dtype, pl.Float64]))
    elif change == "constant":
        values = _taken(values, [0] * height)
    elif change == "unique":
        values = pl.Series([f"{name[:40]}-{k}" for k in range(height)], dtype=pl.String)
    elif change == "holes":
        values = _taken(values, [None if chance.random() < 0.3 else k for k in range(height)])
    elif change == "texts":
        cells = [chance.choice(TEXTS) if chance.random() < 0.2 else _text(value) for value in values.to_list()]
        values = pl.Series(cells, dtype=pl.String)
    elif change == "numbers":
        numbers = [value if isinstance(value, int | float) else k for k, value in enumerate(values.to_list())]
        cells = [chance.choice(NUMBERS) if chance.random() < 0.2 else value for value in numbers]
        values = pl.Series([float(value) for value in cells], dtype=pl.Float64)
    elif change == "scale":
        factor = chance.choice([100, -1, 1e300, 1e-300, 0])
        if values.dtype.is_numeric():
            values = values.cast(pl.Float64) * factor
    else:
        return None
    columns[at] = (name, values)
    return columns


def _chosen_rows(change: str, columns: Columns, at: int, chance: random.Random) -> list[int | None]:
    """The rows that a table has after a change to its rows; None stands for an empty one."""
    values = columns[at][1].to_list()
    height = len(values)
    rows: list[int | None] = list(range(height))
    if change == "no rows":
        rows = []
    elif change == "one row":
        rows = rows[:1]
    elif change == "few rows":
        rows = sorted(chance.sample(range(height), min(height, chance.randint(2, 5))))
    elif change == "one value":  # one model, one item, one test set
        rows = [k for k in range(height) if repr(values[k]) == repr(values[0])]
    elif change == "shuffle":
        chance.shuffle(rows)
    elif change == "repeat":
        rows += rows[: chance.randint(1, 3)]
    elif change == "sparse":
        rows = [k for k in rows if chance.random() < 0.5]
    elif change == "empty row":
        rows.append(None)
    else:
        raise KeyError(change)
    return rows


#: Changes with how often each is drawn.
COLUMN_CHANGES = {
    "rename": 8, "strange name": 4, "swap names": 3, "drop": 4, "double": 3, "add": 5, "retype": 10, "retype all": 1,
    "no text": 2, "only": 1, "null": 4, "constant": 4, "unique": 3, "holes": 4, "texts": 5, "numbers": 4, "scale": 2,
    "no rows": 1, "one row": 2, "few rows": 3, "one value": 5, "shuffle": 1, "repeat": 2, "sparse": 3, "empty row": 1,
}  # fmt: skip


def _taken(values: pl.Series, rows: list[int | None]) -> pl.Series:
    """The values in these rows; None for an empty cell. Types that polars cannot gather are built anew."""
    cells = values.to_list()
    taken = [None if k is None else cells[k] for k in rows]
    try:
        return pl.Series(values.name, taken, dtype=values.dtype, strict=False)
    except Exception:
        return pl.Series(values.name, taken, dtype=pl.Object)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def retyped(values: pl.Series, chance: random.Random) -> pl.Series:
    """The same number of values of another type."""
    height = values.len()
    cells = values.to_list()
    seen: dict[str, int] = {}
    codes = [seen.setdefault(repr(cell), len(seen)) for cell in cells]  # equal values stay equal
    day = datetime.datetime(2024, 1, 1)
    second = datetime.timedelta(seconds=1)
    kind = chance.choice(TYPES)
    NOTES.append(f"as {kind}")
    made: dict[str, Callable[[], pl.Series]] = {
        "step words": lambda: pl.Series([f"step-{100 * code}" for code in codes]),
        "stage words": lambda: pl.Series([f"{['start', 'middle', 'final'][code % 3]}" for code in codes]),
        "thousands": lambda: pl.Series([f"{code}k" for code in codes]),
        "percent": lambda: pl.Series([f"{code % 100}.5%" for code in codes]),
        "text": lambda: pl.Series([_text(cell) for cell in cells], dtype=pl.String),
        "padded": lambda: pl.Series([f" {_text(cell)} " for cell in cells]),
        "date": lambda: pl.Series([(day + 86400 * second * code).date() for code in codes]),
        "old date": lambda: pl.Series([datetime.date(1 + code % 9000, 1, 1) for code in codes]),
        "datetime": lambda: pl.Series([day + second * code for code in codes], dtype=pl.Datetime),
        "zoned": lambda: pl.Series([day + second * code for code in codes], dtype=pl.Datetime("us", "UTC")),
        "nanoseconds": lambda: pl.Series([day + second * code for code in codes], dtype=pl.Datetime("ns")),
        "duration": lambda: pl.Series([60 * second * code for code in codes], dtype=pl.Duration),
        "time": lambda: pl.Series([(day + 61 * second * code).time() for code in codes], dtype=pl.Time),
        "bool": lambda: pl.Series([code % 2 == 1 for code in codes], dtype=pl.Boolean),
        "bool words": lambda: pl.Series([["yes", "no", "TRUE", "f"][code % 4] for code in codes]),
        "list": lambda: pl.Series([[code, code] for code in codes], dtype=pl.List(pl.Int64)),
        "list of text": lambda: pl.Series([["a"] * (code % 3) for code in codes], dtype=pl.List(pl.String)),
        "array": lambda: pl.Series([[code, 1] for code in codes], dtype=pl.Array(pl.Int64, 2)),
        "struct": lambda: pl.Series([{"a": code, "b": str(code)} for code in codes], dtype=_STRUCT),
        "binary": lambda: pl.Series([str(code).encode() + b"\xff\x00" for code in codes], dtype=pl.Binary),
        "decimal": lambda: pl.Series([decimal.Decimal(code) / 8 for code in codes], dtype=pl.Decimal(20, 3)),
        "categorical": lambda: pl.Series([f"c{code}" for code in codes], dtype=pl.Categorical),
        "enum": lambda: pl.Series([f"c{code}" for code in codes], dtype=pl.Enum([f"c{k}" for k in range(len(seen))])),
        "int8": lambda: pl.Series([code % 100 for code in codes], dtype=pl.Int8),
        "int64 extremes": lambda: pl.Series([[-(2**63), 2**63 - 1, 0][code % 3] for code in codes], dtype=pl.Int64),
        "uint64": lambda: pl.Series([2**64 - 1 - code for code in codes], dtype=pl.UInt64),
        "huge int text": lambda: pl.Series([str(10**30 + code) for code in codes]),
        "float32": lambda: pl.Series([code / 7 for code in codes], dtype=pl.Float32),
        "nan": lambda: pl.Series([math.nan] * height, dtype=pl.Float64),
        "infinite": lambda: pl.Series([[math.inf, 0.5][code % 2] for code in codes], dtype=pl.Float64),
        "share": lambda: pl.Series([code % 10 / 10 for code in codes], dtype=pl.Float64),
        "null": lambda: pl.Series([None] * height, dtype=pl.Null),
    }
    return made[kind]()


_STRUCT = pl.Struct({"a": pl.Int64, "b": pl.String})
TYPES = [
    "step words", "stage words", "thousands", "percent", "text", "padded", "date", "old date", "datetime", "zoned",
    "nanoseconds", "duration", "time", "bool", "bool words", "list", "list of text", "array", "struct", "binary",
    "decimal", "categorical", "enum", "int8", "int64 extremes", "uint64", "huge int text", "float32", "nan", "infinite",
    "share", "null",
]  # fmt: skip


# ---- Ways to write a table ------------------------------------------------------------------------------------------


def distinct(columns: Columns) -> Columns:
    """The same columns with names that a frame allows."""
    seen: set[str] = set()
    made: Columns = []
    for name, values in columns:
        free = name
        while free in seen:
            free += "_2"
        seen.add(free)
        made.append((free, values))
    return made


def frame_of(columns: Columns) -> pl.DataFrame:
    return pl.DataFrame([values.alias(name) for name, values in distinct(columns)])


def write_csv(columns: Columns, folder: Path, chance: random.Random) -> Path:
    """A file of text in one of the many dialects there are."""
    plain = chance.random() < 0.6
    separator = "," if plain else chance.choice(",,;\t|: ")
    quoting = csv.QUOTE_MINIMAL if plain else chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    comma = not plain and chance.random() < 0.2
    target = io.StringIO()
    writer = csv.writer(target, delimiter=separator, quoting=quoting, lineterminator="\n")
    names = [name for name, _ in columns]
    rows = [list(row) for row in zip(*[map(_cell, values.to_list()) for _, values in columns], strict=True)]
    if comma:
        rows = [[str(x).replace(".", ",") if isinstance(x, float) else x for x in row] for row in rows]
    writer.writerow(names)
    writer.writerows(rows)
    lines = target.getvalue().split("\n")
    if not plain:
        lines = _odd_lines(lines, separator, chance)
    ending = "\n" if plain else chance.choice(["\n", "\n", "\n", "\r\n", "\r", "\u2028", "\n\n"])
    text = ending.join(lines)
    encodings = ["utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "cp1252", "utf-32"]
    encoding = "utf-8" if plain else chance.choice(encodings)
    content = text.encode(encoding, errors="replace")
    suffix = ".tsv" if separator == "\t" and chance.random() < 0.8 else ".csv"
    if not plain:
        suffix = chance.choice([suffix] * 12 + [".txt", ".CSV", ".dat", ""])
        if chance.random() < 0.1:
            content, suffix = gzip.compress(content, mtime=0), suffix + ".gz"
    return _written(folder / f"{_stem(chance)}{suffix}", content)


def _odd_lines(lines: list[str], separator: str, chance: random.Random) -> list[str]:
    change = chance.choice(["", "", "", "title", "ragged", "comment", "blank", "short", "no header", "twice", "quote"])
    at = chance.randrange(len(lines))
    line = lines[at]
    changed = {
        "title": lambda: [chance.choice(["My results", "Results of 2024, final", "# made by hand", "sep=;"]), *lines],
        "ragged": lambda: [*lines[:at], line + separator + "1" + separator + "x", *lines[at + 1 :]],
        "comment": lambda: [*lines[:at], "# a comment", *lines[at:]],
        "blank": lambda: [*lines[:at], "", separator * 3, *lines[at:]],
        "short": lambda: [*lines[:at], line.rpartition(separator)[0], *lines[at + 1 :]],
        "no header": lambda: lines[1:],
        "twice": lambda: lines + lines,
        "quote": lambda: [*lines[:at], '"' + line, *lines[at + 1 :]],
    }
    return changed[change]() if change else lines


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list | dict | pl.Series):
        return json.dumps(_plain(value), default=str)
    return value


def _plain(value: Any) -> Any:
    """A value that JSON holds."""
    if isinstance(value, pl.Series | tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def write_parquet(columns: Columns, folder: Path, chance: random.Random) -> Path:
    """A Parquet file, by polars or by pyarrow, which allows one name twice."""
    path = folder / f"{_stem(chance)}.parquet"
    try:
        if chance.random() < 0.3:
            import pyarrow as pa
            import pyarrow.parquet as pq

            table = pa.Table.from_arrays([values.to_arrow() for _, values in columns], [name for name, _ in columns])
            pq.write_table(table, path, row_group_size=chance.choice([None, 1, 5]))
        else:
            frame_of(columns).write_parquet(path, compression=chance.choice(["zstd", "snappy", "uncompressed"]))
    except Exception:  # a type that Parquet does not hold, such as objects
        frame_of([(name, values.cast(pl.String, strict=False)) for name, values in columns]).write_parquet(path)
    return path


def write_json(columns: Columns, folder: Path, chance: random.Random) -> Path:
    """JSON in one of the shapes that pandas and others write, with a change to its structure in every third."""
    names = [name for name, _ in columns]
    lists = [[_plain(value) for value in values.to_list()] for _, values in columns]
    rows = [list(row) for row in zip(*lists, strict=True)]
    records: list[Any] = [dict(zip(names, row, strict=True)) for row in rows]
    shapes: dict[str, Any] = {
        "records": records,
        "lines": records,
        "columns": dict(zip(names, lists, strict=True)),
        "index": {name: {str(k): x for k, x in enumerate(cells)} for name, cells in zip(names, lists, strict=True)},
        "split": {"columns": names, "index": list(range(len(rows))), "data": rows},
        "log_history": {"log_history": records, "best_metric": None},
        "values": [names, *rows],
    }
    shape = chance.choice(list(shapes))
    document = shapes[shape]
    if chance.random() < 0.25:
        for _ in range(chance.randint(1, 3)):
            document = change_document(document, chance)
    if shape == "lines" and isinstance(document, list):
        text = "\n".join(encoded(row, chance) for row in document) + "\n"
        path = folder / f"{_stem(chance)}.{chance.choice(['jsonl', 'jsonl', 'ndjson', 'json'])}"
    else:
        text = encoded(document, chance)
        path = folder / f"{_stem(chance)}.{chance.choice(['json', 'json', 'json', 'jsonl'])}"
    content = text.encode("utf-8", errors="surrogatepass" if chance.random() < 0.5 else "replace")
    if chance.random() < 0.05:
        return _written(path.with_name(path.name + ".gz"), gzip.compress(content, mtime=0))
    return _written(path, content)


def write_markdown(columns: Columns, folder: Path, chance: random.Random) -> Path:
    names = [name.replace("|", "\\|").replace("\n", " ") for name, _ in columns]
    rows = zip(*[values.to_list() for _, values in columns], strict=True)
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    lines += [f"| {' | '.join('' if x is None else str(x) for x in row)} |" for row in rows]
    if chance.random() < 0.3:
        lines = _odd_lines(lines, "|", chance)
    return _written(folder / f"{_stem(chance)}.md", "\n".join(lines).encode(errors="replace"))


def write_npz_table(columns: Columns, folder: Path, chance: random.Random) -> Path:
    """The columns of numbers as a matrix with names, which is what breadth takes in NPZ."""
    numbers = [(name, values) for name, values in columns if values.dtype.is_numeric()]
    rest = [values for _, values in columns if not values.dtype.is_numeric()]
    names = [str(value) for value in rest[0].to_list()] if rest else []
    matrix = np.array([values.cast(pl.Float64, strict=False).to_numpy() for _, values in numbers]).T
    arrays = {"scores": matrix, "models": np.array(names), "columns": np.array([name for name, _ in numbers])}
    return write_arrays(arrays, folder, chance)


def _stem(chance: random.Random) -> str:
    return chance.choice(["data"] * 8 + ["répertoire", "a b", "[x]", "samples_x", "results"])


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


WRITERS = [*[write_csv] * 4, *[write_parquet] * 4, *[write_json] * 3, write_markdown]


# ---- Changes to JSON ------------------------------------------------------------------------------------------------

ODD_VALUES: list[Any] = [
    None, True, False, -1, 0, 1.5, 1e308, 10**30, -(2**63), 2**64, float("nan"), float("inf"), "", "x", "1", "NaN",
    "\x00", "x\u2028y", "\ud800", [], {}, [[]], [None], ["a"], [1, 2], {"a": 1}, {"": None}, [{"a": []}], "a" * 5000,
]  # fmt: skip


def change_document(document: Any, chance: random.Random) -> Any:
    """One change at some path of a JSON document, or the same change in every element of a list."""
    document = deepcopy(document)
    place, parents = document, []
    while isinstance(place, dict | list) and place and (not parents or chance.random() < 0.75):
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        parents.append((place, key))
        place = place[key]
    if not parents or chance.random() < 0.03:
        return chance.choice([[document], {"data": document}, {"results": document}, [], {}, "x", 1, None])
    parent, key = parents[-1]
    change = chance.choice(
        ["drop", "drop", "value", "value", "value", "wrap", "swap", "rename", "move", "list", "nest"]
    )
    NOTES.append(f"{change} at {'.'.join(str(step) for _, step in parents)[:80]}")
    _change_at(parent, key, change, chance)
    # The same in every element of the list above: files are written by programs, which repeat their mistakes.
    if len(parents) > 1 and chance.random() < 0.5 and isinstance(parents[-2][0], list) and isinstance(parent, dict):
        state = chance.randrange(1 << 32)
        for other in parents[-2][0]:
            if isinstance(other, dict) and key in other and other is not parent:
                _change_at(other, key, change, random.Random(state))
    return document


def _change_at(parent: Any, key: Any, change: str, chance: random.Random) -> None:
    """One change to the value at a key of an object, or at a place of a list."""
    value = parent[key]
    if change == "drop":
        del parent[key]
    elif change == "rename":
        if isinstance(parent, dict):
            parent[chance.choice([*VOCABULARY, *STRANGE])] = parent.pop(key)
    elif change == "move":
        if isinstance(parent, dict):
            parent[chance.choice(list(parent))] = value
        else:
            parent.reverse()
    else:
        parent[key] = _changed_value(value, change, chance)


def _changed_value(value: Any, change: str, chance: random.Random) -> Any:
    """Another value, the same in another shape, or the same deeper inside."""
    if change == "value":
        return deepcopy(chance.choice(ODD_VALUES))
    if change == "wrap":
        return chance.choice([[value], {"value": value}, {"0": value}])
    if change == "swap":
        return _swapped(value, chance)
    if change == "list":
        if isinstance(value, list) and value:
            return chance.choice([value[:1], value * 2, value[:-1], [*value, None]])
        return [value, value]
    for _ in range(chance.choice([3, 40, 300])):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def _swapped(value: Any, chance: random.Random) -> Any:
    """An object as a list and the reverse, text as a number and the reverse."""
    if isinstance(value, dict):
        if chance.random() < 0.5:
            return list(value.values())
        return [{"name": key, "value": value[key]} for key in value]
    if isinstance(value, list):
        return {str(k): each for k, each in enumerate(value)}
    if isinstance(value, str):
        return len(value)
    return str(value)


def encoded(document: Any, chance: random.Random, indent: int | None = None) -> str:
    """JSON, now and then with a key that occurs twice."""
    text = json.dumps(document, indent=indent, ensure_ascii=chance.random() < 0.5, default=str)
    if chance.random() < 0.05 and text.count("{") and isinstance(document, dict) and document:
        key = chance.choice(list(document))
        text = text.replace("{", "{" + json.dumps(key) + ": " + json.dumps(chance.choice(ODD_VALUES[:10])) + ", ", 1)
    return text


# ---- Matrices -------------------------------------------------------------------------------------------------------


def matrix_arrays(chance: random.Random) -> dict[str, Any]:
    models, items = chance.choice([(24, 30), (24, 30), (3, 8), (2, 30), (30, 2), (1, 5), (5, 1)])
    generator = np.random.default_rng(chance.randrange(1 << 32))
    matrix = generator.integers(0, 2, (models, items)).astype(np.int8)
    if chance.random() < 0.5:
        matrix[generator.random((models, items)) < 0.1] = -1
    return {
        "R": matrix,
        "models": np.array([f"m{m:02d}" for m in range(models)]),
        "items": np.array([f"q{i:02d}" for i in range(items)]),
        "testset": np.array(["ab"[i % 2] for i in range(items)]),
        "label": np.array(["yes" if i % 2 else "no" for i in range(items)]),
    }


def change_arrays(arrays: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """One change to the arrays of an NPZ file: which there are, their lengths, dimensions, types and values."""
    arrays = dict(arrays)
    if not arrays:
        return arrays
    name = chance.choice(list(arrays))
    array = np.asarray(arrays[name])
    change = chance.choice(ARRAY_CHANGES)
    NOTES.append(f"{change} (array {name})")
    if change == "drop":
        del arrays[name]
    elif change == "rename":
        arrays[chance.choice(ARRAY_NAMES)] = arrays.pop(name)
    elif change == "double":
        arrays[name + "2"] = array
    elif change == "one row":
        arrays = {
            key: value[:1] if key in ("R", "models") and np.ndim(value) else value for key, value in arrays.items()
        }
    elif change == "one column":
        arrays = {key: _first_item(key, value) for key, value in arrays.items()}
    else:
        arrays[name] = _changed_array(array, change, chance)
    return arrays


ARRAY_NAMES = ["R", "scores", "subjects", "runs", "labels", "label", "testset", "x", "../x"]
ARRAY_CHANGES = [
    "drop", "drop", "rename", "double", "shorter", "longer", "flat", "deep", "scalar", "empty", "type", "type", "type",
    "values", "transpose", "repeated", "one row", "one column", "constant", "fortran", "odd names",
]  # fmt: skip


def _first_item(key: str, array: Any) -> Any:
    """What an array says about the first item."""
    if np.ndim(array) == 2:
        return array[:, :1]
    if key == "models" or not np.ndim(array):
        return array
    return array[:1]


def _changed_array(array: Any, change: str, chance: random.Random) -> Any:
    """An array of another length, type or number of dimensions, or with other values."""
    if change == "type":
        return _retyped_array(array, chance)
    if change == "values" and array.size:
        return _with_odd_values(array, chance)
    if change == "odd names":
        length = len(array) if array.ndim else 1
        return np.array([chance.choice([*STRANGE, *TEXTS]) for _ in range(length)])
    if change == "scalar" and not array.size:
        return np.array(0)
    if change != "deep" and (not array.ndim or not array.size):
        return array
    made: dict[str, Callable[[], Any]] = {
        "deep": lambda: array[..., None] if chance.random() < 0.5 else array[None],
        "scalar": lambda: array.ravel()[0],
        "values": lambda: array,
        "shorter": lambda: array[:-1],
        "longer": lambda: np.concatenate([array, array[:1]]),
        "flat": array.ravel,
        "empty": lambda: array[:0],
        "transpose": lambda: array.T,
        "repeated": lambda: np.repeat(array[:1], len(array), axis=0),
        "constant": lambda: np.full_like(array, array.ravel()[0]),
        "fortran": lambda: np.asfortranarray(array),
    }
    return made[change]()


def _with_odd_values(array: Any, chance: random.Random) -> Any:
    if array.dtype.kind not in "biuf":
        return np.array([chance.choice(TEXTS) if chance.random() < 0.3 else str(x) for x in array.ravel()])
    changed = array.astype(np.float64)
    for _ in range(chance.randint(1, 9)):
        changed.flat[chance.randrange(array.size)] = chance.choice(NUMBERS)
    return changed


def _retyped_array(array: Any, chance: random.Random) -> Any:
    kind = chance.choice(["float16", "uint8", "complex128", "str", "bytes", "structured", "object", "bool", "int64",
                          "datetime64[s]", "timedelta64[s]", "uint64", "longdouble", "float32", ">i4"])  # fmt: skip
    NOTES.append(f"as {kind}")
    codes = np.unique(array, return_inverse=True)[1].reshape(array.shape) if array.size else array.astype(str)
    numbers = array if array.dtype.kind in "biuf" else codes
    if kind == "structured":
        return np.zeros(array.shape, dtype=[("a", "i4"), ("b", "f8")])
    if kind == "str":
        return array.astype(str)
    if kind == "bytes":
        return numbers.astype(str).astype("S") if array.size else array
    if kind == "object":
        return array.astype(object)
    with np.errstate(all="ignore"):
        return np.asarray(numbers).astype("int64" if kind[:4] in ("date", "time") else kind).astype(kind)


def write_arrays(arrays: dict[str, Any], folder: Path, chance: random.Random) -> Path:
    path = folder / f"{_stem(chance)}.npz"
    content = io.BytesIO()
    if not arrays and chance.random() < 0.5:
        return _written(path, b"")
    with zipfile.ZipFile(content, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as file:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=True)
            file.writestr(f"{name}.npy", member.getvalue())
            if chance.random() < 0.02:
                file.writestr(f"{name}.npy", member.getvalue())  # the same name twice
            if chance.random() < 0.02:
                file.writestr("notes.txt", "not an array")
    if chance.random() < 0.03:
        return _written(folder / "data.npy", np.zeros(3).tobytes())
    return _written(path, content.getvalue())


# ---- Cases ----------------------------------------------------------------------------------------------------------


def bases(kind: str, logs: Path | None = None) -> list[str]:
    """What cases of a kind may start from: names of tables, or paths."""
    corpus = fuzzing.CORPUS
    if kind == "table":
        return list(TABLES)
    if kind == "answers":
        return list(ANSWERS)
    if kind in ("matrix", "calibration", "short", "items"):
        return [kind]
    if kind == "yaml":
        return [str(path) for path in sorted(corpus.glob("*.yaml"))]
    if kind == "study":
        return [str(corpus / "study"), "imported", "levels"]
    known = [str(path) for name, path in fuzzing.logs(logs)] if logs else []
    return [*known, str(corpus / "trainer_state.json")]


def make_case(kind: str, seed: str, logs: Path | None = None) -> Case:
    """The case of a seed."""
    chance = random.Random(seed)
    base = chance.choice(bases(kind, logs))
    if kind == "log":  # as many of each tool, however many files there are
        tools: dict[str, list[str]] = {}
        for path in bases(kind, logs):
            tool = Path(path).relative_to(logs).parts[0] if logs and Path(path).is_relative_to(logs) else "trajectories"
            tools.setdefault(tool, []).append(path)
        base = chance.choice(tools[chance.choice(sorted(tools))])
    changes = tuple(chance.randrange(1 << 32) for _ in range(chance.choice([1, 1, 1, 1, 2, 2, 3])))
    return Case(kind, base, seed, changes, chance.randrange(1 << 32))


def build(case: Case, folder: Path, companions: Path) -> Path:
    """Write the files of a case into an empty directory; what was changed is then in ``NOTES``."""
    NOTES.clear()
    makers = {
        "matrix": _build_matrix,
        "calibration": _build_calibration,
        "short": _build_short,
        "study": _build_study,
        "yaml": _build_yaml,
        "log": _build_log,
    }
    path = makers.get(case.kind, _build_table)(case, folder, companions)
    chance = random.Random(case.form)
    if chance.random() < 0.02 and case.kind != "study":  # a name that is not UTF-8
        renamed = Path(f"{path.parent}/\udcff\udcfe{path.suffix}")
        path.rename(renamed)
        return renamed
    return path


def _build_table(case: Case, folder: Path, _: Path) -> Path:
    made = {**TABLES, **ANSWERS, "items": items_table}[case.base]
    columns = made(random.Random(case.seed))
    for seed in case.changes:
        columns = change_columns(columns, random.Random(seed))
    chance = random.Random(case.form)
    return chance.choice([*WRITERS, write_npz_table] if case.kind == "table" else WRITERS)(columns, folder, chance)


def _build_matrix(case: Case, folder: Path, _: Path) -> Path:
    arrays = matrix_arrays(random.Random(case.seed))
    for seed in case.changes:
        arrays = change_arrays(arrays, random.Random(seed))
    return write_arrays(arrays, folder, random.Random(case.form))


def _build_calibration(case: Case, folder: Path, companions: Path) -> Path:
    """A saved calibration, whose metadata are kept by some writers only, with what lies beside it."""
    chance = random.Random(case.form)
    for path in companions.glob("calibration*"):
        shutil.copy(path, folder / path.name)
    changed = chance.choice(sorted(folder.glob("calibration*")))
    path = folder / "calibration.parquet"
    if changed.suffix == ".json":
        document = json.loads(changed.read_text())
        for seed in case.changes:
            document = change_document(document, random.Random(seed))
        changed.write_text(json.dumps(document))
        return path
    _change_parquet(changed, case.changes)
    if chance.random() < 0.15:
        frame = pl.read_parquet(changed)
        nested = [name for name, dtype in frame.schema.items() if dtype.is_nested() or dtype == pl.Binary]
        frame.drop(nested).write_csv(folder / "calibration.csv")
        return folder / "calibration.csv"
    return path


def _change_parquet(path: Path, changes: tuple[int, ...]) -> None:
    import pyarrow.parquet as pq

    metadata = pq.read_schema(path).metadata or {}
    frame = pl.read_parquet(path)
    columns: Columns = [(name, frame[name]) for name in frame.columns]
    for seed in changes:
        columns = change_columns(columns, random.Random(seed))
    table = frame_of(columns)
    table = table.select(pl.all().exclude(pl.Object))
    kept = {key.decode(): value.decode(errors="replace") for key, value in metadata.items() if key != b"ARROW:schema"}
    table.write_parquet(path, metadata=kept)


def _build_short(case: Case, folder: Path, companions: Path) -> Path:
    with np.load(companions / "short.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for seed in case.changes:
        arrays = change_arrays(arrays, random.Random(seed))
    return write_arrays(arrays, folder, random.Random(case.form))


def _build_yaml(case: Case, folder: Path, _: Path) -> Path:
    import yaml

    document = _with_on(yaml.safe_load(Path(case.base).read_text()))
    for seed in case.changes:
        document = change_document(document, random.Random(seed))
    text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    return _written(folder / "study.yaml", text.encode(errors="surrogatepass"))


def _with_on(document: Any) -> Any:
    """A document with its keys ``on``, which YAML 1.1 reads as true."""
    if isinstance(document, dict):
        return {"on" if key is True else key: _with_on(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_with_on(value) for value in document]
    return document


def _build_study(case: Case, folder: Path, companions: Path) -> Path:
    """A directory of a study in which parts are changed, missing or of another type."""
    source = companions / case.base if case.base in ("imported", "levels") else Path(case.base)
    root = folder / "study"
    shutil.copytree(source, root)
    for seed in case.changes:
        chance = random.Random(seed)
        files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
        if not files:
            break
        _change_part(chance.choice(files), chance)
    return root


def _change_part(path: Path, chance: random.Random) -> None:
    change = chance.choice(["content"] * 8 + ["missing", "directory", "empty", "renamed", "copied"])
    NOTES.append(f"{path.parent.name}/{path.name}: {change}")
    if change == "missing":
        path.unlink()
    elif change == "directory":
        path.unlink()
        path.mkdir()
    elif change == "empty":
        path.write_bytes(b"")
    elif change == "renamed":
        path.rename(path.with_name(chance.choice(["x", "step-000001.parquet", "run.json", "a b"]) + path.suffix))
    elif change == "copied":
        shutil.copy(path, path.parent.parent / path.name)
    else:
        before = path.read_bytes()
        if not before:  # emptied by an earlier change
            return
        change_content(path, chance)
        if chance.random() < 0.9 and path.read_bytes() != before:
            fuzzing.reseal(path, path.read_bytes())


def change_content(path: Path, chance: random.Random) -> None:
    """One change to what a file holds, by its type; damage to its bytes is left to ``fuzzing``."""
    content = path.read_bytes()
    seeds = tuple(chance.randrange(1 << 32) for _ in range(chance.choice([1, 1, 2])))
    if path.suffix == ".parquet":
        _change_parquet(path, seeds)
    elif content[:2] == b"PK":
        path.write_bytes(_change_members(content, chance))
    elif content[:1] in (b"{", b"[") and not _changed_json(path, content, seeds, chance):
        path.write_bytes(fuzzing.change_json(content, chance))
    elif path.suffix in (".yaml", ".csv", ".tsv", ".md"):
        _change_text(path, content, chance)
    elif content[:1] not in (b"{", b"["):
        path.write_bytes(fuzzing.mutate(content, chance))


def _changed_json(path: Path, content: bytes, seeds: tuple[int, ...], chance: random.Random) -> bool:
    """Change a JSON document, or one or all lines that are documents."""
    try:
        document = json.loads(content)
        for seed in seeds:
            document = change_document(document, random.Random(seed))
        path.write_text(encoded(document, chance), errors="replace")
        return True
    except ValueError:
        pass
    try:
        rows = [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError:
        return False
    for seed in seeds:
        rows = change_document(rows, random.Random(seed))
    if not isinstance(rows, list):
        rows = [rows]
    path.write_text("".join(encoded(row, chance) + "\n" for row in rows), errors="replace")
    return True


def _change_text(path: Path, content: bytes, chance: random.Random) -> None:
    if path.suffix in (".csv", ".tsv"):
        rows = list(csv.reader(io.StringIO(content.decode(errors="replace"))))
        columns: Columns = [
            (name, pl.Series([row[k] if k < len(row) else None for row in rows[1:]], dtype=pl.String))
            for k, name in enumerate(rows[0])
        ]
        columns = change_columns(columns, chance)
        written = write_csv(columns, path.parent, chance)
        if written != path:
            path.unlink()
            written.rename(path)
    else:
        path.write_bytes(fuzzing.change_text(content, chance))


def _change_members(content: bytes, chance: random.Random) -> bytes:
    """An archive in which a member is missing, double, or changed as a document."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as changed:
        names = source.namelist()
        chosen = chance.choice(names)
        change = chance.choice(["missing", "document", "document", "document", "renamed", "twice"])
        for name in names:
            try:
                data = source.read(name)
            except (NotImplementedError, zipfile.BadZipFile):  # compressed in a way that Python does not know
                return fuzzing.change_zip(content, chance)
            if name == chosen and change == "missing":
                continue
            if name == chosen and change == "document":
                try:
                    document = json.loads(data)
                    for _ in range(chance.randint(1, 3)):
                        document = change_document(document, chance)
                    data = encoded(document, chance).encode(errors="replace")
                except ValueError:
                    data = fuzzing.flip(data, chance) if data else b"{"
            changed.writestr("x/" + name if name == chosen and change == "renamed" else name, data)
            if name == chosen and change == "twice":
                changed.writestr(name, data)
    return target.getvalue()


def _build_log(case: Case, folder: Path, _: Path) -> Path:
    """A log among the files that it is read with."""
    base = Path(case.base)
    inside = fuzzing.copied("log", base, folder / "logs")
    for seed in case.changes:
        if inside.is_file() and inside.stat().st_size:
            change_content(inside, random.Random(seed))
    chance = random.Random(case.form)
    if chance.random() < 0.03 and inside.is_file():
        packed = inside.with_name(inside.name + ".gz")
        packed.write_bytes(gzip.compress(inside.read_bytes(), mtime=0))
        inside.unlink()
    if chance.random() < 0.05:  # a sidecar is missing
        others = sorted(path for path in inside.parent.iterdir() if path != inside)
        if others:
            chance.choice(others).unlink()
    return inside.parent

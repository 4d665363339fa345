"""The three tables everything is about: who answered what, and was it right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import polars as pl

from breadth.errors import InputError

Schema = Mapping[str, type[pl.DataType]]

#: One subject's answer to one item. ``correct`` may be a fraction; ``margin`` is the log-odds of the
#: right answer, null where unknown.
RESPONSES: Schema = {"subject": pl.String, "item": pl.String, "correct": pl.Float64, "margin": pl.Float64}

#: A model at a checkpoint. Further columns are welcome.
SUBJECTS: Schema = {
    "subject": pl.String,
    "run": pl.String,
    "model": pl.String,
    "step": pl.Int64,
    "train_set": pl.String,
    "examples": pl.Int64,
    "seed": pl.Int64,
    "train_level": pl.Int64,
}

#: A question of a test set. Text fields and human measures of difficulty are further columns.
ITEMS: Schema = {
    "item": pl.String,
    "testset": pl.String,
    "shift": pl.String,
    "label": pl.String,
    "difficulty": pl.Float64,
    "level": pl.Int64,
}

#: How a test set can differ from the training data.
Shift = Literal["in-domain", "domain", "style", "difficulty", "adversarial"]
SHIFTS: tuple[Shift, ...] = get_args(Shift)

#: What must be there in each table; every other column of a schema may be left out.
REQUIRED = {
    "responses": ("subject", "item", "correct"),
    "subjects": ("subject",),
    "items": ("item", "testset"),
}

#: Names that number rows: a table that was saved with its row labels has one of these.
ROW_NUMBERS = frozenset({"", "index", "id", "Unnamed: 0"})

#: Usual names of the column that orders checkpoints; those with a slash or an underscore in front are W&B's.
ORDER_COLUMNS = (
    "step", "_step", "global_step", "train/global_step", "trainer/global_step", "iteration", "epoch", "train/epoch",
)  # fmt: skip

#: Columns that say which subject a row is about.
KEY_COLUMNS = frozenset(SUBJECTS) | {*ORDER_COLUMNS, "checkpoint", "revision", "fold", "rank", "lr"}

#: Columns of a long table that hold the score itself, or describe the item rather than the subject.
NOT_KEYS = frozenset(ITEMS) | ROW_NUMBERS | {"score", "correct", "margin"}

#: Columns that are never taken for scores or items by default.
NO_SCORES = KEY_COLUMNS | ROW_NUMBERS | {"_runtime", "_timestamp"}


def conform(frame: pl.DataFrame, table: str, where: str) -> pl.DataFrame:
    """Check ``frame`` against the schema of ``table`` and cast its columns to the stated types.

    Columns that the schema does not name are kept as they are. All problems are reported together.
    """
    schema = {"responses": RESPONSES, "subjects": SUBJECTS, "items": ITEMS}[table]
    problems = [f"column {name!r} is missing" for name in REQUIRED[table] if name not in frame.columns]
    casts = []
    for name, dtype in schema.items():
        if name not in frame.columns:
            continue
        lost = frame[name].cast(dtype, strict=False).is_null() & frame[name].is_not_null()
        if lost.any():
            row = int(lost.arg_max() or 0)
            problems.append(f"row {row + 1}, column {name!r}: {frame[name][row]!r} is not a {dtype.__name__}")
        casts.append(pl.col(name).cast(dtype, strict=False))
    if problems:
        raise InputError(f"{where} is not a table of {table}: " + "; ".join(problems))
    return frame.with_columns(casts)

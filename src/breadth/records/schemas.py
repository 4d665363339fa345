"""The three tables everything is about: who answered what, and was it right."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from breadth.errors import InputError, did_you_mean, listed

Schema = Mapping[str, type[pl.DataType]]

#: What an integer matrix of answers holds where nothing was observed.
MISSING = -1

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

#: How a test set can differ from the training data: the usual kinds of shift, in the order in which they are shown.
#: Any other short word is a kind of shift as well (time, user group, market regime, task form).
SHIFTS = ("in-domain", "domain", "style", "difficulty", "adversarial")

#: Most characters of a kind of shift: it stands below the name of a test set in figures.
LONGEST_SHIFT = 40

#: From this similarity on, a word is taken for a misspelt kind of shift; "subdomain" is 0.8 from "domain".
NEAR_MISS = 0.85

#: The kind of shift of a run's own training examples, which are no test of anything and are kept apart.
TRAINING = "training"

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


def check_shift(word: str) -> str:
    """Refuse what is no word for a kind of shift; the word otherwise."""
    if not word.strip():
        raise InputError(f"is empty; write how the set differs, as {listed(SHIFTS)} or a word of your own")
    if word == TRAINING:
        raise InputError(f"{word!r} is for a run's own training examples, which are no test set; use another word")
    if len(word) > LONGEST_SHIFT:
        raise InputError(f"{word[:LONGEST_SHIFT]!r}... has {len(word)} characters; use at most {LONGEST_SHIFT}")
    # What is not printable could move the cursor of a terminal, break a line of a figure or turn text round.
    if not word.isprintable() or word != word.strip():
        raise InputError(f"{word!r} has blanks at its ends or characters that cannot be shown; use plain words")
    return word


def shift_hint(word: str) -> str:
    """A question about a word that is nearly one of ``SHIFTS``; empty for all others.

    >>> shift_hint("adversarail"), shift_hint("time")
    ('Did you mean adversarial?', '')
    """
    if word in SHIFTS:
        return ""
    return did_you_mean([word], SHIFTS, cutoff=NEAR_MISS, most=1).strip()


def shift_order(word: str | None) -> tuple[int, str]:
    """Key for sorting kinds of shift: known ones in their order, others by the alphabet, then those without one."""
    if word is None:
        return len(SHIFTS) + 1, ""
    if word in SHIFTS:
        return SHIFTS.index(word), ""
    return len(SHIFTS), word


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

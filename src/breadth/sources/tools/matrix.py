"""Matrices and tables of answers: NPZ, CSV, TSV, Parquet and JSON lines as :func:`breadth.open` reads them, and R data.

- **Long tables** have columns ``item`` and ``correct`` and say who answered (``subject``, or ``model`` and others).
- **Wide tables** have a row per subject and a column per item. Here, unlike in ``breadth.open``, every answer must be
  0, 1 or missing: a table of fractions is usually one of scores, which belong to ``breadth import trajectories``.
- **Tabulated patterns** (a column ``Freq``, as in R's LSAT6) become a subject per response.
- **R data** (``.rds``, ``.RData``) are data frames of the same forms, read by pyreadr (``pip install 'breadth[r]'``).

Answers that are not scored yet, such as the chosen options of R's SAT12, are left out. Where a table names no subjects,
they are numbered, apart from those of other files; where it names no test set, the file's name is its test set.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from breadth.errors import InputError
from breadth.records import Study, is_study
from breadth.sources.answers import open_study
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile
from breadth.sources.registry import Part, Source
from breadth.sources.source_files import MOST_BYTES, SourceFile
from breadth.sources.tables import Table, read_table
from breadth.sources.tools.matrix_files import (
    ABOUT,
    FREQUENCY,
    LONG,
    answers_like,
    columns_beside,
    columns_of,
    first_rows,
    is_matrix,
    is_r_data,
    is_sound,
    read_r_data,
    refuse_damaged,
)

#: Most subjects that tabulated patterns may become.
MOST_SUBJECTS = 1_000_000

#: Columns of subjects that are no attributes.
NAMES = ("subject", "model", "step", "tool", "version")

METRIC = Metric("correct")

#: What ``breadth.open`` calls the test set of answers that name none.
UNNAMED = "answers"


class Matrix(Source):
    """Reads matrices and tables of answers. It comes last: whatever another tool wrote is that tool's."""

    name: ClassVar[str] = "matrix"

    def part(self, file: SourceFile) -> Part | None:
        """A file that looks like answers by its columns and first rows; tables beside a long one go with it."""
        if not file.size or any(is_study(folder) for folder in file.path.absolute().parents[:3]):
            return None
        if file.path.suffix.lower() == ".npz" and file.head.startswith(b"PK"):
            return Part.ANSWERS if is_matrix(file) else None
        if is_r_data(file):
            return Part.ANSWERS
        columns = columns_of(file)
        if columns >= LONG:
            return Part.ANSWERS
        if file.path.stem in ("items", "subjects") and columns_beside(file.path) >= LONG:
            return Part.COMPANION
        return Part.ANSWERS if columns and answers_like(first_rows(file)) else None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read every test set of every subject."""
        problems: list[str] = []
        logs = 0
        for name, source in self._sources(file):
            try:
                study, frame = _study(source)
            except _NotAnswersError as reason:
                problems.append(str(reason))
                continue
            for log in _logs(file.path, name, study, frame, options):
                logs += 1
                yield log
        if not logs:
            raise SkipFile("; ".join(problems) or "holds no answers")

    @staticmethod
    def _sources(file: SourceFile) -> Iterator[tuple[str, Path | Table]]:
        """What a file holds: one table or matrix, or the data frames of R data."""
        if file.path.suffix.lower() == ".npz":
            refuse_damaged(file)
            yield file.path.stem, file.path
        elif is_r_data(file):
            yield from read_r_data(file)
        elif file.size > MOST_BYTES and not file.head.startswith(b"PAR1"):
            raise InputError(
                f"{file.path}: has {file.size:,} bytes; at most {MOST_BYTES:,} are read at once; use Parquet"
            )
        else:
            yield file.path.stem, _read(file.path)


class _NotAnswersError(Exception):
    """A sound table that holds no answers; the message is the reason."""


def _read(path: Path) -> Table:
    try:
        return read_table(path)
    except pl.exceptions.PanicException as error:  # polars gives up on some damaged files in this way
        raise InputError(f"{path}: is damaged ({str(error).splitlines()[0][:100]})") from None


def _study(source: Path | Table) -> tuple[Study, pl.DataFrame | None]:
    """Answers as a study, with the frame of a long table."""
    if isinstance(source, Table) and set(source.frame.columns) >= LONG:
        return open_study(source), source.frame
    notes: tuple[str, ...] = ()
    if isinstance(source, Table):
        source, notes = _expanded(source)
        _refuse_unscored(source.frame)
    try:
        study = open_study(source)
    except InputError as error:
        # The file was read, so what is wrong are its values: it is some other table.
        if isinstance(source, Path) and not is_sound(SourceFile.look(source)):
            raise
        name = source.name if isinstance(source, Table) else str(source)
        raise _NotAnswersError(f"cannot be read as answers: {str(error).removeprefix(f'{name}: ')}") from error
    if isinstance(source, Table) and study.matrix.dtype != np.int8:
        raise _NotAnswersError(
            "holds fractions in a row per subject, which look like scores of whole test sets; `breadth import "
            "trajectories` reads scores, and answers that are fractions can be imported from a table with columns "
            "subject, item, correct"
        )
    return replace(study, warnings=(*notes, *study.warnings)), None


def _refuse_unscored(frame: pl.DataFrame) -> None:
    """Refuse a wide table of chosen options: which of them are right is not known."""
    for column in frame.iter_columns():
        if not ABOUT.fullmatch(column.name) and (column.dtype == pl.String or column.dtype.is_numeric()):
            texts = column.cast(pl.String, strict=False).str.strip_chars().str.strip_suffix(".0").drop_nulls()
            chosen = texts.filter(texts.str.contains(r"^[2-9A-Ea-e]$"))
            if chosen.len():
                raise _NotAnswersError(
                    f"not scored: column {column.name!r} holds {chosen[0]}, which looks like a chosen option; score "
                    "the answers first (1 right, 0 wrong)"
                )


def _expanded(table: Table) -> tuple[Table, tuple[str, ...]]:
    """A row per subject, where rows are patterns of answers with how often they occurred; and a note of it."""
    frame = table.frame
    names = [name for name in frame.columns if FREQUENCY.fullmatch(name)]
    if len(names) != 1 or frame.width < 3:
        return table, ()
    counts = table.numbers(names[0]).fill_null(0).to_numpy()
    if (counts < 0).any() or (counts != np.floor(counts)).any():
        return table, ()
    if counts.sum() > MOST_SUBJECTS:
        raise _NotAnswersError(
            f"its patterns stand for {counts.sum():,.0f} subjects; at most {MOST_SUBJECTS:,} are read"
        )
    frame = frame.drop(names[0], *(name for name in frame.columns if ABOUT.fullmatch(name)), strict=False)
    rows = np.repeat(np.arange(frame.height), counts.astype(np.int64))
    if not len(rows):
        raise _NotAnswersError(f"column {names[0]!r} holds no counts")
    note = f"{table.name}: patterns with column {names[0]!r} became {len(rows):,} subjects"
    return Table(frame[rows], table.name), (note,)


def _logs(path: Path, name: str, study: Study, frame: pl.DataFrame | None, options: Options) -> Iterator[Log]:
    """A log per subject and test set."""
    described = _described(path, study) if options.texts else {}
    models, subjects = _subjects(path, study)
    steps = study.subjects["step"].to_list() if "step" in study.subjects.columns else [None] * len(models)
    given = _given(frame, study)
    for k, testset in enumerate(study.testsets):
        columns = np.flatnonzero(study.set_index == k)
        items = study.items["item"].gather(columns).to_list()
        texts = {key: [values[column] for column in columns] for key, values in described.items()}
        texts = {key: values for key, values in texts.items() if any(value is not None for value in values)}
        for row, model in enumerate(models):
            if not study.answered[row, columns].any():
                continue
            answers = [given.get((row, int(column))) for column in columns] if given else None
            yield Log(
                path=str(path),
                tool=Matrix.name,
                testset=name if study.testsets == [UNNAMED] else testset,
                model=model,
                items=items,
                values={METRIC: study.correct[row, columns]},
                margins={} if study.margin is None else {METRIC: study.margin[row, columns]},
                answers=answers,
                texts=texts,
                subject=subjects[row],
                step=_step(steps[row]),
                notes=study.warnings,
            )


def _subjects(path: Path, study: Study) -> tuple[list[str], list[dict[str, Plain]]]:
    """Models, and what else tells the subjects apart. Numbered subjects are called after the file."""
    frame, names = study.subjects, study.subject_names
    if names == tuple(map(str, range(len(names)))):
        return [f"{path.stem}/{name}" for name in names], [{} for _ in names]
    model = "model" if "model" in frame.columns and frame["model"].null_count() == 0 else "subject"
    others = [key for key in frame.columns if key not in NAMES and not frame[key].dtype.is_nested()]
    subjects = [{key: row[key] for key in others} for row in frame.iter_rows(named=True)]
    models = frame[model].cast(pl.String).to_list()
    steps = frame["step"].to_list() if "step" in frame.columns else [None] * len(models)
    keys = [(one, step, str(row)) for one, step, row in zip(models, steps, subjects, strict=True)]
    if len(set(keys)) < len(keys):
        subjects = [{**row, "subject": name} for row, name in zip(subjects, names, strict=True)]
    return models, [
        {key: value if isinstance(value, str | int | float | bool | None) else str(value) for key, value in row.items()}
        for row in subjects
    ]


def _step(value: Any) -> int | None:
    """A training step that may have been read as a real number."""
    try:
        return int(value) if value is not None and math.isfinite(value) and value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _given(frame: pl.DataFrame | None, study: Study) -> dict[tuple[int, int], str]:
    """The answers of a long table that names its subjects, by row and column of the study."""
    if frame is None or not {"subject", "answer"} <= set(frame.columns) or frame["answer"].dtype != pl.String:
        return {}
    rows = {name: k for k, name in enumerate(study.subject_names)}
    keys = study.items.select("testset", "item").iter_rows()
    columns = {key: k for k, key in enumerate(keys)}
    testset = pl.col("testset").cast(pl.String) if "testset" in frame.columns else pl.lit(study.testsets[0])
    cells = frame.select(
        pl.col("subject").cast(pl.String), testset.alias("testset"), pl.col("item").cast(pl.String), "answer"
    )
    given: dict[tuple[int, int], str] = {}
    for subject, named, item, answer in cells.drop_nulls().iter_rows():
        row, column = rows.get(subject), columns.get((named, item))
        if row is not None and column is not None:
            given[row, column] = answer
    return given


def _described(path: Path, study: Study) -> dict[str, list[Any]]:
    """Texts of the items, in the order of the study: of the table itself and of ``items`` beside a long one."""
    items = study.items
    beside = path.with_name(f"items{path.suffix}")
    if beside != path and beside.is_file() and columns_of(SourceFile.look(path)) >= LONG:
        others = _read(beside).frame
        if {"testset", "item"} <= set(others.columns):
            keys = [pl.col("testset").cast(pl.String), pl.col("item").cast(pl.String)]
            others = others.with_columns(keys).unique(("testset", "item"), keep="first")
            others = others.drop(
                [name for name in others.columns if name in items.columns and name not in ("testset", "item")]
            )
            items = items.join(others, on=["testset", "item"], how="left", maintain_order="left")
    texts: dict[str, list[Any]] = {}
    for column in items.drop("testset", "item", "answer", strict=False).iter_columns():
        if column.name in ("options", "option_labels"):
            texts[column.name] = [_listed(value) for value in column.to_list()]
        elif column.dtype == pl.String:
            texts[column.name] = column.to_list()
    return texts


def _listed(value: Any) -> list[str] | None:
    """A list of texts; CSV holds it as JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return [str(one) for one in value] if isinstance(value, list) else None

"""Ways in for answers: one function per format. Whatever comes in becomes a :class:`Study`.

Logs of other tools come in through :mod:`breadth.sources.logs`, which writes a directory that is read here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records import (
    KEY_COLUMNS,
    MISSING,
    NOT_KEYS,
    Study,
    compact,
    is_study,
    matrices_of_cells,
    read_study_directory,
    side_by_side,
)
from breadth.sources.column_roles import ColumnRoles, infer_answer_columns
from breadth.sources.limits import check_scores
from breadth.sources.npz_files import NamedMatrix, read_matrix_file
from breadth.sources.paths import path_text
from breadth.sources.reshaping import MODEL_NAME
from breadth.sources.tables import Table, read_table

#: Test set of answers that name none.
UNNAMED = "answers"

#: Subject of answers that name none and come from no file.
ONE_SUBJECT = "model"

#: Columns that name a checkpoint, and columns of text that say how a model was trained.
CHECKPOINT, TRAINING = ("checkpoint", "revision"), ("method", "strategy")

#: Tables that a directory of answers may hold.
TABLE_ENDINGS = (".parquet", ".csv", ".jsonl", ".tsv")

#: Names of items or subjects by which is judged whether they are models.
SAMPLED_NAMES = 500

#: What to write instead of a value that is not an answer.
NO_ANSWER = (
    "is not an answer; write 1 for right, 0 for wrong, a share in between, and leave missing ones empty (-1 in NPZ)"
)

#: Cells that are marked one by one to see whether any occurs twice; of more, those that are filled are compared.
MOST_MARKED = 100_000_000

Indices = npt.NDArray[np.intp]


class Format(Enum):
    """What answers are in."""

    STUDY = "directory that breadth run or breadth import made"
    ARRAY = "numpy array of subjects x items"
    NPZ = "NPZ file with one matrix"
    TABLE = "long or wide table, in a file or a frame"


def format_of(source: Any) -> Format:
    """What a source is, by its Python type or the ending of its file."""
    if is_study(source):
        return Format.STUDY
    if isinstance(source, np.ndarray):
        return Format.ARRAY
    if not isinstance(source, str | os.PathLike):
        return Format.TABLE
    if Path(source).suffix.lower() == ".npz":
        return Format.NPZ
    return Format.TABLE


def open_study(source: Any, *, keys: Sequence[str] = ()) -> Study:
    """Open answers as a :class:`Study`, whatever they are in.

    ``source`` is the directory of a study; an NPZ matrix (``R`` with -1 for missing, ``models``, ``items``); a long
    table (``subject, item, correct``, or the names that other tools use); a wide table with a row per subject and a
    column per item; a polars or pandas frame; an array of subjects x items; or a Study. A long table that names no
    subject is about one. Every answer must lie in [0, 1] or be missing; words for right and wrong are read as 1 and 0.
    Nothing is changed or moved. Several files, and directories of them, are put together by :mod:`opening`.
    """
    if isinstance(source, Study):
        return source
    form = format_of(source)
    study = _READERS[form](source, keys)
    if form is not Format.STUDY:
        _refuse_bad_values(study)
        _refuse_repeated_names(study)
    return study


def _read_array(source: npt.NDArray[Any], _: Sequence[str]) -> Study:
    if source.ndim != 2:
        raise InputError(f"answers: an array of answers is subjects x items, not {source.ndim}-dimensional")
    if source.dtype.kind not in "biuf":
        raise InputError(f"answers: an array of answers holds numbers, not {source.dtype}")
    return study_of_matrix(NamedMatrix(UNNAMED, source, None, None, {}))


def read_matrix(source: Any, _: Sequence[str] = ()) -> Study:
    """An NPZ file with one matrix of answers, as they are.

    ``models`` and ``items`` name its axes, ``testset`` groups its items, and ``label`` holds their right answers. What
    has no names is numbered.
    """
    return study_of_matrix(read_matrix_file(Path(source)))


def study_of_matrix(matrix: NamedMatrix) -> Study:
    """Answers of subjects (rows) to items (columns)."""
    described = {}
    for name in ("testset", "label"):
        texts = matrix.of_columns(name)
        if texts is not None and len(texts) == matrix.values.shape[1]:
            described[name] = texts
    return _matrix_study(matrix.name, matrix.values, matrix.row_names, matrix.column_names, described, matrix.warnings)


def read_matrices(paths: Sequence[Path], name: str) -> Study:
    """Matrices or wide tables, one per test set.

    The name of a file is the test set of its items, unless an NPZ file names test sets itself.
    """
    parts: dict[str, Study] = {}
    for path in paths:
        key = path_text(path.stem)
        if key in parts:
            raise InputError(f"{name}: two files hold the test set {key!r}; keep one")
        part = open_study(path)
        if part.testsets == [UNNAMED]:
            part = replace(part, items=part.items.with_columns(testset=pl.lit(key)))
        parts[key] = part
    return side_by_side(name, parts)


def _read_tables(source: Any, keys: Sequence[str]) -> Study:
    roles = source if isinstance(source, ColumnRoles) else infer_answer_columns(read_table(source))
    table = roles.table
    if {"item", "correct"} <= set(table.frame.columns):
        study = _long_study(table, [roles.renamed.get(key, key) for key in keys])
    else:
        items = table.frame.columns[1:]
        matrix = np.column_stack([table.numbers(name).to_numpy() for name in items]).astype(np.float64)
        subjects = table.frame["subject"].to_list()
        study = _matrix_study(table.name, matrix, subjects, items, warnings=table.warnings)
    return replace(study, reading=roles.reading)


_READERS: dict[Format, Callable[[Any, Sequence[str]], Study]] = {
    Format.STUDY: read_study_directory,
    Format.ARRAY: _read_array,
    Format.NPZ: read_matrix,
    Format.TABLE: _read_tables,
}


def _matrix_study(
    name: str,
    matrix: npt.NDArray[Any],
    subjects: Sequence[str] | None,
    items: Sequence[str] | None,
    described: Mapping[str, Sequence[str]] = MappingProxyType({}),
    warnings: tuple[str, ...] = (),
) -> Study:
    """A study of a matrix; subjects and items without names are numbered."""
    rows, columns = matrix.shape
    subjects = subjects or [str(row) for row in range(rows)]
    items = items or [str(column) for column in range(columns)]
    # The items may have the names of models, and the subjects not.
    if _share_of_models(items) > 0.5 and _share_of_models(subjects) < 0.2:
        warning = (
            f"{name}: the items look like models ({listed(items, 3)}); if rows and columns are swapped, transpose the "
            "matrix: a row is a subject"
        )
        warnings = (*warnings, warning)
    about_items = {"testset": [UNNAMED] * columns, "item": list(items), **described}
    return Study(
        name,
        pl.DataFrame({"subject": list(subjects)}, schema={"subject": pl.String}),
        pl.DataFrame(about_items, schema=dict.fromkeys(about_items, pl.String)),
        compact(matrix),
        warnings=warnings,
    )


def _share_of_models(names: Sequence[str]) -> float:
    """Which share of some names look like those of language models."""
    sample = names[:SAMPLED_NAMES]
    return sum(bool(MODEL_NAME.search(name)) for name in sample) / max(len(sample), 1)


def _long_study(table: Table, keys: Sequence[str]) -> Study:
    """A study of a long table, with a row per answer."""
    frame = _with_names_as_text(table)
    identity = _subject_keys(frame, keys, table)
    _refuse_nested(table, identity)
    if not identity:
        frame = frame.with_columns(pl.lit(_subject_of_all(table)).alias("subject"))
        identity = ["subject"]
    empty = pl.any_horizontal(pl.col("testset", "item").is_null(), _no_subject(identity, keys))
    if frame.select(empty.any()).item():
        row = int(frame.select(empty.arg_max()).item())
        raise InputError(f"{table.name}, row {row + 1}: subject, test set or item is empty")
    rows, subjects = _numbered(frame, identity)
    columns, items = _numbered(frame, ["testset", "item"])
    check_scores(subjects.height, items["testset"].n_unique(), table.name)
    names = _subject_names(subjects)
    twice = _first_repeated(rows, columns, (subjects.height, items.height))
    if twice is not None:
        who = f"subject {names[rows[twice]]!r} answers item {frame['item'][twice]!r}"
        raise InputError(
            f"{table.name}, row {twice + 1}: {who} more than once; keep one answer, average them, or add a column that "
            "tells the subjects apart"
        )
    correct = table.numbers("correct")
    wrong = ~correct.is_between(0, 1).fill_null(True)
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        who = f"subject {names[rows[row]]!r}, item {frame['item'][row]!r}"
        raise InputError(f"{table.name}, row {row + 1}: {who}: {frame['correct'][row]!s} {NO_ANSWER}")
    margin = table.numbers("margin").to_numpy() if "margin" in frame.columns else None
    matrix, margins = matrices_of_cells(
        table.name, (subjects.height, items.height), rows, columns, correct.to_numpy(), margin
    )
    attributes = _constant_columns(frame, rows, subjects.height, {*identity, *NOT_KEYS, "testset"})
    taken = {*identity, *attributes, "correct", "margin", "testset", "item"}
    described = _constant_columns(frame, columns, items.height, taken)
    warnings = list(table.warnings)
    for name in ("label", "shift"):
        if name in described and described[name].dtype.is_nested():
            warnings.append(
                f"{table.name}: column {name!r} holds {described[name].dtype}, not one word, and is left out"
            )
            del described[name]
    subjects = subjects.drop("subject", strict=False).select(pl.Series("subject", names), pl.all())
    return Study(
        table.name,
        subjects.hstack(list(attributes.values())),
        items.hstack(list(described.values())),
        matrix,
        margins,
        warnings=tuple(warnings),
    )


def _refuse_nested(table: Table, names: Sequence[str]) -> None:
    """Refuse lists and objects in columns of names."""
    for name in names:
        if name in table.frame.columns and table.frame.schema[name].is_nested():
            raise InputError(f"{table.name}, column {name!r}: holds {table.frame.schema[name]}, not names")


def _with_names_as_text(table: Table) -> pl.DataFrame:
    """The frame of a table with names of items and test sets as text."""
    frame = table.frame
    _refuse_nested(table, [name for name in ("item", "testset") if name in frame.columns])
    testset = pl.col("testset").cast(pl.String) if "testset" in frame.columns else pl.lit(UNNAMED)
    return frame.with_columns(testset.alias("testset"), pl.col("item").cast(pl.String))


def _subject_keys(frame: pl.DataFrame, extra: Sequence[str], table: Table) -> list[str]:
    """Columns that together say which subject a row is about: the usual ones, else every other column of text.

    There are none in a table about one subject, in which every item has one row.
    """
    usual = [name for name in frame.columns if name in KEY_COLUMNS or name in extra]
    own = [name for name in extra if name in frame.columns and name != "subject"]
    names = ["subject", *own] if "subject" in frame.columns else usual
    if any(name in frame.columns for name in ("subject", "model", "run", *extra)):
        return names
    if not frame.select("testset", "item").is_duplicated().any():
        return names
    for name in frame.columns:
        if frame[name].dtype == pl.String and name not in {*usual, *NOT_KEYS, "testset"}:
            names.append(name)
    if not names:
        raise unknown_column("subject", frame.columns, table.name, "who answered")
    return names


def _subject_of_all(table: Table) -> str:
    """The subject of a table that names none: its file."""
    path = Path(table.name)
    return path.stem if path.suffix else ONE_SUBJECT


def _subject_names(subjects: pl.DataFrame) -> list[str]:
    """A name for every subject: its own, or what tells it apart."""
    if "subject" in subjects.columns and subjects["subject"].n_unique() == subjects.height:
        return subjects["subject"].cast(pl.String).to_list()
    parts = [pl.col(name).cast(pl.String) for name in subjects.columns]
    return subjects.select(pl.concat_str(parts, separator=" / ", ignore_nulls=True)).to_series().to_list()


def _no_subject(identity: Sequence[str], keys: Sequence[str]) -> pl.Expr:
    """Rows that do not say who answered.

    The model, or else its run, must be there; a seed or a step need not be. Where columns say only how a model was
    trained, all are empty for the untrained one.
    """
    names = [name for name in identity if name == "subject"] or [name for name in identity if name in ("model", "run")]
    if not names and any(name in CHECKPOINT or name not in {*KEY_COLUMNS, *TRAINING, *keys} for name in identity):
        names = list(identity)
    if not names:
        return pl.lit(False)
    cells = [pl.col(name).cast(pl.String).str.strip_chars().fill_null("") for name in names]
    return pl.all_horizontal(cell == "" for cell in cells)


def _numbered(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[Indices, pl.DataFrame]:
    """The number of every row's combination of keys, and the combinations in order of appearance."""
    # Columns that are the same throughout tell nothing apart, and millions of texts take memory to compare.
    telling = [name for name in keys if frame[name].n_unique() > 1] or list(keys[:1])
    numbered = frame.select(telling).with_row_index("__row")
    first_rows = numbered.select(pl.col("__row").first().over(telling)).to_series().to_numpy()
    distinct = np.unique(first_rows)
    return np.searchsorted(distinct, first_rows), frame.select(keys)[distinct]


def _first_repeated(rows: Indices, columns: Indices, shape: tuple[int, int]) -> int | None:
    """The first row of a table whose cell occurs more than once; None if there is none."""
    cells = shape[0] * shape[1]
    if cells <= MOST_MARKED:
        marked = np.zeros(cells, dtype=np.bool_)
        marked[rows * shape[1] + columns] = True
        if np.count_nonzero(marked) == len(rows):
            return None
    repeated = pl.Series(rows * shape[1] + columns).is_duplicated()
    return repeated.arg_max() if repeated.any() else None


def _constant_columns(frame: pl.DataFrame, group: Indices, groups: int, left_out: set[str]) -> dict[str, pl.Series]:
    """Columns that have one value in every group, such as a model's family or an item's text."""
    first = np.full(groups, -1, dtype=np.intp)
    first[group[::-1]] = np.arange(len(group))[::-1]
    constant = {}
    for name in frame.columns:
        if name in left_out:
            continue
        values = frame[name].gather(first)
        if values.gather(group).eq_missing(frame[name]).all():
            constant[name] = values
    return constant


def _refuse_bad_values(study: Study) -> None:
    """Refuse values of a matrix that are no answers."""
    if study.is_sparse:  # it comes from a long table, whose values were looked at row by row
        return
    matrix = study.matrix
    low = 0 if study.fractional else MISSING
    with np.errstate(invalid="ignore"):
        wrong = (matrix < low) | (matrix > 1)
    if wrong.any():
        i, j = (int(index) for index in np.argwhere(wrong)[0])
        raise InputError(
            f"{study.name}: subject {study.subject_names[i]!r} (row {i + 1}), item {study.item_names[j]!r}: "
            f"{matrix[i, j]!s} {NO_ANSWER}"
        )


def _refuse_repeated_names(study: Study) -> None:
    """Refuse subjects or items of which two have one name."""
    for kind, names in (("subject", study.subject_names), ("item", study.item_names)):
        if len(set(names)) == len(names):
            continue
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise InputError(f"{study.name}: {kind} {name!r} occurs more than once; give every {kind} its own name")
            seen.add(name)

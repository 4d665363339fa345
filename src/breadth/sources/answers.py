"""Ways in for answers: one function per format. Whatever comes in becomes a :class:`Study`.

Logs of other tools come in through ``breadth.importers``, which writes a directory that is read here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError, listed, unknown_column
from breadth.records import KEY_COLUMNS, MISSING, NOT_KEYS, Study, compact, is_study, read_study_directory, side_by_side
from breadth.sources.column_roles import ColumnRoles, infer_answer_columns
from breadth.sources.limits import SMALL, check_nesting
from breadth.sources.reshaping import MODEL_NAME, are_answers
from breadth.sources.table_files import read_arrays
from breadth.sources.tables import Table, read_table

#: Test set of answers that name none.
UNNAMED = "answers"

#: Columns that name a checkpoint, and columns of text that say how a model was trained.
CHECKPOINT, TRAINING = ("checkpoint", "revision"), ("method", "strategy")

#: What to write instead of a value that is not an answer.
NO_ANSWER = (
    "is not an answer; write 1 for right, 0 for wrong, a share in between, and leave missing ones empty (-1 in NPZ)"
)


def _keys(path: Path) -> list[str]:
    """Keys of the first line, which is one of JSON."""
    with path.open("rb") as file:
        line = file.readline(SMALL)
    check_nesting(line, path)
    first = json.loads(line)
    return list(first) if isinstance(first, dict) else []


#: Tables that a directory of answers may hold, and how to look at their columns without reading them.
HEADS: dict[str, Callable[[Path], Collection[str]]] = {
    ".parquet": lambda path: pl.scan_parquet(path, glob=False).collect_schema(),
    ".csv": lambda path: pl.scan_csv(path, glob=False).collect_schema(),
    ".jsonl": _keys,
    ".tsv": lambda path: pl.scan_csv(path, glob=False, separator="\t").collect_schema(),
}


def _tables(folder: str | os.PathLike[str]) -> list[Path]:
    """Tables and matrices in a directory; pipes and devices are none."""
    with reading(folder):
        return sorted(path for path in Path(folder).iterdir() if path.suffix in (*HEADS, ".npz") and path.is_file())


class Format(Enum):
    """What answers are in."""

    STUDY = "directory that breadth run or breadth import made"
    ARRAY = "numpy array of subjects x items"
    NPZ = "NPZ file with one matrix"
    MATRICES = "directory of matrices, NPZ or wide tables, one per test set"
    TABLE = "long or wide table, in a file or a frame, or a directory of long ones"


def format_of(source: Any) -> Format:
    """What a source is, by its Python type, the ending of its file or the columns of the tables in a directory."""
    if is_study(source):
        return Format.STUDY
    if isinstance(source, np.ndarray):
        return Format.ARRAY
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".npz":
        return Format.NPZ
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        with suppress(InputError), reading(source):
            paths = _tables(source)
            heads = [HEADS[path.suffix](path) for path in paths if path.suffix in HEADS]
            if paths and not any(map(are_answers, heads)):  # long tables go before matrices
                return Format.MATRICES
    return Format.TABLE


def open_study(source: Any, *, keys: Sequence[str] = ()) -> Study:
    """Open answers as a :class:`Study`, whatever they are in.

    ``source`` is the directory of a study; an NPZ matrix (``R`` with -1 for missing, ``models``, ``items``); a long
    table (``subject, item, correct``, or the names that other tools use) or a directory of them; a wide table with a
    row per subject and a column per item; a directory with one matrix (NPZ or wide table) per test set; a polars or
    pandas frame; an array of subjects x items; or a Study. Every answer must lie in [0, 1] or be missing; words for
    right and wrong are read as 1 and 0. Nothing is changed or moved.
    """
    if isinstance(source, Study):
        return source
    form = format_of(source)
    study = _READERS[form](source, keys)
    if form is not Format.STUDY:
        _refuse_bad(study)
    return study


def _read_array(source: npt.NDArray[Any], _: Sequence[str]) -> Study:
    if source.ndim != 2:
        raise InputError(f"answers: an array of answers is subjects x items, not {source.ndim}-dimensional")
    if source.dtype.kind not in "biuf":
        raise InputError(f"answers: an array of answers holds numbers, not {source.dtype}")
    subjects, items = ([str(i) for i in range(size)] for size in source.shape)
    return _matrix_study(UNNAMED, source, subjects, items)


def read_matrix(source: Any, _: Sequence[str] = ()) -> Study:
    """An NPZ file with one matrix of answers, as they are.

    ``models`` and ``items`` name its axes, ``testset`` groups its items, and ``label`` holds their right answers.
    """
    path = Path(source)
    arrays = read_arrays(path)
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        raise InputError(
            f"{path}: expected one two-dimensional array of answers, found {len(matrices)} (arrays: {listed(arrays)})"
        )
    matrix = arrays[matrices[0]]
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{path}: array {matrices[0]!r} holds {matrix.dtype}, not numbers")
    names = {name: [str(x) for x in array] for name, array in arrays.items() if array.ndim == 1}
    subjects = next((names[key] for key in ("models", "subjects", "runs") if key in names), None)
    items = names.get("items")
    rows, columns = matrix.shape
    warnings: tuple[str, ...] = ()
    if subjects is not None and len(subjects) == columns != rows and (items is None or len(items) == rows):
        matrix, (rows, columns) = matrix.T, (columns, rows)
        warnings = (f"{path}: the matrix was transposed, because its columns are the subjects",)
    for kind, given, size in (("subject", subjects, rows), ("item", items, columns)):
        if given is not None and len(given) != size:
            raise InputError(f"{path}: {len(given)} {kind} names for {size} {kind}s; write one name each")
    described = {name: names[name] for name in ("testset", "label") if len(names.get(name, ())) == columns}
    subjects, items = subjects or [str(i) for i in range(rows)], items or [str(j) for j in range(columns)]
    return _matrix_study(str(path), matrix, subjects, items, described, warnings)


def _read_matrices(source: Any, _: Sequence[str]) -> Study:
    return read_matrices(_tables(source), str(source))


def read_matrices(paths: Sequence[Path], name: str) -> Study:
    """Matrices or wide tables, one per test set.

    The name of a file is the test set of its items, unless an NPZ file names test sets itself.
    """
    parts: dict[str, Study] = {}
    for path in paths:
        if path.stem in parts:
            raise InputError(f"{name}: two files hold the test set {path.stem!r}; keep one")
        part = open_study(path)
        if part.testsets == [UNNAMED]:
            part = replace(part, items=part.items.with_columns(testset=pl.lit(path.stem)))
        parts[path.stem] = part
    return side_by_side(name, parts)


def _read_tables(source: Any, keys: Sequence[str]) -> Study:
    understood = source if isinstance(source, ColumnRoles) else infer_answer_columns(read_answers(source))
    table = understood.table
    if {"item", "correct"} <= set(table.frame.columns):
        return replace(
            _from_long(table, [understood.renamed.get(key, key) for key in keys]), reading=understood.reading
        )
    items = table.frame.columns[1:]
    matrix = np.column_stack([table.numbers(name).to_numpy() for name in items]).astype(np.float64)
    study = _matrix_study(table.name, matrix, table.frame["subject"].to_list(), items, warnings=table.warnings)
    return replace(study, reading=understood.reading)


_READERS: dict[Format, Callable[[Any, Sequence[str]], Study]] = {
    Format.STUDY: read_study_directory,
    Format.ARRAY: _read_array,
    Format.NPZ: read_matrix,
    Format.MATRICES: _read_matrices,
    Format.TABLE: _read_tables,
}


def read_answers(source: Any) -> Table:
    """Read a table, or put together every long table of answers in a directory."""
    if not (isinstance(source, str | os.PathLike) and os.path.isdir(source)):
        return read_table(source)
    folder = Path(source)
    paths = [path for path in _tables(folder) if path.suffix in HEADS]
    frames = [table.frame for table in map(read_table, paths) if are_answers(table.frame.columns)]
    if not frames:
        raise InputError(
            f"{folder}: is not the directory of a study (no runs/ and items/) and holds no table of answers (columns "
            "subject, item, correct) and no matrices (NPZ, or tables with a row per subject and a column per item)"
        )
    return Table(pl.concat(frames, how="diagonal_relaxed"), str(folder))


def _matrix_study(
    name: str,
    matrix: npt.NDArray[Any],
    subjects: Sequence[str],
    items: Sequence[str],
    described: Mapping[str, Sequence[str]] = MappingProxyType({}),
    warnings: tuple[str, ...] = (),
) -> Study:
    columns = {"testset": [UNNAMED] * len(items), "item": list(items), **described}
    # The items may have the names of models, and the subjects not.
    share = [np.mean([bool(MODEL_NAME.search(one)) for one in names[:500]]) for names in (subjects, items)]
    if share[1] > 0.5 and share[0] < 0.2:
        named = f"{name}: the items look like models ({listed(items, 3)})"
        warnings += (f"{named}; if rows and columns are swapped, transpose the matrix: a row is a subject",)
    return Study(
        name,
        pl.DataFrame({"subject": list(subjects)}, schema={"subject": pl.String}),
        pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)),
        compact(matrix),
        warnings=warnings,
    )


def _from_long(table: Table, keys: Sequence[str]) -> Study:
    frame = table.frame
    testset = pl.col("testset").cast(pl.String) if "testset" in frame.columns else pl.lit(UNNAMED)
    frame = frame.with_columns(testset.alias("testset"), pl.col("item").cast(pl.String))
    identity = _subject_keys(frame, keys, table)
    empty = pl.any_horizontal(pl.col("testset", "item").is_null(), _no_subject(identity, keys))
    if frame.select(empty.any()).item():
        row = int(frame.select(empty.arg_max()).item())
        raise InputError(f"{table.name}, row {row + 1}: subject, test set or item is empty")
    rows, subjects = _numbered(frame, identity)
    columns, items = _numbered(frame, ["testset", "item"])
    if "subject" in identity and subjects["subject"].n_unique() == subjects.height:
        names = subjects["subject"].cast(pl.String).to_list()
    else:
        parts = pl.concat_str([pl.col(name).cast(pl.String) for name in identity], separator=" / ", ignore_nulls=True)
        names = subjects.select(parts).to_series().to_list()
    repeated = pl.DataFrame({"row": rows, "column": columns}).is_duplicated()
    if repeated.any():
        row = int(repeated.arg_max() or 0)
        raise InputError(
            f"{table.name}, row {row + 1}: subject {names[rows[row]]!r} answers item {frame['item'][row]!r} more than "
            "once; keep one answer, average them, or add a column that tells the subjects apart"
        )
    numbers = {name: table.numbers(name) for name in ("correct", "margin") if name in frame.columns}
    cells = {name: np.full((subjects.height, items.height), np.nan) for name in numbers}
    for name, values in cells.items():
        values[rows, columns] = numbers[name].to_numpy()
    wrong = ~numbers["correct"].is_between(0, 1).fill_null(True)
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        who = f"subject {names[rows[row]]!r}, item {frame['item'][row]!r}"
        raise InputError(f"{table.name}, row {row + 1}: {who}: {frame['correct'][row]!s} {NO_ANSWER}")
    attributes = _constant_columns(frame, rows, subjects.height, {*identity, *NOT_KEYS, "testset"})
    described = _constant_columns(
        frame, columns, items.height, {*identity, *attributes, "correct", "margin", "testset", "item"}
    )
    return Study(
        table.name,
        subjects.drop("subject", strict=False)
        .select(pl.Series("subject", names), pl.all())
        .hstack(list(attributes.values())),
        items.hstack(list(described.values())),
        compact(cells["correct"]),
        cells["margin"].astype(np.float32) if "margin" in cells else None,
        warnings=table.warnings,
    )


def _subject_keys(frame: pl.DataFrame, extra: Sequence[str], table: Table) -> list[str]:
    """Columns that together say which subject a row is about: the usual ones, else every other column of text."""
    usual = [name for name in frame.columns if name in KEY_COLUMNS or name in extra]
    own = [name for name in extra if name in frame.columns and name != "subject"]
    names = ["subject", *own] if "subject" in frame.columns else usual
    if not any(name in frame.columns for name in ("subject", "model", "run", *extra)):
        names = usual + [
            name
            for name in frame.columns
            if frame[name].dtype == pl.String and name not in {*usual, *NOT_KEYS, "testset"}
        ]
    if not names:
        raise unknown_column("subject", frame.columns, table.name, "who answered")
    return names


def _no_subject(identity: Sequence[str], keys: Sequence[str]) -> pl.Expr:
    """Rows that do not say who answered.

    The model, or else its run, must be there; a seed or a step need not be. Where columns say only how a model was
    trained, all are empty for the untrained one.
    """
    names = [name for name in identity if name == "subject"] or [name for name in identity if name in ("model", "run")]
    if not names and any(name in CHECKPOINT or name not in {*KEY_COLUMNS, *TRAINING, *keys} for name in identity):
        names = list(identity)
    cells = [pl.col(name).cast(pl.String).str.strip_chars().fill_null("") for name in names]
    return pl.all_horizontal(cell == "" for cell in cells) if cells else pl.lit(False)


def _numbered(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[npt.NDArray[np.intp], pl.DataFrame]:
    """The number of every row's combination of keys, and the combinations in order of appearance."""
    distinct = frame.select(keys).unique(maintain_order=True)
    numbered = frame.select(keys).join(
        distinct.with_row_index("__number"), on=list(keys), how="left", nulls_equal=True, maintain_order="left"
    )
    return numbered["__number"].to_numpy().astype(np.intp), distinct


def _constant_columns(
    frame: pl.DataFrame, group: npt.NDArray[np.intp], groups: int, left_out: set[str]
) -> dict[str, pl.Series]:
    """Columns that have one value in every group, such as a model's family or an item's text."""
    first = np.full(groups, -1, dtype=np.intp)
    first[group[::-1]] = np.arange(len(group))[::-1]
    names = [name for name in frame.columns if name not in left_out]
    values = {name: frame[name].gather(first) for name in names}
    return {name: one for name, one in values.items() if one.gather(group).eq_missing(frame[name]).all()}


def _refuse_bad(study: Study) -> None:
    """Refuse values that are no answers, and names that occur twice."""
    matrix = study.matrix
    low = MISSING if matrix.dtype == np.int8 else 0
    with np.errstate(invalid="ignore"):
        wrong = (matrix < low) | (matrix > 1)
    if wrong.any():
        i, j = (int(index) for index in np.argwhere(wrong)[0])
        raise InputError(
            f"{study.name}: subject {study.subject_names[i]!r} (row {i + 1}), item {study.item_names[j]!r}: "
            f"{matrix[i, j]!s} {NO_ANSWER}"
        )
    for kind, names in (("subject", study.subject_names), ("item", study.item_names)):
        if len(set(names)) < len(names):
            seen: set[str] = set()
            again = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InputError(f"{study.name}: {kind} {again!r} occurs more than once; give every {kind} its own name")

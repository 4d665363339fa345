"""Who answered what, and was it right: a matrix of subjects x items from files, frames and arrays."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records.matrices import MISSING, read_arrays
from breadth.records.schemas import KEY_COLUMNS, NO_SCORES
from breadth.records.store import is_study
from breadth.records.studies import read_study
from breadth.records.tables import Table, read_table

#: Columns of a wide table that may name the subject, in order of preference.
SUBJECT_COLUMNS = ("subject", "model", "models", "run", "name")

#: What the names of language models look like: an owner and a slash, a size, or a well-known family.
MODEL_NAME = re.compile(
    r"^[\w.-]+/[\w.-]+$|\b\d+(\.\d+)?[bBmM]\b|llama|qwen|mistral|mixtral|gemma|gpt|pythia|falcon|claude|bert|phi-\d|opt-\d|olmo",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Responses:
    """Answers [subjects x items] with their names: int8 with -1 for missing, or shares in [0, 1] with NaN."""

    matrix: npt.NDArray[Any]
    subjects: tuple[str, ...]
    items: tuple[str, ...]
    name: str = "responses"
    warnings: tuple[str, ...] = ()

    def transposed(self) -> Responses:
        """Return the same answers with subjects and items exchanged."""
        return replace(self, matrix=np.ascontiguousarray(self.matrix.T), subjects=self.items, items=self.subjects)


def read_responses(source: Any) -> Responses:
    """Read answers from a path, a directory of long tables, a frame, or an array of subjects x items.

    Forms: NPZ (``R`` with -1 for missing, ``models``, ``items``); a long table (``subject, item, correct``); a wide
    table with a row per subject and a column per item. Every cell is checked to lie in [0, 1] or to be missing.
    """
    if isinstance(source, Responses):
        return source
    if isinstance(source, np.ndarray):
        found = _from_array(source)
    elif isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".npz":
        found = _from_npz(Path(source))
    else:
        table = read_answers(source)
        long = {"item", "correct"} <= set(table.frame.columns)
        found = _from_long(table) if long else _from_wide(table)
    _refuse_bad_values(found)
    _refuse_repeated_names(found)
    return replace(found, warnings=(*found.warnings, *_direction_warnings(found)))


def _from_array(array: npt.NDArray[Any]) -> Responses:
    if array.ndim != 2:
        raise InputError(f"responses: an array of answers is subjects x items, not {array.ndim}-dimensional")
    if array.dtype.kind not in "biuf":
        raise InputError(f"responses: an array of answers holds numbers, not {array.dtype}")
    subjects, items = (tuple(str(i) for i in range(size)) for size in array.shape)
    return Responses(_compact(array), subjects, items)


def _from_npz(path: Path) -> Responses:
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
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
    swapped = subjects is not None and len(subjects) == columns != rows and (items is None or len(items) == rows)
    warnings: tuple[str, ...] = ()
    if swapped:
        matrix, (rows, columns) = matrix.T, (columns, rows)
        warnings = (f"{path}: the matrix was the wrong way round (its columns are the subjects) and has been turned",)
    for kind, given, size in (("subject", subjects, rows), ("item", items, columns)):
        if given is not None and len(given) != size:
            raise InputError(f"{path}: {len(given)} {kind} names for {size} {kind}s; write one name each")
    return Responses(
        _compact(matrix),
        tuple(subjects or (str(i) for i in range(rows))),
        tuple(items or (str(j) for j in range(columns))),
        str(path),
        warnings,
    )


def _from_long(table: Table) -> Responses:
    frame = table.frame
    subject = next((name for name in ("subject", "model", "run") if name in frame.columns), None)
    if subject is None:
        raise unknown_column("subject", frame.columns, table.name, "who answered")
    keys = [subject] if subject == "subject" else [n for n in frame.columns if n in KEY_COLUMNS]
    label = pl.concat_str([pl.col(name).cast(pl.String) for name in keys], separator=" / ")
    item = pl.col("item").cast(pl.String)
    if "testset" in frame.columns and frame.select("item", "testset").unique().height > frame["item"].n_unique():
        item = pl.concat_str([pl.col("testset").cast(pl.String), item], separator=" / ")
    long = pl.DataFrame({"subject": frame.select(label).to_series(), "item": frame.select(item).to_series()})
    if long.null_count().sum_horizontal().item():
        row = int((long["subject"].is_null() | long["item"].is_null()).arg_max() or 0)
        raise InputError(f"{table.name}, row {row + 1}: subject or item is empty")
    doubled = long.is_duplicated()
    if doubled.any():
        row = int(doubled.arg_max() or 0)
        who, what = long.row(row)
        raise InputError(
            f"{table.name}, row {row + 1}: subject {who!r} answers item {what!r} more than once; "
            "keep one answer, or average them to a share between 0 and 1"
        )
    subjects, items = (long[name].unique(maintain_order=True) for name in ("subject", "item"))
    i, j = (
        long[name].replace_strict(names, pl.int_range(names.len(), eager=True), return_dtype=pl.Int64).to_numpy()
        for name, names in (("subject", subjects), ("item", items))
    )
    matrix = np.full((subjects.len(), items.len()), np.nan)
    matrix[i, j] = table.numbers("correct").to_numpy()
    return Responses(_compact(matrix), tuple(subjects), tuple(items), table.name, table.warnings)


def _from_wide(table: Table) -> Responses:
    frame = table.frame
    text = [name for name in frame.columns if frame[name].dtype == pl.String and not _answers_like(frame[name])]
    subject = next((name for name in SUBJECT_COLUMNS if name in frame.columns), text[0] if text else None)
    keys = NO_SCORES | set(text) | ({subject} if subject else set())
    items = [name for name in frame.columns if name not in keys]
    if not items:
        raise InputError(f"{table.name}: no column holds answers. Columns: {listed(frame.columns, 40)}")
    matrix = np.column_stack([table.numbers(name).to_numpy() for name in items]).astype(np.float64)
    subjects = frame[subject].cast(pl.String).fill_null("") if subject else pl.Series(map(str, range(frame.height)))
    return Responses(_compact(matrix), tuple(subjects), tuple(items), table.name)


def _answers_like(values: pl.Series) -> bool:
    return values.str.strip_chars().cast(pl.Float64, strict=False).is_not_null().any()


def read_answers(source: Any) -> Table:
    """Read a table of answers, or put together every long one (columns item, correct) in a directory."""
    if not (isinstance(source, str | os.PathLike) and Path(source).is_dir()):
        return read_table(source)
    folder = Path(source)
    if is_study(folder):
        study = read_study(folder)
        return Table(study.answers(), str(folder), warnings=study.warnings)
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".parquet", ".csv", ".jsonl", ".tsv")]
    tables = [read_table(path) for path in paths]
    frames = [table.frame for table in tables if {"item", "correct"} <= set(table.frame.columns)]
    if not frames:
        raise InputError(
            f"{folder}: is not the directory of a study (no runs/ and items/) and holds no table of answers (columns "
            "subject, item, correct)"
        )
    return Table(pl.concat(frames, how="diagonal_relaxed"), str(folder))


def _compact(matrix: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Right and wrong as int8 with -1 for missing; shares stay real numbers with NaN for missing."""
    if matrix.dtype.kind == "b":
        return matrix.astype(np.int8)
    if matrix.dtype.kind in "iu":
        return matrix if matrix.dtype == np.int8 else np.clip(matrix, -128, 127).astype(np.int8)
    values = matrix.astype(np.float64, copy=False)
    missing = np.isnan(values)
    if not ((values == 0) | (values == 1) | missing).all():
        return values
    return np.where(missing, MISSING, values).astype(np.int8)


def _refuse_bad_values(found: Responses) -> None:
    matrix = found.matrix
    low = MISSING if matrix.dtype == np.int8 else 0
    with np.errstate(invalid="ignore"):
        wrong = (matrix < low) | (matrix > 1)
    if wrong.any():
        i, j = (int(index) for index in np.argwhere(wrong)[0])
        raise InputError(
            f"{found.name}: subject {found.subjects[i]!r} (row {i + 1}), item {found.items[j]!r}: {matrix[i, j]!s} is "
            "no answer; write 1 for right, 0 for wrong, a share in between, and leave missing ones empty (-1 in NPZ)"
        )


def _refuse_repeated_names(found: Responses) -> None:
    for kind, names in (("subject", found.subjects), ("item", found.items)):
        if len(set(names)) < len(names):
            seen: set[str] = set()
            again = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InputError(
                f"{found.name}: {kind} {again!r} occurs more than once; give every {kind} a name of its own"
            )


def _direction_warnings(found: Responses) -> list[str]:
    """Warn when the items have the names of models and the subjects have not."""
    share = [
        np.mean([bool(MODEL_NAME.search(name)) for name in names[:500]]) for names in (found.subjects, found.items)
    ]
    if share[1] > 0.5 and share[0] < 0.2:
        return [
            f"{found.name}: the items look like models ({listed(found.items, 3)}); if rows and columns are "
            "exchanged, turn the matrix round: a row is a subject"
        ]
    return []

"""A study as measured: who answered what, and was it right. The one way to read answers, wherever they come from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError, did_you_mean, escape_bytes, listed
from breadth.records.files import DamagedError
from breadth.records.imported import imported_study, is_imported, read_imported
from breadth.records.part_answers import PartFile, scan_parts
from breadth.records.reading import Reading
from breadth.records.schemas import MISSING, SUBJECTS, TRAINING, shift_order
from breadth.records.sparse import ALWAYS_DENSE, MOST_DENSE, SparseMatrix, is_sparse
from breadth.records.store import (
    SUBJECT_KEYS,
    RunRecord,
    StudyStore,
    check_item_names,
    read_answers,
    set_of_testset,
)
from breadth.records.variants import label_runs

Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]

#: Largest log-odds that are kept: means and squares of larger ones are no numbers that a page can show.
MOST_MARGIN = 1e9

#: What to do where a question takes only right and wrong answers (:meth:`Study.rounded`).
ROUND_SHARES = "--round-shares counts 0.5 and more as right"

#: Columns of the subjects of a study's directory.
SUBJECT_TYPES: dict[str, type[pl.DataType]] = {**SUBJECTS, "strategy": pl.String, "method": pl.String}


@dataclass(frozen=True, eq=False)
class Study:
    """Answers [subjects x items] with what is known about both. Read-only.

    ``matrix`` is int8 with -1 for a missing answer or, where answers are shares in [0, 1], float64 with NaN; ``margin``
    is the log-odds of the right answer, if known. Where hardly any cell is filled and the matrix would be large, a
    :class:`SparseMatrix` stands in for each of them (``is_sparse``). ``subjects`` has a row per row of the matrix (a
    subject is a model at a checkpoint), ``items`` a row per column. ``runs`` holds what determines each run of a
    study's directory.
    ``training`` has the answers of the same subjects to the examples they were trained on, if these were evaluated:
    apart, so that no analysis takes them for a test.
    ``warnings`` name damaged files, which are left out and left where they are; ``reading`` says what the columns of a
    table were taken for.

    The rest follows from these: ``answered`` marks the cells that hold an answer; ``subject_names`` and ``item_names``
    name rows and columns (items with their test set where two sets share a name); ``testsets`` are in the order of the
    columns, and ``set_index`` has the place of every column's test set among them; ``shifts`` maps test sets to their
    kind of shift, in-domain first, then in the order of ``SHIFTS``, then other kinds by the alphabet.
    """

    name: str
    subjects: pl.DataFrame
    items: pl.DataFrame
    matrix: npt.NDArray[Any]
    margin: Reals | None = None
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    folder: Path | None = None
    warnings: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    training: Study | None = None
    _parts: tuple[PartFile, ...] = field(default=(), repr=False)
    answered: npt.NDArray[np.bool_] = field(init=False, repr=False)
    subject_names: tuple[str, ...] = field(init=False, repr=False)
    item_names: tuple[str, ...] = field(init=False, repr=False)
    testsets: list[str] = field(init=False, repr=False)
    set_index: npt.NDArray[np.intp] = field(init=False, repr=False)
    shifts: dict[str, str | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Work out what follows from the tables, once."""
        keys = self.items.select("testset", "item")
        shared = keys["item"].n_unique() < keys.n_unique()
        names = keys.select(pl.concat_str("testset", "item", separator=" / ") if shared else "item").to_series()
        place = {name: k for k, name in enumerate(keys["testset"].unique(maintain_order=True))}
        shift = pl.col("shift") if "shift" in self.items.columns else pl.lit(None, dtype=pl.String).alias("shift")
        kinds = dict(self.items.select("testset", shift).unique("testset", keep="first").iter_rows())
        vars(self).update(
            answered=_answered_cells(self.matrix),
            subject_names=tuple(self.subjects["subject"]),
            item_names=tuple(names),
            testsets=list(place),
            set_index=np.array([place[name] for name in keys["testset"]], dtype=np.intp),
            shifts=dict(sorted(kinds.items(), key=lambda entry: (shift_order(entry[1]), entry[0]))),
        )

    @property
    def cells(self) -> SparseMatrix | None:
        """The filled cells of the matrix where hardly any is filled, else None."""
        return self.matrix if isinstance(self.matrix, SparseMatrix) else None

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix would be large, and hardly any of its cells is filled."""
        return self.cells is not None

    @cached_property
    def answers(self) -> int:
        """Number of answers: of filled cells."""
        return int(np.count_nonzero(self.answered)) if self.cells is None else len(self.cells.values)

    @property
    def fractional(self) -> bool:
        """Whether some answers are neither right nor wrong, but shares in between."""
        return bool(self.matrix.dtype != np.int8)

    @cached_property
    def correct(self) -> npt.NDArray[np.floating[Any]]:
        """The answers as real numbers, NaN where there is none."""
        if self.fractional:
            return self.matrix
        if self.cells is not None:
            return as_array(self.cells.with_values(self.cells.values.astype(np.float32), np.nan))
        return np.where(self.matrix == MISSING, np.float32(np.nan), self.matrix.astype(np.float32))

    def in_domain(self, train_set: str | None) -> tuple[str, ...]:
        """The test sets that are in-domain for what a run was trained on.

        That is the one of its name. A set that was split into test sets, or a mixture of sets (``mnli+hans``), has
        several: those marked in-domain that belong to it. Otherwise it is the first one marked in-domain.
        """
        if train_set is None:
            return ()
        if train_set in self.shifts:
            return (train_set,)
        marked = [name for name, kind in self.shifts.items() if kind == "in-domain"]
        mixed = train_set.split("+")
        own = [name for name in marked if set_of_testset(name, mixed) in mixed]
        return tuple(own or marked[:1])

    @cached_property
    def responses(self) -> pl.LazyFrame:
        """A row per answer: ``subject, testset, item, correct, margin`` and, from a study's directory, ``answer``."""
        if self._parts:
            return scan_parts(self._parts).filter(pl.col("testset").is_in(self.testsets))
        row, column = self.answered.nonzero()
        margins: npt.NDArray[Any] | pl.Series = pl.repeat(None, len(row), dtype=pl.Float64, eager=True)
        if self.margin is not None:
            margins = _values_at(self.margin, row, column).astype(np.float64)
        frame = pl.DataFrame(
            {
                "subject": self.subjects["subject"].gather(row),
                "testset": self.items["testset"].gather(column),
                "item": self.items["item"].gather(column),
                "correct": _values_at(self.matrix, row, column).astype(np.float64),
                "margin": margins,
            }
        )
        return frame.with_columns(pl.col("margin").fill_nan(None)).lazy()

    @cached_property
    def scores(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Accuracy and number of answers [subjects x test sets]; NaN where nothing was answered."""
        total, count = self._sums_of_testsets(self.matrix)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan), count

    def spreads(self) -> Floats:
        """Variance of the answers of every subject to a test set [subjects x test sets]; NaN with fewer than two."""
        mean, count = self.scores
        if self.fractional:
            squared = (
                self.matrix**2
                if self.cells is None
                else as_array(self.cells.with_values(self.cells.values.astype(np.float64) ** 2, np.nan))
            )
            squares, _ = self._sums_of_testsets(squared)
        else:
            squares = mean * count
        around_mean = np.maximum(squares - count * mean**2, 0)
        return np.where(count > 1, around_mean / np.maximum(count - 1, 1), np.nan)

    def _sums_of_testsets(self, values: npt.NDArray[Any]) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Sum of the values of answered cells, and their number [subjects x test sets]."""
        total = np.zeros((len(self.matrix), len(self.testsets)))
        count = np.zeros(total.shape, dtype=np.int64)
        if isinstance(values, SparseMatrix):
            row, column = values.nonzero()
            np.add.at(total, (row, self.set_index[column]), values.values)
            np.add.at(count, (row, self.set_index[column]), 1)
            return total, count
        for k in range(len(self.testsets)):
            columns = np.flatnonzero(self.set_index == k)
            for start in range(0, len(self.matrix), 1024):  # in blocks of rows, to save memory
                rows = slice(start, start + 1024)
                answered = self.answered[rows, columns]
                count[rows, k] = answered.sum(axis=1)
                total[rows, k] = np.where(answered, values[rows, columns], 0).sum(axis=1)
        return total, count

    @property
    def trajectories(self) -> pl.DataFrame:
        """A row per subject: what is known about it, and its accuracy on every test set that any subject answered."""
        clash = [name for name in self.testsets if name in self.subjects.columns]
        if clash:
            raise InputError(f"{self.name}: test set {listed(clash)} has the name of a column; rename one")
        known = [name for name in self.subjects.columns if self.subjects[name].null_count() < self.subjects.height]
        scores = [
            pl.Series(name, values, nan_to_null=True)
            for name, values in zip(self.testsets, self.scores[0].T, strict=True)
            if not np.isnan(values).all()
        ]
        return self.subjects.select(known).hstack(scores)

    @cached_property
    def ends(self) -> pl.DataFrame:
        """First and last checkpoint of every run: ``first`` and ``last`` are rows of the matrix."""
        rows = self.subjects.with_row_index("row").sort("run", "step")
        keys = [name for name in rows.columns if name not in ("row", "subject", "step", "run")]
        return rows.group_by("run", maintain_order=True).agg(
            *(pl.col(name).first() for name in keys),
            pl.col("row").first().alias("first"),
            pl.col("row").last().alias("last"),
            pl.col("step").first().alias("first_step"),
            pl.col("step").last().alias("last_step"),
            pl.len().alias("checkpoints"),
        )

    @property
    def unfinished(self) -> dict[str, tuple[int, int]]:
        """Runs that have not reached their last checkpoint: the last step evaluated, and the last one planned."""
        planned = {run: max(record.checkpoints, default=0) for run, record in self.runs.items()}
        reached = self.ends.select("run", "last_step").iter_rows() if planned else ()
        return {run: (step, planned[run]) for run, step in reached if step < planned.get(run, 0)}

    @property
    def planned(self) -> dict[str, int]:
        """Step of every run's last checkpoint, evaluated or still to come."""
        last = {run: planned for run, (_, planned) in self.unfinished.items()}
        return dict(self.ends.select("run", "last_step").iter_rows()) | last

    def select(self, subjects: pl.Expr | Sequence[bool] | None = None, testset: str | None = None) -> Study:
        """The part that some subjects answered, or one test set; subjects without an answer there are dropped."""
        rows, columns = np.arange(self.subjects.height), np.arange(self.items.height)
        if subjects is not None:
            mask = self.subjects.select(subjects).to_series() if isinstance(subjects, pl.Expr) else pl.Series(subjects)
            rows = np.flatnonzero(mask.fill_null(False).to_numpy())
        if testset is not None:
            if testset not in self.testsets:
                hint = did_you_mean([testset], self.testsets)
                raise InputError(
                    f"{self.name}: there is no test set {testset!r}.{hint} Test sets: {listed(sorted(self.testsets))}"
                )
            k = self.testsets.index(testset)
            columns = np.flatnonzero(self.set_index == k)
            rows = rows[self.scores[1][rows, k] > 0]
        return self._cut(rows, columns)

    def with_items(self, columns: npt.NDArray[np.integer[Any]]) -> Study:
        """The part about some items; all subjects stay."""
        return self._cut(np.arange(self.subjects.height), columns.astype(np.intp))

    def comparable(self) -> Study:
        """The study as a matrix; where hardly any cell is filled, the part of it that can be compared.

        That are the items that at least two subjects answered, and the subjects that answered at least two of these. A
        study whose part is still too large for a matrix is returned as it is: who needs its matrix is told.
        """
        if self.cells is None:
            return self
        rows, columns = self.cells.shared_part()
        if not len(rows):
            raise InputError(
                f"{self.name}: no two of {self.subjects.height:,} subjects answered the same two items, so nothing "
                f"compares them. `breadth scores` and `breadth report` give the accuracy of each"
            )
        part = self._cut(rows, columns, MOST_DENSE)
        left_out = self.subjects.height - len(rows), self.items.height - len(columns)
        if part.is_sparse or not any(left_out):
            return part
        warning = (
            f"{self.name}: {left_out[0]:,} subjects and {left_out[1]:,} items that share no answers with others are "
            "left out"
        )
        return replace(part, warnings=(*part.warnings, warning))

    def by_name(self) -> Study:
        """The study with its subjects in the order of their names, and its items in that of test set and name.

        For whatever draws items or models, or chooses among equal ones: the same answers in another order of rows must
        give the same result. Elsewhere models and test sets are listed as in the data, which people expect.
        """
        rows, columns = (
            frame.select(pl.arg_sort_by(keys, maintain_order=True)).to_series().to_numpy().astype(np.intp)
            for frame, keys in ((self.subjects, ["subject"]), (self.items, ["testset", "item"]))
        )
        return self._cut(rows, columns)

    def rounded(self) -> Study:
        """The study with every share in between taken for right (from 0.5 on) or wrong, and a warning of how many."""
        if not self.fractional:
            return self
        values = self.matrix if self.cells is None else self.cells.values
        with np.errstate(invalid="ignore"):
            whole = np.where(np.isnan(values), MISSING, values >= 0.5).astype(np.int8)
        between = int(((values > 0) & (values < 1)).sum())
        warning = (
            f"{self.name}: {between:,} of {int(np.isfinite(values).sum()):,} answers are shares between 0 and 1; from "
            "0.5 on they count as right"
        )
        matrix = whole if self.cells is None else as_array(self.cells.with_values(whole, MISSING))
        return replace(self, matrix=matrix, warnings=(*self.warnings, warning))

    def _cut(self, rows: Indices, columns: Indices, most: int = ALWAYS_DENSE) -> Study:
        """Some rows and columns; of answers to training examples, the same rows.

        ``most`` is the number of cells up to which the part of a sparse matrix is a matrix.
        """
        kept = self.subjects[rows]
        training = None if self.training is None else self.training._cut(rows, np.arange(self.training.items.height))
        runs = set(kept["run"]) if "run" in kept.columns else set()
        names = set(kept["subject"])
        return replace(
            self,
            subjects=kept,
            items=self.items[columns],
            matrix=_part_of(self.matrix, rows, columns, most),
            margin=None if self.margin is None else _part_of(self.margin, rows, columns, most),
            runs={run: record for run, record in self.runs.items() if run in runs},
            training=training,
            _parts=tuple(part for part in self._parts if part.subject in names),
        )

    def distinct(self) -> Study:
        """The study with every model's untrained answers once.

        Runs of one model begin with the same answers at step 0. Counted once per run, they would weigh as several
        subjects; the first run's are kept.
        """
        if "step" not in self.subjects.columns or not self.runs:
            return self
        seen: set[tuple[str | None, bytes] | None] = set()
        keep = []
        for index, (step, run, model) in enumerate(self.subjects.select("step", "run", "model").iter_rows()):
            # A model with several recipes has several names here, and is one model before training.
            own = self.runs[run].model if run in self.runs else model
            key = (own, self.matrix[index].tobytes()) if step == 0 else None
            keep.append(key is None or key not in seen)
            seen.add(key)
        if all(keep):
            return self
        warning = (
            f"{keep.count(False)} of {len(keep)} checkpoints repeat the answers of a model before training (step 0 of "
            "further runs) and are left out"
        )
        return replace(self.select(keep), warnings=(*self.warnings, warning))


def as_array(cells: SparseMatrix) -> npt.NDArray[Any]:
    """A sparse matrix where an array is expected, for which it stands in."""
    return cells  # type: ignore[return-value]


def _answered_cells(matrix: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which cells of a matrix hold an answer."""
    if isinstance(matrix, SparseMatrix):
        return as_array(matrix.with_values(np.ones(len(matrix.values), dtype=np.bool_), False))
    if matrix.dtype == np.int8:
        return np.asarray(matrix != MISSING)
    return np.asarray(~np.isnan(matrix))


def _values_at(matrix: npt.NDArray[Any], row: Indices, column: Indices) -> npt.NDArray[Any]:
    """The values of the filled cells, of which ``row`` and ``column`` are all, in order."""
    return matrix.values if isinstance(matrix, SparseMatrix) else matrix[row, column]


def _part_of(matrix: npt.NDArray[Any], rows: Indices, columns: Indices, most: int) -> npt.NDArray[Any]:
    """Some rows and columns of a matrix."""
    if isinstance(matrix, SparseMatrix):
        return matrix.part(rows, columns, most)
    return matrix[np.ix_(rows, columns)]


def matrices_of_cells(
    name: str,
    shape: tuple[int, int],
    row: npt.NDArray[Any],
    column: npt.NDArray[Any],
    correct: npt.NDArray[Any],
    margin: npt.NDArray[Any] | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """The matrices of answers and margins from the values of some cells, NaN where there is none.

    They are sparse where hardly any cell is filled.
    """
    if margin is not None:
        margin = np.clip(margin, -MOST_MARGIN, MOST_MARGIN)
    known = ~np.isnan(correct)
    if is_sparse(int(known.sum()), *shape):
        row, column = row[known], column[known]
        cells = SparseMatrix.of(name, shape, row, column, compact(correct[known]))
        if margin is None:
            return as_array(cells), None
        return as_array(cells), as_array(SparseMatrix.of(name, shape, row, column, margin[known].astype(np.float32)))
    values = compact(correct)
    matrix = np.full(shape, MISSING if values.dtype == np.int8 else np.nan, dtype=values.dtype)
    matrix[row, column] = values
    if margin is None:
        return matrix, None
    margins = np.full(shape, np.nan, dtype=np.float32)
    margins[row, column] = margin
    return matrix, margins


def read_study_directory(source: str | os.PathLike[str], keys: Sequence[str] = ()) -> Study:
    """Read what a study has answered so far. Nothing is moved or written: damaged files are left out and named.

    ``keys`` is there because every reader takes it; runs and steps tell the subjects of a directory apart.
    """
    store = StudyStore(source)
    if is_imported(store.folder):
        return imported_study(read_imported(store.folder), escape_bytes(str(source)), store.folder)
    records: dict[str, RunRecord] = {}
    subjects: list[dict[str, Any]] = []
    cells: list[tuple[npt.NDArray[np.intp], pl.DataFrame]] = []
    warnings: list[str] = []
    try:
        store.read_study()
    except DamagedError as error:
        warnings.append(str(error))
    parts: list[PartFile] = []
    # Every (test set, item) gets a column. Parts mostly hold the same items as the one before, which is quick to see.
    columns: dict[tuple[str, str], int] = {}
    items, place = pl.DataFrame(), np.empty(0, dtype=np.intp)
    for run in store.runs():
        record = records[run.name] = run.record()
        for step, name in run.parts().items():
            content = run.read_sound(name)
            if content is None:
                path = run.folder.relative_to(store.folder) / name
                warnings.append(
                    f"{path}: {run.part_fault(name)} and is left out; `breadth run` evaluates the checkpoint again"
                )
                continue
            answers = read_answers(content, run.folder / name, ["testset", "item", "correct", "margin"])
            answers = answers.with_columns(pl.col("correct", "margin").fill_null(np.nan))
            if not items.equals(answers.select("testset", "item")):
                items = answers.select("testset", "item")
                check_item_names(items, run.folder / name)
                place = np.array([columns.setdefault(key, len(columns)) for key in items.iter_rows()], dtype=np.intp)
            cells.append((place, answers.select("correct", "margin")))
            subject = f"{run.name}/{step}"
            described = {key: getattr(record, key) for key in SUBJECT_KEYS}
            subjects.append({"subject": subject, "run": run.name, "step": step, **described})
            parts.append(PartFile(subject, run.folder / name, answers.height))
    if not cells:
        lost = f" ({len(warnings)} damaged files were left out)" if warnings else ""
        raise InputError(
            f"{store.folder}: no checkpoint has been evaluated yet{lost}; start or continue with `breadth run`"
        )
    labels = label_runs(records)
    correct, margin = (np.full((len(cells), len(columns)), np.nan, np.float32) for _ in range(2))
    for index, (place, answers) in enumerate(cells):
        correct[index, place], margin[index, place] = answers.to_numpy().T
    # The stored items in the order of the columns; an answered item that is not stored has only its name.
    items = pl.DataFrame(list(columns), schema={"testset": pl.String, "item": pl.String}, orient="row")
    if stored := [store.read_items(testset) for testset in store.item_files()]:
        with reading(store.folder / "items"):  # two test sets may have columns of one name that do not go together
            texts = pl.concat(stored, how="diagonal_relaxed").with_columns(pl.col("testset", "item").cast(pl.String))
        items = items.join(texts, on=["testset", "item"], how="left", maintain_order="left")
    whole = Study(
        name=escape_bytes(str(source)),
        subjects=pl.DataFrame(
            [{**each, "model": labels[each["run"]]} for each in subjects], schema=SUBJECT_TYPES, orient="row"
        ),
        items=items,
        matrix=compact(correct),
        margin=margin,
        runs=records,
        folder=store.folder,
        warnings=tuple(warnings),
        _parts=tuple(parts),
    )
    return _training_apart(whole)


def _training_apart(study: Study) -> Study:
    """The study with the answers to training examples, which no analysis may take for a test, in ``training``."""
    trained = np.zeros(study.items.height, dtype=bool)
    if "shift" in study.items.columns:
        trained = (study.items["shift"] == TRAINING).fill_null(False).to_numpy()
    if not trained.any() or trained.all():
        return study
    rows = np.arange(study.subjects.height)
    training = study._cut(rows, np.flatnonzero(trained))
    return replace(study._cut(rows, np.flatnonzero(~trained)), training=training)


def side_by_side(name: str, parts: Mapping[str, Study]) -> Study:
    """One study of the items of several, matched by the names of subjects; a subject that one lacks did not answer it.

    Where no study names its subjects, which then are numbered, rows of equal number are the same subject.
    """
    numbered = [key for key, part in parts.items() if part.subject_names == tuple(map(str, range(len(part.matrix))))]
    sizes = {len(parts[key].matrix) for key in numbered}
    if len(sizes) > 1 or 0 < len(numbered) < len(parts):
        raise InputError(
            f"{name}: rows of different files cannot be matched, because {listed(numbered, 5)} "
            f"{'does' if len(numbered) == 1 else 'do'} not name the subjects; add a column subject (in NPZ: an array "
            "models)"
        )
    warnings = [line for part in parts.values() for line in part.warnings]
    if numbered and len(parts) > 1:
        warnings.append(f"{name}: the files do not name the subjects; rows of equal number are taken as one subject")
    subjects = list(dict.fromkeys(subject for part in parts.values() for subject in part.subject_names))
    place = {subject: row for row, subject in enumerate(subjects)}
    for key, part in parts.items():
        own = {*part.subject_names}
        others = {subject for other, one in parts.items() if other != key for subject in one.subject_names}
        if others and own.isdisjoint(others):
            raise InputError(
                f"{name}: no subject of {key} ({listed(part.subject_names, 3)}) occurs in another file; use the same "
                "names in all files, or open each file on its own"
            )
        if lacking := [subject for subject in subjects if subject not in own]:
            warnings.append(
                f"{name}: {key} lacks {len(lacking)} of {len(subjects)} subjects, whose answers there are missing: "
                f"{listed(lacking, 3)}"
            )
    rows = [np.array([place[subject] for subject in part.subject_names], dtype=np.intp) for part in parts.values()]
    return Study(
        name,
        pl.DataFrame({"subject": subjects}, schema={"subject": pl.String}),
        pl.concat([part.items for part in parts.values()], how="diagonal_relaxed"),
        _beside_each_other(name, len(subjects), list(parts.values()), rows),
        warnings=tuple(warnings),
    )


def _beside_each_other(name: str, subjects: int, parts: Sequence[Study], rows: Sequence[Indices]) -> npt.NDArray[Any]:
    """The matrices of several studies as one, with the rows of each at ``rows``."""
    starts = np.cumsum([0, *(part.items.height for part in parts)])
    shape = subjects, int(starts[-1])
    if is_sparse(sum(part.answers for part in parts), *shape):
        cells = [part.answered.nonzero() for part in parts]
        values = [_values_at(part.matrix, *each) for part, each in zip(parts, cells, strict=True)]
        row = np.concatenate([own[each[0]] for own, each in zip(rows, cells, strict=True)])
        column = np.concatenate([start + each[1] for start, each in zip(starts, cells, strict=False)])
        return matrices_of_cells(name, shape, row, column, np.concatenate(values).astype(np.float64))[0]
    fractional = any(part.fractional for part in parts)
    matrix = np.full(shape, np.nan if fractional else MISSING, dtype=np.float64 if fractional else np.int8)
    for part, own, start in zip(parts, rows, starts, strict=False):
        matrix[own, start : start + part.items.height] = part.correct if fractional else part.matrix
    return matrix


def compact(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Right and wrong as int8 with -1 for missing; shares stay real numbers with NaN for missing."""
    if values.dtype.kind == "b":
        return values.astype(np.int8)
    if values.dtype.kind in "iu":
        return values if values.dtype == np.int8 else np.clip(values, -128, 127).astype(np.int8)
    missing = np.isnan(values)
    if not ((values == 0) | (values == 1) | missing).all():
        return values.astype(np.float64, copy=False)
    return np.where(missing, MISSING, values).astype(np.int8)

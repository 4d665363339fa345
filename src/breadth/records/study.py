"""A study as measured: who answered what, and was it right. The one way to read answers, wherever they come from."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, did_you_mean, listed
from breadth.records.matrices import MISSING
from breadth.records.runs import SUBJECT_KEYS, RunRecord
from breadth.records.schemas import SHIFTS, SUBJECTS
from breadth.records.store import DAMAGED, StudyStore, open_store

Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.float32]

#: Columns of the subjects of a study's directory.
SUBJECT_TYPES: dict[str, type[pl.DataType]] = {**SUBJECTS, "strategy": pl.String, "method": pl.String}


@dataclass(frozen=True, eq=False)
class Study:
    """Answers [subjects x items] with what is known about both. Read-only.

    ``matrix`` is int8 with -1 for a missing answer or, where answers are shares in [0, 1], float64 with NaN; ``margin``
    is the log-odds of the right answer, if known. ``subjects`` has a row per row of the matrix (a subject is a model at
    a checkpoint), ``items`` a row per column. ``runs`` holds what determines each run of a study's directory.
    ``warnings`` name damaged files, which are left out and left where they are.
    """

    name: str
    subjects: pl.DataFrame
    items: pl.DataFrame
    matrix: npt.NDArray[Any]
    margin: Reals | None = None
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    folder: Path | None = None
    warnings: tuple[str, ...] = ()
    _parts: tuple[tuple[str, Path], ...] = field(default=(), repr=False)

    @cached_property
    def correct(self) -> npt.NDArray[np.floating[Any]]:
        """The answers as real numbers, NaN where there is none."""
        if self.matrix.dtype != np.int8:
            return self.matrix
        return np.where(self.matrix == MISSING, np.float32(np.nan), self.matrix.astype(np.float32))

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Which cells of the matrix hold an answer."""
        return _answered(self.matrix)

    @cached_property
    def subject_names(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(self.subjects["subject"])

    @cached_property
    def item_names(self) -> tuple[str, ...]:
        """Names of the columns; with their test set where two sets share the name of an item."""
        if self.items["item"].n_unique() == self.items.select("testset", "item").n_unique():
            return tuple(self.items["item"])
        return tuple(self.items.select(pl.concat_str("testset", "item", separator=" / ")).to_series())

    @cached_property
    def testsets(self) -> list[str]:
        """Test sets in the order of the columns."""
        return self.items["testset"].unique(maintain_order=True).to_list()

    @cached_property
    def set_index(self) -> npt.NDArray[np.intp]:
        """Position of every column's test set in ``testsets``."""
        place = {name: index for index, name in enumerate(self.testsets)}
        return np.array([place[name] for name in self.items["testset"]], dtype=np.intp)

    @cached_property
    def shifts(self) -> dict[str, str | None]:
        """Test sets with their kind of shift: in-domain first, then in the order of ``SHIFTS``, unknown kinds last."""
        shift = pl.col("shift") if "shift" in self.items.columns else pl.lit(None, dtype=pl.String)
        kinds = dict(self.items.select("testset", shift.alias("shift")).unique("testset", keep="first").iter_rows())
        rank = {kind: place for place, kind in enumerate(SHIFTS)}
        return dict(sorted(kinds.items(), key=lambda entry: (rank.get(entry[1], len(SHIFTS)), entry[0])))

    def in_domain(self, train_set: str | None) -> str | None:
        """The test set that is in-domain for a training set: the one of its name, else the one marked in-domain."""
        if train_set is None or train_set in self.shifts:
            return train_set
        return next((name for name, kind in self.shifts.items() if kind == "in-domain"), None)

    @cached_property
    def responses(self) -> pl.LazyFrame:
        """A row per answer: ``subject, testset, item, correct, margin`` and, from a study's directory, ``answer``."""
        if self._parts:
            scans = [
                pl.scan_parquet(path).select(pl.lit(name).alias("subject"), pl.all()) for name, path in self._parts
            ]
            return pl.concat(scans).filter(pl.col("testset").is_in(self.testsets))
        row, column = np.nonzero(self.answered)
        margin = None if self.margin is None else self.margin[row, column].astype(np.float64)
        frame = pl.DataFrame(
            {
                "subject": self.subjects["subject"].gather(row),
                "testset": self.items["testset"].gather(column),
                "item": self.items["item"].gather(column),
                "correct": self.matrix[row, column].astype(np.float64),
                "margin": pl.Series([None] * len(row), dtype=pl.Float64) if margin is None else margin,
            }
        )
        return frame.with_columns(pl.col("margin").fill_nan(None)).lazy()

    @cached_property
    def scores(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Accuracy and number of answers [subjects x test sets]; NaN where nothing was answered."""
        total, count = self._sums(np.ones((self.items.height, 1)))
        return _mean(total, count)[:, :, 0], count[:, :, 0].astype(np.int64)

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

    def halves(self, splits: int = 10, seed: int = 0) -> Floats:
        """Half the difference between random halves of every test set [subjects, test sets, splits].

        The same items form the same half for every subject, so the difference shows how far a score would move if the
        test set held other items of the same kind.
        """
        order = self.items.select("testset", "item").with_row_index("column").sort("testset", "item")
        sides = np.empty((self.items.height, splits + 1))
        sides[:, splits] = 1.0
        sides[order["column"].to_numpy(), :splits] = item_sides(order["testset"], splits, seed)
        total, count = self._sums(sides)
        half, whole = ((total[:, :, part], count[:, :, part]) for part in (slice(splits), slice(splits, None)))
        return (_mean(*half) - _mean(whole[0] - half[0], whole[1] - half[1])) / 2

    def _sums(self, weights: Floats) -> tuple[Floats, Floats]:
        """Weighted sums of answers, and of 1 for every answer [subjects, test sets, weights], for weights per item."""
        total, count = (np.empty((len(self.matrix), len(self.testsets), weights.shape[1])) for _ in range(2))
        for k in range(len(self.testsets)):
            columns = np.flatnonzero(self.set_index == k)
            for start in range(0, len(self.matrix), 1024):  # in blocks of rows, to save memory
                rows = slice(start, start + 1024)
                block = self.matrix[rows, columns]
                answered = _answered(block)
                total[rows, k] = np.where(answered, block, 0).astype(np.float64) @ weights[columns]
                count[rows, k] = answered.astype(np.float64) @ weights[columns]
        return total, count

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

    @cached_property
    def planned(self) -> dict[str, int]:
        """Step of every run's last checkpoint, evaluated or still to come."""
        records = self.runs
        return {
            run: max(step, records[run].last_checkpoint if run in records else 0)
            for run, step in self.ends.select("run", "last_step").iter_rows()
        }

    @property
    def unfinished(self) -> dict[str, tuple[int, int]]:
        """Runs that have not reached their last checkpoint: the last step evaluated, and the last one planned."""
        reached = self.ends.select("run", "last_step").iter_rows() if self.runs else ()
        return {run: (step, self.planned[run]) for run, step in reached if step < self.planned[run]}

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
            columns = np.flatnonzero(self.set_index == self.testsets.index(testset))
            rows = rows[self.answered[np.ix_(rows, columns)].any(axis=1)]
        return self._taken(rows, columns)

    def distinct(self) -> Study:
        """The study with every model's untrained answers once.

        Runs of one model begin with the same answers at step 0. Counted once per run, they would weigh as several
        subjects; the first run's are kept.
        """
        if "step" not in self.subjects.columns or not self.runs:
            return self
        seen: set[tuple[str | None, bytes]] = set()
        keep = []
        for index, (step, model) in enumerate(self.subjects.select("step", "model").iter_rows()):
            if step == 0:
                key = (model, self.matrix[index].tobytes())
                if key in seen:
                    continue
                seen.add(key)
            keep.append(index)
        copies = self.subjects.height - len(keep)
        if not copies:
            return self
        warning = (
            f"{copies} of {self.subjects.height} checkpoints repeat the answers of a model before training (step 0 of "
            "further runs) and are left out"
        )
        return replace(self._taken(np.array(keep), np.arange(self.items.height)), warnings=(*self.warnings, warning))

    def _taken(self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> Study:
        subjects = self.subjects[rows]
        names = set(subjects["run"]) if "run" in subjects.columns else set()
        chosen = set(subjects["subject"])
        cut = np.ix_(rows, columns)
        return replace(
            self,
            subjects=subjects,
            items=self.items[columns],
            matrix=self.matrix[cut],
            margin=None if self.margin is None else self.margin[cut],
            runs={run: record for run, record in self.runs.items() if run in names},
            _parts=tuple(part for part in self._parts if part[0] in chosen),
        )


def read_study_directory(source: str | os.PathLike[str]) -> Study:
    """Read what a study has answered so far. Nothing is moved or written: damaged files are left out and named."""
    store = open_store(source)
    columns = _Columns()
    records: dict[str, RunRecord] = {}
    subjects: list[dict[str, Any]] = []
    rows: list[tuple[npt.NDArray[np.intp], Reals, Reals]] = []
    warnings: list[str] = []
    parts: list[tuple[str, Path]] = []
    for run in store.runs():
        record = records[run.name] = run.record()
        for step, name in run.parts().items():
            content = run.read_sound(name)
            if content is None:
                path = run.folder.relative_to(store.folder) / name
                warnings.append(f"{path}: {DAMAGED} and is left out; `breadth run` evaluates the checkpoint again")
                continue
            answers = pl.read_parquet(io.BytesIO(content), columns=["testset", "item", "correct", "margin"])
            subject = f"{run.name}/{step}"
            described = {key: getattr(record, key) for key in SUBJECT_KEYS}
            subjects.append({"subject": subject, "run": run.name, "step": step, **described})
            rows.append((columns.place(answers), _reals(answers["correct"]), _reals(answers["margin"])))
            parts.append((subject, run.folder / name))
    if not rows:
        lost = f" ({len(warnings)} damaged files were left out)" if warnings else ""
        raise InputError(
            f"{store.folder}: no checkpoint has been evaluated yet{lost}; start or continue with `breadth run`"
        )
    correct, margin = (np.full((len(rows), len(columns.names)), np.nan, np.float32) for _ in range(2))
    for index, (place, right, log_odds) in enumerate(rows):
        correct[index, place], margin[index, place] = right, log_odds
    return Study(
        name=str(source),
        subjects=pl.DataFrame(subjects, schema=SUBJECT_TYPES, orient="row"),
        items=_items(store, columns),
        matrix=compact(correct),
        margin=margin,
        runs=records,
        folder=store.folder,
        warnings=tuple(warnings),
        _parts=tuple(parts),
    )


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


def _answered(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(values != MISSING if values.dtype == np.int8 else ~np.isnan(values))


def _mean(total: Floats, count: Floats) -> Floats:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def item_sides(testsets: pl.Series, splits: int, seed: int) -> npt.NDArray[np.bool_]:
    """Which half every item falls into [items, splits]; ``testsets`` holds the test set of every item, sorted."""
    generator = np.random.default_rng(seed)
    sides = np.empty((testsets.len(), splits), dtype=bool)
    start = 0
    for size in testsets.to_frame().group_by(testsets.name, maintain_order=True).len()["len"]:
        balanced = np.arange(size) < size / 2
        sides[start : start + size] = np.stack([generator.permutation(balanced) for _ in range(splits)], axis=1)
        start += size
    return sides


class _Columns:
    """Gives every (test set, item) a column. Parts of a study mostly hold the same items, which is quick to see."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}
        self._last: tuple[pl.DataFrame, npt.NDArray[np.intp]] | None = None

    def place(self, answers: pl.DataFrame) -> npt.NDArray[np.intp]:
        keys = answers.select("testset", "item")
        if self._last is None or not keys.equals(self._last[0]):
            columns = [self.names.setdefault(key, len(self.names)) for key in keys.iter_rows()]
            self._last = keys, np.array(columns, dtype=np.intp)
        return self._last[1]


def _reals(values: pl.Series) -> Reals:
    return values.cast(pl.Float32).fill_null(float("nan")).to_numpy()


def _items(store: StudyStore, columns: _Columns) -> pl.DataFrame:
    """The stored items in the order of the columns; an answered item that is not stored has only its name."""
    keys = pl.DataFrame(list(columns.names), schema={"testset": pl.String, "item": pl.String}, orient="row")
    stored = list(store.items())
    if not stored:
        return keys
    everything = pl.concat(stored, how="diagonal_relaxed").with_columns(pl.col("testset", "item").cast(pl.String))
    return keys.join(everything, on=["testset", "item"], how="left", maintain_order="left")

"""A study's answers as one matrix, read without changing anything: what reports and live pages start from.

``read_study`` gives long tables and sets damaged files aside. This gives the same answers [subjects x items] in a
hundredth of the room, leaves damaged files where they are, and is quick with tens of millions of answers.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError
from breadth.records.halves import item_sides
from breadth.records.matrices import MISSING
from breadth.records.responses import Responses
from breadth.records.store import StudyStore, checksum, open_study
from breadth.records.studies import SUBJECT_KEYS, SUBJECT_TYPES
from breadth.records.trajectories import Trajectories

Reals = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StudyMatrix:
    """Answers of a study: ``correct`` and ``margin`` [subjects x items] with NaN where there is none.

    ``subjects`` has a row per row, ``items`` a row per column, texts and all; ``specs`` what determines each run.
    """

    folder: Path
    correct: Reals
    margin: Reals
    subjects: pl.DataFrame
    items: pl.DataFrame
    specs: dict[str, dict[str, Any]]
    warnings: tuple[str, ...] = ()
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def testsets(self) -> list[str]:
        """Test sets in the order of the columns."""
        return self.items["testset"].unique(maintain_order=True).to_list()

    @cached_property
    def set_index(self) -> npt.NDArray[np.intp]:
        """Place of every column's test set in ``testsets``."""
        place = {name: index for index, name in enumerate(self.testsets)}
        return np.array([place[name] for name in self.items["testset"]], dtype=np.intp)

    @cached_property
    def item_names(self) -> list[str]:
        """Names of the columns; with their test set where two sets share the name of an item."""
        if self.items["item"].n_unique() == self.items.height:
            return self.items["item"].to_list()
        return self.items.select(pl.concat_str("testset", "item", separator=" / ")).to_series().to_list()

    @cached_property
    def responses(self) -> Responses:
        """The same answers as ``read_responses`` gives them for the directory."""
        missing = np.isnan(self.correct)
        whole = bool(((self.correct == 0) | (self.correct == 1) | missing).all())
        matrix = np.where(missing, MISSING, self.correct).astype(np.int8) if whole else self.correct.astype(np.float64)
        return Responses(matrix, tuple(self.subjects["subject"]), tuple(self.item_names), str(self.folder))

    @cached_property
    def scores(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Accuracy and number of answers [subjects x test sets]; NaN where nothing was answered."""
        return self._means(np.ones(self.items.height, dtype=bool))

    def _means(self, inside: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Accuracy per test set over the chosen columns, summed in blocks of rows to stay small."""
        sets = np.zeros((self.items.height, len(self.testsets)), dtype=np.float64)
        sets[np.flatnonzero(inside), self.set_index[inside]] = 1.0
        right, count = (np.empty((len(self.correct), sets.shape[1])) for _ in range(2))
        for start in range(0, len(self.correct), 256):
            rows = slice(start, start + 256)
            seen = ~np.isnan(self.correct[rows])
            right[rows] = np.where(seen, self.correct[rows], 0).astype(np.float64) @ sets
            count[rows] = seen.astype(np.float64) @ sets
        with np.errstate(invalid="ignore"):
            mean = np.where(count > 0, right / np.maximum(count, 1), np.nan)
        return mean, count.astype(np.int64)

    def halves(self, splits: int = 10, seed: int = 0) -> npt.NDArray[np.float64]:
        """Half the difference between random halves of every test set [subjects, test sets, splits]."""
        order = self.items.select("testset", "item").with_row_index("column").sort("testset", "item")
        sides = np.empty((self.items.height, splits), dtype=bool)
        sides[order["column"].to_numpy()] = item_sides(order, splits, seed)
        parts = [(self._means(sides[:, k])[0] - self._means(~sides[:, k])[0]) / 2 for k in range(splits)]
        return np.stack(parts, axis=2)

    def trajectories(self, runs: Sequence[str], control: str, facets: Sequence[str], seed: int = 0) -> Trajectories:
        """Trajectories of some runs, as ``read_trajectories`` gives them for the long table of the study."""
        if "halves" not in self._cache:
            self._cache["halves"] = self.halves(seed=seed)
        chosen = self.subjects.with_row_index("row").filter(pl.col("run").is_in(list(runs))).sort("run", "step")
        rows = chosen["row"].to_numpy()
        columns = [self.testsets.index(name) for name in (*facets, control)]
        scores = self.scores[0][rows]
        named = {
            name: pl.Series(scores[:, k], nan_to_null=True) for name, k in zip((*facets, control), columns, strict=True)
        }
        frame = chosen.select("run", "step").with_columns(named[control].alias(control))
        frame = frame.with_columns(named[name].alias(name) for name in facets)
        halves = self._cache["halves"][rows][:, columns]
        return Trajectories(frame, str(self.folder), ("run",), "step", (control,), tuple(facets), halves)


def read_matrix(source: str | os.PathLike[str]) -> StudyMatrix:
    """Read a study's directory as a matrix. Nothing is moved or written: damaged files are skipped and named."""
    store = open_study(source)
    folder = store.folder
    specs: dict[str, dict[str, Any]] = {}
    subjects: list[dict[str, Any]] = []
    rows: list[tuple[npt.NDArray[np.intp], Reals, Reals]] = []
    columns, warnings = _Columns(), []
    for run in store.runs():
        specs[run.name] = run.spec()
        known = {key: specs[run.name].get(key) for key in SUBJECT_KEYS}
        known["model"] = str(known["model"] or "unknown model")
        for step, path in run.parts().items():
            part = read_sound(path)
            if part is None:
                warnings.append(f"{path.relative_to(folder)}: is torn or was changed (its checksum is wrong); left out")
                continue
            rows.append((columns.place(part), _reals(part["correct"]), _reals(part["margin"])))
            subjects.append({"subject": f"{run.name}/{step}", "run": run.name, "step": step, **known})
    if not rows:
        raise InputError(f"{folder}: no checkpoint has been evaluated yet; start or continue with `breadth run`")
    shape = (len(rows), len(columns.names))
    correct, margin = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
    for index, (place, right, odds) in enumerate(rows):
        correct[index, place], margin[index, place] = right, odds
    frame = pl.DataFrame(subjects, schema=SUBJECT_TYPES, orient="row")
    return StudyMatrix(folder, correct, margin, frame, _items(store, columns), specs, tuple(warnings))


def read_sound(path: Path) -> pl.DataFrame | None:
    """Answers of a checkpoint if the file is what its name says, else None; the file stays where it is."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if path.name.split(".")[1] != checksum(content):
        return None
    return pl.read_parquet(io.BytesIO(content), columns=["testset", "item", "correct", "margin"])


class _Columns:
    """Gives every (test set, item) a column. Parts of a study mostly hold the same items, which is quick to see."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}
        self._last: tuple[pl.DataFrame, npt.NDArray[np.intp]] | None = None

    def place(self, part: pl.DataFrame) -> npt.NDArray[np.intp]:
        keys = part.select("testset", "item")
        if self._last is not None and keys.equals(self._last[0]):
            return self._last[1]
        found = [self.names.setdefault(key, len(self.names)) for key in keys.iter_rows()]
        self._last = keys, np.array(found, dtype=np.intp)
        return self._last[1]


def _reals(values: pl.Series) -> Reals:
    return values.cast(pl.Float32).fill_null(float("nan")).to_numpy()


def _items(store: StudyStore, columns: _Columns) -> pl.DataFrame:
    """The stored items in the order of the columns; an answered item that is not stored has only its name."""
    stored = [
        frame if "testset" in frame.columns else frame.with_columns(testset=pl.lit(name))
        for name, frame in ((name, store.read_items(name)) for name in store.testsets())
    ]
    keys = pl.DataFrame(list(columns.names), schema={"testset": pl.String, "item": pl.String}, orient="row")
    if not stored:
        return keys
    everything = pl.concat(stored, how="diagonal_relaxed").with_columns(pl.col("testset", "item").cast(pl.String))
    return keys.join(everything, on=["testset", "item"], how="left", maintain_order="left")

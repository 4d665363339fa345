"""Answers of which few cells are filled: their subjects and items are many, and hardly any two have answers in common.

A matrix of them would be mostly empty, and may be larger than memory: 20,000 subjects with an item each are 300 kB in a
file and 400 million cells. So a study keeps the cells that are filled, and every question that can be answered from
them is; one that needs the matrix is put to a part of it, or refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from breadth.errors import InputError
from breadth.records.schemas import MISSING

Indices = npt.NDArray[np.intp]

#: Cells up to which answers are a matrix however few are filled: a matrix is quicker, and 20 MB.
ALWAYS_DENSE = 20_000_000

#: Share of cells from which they are a matrix: a filled cell takes ten times as much memory here as a cell there.
LEAST_FILLED = 0.1

#: Most cells of a part that is made a matrix because a question needs one: all that is computed of it fits in 1 GB.
MOST_DENSE = 100_000_000

#: Rounds in which subjects and items without answers in common are left out.
ROUNDS = 20


def is_sparse(filled: int, subjects: int, items: int) -> bool:
    """Whether so many answers are kept cell by cell rather than as a matrix of subjects x items."""
    cells = subjects * items
    return cells > ALWAYS_DENSE and filled < LEAST_FILLED * cells


@dataclass(frozen=True, eq=False)
class SparseMatrix(NDArrayOperatorsMixin):
    """Stands in for the matrix of a study: the value of every filled cell, sorted by row, then column.

    It has the shape and type of the matrix, gives parts of it, and its sums over rows. Whatever else numpy is asked to
    do with it needs the matrix itself, and gets it if it is small.
    """

    name: str
    shape: tuple[int, int]
    row: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    empty: float

    ndim = 2

    @classmethod
    def of(
        cls,
        name: str,
        shape: tuple[int, int],
        row: npt.NDArray[Any],
        column: npt.NDArray[Any],
        values: npt.NDArray[Any],
    ) -> SparseMatrix:
        """A matrix of filled cells in any order."""
        order = np.lexsort((column, row))
        empty = MISSING if values.dtype == np.int8 else np.nan
        return cls(name, shape, row[order].astype(np.int32), column[order].astype(np.int32), values[order], empty)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self.values.dtype

    @property
    def size(self) -> int:
        """Cells, filled or not."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def nonzero(self) -> tuple[Indices, Indices]:
        """Rows and columns of the filled cells."""
        return self.row.astype(np.intp), self.column.astype(np.intp)

    def with_values(self, values: npt.NDArray[Any], empty: float) -> SparseMatrix:
        """Other values in the same cells."""
        return replace(self, values=values, empty=empty)

    def blocks(self, rows: int) -> Iterator[tuple[slice, slice]]:
        """Blocks of so many rows, each with the place of its cells."""
        for start in range(0, self.shape[0], rows):
            stop = min(start + rows, self.shape[0])
            first, last = np.searchsorted(self.row, (start, stop))
            yield slice(start, stop), slice(int(first), int(last))

    def part(self, rows: Indices, columns: Indices, most: int = ALWAYS_DENSE) -> Any:
        """Some rows and columns, in this order: a matrix if that has at most so many cells, or is filled well."""
        place_of_row = _places_among(rows, self.shape[0])
        place_of_column = _places_among(columns, self.shape[1])
        row, column = place_of_row[self.row], place_of_column[self.column]
        inside = (row >= 0) & (column >= 0)
        shape = (len(rows), len(columns))
        row, column, values = row[inside], column[inside], self.values[inside]
        cells = SparseMatrix.of(self.name, shape, row, column, values)
        cells = replace(cells, empty=self.empty)
        if cells.size <= most or not is_sparse(len(values), *shape):
            return cells.filled()
        return cells

    def columns_of(self, rows: slice) -> Indices:
        """Columns in which any row of a block has a filled cell, in order."""
        first, last = np.searchsorted(self.row, (rows.start, rows.stop))
        return np.unique(self.column[first:last]).astype(np.intp)

    def dense_part(self, rows: Indices, columns: Indices) -> npt.NDArray[Any]:
        """Some rows, which may occur twice, and columns, in this order, as a matrix; refused if it is too large."""
        distinct, place = np.unique(rows, return_inverse=True)
        return np.asarray(self.part(distinct, columns))[place]

    def shared_part(self) -> tuple[Indices, Indices]:
        """Rows and columns in which subjects can be compared: every item has two subjects and every subject two items.

        Leaving out a subject may leave an item with one other, and so on. The few that are left after some rounds do no
        harm.
        """
        row, column = self.nonzero()
        for _ in range(ROUNDS):
            shared = np.bincount(column, minlength=self.shape[1])[column] >= 2
            row, column = row[shared], column[shared]
            several = np.bincount(row, minlength=self.shape[0])[row] >= 2
            row, column = row[several], column[several]
            if shared.all() and several.all():
                break
        return np.unique(row), np.unique(column)

    def means_of_columns(self, rows: Indices) -> npt.NDArray[np.float64]:
        """The mean of every column over the filled cells of some rows; NaN where there is none."""
        inside = np.isin(self.row, rows) & ~np.isnan(self.values.astype(np.float64))
        column = self.column[inside]
        number = np.bincount(column, minlength=self.shape[1])
        total = np.bincount(column, self.values[inside].astype(np.float64), self.shape[1])
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)

    def filled(self) -> npt.NDArray[Any]:
        """The matrix itself."""
        matrix = np.full(self.shape, self.empty, dtype=self.dtype)
        matrix[self.row, self.column] = self.values
        return matrix

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The matrix itself, if it is small enough for whatever needs it."""
        if self.size > ALWAYS_DENSE:
            raise InputError(self.explain_size())
        return self.filled().astype(dtype or self.dtype, copy=False)

    def explain_size(self) -> str:
        """Why a question that needs the matrix has no answer here."""
        subjects, items = self.shape
        return (
            f"{self.name}: {subjects:,} subjects and {items:,} items have only {len(self.values):,} answers in common; "
            "this compares subjects on the same items. Keep a test set or subjects that share items"
        )

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with the matrix itself."""
        arrays = [np.asarray(one) if isinstance(one, SparseMatrix) else one for one in inputs]
        return getattr(function, method)(*arrays, **options)

    def __getitem__(self, key: Any) -> Any:
        """A part of the matrix: rows and columns that ``np.ix_`` chose from the cells, others from the whole."""
        if isinstance(key, tuple) and len(key) == 2 and np.shape(key[0])[1:] == (1,) and np.shape(key[1])[:1] == (1,):
            return self.dense_part(key[0].ravel(), key[1].ravel())
        return np.asarray(self)[key]

    def __getattr__(self, name: str) -> Any:
        """Whatever else an array has, such as ``sum``, of the matrix itself.

        Names with an underscore are how Python and numpy ask what an object can do; they get a plain no.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def _places_among(chosen: Indices, size: int) -> npt.NDArray[np.int32]:
    """For every row or column of a matrix its place among those that were chosen, or -1."""
    places = np.full(size, -1, dtype=np.int32)
    places[chosen] = np.arange(len(chosen), dtype=np.int32)
    return places

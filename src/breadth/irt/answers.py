"""The response matrix as the fits need it: compact in memory, and its products with vectors and tables in blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from breadth.errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
T = TypeVar("T")
Cells = NDArray[np.uint8] | NDArray[np.float32]

#: Cells turned into floating point at once: 4 MB in single precision, which stays in the processor's cache.
BLOCK_CELLS = 1_000_000

#: Parts into which the subjects of a large matrix are split, for as many threads as there are processors.
PARTS = 4

#: Up to this many cells a floating-point copy is kept.
SMALL_CELLS = 2_000_000

#: Up to this many cells everything is in double precision.
DOUBLE_CELLS = 10_000_000


@dataclass(frozen=True, eq=False)
class Answers:
    """Which subject answered which item right: subjects in rows, items in columns.

    ``right`` holds 1 for a right answer, 0 for a wrong or missing one (a share in between if ``fractional``);
    ``seen`` is 1 where there is an answer, or None if there is one everywhere. ``weights`` count a subject more or
    less than once, for example one over the number of its near-copies. Sums are unweighted unless their name says
    otherwise.

    Products of large matrices run in single precision unless ``precise``. What is multiplied is centred first, and the
    mean's part is added exactly from the row and column sums, so that rounding moves no estimate by more than a
    thousandth of its standard error.
    """

    right: Cells
    seen: NDArray[np.uint8] | None
    weights: Floats
    fractional: bool
    subject_sums: Floats = field(repr=False)
    subject_counts: Floats = field(repr=False)
    item_sums: Floats = field(repr=False)
    item_counts: Floats = field(repr=False)
    precise: bool = False

    @classmethod
    def of(cls, matrix: NDArray[Any], weights: Floats | None = None) -> Answers:
        """Read a matrix of subjects x items: integers with -1 for missing, booleans, or shares with NaN for missing.

        >>> Answers.of(np.array([[1, 0, -1], [1, 1, 0]], dtype=np.int8)).item_counts.tolist()
        [2.0, 2.0, 1.0]
        """
        if matrix.ndim != 2:
            raise InputError(f"Answers must be a matrix of subjects x items, not an array of {matrix.ndim} dimensions.")
        if matrix.size == 0:
            raise InputError(f"The answers are empty: {matrix.shape[0]} subjects and {matrix.shape[1]} items.")
        right, seen, fractional = _read(matrix)
        if seen is not None and bool(seen.all()):
            seen = None
        return cls._counted(right, seen, _checked_weights(weights, matrix.shape[0]), fractional)

    @classmethod
    def _counted(cls, right: Cells, seen: NDArray[np.uint8] | None, weights: Floats, fractional: bool) -> Answers:
        n, j = right.shape
        empty = np.zeros(0)
        blank = cls(right, seen, weights, fractional, empty, empty, empty, empty)
        rows, columns = blank._margins(right)
        seen_rows, seen_columns = (np.full(n, float(j)), np.full(j, float(n))) if seen is None else blank._margins(seen)
        return replace(blank, subject_sums=rows, item_sums=columns, subject_counts=seen_rows, item_counts=seen_columns)

    @property
    def n_subjects(self) -> int:
        """Number of subjects (rows)."""
        return int(self.right.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items (columns)."""
        return int(self.right.shape[1])

    @property
    def complete(self) -> bool:
        """Whether every subject answered every item."""
        return self.seen is None

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        """Precision of the products: double unless the matrix is large."""
        return np.float64 if self.precise or self.right.size <= DOUBLE_CELLS else np.float32

    @cached_property
    def weighted_item_sums(self) -> Floats:
        """Right answers per item, every subject counted by its weight."""
        return self.right_totals(self.weights[:, None])[:, 0]

    @cached_property
    def weighted_item_counts(self) -> Floats:
        """Answers per item, every subject counted by its weight."""
        return self.seen_totals(self.weights[:, None])[:, 0]

    def precisely(self) -> Answers:
        """Return the same answers with products in double precision whatever their size."""
        return self if self.dtype is np.float64 else replace(self, precise=True)

    def with_mask(self) -> Answers:
        """Return the same answers with ``seen`` spelled out, so that the path for missing cells is taken."""
        return self if self.seen is not None else replace(self, seen=np.ones(self.right.shape, dtype=np.uint8))

    def with_weights(self, weights: Floats) -> Answers:
        """Return the same answers with other weights of the subjects."""
        return replace(self, weights=_checked_weights(weights, self.n_subjects))

    def part(self, subjects: Bools, items: Bools) -> Answers:
        """Keep some subjects and items; nothing is copied if that is all of them."""
        if bool(subjects.all()) and bool(items.all()):
            return self
        right = self.right[subjects][:, items]
        seen = None if self.seen is None else self.seen[subjects][:, items]
        if seen is not None and bool(seen.all()):
            seen = None
        return self._counted(right, seen, self.weights[subjects], self.fractional)

    def right_sums(self, per_item: Floats) -> Floats:
        """Sum a table [items, c] over the items that each subject got right: [subjects, c]."""
        return self._sums(self.right, per_item, self.subject_sums)

    def seen_sums(self, per_item: Floats) -> Floats:
        """Sum a table [items, c] over the items that each subject answered: [subjects, c]."""
        if self.seen is None:
            return np.broadcast_to(per_item.sum(axis=0), (self.n_subjects, per_item.shape[1])).copy()
        return self._sums(self.seen, per_item, self.subject_counts)

    def right_totals(self, per_subject: Floats) -> Floats:
        """Sum a table [subjects, c] over the subjects that got each item right: [items, c]."""
        return self._totals(self.right, per_subject, self.item_sums)

    def seen_totals(self, per_subject: Floats) -> Floats:
        """Sum a table [subjects, c] over the subjects that answered each item: [items, c]."""
        if self.seen is None:
            return np.broadcast_to(per_subject.sum(axis=0), (self.n_items, per_subject.shape[1])).copy()
        return self._totals(self.seen, per_subject, self.item_counts)

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any] | None]]:
        """Walk over blocks of subjects: their rows, right answers and mask, in floating point."""
        seen = self._as_floats(self.seen) if self.seen is not None else None
        for rows, right in self._as_floats(self.right):
            yield rows, right, None if seen is None else next(seen)[1]

    def _sums(self, cells: Cells, per_item: Floats, counts: Floats) -> Floats:
        mean = per_item.mean(axis=0)
        table = (per_item - mean).astype(self.dtype)
        out = np.empty((self.n_subjects, per_item.shape[1]))

        def fill(part: range) -> None:
            for rows, block in self._as_floats(cells, part):
                out[rows] = block @ table

        self._in_parts(fill)
        out += counts[:, None] * mean
        return out

    def _totals(self, cells: Cells, per_subject: Floats, counts: Floats) -> Floats:
        mean = per_subject.mean(axis=0)
        table = (per_subject - mean).astype(self.dtype).T.copy()

        def total(part: range) -> Floats:
            out = np.zeros((per_subject.shape[1], self.n_items))
            for rows, block in self._as_floats(cells, part):
                out += table[:, rows] @ block
            return out

        totals: Floats = sum(self._in_parts(total)).T + counts[:, None] * mean  # type: ignore[union-attr]
        return totals

    def _in_parts(self, work: Callable[[range], T]) -> list[T]:
        """Split the subjects between threads, into the same parts on every machine, so that sums are the same."""
        n = self.n_subjects
        if self.right.size <= SMALL_CELLS:
            return [work(range(n))]
        step = -(-n // PARTS)
        with ThreadPoolExecutor(min(PARTS, os.cpu_count() or 1)) as pool:
            return list(pool.map(work, [range(start, min(start + step, n)) for start in range(0, n, step)]))

    def _margins(self, cells: Cells) -> tuple[Floats, Floats]:
        rows, columns = np.empty(cells.shape[0]), np.zeros(cells.shape[1])
        for part, block in self._as_floats(cells):
            # Sums of at most a million ones and zeros are exact in single precision.
            rows[part] = block @ np.ones(cells.shape[1], dtype=self.dtype)
            columns += np.ones(block.shape[0], dtype=self.dtype) @ block
        return rows, columns

    def _as_floats(self, cells: Cells, part: range | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
        n, j = cells.shape
        if n * j <= SMALL_CELLS:
            yield slice(0, n), self._small[cells is self.seen]
            return
        part = range(n) if part is None else part
        step = max(1, BLOCK_CELLS // j)
        buffer = np.empty((min(step, len(part)), j), dtype=self.dtype)
        for start in range(part.start, part.stop, step):
            block = buffer[: min(step, part.stop - start)]
            np.copyto(block, cells[start : start + len(block)])
            yield slice(start, start + len(block)), block

    @cached_property
    def _small(self) -> tuple[NDArray[Any], NDArray[Any]]:
        right = self.right.astype(np.float64)
        return right, right if self.seen is None else self.seen.astype(np.float64)


def _read(matrix: NDArray[Any]) -> tuple[Cells, NDArray[np.uint8] | None, bool]:
    """Split a matrix into right answers, mask, and whether answers are shares."""
    if matrix.dtype == np.bool_:
        return np.ascontiguousarray(matrix).view(np.uint8), None, False
    if matrix.dtype.kind in "iu":
        least, most = int(matrix.min()), int(matrix.max())
        if least < -1 or most > 1:
            raise InputError(
                f"Answers must be 1 (right), 0 (wrong) or -1 (missing), but they range from {least} to {most}."
            )
        right = np.ascontiguousarray(matrix).view(np.uint8) if matrix.dtype.itemsize == 1 else matrix.astype(np.uint8)
        return (right, None, False) if least >= 0 else (right & (right < 2), (matrix >= 0).view(np.uint8), False)
    if matrix.dtype.kind != "f":
        raise InputError(f"Answers must be numbers, not {matrix.dtype}.")
    missing = np.isnan(matrix)
    filled = np.where(missing, 0, matrix)
    low, high = float(filled.min()), float(filled.max())
    if low < 0 or high > 1:
        raise InputError(f"Answers must lie between 0 and 1 (NaN: missing), but they range from {low:g} to {high:g}.")
    seen = (~missing).view(np.uint8) if bool(missing.any()) else None
    whole = bool(((filled == 0) | (filled == 1)).all())
    return (filled.astype(np.uint8) if whole else filled.astype(np.float32)), seen, not whole


def _checked_weights(weights: Floats | None, n: int) -> Floats:
    if weights is None:
        return np.ones(n)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (n,):
        raise InputError(f"There are {n} subjects but {checked.size} weights.")
    if not (np.isfinite(checked) & (checked >= 0)).all():
        raise InputError("Weights of subjects must be finite and not negative.")
    return checked

"""The response matrix as the fits need it: compact in memory, and its products with vectors and tables in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breadth.errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
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

    Products are computed in ``dtype``: double precision, but single for large matrices. What is multiplied is centred
    first, and the mean's part is added exactly from the row and column sums, so that rounding moves no estimate by more
    than a thousandth of its standard error. ``floats`` are small matrices of answers and mask in floating point.
    """

    right: Cells
    seen: NDArray[np.uint8] | None
    weights: Floats
    fractional: bool
    n_subjects: int
    n_items: int
    complete: bool
    dtype: type[np.float32] | type[np.float64]
    floats: tuple[NDArray[Any], ...] | None = field(repr=False)
    subject_sums: Floats = field(repr=False)
    subject_counts: Floats = field(repr=False)
    item_sums: Floats = field(repr=False)
    item_counts: Floats = field(repr=False)

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
        dtype = np.float64 if right.size <= DOUBLE_CELLS else np.float32
        floats = None
        if right.size <= SMALL_CELLS:
            floats = tuple(cells.astype(np.float64) for cells in (right, seen) if cells is not None)
        # Sums and counts per subject, then per item; those of a mask are filled in only where there is one.
        sums = np.zeros(n), np.full(n, float(j)), np.zeros(j), np.full(j, float(n))
        answers = cls(right, seen, weights, fractional, n, j, seen is None, dtype, floats, *sums)
        for cells, rows, columns in ((right, sums[0], sums[2]), (seen, sums[1], sums[3])):
            if cells is None:
                continue
            columns[:] = 0
            for part, block in answers._as_floats(cells):
                # Sums of at most a million ones and zeros are exact in single precision.
                rows[part] = block @ np.ones(j, dtype=dtype)
                columns[:] += np.ones(block.shape[0], dtype=dtype) @ block
        return answers

    @cached_property
    def weighted_item_sums(self) -> Floats:
        """Right answers per item, every subject counted by its weight."""
        return self.right_sums(self.weights[:, None], axis=0)[:, 0]

    def with_mask(self) -> Answers:
        """Return the same answers with ``seen`` spelled out, so that the path for missing cells is taken."""
        seen = np.ones(self.right.shape, dtype=np.uint8) if self.seen is None else self.seen
        return self._counted(self.right, seen, self.weights, self.fractional)

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

    def right_sums(self, table: Floats, axis: int = 1) -> Floats:
        """Sum a table over right answers.

        A table [items, c] over the items that each subject got right (``axis`` 1): [subjects, c]. Or a table
        [subjects, c] over the subjects that got each item right (``axis`` 0): [items, c].
        """
        return self._sums(self.right, table, self.subject_sums if axis else self.item_sums, axis)

    def seen_sums(self, table: Floats, axis: int = 1) -> Floats:
        """Sum a table over all answers, in the same way as :meth:`right_sums`."""
        if self.seen is None:
            return np.broadcast_to(table.sum(axis=0), (self.right.shape[1 - axis], table.shape[1])).copy()
        return self._sums(self.seen, table, self.subject_counts if axis else self.item_counts, axis)

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any] | None]]:
        """Walk over blocks of subjects: their rows, right answers and mask, in floating point."""
        seen = self._as_floats(self.seen) if self.seen is not None else None
        for rows, right in self._as_floats(self.right):
            yield rows, right, None if seen is None else next(seen)[1]

    def _sums(self, cells: Cells, table: Floats, counts: Floats, axis: int) -> Floats:
        """Multiply in threads, with the subjects in the same parts on every machine, so that sums are the same."""
        n, mean = self.n_subjects, table.mean(axis=0)
        centred = (table - mean).astype(self.dtype)
        centred = centred if axis else centred.T.copy()

        def product(part: range) -> Floats:
            if axis:
                return np.concatenate([block @ centred for _, block in self._as_floats(cells, part)])
            total = np.zeros((table.shape[1], self.n_items))
            for rows, block in self._as_floats(cells, part):
                total += centred[:, rows] @ block
            return total

        if self.floats is not None:
            parts = [product(range(n))]
        else:
            step = -(-n // PARTS)
            with ThreadPoolExecutor(min(PARTS, os.cpu_count() or 1)) as pool:
                parts = list(pool.map(product, [range(start, min(start + step, n)) for start in range(0, n, step)]))
        sums: Floats = (np.concatenate(parts) if axis else np.sum(parts, axis=0).T) + counts[:, None] * mean
        return sums

    def _as_floats(self, cells: Cells, part: range | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
        n, j = cells.shape
        if self.floats is not None:
            yield slice(0, n), self.floats[cells is self.seen]
            return
        part = range(n) if part is None else part
        step = max(1, BLOCK_CELLS // j)
        buffer = np.empty((min(step, len(part)), j), dtype=self.dtype)
        for start in range(part.start, part.stop, step):
            block = buffer[: min(step, part.stop - start)]
            np.copyto(block, cells[start : start + len(block)])
            yield slice(start, start + len(block)), block


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

"""The response matrix as the fits need it: compact in memory, and its products with vectors and tables in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
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
    weighted_item_sums: Floats = field(repr=False)

    @classmethod
    def of(cls, matrix: NDArray[Any], weights: Floats | None = None) -> Answers:
        """Read a matrix of subjects x items: integers with -1 for missing, booleans, or shares with NaN for missing.

        >>> Answers.of(np.array([[1, 0, -1], [1, 1, 0]], dtype=np.int8)).item_counts.tolist()
        [2.0, 2.0, 1.0]
        """
        matrix = np.asarray(matrix)  # of sparse answers the matrix itself, if it is small enough
        if matrix.ndim != 2:
            raise InputError(f"Answers must be a matrix of subjects x items, not an array of {matrix.ndim} dimensions.")
        if matrix.size == 0:
            raise InputError(f"The answers are empty: {matrix.shape[0]} subjects and {matrix.shape[1]} items.")
        right: Cells
        seen, whole = None, True
        if matrix.dtype.kind in "biu":
            least, most = int(matrix.min()), int(matrix.max())
            if least < -1 or most > 1:
                raise InputError(
                    f"Answers must be 1 (right), 0 (wrong) or -1 (missing), but they range from {least} to {most}."
                )
            in_bytes = matrix.dtype.itemsize == 1
            right = np.ascontiguousarray(matrix).view(np.uint8) if in_bytes else matrix.astype(np.uint8)
            if least < 0:
                right, seen = right & (right < 2), (matrix >= 0).view(np.uint8)
        elif matrix.dtype.kind == "f":
            missing = np.isnan(matrix)
            filled = np.where(missing, 0, matrix)
            low, high = float(filled.min()), float(filled.max())
            if low < 0 or high > 1:
                raise InputError(
                    f"Answers must lie between 0 and 1 (NaN: missing), but they range from {low:g} to {high:g}."
                )
            whole = bool(((filled == 0) | (filled == 1)).all())
            right = filled.astype(np.uint8) if whole else filled.astype(np.float32)
            seen = (~missing).view(np.uint8)
        else:
            raise InputError(f"Answers must be numbers, not {matrix.dtype}.")
        answers = cls._counted(right, seen, not whole)
        return answers if weights is None else answers.with_weights(weights)

    @classmethod
    def _counted(cls, right: Cells, seen: NDArray[np.uint8] | None, fractional: bool) -> Answers:
        """Answers of subjects that count once, with their sums; a mask without gaps is dropped."""
        n, j = right.shape
        seen = None if seen is not None and bool(seen.all()) else seen
        dtype = np.float64 if right.size <= DOUBLE_CELLS else np.float32
        floats = None
        if right.size <= SMALL_CELLS:
            floats = tuple(cells.astype(np.float64) for cells in (right, seen) if cells is not None)
        # Sums and counts per subject, then per item; those of a mask are filled in only where there is one.
        sums = np.zeros(n), np.full(n, float(j)), np.zeros(j), np.full(j, float(n))
        answers = cls(right, seen, np.ones(n), fractional, n, j, seen is None, dtype, floats, *sums, sums[2])
        for cells, rows, columns in ((right, sums[0], sums[2]), (seen, sums[1], sums[3])):
            if cells is None:
                continue
            columns[:] = 0
            for part, block in answers.blocks(cells):
                # Sums of at most a million ones and zeros are exact in single precision.
                rows[part] = block @ np.ones(j, dtype=dtype)
                columns[:] += np.ones(block.shape[0], dtype=dtype) @ block
        return answers

    def with_mask(self) -> Answers:
        """Return the same answers with ``seen`` spelled out, so that the path for missing cells is taken."""
        if self.seen is not None:
            return self
        seen = np.ones(self.right.shape, dtype=np.uint8)
        floats = None if self.floats is None else (*self.floats, seen.astype(np.float64))
        return replace(self, seen=seen, complete=False, floats=floats)

    def with_weights(self, weights: Floats) -> Answers:
        """Return the same answers with other weights of the subjects."""
        checked = np.asarray(weights, dtype=np.float64)
        if checked.shape != (self.n_subjects,):
            raise InputError(f"There are {self.n_subjects} subjects but {checked.size} weights.")
        if not (np.isfinite(checked) & (checked >= 0)).all():
            raise InputError("Weights of subjects must be finite and not negative.")
        return replace(self, weights=checked, weighted_item_sums=self.sums(checked[:, None], axis=0)[:, 0])

    def part(self, subjects: Bools, items: Bools) -> Answers:
        """Keep some subjects and items; nothing is copied if that is all of them."""
        if bool(subjects.all()) and bool(items.all()):
            return self
        seen = None if self.seen is None else self.seen[subjects][:, items]
        part = self._counted(self.right[subjects][:, items], seen, self.fractional)
        weights = self.weights[subjects]
        return part if (weights == 1).all() else part.with_weights(weights)

    def sums(self, table: Floats, axis: int = 1, seen: bool = False) -> Floats:
        """Sum a table over right answers, or over all answers that were ``seen``.

        A table [items, c] over the items that each subject got right (``axis`` 1): [subjects, c]. Or a table
        [subjects, c] over the subjects that got each item right (``axis`` 0): [items, c]. Large matrices are multiplied
        in threads, with the subjects in the same parts on every machine, so that sums are the same.
        """
        if seen and self.seen is None:
            return np.broadcast_to(table.sum(axis=0), (self.right.shape[1 - axis], table.shape[1])).copy()
        cells = self.right if self.seen is None or not seen else self.seen
        margins = (self.item_counts, self.subject_counts) if seen else (self.item_sums, self.subject_sums)
        mean = table.mean(axis=0)
        centred = (table - mean).astype(self.dtype)
        centred = centred if axis else centred.T.copy()
        if self.floats is not None:
            block = self.floats[seen]
            product = block @ centred if axis else (centred @ block).T
        else:
            step = -(-self.n_subjects // PARTS)
            parts = [range(start, min(start + step, self.n_subjects)) for start in range(0, self.n_subjects, step)]
            with ThreadPoolExecutor(min(PARTS, os.cpu_count() or 1)) as pool:
                products = list(pool.map(partial(self._product, cells, centred, axis), parts))
            product = np.concatenate(products) if axis else np.sum(products, axis=0).T
        sums: Floats = product + margins[axis][:, None] * mean
        return sums

    def _product(self, cells: Cells, table: NDArray[Any], axis: int, part: range) -> NDArray[Any]:
        if axis:
            return np.concatenate([block @ table for _, block in self.blocks(cells, part)])
        total = np.zeros((len(table), self.n_items))
        for rows, block in self.blocks(cells, part):
            total += table[:, rows] @ block
        return total

    def blocks(self, cells: Cells, part: range | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Walk over blocks of subjects: their rows, and right answers or mask (``cells``) in floating point."""
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

"""Split halves: how much a score owes to which items happened to be in the test set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.records.tables import Table


@dataclass(frozen=True)
class Halves:
    """For every subject, test set and random split of its items: half the difference of the two halves."""

    frame: pl.DataFrame
    keys: list[str]
    splits: int

    def aligned(self, rows: pl.DataFrame, testsets: tuple[str, ...]) -> npt.NDArray[np.float64]:
        """Return an array [row, test set, split], in the order of ``rows``; NaN where a half is empty."""
        out = np.full((rows.height, len(testsets), self.splits), np.nan)
        names = [f"split{k}" for k in range(self.splits)]
        index = rows.select(self.keys).with_row_index("__row")
        for j, testset in enumerate(testsets):
            part = self.frame.filter(pl.col("testset") == testset)
            joined = index.join(part, on=self.keys, how="left", nulls_equal=True) if self.keys else part
            out[:, j, :] = joined.sort("__row").select(names).to_numpy() if self.keys else part.select(names)
        return out


def half_differences(table: Table, keys: list[str], *, splits: int, seed: int) -> Halves:
    """Split the items of every test set at random, ``splits`` times over, and score both halves.

    The same items form the same half for every subject, so the difference between halves shows how far
    the subject's score would move if the test set had held other items of the same kind.
    """
    items = table.frame.select("testset", "item").unique(maintain_order=True).sort("testset", "item")
    sides = item_sides(items, splits, seed)
    # Numbers in place of names, and sums by counting: with millions of answers, filters per split take seconds.
    scored = [*keys, "testset"]
    answers = table.frame.select(*scored, "item").with_columns(table.numbers("correct").alias("correct"))
    subjects = answers.select(scored).unique(maintain_order=True)
    answers = answers.drop_nulls(["correct", "testset", "item"])
    who = answers.join(subjects.with_row_index("__who"), on=scored, how="left", nulls_equal=True, maintain_order="left")
    what = answers.join(items.with_row_index("__what"), on=["testset", "item"], how="left", maintain_order="left")
    group, item = who["__who"].to_numpy(), what["__what"].to_numpy()
    correct = answers["correct"].to_numpy()
    count, total = (np.bincount(group, weights, subjects.height) for weights in (None, correct))
    columns = []
    for k in range(splits):
        side = sides[item, k].astype(np.float64)
        here, right = (np.bincount(group, weights, subjects.height) for weights in (side, side * correct))
        with np.errstate(invalid="ignore", divide="ignore"):
            difference = (right / here - (total - right) / (count - here)) / 2
        columns.append(pl.Series(f"split{k}", difference, nan_to_null=True))
    frame = subjects.with_columns(pl.col("testset").cast(pl.String), *columns)
    return Halves(frame, keys, splits)


def item_sides(items: pl.DataFrame, splits: int, seed: int) -> npt.NDArray[np.bool_]:
    """Which half every item falls into [items, splits]; ``items`` has ``testset, item`` and is sorted by them."""
    generator = np.random.default_rng(seed)
    sides = np.empty((items.height, splits), dtype=bool)
    start = 0
    for size in items.group_by("testset", maintain_order=True).len()["len"]:
        balanced = np.arange(size) < size / 2
        sides[start : start + size] = np.stack([generator.permutation(balanced) for _ in range(splits)], axis=1)
        start += size
    return sides

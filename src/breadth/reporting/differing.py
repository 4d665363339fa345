"""Which items one of two models gets and the other does not: by test set and level, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from breadth.comparison import Comparison
from breadth.records import UNNAMED
from breadth.reporting.data import ReportData

#: Test sets that the page opens, levels of each, and items that it lists on each side.
MOST_SETS, MOST_LEVELS, MOST_LISTED = 12, 10, 5

#: Characters of an item's text on the page; the panel has all of it.
MOST_WORDS = 240


@dataclass(frozen=True)
class Side:
    """What one of the two gets and the other does not: how many items, the first of them, and filters of the panel."""

    number: int
    items: Sequence[dict[str, Any]]
    panel: dict[str, str] | None


@dataclass(frozen=True)
class Part:
    """A test set, or a level of it, with both sides; ``parts`` are its levels."""

    name: str
    first: Side
    second: Side
    parts: Sequence[Part] = ()

    @property
    def title(self) -> str:
        """What the page calls it."""
        return "all items" if self.name == UNNAMED else self.name


@dataclass(frozen=True)
class Differing:
    """Test sets on which two models differ, those with the most such items first."""

    first: str
    second: str
    parts: Sequence[Part]
    left_out: int


def differing_table(data: ReportData, compared: Comparison) -> pl.DataFrame:
    """Items that one of two models gets right and the other does not: ``testset, level, item, right`` (by whom).

    A model with several runs gets an item if at least half of them do. Levels are those of the report's items.
    """
    first, second = compared.cells.row(0)[:2]
    level = data.study.items.select("testset", "item").with_columns(data.levels.alias("level"))
    one, two = pl.col("right_first") >= 0.5, pl.col("right_second") >= 0.5
    frame = compared.items.filter(one != two).drop("level").join(level, on=["testset", "item"], how="left")
    right = pl.when(one).then(pl.lit(first)).otherwise(pl.lit(second)).alias("right")
    return frame.select("testset", "level", "item", right).sort("testset", "level", maintain_order=True)


def differing_items(data: ReportData, compared: Comparison) -> Differing:
    """What the page shows of the table ``differing``: test sets, levels, and the first items on both sides."""
    first, second = compared.cells.row(0)[:2]
    frame = data.table("differing")
    texts = data.table("items")
    words = pl.col("text") if "text" in texts.columns else pl.lit(None, dtype=pl.String).alias("text")
    if texts.height:
        known = texts.select("testset", "item", words.str.head(MOST_WORDS))
        frame = frame.join(known, on=["testset", "item"], how="left", maintain_order="left")
    linked = {first, second} <= set(data.models)
    sets = frame.group_by("testset", maintain_order=True).len().sort("len", descending=True, maintain_order=True)

    def part(name: str, rows: pl.DataFrame, filters: dict[str, str]) -> Part:
        def side(who: str, cell: str) -> Side:
            own = rows.filter(pl.col("right") == who)
            panel = {"panel": "items", "one": first, "two": second, "cell": cell, **filters}
            return Side(own.height, own.head(MOST_LISTED).to_dicts(), panel if linked else None)

        return Part(name, side(first, "right-wrong"), side(second, "wrong-right"))

    parts = []
    for testset in sets["testset"].head(MOST_SETS):
        rows = frame.filter(testset=testset)
        whole = part(testset, rows, {"testset": testset})
        levels = rows["level"].drop_nulls().unique().sort().head(MOST_LEVELS)
        inner = [
            part(f"level {level}", rows.filter(level=level), {"testset": testset, "level": str(level)})
            for level in (levels if levels.len() > 1 else ())
        ]
        parts.append(Part(whole.name, whole.first, whole.second, inner))
    return Differing(first, second, parts, max(0, sets.height - MOST_SETS))

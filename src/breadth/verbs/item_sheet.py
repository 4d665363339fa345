"""Every item with its text, its difficulty, who fails it, and whether its label should be looked at."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.records import StudyMatrix
from breadth.verbs.calibration import Calibration
from breadth.verbs.standing import ends

Floats = npt.NDArray[np.float64]

#: Columns of items that are not texts to show.
NOT_TEXT = ("item", "testset", "shift", "label", "template", "pair", "id", "answer", "source", "split")

#: Most items that a page carries; beyond that a sample, with every flagged item in it.
MOST_ITEMS = 20_000

#: Characters of an item's text that a page carries.
MOST_CHARACTERS = 600

#: An item is doubted when this share of the runs end with a wrong answer ...
MOSTLY_WRONG = 0.8

#: ... by more than this, on average: log-odds of 2 are odds of 7 to 1 against the given label.
SURE_MARGIN = -2.0


def item_sheet(study: StudyMatrix, calibration: Calibration | None) -> pl.DataFrame:
    """One row per item; ``right_<model>`` is the share of the model's runs that end with a right answer.

    ``doubt`` says why a label is doubted, and is null otherwise.
    """
    items = study.items
    last = ends(study)
    rows = last["last"].to_numpy()
    texts = [name for name in items.columns if items[name].dtype == pl.String and name not in NOT_TEXT]
    given = [name for name in ("shift", "label") if name in items.columns]
    sheet = items.select("item", "testset", *(pl.col(name).cast(pl.String) for name in given)).with_columns(
        text=_text(items, texts)
    )
    if calibration is not None:
        names = pl.DataFrame({"item": study.item_names})
        wanted = ["n", "p_correct", "difficulty", "difficulty_se", "level", "note"]
        known = names.join(calibration.items.select("item", *wanted), on="item", how="left", maintain_order="left")
        sheet = sheet.with_columns(known.select(wanted))
    if "level" in items.columns and items["level"].dtype.is_numeric() and items["level"].is_not_null().any():
        sheet = sheet.with_columns(items["level"].cast(pl.Int64, strict=False).alias("level"))
    right = {
        f"right_{model}": _mean(study.correct[group["last"].to_numpy()])
        for (model,), group in last.group_by(["model"], maintain_order=True)
    }
    sheet = sheet.with_columns(
        pl.Series("right", _mean(study.correct[rows]), nan_to_null=True),
        pl.Series("margin", _mean(study.margin[rows]), nan_to_null=True),
        *(pl.Series(name, values, nan_to_null=True) for name, values in right.items()),
    )
    return sheet.with_columns(_doubt(study, sheet, len(rows)))


def shown_items(sheet: pl.DataFrame, most: int = MOST_ITEMS, seed: int = 0) -> pl.DataFrame:
    """The whole sheet if it is small; else every doubted item and a random sample of the rest, in order."""
    if sheet.height <= most:
        return sheet
    numbered = sheet.with_row_index("__row")
    doubted = numbered.filter(pl.col("doubt").is_not_null()).head(most)
    rest = numbered.filter(pl.col("doubt").is_null())
    drawn = rest.sample(min(rest.height, most - doubted.height), seed=seed)
    return pl.concat([doubted, drawn]).sort("__row").drop("__row")


def _text(items: pl.DataFrame, names: list[str]) -> pl.Series:
    """The text fields below each other, each after its name where there are several."""
    if not names:
        return pl.Series("text", [None] * items.height, dtype=pl.String)
    parts = [pl.format("{}: {}", pl.lit(name), pl.col(name)) if len(names) > 1 else pl.col(name) for name in names]
    joined = pl.concat_str(parts, separator="\n", ignore_nulls=True)
    cut = joined.str.len_chars() > MOST_CHARACTERS
    return items.select(
        pl.when(cut).then(joined.str.head(MOST_CHARACTERS) + " …").otherwise(joined).alias("text")
    ).to_series()


def _mean(values: npt.NDArray[np.float32]) -> Floats:
    seen = ~np.isnan(values)
    count = seen.sum(axis=0)
    total = np.where(seen, values, 0).sum(axis=0, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _doubt(study: StudyMatrix, sheet: pl.DataFrame, runs: int) -> pl.Series:
    """Why a label is doubted.

    Two signs: the calibration says that able subjects get the item wrong more often *and* so do those who are good at
    the item's own test set (a whole set that runs against the scale is a shift, not a set of wrong labels); or almost
    every run ends sure of another answer.
    """
    against = pl.lit(False)
    if "note" in sheet.columns:
        backwards = pl.Series(item_rest(study) < 0)
        against = pl.col("note").str.contains("key may be wrong").fill_null(False) & backwards
    sure = (pl.col("right") <= 1 - MOSTLY_WRONG) & (pl.col("margin") < SURE_MARGIN) & pl.lit(runs >= 3)
    return sheet.select(
        pl.when(against)
        .then(pl.lit("able subjects get it wrong more often"))
        .when(sure)
        .then(pl.lit("almost every run ends sure of another answer"))
        .otherwise(None)
        .alias("doubt")
    ).to_series()


def item_rest(study: StudyMatrix) -> Floats:
    """Correlation over subjects of every item with the accuracy on the rest of its test set; NaN if constant."""
    out = np.full(study.items.height, np.nan)
    for k in range(len(study.testsets)):
        columns = np.flatnonzero(study.set_index == k)
        values = study.correct[:, columns]
        rows = ~np.isnan(values).any(axis=1)
        if rows.sum() < 3 or len(columns) < 2:
            continue
        x = values[rows].astype(np.float64)
        total = x.sum(axis=1)
        centred, whole = x - x.mean(axis=0), total - total.mean()
        own = (centred**2).sum(axis=0)
        rest = (whole**2).sum() - 2 * whole @ centred + own
        with np.errstate(invalid="ignore", divide="ignore"):
            out[columns] = (whole @ centred - own) / np.sqrt(own * rest)
    return out

"""What ``advise testsets`` says, and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.results import Answer, Verdict
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import count, joined

if TYPE_CHECKING:
    from breadth.advice.testsets import PredictionAdvice


def prediction_verdict(result: PredictionAdvice) -> Verdict:
    """Can test sets be dropped? Yes: some are enough to predict the others within the error."""
    last = result.steps.row(len(result.chosen) - 1, named=True)
    sets = result.steps.height + 1
    if result.reached:
        verb = "predicts" if len(result.chosen) == 1 else "predict"
        reason = f"{joined(result.chosen)} {verb} the other {sets - len(result.chosen)} of {sets} test sets within"
        worst = f"Worst: {last['worst_testset']}, {last['worst']:.1f} points."
        return Verdict(Answer.YES, f"{reason} {last['rmse']:.1f} points (root mean square).", worst)
    best = result.steps.sort("rmse").row(0, named=True)
    reason = (
        f"no choice predicts the others within {result.error:g} points; the best, {count(best['n'], 'test set')}, errs "
        f"by {best['rmse']:.1f}."
    )
    return Verdict(Answer.NO, reason, "", "Evaluate on all test sets, or accept a larger --error.")


def prediction_details(result: PredictionAdvice) -> str:
    """How errors were measured, and which models lie outside the range."""
    how = "later models predicted from earlier ones" if result.dated else "models that were held out, at random"
    parts = [f"Errors are those of {how}, out of {count(result.n_models, 'model')} with all test sets."]
    missing, out = result.predictions, result.predictions.filter(~pl.col("in_range"))
    if missing.height:
        inside = missing.height - out.height
        parts.append(
            f"Of {count(missing.height, 'missing score')}, {inside:,} {'is' if inside == 1 else 'are'} predicted."
        )
        if out.height:
            parts.append(
                f"Those of {count(out['model'].n_unique(), 'model')} lie outside the range of the others and are "
                f"refused; evaluate {joined(result.evaluate, 10)} in full to get back inside."
            )
    return " ".join(parts)


def steps_table(result: PredictionAdvice, width: int = WIDTH) -> Table:
    """Test sets in the order in which they are added; those that are enough are marked."""
    table = make_table(
        "Error in points of predicting the others", ["add", "worst"], ["sets", "RMSE", "its RMSE"], width
    )
    for row in result.steps.iter_rows(named=True):
        enough = result.reached and row["n"] <= len(result.chosen)
        name = Text(row["testset"], style="bold" if enough else "")
        table.add_row(name, Text(row["worst_testset"]), str(row["n"]), f"{row['rmse']:.1f}", f"{row['worst']:.1f}")
    return table


def predictions_table(predictions: pl.DataFrame, width: int = WIDTH) -> Table:
    """Predicted scores with their intervals; a dash where a model lies outside the range."""
    title = "Predicted scores"
    title += f": the first {MOST_ROWS} of {predictions.height}" if predictions.height > MOST_ROWS else ""
    table = make_table(title, ["model", "test set"], ["score", "interval"], width)
    shown = predictions.head(MOST_ROWS)
    for row in shown.iter_rows(named=True):
        score = "-" if row["score"] is None else f"{row['score']:.1f}"
        span = "out of range" if row["score"] is None else f"{row['ci_low']:.1f} to {row['ci_high']:.1f}"
        table.add_row(Text(row["model"]), Text(row["testset"]), score, span)
    return table

"""Turn the arrays of a correlation analysis into the tidy frames that users see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from breadth.stats import Heterogeneity, Note, Partial, Similarity, benjamini_hochberg, pair_indices
from breadth.stats.attenuation import LEAST_RELIABILITY

#: Columns of every frame of pairs, after those that name the group.
PAIR_COLUMNS = ("a", "b", "n", "n_eff", "r_raw", "r", "ci_low", "ci_high", "p", "q", "note")

#: Further columns when the correction for sampling noise was asked for.
CORRECTED_COLUMNS = ("r_corrected", "ci_low_corrected", "ci_high_corrected", "reliability_a", "reliability_b")


def pairs_frame(
    partial: Partial,
    labels: pl.DataFrame,
    facets: Sequence[str],
    controls: Sequence[str],
    needed: int,
    uncounted: Sequence[str],
) -> pl.DataFrame:
    """One row per group and pair; ``uncounted`` are the columns whose number of items is not known."""
    groups, pairs = partial.r.shape
    a, b = pair_indices(len(facets))
    names = pl.Series(facets, dtype=pl.String)
    columns = {
        **_repeated(labels, pairs),
        "a": names.gather(np.tile(a, groups)),
        "b": names.gather(np.tile(b, groups)),
        "n": partial.n.reshape(-1).astype(np.int64),
        "n_eff": _null(partial.n_eff),
        "r_raw": _null(partial.r_raw),
        "r": _null(partial.r),
        "ci_low": _null(partial.low),
        "ci_high": _null(partial.high),
        "p": _null(partial.p),
        "q": _null(benjamini_hochberg(partial.p.reshape(-1))),
        "note": pl.Series([None], dtype=pl.String).new_from_index(0, groups * pairs),
    }
    correction = partial.correction
    if correction is not None:
        columns |= dict(zip(CORRECTED_COLUMNS, map(_null, correction), strict=False))
    frame = pl.DataFrame(columns)
    code = pl.Series("code", partial.note.reshape(-1))
    frame = _noted(frame, code > 0, _reason(needed, controls), code)
    if correction is None:
        return frame
    undecided = frame["r_corrected"].is_null() & frame["r"].is_not_null() & frame["note"].is_null()
    control = pl.Series("code", correction.reliability_control.reshape(-1))
    return _noted(frame, undecided, _uncorrected(controls, uncounted), control)


def heterogeneity_frame(summary: Heterogeneity, facets: Sequence[str]) -> pl.DataFrame:
    """One row per pair: the random-effects summary over groups."""
    a, b = pair_indices(len(facets))
    names = pl.Series(facets, dtype=pl.String)
    return pl.DataFrame(
        {
            "a": names.gather(a),
            "b": names.gather(b),
            "k": summary.k.astype(np.int64),
            "r_mean": _null(summary.r_mean),
            "ci_low": _null(summary.low),
            "ci_high": _null(summary.high),
            "tau2": _null(summary.tau2),
            "i2": _null(summary.i2),
            "predict_low": _null(summary.predict_low),
            "predict_high": _null(summary.predict_high),
            "sign_agreement": _null(summary.sign_agreement),
            "p_differ": _null(summary.p),
        }
    )


def similarity_frame(result: Similarity, labels: pl.DataFrame) -> pl.DataFrame:
    """One row per two groups: how alike their correlation matrices are."""
    frame = pl.DataFrame(
        {
            **{f"{name}_1": labels[name].gather(result.first) for name in labels.columns},
            **{f"{name}_2": labels[name].gather(result.second) for name in labels.columns},
            "facets": result.facets.astype(np.int64),
            "similarity": _null(result.similarity),
            "difference": _null(result.difference),
            "p": _null(result.p),
        }
    )
    why = (
        pl.when(pl.col("similarity").is_null())
        .then(pl.format("{} test sets with correlations in both; 4 are needed", "facets"))
        .otherwise(None)
    )
    return frame.with_columns(why.alias("note"))


def _repeated(labels: pl.DataFrame, times: int) -> dict[str, pl.Series]:
    index = np.repeat(np.arange(labels.height), times)
    return {name: labels[name].gather(index) for name in labels.columns}


def _null(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> pl.Series:
    return pl.Series(values.reshape(-1), nan_to_null=True)


def _noted(frame: pl.DataFrame, flagged: pl.Series, reason: pl.Expr, code: pl.Series) -> pl.DataFrame:
    """Write notes, formatting text only for the rows that need it."""
    index = flagged.arg_true()
    if not index.len():
        return frame
    text = frame[index].with_columns(code.alias("code").gather(index)).select(reason).to_series()
    return frame.with_columns(frame["note"].scatter(index, text).alias("note"))


def _reason(needed: int, controls: Sequence[str]) -> pl.Expr:
    control = pl.lit(" or ".join(controls))
    texts = {
        Note.FEW_EFFECTIVE: pl.format("only {} effective rows: the interval says little", pl.col("n_eff").round(1)),
        Note.IDENTICAL: pl.lit("what is left of the two is identical up to scale: no interval"),
        Note.EXPLAINED_A: pl.format("{} is fully explained by {}", "a", control),
        Note.EXPLAINED_B: pl.format("{} is fully explained by {}", "b", control),
        Note.CONSTANT_A: pl.format("{} is constant", "a"),
        Note.CONSTANT_B: pl.format("{} is constant", "b"),
        Note.CONSTANT_CONTROL: pl.format("control {} is constant", control),
        Note.TOO_FEW: pl.format("{} complete rows; the regressor needs {}", "n", pl.lit(needed)),
    }
    chosen = pl.lit(None, dtype=pl.String)
    for code, text in texts.items():
        chosen = pl.when(pl.col("code") == int(code)).then(text).otherwise(chosen)
    return chosen


def _uncorrected(controls: Sequence[str], unknown: Sequence[str]) -> pl.Expr:
    text = pl.lit("not corrected: the correction leaves no valid correlation; reliability is too low to say")
    for side in ("b", "a"):
        low = pl.col(f"reliability_{side}") < LEAST_RELIABILITY
        weak = pl.format("not corrected: reliability of {} is only {}", side, pl.col(f"reliability_{side}").round(2))
        text = pl.when(low).then(weak).otherwise(text)
    control = pl.lit(" or ".join(controls))
    weak = pl.format("not corrected: reliability of control {} is only {}", control, pl.col("code").round(2))
    text = pl.when(pl.col("code") < LEAST_RELIABILITY).then(weak).otherwise(text)
    for side in ("b", "a"):
        text = (
            pl.when(pl.col(side).is_in(list(unknown)))
            .then(pl.format("not corrected: no item count for {}", side))
            .otherwise(text)
        )
    without = [name for name in controls if name in unknown]
    return pl.lit(f"not corrected: no item count for {', '.join(without)}") if without else text

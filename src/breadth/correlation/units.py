"""What counts as an independent unit (a run, or the model whose seeds the runs are), and means over units.

Seeds of one model are alike, so a mean over runs of few models says little about the next model. Runs are averaged
within their unit first, and what differs between units is what the mean is uncertain by. A group's own noise correction
may fail; the mean over a unit's runs rarely does, because noise is averaged before it is divided by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.attenuation import LEAST_RELIABILITY, MOST_LEAK, divide_interval, keep_sign
from breadth.correlation.groups import Heterogeneity, summarise_units
from breadth.correlation.intervals import new_group_variance, to_z, z_variance
from breadth.correlation.panel import Bools, Floats, Ints
from breadth.correlation.partial import HAS_INTERVAL, Correction, Partial
from breadth.errors import InputError, listed
from breadth.inference import LEVEL
from breadth.records import name_rows
from breadth.sources import ScoreTable

#: Columns that name the model of a run.
MODEL_COLUMNS = ("model", "model_name", "Model", "base_model")

#: Columns that say what a group is.
GROUP_NOUNS = ("run", "model", "seed", "subject")

#: Written for an option where nothing is meant.
NONE = "none"

#: Units below which a mean over them says nothing about a new one: each is shown on its own instead. With two, the
#: quantile of t is 12.7, and the same truth that one run shows clearly would count as undecided.
FEWEST_UNITS = 3

#: A correlation of observed scores closer to 1 than this is taken for this.
STRONGEST = 0.999

#: What noise in the control adds is subtracted, and this share of it may be wrong: noise is taken to be binomial, and
#: the slopes that carry it come from a smooth. In simulations the mean was off by up to a tenth of what was subtracted.
#: More runs do not make that smaller, so with 48 runs on a control of 100 items independent test sets got a Yes in 8 %
#: of studies before intervals allowed for it (benchmarks/units.py).
LEAK_ERROR = 0.15


class Units(NamedTuple):
    """Units of groups: the column that names them (None: every group is a unit), and the unit [G] of every group."""

    column: str | None
    noun: str
    names: tuple[str, ...]
    of_group: Ints

    @property
    def nested(self) -> bool:
        """Whether some unit has several groups."""
        return len(self.names) < len(self.of_group)


class Pooled(NamedTuple):
    """Means over units, one number per pair; reliabilities are NaN where noise is not known."""

    summary: Heterogeneity
    runs: Ints
    reliability_a: Floats
    reliability_b: Floats
    reliability_control: Floats
    noise_a: Floats
    noise_b: Floats


def describe_groups(trajectories: ScoreTable) -> pl.DataFrame:
    """One row per group: its ``by`` columns, and what else the table says of it that is the same in all its rows."""
    by, about = list(trajectories.by), trajectories.about
    keys = trajectories.frame.select(by)
    if about is None or not about.width or not by:
        return keys.unique(maintain_order=True)
    together = keys.hstack(about).group_by(by, maintain_order=True)
    first = together.agg(pl.col(name).first() for name in about.columns)
    values = together.agg(pl.col(name).n_unique() for name in about.columns)
    constant = [name for name in about.columns if values[name].max() == 1]
    return first.select(*by, *constant)


def find_units(trajectories: ScoreTable, groups: pl.DataFrame, cluster: str | None = None) -> Units:
    """Which groups belong together: by the column ``cluster``, else by the model of a run where that is known.

    ``groups`` is what :func:`describe_groups` gives. ``none`` makes every group a unit of its own. A column that
    changes within a group cannot say what the group belongs to, and is refused.
    """
    by = trajectories.by
    if not by:
        return Units(None, "group", ("",), np.zeros(1, dtype=np.intp))
    names = name_rows(groups, by)
    alone = Units(None, noun_of_groups(by), tuple(names), np.arange(len(names), dtype=np.intp))
    column = cluster
    if cluster == NONE:
        return alone
    if column is None:
        known = (name for name in MODEL_COLUMNS if name in groups.columns)
        column = next(known, None)
    elif column not in groups.columns:
        _refuse_cluster(trajectories, groups, column)
    if column is None or groups[column].null_count():
        return alone
    if groups[column].n_unique() in (1, groups.height):
        # The runs of one model are what can differ; and a model with one run is no more than that run.
        return alone
    values = groups[column].cast(pl.String)
    unique = values.unique(maintain_order=True).to_list()
    place = {value: index for index, value in enumerate(unique)}
    of_group = np.array([place[value] for value in values], dtype=np.intp)
    return Units(column, "model" if column in MODEL_COLUMNS else column, tuple(unique), of_group)


def noun_of_groups(by: Sequence[str]) -> str:
    """What a group is called: a run, a model, a seed, or simply a group."""
    names = [name for name in by if name != "train_set"]
    return names[0] if len(names) == 1 and names[0] in GROUP_NOUNS else "group"


def _refuse_cluster(trajectories: ScoreTable, groups: pl.DataFrame, column: str) -> None:
    about = trajectories.about
    if about is not None and column in about.columns:
        raise InputError(
            f"{trajectories.name}: --cluster {column} changes within a group of {listed(trajectories.by)}, so it "
            "cannot say what the group belongs to; choose a column that is the same in all rows of a group"
        )
    raise InputError(
        f"{trajectories.name}: no column {column!r} (--cluster). Columns that describe groups: "
        f"{listed(groups.columns, 20)}"
    )


def known_pairs(partial: Partial) -> Bools:
    """Which pairs of which groups [G, P] have an interval."""
    known: Bools = partial.flag <= HAS_INTERVAL
    return known


def observed_z(partial: Partial) -> Floats:
    """Fisher's z of every group and pair [G, P] without what noise in the control adds; NaN where not known."""
    r = np.nan_to_num(partial.r)
    if partial.correction is not None:
        r = np.clip(r - np.nan_to_num(partial.correction.leak), -STRONGEST, STRONGEST)
    return np.where(known_pairs(partial), to_z(r), np.nan)


def _widening(partial: Partial, z: Floats) -> Floats:
    """By how much subtracting a share of the variance widens the variance of z [G, P].

    By the delta method, (cov - leak) / (sd sd) has n times the variance 1 + r^2 + c^2 + c^2 r^2 - 4 c r, with the
    observed correlation r and c = r - leak. Without a leak this is (1 - r^2)^2, and the factor is 1.
    """
    if partial.correction is None:
        return np.ones(z.shape)
    r, c = np.nan_to_num(partial.r), np.tanh(np.nan_to_num(z))
    variance = 1 + r**2 + c**2 + c**2 * r**2 - 4 * c * r
    widening: Floats = np.maximum(variance, 0) / (1 - c**2) ** 2
    return np.clip(widening, 1.0, 10.0)


def pool_units(partial: Partial, of_group: Ints, *, predict: bool = True) -> Pooled:
    """Average over the groups of every unit, then over units.

    Question: what is the correlation of a pair in a new unit like these, and how far do units differ?

    A unit's z is the mean of its groups' z, weighted by effective rows. Where noise is known, it is the z of scores as
    they were observed, less what noise in the control adds, so that it is there for every run; the mean over units is
    then divided by the square root of the two mean reliabilities. So no run is left out because its own correction
    fails, which would select (a mean over the other runs is biased). NaN where less than a fifth of the mean variance
    of a test set's residuals, or of the control, is signal, or more than half is noise of the control.

    ``of_group`` [G] numbers the unit of every group. Uncertainty is that of :func:`summarise_units` over units: t with
    units - 1 degrees of freedom.
    """
    known, units = known_pairs(partial), int(of_group.max(initial=-1)) + 1
    n_eff, spent = np.nan_to_num(partial.n_eff, nan=4.0), partial.spent
    weight = np.where(known, np.maximum(n_eff - 3 - spent, 1.0), 0.0)

    def total(values: Floats) -> Floats:
        """Sum over the groups of every unit [U, P]."""
        if units == len(of_group):
            return values
        sums = np.zeros((units, values.shape[1]))
        np.add.at(sums, of_group, values)
        return sums

    whole = total(weight)
    share = np.where(whole > 0, whole, np.nan)

    def mean(values: Floats) -> Floats:
        return np.asarray(total(weight * np.where(known, values, 0.0)) / share)

    def variance_of_mean(values: Floats) -> Floats:
        return np.asarray(total(weight**2 * np.where(known, values, 0.0)) / share**2)

    z_each = observed_z(partial)
    wider = _widening(partial, z_each)
    z = mean(z_each).T
    sampling = variance_of_mean(wider / np.maximum(n_eff - 3 - spent, 1.0)).T
    summary = summarise_units(
        z, sampling, predict,
        differ_variance=variance_of_mean(wider * z_variance(n_eff, spent)).T,
        new_variance=variance_of_mean(wider * new_group_variance(n_eff, spent)).T,
    )  # fmt: skip
    runs = known.sum(axis=0).astype(np.intp)
    if partial.correction is None:
        nothing = np.full(len(runs), np.nan)
        return Pooled(summary, runs, nothing, nothing, nothing, nothing, nothing)
    # Units count for the mean reliability as they count for the mean correlation.
    between = np.nan_to_num(summary.tau2)[:, None]
    counts = np.where(np.isnan(z), 0.0, 1 / (between + np.where(np.isnan(z), 1.0, sampling)))
    counts = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)

    def over_units(values: Floats) -> Floats:
        return np.asarray((counts * np.nan_to_num(mean(values).T)).sum(axis=1))

    correction: Correction = partial.correction
    shares = [
        over_units(np.nan_to_num(values, neginf=0.0))
        for values in (
            correction.reliability_a, correction.reliability_b, correction.reliability_control,
            correction.noise_a, correction.noise_b,
        )
    ]  # fmt: skip
    pooled = Pooled(summary, runs, *shares)
    plain = np.where(known, to_z(np.nan_to_num(partial.r)), np.nan)
    plain_mean = np.tanh((counts * np.nan_to_num(mean(plain).T)).sum(axis=1))
    at_most = np.asarray(correction.at_most.any(axis=0))
    leak = over_units(correction.leak)
    pooled = pooled._replace(summary=_allow_for_leak(summary, leak))
    return pooled._replace(summary=_divide(pooled, plain_mean, at_most))


def _allow_for_leak(summary: Heterogeneity, leak: Floats) -> Heterogeneity:
    """Widen intervals, and raise p-values, by the error of what was subtracted for noise in the control.

    The error has the same sign in every run, so it is added to the half-width instead of to the variance: the true mean
    is taken to lie within ``LEAK_ERROR`` times ``leak`` of the one that a perfect correction would give.
    """
    mean, low, high = (to_z(values) for values in (summary.r_mean, summary.ci_low, summary.ci_high))
    allowance = LEAK_ERROR * np.abs(np.nan_to_num(leak)) / np.maximum(1 - summary.r_mean**2, 1e-3)
    several = summary.k > 1
    df = np.maximum(summary.k - 1, 1)
    quantile = np.where(several, special.stdtrit(df, (1 + LEVEL) / 2), special.ndtri((1 + LEVEL) / 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = (high - low) / 2 / quantile
        size = np.maximum(np.abs(mean) - allowance, 0.0) / error
    p = 2 * np.where(several, special.stdtr(df, -size), special.ndtr(-size))
    return summary._replace(
        ci_low=np.tanh(low - allowance),
        ci_high=np.tanh(high + allowance),
        p=np.where(np.isnan(summary.p), np.nan, p),
        predict_low=np.tanh(to_z(summary.predict_low) - allowance),
        predict_high=np.tanh(to_z(summary.predict_high) + allowance),
    )


def _divide(pooled: Pooled, plain: Floats, at_most: Bools) -> Heterogeneity:
    """Correlations of signal from correlations of observed scores; NaN where there is too little signal.

    Where noise is known only to be ``at_most`` so large, a correlation lies between the observed one and the divided
    one: the end of an interval that is nearer to 0 is not divided. Then a correlation that noise cannot have made is
    also shown where most of a residual may be noise, at the size that was observed.
    """
    first, second, summary = pooled.reliability_a, pooled.reliability_b, pooled.summary
    leaks = np.maximum(1 - first - pooled.noise_a, 1 - second - pooled.noise_b)
    clean = (pooled.reliability_control >= LEAST_RELIABILITY - 1e-9) & (leaks <= MOST_LEAK)
    usable = clean & (np.minimum(first, second) >= LEAST_RELIABILITY)
    shown = clean & at_most
    size = np.sqrt(np.maximum(first, LEAST_RELIABILITY) * np.maximum(second, LEAST_RELIABILITY))
    size = np.where(usable | shown, size, np.nan)
    low, high = divide_interval(summary.ci_low, summary.ci_high, size, at_most)
    mean = np.where(usable, summary.r_mean / size, summary.r_mean * np.where(shown, 1.0, np.nan))
    low, high, p = keep_sign(plain, mean, low, high, np.where(usable | shown, summary.p, np.nan), at_most)
    new_low, new_high = divide_interval(summary.predict_low, summary.predict_high, size, at_most)
    differ = np.where(usable | shown, summary.p_differ, np.nan)
    agreement = np.where(usable | shown, summary.sign_agreement, np.nan)
    return summary._replace(
        r_mean=np.clip(mean, -1, 1), ci_low=low, ci_high=high, p=p, predict_low=new_low, predict_high=new_high,
        tau2=summary.tau2 / size**2, p_differ=differ, sign_agreement=agreement,
    )  # fmt: skip

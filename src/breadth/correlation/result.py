"""The result of a correlation analysis: tidy frames, made from arrays, and the classes that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs

from breadth.correlation.attenuation import LEAST_RELIABILITY
from breadth.correlation.figure import result_figure
from breadth.correlation.groups import FEWEST_TESTSETS, Heterogeneity, compare_groups
from breadth.correlation.intervals import to_z
from breadth.correlation.moderators import MEANS_SCHEMA, MODERATOR_SCHEMA, Moderation
from breadth.correlation.noise import deciding
from breadth.correlation.panel import Ints, make_panel
from breadth.correlation.partial import (
    CODES,
    Correction,
    Flag,
    Partial,
    PlainCorrelation,
    Settings,
    residual_series,
    rows_needed,
)
from breadth.correlation.shown import COLUMNS_OF, correlation_columns, correlations_shown
from breadth.correlation.units import (
    FEWEST_UNITS,
    Pooled,
    Units,
    describe_groups,
    find_units,
    known_pairs,
    observed_z,
    pool_units,
)
from breadth.correlation.unmeasured import unmeasured_pairs
from breadth.correlation.words import correlation_details, correlation_verdict
from breadth.inference import benjamini_hochberg
from breadth.results import Columns, Result
from breadth.results.words import joined
from breadth.sources import ScoreTable

#: Columns of every frame of pairs, after those that name the group.
PAIR_COLUMNS = ("a", "b", "n", "n_eff", "r_raw", "r", "ci_low", "ci_high", "p", "q", "flag", "note")

#: Columns of a mean over units, or of a pair where there are none.
POOLED_COLUMNS = ("a", "b", "k", "r", "ci_low", "ci_high", "p", "q")

#: Further columns of a mean over units: its runs, the same mean without a control and without the correction for noise,
#: and how reliable the scores are.
MEAN_COLUMNS = ("runs", "r_raw", "r_partial", "reliability_a", "reliability_b", "reliability_control")

#: Further columns when correlations are corrected for sampling noise.
CORRECTED_COLUMNS = ("r_corrected", "ci_low_corrected", "ci_high_corrected", "reliability_a", "reliability_b")

#: Further columns of a robust analysis: the plain correlation, and the degrees of freedom of t (null: normal).
PLAIN_COLUMNS = ("r_plain", "ci_low_plain", "ci_high_plain", "tail_df")

#: Names of columns in any frame of results, which a group or an order must not have.
OUTPUT_COLUMNS = frozenset(
    {*PAIR_COLUMNS, *POOLED_COLUMNS, *CORRECTED_COLUMNS, *PLAIN_COLUMNS, *Heterogeneity._fields, *MEAN_COLUMNS, "code"}
    | {"q_differ", "reliability_control", "testsets", "similarity", "difference", "window", "from", "to"}
    | {"testset", "score", "residual", "early", "late"}
)

#: Columns of the changes from the first to the last part of training; ``difference`` and its interval are on Fisher's
#: scale.
CHANGE_SCHEMA = {
    "a": pl.String, "b": pl.String, "k": pl.Int64, "early": pl.Float64, "late": pl.Float64, "difference": pl.Float64,
    "ci_low": pl.Float64, "ci_high": pl.Float64, "p": pl.Float64, "q": pl.Float64,
}  # fmt: skip

#: Above this many groups, a table of every two of them is too long to read.
MOST_COMPARED = 256


class WindowParts(NamedTuple):
    """Arrays behind ``windows``: a row per group and part, named by the columns of the group and ``window``."""

    partial: Partial
    labels: pl.DataFrame


@dataclass(frozen=True)
class Correlation(Result):
    """Result of :func:`correlate`.

    ``pairs`` has a row per group and pair of test sets; ``windows`` the same per part of the run (empty unless
    requested). Where the noise of scores is known, ``p`` and ``q`` are those of ``r_corrected``. ``units`` says which
    groups belong together (the seeds of a model, say). ``changes`` compares the first and the last of ``windows``, as a
    mean over units (or per unit, where there are one or two): correlations ``early`` and ``late``, and their
    ``difference`` on Fisher's scale. ``moderation`` holds what correlations depend on, if that was
    asked; ``kinds`` are the kinds of shift of the test sets that are known. The other frames are computed on first use.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = COLUMNS_OF

    pairs: pl.DataFrame
    windows: pl.DataFrame
    trajectories: ScoreTable
    settings: Settings
    warnings: tuple[str, ...]
    _partial: Partial
    _labels: pl.DataFrame
    units: Units
    moderation: Moderation | None = field(default=None, kw_only=True)
    kinds: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    changes: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CHANGE_SCHEMA), kw_only=True)
    _parts: WindowParts | None = field(default=None, kw_only=True)

    @property
    def by(self) -> tuple[str, ...]:
        """Columns that name a group."""
        return self.trajectories.by

    @property
    def control_name(self) -> str:
        """What is taken into account: the controls; empty where there are none."""
        if self.settings.adjust == "none":
            return ""
        return joined(self.trajectories.controls)

    @property
    def given(self) -> str:
        """What correlations are adjusted for, in words."""
        if not self.control_name:
            return "without a control"
        return f"after controlling for {self.control_name}"

    @property
    def analyses(self) -> tuple[Correlation, ...]:
        """The analyses that this result consists of: itself, or that of every training set."""
        return (self,)

    @property
    def corrected(self) -> bool:
        """Whether the noise of scores is known, so that correlations are corrected for it."""
        return self._partial.correction is not None

    @property
    def few_units(self) -> bool:
        """Whether there are too few units to say anything about a new one, so that each is shown on its own."""
        return bool(self.by) and len(self.units.names) < FEWEST_UNITS

    @cached_property
    def pooled(self) -> pl.DataFrame:
        """The rows that the verdict is about, one per pair of test sets.

        The mean over units (models, or runs); with one or two units, each of them on its own, with a column ``unit``;
        the pair itself where there are no groups. Columns ``a, b, k, r, ci_low, ci_high, p, q``; k is what a mean is
        over. Correlations are corrected for noise where it is known. A *finding* is a row with q < 0.05.
        """
        if self.few_units:
            return self._each_unit
        frame = deciding(self.pairs).with_columns(k=pl.lit(1))
        if self.by:
            frame = self.heterogeneity.rename({"r_mean": "r"})
        return frame.select(cs.by_name("train_set", require_all=False), *POOLED_COLUMNS)

    @cached_property
    def _each_unit(self) -> pl.DataFrame:
        """Rows of units that are shown on their own: the mean over a unit's runs, or its runs where it has but two."""
        runs = np.bincount(self.units.of_group, minlength=len(self.units.names))
        short = [name for name, number in zip(self.units.names, runs, strict=True) if number == 2]
        if not short:
            return self.by_unit
        names = pl.Series(find_units(self.trajectories, self.groups, "none").names, dtype=pl.String)
        units = pl.Series(self.units.names, dtype=pl.String).gather(self.units.of_group)
        each = np.repeat(np.arange(len(names)), self.pairs.height // len(names))
        single = deciding(self.pairs).with_columns(k=pl.lit(1), unit=names.gather(each), model=units.gather(each))
        kept = single.filter(pl.col("model").is_in(short)).select("unit", *POOLED_COLUMNS)
        means = self.by_unit.filter(~pl.col("unit").is_in(short))
        return with_q(pl.concat([means, kept], how="vertical_relaxed"))

    @cached_property
    def by_unit(self) -> pl.DataFrame:
        """One row per unit and pair: the mean over the unit's runs, or its only run, with a column ``unit``.

        The mean is about a new run of that unit. False discovery rates are over all rows.
        """
        pairs = deciding(self.pairs).with_columns(k=pl.lit(1))
        each = self.pairs.height // max(len(self.units.of_group), 1)
        if not self.units.nested:
            names = pl.Series("unit", self.units.names, dtype=pl.String)
            named = pairs.with_columns(names.gather(np.repeat(np.arange(len(names)), each)))
            return named.select("unit", *POOLED_COLUMNS)
        frames = []
        for index, name in enumerate(self.units.names):
            own = np.flatnonzero(self.units.of_group == index)
            if len(own) == 1:
                frame = pairs.slice(int(own[0]) * each, each)
            else:
                alone = select_groups(self._partial, own)
                pooled = pool_units(alone, np.arange(len(own), dtype=np.intp), predict=False)
                frame = means_frame(pooled, self.trajectories.testsets).rename({"r_mean": "r"}).with_columns(q=None)
            known = [column for column in POOLED_COLUMNS if column in frame.columns]
            frames.append(frame.select(pl.lit(name).alias("unit"), *known))
        return with_q(pl.concat(frames, how="vertical_relaxed"))

    @cached_property
    def heterogeneity(self) -> pl.DataFrame:
        """Per pair over units (models, or runs): the mean correlation and how much units differ; empty without ``by``.

        ``r_mean`` is corrected for noise where it is known; ``r_partial`` is the same mean without this correction, and
        ``r_raw`` the one without a control either.
        """
        if not self.by:
            frame = means_frame(pool_units(self._partial, np.zeros(1, dtype=np.intp)), self.trajectories.testsets)
            return with_q(frame).clear()
        of_group = self.units.of_group
        frame = means_frame(pool_units(self._partial, of_group), self.trajectories.testsets)
        plain = pool_units(self._partial._replace(correction=None), of_group, predict=False).summary.r_mean
        raw = np.where(known_pairs(self._partial), to_z(np.nan_to_num(self._partial.r_raw)), np.nan)
        counted = np.maximum((~np.isnan(raw)).sum(axis=0), 1)
        raw_mean = np.where(np.isnan(raw).all(axis=0), np.nan, np.tanh(np.nansum(raw, axis=0) / counted))
        frame = frame.with_columns(
            pl.Series("r_raw", raw_mean, nan_to_null=True), pl.Series("r_partial", plain, nan_to_null=True)
        )
        return with_q(frame)

    @cached_property
    def groups(self) -> pl.DataFrame:
        """One row per group: its ``by`` columns and what else is known of it (model, seed, examples, family...)."""
        return describe_groups(self.trajectories)

    @cached_property
    def similarity(self) -> pl.DataFrame:
        """For every two groups: how alike their correlation matrices are; empty for more than 256 groups."""
        labels, z, m = self._labels, observed_z(self._partial), len(self.trajectories.testsets)
        if labels.height > MOST_COMPARED or not self.trajectories.by:
            z = z[:0]
        result = compare_groups(np.tanh(z), z, m, self.settings.seed)
        groups = {f"{name}_1": labels[name].gather(result.first) for name in labels.columns}
        groups |= {f"{name}_2": labels[name].gather(result.second) for name in labels.columns}
        columns = {name: getattr(result, name) for name in ("testsets", "similarity", "difference", "p")}
        few = pl.col("testsets") < FEWEST_TESTSETS
        words = pl.format("{} test sets have correlations in both; {} are needed", "testsets", pl.lit(FEWEST_TESTSETS))
        return with_q(pl.DataFrame(groups | columns, nan_to_null=True)).with_columns(
            pl.when(few).then(pl.lit(str(Flag.TOO_FEW_TESTSETS))).alias("flag"), pl.when(few).then(words).alias("note")
        )

    @cached_property
    def residuals(self) -> pl.DataFrame:
        """Residuals of every score after adjustment: the ``by`` columns, the order, ``testset, score, residual``."""
        panel, labels = make_panel(self.trajectories)
        left = residual_series(panel, self.settings.adjust, self.settings.rank)
        frame, (_, length, m) = self.trajectories.frame, panel.scores.shape
        sizes = np.array([length])
        if self.by:
            sizes = frame.group_by(labels.columns, maintain_order=True).len()["len"].to_numpy()
        inside = np.arange(length)[None, :] < sizes[:, None]
        keys = frame.select(list(filter(None, (*self.by, self.trajectories.order))))
        rows = np.repeat(np.arange(frame.height), m)
        names = pl.Series(self.trajectories.testsets, dtype=pl.String).gather(np.tile(np.arange(m), frame.height))
        values = {"score": panel.scores[inside].reshape(-1), "residual": left[inside].reshape(-1)}
        groups = {name: keys[name].gather(rows) for name in keys.columns}
        return pl.DataFrame({**groups, "testset": names, **values}, nan_to_null=True)

    @property
    def moderators(self) -> pl.DataFrame:
        """What the correlations depend on: a row per moderator and contrast; empty unless it was asked."""
        if self.moderation is None:
            return pl.DataFrame(schema=MODERATOR_SCHEMA)
        return self.moderation.frame

    @cached_property
    def unmeasured(self) -> pl.DataFrame:
        """Predicted correlations of pairs of test sets that were never measured together, with intervals.

        Columns ``a, b, r_predicted, ci_low, ci_high, basis, error, error_of_mean``; the last two are root mean squared
        errors on Fisher's scale, of what is predicted and of the mean of all pairs. Test sets that ``kinds`` names
        beyond those of the table are among them.
        """
        return unmeasured_pairs(self, self.kinds)

    @property
    def moderator_means(self) -> pl.DataFrame:
        """Mean correlation of every unit and what the regression expects, by moderator; empty unless it was asked."""
        if self.moderation is None:
            return pl.DataFrame(schema=MEANS_SCHEMA)
        return self.moderation.means

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Every frame by name: pairs, heterogeneity, similarity, windows, changes, residuals, moderators, ..."""
        names = (
            *("pairs", "heterogeneity", "similarity", "windows", "changes", "residuals"),
            *("moderators", "moderator_means", "unmeasured"),
        )
        return {name: getattr(self, name) for name in names}

    def table(self, name: str | None = None) -> pl.DataFrame:
        """One frame by name; ``pairs`` by default, without computing the others."""
        if name is None:
            return self.pairs
        return super().table(name)

    # Methods that have modules of their own.
    figure = result_figure
    verdict = correlation_verdict
    details = correlation_details
    shown = correlations_shown
    columns = correlation_columns


@dataclass(frozen=True)
class CorrelationByTrainSet(Correlation):
    """A study with several training sets: every frame holds the results of all of them, with a column ``train_set``.

    ``parts`` has the analysis of every training set; ``q`` is over all of them.
    """

    parts: Mapping[str, Correlation]

    def __post_init__(self) -> None:  # noqa: D105
        # The false discovery rate is over the pairs of all training sets, in the analysis of each as well.
        together = with_q(pl.concat([part.heterogeneity for part in self.parts.values()], how="diagonal_relaxed"))
        for part in self.parts.values():
            height = part.heterogeneity.height
            part.__dict__["heterogeneity"], together = together.head(height), together.slice(height)

    @property
    def control_name(self) -> str:
        """What is taken into account: the in-domain set of every run, and what all share."""
        if self.settings.adjust == "none":
            return ""
        shared, own = list(self.trajectories.controls), []
        for part in self.parts.values():
            for name in self.trajectories.controls:
                if name in shared and name not in part.trajectories.controls:
                    shared.remove(name)
                    own.append(name)
        own.sort(key=self.trajectories.controls.index)
        return joined([f"the in-domain set of every run ({joined(own)})", *shared])

    def _stacked(self, name: str) -> pl.DataFrame:
        """A frame of the analyses of all training sets."""
        return stacked({train_set: getattr(part, name) for train_set, part in self.parts.items()})

    @cached_property
    def heterogeneity(self) -> pl.DataFrame:
        """Per training set and pair over its runs: the mean correlation and how much runs differ."""
        return self._stacked("heterogeneity")

    @property
    def analyses(self) -> tuple[Correlation, ...]:
        """The analysis of every training set."""
        return tuple(self.parts.values())

    @property
    def few_units(self) -> bool:
        """Whether every training set has too few units to say anything about a new one."""
        return all(part.few_units for part in self.parts.values())

    @cached_property
    def pooled(self) -> pl.DataFrame:
        """The rows that the verdicts of all training sets are about; false discovery rates over all of them."""
        return with_q(self._stacked("pooled"))

    @cached_property
    def by_unit(self) -> pl.DataFrame:
        """One row per training set, unit and pair."""
        return with_q(self._stacked("by_unit"))

    @cached_property
    def similarity(self) -> pl.DataFrame:
        """For every two runs of one training set: how alike their correlation matrices are."""
        return with_q(self._stacked("similarity"))

    @cached_property
    def residuals(self) -> pl.DataFrame:
        """Residuals of every score after adjustment for the run's own in-domain set."""
        return self._stacked("residuals")

    def details(self) -> str:
        """A paragraph per training set."""
        return "\n\n".join(f"Trained on {name}: {part.details()}" for name, part in self.parts.items())


def select_groups(partial: Partial, chosen: Ints) -> Partial:
    """The results of some groups."""
    arrays = [values[chosen] for values in partial[:-2]]
    correction = partial.correction
    if correction is not None:
        correction = Correction(*(values[chosen] for values in correction))  # type: ignore[arg-type]
    plain = partial.plain
    if plain is not None:
        plain = PlainCorrelation(*(values[chosen] for values in plain))
    return Partial(*arrays, correction, plain)  # type: ignore[arg-type, call-arg]


def means_frame(pooled: Pooled, testsets: Sequence[str]) -> pl.DataFrame:
    """One row per pair of test sets: what :func:`pool_units` gives."""
    names = pl.Series(testsets, dtype=pl.String)
    first, second = np.triu_indices(len(testsets), 1)
    a, b = names.gather(first), names.gather(second)
    further = {name: getattr(pooled, name) for name in MEAN_COLUMNS if name in Pooled._fields}
    return pl.DataFrame({"a": a, "b": b, **pooled.summary._asdict(), **further}, nan_to_null=True)


def with_q(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``q`` after ``p``, and ``q_differ`` after ``p_differ``: false discovery rates over all rows."""
    for name in ("p", "p_differ"):
        if name in frame.columns:
            q = benjamini_hochberg(frame[name].fill_null(float("nan")).to_numpy())
            frame = frame.drop(f"q{name[1:]}", strict=False)
            series = pl.Series(f"q{name[1:]}", q, nan_to_null=True, dtype=pl.Float64)
            frame = frame.insert_column(frame.columns.index(name) + 1, series)
    return frame


def stacked(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The frames of several training sets as one, with a column ``train_set``."""
    named = []
    for name, frame in frames.items():
        if "train_set" in frame.columns:
            named.append(frame.select("train_set", pl.exclude("train_set")))
        else:
            named.append(frame.select(pl.lit(name).alias("train_set"), pl.all()))
    return pl.concat(named, how="diagonal_relaxed")


def pairs_frame(partial: Partial, labels: pl.DataFrame, trajectories: ScoreTable, settings: Settings) -> pl.DataFrame:
    """One row per group and pair."""
    groups, pairs = partial.r.shape
    correction = partial.correction
    index = np.repeat(np.arange(groups), pairs)
    first, second = np.triu_indices(len(trajectories.testsets), 1)
    a, b = np.tile(first, groups), np.tile(second, groups)
    names = pl.Series(trajectories.testsets, dtype=pl.String)
    numbers = {name: getattr(partial, name).reshape(-1) for name in PAIR_COLUMNS[2:9]}
    if correction is not None:
        # What is tested is what is decided by: the correlation after the correction for noise.
        numbers["p"] = correction.p.reshape(-1)
    blank = pl.Series([None], dtype=pl.String).new_from_index(0, groups * pairs)
    columns = {
        **{name: labels[name].gather(index) for name in labels.columns},
        "a": names.gather(a),
        "b": names.gather(b),
        **numbers,
        "n": numbers["n"].astype(np.int64),
        "q": benjamini_hochberg(numbers["p"]),
        "flag": blank,
        "note": blank,
    }
    if correction is not None:
        corrected = (values.reshape(-1) for values in correction)
        columns |= dict(zip(CORRECTED_COLUMNS, corrected, strict=False))
    if partial.plain is not None:
        columns |= {name: values.reshape(-1) for name, values in zip(PLAIN_COLUMNS, partial.plain, strict=True)}
    frame = pl.DataFrame(columns, nan_to_null=True)
    # Test sets of which it is not known how many items they have, where that is known of others.
    uncounted = []
    if settings.counts is not None:
        for testset, count in zip(trajectories.testsets, settings.counts, strict=False):
            if np.isnan(count):
                uncounted.append(testset)
    uncertain = partial.flag.reshape(-1) > 0
    if correction is not None:
        uncertain |= (frame["r_corrected"].is_null() & frame["r"].is_not_null()).to_numpy()
        uncertain |= (frame["r_corrected"].abs() == 1).fill_null(False).to_numpy()
        uncertain |= (frame["a"].is_in(uncounted) | frame["b"].is_in(uncounted)).to_numpy()
    if not uncertain.any():
        return frame
    # Flag and note of the rows that need them: the first reason that applies.
    rows, controls = np.flatnonzero(uncertain), trajectories.controls
    named = frame[rows].with_columns(pl.Series("code", partial.flag.reshape(-1)[rows]))
    # Why a pair has no number or a poor one.
    control = pl.lit(" or ".join(controls))
    needed = pl.lit(rows_needed(settings.adjust, len(controls)))
    words = {
        Flag.FEW_EFFECTIVE_ROWS: pl.format("only {} effective rows: the interval is wide", pl.col("n_eff").round(1)),
        Flag.IDENTICAL_RESIDUALS: pl.lit("the residuals of the two are identical up to scale: no interval"),
        Flag.CONTROL_EXPLAINS_A: pl.format("{} is fully explained by {}", "a", control),
        Flag.CONTROL_EXPLAINS_B: pl.format("{} is fully explained by {}", "b", control),
        Flag.CONSTANT_CONTROL: pl.format("control {} is constant", control),
        Flag.CONSTANT_A: pl.format("{} is constant", "a"),
        Flag.CONSTANT_B: pl.format("{} is constant", "b"),
        Flag.TOO_FEW_ROWS: pl.format("{} complete rows; {} are needed", "n", needed),
    }
    reasons = [(pl.col("code") == CODES[flag], flag, sentence) for flag, sentence in words.items()]
    if correction is not None:
        # Why a pair has no corrected correlation.
        named = named.with_columns(pl.Series("reliability_control", correction.reliability_control.reshape(-1)[rows]))
        low = "not corrected: reliability of {} is only {}"
        sides = {"control": pl.format("control {}", control), "a": pl.col("a"), "b": pl.col("b")}
        for side, name in sides.items():
            reliability = pl.col(f"reliability_{side}")
            sentence = pl.format(low, name, reliability.round(2))
            reasons.append(
                (pl.col("r_corrected").is_null() & (reliability < LEAST_RELIABILITY), Flag.LOW_RELIABILITY, sentence)
            )
        leaked = pl.format("not corrected: too much of a residual is noise of the control {}", control)
        reasons.append((pl.col("r_corrected").is_null(), Flag.LOW_RELIABILITY, leaked))
        beyond = "the corrected value was beyond 1, where no correlation can be, and is given as 1"
        reasons.append((pl.col("r_corrected").abs() == 1, Flag.NO_VALID_CORRECTION, pl.lit(beyond)))
        no_count = "no item count for {}: it counts as free of noise, so the correlation is too weak if anything"
        reasons += [
            (pl.col(side).is_in(uncounted), Flag.NO_ITEM_COUNT, pl.format(no_count, side)) for side in ("a", "b")
        ]
    flags = pl.coalesce(pl.when(applies).then(pl.lit(str(flag))) for applies, flag, _ in reasons)
    notes = pl.coalesce(pl.when(applies).then(sentence) for applies, _, sentence in reasons)
    filled = named.select(flags.alias("flag"), notes.alias("note"))
    return frame.with_columns(frame[name].scatter(rows, filled[name]) for name in ("flag", "note"))

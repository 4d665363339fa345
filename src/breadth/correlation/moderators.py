"""What makes test sets agree? Meta-regression of correlations on what is known of models, training and test sets.

Every run has a correlation of every pair of test sets. Pairs differ, and a run's correlations depend on each other, so
each run is first reduced to one number: how far its correlations lie above or below those of the same pairs in other
runs (on Fisher's scale). What varies between models is judged over models, one number each; what varies within models
is judged by the contrasts within each of them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from enum import StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.attenuation import LEAST_RELIABILITY, MOST_LEAK
from breadth.correlation.intervals import to_z
from breadth.correlation.panel import Bools, Floats, Ints
from breadth.correlation.regression import (
    Contrasts,
    Effects,
    additive_effects,
    fit_over_units,
    fit_within_units,
    orders,
    permutation_p,
    sign_flip_p,
    variance_of_mean,
)
from breadth.correlation.units import MODEL_COLUMNS, NONE, Units, find_units, known_pairs, observed_z
from breadth.datasets.registry import REGISTRY
from breadth.errors import InputError, listed, unknown_column
from breadth.inference import LEVEL, benjamini_hochberg
from breadth.results.words import count
from breadth.sources import parse_score, plain, size_of_model, size_text

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

#: The moderator that is about a pair of test sets: whether both are of one kind of shift.
KIND = "kind"

#: The moderator that is known by a model's name, and columns that hold it, in plain words.
SIZE = "size"
SIZE_COLUMNS = ("size", "model_size", "params", "parameters", "n_params", "num_params", "params_b", "params_m")

#: Columns of runs that the frame of pairs carries where they are known.
CARRIED = ("model", "train_set", "examples", "seed", "size", "family")

#: A number whose largest value is at least so many times its smallest is compared on a logarithmic scale.
LOGARITHMIC_FROM = 8.0

#: Degrees of freedom below which nothing is said: with 1, the quantile of t is 12.7.
LEAST_DF = 2

#: Models that must vary a moderator within themselves before their own contrasts are a sample of models.
FEWEST_VARYING = 3

#: Share of the correlations that must have enough signal before they are corrected for noise.
LEAST_CORRECTED = 0.5

#: Columns of the frame of moderators.
MODERATOR_SCHEMA = {
    "moderator": pl.String, "contrast": pl.String, "given": pl.String, "estimate": pl.Float64, "se": pl.Float64,
    "df": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64, "p": pl.Float64, "q": pl.Float64,
    "p_permutation": pl.Float64, "r_from": pl.Float64, "r_to": pl.Float64, "k": pl.Int64, "n": pl.Int64,
    "over": pl.String, "estimate_plain": pl.Float64, "flag": pl.String, "note": pl.String,
}  # fmt: skip

#: Columns of the means of units and of the fitted lines.
MEANS_SCHEMA = {
    "moderator": pl.String, "what": pl.String, "unit": pl.String, "value": pl.Float64, "level": pl.String,
    "r": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64, "runs": pl.Int64,
}  # fmt: skip

#: The contrast that stands for all levels of a category.
ANY = "any difference"

#: Points of a fitted line.
LINE_POINTS = 25


class ModeratorFlag(StrEnum):
    """Why a moderator has no estimate, or one that says less."""

    TOO_FEW_UNITS = auto()
    TOO_FEW_TESTSETS = auto()
    LOW_RELIABILITY = auto()
    NOT_SEPARABLE = auto()


class Moderator(NamedTuple):
    """A property of runs.

    A number has ``values`` [G] on the scale of the data, compared as powers of ten where ``log``. A category has
    ``levels``, and ``values`` number the level of every run.
    """

    name: str
    values: Floats
    log: bool = False
    levels: tuple[str, ...] = ()

    @property
    def columns(self) -> Floats:
        """Columns [G, c] of a design: the number, or one per level but the first."""
        if self.levels:
            return np.stack([self.values == level for level in range(1, len(self.levels))], axis=1).astype(np.float64)
        return (np.log10(self.values) if self.log else self.values)[:, None]

    @property
    def contrasts(self) -> Floats:
        """What is estimated of the coefficients of the columns: the slope, or each level less the mean of the others.

        Of two levels, it is the second less the first.
        """
        number = len(self.levels)
        if number <= 2:
            return np.ones((1, 1))
        levels = np.eye(number) - (1 - np.eye(number)) / (number - 1)
        return levels[:, 1:]

    @property
    def names(self) -> tuple[str, ...]:
        """What the contrasts are called."""
        if not self.levels:
            return ("per tenfold" if self.log else "per unit",)
        if len(self.levels) == 2:
            return (f"{self.levels[1]} - {self.levels[0]}",)
        return tuple(f"{level} - others" for level in self.levels)

    def text(self, value: float) -> str:
        """A value as people write it."""
        if self.levels:
            return self.levels[int(value)]
        return size_text(value) if self.name == SIZE and value >= 1e6 else f"{value:,.4g}"


class Evidence(NamedTuple):
    """The correlations of all runs [G, P] on Fisher's scale, what is known of the runs, and which belong together.

    ``variance`` is that of sampling, ``groups`` has a row per run. Where noise is known, ``z`` lacks what noise in the
    control adds, ``observed`` does not; ``reliability`` [5, G, P] has those of both test sets and of the control and
    the two shares of noise. ``at_most``: noise follows from item counts and may be smaller.
    """

    z: Floats
    observed: Floats
    variance: Floats
    reliability: Floats | None
    at_most: bool
    testsets: tuple[str, ...]
    groups: pl.DataFrame
    units: Units
    result: Correlation


class ModeratorFit(NamedTuple):
    """A moderator's contrasts, what they were tested over, and what its figure needs."""

    contrasts: Contrasts
    over: str
    units: int
    runs: int
    effects: Effects
    level: float
    permutation: tuple[Floats, float] | None


class Refusal(NamedTuple):
    """Why nothing can be estimated."""

    flag: ModeratorFlag
    note: str


class Moderation(NamedTuple):
    """What :func:`moderate` gives: the frame of moderators, and means per unit with fitted lines for the figure."""

    frame: pl.DataFrame
    means: pl.DataFrame


def moderate(
    result: Correlation,
    names: Sequence[str],
    *,
    kinds: Mapping[str, str] | None = None,
    cluster: str | None = None,
    seed: int = 0,
) -> Moderation:
    """Regress the correlations of test sets on properties of runs, models and pairs.

    Question: do test sets agree more in larger models, in some family, after more examples, if both are of one kind?

    Model: z_gp = pair_p + beta' x_g + u_model + e_gp on Fisher's scale, where ``x`` are properties of the run. With
    noise known, the expected observed correlation is the one without noise times the square root of the two
    reliabilities (averaged over a model's runs that are alike in ``x``); this is fitted by nonlinear least squares, so
    that a pair with little signal counts for little and none is divided by a reliability near 0.

    - What is the same in all runs of a model: one effect per model, weights 1 / (tau2 + sampling variance) with tau2 of
      Paule and Mandel (1982), residual variance and t with (models - coefficients) degrees of freedom (Knapp and
      Hartung 2003). With equal weights this is exact.
    - What varies within models: least squares within models, with the cluster-robust variance CR2 and Satterthwaite's
      degrees of freedom (Pustejovsky and Tipton 2018), so models may differ in the slope. With fewer than three models
      that vary it, runs are the units, and the answer is about new runs of these models.
    - ``kind`` (both test sets are of one kind of shift): pairs are regressed on it and on an effect of every test set;
      the variance adds the one over pairs and the one over models.

    ``p_permutation`` shuffles the moderator over models (where it varies within them, it turns the signs of their own
    slopes; kinds are shuffled over test sets), in all ways if there are at most 5,040. With several moderators, rows
    with ``given`` hold the others constant.
    """
    evidence = collect_evidence(result, cluster)
    moderators = [find_moderator(evidence, name) for name in names if name != KIND]
    generator = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    means: list[pl.DataFrame] = []
    for moderator in moderators:
        rows += _moderator_rows(evidence, moderator, [], generator)
        means.append(_moderator_means(evidence, moderator))
    if len(moderators) > 1:
        for moderator in moderators:
            others = [other for other in moderators if other is not moderator]
            rows += _moderator_rows(evidence, moderator, others, generator)
    if KIND in names:
        rows.append(kind_row(evidence, kinds or {}, generator))
    return Moderation(_moderators_frame(rows), pl.concat([pl.DataFrame(schema=MEANS_SCHEMA), *means]))


# What is known of the runs.


def collect_evidence(result: Correlation, cluster: str | None = None) -> Evidence:
    """The correlations of every run, over all training sets; a pair that a training set lacks is NaN."""
    parts = result.analyses
    testsets = tuple(dict.fromkeys(name for part in parts for name in part.trajectories.testsets))
    place = {name: index for index, name in enumerate(testsets)}
    number = np.zeros((len(testsets), len(testsets)), dtype=np.intp)
    a, b = np.triu_indices(len(testsets), 1)
    number[a, b] = number[b, a] = np.arange(len(a))
    corrected = all(part.corrected for part in parts)
    z, observed, variance, reliability, frames = [], [], [], [], []
    at_most = False
    for part in parts:
        own = np.array([place[name] for name in part.trajectories.testsets])
        first, second = np.triu_indices(len(own), 1)
        columns, partial = number[own[first], own[second]], part._partial

        def spread(values: Floats, columns: Ints = columns) -> Floats:
            """The same values at the places of all pairs."""
            wide = np.full((len(values), len(a)), np.nan)
            wide[:, columns] = values
            return wide

        plain_z = np.where(known_pairs(partial), to_z(np.nan_to_num(partial.r)), np.nan)
        observed.append(spread(plain_z))
        z.append(spread(observed_z(partial) if corrected else plain_z))
        rows_left = np.nan_to_num(partial.n_eff, nan=4.0) - 3 - partial.spent
        variance.append(spread(np.where(np.isnan(plain_z), np.nan, 1 / np.maximum(rows_left, 1.0))))
        correction = partial.correction
        if corrected and correction is not None:
            shares = (
                correction.reliability_a, correction.reliability_b, correction.reliability_control,
                correction.noise_a, correction.noise_b,
            )  # fmt: skip
            reliability.append(np.stack([spread(np.nan_to_num(values, neginf=0.0)) for values in shares]))
            at_most |= bool(correction.at_most.any())
        groups = part.groups
        if len(parts) > 1 and "train_set" not in groups.columns:
            groups = groups.with_columns(train_set=pl.lit(_train_set_of(result, part)))
        frames.append(groups)
    together = pl.concat(frames, how="diagonal_relaxed")
    trajectories = result.trajectories
    units = find_units(trajectories, together, cluster if cluster is not None else parts[0].units.column)
    if cluster == NONE:
        units = find_units(trajectories, together, NONE)
    return Evidence(
        np.concatenate(z), np.concatenate(observed), np.concatenate(variance),
        np.concatenate(reliability, axis=1) if corrected else None,
        at_most, testsets, together, units, result,
    )  # fmt: skip


def _train_set_of(result: Correlation, part: Correlation) -> str:
    parts: Mapping[str, Correlation] = getattr(result, "parts", {})
    return next(name for name, other in parts.items() if other is part)


def find_moderator(evidence: Evidence, name: str) -> Moderator:
    """The moderator of that name: a column that describes runs, or the size that models' names tell."""
    groups, trajectories = evidence.groups, evidence.result.trajectories
    where = trajectories.name
    if not evidence.result.by:
        raise InputError(
            f"{where}: --moderators compares groups of rows (runs, models, families), and there are none; name the "
            "column of groups with --by"
        )
    columns = {plain(column): column for column in reversed(groups.columns)}
    wanted = SIZE_COLUMNS if name == SIZE else (plain(name),)
    column = name if name in groups.columns else next((columns[each] for each in wanted if each in columns), None)
    if column is not None:
        series = groups[column]
        scale = {"b": 1e9, "m": 1e6}.get(plain(column).rpartition("params_")[2], 1.0) if name == SIZE else 1.0
    elif name == SIZE and (found := sizes_by_name(groups, evidence.result.by)) is not None:
        series, scale = found, 1.0
    else:
        averaged = _mean_within_groups(evidence, name, wanted)
        if averaged is None:
            raise _unknown_moderator(evidence, name)
        series, scale = averaged, 1.0
    if series.null_count():
        lacking = groups.filter(series.is_null()).select(evidence.result.by)
        shown = listed([" / ".join(map(str, row)) for row in lacking.iter_rows()], 4)
        raise InputError(
            f"{where}: moderator {name} is missing for {series.null_count()} of {count(groups.height, 'group')} "
            f"({shown}); add its values, or leave these rows out"
        )
    if series.n_unique() < 2:
        raise InputError(
            f"{where}: moderator {name} is {series[0]!r} in every group, so it cannot explain how they differ; omit it"
        )
    numbers = series.cast(pl.Float64, strict=False) if series.dtype != pl.Boolean else series.cast(pl.String)
    if numbers.dtype == pl.Float64 and not numbers.null_count() and numbers.is_finite().all():
        values = numbers.to_numpy() * scale
        log = bool(values.min() > 0 and (name == SIZE or values.max() >= LOGARITHMIC_FROM * values.min()))
        return Moderator(name, values, log)
    texts = series.cast(pl.String)
    levels = tuple(texts.unique().sort().to_list())
    place = {level: index for index, level in enumerate(levels)}
    return Moderator(name, np.array([float(place[text]) for text in texts]), levels=levels)


def sizes_by_name(groups: pl.DataFrame, by: Sequence[str]) -> pl.Series | None:
    """Sizes of the models of runs by their names, null where a name does not tell; None where none does.

    The name is that of a column of models, or what names the group.
    """
    for column in (*MODEL_COLUMNS, *by):
        if column in groups.columns:
            names = groups[column].cast(pl.String)
            known = {name: size_of_model(name) for name in names.unique() if name is not None}
            if any(known.values()):
                return pl.Series(SIZE, [known.get(name) for name in names], dtype=pl.Float64)
    return None


def carry_properties(pairs: pl.DataFrame, groups: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Pairs with what is known of their runs in further columns at the end: model, training, seed, size, family."""
    if not by or not groups.height:
        return pairs
    columns = {plain(column): column for column in reversed(groups.columns)}
    carried = {}
    for name in CARRIED:
        wanted: Sequence[str] = (name,)
        if name == "model":
            wanted = [column.lower() for column in MODEL_COLUMNS]
        elif name == "family":
            wanted = ("family", "model_family")
        if name in pairs.columns:
            continue
        if name == SIZE:
            sizes = sizes_by_name(groups, by)
            if sizes is not None:
                carried[name] = sizes
            continue
        column = next((columns[each] for each in wanted if each in columns), None)
        if column is not None and column not in by:
            carried[name] = groups[column]
    if not carried:
        return pairs
    known = groups.select(by).with_columns(values.alias(name) for name, values in carried.items())
    return pairs.join(known, on=list(by), how="left", nulls_equal=True, maintain_order="left")


def _mean_within_groups(evidence: Evidence, name: str, wanted: Sequence[str]) -> pl.Series | None:
    """The mean over a group's rows of a number that differs between them, where rows are models.

    Rows with an order are checkpoints of a run: a property of the run that changes there is a mistake.
    """
    trajectories = evidence.result.trajectories
    about = trajectories.about
    if about is None or len(evidence.result.analyses) > 1:
        return None
    columns = {plain(column): column for column in reversed(about.columns)}
    column = name if name in about.columns else next((columns[each] for each in wanted if each in columns), None)
    values = None
    if column is not None:
        values = about[column]
    elif name == SIZE:
        models = next((about[model] for model in MODEL_COLUMNS if model in about.columns), None)
        if models is not None:
            sizes = [size_of_model(model or "") for model in models.cast(pl.String)]
            values = pl.Series(SIZE, sizes, dtype=pl.Float64)
            if not values.count():
                return None
    if values is None:
        return None
    if trajectories.order is not None or not values.dtype.is_numeric():
        raise InputError(
            f"{trajectories.name}: moderator {name} changes within a {evidence.units.noun}, so it cannot say how "
            f"{evidence.units.noun}s differ; choose a column that is the same in all rows of one"
        )
    logarithms = values.cast(pl.Float64)
    positive = bool((logarithms.drop_nulls() > 0).all())
    frame = trajectories.frame.select(trajectories.by).with_columns(
        logarithms.log10().alias("value") if positive else logarithms.alias("value")
    )
    means = frame.group_by(trajectories.by, maintain_order=True).agg(pl.col("value").mean())
    joined = evidence.groups.select(trajectories.by).join(
        means, on=list(trajectories.by), how="left", nulls_equal=True, maintain_order="left"
    )["value"]
    return 10**joined if positive else joined


def _unknown_moderator(evidence: Evidence, name: str) -> InputError:
    where, groups = evidence.result.trajectories.name, evidence.groups
    if name == SIZE:
        return InputError(
            f"{where}: the size of the models is not known: no column holds it ({listed(SIZE_COLUMNS[:4])}), and no "
            "name tells it, as pythia-410m does. Add a column size with the number of parameters"
        )
    return unknown_column(name, [*groups.columns, SIZE, KIND], where, "moderator")


# Fitting.


def _signal(evidence: Evidence, cells: Ints) -> Floats:
    """What noise leaves of every correlation [G, P], the root of two reliabilities; NaN where that is too little.

    Reliabilities of single runs are noisy themselves, so they are averaged over the runs of a cell.
    """
    reliability = evidence.reliability
    assert reliability is not None
    known = ~np.isnan(evidence.z)
    weight = np.where(known, 1 / np.where(known, evidence.variance, 1.0), 0.0)
    number = int(cells.max()) + 1
    whole = np.zeros((number, known.shape[1]))
    np.add.at(whole, cells, weight)
    shares = []
    for values in reliability:
        sums = np.zeros_like(whole)
        np.add.at(sums, cells, weight * np.where(known, values, 0.0))
        shares.append(np.divide(sums, whole, out=np.zeros_like(sums), where=whole > 0)[cells])
    first, second, control, noise_first, noise_second = shares
    leak = np.maximum(1 - first - noise_first, 1 - second - noise_second)
    usable = (np.minimum(first, second) >= LEAST_RELIABILITY) & (leak <= MOST_LEAK)
    usable &= control >= LEAST_RELIABILITY - 1e-9
    return np.where(usable & known, np.sqrt(np.clip(first * second, 0, 1)), np.nan)


def _cells_of_runs(evidence: Evidence, moderators: Sequence[Moderator]) -> Ints:
    """Runs that are alike in all moderators, and of one model where models have several runs."""
    columns = [np.zeros(len(evidence.z)), *(moderator.values for moderator in moderators)]
    if evidence.units.nested:
        columns.append(evidence.units.of_group.astype(np.float64))
    _, cells = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return np.asarray(cells.reshape(-1), dtype=np.intp)


def _varies_within(columns: Floats, unit: Ints) -> Ints:
    """The units in which some column differs between runs."""
    varying = [index for index in np.unique(unit) if np.ptp(columns[unit == index], axis=0).max() > 1e-12]
    return np.array(varying, dtype=np.intp)


class ModeratorRegression(NamedTuple):
    """Runs that have an effect: effects ``y`` [G] with sampling variances, the unit of each, and columns of moderators.

    Of the other moderators, which are held constant, ``inside`` [G, c] vary within units and ``outside`` do not.
    """

    y: Floats
    variance: Floats
    unit: Ints
    columns: Floats
    inside: Floats
    outside: Floats
    noun: str


def _problem(
    evidence: Evidence, effects: Effects, target: Moderator, others: Sequence[Moderator]
) -> ModeratorRegression:
    keep = ~np.isnan(effects.runs)
    unit = np.unique(evidence.units.of_group[keep], return_inverse=True)[1].reshape(-1)
    nothing = np.zeros((int(keep.sum()), 0))
    inside, outside = [nothing], [nothing]
    for other in others:
        columns = other.columns[keep]
        (inside if len(_varies_within(columns, unit)) else outside).append(columns)
    return ModeratorRegression(
        effects.runs[keep],
        _sampling_variance(evidence, effects)[keep],
        unit,
        target.columns[keep],
        np.concatenate(inside, axis=1),
        np.concatenate(outside, axis=1),
        evidence.units.noun,
    )


def _sampling_variance(evidence: Evidence, effects: Effects) -> Floats:
    """Variance [G] of a run effect by the sampling of its rows."""
    known = ~np.isnan(effects.slopes)
    number = np.maximum(known.sum(axis=1), 1)
    own = np.where(known, evidence.variance, 0.0).sum(axis=1) / number
    # Noise takes its share of every correlation, and so magnifies the error of what is without it.
    kept = np.where(known, effects.slopes**2, 0.0).sum(axis=1) / number
    return np.asarray(variance_of_mean(effects.pairs, len(evidence.testsets)) * own / np.maximum(kept, 0.05))


def _fit_moderator(
    evidence: Evidence,
    effects: Effects,
    target: Moderator,
    others: Sequence[Moderator],
    generator: np.random.Generator,
) -> ModeratorFit | Refusal:
    """Regress run effects on a moderator, holding others constant."""
    problem = _problem(evidence, effects, target, others)
    columns = problem.columns
    left = len(np.unique(columns, axis=0)) if len(columns) else 0
    if left < max(len(target.levels), 2):
        return Refusal(ModeratorFlag.LOW_RELIABILITY, "too few of its values are left where there is enough signal")
    if len(_varies_within(columns, problem.unit)):
        found = _fit_within(problem, target, generator)
    else:
        found = _fit_between(problem, target, generator)
    if isinstance(found, Refusal):
        return found
    permutation = None if others else found.permutation
    return ModeratorFit(found.contrasts, found.over, found.units, len(columns), effects, found.level, permutation)


class Tested(NamedTuple):
    """Contrasts, what they were tested over, how many units that is, the effect where the columns are 0, and the
    permutation test.
    """

    contrasts: Contrasts
    over: str
    units: int
    level: float
    permutation: tuple[Floats, float]


def _fit_within(problem: ModeratorRegression, target: Moderator, generator: np.random.Generator) -> Tested | Refusal:
    """A moderator that varies within units: by the contrasts within each of them."""
    y, unit, columns = problem.y, problem.unit, problem.columns
    width = columns.shape[1]
    design = np.concatenate([columns, problem.inside], axis=1)
    contrasts = np.pad(target.contrasts, ((0, 0), (0, problem.inside.shape[1])))
    dummies = (unit[:, None] == np.unique(unit)[None, :]).astype(np.float64)
    whole = np.concatenate([dummies, design], axis=1)
    if np.linalg.matrix_rank(whole) < whole.shape[1]:
        return Refusal(ModeratorFlag.NOT_SEPARABLE, f"it cannot be told from the others, or from the {problem.noun}s")
    over, number = problem.noun, len(_varies_within(columns, unit))
    if number >= FEWEST_VARYING:
        fitted = fit_within_units(y, design, unit, contrasts)
    elif len(y) - whole.shape[1] >= LEAST_DF:
        # Too few models to speak for others: what is asked is whether it holds in new runs of these.
        over = "run"
        even = np.full(len(y), float(np.mean(problem.variance)))
        fitted = fit_over_units(y, even, whole, np.pad(contrasts, ((0, 0), (dummies.shape[1], 0))))
        fitted = fitted._replace(b=fitted.b[dummies.shape[1] :])
    else:
        return Refusal(ModeratorFlag.TOO_FEW_UNITS, f"{count(len(y), 'run')} are too few")
    centred, response = columns.copy(), y.copy()
    for index in np.unique(unit):
        own = unit == index
        centred[own] -= centred[own].mean(axis=0)
        response[own] -= response[own].mean()
    if over == "run":
        nothing = np.zeros((len(y), 0))
        permutation = permutation_p(response, nothing, centred, target.contrasts, np.ones(len(y)), unit, generator)
    else:
        permutation = sign_flip_p(response, centred, unit, target.contrasts, generator)
    b = fitted.b[:width]
    return Tested(fitted._replace(b=b), over, number, float(np.mean(y - columns @ b)), permutation)


def _fit_between(problem: ModeratorRegression, target: Moderator, generator: np.random.Generator) -> Tested | Refusal:
    """A moderator that is the same in all runs of a unit: by one number per unit."""
    y, unit, columns = problem.y, problem.unit, problem.columns
    over, number = problem.noun, int(unit.max()) + 1
    if target.levels and len(target.levels) == number and number < len(y):
        # The units themselves are compared, so that their runs are what can differ by chance.
        unit, over = np.arange(len(y)), "run"
    inside = problem.inside
    if inside.shape[1]:
        removed = fit_within_units(y, inside, unit, np.eye(inside.shape[1]))
        y = y - (inside - inside.mean(axis=0)) @ removed.b
    weight = 1 / problem.variance
    means = np.bincount(unit, weight * y) / np.bincount(unit, weight)
    first = np.unique(unit, return_index=True)[1]
    spread = np.bincount(unit, problem.variance) / np.bincount(unit) ** 2
    fixed = np.concatenate([np.ones((len(y), 1)), problem.outside], axis=1)[first]
    design = np.concatenate([fixed, columns[first]], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return Refusal(ModeratorFlag.NOT_SEPARABLE, "it cannot be told from the others")
    if len(means) - design.shape[1] < LEAST_DF:
        needed = design.shape[1] + LEAST_DF
        reason = f"{count(len(means), over)} are too few; at least {needed} are needed"
        return Refusal(ModeratorFlag.TOO_FEW_UNITS, reason)
    start = fixed.shape[1]
    fitted = fit_over_units(means, spread, design, np.pad(target.contrasts, ((0, 0), (start, 0))))
    even = np.zeros(len(means), dtype=np.intp)
    permutation = permutation_p(
        means, fixed, columns[first], target.contrasts, 1 / (spread + np.var(means)), even, generator
    )
    level = float(np.mean(fixed @ fitted.b[:start]))
    return Tested(fitted._replace(b=fitted.b[start:]), over, number, level, permutation)


def _run_effects(evidence: Evidence, moderators: Sequence[Moderator], corrected: bool) -> Effects | None:
    """Effects of runs and pairs, corrected for noise or not; None where too few correlations can be corrected."""
    if not corrected:
        return additive_effects(evidence.observed, np.ones_like(evidence.observed))
    size = _signal(evidence, _cells_of_runs(evidence, moderators))
    known = ~np.isnan(evidence.z)
    if (~np.isnan(size)).sum() < LEAST_CORRECTED * known.sum() or not known.any():
        return None
    return additive_effects(evidence.z, size)


def run_effects(evidence: Evidence) -> Effects:
    """Effects of runs and pairs, corrected for noise where it is known and leaves enough."""
    effects = _run_effects(evidence, [], corrected=True) if evidence.reliability is not None else None
    if effects is None:
        effects = _run_effects(evidence, [], corrected=False)
    assert effects is not None
    return effects


def _moderator_rows(
    evidence: Evidence, target: Moderator, others: Sequence[Moderator], generator: np.random.Generator
) -> list[dict[str, object]]:
    """Rows of a moderator: one per contrast, and one for any difference between three or more levels."""
    moderators = [target, *others]
    note = flag = None
    fits: list[ModeratorFit | Refusal] = []
    if evidence.reliability is not None:
        effects = _run_effects(evidence, moderators, corrected=True)
        if effects is not None:
            fits.append(_fit_moderator(evidence, effects, target, others, generator))
        else:
            flag = ModeratorFlag.LOW_RELIABILITY
            note = "too little of the scores is signal to correct for noise"
    if evidence.reliability is None or evidence.at_most:
        effects = _run_effects(evidence, moderators, corrected=False)
        assert effects is not None
        fits.append(_fit_moderator(evidence, effects, target, others, generator))
        if flag is not None:
            note = f"{note}; these are correlations as they were observed"
    base: dict[str, object] = {
        "moderator": target.name,
        "given": ", ".join(other.name for other in others),
        "flag": None if flag is None else str(flag),
        "note": note,
    }
    refused = [fit for fit in fits if isinstance(fit, Refusal)]
    done = [fit for fit in fits if isinstance(fit, ModeratorFit)]
    names = [*target.names]
    if len(target.levels) > 2:
        names.append(ANY)
    if not done:
        if refused:
            base |= {"flag": str(refused[0].flag), "note": refused[0].note}
        return [base | {"contrast": name} for name in names]
    main, plain_fit = done[0], done[-1]
    low, high = main.contrasts.interval()
    p, p_any = main.contrasts.p, main.contrasts.p_any
    permutation = main.permutation
    if plain_fit is not main:
        # Noise is known only to be at most so large, so the truth lies between correcting for all of it and for none.
        plain_low, plain_high = plain_fit.contrasts.interval()
        low, high = np.minimum(low, plain_low), np.maximum(high, plain_high)
        opposed = main.contrasts.estimate * plain_fit.contrasts.estimate < 0
        p = np.where(opposed, 1.0, np.maximum(p, plain_fit.contrasts.p))
        p_any = max(p_any, plain_fit.contrasts.p_any)
        if permutation is not None and plain_fit.permutation is not None:
            shares, any_share = plain_fit.permutation
            permutation = np.where(opposed, 1.0, np.maximum(permutation[0], shares)), max(permutation[1], any_share)
    ends = _correlations_at_ends(target, main)
    rows = []
    for index, name in enumerate(target.names):
        rows.append(
            base
            | {
                "contrast": name,
                "estimate": float(main.contrasts.estimate[index]),
                "se": float(main.contrasts.se[index]),
                "df": float(main.contrasts.df[index]),
                "ci_low": float(low[index]),
                "ci_high": float(high[index]),
                "p": float(p[index]),
                "p_permutation": None if permutation is None else float(permutation[0][index]),
                "r_from": ends[index][0],
                "r_to": ends[index][1],
                "k": main.units,
                "n": main.runs,
                "over": main.over,
                "estimate_plain": float(plain_fit.contrasts.estimate[index]) if plain_fit is not main else None,
            }
        )
    if len(target.levels) > 2:
        rows.append(
            base
            | {
                "contrast": ANY,
                "p": p_any,
                "p_permutation": None if permutation is None else permutation[1],
                "k": main.units,
                "n": main.runs,
                "over": main.over,
            }
        )
    return rows


def mean_correlation(pairs: Floats, effect: float) -> float:
    """The mean correlation over pairs of a run with that effect."""
    values = np.tanh(pairs[~np.isnan(pairs)] + effect)
    return float(values.mean()) if len(values) else float("nan")


def _correlations_at_ends(target: Moderator, fitted: ModeratorFit) -> list[tuple[float, float]]:
    """The mean correlation at both ends of every contrast: lowest and highest value, or other levels and the level."""
    b, pairs = fitted.contrasts.b[: target.columns.shape[1]], fitted.effects.pairs
    if not target.levels:
        columns = target.columns[:, 0]
        low, high = (fitted.level + float(b[0]) * end for end in (columns.min(), columns.max()))
        return [(mean_correlation(pairs, low), mean_correlation(pairs, high))]
    levels = fitted.level + np.concatenate([[0.0], b])
    if len(levels) == 2:
        return [(mean_correlation(pairs, levels[0]), mean_correlation(pairs, levels[1]))]
    ends = []
    for index in range(len(levels)):
        others = float(np.delete(levels, index).mean())
        ends.append((mean_correlation(pairs, others), mean_correlation(pairs, levels[index])))
    return ends


def _moderators_frame(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    complete = [{name: row.get(name) for name in MODERATOR_SCHEMA} for row in rows]
    frame = pl.DataFrame(complete, schema=MODERATOR_SCHEMA, nan_to_null=True)
    q = benjamini_hochberg(frame["p"].fill_null(float("nan")).to_numpy())
    return frame.with_columns(pl.Series("q", q, nan_to_null=True, dtype=pl.Float64))


# Kinds of shift.


def kinds_of(
    testsets: Sequence[str], given: Mapping[str, str] | None, known: Mapping[str, str | None]
) -> dict[str, str]:
    """The kind of shift of every test set, as far as it is known.

    ``given`` maps names or wildcards to kinds; ``known`` is what a study says of its sets. Well-known names count as
    the set of the registry.
    """
    kinds = {}
    for name in testsets:
        found = known.get(name)
        if found is None:
            entries = (REGISTRY.get(each) for each in (plain(name), parse_score(name).testset))
            found = next((entry.shift for entry in entries if entry is not None), None)
        if found is not None:
            kinds[name] = found
    for pattern, kind in (given or {}).items():
        matches = [pattern] if pattern in testsets else fnmatch.filter(testsets, pattern)
        for name in matches or ([] if set(pattern) & set("*?[") else [pattern]):
            kinds[name] = kind
    return kinds


def kind_codes(evidence: Evidence, kinds: Mapping[str, str]) -> Ints:
    """The number of the kind of every test set; refused where kinds cannot be compared."""
    testsets, name = evidence.testsets, evidence.result.trajectories.name
    lacking = [each for each in testsets if each not in kinds]
    if lacking:
        raise InputError(
            f"{name}: moderator {KIND} needs the kind of shift of every test set, and that of {listed(lacking, 6)} is "
            "not known; give it with --kinds NAME=KIND, wildcards allowed"
        )
    code = {kind: index for index, kind in enumerate(dict.fromkeys(kinds[each] for each in testsets))}
    if len(code) < 2 or len(code) == len(testsets):
        which = "all test sets are of one kind" if len(code) < 2 else "no two test sets are of one kind"
        raise InputError(f"{name}: moderator {KIND}: {which}, so there is nothing to compare; give other --kinds")
    return np.array([code[kinds[each]] for each in testsets], dtype=np.intp)


def kind_row(evidence: Evidence, kinds: Mapping[str, str], generator: np.random.Generator) -> dict[str, object]:
    """Whether correlations differ between pairs of one kind and pairs of two, beyond what each test set is like."""
    testsets = evidence.testsets
    codes = kind_codes(evidence, kinds)
    a, b = np.triu_indices(len(testsets), 1)
    same = (codes[a] == codes[b]).astype(np.float64)
    row: dict[str, object] = {
        "moderator": KIND, "contrast": "one kind - two kinds", "given": "each test set", "over": "pair of test sets",
    }  # fmt: skip
    flag = note = None
    effects = None
    if evidence.reliability is not None:
        effects = _run_effects(evidence, [], corrected=True)
        if effects is None:
            flag = ModeratorFlag.LOW_RELIABILITY
            note = (
                "too little of the scores is signal to correct for noise; these are correlations as they were observed"
            )
    if effects is None:
        effects = _run_effects(evidence, [], corrected=False)
    assert effects is not None
    known = ~np.isnan(effects.pairs)
    sets = np.zeros((len(a), len(testsets)))
    sets[np.arange(len(a)), a] = sets[np.arange(len(a)), b] = 1
    design = np.concatenate([sets, same[:, None]], axis=1)[known]
    free = int(known.sum()) - int(np.linalg.matrix_rank(design))
    separable = np.linalg.matrix_rank(design) > np.linalg.matrix_rank(design[:, :-1])
    if free < LEAST_DF or not separable:
        return row | {
            "flag": str(ModeratorFlag.TOO_FEW_TESTSETS),
            "note": f"{count(len(testsets), 'test set')} are too few to tell kinds from what each of them is like",
        }
    z = effects.pairs[known]
    away = same[known] - sets[known] @ np.linalg.lstsq(sets[known], same[known], rcond=None)[0]
    length = float(away @ away)
    rest = z - sets[known] @ np.linalg.lstsq(sets[known], z, rcond=None)[0]
    estimate = float(away @ rest) / length
    over_pairs = float(((rest - estimate * away) ** 2).sum()) / free / length
    variance, df = over_pairs, float(free)
    by_unit = _contrast_of_units(evidence, effects, known, sets[known], same[known])
    if len(by_unit) > 1:
        over_units = float(by_unit.var(ddof=1)) / len(by_unit)
        # What is random in every cell is in both and counts twice: with few units the estimate of it is too poor to be
        # subtracted (a false finding in 8 % of studies of four runs).
        variance = over_pairs + over_units
        df = variance**2 / (over_pairs**2 / free + over_units**2 / (len(by_unit) - 1))
        if over_units > over_pairs:
            df = min(df, len(by_unit) - 1.0)
    se = float(np.sqrt(variance))
    half = float(special.stdtrit(df, (1 + LEVEL) / 2)) * se
    p = float(2 * special.stdtr(df, -abs(estimate) / max(se, 1e-12)))
    weight = same[known]
    others = float(np.mean(z[weight == 0])) if (weight == 0).any() else float(np.mean(z))
    return row | {
        "estimate": estimate, "se": se, "df": df, "ci_low": estimate - half, "ci_high": estimate + half, "p": p,
        "p_permutation": _relabelled(z, codes, a[known], b[known], sets[known], generator),
        "r_from": float(np.tanh(others)), "r_to": float(np.tanh(others + estimate)),
        "k": len(np.unique(evidence.units.of_group[~np.isnan(effects.runs)])), "n": int(known.sum()),
        "flag": None if flag is None else str(flag), "note": note,
    }  # fmt: skip


def _contrast_of_units(evidence: Evidence, effects: Effects, known: Bools, sets: Floats, same: Floats) -> Floats:
    """The same contrast in every unit [K] that has all pairs."""
    unit = evidence.units.of_group
    source = evidence.z if evidence.reliability is not None else evidence.observed
    away = same - sets @ np.linalg.lstsq(sets, same, rcond=None)[0]
    expected, contrasts = effects.pairs[known], []
    for index in np.unique(unit[~np.isnan(effects.runs)]):
        own = unit == index
        slope = np.nan_to_num(effects.slopes[own][:, known])
        total = (slope**2).sum(axis=0)
        if (total <= 0).any():
            continue
        # How far observed values are from expected ones, on the scale of effects without noise.
        left = np.nan_to_num(source[own][:, known]) - slope * expected
        y = expected + (slope * left).sum(axis=0) / total
        contrasts.append(float(away @ y) / float(away @ away))
    return np.array(contrasts)


def _relabelled(z: Floats, codes: Ints, a: Ints, b: Ints, sets: Floats, generator: np.random.Generator) -> float:
    """Share of the ways to deal the kinds to the test sets that give a contrast at least as clear."""
    ways, exact = orders(np.zeros(len(codes), dtype=np.intp), generator)
    ways = np.concatenate([np.arange(len(codes))[None], ways])
    dealt = codes[ways]
    same = (dealt[:, a] == dealt[:, b]).astype(np.float64)
    basis = np.linalg.qr(sets)[0]
    away = same - (same @ basis) @ basis.T
    rest = z - basis @ (basis.T @ z)
    length = (away**2).sum(axis=1)
    share = np.divide((away @ rest) ** 2, length, out=np.zeros(len(away)), where=length > 1e-9)
    start = 1 if exact else 0
    return float((share[start:] >= share[0] * (1 - 1e-9)).mean())


# The figure.


def _moderator_means(evidence: Evidence, target: Moderator) -> pl.DataFrame:
    """Mean correlation of every unit with its interval, and what the regression expects of a unit's mean."""
    corrected = evidence.reliability is not None
    effects = _run_effects(evidence, [target], corrected)
    if effects is None:
        effects = _run_effects(evidence, [target], corrected=False)
    assert effects is not None
    keep = ~np.isnan(effects.runs)
    y, values, unit = effects.runs[keep], target.values[keep], evidence.units.of_group[keep]
    sampling = _sampling_variance(evidence, effects)[keep]
    rows = []
    for index in np.unique(unit):
        for value in np.unique(values[unit == index]):
            mine = (unit == index) & (values == value)
            runs, mean = int(mine.sum()), float(y[mine].mean())
            if runs > 2:
                half = special.stdtrit(runs - 1, (1 + LEVEL) / 2) * y[mine].std(ddof=1) / np.sqrt(runs)
            else:
                half = special.ndtri((1 + LEVEL) / 2) * np.sqrt(sampling[mine].sum()) / runs
            rows.append(_mean_row(effects, target, "unit", evidence.units.names[index], value, mean, half, runs))
    fitted = _fit_moderator(evidence, effects, target, [], np.random.default_rng(0))
    if isinstance(fitted, ModeratorFit):
        rows += _fitted_line(target, fitted)
    return pl.DataFrame(rows, schema=MEANS_SCHEMA, nan_to_null=True)


def _mean_row(
    effects: Effects, target: Moderator, what: str, unit: str | None, value: float, mean: float, half: float,
    runs: int | None,
) -> dict[str, object]:  # fmt: skip
    ends = [mean_correlation(effects.pairs, mean + side * half) for side in (0, -1, 1)]
    return {
        "moderator": target.name, "what": what, "unit": unit, "value": float(value),
        "level": target.text(value), "r": ends[0], "ci_low": ends[1], "ci_high": ends[2], "runs": runs,
    }  # fmt: skip


def _fitted_line(target: Moderator, fitted: ModeratorFit) -> list[dict[str, object]]:
    """The fitted line at values of a number, with the interval that the slope alone gives around the middle."""
    b = fitted.contrasts.b
    rows = []
    if target.levels:
        levels = fitted.level + np.concatenate([[0.0], b[: len(target.levels) - 1]])
        for index, mean in enumerate(levels):
            rows.append(_mean_row(fitted.effects, target, "fit", None, index, float(mean), float("nan"), None))
        return rows
    columns = target.columns[:, 0]
    quantile = float(special.stdtrit(fitted.contrasts.df[0], (1 + LEVEL) / 2))
    for x in np.linspace(columns.min(), columns.max(), LINE_POINTS):
        half = quantile * float(fitted.contrasts.se[0]) * abs(x - columns.mean())
        value = float(10**x if target.log else x)
        rows.append(_mean_row(fitted.effects, target, "fit", None, value, fitted.level + float(b[0]) * x, half, None))
    return rows

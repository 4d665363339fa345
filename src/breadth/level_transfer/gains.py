"""Train on one level, test on all: gains over the model before training, with standard errors from items and seeds.

Every number here (a cell, a slope, an asymmetry, a comparison of strategies) is a weighted sum of cell gains, so one
function gives them all their standard errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from breadth.inference import LEVEL, Floats

Indices = npt.NDArray[np.intp]

#: Degrees of freedom of the prior towards which a condition's own seed variance is shrunken. Estimated from the data
#: (as limma does over thousands of genes), five conditions always look alike, and the intervals of the one unstable
#: condition hold the truth in 75 to 85 % of studies. This much makes two seeds usable and keeps 92 %
#: (benchmarks/transfer_recovery.py).
PRIOR_DF = 0.25

#: Share of Satterthwaite's squared half-width in that of an interval; the rest is Graybill and Wang's.
SATTERTHWAITE_SHARE = 2 / 3

#: Share of the noise of single answers below which seeds are not taken to lie closer together.
LEAST_NOISE = 0.25

#: A seed variance below this share of the mean over conditions counts as this much in the centre: where seeds answer
#: alike by chance, as they do at the top of the scale, its logarithm says nothing.
LEAST_SPREAD = 0.01

#: Standard errors below this are rounding: nothing varies.
ROUNDING = 1e-9


class Gains(NamedTuple):
    """Answers of trained models and of the untrained one to the same test items.

    ``trained``: one array [seeds, items] per training condition (a level or a strategy). ``baseline`` [items]: the
    untrained model (the mean, if there are several). ``level`` [items]: level of every test item, 0 to J - 1.

    Answers may be other values of items than right or wrong, of which a level's score is the mean; or, where ``group``
    [items] says which of 0 to G - 1 an item belongs to, the sum over groups of their means
    (:class:`breadth.records.ItemValues`). ``cluster`` [items] numbers the cluster of every item (a passage, a
    template), from 0; None where items are independent.
    """

    trained: tuple[Floats, ...]
    baseline: Floats
    level: Indices
    group: Indices | int = 0
    cluster: Indices | None = None

    @property
    def levels(self) -> int:
        """Number of test levels."""
        return int(self.level.max()) + 1


class Contrast(NamedTuple):
    """A weighted sum of gains with its standard error, degrees of freedom, 95 % interval and p-value."""

    estimate: float
    se: float
    df: float
    low: float
    high: float
    p: float


class VariancePart(NamedTuple):
    """A part of a variance, and the degrees of freedom with which it is known."""

    variance: float
    df: float


class Seeds(NamedTuple):
    """What is known of one training condition's seeds: their number, and matrices over the cells of items.

    ``spread`` is the covariance of what one seed scores. ``noise`` is the part of it that comes from single answers:
    every seed answers every item with some chance.
    """

    number: int
    spread: Floats
    noise: Floats

    @property
    def df(self) -> int:
        """Degrees of freedom of the spread."""
        return self.number - 1


class Moments:
    """What every contrast of the same gains needs, computed once.

    A *cell* of items is a level, or a group of a level (each has a mean of its own). A *piece* is the part of a cluster
    that lies in one cell: a passage may have questions of several levels. Without clusters, a piece is an item.
    """

    def __init__(self, gains: Gains) -> None:
        groups = int(np.max(gains.group)) + 1
        self.groups = groups
        self.cell = gains.level * groups + gains.group
        self.cells = (int(gains.level.max()) + 1) * groups
        self.count = np.bincount(self.cell, minlength=self.cells).astype(np.float64)
        if gains.cluster is None:
            self.piece = np.arange(len(self.cell))
            self.piece_cell = self.cell
            self.piece_cluster = self.piece
        else:
            cluster = np.unique(gains.cluster, return_inverse=True)[1]
            pieces, self.piece = np.unique(cluster * self.cells + self.cell, return_inverse=True)
            self.piece_cell = pieces % self.cells
            self.piece_cluster = pieces // self.cells
        self.clusters = int(self.piece_cluster.max()) + 1
        self.piece_size = np.bincount(self.piece).astype(np.float64)
        share = self.piece_size / self.count[self.piece_cell]
        # Divided by the root of the share of items outside the piece (CR2), sums of residuals keep the variance of the
        # mean unbiased. A cell with a single cluster has no variance to measure.
        with np.errstate(divide="ignore"):
            self.scale = 1 / np.sqrt(1 - share) / self.count[self.piece_cell]
        self.alone = np.bincount(self.piece_cell, minlength=self.cells) < 2
        self.scale[self.alone[self.piece_cell]] = 0.0
        self.gain = np.stack([answers.mean(axis=0) - gains.baseline for answers in gains.trained])
        self.seeds = [self._measure_seeds(answers) for answers in gains.trained]

    def cell_means(self, values: Floats) -> Floats:
        """Means of values [items] over the cells."""
        return np.bincount(self.cell, values, self.cells) / self.count

    def _measure_seeds(self, answers: Floats) -> Seeds:
        """How the seeds [seeds, items] of a condition move the cells together, and how much of that is noise."""
        number = len(answers)
        nothing = np.zeros((self.cells, self.cells))
        if number < 2:
            return Seeds(number, nothing, nothing)
        means = np.stack([self.cell_means(values) for values in answers])
        apart = means - means.mean(axis=0)
        left = answers - answers.mean(axis=0) - apart[:, self.cell]
        noise = np.zeros((self.cells, self.cells))
        for values in left:
            noise += self._products(values)
        df = number - 1
        return Seeds(number, apart.T @ apart / df, noise / df)

    def item_covariance(self, k: int) -> Floats:
        """Covariance of the mean gains of condition ``k`` over cells, as far as it comes from items."""
        return self._products(self.gain[k] - self.cell_means(self.gain[k])[self.cell])

    def _products(self, residuals: Floats) -> Floats:
        """Sums over clusters of the products of scaled residuals [items], for every two cells."""
        by_cluster = np.zeros((self.clusters, self.cells))
        by_cluster[self.piece_cluster, self.piece_cell] = np.bincount(self.piece, residuals) * self.scale
        return by_cluster.T @ by_cluster

    def item_part(self, weights: Floats) -> VariancePart:
        """Variance of a weighted sum that comes from items, which may be clustered.

        Satterthwaite's degrees of freedom under a working model in which items of a cluster have the correlation that
        the data show, so that few or unequal clusters widen the interval.
        """
        per_item = (weights[:, self.cell] * self.gain).sum(axis=0)
        centred = per_item - self.cell_means(per_item)[self.cell]
        sums = np.bincount(self.piece, centred) * self.scale
        variance = float((np.bincount(self.piece_cluster, sums) ** 2).sum())
        involved = np.any(weights != 0, axis=0)
        if np.any(involved & self.alone):
            return VariancePart(np.nan, np.nan)
        squares = np.bincount(self.cell, centred**2, self.cells) / np.maximum(self.count - 1, 1)
        deviation = np.sqrt(squares)[self.piece_cell]
        alike = self._likeness(centred, np.sqrt(squares)[self.cell])
        size = self.piece_size
        together = np.bincount(self.piece_cluster, self.scale * size * deviation) ** 2
        apart = np.bincount(self.piece_cluster, self.scale**2 * size * deviation**2)
        expected = alike * together + (1 - alike) * apart
        # Centring costs every cell a degree of freedom: with equal clusters, this leaves their number less one.
        cost = np.zeros(self.clusters)
        per_cell = 1 / np.bincount(self.piece_cell, minlength=self.cells)
        np.maximum.at(cost, self.piece_cluster, np.where(deviation > 0, per_cell[self.piece_cell], 0.0))
        wobble = float((expected**2 / np.maximum(1 - cost, 1e-9)).sum())
        return VariancePart(variance, float(expected.sum()) ** 2 / wobble if wobble > 0 else np.inf)

    def _likeness(self, centred: Floats, deviation: Floats) -> float:
        """Correlation of two items of one cluster, at least 0; 0 where every item is a cluster of its own."""
        if self.clusters == len(self.cell):
            return 0.0
        standard = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)
        cluster = self.piece_cluster[self.piece]
        size = np.bincount(cluster, deviation > 0)
        pairs = float((size * (size - 1)).sum())
        if not pairs:
            return 0.0
        total = np.bincount(cluster, standard)
        return float(np.clip((total @ total - standard @ standard) / pairs, 0, 1))

    def seed_part(self, weights: Floats) -> VariancePart:
        """Variance of a weighted sum that comes from seeds, every condition with its own, shrunken (moderated).

        Degrees of freedom over conditions are Satterthwaite's with a part of the correction for what squaring estimated
        variances does (Welch 1947 adds and subtracts 2). Five conditions of two seeds, all alike, have 5; without the
        correction the estimate is near 2, and with all of it intervals hold the truth in 91 to 95 %.
        """
        variance = wobble = 0.0
        for k, row in enumerate(weights):
            if not row.any():
                continue
            own = self._moderated(k, row)
            own_variance = own.variance / self.seeds[k].number
            variance += own_variance
            if own_variance > 0:
                wobble += own_variance**2 / (own.df + 1)
        return VariancePart(variance, variance**2 / wobble - 1 if wobble > 0 else 0.0)

    def _moderated(self, k: int, row: Floats) -> VariancePart:
        """Variance of what one seed of condition ``k`` scores, weighted by ``row``.

        The mean of its own variance, with seeds - 1 degrees of freedom, and of a centre over all conditions that counts
        for ``PRIOR_DF`` more (Smyth 2004). The centre is geometric, so that one unstable condition does not widen the
        intervals of the others.
        """
        spreads, dfs = [], []
        for seeds in self.seeds:
            if seeds.df:
                spreads.append(float(row @ seeds.spread @ row))
                dfs.append(float(seeds.df))
        if not spreads:
            return VariancePart(0.0, 0.0)
        pooled = float(np.average(spreads, weights=dfs))
        df = self.seeds[k].df
        if df == 0:
            # One seed here, several elsewhere: training is taken to vary as much as there, and the cell is flagged.
            return VariancePart(pooled, sum(dfs))
        own = float(row @ self.seeds[k].spread @ row)
        if len(spreads) < 2 or pooled == 0:
            return VariancePart(own, df)
        half = np.array(dfs) / 2
        logs = np.log(np.maximum(spreads, LEAST_SPREAD * pooled)) - special.digamma(half) + np.log(half)
        centre = float(np.exp(np.average(logs, weights=1 / special.polygamma(1, half))))
        return VariancePart((PRIOR_DF * centre + df * own) / (PRIOR_DF + df), PRIOR_DF + df)

    def noise(self, weights: Floats) -> float:
        """The part of the variance that both items and seeds hold, because single answers are left to chance."""
        total = 0.0
        for row, seeds in zip(weights, self.seeds, strict=True):
            total += float(row @ seeds.noise @ row) / seeds.number
        return total


def combine_parts(items: VariancePart, seeds: VariancePart, noise: float) -> VariancePart:
    """Squared standard error from items and seeds, with degrees of freedom that give its interval.

    Both parts hold the noise of single answers, so it is subtracted once (Cornfield and Tukey 1956). Seeds can lie
    closer together than noise lets them, by chance; that counts down to a quarter of the noise, because otherwise
    intervals are too long where seeds do not vary at all. Satterthwaite's interval (1946) is too short where few seeds
    vary much, that of Graybill and Wang (1980) too long where they vary little: the squared half-width is a mean of
    both.
    """
    if not seeds.df:
        return items
    rest = max(items.variance - noise, 0.0)
    least = max(items.variance - (1 - LEAST_NOISE) * noise, 0.0)
    variance = max(rest + seeds.variance, least)
    wobble = rest**2 / items.df + seeds.variance**2 / seeds.df
    if not wobble > 0:
        return VariancePart(variance, items.df)
    satterthwaite_df = max((rest + seeds.variance) ** 2 / wobble, 1.0)
    short = _half_width(satterthwaite_df) ** 2 * (rest + seeds.variance)
    inner = _half_width(items.df) ** 2
    long = inner * rest + _half_width(max(seeds.df, 1.0)) ** 2 * seeds.variance
    least_squared = inner * least
    squared = SATTERTHWAITE_SHARE * max(short, least_squared) + (1 - SATTERTHWAITE_SHARE) * max(long, least_squared)
    ratio = float(np.sqrt(squared / variance))
    if ratio <= _half_width(np.inf) * (1 + 1e-6):
        return VariancePart(variance, np.inf)
    return VariancePart(variance, max(float(special.stdtridf((1 + LEVEL) / 2, ratio)), 1.0))


def _half_width(df: float) -> float:
    """Half the width of a 95 % interval in standard errors."""
    return float(special.stdtrit(df, (1 + LEVEL) / 2))


def estimate_contrast(gains: Gains | Moments, weights: Floats) -> Contrast:
    """Estimate sum_kj w_kj gain_kj, where gain_kj is the mean over the items of level j of (trained on k - untrained).

    Answers are paired by item, so what makes an item easy for both models cancels. Variance has two crossed sources:
    items (other items of the level could have been chosen; those of one cluster count as dependent) and seeds (training
    could have gone differently). Every training condition has a seed variance of its own, slightly shrunken towards the
    others' (:meth:`Moments.seed_part`); :func:`combine_parts` puts the two together. With a single seed, chance
    variation of training is not in the standard error, and intervals are about this trained model only.

    Assumes that items, or their clusters, are a sample of their level and seeds of all seeds, and that every model
    answered every item. NaN where nothing varies, or where a level has a single cluster.
    """
    moments = gains if isinstance(gains, Moments) else Moments(gains)
    weights = np.repeat(weights, moments.groups, axis=1)  # the groups of a level count like levels of their own
    estimate = 0.0
    for row, gain in zip(weights, moments.gain, strict=True):
        if row.any():
            estimate += float(row @ moments.cell_means(gain))
    items = moments.item_part(weights)
    total = combine_parts(items, moments.seed_part(weights), moments.noise(weights))
    se, df = float(np.sqrt(total.variance)), total.df
    if not se > ROUNDING:
        return Contrast(estimate, se, df, np.nan, np.nan, np.nan)
    df = max(df, 1.0)
    half = _half_width(df) * se
    p = float(2 * special.stdtr(df, -abs(estimate) / se))
    return Contrast(estimate, se, df, estimate - half, estimate + half, p)


def cell_weights(rows: int, levels: int, k: int, j: int) -> Floats:
    """Weights of one cell."""
    weights = np.zeros((rows, levels))
    weights[k, j] = 1.0
    return weights


def pairing_ratio(gains: Gains) -> float:
    """How much pairing by item helps: standard error of a gain over that of a difference of two independent
    accuracies (the root of the sum of their variances), median over cells; NaN where nothing varies.

    Below 1, items that are hard for the untrained model are hard for the trained one too, and that part cancels.
    """
    rows = len(gains.trained)
    nothing = np.zeros(len(gains.level))
    paired = Moments(gains)
    alone = Moments(gains._replace(baseline=nothing))
    before = Moments(gains._replace(trained=(gains.baseline[None],), baseline=nothing))
    ratios = []
    for k in range(rows):
        for j in range(gains.levels):
            weights = cell_weights(rows, gains.levels, k, j)
            own = estimate_contrast(before, weights[k : k + 1]).se
            unpaired = float(np.hypot(estimate_contrast(alone, weights).se, own))
            if unpaired > 0:
                ratios.append(estimate_contrast(paired, weights).se / unpaired)
    return float(np.median(ratios)) if ratios else float("nan")


def distance_weights(levels: int) -> tuple[Floats, Floats]:
    """Weights of the slope of gain against the distance of levels, and of the asymmetry.

    Least squares of gain_kj on |k - j| and on the direction (+1/2 where the training level is the easier one, -1/2
    where it is the harder one), with a separate effect for every test level and for every training level. So a training
    level that simply has better data, or a test level on which everything gains, is neither fading nor asymmetry.

    What can be known: the slope, the gain lost per level of distance (negative: gains fade). Of a difference between
    directions, only what is not proportional to distance: (j - k) is a sum of an effect of j and one of k. A difference
    that is the same at every distance can be estimated, because training levels that differ in quality would make it
    grow with distance; four fifths of its sum of squares are given up for that. One that does grow in proportion to
    distance, as where gains fade faster in one direction, cannot be told from training levels of different quality, and
    counts as 0 here.
    """
    k, j = np.indices((levels, levels))
    columns = [np.abs(k - j), np.sign(j - k) / 2]
    for level in range(levels):
        columns += [j == level, k == level]
    design = np.stack([column.ravel().astype(np.float64) for column in columns], axis=1)
    # The two sets of effects share their mean, which leaves slope and direction as they are.
    solved = np.linalg.pinv(design)
    return solved[0].reshape(levels, levels), solved[1].reshape(levels, levels)

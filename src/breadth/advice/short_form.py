"""A few items that stand for all: a stratified sample, the plain estimate from it, and an estimate with help of models.

Arrays in, arrays out. ``reference`` is a complete matrix of right and wrong answers [models, items].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from breadth.advice.families import FEWEST_FAMILIES, mean_of_families, reach_to_another, thin_families
from breadth.inference import LEVEL, Floats
from breadth.irt import MODELS, Answers, Parameters, score

Indices = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]
Matrix = npt.NDArray[Any]

#: Leave-one-out R squared from which reference models are taken to predict each other.
LEAST_R2 = 0.6

#: Quantiles of the reference models' scores that bound the range: low, high, and high for the assisted estimate.
RANGE = (0.02, 0.95, 0.9)

#: Standard errors by which the plain estimate may lie outside that range.
BEYOND = 0.5

#: What a short form may lie below the range of the reference models, beyond that.
SLACK = 0.02

#: The variance of the plain estimate is at least this share of that of a simple random sample: with two items per
#: stratum it can come out as 0.
LEAST_SHARE = 0.5

#: Fewest degrees of freedom of the plain estimate's variance; its floor makes up for the rest.
FEWEST_DF = 5.0

#: Penalties of ridge regression, and penalties and reaches of kernels, that are tried.
PENALTIES = 10.0 ** np.arange(-1, 5, 0.5)
SMOOTH_PENALTIES, REACHES = 10.0 ** np.arange(-2, 2, 0.5), (0.1, 0.2, 0.4)

#: Factor by which intervals are widened beyond the references' own errors: new models are rarely quite like them.
WIDER = 1.1

#: Reference models that the kernel knows: the time grows with their cube.
MOST_REFERENCES = 800


def make_strata(share: Floats, testset: Indices, k: int) -> Indices:
    """Stratum of every item: k / 2 groups of equal size, by test set and then by the share of right answers.

    Every other test set runs from hard to easy, so that a stratum that reaches into the next set holds items of like
    difficulty.
    """
    number = np.unique(testset, return_inverse=True)[1]
    order = np.lexsort((np.where(number % 2, -share, share), number))
    strata = np.empty(len(share), dtype=np.intp)
    strata[order] = np.arange(len(share)) * max(k // 2, 1) // len(share)
    return strata


def draw_from_strata(strata: Indices, k: int, seed: int = 0) -> Indices:
    """Two random items of every stratum, three of the largest if k is odd; in order."""
    generator = np.random.default_rng(seed)
    size = np.bincount(strata)
    take = np.full(len(size), 2)
    take[np.argmax(size)] += k - take.sum()
    drawn = [generator.choice(np.flatnonzero(strata == h), take[h], replace=False) for h in range(len(size))]
    return np.sort(np.concatenate(drawn))


class PlainEstimate(NamedTuple):
    """The stratified mean of every model with its standard error and 95 % interval."""

    mean: Floats
    se: Floats
    low: Floats
    high: Floats


def plain_estimate(answers: Matrix, chosen: Indices, strata: Indices) -> PlainEstimate:
    """The full score from the answers [models, k] to the chosen items: mean of strata, weighted by their size.

    It assumes nothing about the models. The variance is that of stratified sampling without replacement (Cochran 1977),
    but at least half that of a simple random sample; the interval is Wilson's with the sample size that would give it,
    and t quantiles with Satterthwaite's degrees of freedom.
    """
    own = strata[chosen]
    size, taken = np.bincount(strata).astype(np.float64), np.bincount(own).astype(np.float64)
    weight = size / len(strata)
    member = (own[:, None] == np.arange(len(size))) / taken
    inside = answers @ member
    mean = inside @ weight
    squares = (answers.astype(np.float64) ** 2) @ member - inside**2
    parts = squares * taken / np.maximum(taken - 1, 1) * (weight**2 * (1 - taken / size) / taken)
    variance = parts.sum(axis=1)
    # Every stratum adds a degree of freedom or two, those without variation none.
    df = np.divide(
        variance**2, (parts**2 / np.maximum(taken - 1, 1)).sum(axis=1), out=np.full(len(mean), 30.0), where=variance > 0
    )
    z = special.stdtrit(np.maximum(df, FEWEST_DF), (1 + LEVEL) / 2)
    k, left = len(chosen), 1 - len(chosen) / len(strata)
    middle = (mean * k + 2) / (k + 4)
    variance = np.maximum(variance, LEAST_SHARE * middle * (1 - middle) / k * left)
    n = np.maximum(middle * (1 - middle) / np.maximum(variance, 1e-12), 1.0)
    centre, reach = mean + z**2 / (2 * n), z * np.sqrt(mean * (1 - mean) / n + z**2 / (4 * n * n))
    low, high = (centre - reach) / (1 + z**2 / n), (centre + reach) / (1 + z**2 / n)
    # Rounding alone can bring the ends of a perfect score past 0 and 1.
    low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    return PlainEstimate(mean, (high - low) / (2 * z), low, high)


class Ridge(NamedTuple):
    """Coefficients [columns, targets] of penalised and free columns, and leave-one-out residuals [models, targets]."""

    penalised: Floats
    free: Floats
    residual: Floats


def fit_ridge(penalised: Floats, free: Floats, targets: Floats) -> Ridge:
    """Ridge regression of targets [models, targets] on columns of which the ``free`` ones are not penalised.

    The penalty of every target is the one with the smallest leave-one-out error.
    """
    basis, _ = np.linalg.qr(free)
    left, values, right = np.linalg.svd(penalised - basis @ (basis.T @ penalised), full_matrices=False)
    rest = targets - basis @ (basis.T @ targets)
    along, leverage = left.T @ rest, (basis**2).sum(axis=1)
    least = np.full(targets.shape[1], np.inf)
    chosen, residual = np.empty(len(least)), np.empty_like(rest)
    for penalty in PENALTIES:
        shrink = values**2 / (values**2 + penalty)
        left_out = np.maximum(1 - leverage - left**2 @ shrink, 1e-3)
        trial = (rest - left @ (shrink[:, None] * along)) / left_out[:, None]
        loss = (trial**2).mean(axis=0)
        better = loss < least
        least[better], chosen[better], residual[:, better] = loss[better], penalty, trial[:, better]
    slope = right.T @ (values[:, None] / (values[:, None] ** 2 + chosen) * along)
    unpenalised = np.linalg.lstsq(free, targets - penalised @ slope, rcond=None)[0]
    return Ridge(slope, unpenalised.astype(np.float64), residual)


class Smooth(NamedTuple):
    """Kernel ridge regression: weights of the references, coefficients of free columns, reach of the kernel.

    ``alone`` are the errors of models that are left out one by one, ``residual`` those of whole families left out where
    families are known, else the same.
    """

    weights: Floats
    free: Floats
    reach: float
    residual: Floats
    alone: Floats


def fit_smooth(answers: Matrix, free: Floats, target: Floats, family: Indices | None = None) -> Smooth:
    """Kernel ridge regression of a target on answers [models, k], with ``free`` columns that are not penalised.

    Models are alike by the share of items on which they agree: exp(-share apart / reach). Reach and penalty are those
    with the smallest leave-one-out error. This is the mean of a Gaussian process, so models that descend from a known
    one are scored by what is known of it. With the ``family`` of every model, residuals are those of whole families
    left out, and a model counts 1 / sqrt(n) in a family of n when reach and penalty are chosen.
    """
    apart = disagreement(answers, answers)
    outside = np.linalg.qr(free, mode="complete")[0][:, free.shape[1] :]
    within = outside.T @ target
    importance = np.ones(len(target)) if family is None else np.bincount(family)[family] ** -0.5
    best: tuple[float, Floats, float, Floats] | None = None
    for reach in REACHES:
        kernel = np.exp(-apart / reach)
        values, vectors = np.linalg.eigh(outside.T @ kernel @ outside)
        basis, along = outside @ vectors, vectors.T @ within
        for penalty in SMOOTH_PENALTIES:
            inverse = 1 / (np.maximum(values, 0) + penalty)
            weights = basis @ (inverse * along)
            alone = weights / np.maximum(basis**2 @ inverse, 1e-12)
            residual = alone
            if family is not None:
                residual = _without_families(basis, inverse, weights, family)
            error = float((importance * residual**2).mean())
            if best is None or error < best[0]:
                rest = target - kernel @ weights - penalty * weights
                best = (error, weights, reach, np.column_stack([residual, alone, rest]))
    assert best is not None
    residual, alone, rest = best[3].T
    coefficients = np.linalg.lstsq(free, rest, rcond=None)[0]
    return Smooth(best[1], np.asarray(coefficients, dtype=np.float64), best[2], residual, alone)


def _without_families(basis: Floats, inverse: Floats, weights: Floats, family: Indices) -> Floats:
    """Errors of a kernel regression for the models of every family if it is left out.

    With H = basis diag(inverse) basis^T, so that the weights are H y, the errors of the models B are the solution e of
    H_BB e = weights_B. For a single model this is the usual weight over the diagonal of H.
    """
    residual = np.empty(len(weights))
    for number in range(int(family.max()) + 1):
        own = family == number
        block = (basis[own] * inverse) @ basis[own].T
        # Copies of one model make the block singular where the penalty is small.
        block[np.diag_indices_from(block)] += 1e-10
        residual[own] = np.linalg.solve(block, weights[own])
    return residual


def disagreement(one: Matrix, two: Matrix) -> Floats:
    """Share of items [models of one, models of two] on which two models are not both right or both wrong."""
    first, second = one.astype(np.float64), two.astype(np.float64)
    both = first @ second.T + (1 - first) @ (1 - second).T
    return np.asarray(1 - both / one.shape[1])


def spread_of(share: Floats) -> Floats:
    """How far errors of an estimated share reach, up to a factor: they shrink towards 0 and 1."""
    inside = np.clip(share, 0.02, 0.98)
    return np.sqrt(inside * (1 - inside))


class Estimate(NamedTuple):
    """Full scores of models from a short form; the rule's choice first, then what it chose from.

    ``predicts``, ``in_range`` and ``agrees`` are the checks of the assisted estimate; it is ``used`` if all pass.
    """

    score: Floats
    low: Floats
    high: Floats
    used: Bools
    plain: PlainEstimate
    assisted: Floats
    assisted_low: Floats
    assisted_high: Floats
    predicts: Bools
    in_range: Bools
    agrees: Bools


@dataclass(frozen=True, eq=False)
class ShortFormScorer:
    """A short form that knows how reference models answered all items.

    The assisted estimate is the expected score at the ability that the answers show (2PL), corrected by a regression of
    the reference models' scores on it, on the plain estimate, and on the answers themselves (:func:`fit_smooth`).
    Its interval comes from leave-one-out errors of the reference models (conformal), a tenth wider; or, where their
    families are known, from errors of whole families left out (:func:`reach_to_another`) if these reach farther, and is
    then about a model of another family. It is used only where

    - the reference models predict each other (leave-one-out R squared of at least 0.6);
    - the model lies in their range: the plain estimate at most half a standard error above their 95 % quantile or below
      their 2 % quantile; the assisted estimate at most at the 90 % quantile of theirs, or at their largest if the plain
      one is not above it;
    - it lies in the plain estimate's interval.

    Otherwise the plain estimate is given. Outside the range, estimates that learn from references are badly wrong.
    """

    items: Parameters
    chosen: Indices
    strata: Indices
    smooth: Smooth
    known: Matrix
    scores: Floats
    r2: float
    family: Indices | None = None

    @classmethod
    def of(cls, reference: Matrix, chosen: Indices, strata: Indices, family: Indices | None = None) -> ShortFormScorer:
        """Learn from the reference models' answers to all items; ``family`` numbers their families from 0."""
        cells = np.ascontiguousarray(reference, dtype=np.int8)
        items = MODELS["2pl"].fit(Answers.of(cells), errors=False).items
        if family is not None:
            some = thin_families(family, MOST_REFERENCES)
            cells, family = cells[some], np.unique(family[some], return_inverse=True)[1].astype(np.intp)
        elif len(cells) > MOST_REFERENCES:
            cells = cells[np.random.default_rng(0).permutation(len(cells))[:MOST_REFERENCES]]
        scores, known = cells.mean(axis=1, dtype=np.float64), cells[:, chosen]
        smooth = fit_smooth(known, _free(items, known, chosen, strata), scores, family)
        r2 = _explained_share(scores, smooth.residual, family)
        return cls(items, chosen, strata, smooth, known, scores, r2, family)

    def score(self, answers: Matrix) -> Estimate:
        """Full scores of models from their answers [models, k] to the chosen items."""
        plain = plain_estimate(answers, self.chosen, self.strata)
        kernel = np.exp(-disagreement(answers, self.known) / self.smooth.reach)
        free = _free(self.items, answers, self.chosen, self.strata)
        assisted = np.clip(kernel @ self.smooth.weights + free @ self.smooth.free, 0.0, 1.0)
        fitted = self.scores - self.smooth.residual
        level = min(1.0, LEVEL * (1 + 1 / len(fitted)))
        alone = np.abs(self.smooth.alone) / spread_of(self.scores - self.smooth.alone)
        factor = WIDER * float(np.quantile(alone, level))
        if self.family is not None:
            # An interval for a model of another family is never narrower than one for a model like the references.
            factor = max(factor, reach_to_another(self.smooth.residual / spread_of(fitted), self.family))
        reach = factor * spread_of(assisted)
        assisted_low, assisted_high = np.maximum(assisted - reach, 0), np.minimum(assisted + reach, 1)
        lowest, highest = np.quantile(self.scores, RANGE[:2])
        predicts = np.full(len(answers), self.r2 >= LEAST_R2)
        inside = (plain.mean - BEYOND * plain.se <= highest) & (plain.mean + BEYOND * plain.se >= lowest - SLACK)
        # Of a model that is stronger than the references, the plain estimate lies above the assisted one.
        inside &= (assisted <= np.quantile(fitted, RANGE[2])) | ((assisted <= fitted.max()) & (plain.mean <= assisted))
        agrees = (assisted >= plain.low) & (assisted <= plain.high)
        used = predicts & inside & agrees
        return Estimate(
            np.where(used, assisted, plain.mean),
            np.where(used, assisted_low, plain.low),
            np.where(used, assisted_high, plain.high),
            *(used, plain, assisted, assisted_low, assisted_high, predicts, inside, agrees),
        )


def _explained_share(scores: Floats, residual: Floats, family: Indices | None) -> float:
    """Share of the variance of the scores that held-out predictions explain; every family counts once."""
    if family is None:
        spread, left = float(scores.var()), float((residual**2).mean())
    else:
        middle = float(mean_of_families(scores, family).mean())
        spread = float(mean_of_families((scores - middle) ** 2, family).mean())
        left = float(mean_of_families(residual**2, family).mean())
    return 1 - left / spread if spread > 0 else 0.0


def _free(items: Parameters, answers: Matrix, chosen: Indices, strata: Indices) -> Floats:
    """Columns without a penalty: 1, the expected score at the ability that the answers show, the plain estimate."""
    own = Parameters(*(values[chosen] for values in items))
    cells = np.ascontiguousarray(answers, dtype=np.int8)
    expected = items.probability(score(Answers.of(cells), own).ability)
    plain = plain_estimate(cells, chosen, strata).mean
    return np.column_stack([np.ones(len(cells)), np.nanmean(expected, axis=1), plain])


class Trial(NamedTuple):
    """Errors (estimate minus full score) of the rule and of the plain estimate on held-out models, and coverage.

    ``width`` is that of the rule's intervals.
    """

    error: Floats
    plain_error: Floats
    covered: Bools
    used: Bools
    width: Floats


def try_short_form(
    matrix: Matrix,
    testset: Indices,
    k: int,
    learn: Indices,
    test: Indices,
    seed: int = 0,
    family: Indices | None = None,
) -> Trial:
    """Make a short form from some models, and score others with it, whose full scores are known.

    ``family`` numbers the families of all models; None takes them as independent, as do too few families to learn from
    (the weaker half of the models may be of one or two).
    """
    own = None
    if family is not None and len(np.unique(family[learn])) >= FEWEST_FAMILIES:
        own = np.unique(family[learn], return_inverse=True)[1].astype(np.intp)
    reference = matrix[learn]
    strata = make_strata(reference.mean(axis=0, dtype=np.float64), testset, k)
    chosen = draw_from_strata(strata, k, seed)
    estimate = ShortFormScorer.of(reference, chosen, strata, own).score(matrix[test][:, chosen])
    truth = matrix[test].mean(axis=1, dtype=np.float64)
    covered = (estimate.low <= truth) & (truth <= estimate.high)
    width = estimate.high - estimate.low
    return Trial(estimate.score - truth, estimate.plain.mean - truth, covered, estimate.used, width)


def random_split(models: int, seed: int) -> tuple[Indices, Indices]:
    """Three quarters of the models to learn from, the others to test on."""
    order = np.random.default_rng(seed).permutation(models)
    cut = models * 3 // 4
    return order[:cut], order[cut:]


def strong_split(scores: Floats) -> tuple[Indices, Indices]:
    """The weaker half of the models to learn from, the strongest 30 % to test on."""
    order = np.argsort(scores, kind="stable")
    return order[: len(order) // 2], order[-max(1, round(0.3 * len(order))) :]


def family_split(family: Indices, seed: int) -> tuple[Indices, Indices]:
    """A random quarter of the families to test on, the models of the others to learn from: at least half of all."""
    size = np.bincount(family)
    left_out: list[int] = []
    for number in np.random.default_rng(seed).permutation(len(size)):
        if 4 * len(left_out) >= len(size):
            break
        if len(family) - size[[*left_out, number]].sum() >= len(family) / 2:
            left_out.append(int(number))
    test = np.isin(family, left_out)
    return np.flatnonzero(~test), np.flatnonzero(test)

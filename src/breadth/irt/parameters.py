"""Item parameters: their curves, their prior distributions, fixed values and estimates.

All that depends on which parameters the curve of an item has is in this module.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from breadth.errors import InputError
from breadth.irt.answers import Bools, Floats

#: Parameters of an item as calibrations name them, and what an item has that is only known by its difficulty.
ITEM_PARAMETERS = {"difficulty": float("nan"), "discrimination": 1.0, "guessing": 0.0, "ceiling": 1.0}

#: Abilities, in standard deviations of their distribution, at which items are evaluated: SPACING apart up to a slope of
#: SLOPE_PER_SPACING, closer for steeper items. The likelihood is exact to 0.05 up to STEEPEST; no slope is larger than
#: LARGEST_SLOPE.
SPACING = 0.25
HALF_RANGE = 6.5
SLOPE_PER_SPACING = 4.0
STEEPEST = 20.0
LARGEST_SLOPE = 40.0
CLOSEST = 8

#: Items whose curves are evaluated together.
ITEMS_AT_ONCE = 1000

#: Estimated asymptotes stay within the logistic of plus and minus this.
LARGEST_LOGIT = 12


class Parameters(NamedTuple):
    """Items as P = g + (1 - g - s) / (1 + exp(-(a theta + d))), with d = -a b; arrays [J].

    ``slip`` s is what the curve falls short of 1 for the ablest: one minus the upper asymptote. Which parameters are
    free is said by masks [4, J] in the order of the fields.
    """

    slope: Floats
    intercept: Floats
    guessing: Floats
    slip: Floats

    @classmethod
    def of(
        cls,
        difficulty: Floats,
        discrimination: Floats,
        guessing: Floats | None = None,
        ceiling: Floats | None = None,
    ) -> Parameters:
        """Items from their difficulties; NaN or infinity where one is not known.

        >>> Parameters.of(np.array([-1.0, 0.5]), np.array([1.0, 2.0])).intercept.tolist()
        [1.0, -1.0]
        """
        b, a = np.asarray(difficulty, dtype=np.float64), np.asarray(discrimination, dtype=np.float64)
        g = np.zeros(b.shape) if guessing is None else np.asarray(guessing, dtype=np.float64)
        u = np.ones(b.shape) if ceiling is None else np.asarray(ceiling, dtype=np.float64)
        for name, array in (("discrimination", a), ("guessing", g), ("ceiling", u)):
            if array.shape != b.shape:
                raise InputError(f"There are {b.size} values of difficulty but {array.size} of {name}.")
        with np.errstate(invalid="ignore"):
            return cls(a, -a * b, g, 1 - u)

    def for_population(self, mean: float, sd: float) -> Parameters:
        """Items for ability in units of a N(mean, sd^2) population."""
        return self._replace(slope=self.slope * sd, intercept=self.intercept + self.slope * mean)

    def from_population(self, mean: float, sd: float) -> Parameters:
        """Undo :meth:`for_population`."""
        slope = self.slope / sd
        return self._replace(slope=slope, intercept=self.intercept - slope * mean)

    def probability(self, ability: NDArray[Any]) -> NDArray[Any]:
        """Chance of a right answer to every item: [..., J] for abilities [...]."""
        chance: NDArray[Any] = ability[..., None] * self.slope
        chance += self.intercept
        np.negative(chance, out=chance)
        with np.errstate(over="ignore"):
            np.exp(chance, out=chance)
        chance += 1
        np.reciprocal(chance, out=chance)
        if (self.guessing != 0).any() or (self.slip != 0).any():
            chance = self.guessing + (1 - self.guessing - self.slip) * chance
        return chance

    def information(self, ability: Floats) -> Floats:
        """Fisher information about ability [..., J]: (dP/dtheta)^2 / (P (1 - P)) (Birnbaum 1968)."""
        p = self.probability(ability)
        above, below = p - self.guessing, 1 - self.slip - p
        by_theta = self.slope * above * below / (1 - self.guessing - self.slip)
        information: Floats = by_theta**2 / np.maximum(p * (1 - p), 1e-300)
        return information

    def pack(self, free: Bools) -> Floats:
        """The free parameters in one vector: intercepts, slopes, logits of guessing and of slips."""
        chances = np.concatenate([self.guessing[free[2]], self.slip[free[3]]])
        logits = np.log(chances) - np.log1p(-chances)
        return np.concatenate([self.intercept[free[1]], self.slope[free[0]], logits])

    def unpack(self, free: Bools, vector: Floats) -> Parameters:
        """Replace the free parameters by those in a vector made by :meth:`pack`."""
        slope, intercept, guessing, slip = (array.copy() for array in self)
        sizes = np.cumsum([free[row].sum() for row in (1, 0, 2, 3)])
        intercept[free[1]], slope[free[0]], guess, slipped, _ = np.split(vector, sizes)
        for array, row, logit in ((guessing, 2, guess), (slip, 3, slipped)):
            array[free[row]] = 1 / (1 + np.exp(-np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT)))
        return Parameters(slope, intercept, guessing, slip)

    def moved(self, move: Floats, free: Bools) -> Parameters:
        """Add a step [4, J] in slope, intercept and logits of guessing and slip to what is free."""
        return self.unpack(free, self.pack(free) + np.concatenate([move[row][free[row]] for row in (1, 0, 2, 3)]))


class Curves(NamedTuple):
    """Tables [J, K] on the knots [K]: the logistic curve, and log(1 + exp(a theta + d))."""

    logistic: Floats
    log_one_plus: Floats
    knots: Floats


class LikelihoodScores(NamedTuple):
    """Derivatives of an item's log-likelihood: (right - probability) times ``direction``.

    ``probability`` and ``variance`` (P Q) are [J, K]; ``direction`` is [p, J, K], one table per parameter in the order
    slope, intercept, logit of guessing, logit of slip; ``ratio`` is that of the intercept, by which dP/dtheta =
    a P Q ratio.
    """

    probability: Floats
    variance: Floats
    direction: Floats
    ratio: Floats


def curves(items: Parameters, knots: Floats | None = None) -> Curves:
    """Evaluate the logistic part of every item on knots, by default as close as the steepest item needs."""
    if knots is None:
        steepest = float(np.abs(items.slope).max(initial=0.0))
        closeness = int(np.clip(np.ceil(steepest / SLOPE_PER_SPACING), 1, CLOSEST))
        knots = np.linspace(-HALF_RANGE, HALF_RANGE, round(2 * HALF_RANGE / SPACING) * closeness + 1)
    logistic, log_one_plus = (np.empty((items.slope.size, knots.size)) for _ in range(2))
    # In blocks that stay in the processor's cache: large tables are slow to come by.
    for start in range(0, items.slope.size, ITEMS_AT_ONCE):
        block = slice(start, start + ITEMS_AT_ONCE)
        z = items.slope[block, None] * knots
        z += items.intercept[block, None]
        small = np.exp(-np.abs(z))
        upper = 1 / (1 + small)
        np.multiply(small, upper, out=logistic[block])
        np.copyto(logistic[block], upper, where=z >= 0)
        # log(1 + x) rather than log1p: the absolute error is what counts in a sum, and log is vectorised.
        np.add(small, 1, out=small)
        np.log(small, out=small)
        np.maximum(z, 0, out=z)
        np.add(small, z, out=log_one_plus[block])
    return Curves(logistic, log_one_plus, knots)


def log_answers(items: Parameters, at: Curves) -> tuple[Floats, Floats]:
    """Log-odds of a right answer and log chance of a wrong one, [J, K] on the knots."""
    g, s = items.guessing[:, None], items.slip[:, None]
    if not (g > 0).any() and not (s > 0).any():
        return items.slope[:, None] * at.knots + items.intercept[:, None], -at.log_one_plus
    log_wrong = np.log1p(-g) - at.log_one_plus
    if (s > 0).any():
        log_wrong = np.log(s + (1 - g - s) * np.exp(-at.log_one_plus))
    return np.log(g + (1 - g - s) * at.logistic) - log_wrong, log_wrong


def likelihood_scores(items: Parameters, at: Curves, free: Bools | None = None) -> LikelihoodScores:
    """Evaluate the scores of every item on the knots: by slope and intercept, or by all that is free [4, J]."""
    logistic, _, knots = at
    one, g, s = np.ones_like(logistic), items.guessing[:, None], items.slip[:, None]
    if not (g > 0).any() and not (s > 0).any() and (free is None or not free[2:].any()):
        return LikelihoodScores(logistic, logistic * (1 - logistic), np.stack([one * knots, one]), one)
    rest = np.exp(-at.log_one_plus)
    probability = g + (1 - g - s) * logistic
    wrong = s + (1 - g - s) * rest
    ratio = (1 - g - s) * logistic / probability * (rest / np.maximum(wrong, 1e-300))
    direction = [ratio * knots, ratio]
    if free is not None and free[2:].any():
        direction.append(free[2][:, None] * g * (1 - g) / probability * (rest / np.maximum(wrong, 1e-300)))
    if free is not None and free[3].any():
        direction.append(free[3][:, None] * -s * (1 - s) / np.maximum(wrong, 1e-300) * (logistic / probability))
    return LikelihoodScores(probability, probability * wrong, np.stack(direction), ratio)


def bends(items: Parameters, at: Curves, free: Bools, n: int) -> dict[tuple[int, int], Floats]:
    """Second derivatives of P by the parameters of :func:`likelihood_scores`, over P (1 - P): tables [J, K] by pair."""
    g, s = items.guessing[:, None], items.slip[:, None]
    rest = np.exp(-at.log_one_plus)
    product = np.maximum((g + (1 - g - s) * at.logistic) * (s + (1 - g - s) * rest), 1e-300)
    steep = at.logistic * rest / product
    twice = (1 - g - s) * steep * (1 - 2 * at.logistic)
    tables = {(1, 1): twice, (0, 1): twice * at.knots, (0, 0): twice * at.knots**2}
    for row, chance, far in ((2, g, rest), (3, s, -at.logistic)):
        if row < n:
            by_logit = free[row][:, None] * chance * (1 - chance)
            tables[1, row], tables[0, row] = -by_logit * steep, -by_logit * steep * at.knots
            tables[row, row] = by_logit * (1 - 2 * chance) * far / product
    return tables


class Common(NamedTuple):
    """What the items of a calibration have in common: mean and spread of their slopes, and their mean difficulty."""

    slope_mean: float
    slope_sd: float
    difficulty_mean: float


class PriorTerms(NamedTuple):
    """What priors say at some items: their log density [J] up to a constant, its gradient [J, 4], and their curvature.

    Derivatives are by slope, intercept and logits of guessing and slip. ``curvature`` [J, 4, 4] is the information that
    priors add; a fixed asymptote gets an information of 1, which keeps matrices invertible.
    """

    log_density: Floats
    gradient: Floats
    curvature: Floats


class Priors(NamedTuple):
    """Weak prior distributions of item parameters, which say nothing about the location and scale of ability.

    ``intercept_sd``
        Items' log-odds of a right answer at their mean difficulty, which is estimated, are N(0, intercept_sd^2). With
        a = 1 this is a N(mean, 5^2) prior on difficulty. It is put on the log-odds because the posterior then stays
        concave, and an item that does not discriminate (a near 0) is not pushed towards a particular difficulty.
    ``slope_ratio``, ``slope_items``
        Discriminations are N(m, s^2), and both m and s are estimated: normal rather than log-normal, because a
        log-normal prior forbids the negative slopes that reveal a wrong label. For s there is a prior worth
        ``slope_items`` items, which expects ``slope_ratio`` times the root mean square of the slopes.
    ``spread_log_sd``
        Where the spread of ability is estimated, its log is N(0, 1): the common slope of the Rasch model, or the
        standard deviation of ability beside fixed items. It cannot be negative, and few answers must not make it 0.
    ``guessing_right``, ``guessing_wrong``
        The lower asymptote is Beta(3, 9): most likely near 0.2, worth ten answers given by guessing.
    ``ceiling_wrong``, ``ceiling_right``
        The upper asymptote falls short of 1 by Beta(2, 20): most likely by 0.05, worth twenty answers.

    None everywhere (:meth:`none`) is pure maximum likelihood.
    """

    intercept_sd: float | None = 5.0
    slope_ratio: float | None = 1.0
    slope_items: float = 5.0
    spread_log_sd: float | None = 1.0
    guessing_right: float | None = 3.0
    guessing_wrong: float = 9.0
    ceiling_wrong: float | None = 2.0
    ceiling_right: float = 20.0

    @classmethod
    def none(cls) -> Priors:
        """Maximum likelihood, without priors. Items that all or none got right then have no finite estimate."""
        return cls(intercept_sd=None, slope_ratio=None, spread_log_sd=None, guessing_right=None, ceiling_wrong=None)

    def at(self, items: Parameters, free: Bools, common: Common) -> PriorTerms:
        """Evaluate the priors of the free parameters [4, J] of items that have something in common."""
        mean, sd, beta = common
        on_slope = 0.0 if self.slope_ratio is None else sd**-2
        on_intercept = 0.0 if self.intercept_sd is None else float(self.intercept_sd**-2)
        off, apart = items.intercept + items.slope * beta, items.slope - mean
        density: Floats = -(free[0] * on_slope * apart**2 + free[1] * on_intercept * off**2) / 2
        gradient = np.stack([-on_slope * apart - beta * on_intercept * off, -on_intercept * off, off, off])
        curvature = np.zeros((off.size, 4, 4))
        curvature[:, 0, 0] = free[0] * (on_slope + on_intercept * beta**2)
        curvature[:, 0, 1] = curvature[:, 1, 0] = free[0] * on_intercept * beta
        curvature[:, 1, 1] = on_intercept
        betas = ((self.guessing_right, self.guessing_wrong), (self.ceiling_wrong, self.ceiling_right))
        for row, (ones, zeros) in zip((2, 3), betas, strict=True):
            chance = np.where(free[row], items[row], 0.5)
            up, down = (0.0, 0.0) if ones is None else (ones - 1, zeros - 1)
            density += free[row] * (up * np.log(chance) + down * np.log1p(-chance))
            gradient[row] = up * (1 - chance) - down * chance
            curvature[:, row, row] = np.where(free[row], (up + down) * chance * (1 - chance), 1.0)
        return PriorTerms(density, (gradient * free).T, curvature)


class Anchors(NamedTuple):
    """Items whose parameters are known from an earlier calibration: arrays [J], NaN where an item is free.

    With anchors the scale is theirs: nothing is standardised, and the mean and standard deviation of ability are
    estimated. ``guessing`` may also be given alone, for a model with a known chance of guessing and no anchors.
    """

    difficulty: Floats
    discrimination: Floats
    guessing: Floats | None = None
    ceiling: Floats | None = None

    @classmethod
    def known_guessing(cls, guessing: Floats) -> Anchors:
        """Fix only the chance of guessing; difficulty and discrimination stay free."""
        free = np.full(guessing.size, np.nan)
        return cls(free, free, guessing)

    def checked(self, n_items: int) -> Anchors:
        """Return anchors of one length, difficulty and discrimination known together; refuse others."""
        unknown = np.full(n_items, np.nan)
        arrays = [np.asarray(unknown if array is None else array, dtype=np.float64) for array in self]
        for name, array in zip(self._fields, arrays, strict=True):
            if array.shape != (n_items,):
                raise InputError(f"Fixed {name} must have one value per item ({n_items}), not {array.size}.")
        half = np.isnan(arrays[0]) != np.isnan(arrays[1])
        if half.any():
            raise InputError(
                f"Item number {int(np.argmax(half))} has a fixed difficulty or discrimination, but not both."
            )
        if (arrays[1] == 0).any() or np.isinf(arrays[0]).any():
            raise InputError("A fixed item needs a finite difficulty and a discrimination other than 0.")
        if ((arrays[2] < 0) | (arrays[2] >= 1)).any():
            raise InputError("Fixed guessing must be at least 0 and below 1.")
        if ((arrays[3] <= 0) | (arrays[3] > 1)).any():
            raise InputError("A fixed ceiling must be above 0 and at most 1.")
        return Anchors(*arrays)


class ItemEstimates(NamedTuple):
    """Item parameters with standard errors, arrays [J], and how the fit went.

    Ability is N(0, 1) unless items were fixed; then it is N(ability_mean, ability_sd^2) on their scale. A fixed
    parameter has standard error 0. NaN marks an item without answers. ``log_likelihood`` is marginal and without the
    priors; ``parameters`` counts what was estimated; ``items`` are the estimates as curves, without a finite slope for
    an item that was left out.
    """

    difficulty: Floats
    discrimination: Floats
    guessing: Floats
    ceiling: Floats
    difficulty_se: Floats
    discrimination_se: Floats
    guessing_se: Floats
    ceiling_se: Floats
    log_likelihood: float
    parameters: int
    converged: bool
    iterations: int
    ability_mean: float
    ability_sd: float
    items: Parameters

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
ITEM_PARAMETERS = {"difficulty": float("nan"), "discrimination": 1.0, "guessing": 0.0}

SPACING = 0.25
HALF_RANGE = 6.5

#: Abilities, in standard deviations of their distribution, at which items are evaluated.
KNOTS: Floats = np.linspace(-HALF_RANGE, HALF_RANGE, round(2 * HALF_RANGE / SPACING) + 1)

#: Estimated guessing stays within the logistic of plus and minus this.
LARGEST_LOGIT = 12


class Parameters(NamedTuple):
    """Items as P = g + (1 - g) / (1 + exp(-(a theta + d))), with d = -a b; arrays [J].

    Which of them are free is said by masks [3, J] in the order of the fields.
    """

    slope: Floats
    intercept: Floats
    guessing: Floats

    @classmethod
    def of(cls, difficulty: Floats, discrimination: Floats, guessing: Floats | None = None) -> Parameters:
        """Items from their difficulties; NaN or infinity where one is not known.

        >>> Parameters.of(np.array([-1.0, 0.5]), np.array([1.0, 2.0])).intercept.tolist()
        [1.0, -1.0]
        """
        b, a = np.asarray(difficulty, dtype=np.float64), np.asarray(discrimination, dtype=np.float64)
        g = np.zeros(b.shape) if guessing is None else np.asarray(guessing, dtype=np.float64)
        for name, array in (("discrimination", a), ("guessing", g)):
            if array.shape != b.shape:
                raise InputError(f"There are {b.size} values of difficulty but {array.size} of {name}.")
        with np.errstate(invalid="ignore"):
            return cls(a, -a * b, g)

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
        return self.guessing + (1 - self.guessing) * chance if (self.guessing != 0).any() else chance

    def information(self, ability: Floats) -> Floats:
        """Fisher information about ability [..., J]: a^2 (Q / P) ((P - g) / (1 - g))^2 (Birnbaum 1968)."""
        p = self.probability(ability)
        odds = (1 - p) / np.maximum(p, 1e-300)
        information: Floats = self.slope**2 * odds * ((p - self.guessing) / (1 - self.guessing)) ** 2
        return information

    def pack(self, free: Bools) -> Floats:
        """The free parameters in one vector: intercepts, slopes, logits of guessing."""
        guessing = self.guessing[free[2]]
        logit = np.log(guessing) - np.log1p(-guessing)
        return np.concatenate([self.intercept[free[1]], self.slope[free[0]], logit])

    def unpack(self, free: Bools, vector: Floats) -> Parameters:
        """Replace the free parameters by those in a vector made by :meth:`pack`."""
        slope, intercept, guessing = (array.copy() for array in self)
        sizes = np.cumsum([free[1].sum(), free[0].sum(), free[2].sum()])
        intercept[free[1]], slope[free[0]], logit, _ = np.split(vector, sizes)
        guessing[free[2]] = 1 / (1 + np.exp(-np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT)))
        return Parameters(slope, intercept, guessing)

    def moved(self, move: Floats, free_guessing: Bools) -> Parameters:
        """Add a step [3, J] in slope, intercept and logit of guessing."""
        every = np.ones_like(free_guessing)
        free = np.stack([every, every, free_guessing])
        return self.unpack(free, self.pack(free) + np.concatenate([move[1], move[0], move[2][free_guessing]]))


class Curves(NamedTuple):
    """Tables [J, K] on the knots: the logistic curve, and log(1 + exp(a theta + d))."""

    logistic: Floats
    log_one_plus: Floats


class Scores(NamedTuple):
    """Derivatives of an item's log-likelihood: (right - probability) times ``direction``.

    ``probability`` and ``variance`` (P Q) are [J, K]; ``direction`` is [p, J, K], one table per parameter in the order
    slope, intercept, logit of guessing; ``ratio`` is that of the intercept, by which dP/dtheta = a P Q ratio.
    """

    probability: Floats
    variance: Floats
    direction: Floats
    ratio: Floats


def curves(items: Parameters) -> Curves:
    """Evaluate the logistic part of every item on the knots."""
    z = items.slope[:, None] * KNOTS
    z += items.intercept[:, None]
    small = np.exp(-np.abs(z))
    upper = 1 / (1 + small)
    logistic = np.where(z >= 0, upper, small * upper)
    # log(1 + x) rather than log1p: the absolute error is what counts in a sum, and log is vectorised.
    np.add(small, 1, out=small)
    np.log(small, out=small)
    np.maximum(z, 0, out=z)
    small += z
    return Curves(logistic, small)


def log_answers(items: Parameters, at: Curves) -> tuple[Floats, Floats]:
    """Log-odds of a right answer and log chance of a wrong one, [J, K] on the knots."""
    g = items.guessing[:, None]
    log_wrong = np.log1p(-g) - at.log_one_plus
    if not (items.guessing > 0).any():
        return items.slope[:, None] * KNOTS + items.intercept[:, None], log_wrong
    return np.log(g + (1 - g) * at.logistic) - log_wrong, log_wrong


def scores(items: Parameters, with_guessing: bool) -> Scores:
    """Evaluate the scores of every item on the knots."""
    logistic = curves(items).logistic
    if not with_guessing:
        one = np.ones_like(logistic)
        return Scores(logistic, logistic * (1 - logistic), np.stack([one * KNOTS, one]), one)
    g = items.guessing[:, None]
    probability = g + (1 - g) * logistic
    ratio = logistic / probability
    direction = np.stack([ratio * KNOTS, ratio, g / probability])
    return Scores(probability, probability * (1 - g) * (1 - logistic), direction, ratio)


class Strength(NamedTuple):
    """Inverse variances of priors, 0 where there is none, and answers that the prior of guessing adds.

    ``slope`` is about ``slope_mean``; ``spread`` is that of the log of the spread of ability.
    """

    slope_mean: float
    slope: float
    intercept: float
    spread: float
    guessed_right: float
    guessed_wrong: float


class PriorTerms(NamedTuple):
    """What priors say at some items: their log density [J] up to a constant, its derivatives [J, 3] and its strength.

    Derivatives are by slope, intercept and logit of guessing. ``curvature`` is the information that priors add; fixed
    guessing gets an information of 1, which keeps matrices invertible.
    """

    log_density: Floats
    gradient: Floats
    curvature: Floats
    strength: Strength


class Priors(NamedTuple):
    """Weak prior distributions of item parameters, on the scale where ability is N(0, 1).

    ``intercept_sd``
        The log-odds of a right answer at average ability, -a b, are N(0, intercept_sd^2). With a = 1 this is a
        N(0, 5^2) prior on difficulty. It is put on the intercept because the posterior then stays concave, and an item
        that does not discriminate (a near 0) is not pushed towards a particular difficulty.
    ``slope_mean``, ``slope_sd``
        Discriminations are N(1, 2^2): normal rather than log-normal, because a log-normal prior forbids the negative
        slopes that reveal a wrong key.
    ``spread_log_sd``
        Where the spread of ability is estimated, its log is N(0, 1): the common slope of the Rasch model, or the
        standard deviation of ability beside fixed items. It cannot be negative, and few answers must not make it 0.
    ``guessing_right``, ``guessing_wrong``
        The lower asymptote is Beta(3, 9): most likely near 0.2, worth ten answers given by guessing.

    None everywhere (:meth:`none`) is pure maximum likelihood.
    """

    intercept_sd: float | None = 5.0
    slope_mean: float = 1.0
    slope_sd: float | None = 2.0
    spread_log_sd: float | None = 1.0
    guessing_right: float | None = 3.0
    guessing_wrong: float = 9.0

    @classmethod
    def none(cls) -> Priors:
        """Maximum likelihood, without priors. Items that all or none got right then have no finite estimate."""
        return cls(None, 1.0, None, None, None)

    def at(self, items: Parameters, free: Bools) -> PriorTerms:
        """Evaluate the priors of the free parameters [3, J] of items."""
        sds = (self.slope_sd, self.intercept_sd, self.spread_log_sd)
        slope, intercept, spread = (0.0 if sd is None else float(1 / np.square(sd)) for sd in sds)
        right, wrong = (0.0, 0.0) if self.guessing_right is None else (self.guessing_right - 1, self.guessing_wrong - 1)
        g, flat = items.guessing, np.ones(items.slope.size)
        inside = np.where(free[2], g, 0.5)
        density: Floats = -(free[0] * slope * (items.slope - self.slope_mean) ** 2) / 2
        density -= free[1] * intercept * items.intercept**2 / 2
        density += free[2] * (right * np.log(inside) + wrong * np.log1p(-inside))
        by_slope, by_intercept = -slope * (items.slope - self.slope_mean), -intercept * items.intercept
        gradient: Floats = np.stack([by_slope, by_intercept, right * (1 - g) - wrong * g])
        by_logit = np.where(free[2], (right + wrong) * g * (1 - g), 1.0)
        curvature = np.stack([free[0] * slope, intercept * flat, by_logit])
        strength = Strength(self.slope_mean, slope, intercept, spread, right, wrong)
        return PriorTerms(density, (gradient * free).T, curvature.T, strength)


class Anchors(NamedTuple):
    """Items whose parameters are known from an earlier calibration: arrays [J], NaN where an item is free.

    With anchors the scale is theirs: nothing is standardised, and the mean and standard deviation of ability are
    estimated. ``guessing`` may also be given alone, for a model with a known chance of guessing and no anchors.
    """

    difficulty: Floats
    discrimination: Floats
    guessing: Floats | None = None

    @classmethod
    def known_guessing(cls, guessing: Floats) -> Anchors:
        """Fix only the chance of guessing; difficulty and discrimination stay free."""
        free = np.full(guessing.size, np.nan)
        return cls(free, free, guessing)

    def checked(self, n_items: int) -> Anchors:
        """Return anchors of one length, difficulty and discrimination known together; refuse others."""
        guessing = np.full(n_items, np.nan) if self.guessing is None else np.asarray(self.guessing, dtype=np.float64)
        arrays = [np.asarray(self.difficulty, np.float64), np.asarray(self.discrimination, np.float64), guessing]
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
        if ((guessing < 0) | (guessing >= 1)).any():
            raise InputError("Fixed guessing must be at least 0 and below 1.")
        return Anchors(*arrays)


class Estimates(NamedTuple):
    """Item parameters with standard errors, arrays [J], and how the fit went.

    Ability is N(0, 1) unless items were fixed; then it is N(ability_mean, ability_sd^2) on their scale. A fixed
    parameter has standard error 0. NaN marks an item without answers. ``log_likelihood`` is marginal and without the
    priors; ``parameters`` counts what was estimated; ``items`` are the estimates as curves, without a finite slope for
    an item that was left out.
    """

    difficulty: Floats
    discrimination: Floats
    guessing: Floats
    difficulty_se: Floats
    discrimination_se: Floats
    guessing_se: Floats
    log_likelihood: float
    parameters: int
    converged: bool
    iterations: int
    ability_mean: float
    ability_sd: float
    items: Parameters

"""Marginal maximum likelihood: from answers to estimates, the same way for every model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from breadth.errors import InputError, listed
from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.expectation import expect
from breadth.irt.maximisation import ability_scale, covariance, improve
from breadth.irt.models import MODELS, Model
from breadth.irt.parameters import KNOTS, Anchors, Estimates, Parameters, Priors

MOST_ITERATIONS = 1000

#: Where the search for guessing starts: five choices.
START_GUESSING = 0.2

#: Earlier steps that are combined.
MEMORY = 6

#: A fit is finished when no parameter is further than this share of its standard error from where it will end.
TOLERANCE = 1e-3

#: Multiplications up to which the whole information matrix is computed: a fraction of a second.
EXACT_WORK = 5e9


class Ability(NamedTuple):
    """Mean and standard deviation of ability on the scale of the items."""

    mean: float = 0.0
    sd: float = 1.0


class Step(NamedTuple):
    """One EM step from a point: where it leads, the objective at the point, and what its size means.

    ``precision`` is the square root of each parameter's information, so that precision x step is in standard errors;
    ``rate`` is the share of information that is missing, by which successive EM steps shrink.
    """

    after: Floats
    objective: float
    precision: Floats
    rate: float


@dataclass(frozen=True)
class Problem:
    """A calibration to be done: answers of items and subjects that have some, and which parameters are free [3, J].

    Inside, abilities are standardised: items are expressed as the standardised ability sees them. ``anchored``: fixed
    items set the scale. ``one_free_slope``: all items share a slope that is estimated; beside fixed items it is theirs.
    ``start`` is where the search begins. ``kept`` are the items of the calibration among all, and ``difficulty`` has
    that of the others: infinite where there is no maximum, NaN without answers.
    """

    model: Model
    answers: Answers
    priors: Priors
    known: Parameters
    free: Bools
    anchored: bool
    one_free_slope: bool
    start: Floats
    kept: Bools
    difficulty: Floats

    def unpack(self, point: Floats) -> tuple[Parameters, Ability]:
        """Items and ability at a point: the items' free parameters and what of the scale of ability is free."""
        items = self.known.unpack(self.free, point)
        if self.anchored:
            return items, Ability(float(point[-2]), float(np.exp(point[-1])))
        if self.one_free_slope:
            items.slope[:] = np.exp(point[-1])
        return items, Ability()

    def step(self, point: Floats) -> Step:
        """Take one EM step."""
        items, ability = self.unpack(point)
        seen = items.for_population(*ability)
        expectation = expect(self.model, self.answers, seen)
        better, known = improve(self.model, seen, expectation, self.priors, self.free)
        prior = self.priors.at(seen, self.free)
        weight = float(self.answers.weights.sum())
        log_spread = float(np.log(ability.sd)) if self.anchored else None
        if self.model.slope == "common":
            log_spread = float(np.log(seen.slope[0]))
        objective = expectation.log_likelihood + float(prior.log_density.sum())
        if log_spread is not None:
            objective -= prior.strength.spread * log_spread**2 / 2
        # A likelihood above 1 shows that curves are too steep for the knots.
        objective = objective if expectation.log_likelihood <= 0 else -np.inf
        of_free = self.free[:, self.free[1]]
        precision = [np.sqrt(np.maximum(known[row][of_free[row]], 1e-12)) for row in (1, 0, 2)]
        improved = Parameters(*(array.copy() for array in seen))
        for array, values in zip(improved, better, strict=True):
            array[self.free[1]] = values
        stretches = self.anchored or isinstance(self.model.slope, str)
        mean, sd = ability_scale(self.model, expectation, weight, better, prior.strength, log_spread, stretches)
        scale = np.empty(0)
        if self.anchored:
            improved = improved.from_population(*ability)
            scale = np.array([ability.mean + ability.sd * mean, np.log(ability.sd * sd)])
            precision.append(np.sqrt(weight * np.array([1 / ability.sd**2, 2])))
        else:
            improved = improved.for_population(mean, sd)
            if self.one_free_slope:
                scale = np.log(improved.slope[:1])
                precision.append(np.sqrt([2 * weight]))
        rate = min(2 * expectation.missing, 0.97)
        return Step(np.append(improved.pack(self.free), scale), objective, np.concatenate(precision), rate)


def make_problem(model: Model, answers: Answers, priors: Priors, fixed: Anchors | None = None) -> Problem:
    """Set up a calibration, or say why it cannot be done."""
    # Leave out items and subjects without answers and, without a prior, items that all or none got right.
    anchors = None if fixed is None else fixed.checked(answers.n_items)
    share = answers.item_sums / np.maximum(answers.item_counts, 1)
    kept, difficulty = answers.item_counts > 0, np.full(share.size, np.nan)
    if priors.intercept_sd is None:
        no_maximum = kept & ((share == 0) | (share == 1))
        if anchors is not None:
            no_maximum &= np.isnan(anchors.difficulty)
        kept = kept & ~no_maximum
        difficulty[no_maximum] = np.where(share[no_maximum] == 1, -np.inf, np.inf)
    answers = answers.part((answers.subject_counts > 0) & (answers.weights > 0), kept)
    n = answers.n_items
    if answers.n_subjects < 2:
        raise InputError(f"A calibration needs answers of at least 2 subjects; there is {answers.n_subjects}.")
    if n < 2:
        raise InputError(f"A calibration needs at least 2 items that can be estimated; there is {n}.")
    if model.guessing and answers.fractional:
        others = listed(name for name, other in MODELS.items() if not other.guessing)
        raise InputError(
            f"{model.title} needs answers that are right (1) or wrong (0), but some lie in between; use {others}."
        )
    # What is known of the items, and what is free.
    free = np.tile([[model.slope == "item"], [True], [model.guessing]], n)
    slope = np.full(n, np.nan if isinstance(model.slope, str) else float(model.slope))
    guessing = np.full(n, START_GUESSING if model.guessing else 0.0)
    known = Parameters(slope, np.full(n, np.nan), guessing)
    if anchors is not None:
        known, free = _fix(model, known, free, *(np.asarray(array)[kept] for array in anchors))
    anchored = not bool(free[1].all())
    one_free_slope = model.slope == "common" and not anchored
    # Begin with slopes of 1, a standard ability and the intercepts that the shares of right answers suggest.
    counts = answers.sums(answers.weights[:, None], axis=0, seen=True)[:, 0]
    share = (answers.weighted_item_sums + 0.5) / (counts + 1)
    above = np.clip((share - known.guessing) / (1 - known.guessing), 0.02, 1)
    share = np.where(known.guessing > 0, np.minimum(above, share), share)
    # The curve of the average subject is steeper than the average curve.
    intercept = np.log(share / (1 - share)) * np.sqrt(1 + 0.35)
    items = known._replace(
        slope=np.where(np.isnan(known.slope), 1.0, known.slope),
        intercept=np.where(free[1], intercept, known.intercept),
    )
    start = np.append(items.pack(free), np.zeros(2 if anchored else int(one_free_slope)))
    return Problem(model, answers, priors, known, free, anchored, one_free_slope, start, kept, difficulty)


def _fix(
    model: Model, known: Parameters, free: Bools, difficulty: Floats, fixed_slope: Floats, fixed_guessing: Floats
) -> tuple[Parameters, Bools]:
    """Items with the parameters of anchors, and what then is free."""
    free_items = np.isnan(difficulty)
    if not free_items.any():
        raise InputError("All items are fixed, so there is nothing to calibrate; score the subjects (breadth ability).")
    if not model.guessing and (fixed_guessing > 0).any():
        others = listed(name for name, other in MODELS.items() if other.guessing)
        raise InputError(f"{model.title} has no guessing, but some fixed items have; use {others}.")
    slope = known.slope
    if model.slope == "item":
        slope = fixed_slope
    elif not free_items.all():
        # Items of such a model share one slope, and that of the fixed items is it.
        fixed = fixed_slope[~free_items]
        own = float(fixed[0] if model.slope == "common" else model.slope)
        if np.abs(fixed - own).max() > 1e-6 * abs(own):
            others = listed(name for name, other in MODELS.items() if other.slope == "item")
            wanted = "share one discrimination" if model.slope == "common" else f"have a discrimination of {own:g}"
            raise InputError(f"Fixed items of {model.title} must {wanted}; where they do not, use {others}.")
        slope = np.full(slope.size, own)
    guessing = np.where(np.isnan(fixed_guessing), np.where(free_items, known.guessing, 0.0), fixed_guessing)
    free = free & free_items
    free[2] &= np.isnan(fixed_guessing)
    return Parameters(slope, -slope * difficulty, guessing), free


class Solution(NamedTuple):
    """Where the iteration ended, whether it had converged, and after how many EM steps."""

    point: Floats
    converged: bool
    iterations: int


def fixed_point(step: Callable[[Floats], Step], start: Floats, most: int, noise: float) -> Solution:
    """Iterate an EM step with Anderson acceleration until it no longer moves, never accepting a worse objective.

    The next point is the combination of the last few EM results whose steps cancel best (Anderson 1965; for EM:
    Henderson and Varadhan 2019). If it has a lower objective than the last accepted point, the plain EM result is
    taken instead, and if even that is lower (the M step is a Newton step, which may overshoot), half the way.
    ``noise`` is the relative rounding error of the objective.
    """
    point = candidate = start
    taken, halvings = Step(start, -np.inf, np.empty(0), 0.0), 0
    points: list[Floats] = []
    residuals: list[Floats] = []
    for iteration in range(1, most + 1):
        tried = step(candidate)
        if points and not tried.objective >= taken.objective - noise * abs(taken.objective):
            halvings += 1
            candidate = point + 0.5**halvings * (taken.after - point)
            points, residuals = points[-1:], residuals[-1:]
            continue
        point, taken = candidate, tried
        points = [*points[-MEMORY:], point]
        residuals = [*residuals[-MEMORY:], taken.after - point]
        if float(np.max(np.abs(residuals[-1]) * taken.precision)) < TOLERANCE * (1 - taken.rate):
            return Solution(taken.after, True, iteration)
        if len(points) == 1:
            candidate = taken.after
            continue
        # Combine the last results so that the combined step, in standard errors, is smallest.
        steps, moves = (np.diff(np.array(last), axis=0) for last in (residuals, points))
        scaled = steps * taken.precision
        gram = scaled @ scaled.T
        gram[np.diag_indices_from(gram)] *= 1 + 1e-10
        share = np.linalg.lstsq(gram, scaled @ (residuals[-1] * taken.precision), rcond=None)[0]
        move = residuals[-1] - share @ (moves + steps)
        # No parameter moves by more than 1, or by more than EM itself would move it: far jumps land where nothing is
        # known. Such a candidate counts as minus one halving: what to fall back on first is the whole EM step.
        farthest = max(1.0, float(np.abs(residuals[-1]).max()))
        candidate, halvings = point + move / max(1.0, float(np.abs(move).max()) / farthest), -1
    return Solution(taken.after, False, most)


def estimates(problem: Problem, solution: Solution, errors: bool) -> Estimates:
    """Estimates of all items at a solution, with standard errors if asked for."""
    model, answers, free = problem.model, problem.answers, problem.free[1]
    items, ability = problem.unpack(solution.point)
    if model.slope == "item" and not problem.anchored and items.slope.sum() < 0:
        # Without anchors the sign of the scale is arbitrary: turn it so that most items discriminate positively.
        items = items._replace(slope=-items.slope)
    seen = items.for_population(*ability)
    exact = errors and answers.n_subjects * (2 * int(free.sum())) ** 2 * KNOTS.size <= EXACT_WORK
    expectation = expect(model, replace(answers, dtype=np.float64), seen, with_weights=exact)
    a_se, b_se, g_se = (np.full(free.size, 0.0 if errors else np.nan) for _ in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        difficulty = -items.intercept / items.slope
    if errors:
        chance = problem.free[2]
        about = covariance(model, answers, seen, expectation, problem.priors, problem.free, exact)
        a, g = seen.slope[free], items.guessing[chance]
        # A negative variance, where there is no maximum to measure the curvature of, has the root NaN.
        with np.errstate(divide="ignore", invalid="ignore"):
            b = -seen.intercept[free] / a
            variance = (about.intercept + 2 * b * about.both + b**2 * about.slope) / a**2
            a_se[free] = np.sqrt(about.slope) / ability.sd
            b_se[free] = np.sqrt(variance) * ability.sd
            g_se[chance] = g * (1 - g) * np.sqrt(about.guessing[chance[free]])
    # Back to all items, those that were left out included.
    every = np.full((6, problem.kept.size), np.nan)
    every[0] = problem.difficulty
    every[:, problem.kept] = difficulty, items.slope, items.guessing, b_se, a_se, g_se
    b, a, g, b_se, a_se, g_se = every
    return Estimates(
        *(b, a, g, b_se, a_se, g_se, expectation.log_likelihood, problem.start.size),
        *(solution.converged, solution.iterations, ability.mean, ability.sd, Parameters.of(b, a, np.nan_to_num(g))),
    )

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
from breadth.threads import one_blas_thread

MOST_ITERATIONS = 1000

#: Where the search for guessing starts: five choices.
START_GUESSING = 0.2

#: Earlier steps that are combined.
MEMORY = 6

#: A fit is finished when no parameter is further than this share of its standard error from where it will end.
TOLERANCE = 1e-3

#: Multiplications up to which the whole information matrix is computed: a fraction of a second.
EXACT_WORK = 5e9


@one_blas_thread
def fit_model(
    model: Model, answers: Answers, priors: Priors | None, fixed: Anchors | None, errors: bool = True
) -> Estimates:
    """Fit a model (see :meth:`Model.fit`) and return its estimates, NaN for items without answers."""
    priors = Priors() if priors is None else priors
    anchors = None if fixed is None else fixed.checked(answers.n_items)
    subjects, items = answers.subject_counts > 0, answers.item_counts > 0
    subjects = subjects & (answers.weights > 0)
    share = answers.item_sums / np.maximum(answers.item_counts, 1)
    no_maximum = np.zeros(items.size, dtype=np.bool_)
    if priors.intercept_sd is None:
        no_maximum = items & ((share == 0) | (share == 1))
        if anchors is not None:
            no_maximum &= np.isnan(anchors.difficulty)
    kept = items & ~no_maximum
    problem = make_problem(model, answers.part(subjects, kept), priors, anchors, kept)
    noise = 1e-10 if problem.answers.dtype is np.float64 else 1e-7
    solution = fixed_point(problem.step, problem.start(), MOST_ITERATIONS, noise)
    estimates = _estimates(problem, solution.point, errors)
    estimates = estimates._replace(converged=solution.converged, iterations=solution.iterations)
    if kept.all():
        return estimates
    estimates = estimates.expanded(kept)
    estimates.difficulty[no_maximum] = np.where(share[no_maximum] == 1, -np.inf, np.inf)
    return estimates


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
    """

    model: Model
    answers: Answers
    priors: Priors
    known: Parameters
    free: Bools
    anchored: bool
    one_free_slope: bool

    def start(self) -> Floats:
        """Begin with slopes of 1 and the intercepts that the shares of right answers suggest."""
        answers = self.answers
        counts = answers.seen_sums(answers.weights[:, None], axis=0)[:, 0]
        share = (answers.weighted_item_sums + 0.5) / (counts + 1)
        above = np.clip((share - self.known.guessing) / (1 - self.known.guessing), 0.02, 1)
        share = np.where(self.known.guessing > 0, np.minimum(above, share), share)
        # The curve of the average subject is steeper than the average curve.
        intercept = np.log(share / (1 - share)) * np.sqrt(1 + 0.35)
        items = self.known._replace(
            slope=np.where(np.isnan(self.known.slope), 1.0, self.known.slope),
            intercept=np.where(self.free[1], intercept, self.known.intercept),
        )
        return self.pack(items, Ability())

    def pack(self, items: Parameters, ability: Ability) -> Floats:
        """Put what is free into one vector, on the scale of the items."""
        scale = np.empty(0)
        if self.anchored:
            scale = np.array([ability.mean, np.log(ability.sd)])
        elif self.one_free_slope:
            scale = np.log(items.slope[:1])
        return np.concatenate([items.pack(self.free), scale])

    def unpack(self, point: Floats) -> tuple[Parameters, Ability]:
        """Undo :meth:`pack`."""
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
        weight = float(self.answers.weights.sum())
        log_spread = float(np.log(ability.sd)) if self.anchored else None
        if self.model.slope == "common":
            log_spread = float(np.log(seen.slope[0]))
        objective = expectation.log_likelihood + float(self.priors.log_density(seen, self.free).sum())
        if log_spread is not None:
            objective -= self.priors.strength.spread * log_spread**2 / 2
        # A likelihood above 1 shows that curves are too steep for the knots.
        objective = objective if expectation.log_likelihood <= 0 else -np.inf
        of_free = self.free[:, self.free[1]]
        precision = [np.sqrt(np.maximum(known[row][of_free[row]], 1e-12)) for row in (1, 0, 2)]
        improved = seen.with_part(self.free[1], better)
        stretches = self.anchored or self.model.known_slope is None
        scale = ability_scale(self.model, expectation, weight, better, self.priors, log_spread, stretches)
        if self.anchored:
            after = Ability(ability.mean + ability.sd * scale[0], ability.sd * scale[1])
            improved = improved.from_population(*ability)
            precision.append(np.sqrt(weight * np.array([1 / ability.sd**2, 2])))
        else:
            after = Ability()
            improved = improved.for_population(*scale)
            if self.one_free_slope:
                precision.append(np.sqrt([2 * weight]))
        rate = min(2 * expectation.missing, 0.97)
        return Step(self.pack(improved, after), objective, np.concatenate(precision), rate)


def make_problem(model: Model, answers: Answers, priors: Priors, anchors: Anchors | None, kept: Bools) -> Problem:
    """Set up a calibration, or say why it cannot be done."""
    n = answers.n_items
    if answers.n_subjects < 2:
        raise InputError(f"A calibration needs answers of at least 2 subjects; there is {answers.n_subjects}.")
    if n < 2:
        raise InputError(f"A calibration needs at least 2 items that can be estimated; there is {n}.")
    if model.needs_binary and answers.fractional:
        others = listed(name for name, other in MODELS.items() if not other.needs_binary)
        raise InputError(
            f"{model.title} needs answers that are right (1) or wrong (0), but some lie in between; use {others}."
        )
    free = np.tile([[model.slope == "item"], [True], [model.guessing]], n)
    slope = np.full(n, np.nan if model.known_slope is None else model.known_slope)
    guessing = np.full(n, START_GUESSING if model.guessing else 0.0)
    intercept = np.full(n, np.nan)
    if anchors is not None:
        difficulty, known_slope, known_guessing = (np.asarray(array)[kept] for array in anchors)
        free_items = np.isnan(difficulty)
        if not free_items.any():
            raise InputError(
                "All items are fixed, so there is nothing to calibrate; score the subjects (breadth ability)."
            )
        if not model.guessing and (known_guessing > 0).any():
            others = listed(name for name, other in MODELS.items() if other.guessing)
            raise InputError(f"{model.title} has no guessing, but some fixed items have; use {others}.")
        if model.slope == "item":
            slope = known_slope
        elif not free_items.all():
            slope = np.full(n, _shared_slope(model, known_slope[~free_items]))
        intercept = -slope * difficulty
        guessing = np.where(np.isnan(known_guessing), np.where(free_items, guessing, 0.0), known_guessing)
        free &= free_items
        free[2] &= np.isnan(known_guessing)
    anchored = not bool(free[1].all())
    one_free_slope = model.slope == "common" and not anchored
    return Problem(model, answers, priors, Parameters(slope, intercept, guessing), free, anchored, one_free_slope)


def _shared_slope(model: Model, fixed: Floats) -> float:
    """The one slope of the fixed items of a model whose items share one."""
    slope = float(fixed[0] if model.known_slope is None else model.known_slope)
    if np.abs(fixed - slope).max() > 1e-6 * abs(slope):
        others = listed(name for name, other in MODELS.items() if other.slope == "item")
        wanted = "share one discrimination" if model.known_slope is None else f"have a discrimination of {slope:g}"
        raise InputError(f"Fixed items of {model.title} must {wanted}; where they do not, use {others}.")
    return slope


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
        # An accelerated candidate counts as minus one halving: the first thing to fall back on is the whole EM step.
        candidate, halvings = _combine(points, residuals, taken.precision), -1
    return Solution(taken.after, False, most)


def _combine(points: list[Floats], residuals: list[Floats], precision: Floats) -> Floats:
    """Combine the last results so that the combined step, in standard errors, is smallest.

    No parameter moves by more than 1, or by more than EM itself would move it: far jumps land where nothing is known.
    """
    steps = np.diff(np.array(residuals), axis=0)
    moves = np.diff(np.array(points), axis=0)
    scaled = steps * precision
    gram = scaled @ scaled.T
    gram[np.diag_indices_from(gram)] *= 1 + 1e-10
    share = np.linalg.lstsq(gram, scaled @ (residuals[-1] * precision), rcond=None)[0]
    move = residuals[-1] - share @ (moves + steps)
    farthest = max(1.0, float(np.abs(residuals[-1]).max()))
    combined: Floats = points[-1] + move / max(1.0, float(np.abs(move).max()) / farthest)
    return combined


def _estimates(problem: Problem, point: Floats, errors: bool) -> Estimates:
    model, answers, free = problem.model, problem.answers, problem.free[1]
    items, ability = problem.unpack(point)
    if model.slope == "item" and not problem.anchored and items.slope.sum() < 0:
        # Without anchors the sign of the scale is arbitrary: turn it so that most items discriminate positively.
        items = items._replace(slope=-items.slope)
    seen = items.for_population(*ability)
    exact = errors and answers.n_subjects * (2 * int(free.sum())) ** 2 * KNOTS.size <= EXACT_WORK
    expectation = expect(model, replace(answers, dtype=np.float64), seen, with_weights=exact)
    a_se, b_se, g_se = (np.full(free.size, 0.0 if errors else np.nan) for _ in range(3))
    if errors:
        chance = problem.free[2]
        about = covariance(model, answers, seen, expectation, problem.priors, problem.free, exact)
        b, a, g = seen.difficulty[free], seen.slope[free], items.guessing[chance]
        variance = (about.intercept + 2 * b * about.both + b**2 * about.slope) / a**2
        # A negative variance, where there is no maximum to measure the curvature of, has the root NaN.
        with np.errstate(invalid="ignore"):
            a_se[free] = np.sqrt(about.slope) / ability.sd
            b_se[free] = np.sqrt(variance) * ability.sd
            g_se[chance] = g * (1 - g) * np.sqrt(about.guessing[chance[free]])
    of_the_scale = 2 if problem.anchored else int(problem.one_free_slope)
    return Estimates(
        items.difficulty,
        items.slope,
        items.guessing,
        b_se,
        a_se,
        g_se,
        expectation.log_likelihood,
        int(problem.free.sum()) + of_the_scale,
        False,
        0,
        *ability,
    )

"""Marginal maximum likelihood: from answers to estimates, the same way for every model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from breadth.errors import InputError, listed
from breadth.irt.acceleration import EMStep, Solution, fixed_point
from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.covariance import covariance
from breadth.irt.expectation import expect
from breadth.irt.maximisation import elsewhere, improve
from breadth.irt.models import MODELS, Model
from breadth.irt.one_scale import BY_ABILITY, given_by_ability
from breadth.irt.parameters import LARGEST_SLOPE, Anchors, Common, ItemEstimates, Parameters, Priors, curves
from breadth.records import ROUND_SHARES

#: EM steps that a fit may take: one for this many answers, within these limits. A handful of answers to a model with
#: many parameters has ridges and no peak. Nothing is gained by walking along them for a minute.
ANSWERS_PER_ITERATION = 10
FEWEST_ITERATIONS, MOST_ITERATIONS = 100, 1000

#: Where the search for asymptotes starts: five choices, and a slip in twenty.
START_GUESSING = 0.2
START_SLIP = 0.05

#: Subjects and items from which the slopes are guessed that the search starts with.
START_SUBJECTS, START_ITEMS = 1000, 500

#: Start where answers are missing: answers that the ridge of an item is worth, most steps and share of the residual
#: that is left, and the range of variances of ability.
ADDITIVE_RIDGE, ADDITIVE_STEPS, ADDITIVE_TOLERANCE = 1.0, 100, 1e-8
ADDITIVE_SPREAD = (0.1, 9.0)

#: Logs of the least and the largest spread of slopes.
LOG_SPREADS = (-7.0, 3.7)

#: Items that the mean and spread of all slopes are worth to one of them.
FEW_ITEMS = 100

#: Times that items with asymptotes look for a better maximum elsewhere, and EM steps to reach it.
SEARCHES = 4
SEARCH_ITERATIONS = 200

#: Where answers are missing, a fit has two starts. Whether they lead to different maxima is tried on some of the
#: subjects: at least so many, and so many that an item has about that number of answers. Where these are most of the
#: subjects, nothing is saved by it.
REHEARSAL_SUBJECTS, REHEARSAL_ANSWERS, REHEARSAL_SHARE = 250, 30, 0.6
REHEARSAL_ITERATIONS = 50

#: Log-likelihoods that are this close belong to one maximum: in a rehearsal, and in the end.
ALIKE, TIE = 0.5, 0.01

#: Multiplications up to which the whole information matrix is computed: a fraction of a second.
EXACT_WORK = 5e9


class Ability(NamedTuple):
    """Mean and standard deviation of ability on the scale of the items."""

    mean: float = 0.0
    sd: float = 1.0


@dataclass(frozen=True)
class CalibrationProblem:
    """A calibration to be done: answers of items and subjects that have some, and which parameters are free [3, J].

    Inside, abilities are standardised: items are expressed as the standardised ability sees them. ``anchored``: fixed
    items set the scale. ``one_free_slope``: all items share a slope that is estimated; beside fixed items it is theirs.
    ``hierarchical``: the mean and spread of slopes are estimated, and are the last two numbers of a point.
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
    hierarchical: bool
    start: Floats
    kept: Bools
    difficulty: Floats

    @property
    def most_iterations(self) -> int:
        """How many EM steps are worth taking."""
        answers = float(self.answers.weights @ self.answers.subject_counts)
        return int(np.clip(answers / ANSWERS_PER_ITERATION, FEWEST_ITERATIONS, MOST_ITERATIONS))

    def unpack(self, point: Floats) -> tuple[Parameters, Ability, Common]:
        """Items and ability at a point, and what the items have in common as a standardised ability sees them."""
        items = self.known.unpack(self.free, point)
        mean, sd = 0.0, 1.0
        if self.hierarchical:
            # A handful of answers says nothing about slopes: what they have in common must stay finite then.
            mean = float(np.clip(point[-2], -LARGEST_SLOPE, LARGEST_SLOPE))
            sd, point = float(np.exp(np.clip(point[-1], *LOG_SPREADS))), point[:-2]
        ability = Ability()
        if self.anchored:
            ability = Ability(float(point[-2]), float(np.exp(point[-1])))
        elif self.one_free_slope:
            items.slope[:] = np.exp(point[-1])
        seen = items.for_population(*ability)
        difficulty = -float(seen.slope @ seen.intercept) / max(float(seen.slope @ seen.slope), 1e-300)
        return items, ability, Common(mean * ability.sd, sd * ability.sd, difficulty)

    def step(self, point: Floats) -> EMStep:
        """Take one EM step."""
        items, ability, common = self.unpack(point)
        seen = items.for_population(*ability)
        expectation = expect(self.model, self.answers, seen)
        better, known, unknown, released, stuck = improve(self.model, seen, expectation, self.priors, self.free, common)
        of_free = self.free[:, self.free[1]]
        precision = [np.sqrt(np.maximum(known[row][of_free[row]], 1e-12)) for row in (1, 0, 2, 3)]
        improved = Parameters(*(array.copy() for array in seen))
        # Where answers are in perfect order, no slope is steep enough.
        excess = np.maximum(np.abs(better.slope) / LARGEST_SLOPE, 1)
        better = better._replace(slope=better.slope / excess, intercept=better.intercept / excess)
        for array, values in zip(improved, better, strict=True):
            array[self.free[1]] = values
        # Mean and standard deviation of ability that suit the posteriors best. Without fixed items the scale of ability
        # is arbitrary, so items take it up: a parameter-expanded EM (Liu, Rubin and Wu 1998), which needs a fraction of
        # the steps. Priors of items say nothing about it; the spread of ability has one where it is estimated.
        weight = float(self.answers.weights.sum())
        mean, variance = expectation.mean, expectation.square - expectation.mean**2
        sd = float(np.sqrt(variance)) if self.anchored or isinstance(self.model.slope, str) else 1.0
        if self.priors.spread_log_sd is not None and (self.anchored or self.model.slope == "common"):
            prior, log_sd = float(self.priors.spread_log_sd**-2), float(np.log(sd))
            log_spread = float(np.log(seen.slope[0] if self.model.slope == "common" else ability.sd))
            for _ in range(5):
                # First and negative second derivative of the expanded model's objective by log_sd.
                spread = weight * variance * np.exp(-2 * log_sd)
                gradient = spread - weight - prior * (log_spread + log_sd)
                log_sd += float(np.clip(gradient / (2 * spread + prior), -0.5, 0.5))
            sd = float(np.exp(log_sd))
        scale, hyper = np.empty(0), np.empty(0)
        if self.hierarchical:
            hyper = self._slopes(improved.slope, unknown, released, common)
        if self.anchored:
            improved = improved.from_population(*ability)
            scale = np.array([ability.mean + ability.sd * mean, np.log(ability.sd * sd)])
            precision.append(np.sqrt(weight * np.array([1 / ability.sd**2, 2])))
            hyper /= ability.sd
        else:
            improved = improved.for_population(mean, sd)
            hyper *= sd
            if self.one_free_slope:
                scale = np.log(improved.slope[:1])
                precision.append(np.sqrt([2 * weight]))
        if self.hierarchical:
            precision.append(np.sqrt(improved.slope.size * np.array([hyper[1] ** -2, 2])))
            scale = np.append(scale, [hyper[0], np.log(hyper[1])])
        after, precise = np.append(improved.pack(self.free), scale), np.concatenate(precision)
        off = np.abs(after - point) * precise
        if self.hierarchical:
            # What slopes have in common matters to each of them no more than a few items do.
            off[-2:] *= np.sqrt(min(1.0, FEW_ITEMS / improved.slope.size))
        return EMStep(after, precise, max(float(off.max()), float(stuck.max())), min(2 * expectation.missing, 0.97))

    def elsewhere(self, point: Floats, may: Bools) -> tuple[Floats, Bools]:
        """Move items that ``may`` [J] to better maxima than those at a point, and say which had one."""
        items, ability, common = self.unpack(point)
        seen = items.for_population(*ability)
        expectation = expect(self.model, self.answers, seen)
        moved = elsewhere(self.model, seen, expectation, self.priors, self.free, common, may)
        packed = seen.from_population(*ability).pack(self.free)
        return np.append(packed, point[packed.size :]), moved

    def _slopes(self, slope: Floats, unknown: Floats, released: Floats, common: Common) -> Floats:
        """Mean and spread of the slopes by empirical Bayes: what makes the answers about all of them most likely.

        ``slope`` and ``unknown`` are means and variances given the mean and spread so far, of the free items; what the
        answers alone say about a slope is close to normal; ``released`` is as in :class:`Improved`. An EM of its own,
        which costs next to nothing.
        """
        mean, sd, _ = common
        fixed, slope = slope[~self.free[0]], slope[self.free[0]]
        unknown = np.clip(unknown, 1e-12, sd**2)
        known, pull = 1 / unknown - sd**-2, slope / unknown - mean * sd**-2 - released
        n, total = self.priors.slope_items, fixed.size + slope.size
        for _ in range(20):
            unknown = 1 / (known + sd**-2)
            slope = unknown * (pull + mean * sd**-2)
            mean = float(fixed.sum() + slope.sum()) / total
            square = float(fixed @ fixed + slope @ slope) / total
            spread = total * (square - mean**2) + float(unknown.sum())
            sd = float(np.sqrt((spread + n * (self.priors.slope_ratio or 0.0) ** 2 * square) / (total + n)))
        low, high = np.exp(LOG_SPREADS)
        return np.array([np.clip(mean, -LARGEST_SLOPE, LARGEST_SLOPE), np.clip(sd, low, high)])


def make_problem(
    model: Model, answers: Answers, priors: Priors, fixed: Anchors | None = None, floor: Floats | None = None
) -> CalibrationProblem:
    """Set up a calibration, or say why it cannot be done. ``floor`` [J] is a known chance of guessing, NaN for none."""
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
    least = np.zeros(n)
    if floor is not None:
        if model.guessing:
            raise InputError(f"{model.title} estimates the chance of guessing, so it takes no floor.")
        least = np.nan_to_num(np.asarray(floor, dtype=np.float64)[kept])
        model = replace(model, floor=bool((least > 0).any()))
    if answers.n_subjects < 2:
        raise InputError(f"A calibration needs answers of at least 2 subjects; there is {answers.n_subjects}.")
    if n < 2:
        raise InputError(f"A calibration needs at least 2 items that can be estimated; there is {n}.")
    if model.bounded and answers.fractional:
        others = listed(name for name, other in MODELS.items() if not other.bounded)
        raise InputError(
            f"{model.title} needs answers that are right (1) or wrong (0), but some lie in between; use {others}. "
            f"{ROUND_SHARES}"
        )
    # What is known of the items, and what is free.
    free = np.tile([[model.slope == "item"], [True], [model.guessing], [model.ceiling]], n)
    slope = np.full(n, np.nan if isinstance(model.slope, str) else float(model.slope))
    guessing = np.full(n, START_GUESSING) if model.guessing else least
    slip = np.full(n, START_SLIP if model.ceiling else 0.0)
    known = Parameters(slope, np.full(n, np.nan), guessing, slip)
    if anchors is not None:
        known, free = _fix(model, known, free, *(np.asarray(array)[kept] for array in anchors))
    anchored = not bool(free[1].all())
    one_free_slope = model.slope == "common" and not anchored
    # Begin with a standard ability, the slopes that a first component suggests, and intercepts from shares right.
    counts = answers.sums(answers.weights[:, None], axis=0, seen=True)[:, 0]
    share = (answers.weighted_item_sums + 0.5) / (counts + 1)
    above = np.clip((share - known.guessing) / (1 - known.guessing - known.slip), 0.02, 0.98)
    share = np.where(known.guessing + known.slip > 0, above, share)
    first = _first_slopes(answers) if model.slope == "item" else np.ones(n)
    slope = np.where(np.isnan(known.slope), first, known.slope)
    # The curve of the average subject is steeper than the average curve.
    intercept = np.log(share / (1 - share)) * np.sqrt(1 + 0.35 * slope**2)
    if one_free_slope and (answers.item_counts < answers.n_subjects).any():
        spread, intercept = _additive_fit(answers)
        above = np.clip((1 / (1 + np.exp(-intercept)) - known.guessing) / (1 - known.guessing), 0.02, 0.98)
        intercept = np.where(known.guessing > 0, np.log(above / (1 - above)), intercept)
        slope = np.full(n, spread)
    items = known._replace(slope=slope, intercept=np.where(free[1], intercept, known.intercept))
    hierarchical = model.slope == "item" and priors.slope_ratio is not None
    start = np.empty(0)
    problem = CalibrationProblem(
        *(model, answers, priors, known, free, anchored, one_free_slope, hierarchical, start, kept, difficulty)
    )
    return replace(problem, start=_start_at(problem, items))


def _start_at(problem: CalibrationProblem, items: Parameters) -> Floats:
    """The point to begin with these items: a standard ability, and what slopes have in common."""
    scale = np.zeros(2 if problem.anchored else int(problem.one_free_slope))
    if problem.hierarchical:
        scale = np.append(scale, [items.slope.mean(), np.log(items.slope.std() + 0.3)])
    return np.append(items.pack(problem.free), scale)


def _additive_fit(answers: Answers) -> tuple[float, Floats]:
    """Spread of ability and log-odds of every item [J] for the average subject, where answers are missing.

    Shares right say nothing about an item that was only given to subjects for whom it is about right, as all items of a
    test are that adapts to the answers: from shares alone EM takes all items to be alike, and stays there. So the
    answers themselves are explained, as a + b, by what the subject can and how easy the item is, by least squares over
    the answers that are there (conjugate gradients, for items; a right answer counts as 2 and a wrong one as -2, the
    logistic curve's tangent at its middle).
    """
    counts, items = np.maximum(answers.subject_counts, 1), answers.item_counts
    total = 4 * answers.subject_sums - 2 * answers.subject_counts

    def over_subjects(values: Floats) -> Floats:
        return answers.sums(values[:, None], axis=0, seen=True)[:, 0]

    def over_items(values: Floats) -> Floats:
        return answers.sums(values[:, None], seen=True)[:, 0]

    # The normal equations of the items, with those of the subjects solved for; one answer's worth of ridge.
    known = items + ADDITIVE_RIDGE
    right = 4 * answers.item_sums - 2 * items - over_subjects(total / counts)
    easy = np.zeros(items.size)
    residual, direction = right.copy(), right / known
    size = float(residual @ direction)
    for _ in range(ADDITIVE_STEPS):
        if size <= ADDITIVE_TOLERANCE * float(right @ (right / known)):
            break
        image = known * direction - over_subjects(over_items(direction) / counts)
        step = size / float(direction @ image)
        easy, residual = easy + step * direction, residual - step * image
        scaled = residual / known
        before, size = size, float(residual @ scaled)
        direction = scaled + size / before * direction
    able = (total - over_items(easy)) / counts
    # An answer has a variance of at most 4 on this scale, which is not spread of ability.
    spread = float(np.sqrt(np.clip(able.var() - 4 / counts.mean(), *ADDITIVE_SPREAD)))
    return spread, easy + float(able.mean())


def _first_slopes(answers: Answers) -> Floats:
    """Slopes that the first principal component of some of the answers suggests, in the direction of the score."""
    rows = np.unique(np.linspace(0, answers.n_subjects - 1, START_SUBJECTS).astype(np.int64))
    columns = np.unique(np.linspace(0, answers.n_items - 1, START_ITEMS).astype(np.int64))
    right = answers.right[rows].astype(np.float32)
    seen = np.ones_like(right) if answers.seen is None else (answers.seen[rows] != 0).astype(np.float32)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = (right * seen).sum(axis=0) / count
    standard = (right - mean) * seen / np.sqrt(np.maximum(mean * (1 - mean), 0.02))
    few = standard[:, columns]
    score = few.sum(axis=1)
    component = score + np.float32(1e-6)
    for _ in range(30):
        component = few @ (few.T @ component)
        component /= max(float(np.linalg.norm(component)), 1e-30)
    component *= np.sqrt(rows.size) * (1.0 if float(score @ component) >= 0 else -1.0)
    loading = np.clip((standard.T @ component).astype(np.float64) / count, -0.85, 0.85)
    slopes: Floats = 1.7 * loading / np.sqrt(1 - loading**2)
    return slopes


def _fix(
    model: Model,
    known: Parameters,
    free: Bools,
    difficulty: Floats,
    fixed_slope: Floats,
    fixed_guessing: Floats,
    fixed_ceiling: Floats,
) -> tuple[Parameters, Bools]:
    """Items with the parameters of anchors, and what then is free."""
    free_items = np.isnan(difficulty)
    if not free_items.any():
        raise InputError("All items are fixed, so there is nothing to calibrate; score the subjects (breadth ability).")
    if not model.guessing and not model.floor and (fixed_guessing > 0).any():
        others = listed(name for name, other in MODELS.items() if other.guessing)
        raise InputError(f"{model.title} has no guessing, but some fixed items have; use {others}, or say the chance.")
    if not model.ceiling and (fixed_ceiling < 1).any():
        others = listed(name for name, other in MODELS.items() if other.ceiling)
        raise InputError(f"{model.title} has no ceiling, but some fixed items have; use {others}.")
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
    slip = np.where(np.isnan(fixed_ceiling), np.where(free_items, known.slip, 0.0), 1 - fixed_ceiling)
    free = free & free_items
    free[2] &= np.isnan(fixed_guessing)
    free[3] &= np.isnan(fixed_ceiling)
    return Parameters(slope, -slope * difficulty, guessing, slip), free


def maximise(problem: CalibrationProblem) -> Solution:
    """Climb to the highest maximum that is known of.

    With complete answers the first component finds the scale on which subjects differ most, and no other start led
    higher (20 random ones were tried, also where answers measure several abilities or none). Where answers are missing,
    it may find instead who was given which items: in an adaptive test able subjects answer hard items only, and the
    component is then a contrast of hard with easy items, which is a maximum as well, mostly hundreds of units below the
    best. So the items of a Rasch model are tried too, and the higher log-likelihood wins.

    It does not where items were given by ability. A likelihood ignores why answers are missing, which it may where that
    depends on the answers that are there. Where it depends on ability itself, the contrast was the higher maximum in
    one of three simulated tests, and knew nothing of ability (r .04). So the Rasch model decides there alone.
    """
    if problem.answers.seen is None or problem.model.slope != "item":
        return climb(problem, problem.start, problem.most_iterations)
    most = problem.most_iterations
    some = _rehearsal(problem)
    tried = problem if some is None else some
    rasch = _rasch_start(tried)
    if rasch.by_ability:
        return climb(problem, rasch.point if some is None else _rasch_start(problem).point, most)
    if some is not None:
        ends = [climb(some, start, REHEARSAL_ITERATIONS) for start in (some.start, rasch.point)]
        first, second = (log_likelihood(some, end) for end in ends)
        if abs(first - second) <= ALIKE:
            return climb(problem, problem.start, most)
        rasch = _rasch_start(problem)
    by_component, by_rasch = (climb(problem, start, most) for start in (problem.start, rasch.point))
    # Where both are the same maximum, rounding does not decide between them.
    better = log_likelihood(problem, by_rasch) > log_likelihood(problem, by_component) + TIE
    return by_rasch if better else by_component


class RaschStart(NamedTuple):
    """A point with the items of a Rasch model, and whether subjects were given items by ability."""

    point: Floats
    by_ability: bool


def _rehearsal(problem: CalibrationProblem) -> CalibrationProblem | None:
    """The same problem for enough of the subjects to tell maxima apart; None where that would be most of them."""
    answers = problem.answers
    filled = float(answers.item_counts.sum()) / answers.right.size
    enough = int(max(REHEARSAL_SUBJECTS, REHEARSAL_ANSWERS / filled))
    if enough > REHEARSAL_SHARE * answers.n_subjects:
        return None
    some = np.zeros(answers.n_subjects, dtype=np.bool_)
    some[np.linspace(0, answers.n_subjects - 1, enough).astype(np.int64)] = True
    return replace(problem, answers=answers.part(some, np.ones(answers.n_items, dtype=np.bool_)))


def _rasch_start(problem: CalibrationProblem) -> RaschStart:
    """Where to begin with equal slopes, and with intercepts that suit the abilities of a Rasch model."""
    known, free, by_ability = problem.known, problem.free, False
    slope, intercept = np.ones(known.slope.size), problem.unpack(problem.start)[0].intercept
    if problem.anchored:
        # The scale is that of the fixed items.
        slope *= np.sqrt(np.mean(known.slope[~free[1]] ** 2))
    else:
        rasch = make_problem(MODELS["1pl"], problem.answers, problem.priors)
        items = rasch.unpack(climb(rasch, rasch.start, REHEARSAL_ITERATIONS).point)[0]
        ability = expect(rasch.model, rasch.answers, items, with_weights=True).posterior.mean
        given = given_by_ability(rasch.answers, -items.intercept / items.slope, ability)
        by_ability = abs(given) > BY_ABILITY
        slope *= items.slope[0]
        # The Rasch model has no asymptotes: they are taken out of what it expects of the average subject.
        share = 1 / (1 + np.exp(-items.intercept))
        guessing, slip = known.guessing[rasch.kept], known.slip[rasch.kept]
        above = np.clip((share - guessing) / (1 - guessing - slip), 0.02, 0.98)
        bounded = guessing + slip > 0
        intercept[rasch.kept] = np.where(bounded, np.log(above / (1 - above)), items.intercept)
    items = known._replace(
        slope=np.where(free[0], slope, known.slope), intercept=np.where(free[1], intercept, known.intercept)
    )
    return RaschStart(_start_at(problem, items), by_ability)


def log_likelihood(problem: CalibrationProblem, solution: Solution) -> float:
    """Marginal log-likelihood of the answers at a solution."""
    items, ability, _ = problem.unpack(solution.point)
    return expect(problem.model, problem.answers, items.for_population(*ability)).log_likelihood


def climb(problem: CalibrationProblem, start: Floats, most: int) -> Solution:
    """Iterate EM steps to a maximum and, where items can have several, look for better ones."""
    # The item that each of the first numbers of a point belongs to, where items can have several maxima.
    own = [np.flatnonzero(problem.free[row]) for row in (1, 0, 2, 3)]
    several = problem.model.bounded and bool(problem.free[[0, 2, 3]].any())
    groups = np.concatenate(own) if several else None
    solution = fixed_point(problem.step, start, most, groups)
    # What is common to all items moves with them, and so may the better of two maxima: each item moves only once.
    may = problem.free[1].copy()
    for _ in range(SEARCHES if several and solution.converged else 0):
        point, moved = problem.elsewhere(solution.point, may)
        if not moved.any():
            break
        may &= ~moved
        left = most - solution.iterations
        if left < 1:
            break
        again = fixed_point(problem.step, point, min(SEARCH_ITERATIONS, left), groups)
        iterations = solution.iterations + again.iterations
        if not again.converged:
            return solution._replace(iterations=iterations)
        solution = again._replace(iterations=iterations)
    return solution


def estimates(problem: CalibrationProblem, solution: Solution, errors: bool) -> ItemEstimates:
    """Estimates of all items at a solution, with standard errors if asked for."""
    model, answers, free = problem.model, problem.answers, problem.free[1]
    items, ability, common = problem.unpack(solution.point)
    seen = items.for_population(*ability)
    exact = errors and answers.n_subjects * (2 * int(free.sum())) ** 2 * curves(seen).knots.size <= EXACT_WORK
    precise = replace(answers, dtype=np.float64)
    expectation = expect(model, precise, seen, with_weights=exact)
    if model.slope == "item" and not problem.anchored:
        # The scale of ability is arbitrary. Its sign: abler subjects have more right answers. Its spread is 1 at a
        # solution, and made so where the fit did not converge.
        share = answers.subject_sums / answers.subject_counts
        above = answers.weights * (share - np.average(share, weights=answers.weights))
        sign = 1.0 if float(above @ expectation.posterior.mean) >= 0 else -1.0
        sd = sign * float(np.sqrt(expectation.square - expectation.mean**2))
        seen = items = items.for_population(expectation.mean, sd)
        centre = (common.difficulty_mean - expectation.mean) / sd
        common = Common(common.slope_mean * sd, common.slope_sd * abs(sd), centre)
        expectation = expect(model, precise, seen, with_weights=exact)
    with np.errstate(divide="ignore", invalid="ignore"):
        difficulty = -items.intercept / items.slope
    errors_of = np.full((4, free.size), 0.0 if errors else np.nan)
    if errors:
        about = covariance(model, answers, seen, expectation, problem.priors, problem.free, common, exact)
        a = seen.slope[free]
        # A negative variance, where there is no maximum to measure the curvature of, has the root NaN.
        with np.errstate(divide="ignore", invalid="ignore"):
            b = -seen.intercept[free] / a
            variance = (about.intercept + 2 * b * about.both + b**2 * about.slope) / a**2
            errors_of[0, free] = np.sqrt(variance) * ability.sd
            errors_of[1, free] = np.sqrt(about.slope) / ability.sd
            for row, chance, variances in ((2, items.guessing, about.guessing), (3, items.slip, about.slip)):
                some = problem.free[row]
                errors_of[row, some] = (chance * (1 - chance))[some] * np.sqrt(variances[some[free]])
    # Back to all items, those that were left out included.
    every = np.full((8, problem.kept.size), np.nan)
    every[0] = problem.difficulty
    every[:, problem.kept] = difficulty, items.slope, items.guessing, 1 - items.slip, *errors_of
    b, a, g, u, b_se, a_se, g_se, u_se = every
    return ItemEstimates(
        *(b, a, g, u, b_se, a_se, g_se, u_se, expectation.log_likelihood),
        problem.start.size - 2 * int(problem.hierarchical),
        *(solution.converged, solution.iterations, ability.mean, ability.sd),
        Parameters.of(b, a, np.nan_to_num(g), np.nan_to_num(u, nan=1.0)),
    )

"""Marginal maximum likelihood: from answers to estimates, the same way for Rasch, 2PL and 3PL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from breadth.irt.acceleration import fixed_point
from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.estimates import Anchors, Estimates
from breadth.irt.information import covariance, exact_is_cheap
from breadth.irt.priors import Priors
from breadth.irt.problem import Model, Problem, make_problem, standardised

MOST_ITERATIONS = 1000


def calibrate(answers: Answers, model: Model, priors: Priors, fixed: Anchors | None, errors: bool = True) -> Estimates:
    """Fit a model and return its estimates, NaN for items without answers."""
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
    problem = make_problem(answers.part(subjects, kept), model, priors, anchors, kept)
    noise = 1e-10 if problem.answers.dtype is np.float64 else 1e-7
    found = fixed_point(problem.step, problem.start(), MOST_ITERATIONS, noise)
    result = _estimates(problem, _upright(problem, found.point), errors)
    result = result._replace(converged=found.converged, iterations=found.iterations)
    if not kept.all():
        difficulty = _expanded(result.difficulty, kept)
        difficulty[no_maximum] = np.where(share[no_maximum] == 1, -np.inf, np.inf)
        result = result._replace(
            difficulty=difficulty,
            discrimination=_expanded(result.discrimination, kept),
            guessing=_expanded(result.guessing, kept),
            difficulty_se=_expanded(result.difficulty_se, kept),
            discrimination_se=_expanded(result.discrimination_se, kept),
            guessing_se=_expanded(result.guessing_se, kept),
        )
    return result


def _upright(problem: Problem, point: Floats) -> Floats:
    """Turn the scale round if most items discriminate negatively on it: without anchors its sign is arbitrary."""
    items, ability = problem.unpack(point)
    if problem.anchored or items.slope.sum() >= 0:
        return point
    return problem.pack(items._replace(slope=-items.slope), ability)


def _estimates(problem: Problem, point: Floats, errors: bool) -> Estimates:
    items, ability = problem.unpack(point)
    seen = standardised(items, ability)
    exact = errors and exact_is_cheap(problem.answers.n_subjects, int(problem.free.sum()))
    found = replace(problem, answers=problem.answers.precisely()).expect(seen, with_weights=exact)
    nothing = np.full(items.slope.size, np.nan)
    a_se, b_se, g_se = nothing, nothing, nothing
    if errors:
        free, chance = problem.free, problem.free_guessing
        about = covariance(problem.answers, seen, found, problem.model, problem.priors, free, chance, exact)
        b, a = seen.difficulty[free], seen.slope[free]
        variance = (about.intercept + 2 * b * about.both + b**2 * about.slope) / a**2
        a_se, b_se, g_se = (np.zeros(items.slope.size) for _ in range(3))
        a_se[free] = _root(about.slope) / ability.sd
        b_se[free] = _root(variance) * ability.sd
        g = items.guessing[chance]
        g_se[chance] = g * (1 - g) * _root(about.guessing[chance[free]])
    n_free = int(problem.free.sum())
    per_item = n_free if problem.model == "1pl" else 2 * n_free + int(problem.free_guessing.sum())
    extra = 2 if problem.anchored else int(problem.model == "1pl")
    return Estimates(
        items.difficulty,
        items.slope,
        items.guessing,
        b_se,
        a_se,
        g_se,
        found.log_likelihood,
        per_item + extra,
        False,
        0,
        ability.mean,
        ability.sd,
    )


def _root(variance: Floats) -> Floats:
    """Standard error, or NaN where there is no maximum to measure the curvature of."""
    return np.sqrt(np.where(variance >= 0, variance, np.nan))


def _expanded(values: Floats, kept: Bools) -> Floats:
    whole = np.full(kept.size, np.nan)
    whole[kept] = values
    return whole

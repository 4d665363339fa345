"""Do curves start at the chance of guessing? The answers are asked, because language models can do worse than guess."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Floats
from breadth.irt.marginal import climb, log_likelihood, make_problem
from breadth.irt.models import Model
from breadth.irt.one_scale import BEYOND_CHANCE
from breadth.irt.parameters import Priors
from breadth.threads import one_blas_thread

#: Share of items that are clearly below chance by accident, where subjects guess evenly.
BELOW_BY_ACCIDENT = 0.05

#: Subjects and items on which curves with a floor are compared with curves without, and EM steps.
FLOOR_SUBJECTS, FLOOR_ITEMS, FLOOR_ITERATIONS = 1000, 300, 15

#: How much better the log-likelihood without a floor must be before a chance that is known is not believed.
FLOOR_AGAINST = 3.0


class FloorCheck(NamedTuple):
    """Whether curves that start at chance suit the answers.

    ``below`` is the share of items that are right clearly less often than chance (one-sided 5 %). ``gain`` is the
    log-likelihood with a floor less that without, on some of the answers; NaN where items below chance spoke against a
    floor already.
    """

    suits: bool
    below: float
    gain: float


@one_blas_thread
def check_floor(answers: Answers, model: Model, priors: Priors, chance: Floats) -> FloorCheck:
    """Do subjects that do not know an item guess it right with ``chance`` [J]? NaN where it is not known.

    A floor says that nobody is right less often than by guessing. Language models often are: a distractor that
    convinces all of them, or a preference for one label, puts a quarter of the items of ARC below chance, and curves
    that start at chance then describe the answers far worse than curves that start at 0. Both have equally many
    parameters, so the answers decide. What was given is believed unless they clearly speak against it: more items
    clearly below chance than accident allows, or a log-likelihood that is better by more than 3 without a floor.
    """
    known = np.isfinite(chance) & (chance > 0) & (answers.item_counts > 0)
    n, right, guess = answers.item_counts[known], answers.item_sums[known], chance[known]
    below = right - n * guess < -BEYOND_CHANCE * np.sqrt(n * guess * (1 - guess))
    share = float(below.mean())
    by_accident = BELOW_BY_ACCIDENT
    most = by_accident + BEYOND_CHANCE * np.sqrt(by_accident * (1 - by_accident) / known.sum())
    if share > most:
        return FloorCheck(False, share, float("nan"))
    # Some of the subjects, and some of the items in order of their shares right.
    ranked = np.flatnonzero(known)[np.argsort(right / n, kind="stable")]
    subjects, items = np.zeros(answers.n_subjects, dtype=np.bool_), np.zeros(answers.n_items, dtype=np.bool_)
    subjects[:: -(-answers.n_subjects // FLOOR_SUBJECTS)] = True
    items[ranked[:: -(-ranked.size // FLOOR_ITEMS)]] = True
    part = answers.part(subjects, items)
    reached = []
    for floor in (chance[items], None):
        problem = make_problem(model, part, priors, floor=floor)
        reached.append(log_likelihood(problem, climb(problem, problem.start, FLOOR_ITERATIONS)))
    gain = reached[0] - reached[1]
    return FloorCheck(gain > -FLOOR_AGAINST, share, gain)

"""The two-parameter logistic model (2PL): items differ in difficulty and discrimination."""

from __future__ import annotations

from breadth.irt.answers import Answers
from breadth.irt.estimates import Anchors, Estimates
from breadth.irt.marginal import calibrate
from breadth.irt.priors import Priors
from breadth.threads import one_blas_thread


@one_blas_thread
def fit_2pl(
    answers: Answers, priors: Priors | None = None, fixed: Anchors | None = None, errors: bool = True
) -> Estimates:
    """How hard is each item, and how well does it tell able from less able subjects?

    P(right) = 1 / (1 + exp(-a (theta - b))), theta ~ N(0, 1) (Birnbaum 1968), by marginal maximum likelihood. The sum
    of slopes over a subject's right answers is sufficient for its ability, so that an EM step passes over the answers
    twice with one vector each, whatever the number of quadrature points.

    A negative discrimination means that able subjects get the item wrong more often: most likely a wrong key. Where
    discrimination is close to 0, difficulty = -intercept / slope is close to undefined, and its standard error says so.
    Needs a few hundred subjects; with fewer, the 1PL is steadier. Not for items that can be guessed by many: see the
    3PL. The sign of the scale is chosen so that most items discriminate positively.

    Parameters are those of :func:`breadth.irt.fit_rasch`; fixed items may differ in discrimination.
    """
    return calibrate(answers, "2pl", Priors() if priors is None else priors, fixed, errors)

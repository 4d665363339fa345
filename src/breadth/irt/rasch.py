"""The Rasch model (1PL): items differ in difficulty only."""

from __future__ import annotations

from breadth.irt.answers import Answers
from breadth.irt.estimates import Anchors, Estimates
from breadth.irt.marginal import calibrate
from breadth.irt.priors import Priors
from breadth.threads import one_blas_thread


@one_blas_thread
def fit_rasch(
    answers: Answers, priors: Priors | None = None, fixed: Anchors | None = None, errors: bool = True
) -> Estimates:
    """How hard is each item, if all items tell able from less able subjects equally well?

    P(right) = 1 / (1 + exp(-a (theta - b))) with one a for all items and theta ~ N(0, 1), fitted by marginal maximum
    likelihood (Bock and Aitkin 1981; Thissen 1982). This is the Rasch model with ability N(0, a^2), in units of
    ability's standard deviation: Rasch difficulties in logits are a b. Raw scores are sufficient, so complete data
    enter through row and column sums only.

    Assumes one ability, normal in the population of subjects, and answers independent given it. Use the 2PL where items
    differ in how well they discriminate, as they usually do; the Rasch model needs fewer subjects, and ranks items the
    same way for subjects of every ability.

    Parameters
    ----------
    answers
        Right, wrong and missing answers; shares between 0 and 1 are taken as fractions of a right answer.
    priors
        Weak priors unless told otherwise; ``Priors.none()`` is maximum likelihood, under which items that all or none
        got right have infinite difficulty.
    fixed
        Items known from an earlier calibration, which set the scale; they must share one discrimination.
    errors
        Whether to compute standard errors.

    >>> import numpy as np
    >>> answers = Answers.of(np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]], dtype=np.int8))
    >>> bool(np.all(np.diff(fit_rasch(answers).difficulty) > 0))
    True
    """
    return calibrate(answers, "1pl", Priors() if priors is None else priors, fixed, errors)

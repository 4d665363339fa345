"""The three-parameter logistic model (3PL): items can also be guessed."""

from __future__ import annotations

from breadth.irt.answers import Answers
from breadth.irt.estimates import Anchors, Estimates
from breadth.irt.marginal import calibrate
from breadth.irt.priors import Priors
from breadth.threads import one_blas_thread


@one_blas_thread
def fit_3pl(
    answers: Answers, priors: Priors | None = None, fixed: Anchors | None = None, errors: bool = True
) -> Estimates:
    """How hard is each item, how well does it discriminate, and how often is it right by guessing?

    P(right) = g + (1 - g) / (1 + exp(-a (theta - b))), theta ~ N(0, 1) (Birnbaum 1968), by marginal maximum likelihood
    with a Beta prior on g. The likelihood is computed on all quadrature points, so this is slower than the 2PL by far.

    g is only known where subjects far below an item's difficulty answered it; elsewhere it, a and b trade off against
    each other, and the prior decides. Without priors some items run off to g near 0 or 1: prefer
    ``Anchors.known_guessing`` with 1 / number of choices, which is a 2PL with a floor. Only for answers that are
    right or wrong.

    Parameters are those of :func:`breadth.irt.fit_rasch`; ``fixed`` may hold guessing alone.
    """
    return calibrate(answers, "3pl", Priors() if priors is None else priors, fixed, errors)

"""Item response theory on arrays: how hard each item is, how able each subject, and whether the model holds.

Marginal maximum likelihood for the Rasch model, 2PL and 3PL with standard errors; abilities on known items; fit
statistics, a check of dimension, and copies among subjects. Arrays in, arrays out: frames and files are made on top.
Imports only ``breadth.errors``.
"""

from breadth.irt.ability import Abilities, reliability, score
from breadth.irt.answers import Answers
from breadth.irt.dimension import Dimension, residual_dimension
from breadth.irt.estimates import Anchors, Estimates
from breadth.irt.fit import Fit, Misfit, fit_statistics, item_fit, point_biserial, subject_fit
from breadth.irt.patterns import Patterns, distinct_patterns
from breadth.irt.priors import Priors
from breadth.irt.rasch import fit_rasch
from breadth.irt.three_parameter import fit_3pl
from breadth.irt.two_parameter import fit_2pl

__all__ = [
    "Abilities",
    "Anchors",
    "Answers",
    "Dimension",
    "Estimates",
    "Fit",
    "Misfit",
    "Patterns",
    "Priors",
    "distinct_patterns",
    "fit_2pl",
    "fit_3pl",
    "fit_rasch",
    "fit_statistics",
    "item_fit",
    "point_biserial",
    "reliability",
    "residual_dimension",
    "score",
    "subject_fit",
]

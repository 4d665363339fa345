"""What to do next: how many items and seeds, which items, which test sets, which models together.

The functions of ``breadth advise`` with their results, words and terminal tables, their numeric cores (those of short
forms and of predictions are modules of their own), and figures. Imports ``comparison``, ``irt``, ``records`` and
``results``.
"""

from breadth.advice.figures import errors_figure, gains_figure, power_figure, seeds_figure, steps_figure
from breadth.advice.items import (
    ShortForm,
    ShortScores,
    advise_items,
    advise_score,
    scores_verdict,
    short_form_verdict,
)
from breadth.advice.power import (
    PowerAdvice,
    advise_power,
    paired_items,
    paired_power,
    power_verdict,
    unpaired_items,
)
from breadth.advice.prediction import Predictor, choose_sets
from breadth.advice.seeds import SeedAdvice, advise_seeds, seeds_verdict
from breadth.advice.short_form import ShortFormScorer, plain_estimate, random_split, strong_split, try_short_form
from breadth.advice.testsets import (
    PredictionAdvice,
    advise_testsets,
    prediction_verdict,
    read_scores,
)
from breadth.advice.together import (
    Gain,
    TogetherAdvice,
    advise_together,
    route,
    route_gain,
    together_verdict,
    vote,
    vote_gain,
)

__all__ = [
    "Gain",
    "PowerAdvice",
    "PredictionAdvice",
    "Predictor",
    "SeedAdvice",
    "ShortForm",
    "ShortFormScorer",
    "ShortScores",
    "TogetherAdvice",
    "advise_items",
    "advise_power",
    "advise_score",
    "advise_seeds",
    "advise_testsets",
    "advise_together",
    "choose_sets",
    "errors_figure",
    "gains_figure",
    "paired_items",
    "paired_power",
    "plain_estimate",
    "power_figure",
    "power_verdict",
    "prediction_verdict",
    "random_split",
    "read_scores",
    "route",
    "route_gain",
    "scores_verdict",
    "seeds_figure",
    "seeds_verdict",
    "short_form_verdict",
    "steps_figure",
    "strong_split",
    "together_verdict",
    "try_short_form",
    "unpaired_items",
    "vote",
    "vote_gain",
]  # fmt: skip

"""The item response models in a registry, and the defaults and words that options take.

Every model restricts one curve: the chance that a subject answers an item right is

    P(right) = g + (u - g) / (1 + exp(-a (ability - b)))

with difficulty b, discrimination (slope) a, guessing g and ceiling u; ability is N(0, 1) over the subjects.

The Rasch model (1PL; Rasch 1960, Thissen 1982) has g = 0 and one a for all items: it is the Rasch model with ability
N(0, a^2) in units of ability's standard deviation, so difficulties in logits are a b. Raw scores are sufficient, so
complete data enter through row and column sums only. It needs the fewest subjects, and ranks items the same way for
subjects of every ability. Use the 2PL where items differ in how well they discriminate, as they usually do.

The 2PL (Birnbaum 1968) has g = 0 and an a per item. The sum of slopes over a subject's right answers is sufficient for
its ability, so an EM step passes over the answers twice with one vector each. A negative discrimination means that able
subjects get the item wrong more often: most likely a wrong label. Where discrimination is close to 0, difficulty is
nearly undefined, and its standard error shows it. Needs a few hundred subjects; with fewer, the 1PL is steadier. The
sign of the scale is chosen so that most items discriminate positively.

The 3PL (Birnbaum 1968) also has a g per item, with a Beta prior. The likelihood is computed on all quadrature points,
which is far slower. g is known only where subjects far below an item's difficulty answered it; elsewhere g, a and b
trade off against each other and the prior decides. Without priors some items run off to g near 0 or 1: prefer the 2PL
with a known ``floor`` of 1 / number of choices. Needs right-or-wrong answers.

The 4PL (Barton and Lord 1981) also has a ceiling u per item, below 1 where even the ablest get the item wrong now and
then: a careless slip, an ambiguous question, a key that is wrong for some readings. It is known only where subjects far
above an item's difficulty answered it. Needs thousands of subjects; with fewer the priors decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from breadth.irt.answers import Answers, Floats
from breadth.irt.parameters import Anchors, ItemEstimates, Priors
from breadth.threads import one_blas_thread

#: Difficulty levels that items are sorted into.
DEFAULT_LEVELS = 10

#: Name of the model that is fitted unless another is chosen.
DEFAULT_MODEL = "1pl"

#: Near-copies among subjects: keep them, weigh every group as one subject, or drop all but one of each group.
Copies = Literal["keep", "weigh", "drop"]

#: Ability as the posterior mean, or as Warm's weighted likelihood estimate.
Method = Literal["eap", "wle"]


@dataclass(frozen=True)
class Model:
    """An item response model: which parameters of the curve are estimated, and how to fit it.

    ``slope`` is "item" (every item has its own), "common" (one for all items, estimated) or a number (one, known).
    ``guessing`` and ``ceiling`` say whether every item has a lower and an upper asymptote; without, they are 0 and 1,
    with one (``bounded``) answers must be right or wrong, because a share has no likelihood. ``floor`` marks a model
    without guessing of its own that was given a chance of guessing: the curves start there, and nothing more is
    estimated. ``description`` completes "items differ in ...". To add a model, put it into ``MODELS`` under its name.
    """

    name: str
    title: str
    description: str
    slope: Literal["item", "common"] | float = "item"
    guessing: bool = False
    ceiling: bool = False
    floor: bool = False
    bounded: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Say whether there is an asymptote."""
        object.__setattr__(self, "bounded", self.guessing or self.ceiling or self.floor)

    @one_blas_thread
    def fit(
        self,
        answers: Answers,
        priors: Priors | None = None,
        fixed: Anchors | None = None,
        errors: bool = True,
        floor: Floats | None = None,
    ) -> ItemEstimates:
        """How hard is each item, and what else does the model say about it?

        Marginal maximum likelihood (Bock and Aitkin 1981): ability is integrated out over a N(0, 1) population, and the
        item parameters that maximise what is left are found by EM. Assumes one ability, normal in the population of
        subjects, and answers independent given it. The module's text says when not to use which model.

        Parameters
        ----------
        answers
            Right, wrong and missing answers; shares between 0 and 1 count as fractions of a right answer.
        priors
            Weak priors by default; ``Priors.none()`` is maximum likelihood, under which items that all or none got
            right have infinite difficulty.
        fixed
            Items known from an earlier calibration, which set the scale; or known guessing alone.
        errors
            Whether to compute standard errors.
        floor
            Known chance of guessing every item right [J]. The 1PL and the 2PL then have curves that start there, and
            estimate no more parameters than without. Models that estimate guessing take no floor.

        Returns
        -------
        ItemEstimates
            Item parameters with standard errors, and how the fit went.

        >>> import numpy as np
        >>> from breadth.irt import Answers
        >>> answers = Answers.of(np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]], dtype=np.int8))
        >>> bool(np.all(np.diff(MODELS["1pl"].fit(answers).difficulty) > 0))
        True
        """
        from breadth.irt.marginal import estimates, make_problem, maximise

        problem = make_problem(self, answers, Priors() if priors is None else priors, fixed, floor)
        return estimates(problem, maximise(problem), errors)


#: Every model by name, the simplest first. A new one may be added from anywhere.
MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("1pl", "Rasch (1PL)", "difficulty", slope="common"),
        Model("2pl", "2PL", "difficulty and discrimination"),
        Model("3pl", "3PL", "difficulty, discrimination and guessing", guessing=True),
        Model("4pl", "4PL", "difficulty, discrimination, guessing and ceiling", guessing=True, ceiling=True),
    )
}

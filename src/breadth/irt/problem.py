"""A calibration to be done: what is known, what is free, and one EM step towards it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from breadth.errors import InputError
from breadth.irt.acceleration import Step
from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.curves import Parameters
from breadth.irt.estimates import Anchors
from breadth.irt.expectation import Expectation, expect_2pl, expect_3pl, expect_rasch
from breadth.irt.maximisation import (
    Improved,
    ability_scale,
    improve_2pl,
    improve_3pl,
    improve_intercepts,
    log_prior,
)
from breadth.irt.priors import Priors

Model = Literal["1pl", "2pl", "3pl"]

#: Where the 3PL starts looking for guessing: five choices.
START_GUESSING = 0.2


class Ability(NamedTuple):
    """Mean and standard deviation of ability on the scale of the items."""

    mean: float = 0.0
    sd: float = 1.0


@dataclass(frozen=True)
class Problem:
    """A calibration to be done: answers of items and subjects that have some, and what is free.

    Inside, abilities are standardised: items are expressed as the standardised ability sees them.
    """

    answers: Answers
    model: Model
    priors: Priors
    known: Parameters
    free: Bools
    free_guessing: Bools

    @property
    def anchored(self) -> bool:
        """Whether some items set the scale."""
        return not bool(self.free.all())

    def start(self) -> Floats:
        """Begin with slopes of 1 and the intercepts that the shares of right answers suggest."""
        answers = self.answers
        share = (answers.weighted_item_sums + 0.5) / (answers.weighted_item_counts + 1)
        above = np.clip((share - self.known.guessing) / (1 - self.known.guessing), 0.02, 1)
        share = np.where(self.known.guessing > 0, np.minimum(above, share), share)
        # The curve of the average subject is steeper than the average curve.
        intercept = np.log(share / (1 - share)) * np.sqrt(1 + 0.35)
        items = self.known._replace(
            slope=np.where(np.isnan(self.known.slope), 1.0, self.known.slope),
            intercept=np.where(self.free, intercept, self.known.intercept),
        )
        return self.pack(items, Ability())

    def pack(self, items: Parameters, ability: Ability) -> Floats:
        """Put what is free into one vector, on the scale of the items."""
        parts = [items.intercept[self.free]]
        if self.model != "1pl":
            parts.append(items.slope[self.free])
        if self.model == "3pl":
            g = items.guessing[self.free_guessing]
            parts.append(np.log(g) - np.log1p(-g))
        if self.anchored:
            parts.append(np.array([ability.mean, np.log(ability.sd)]))
        elif self.model == "1pl":
            parts.append(np.log(items.slope[:1]))
        return np.concatenate(parts)

    def unpack(self, point: Floats) -> tuple[Parameters, Ability]:
        """Undo :meth:`pack`."""
        n_free = int(self.free.sum())
        slope, intercept, guessing = (array.copy() for array in self.known)
        intercept[self.free] = point[:n_free]
        at = n_free
        if self.model != "1pl":
            slope[self.free] = point[at : at + n_free]
            at += n_free
        if self.model == "3pl":
            logit = np.clip(point[at : at + int(self.free_guessing.sum())], -12, 12)
            guessing[self.free_guessing] = 1 / (1 + np.exp(-logit))
        if self.anchored:
            return Parameters(slope, intercept, guessing), Ability(float(point[-2]), float(np.exp(point[-1])))
        if self.model == "1pl":
            slope[:] = np.exp(point[-1])
        return Parameters(slope, intercept, guessing), Ability()

    def expect(self, items: Parameters, with_weights: bool = False) -> Expectation:
        """Take the E step of the model."""
        expect = {"1pl": expect_rasch, "2pl": expect_2pl, "3pl": expect_3pl}[self.model]
        return expect(self.answers, items, with_weights)

    def improve(self, items: Parameters, found: Expectation) -> Improved:
        """Take the M step of the model for the free items."""
        if self.anchored:
            counts = found.counts if found.counts.shape[0] == 1 else found.counts[self.free]
            at = found.curves
            found = found._replace(
                counts=counts,
                right=found.right[self.free],
                curves=at._replace(logistic=at.logistic[self.free], log_one_plus=at.log_one_plus[self.free]),
            )
        free = items.part(self.free)
        if self.model == "1pl":
            return improve_intercepts(free, found, self.priors)
        if self.model == "2pl":
            return improve_2pl(free, found, self.priors)
        return improve_3pl(free, found, self.priors, self.free_guessing[self.free])

    def step(self, point: Floats) -> Step:
        """Take one EM step."""
        items, ability = self.unpack(point)
        seen = standardised(items, ability)
        found = self.expect(seen)
        better = self.improve(seen, found)
        weight = float(self.answers.weights.sum())
        log_spread = float(np.log(ability.sd)) if self.anchored else None
        if self.model == "1pl":
            log_spread = float(np.log(seen.slope[0]))
        objective = found.log_likelihood + log_prior(
            seen, self.free, self.priors, self.model, self.free_guessing, log_spread
        )
        # A likelihood above 1 betrays curves too steep for the knots.
        objective = objective if found.log_likelihood <= 0 else -np.inf
        known = np.sqrt(np.maximum(better.information, 1e-12))
        precision = [known[0]] if self.model == "1pl" else [known[1], known[0]]
        if self.model == "3pl":
            precision.append(known[2][self.free_guessing[self.free]])
        improved = _put(seen, better.items, self.free)
        common = self.model == "1pl"
        shift, stretch = ability_scale(found, weight, better.items, self.priors, log_spread, common)
        if self.anchored:
            after = Ability(ability.mean + ability.sd * shift, ability.sd * stretch)
            improved = unstandardised(improved, ability)
            precision.append(np.sqrt(weight * np.array([1 / ability.sd**2, 2])))
        else:
            after = Ability()
            improved = standardised(improved, Ability(shift, stretch))
            if self.model == "1pl":
                precision.append(np.sqrt([2 * weight]))
        rate = min(2 * found.missing, 0.97)
        return Step(self.pack(improved, after), objective, np.concatenate(precision), rate)


def standardised(items: Parameters, ability: Ability) -> Parameters:
    """Express items as an ability of mean 0 and standard deviation 1 sees them."""
    return items._replace(slope=items.slope * ability.sd, intercept=items.intercept + items.slope * ability.mean)


def unstandardised(items: Parameters, ability: Ability) -> Parameters:
    """Undo :func:`standardised`."""
    slope = items.slope / ability.sd
    return items._replace(slope=slope, intercept=items.intercept - slope * ability.mean)


def make_problem(answers: Answers, model: Model, priors: Priors, anchors: Anchors | None, kept: Bools) -> Problem:
    """Set up a calibration, or say why it cannot be done."""
    n = answers.n_items
    if answers.n_subjects < 2:
        raise InputError(f"A calibration needs answers of at least 2 subjects, and there is {answers.n_subjects}.")
    if n < 2:
        raise InputError(f"A calibration needs at least 2 items that can be estimated, and there is {n}.")
    if model == "3pl" and answers.fractional:
        raise InputError("The 3PL needs answers that are right or wrong; for shares between 0 and 1 use 1PL or 2PL.")
    every = np.ones(n, dtype=np.bool_)
    unknown = np.full(n, np.nan)
    guessing = np.full(n, START_GUESSING if model == "3pl" else 0.0)
    if anchors is None:
        return Problem(answers, model, priors, Parameters(unknown, unknown, guessing), every, every & (model == "3pl"))
    difficulty, slope, known_guessing = (np.asarray(array)[kept] for array in anchors)
    free = np.isnan(difficulty)
    if not free.any():
        raise InputError(
            "All items are fixed, so there is nothing to calibrate; score its subjects instead (breadth ability)."
        )
    if model != "3pl" and (known_guessing > 0).any():
        raise InputError(f"The {model.upper()} has no guessing, but some fixed items have; use the 3PL.")
    if model == "1pl" and not free.all():
        common = slope[~free]
        if np.ptp(common) > 1e-6 * abs(common[0]):
            raise InputError("Fixed items of a 1PL must share one discrimination; use the 2PL where they do not.")
        slope = np.full(n, common[0])
    guessing = np.where(np.isnan(known_guessing), np.where(free, guessing, 0.0), known_guessing)
    free_guessing = free & np.isnan(known_guessing) & (model == "3pl")
    return Problem(answers, model, priors, Parameters(slope, -slope * difficulty, guessing), free, free_guessing)


def _put(items: Parameters, some: Parameters, where: Bools) -> Parameters:
    if where.all():
        return some
    arrays = [array.copy() for array in items]
    for array, values in zip(arrays, some, strict=True):
        array[where] = values
    return Parameters(*arrays)

"""``calibrate``, ``ability``, ``levels``: how hard items are, judged by those who answered."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from breadth.difficulty import assign_levels
from breadth.errors import InputError, listed
from breadth.irt import (
    Abilities,
    Anchors,
    Answers,
    Estimates,
    Priors,
    distinct_patterns,
    fit_statistics,
    reliability,
    score,
)
from breadth.records import Responses
from breadth.verbs.calibration import FITS, Calibration, Model
from breadth.verbs.items import items_frame, subjects_frame_with
from breadth.verbs.study_subjects import read_subjects

Copies = Literal["keep", "weigh", "drop"]


def calibrate(
    responses: Any,
    model: Model = "1pl",
    priors: str | os.PathLike[str] | Priors = "default",
    levels: int = 10,
    anchor: str | os.PathLike[str] | Calibration | None = None,
    min_responses: int = 0,
    copies: Copies = "keep",
    seed: int = 0,
    testset: str | None = None,
) -> Calibration:
    """Estimate item difficulty and subject ability from right and wrong answers.

    Parameters
    ----------
    responses
        NPZ matrix, wide or long table, frame, or array of subjects x items; NaN, null or -1 is missing. Or the
        directory of a study: its checkpoints are the subjects, and ``items`` also has ``testset`` and ``label``.
    model
        ``1pl`` (Rasch: items differ in difficulty), ``2pl`` (and discrimination), ``3pl`` (and guessing).
    priors
        ``default`` (weak), ``none`` (maximum likelihood), or a JSON file with fields of :class:`breadth.irt.Priors`.
    levels
        Number of equal-size difficulty levels; at most one per item.
    anchor
        An earlier calibration: its items keep their parameters, and new items are put on its scale.
    min_responses
        Items with fewer answers are left out and noted.
    copies
        What to do with near-copies among subjects: ``keep`` them, ``weigh`` every group of them as one subject, or
        ``drop`` all but one of each group from the fit.
    seed
        Seeds the check of dimension and the samples of ``level_stability``.
    testset
        Take only the items of this test set (a study, or a long table with a column ``testset``).

    Examples
    --------
    >>> import breadth, numpy as np
    >>> generator = np.random.default_rng(0)
    >>> ability, difficulty = generator.standard_normal((200, 1)), np.array([-1.0, 0.0, 1.0, 2.0])
    >>> answers = generator.random((200, 4)) < 1 / (1 + np.exp(difficulty - ability))
    >>> breadth.calibrate(answers).items["difficulty"].is_sorted()
    True
    """
    if model not in FITS:
        raise InputError(f"model is {model!r}; choose 1pl, 2pl or 3pl")
    if copies not in ("keep", "weigh", "drop"):
        raise InputError(f"copies is {copies!r}; choose keep, weigh or drop")
    data, about = read_subjects(responses, testset)
    if levels < 2:
        raise InputError(f"--levels is {levels}; choose at least 2")
    chosen = _priors(priors)
    answers = Answers.of(data.matrix)
    if model == "3pl" and answers.fractional:
        raise InputError(
            f"{data.name}: answers are shares between right and wrong; the 3pl needs 0 and 1, use 1pl or 2pl"
        )
    fixed = None if anchor is None else _anchors(anchor, data)
    try:
        fitted = _enough(answers, min_responses)
        if copies != "keep":
            fitted = _without_copies(fitted, model, chosen, fixed, copies)
        found = FITS[model](fitted, chosen, fixed)
    except InputError as error:
        raise InputError(f"{data.name}: {error}") from error
    parameters = (found.difficulty, found.discrimination, np.nan_to_num(found.guessing))
    abilities = score(answers, *parameters, mean=found.ability_mean, sd=found.ability_sd)
    fit = fit_statistics(answers, found.difficulty, found.discrimination, abilities.ability, parameters[2])
    sure = assign_levels(found.difficulty, found.difficulty_se, min(levels, len(data.items)))
    spread = reliability(abilities)
    items = items_frame(data.items, answers, found, fit.items, fit.point_biserial, sure, min_responses, spread)
    items = items if about is None else items.join(about, on="item", how="left", maintain_order="left")
    subjects = subjects_frame_with(data.subjects, answers, abilities, fit.subjects)
    summary = _fit_frame(model, answers, found, abilities)
    calibrated = Calibration(items, subjects, summary, (*data.warnings, *_warnings(found, items)), data, seed)
    alike = calibrated.warning_alike
    return replace(calibrated, warnings=(*calibrated.warnings, alike)) if alike else calibrated


def ability(
    responses: Any, calibration: str | os.PathLike[str] | Calibration, method: Literal["eap", "wle"] = "eap"
) -> pl.DataFrame:
    """Score new subjects on calibrated items, without refitting; see ``Calibration.score``."""
    return _loaded(calibration).score(responses, method)


def levels(calibration: str | os.PathLike[str] | Calibration, n: int = 10) -> pl.DataFrame:
    """Item, difficulty and level (0 is the easiest), the levels it could be in, and how sure the assignment is."""
    return _loaded(calibration).levels(n)


def _loaded(calibration: str | os.PathLike[str] | Calibration) -> Calibration:
    return calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)


def _priors(given: str | os.PathLike[str] | Priors) -> Priors:
    if isinstance(given, Priors):
        return given
    if given in ("default", "none"):
        return Priors() if given == "default" else Priors.none()
    path = Path(given)
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: priors are 'default', 'none' or a JSON file ({error})") from error
    unknown = [name for name in values if name not in Priors._fields] if isinstance(values, dict) else ["no object"]
    if unknown:
        raise InputError(f"{path}: unknown prior {listed(unknown)}; known: {listed(Priors._fields)}")
    wrong = [name for name, value in values.items() if not (value is None or isinstance(value, int | float))]
    if wrong:
        raise InputError(f"{path}: {listed(wrong)} must be a number or null")
    return Priors(**values)


def _anchors(anchor: str | os.PathLike[str] | Calibration, data: Responses) -> Anchors:
    earlier = _loaded(anchor)
    place = {name: index for index, name in enumerate(earlier.items["item"])}
    index = np.array([place.get(name, -1) for name in data.items])
    if (index < 0).all():
        raise InputError(f"{data.name}: none of its items is in the anchor; an anchor needs items in common")
    fixed = (np.where(index >= 0, values[index], np.nan) for values in earlier.parameters())
    return Anchors(*fixed)


def _enough(answers: Answers, least: int) -> Answers:
    """Blank out items with fewer answers than asked for, so that the fit leaves them out."""
    scarce = answers.item_counts < least
    if not scarce.any():
        return answers
    unseen = np.broadcast_to(scarce, answers.right.shape) if answers.seen is None else scarce | (answers.seen == 0)
    return Answers.of(np.where(unseen, np.nan, answers.right.astype(np.float64)))


def _without_copies(answers: Answers, model: Model, priors: Priors, fixed: Anchors | None, copies: Copies) -> Answers:
    first = FITS[model](answers, priors, fixed, errors=False)
    parameters = (first.difficulty, first.discrimination, np.nan_to_num(first.guessing))
    guess = score(answers, *parameters, mean=first.ability_mean, sd=first.ability_sd).ability
    found = distinct_patterns(answers, parameters[0], parameters[1], guess, parameters[2])
    if copies == "weigh":
        return answers.with_weights(found.weights)
    keep = np.zeros(answers.n_subjects)
    keep[np.unique(found.cluster, return_index=True)[1]] = 1.0
    return answers.with_weights(keep)


def _fit_frame(model: Model, answers: Answers, found: Estimates, abilities: Abilities) -> pl.DataFrame:
    deviance = -2 * found.log_likelihood
    subjects = int((answers.subject_counts > 0).sum())
    return pl.DataFrame(
        {
            "log_likelihood": found.log_likelihood,
            "aic": deviance + 2 * found.parameters,
            "bic": deviance + np.log(max(subjects, 1)) * found.parameters,
            "converged": found.converged,
            "iterations": found.iterations,
            "reliability": reliability(abilities),
            "model": model,
            "parameters": found.parameters,
            "subjects": subjects,
            "items": int((answers.item_counts > 0).sum()),
            "responses": int(answers.item_counts.sum()),
            "ability_mean": found.ability_mean,
            "ability_sd": found.ability_sd,
        }
    )


def _warnings(found: Estimates, items: pl.DataFrame) -> list[str]:
    out = []
    if not found.converged:
        out.append(f"the fit did not converge in {found.iterations} iterations: take its numbers with care")
    wrong = items.filter(pl.col("note").str.contains("key may be wrong").fill_null(False))
    if wrong.height:
        out.append(
            f"{wrong.height} item{'s' if wrong.height > 1 else ''} may have a wrong key (column note): "
            f"{listed(wrong['item'], 5)}"
        )
    return out

"""``calibrate``, ``ability`` and ``levels``: from answers to a calibration, and from a calibration to tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from breadth.errors import InputError, listed
from breadth.irt.abilities import reliability, score
from breadth.irt.answers import Answers
from breadth.irt.calibration import (
    LEAST_RELIABILITY,
    UNRELIABLE,
    Calibration,
    items_frame,
    numbers,
    subjects_frame,
)
from breadth.irt.diagnostics import distinct_patterns, fit_statistics
from breadth.irt.difficulty_levels import assign_levels
from breadth.irt.models import DEFAULT_LEVELS, DEFAULT_MODEL, MODELS, Copies, Method, Model
from breadth.irt.parameters import ITEM_PARAMETERS, Anchors, Estimates, Priors
from breadth.irt.words import ItemFlag
from breadth.records import Study, open_study


def calibrate(
    responses: Any,
    *,
    model: str = DEFAULT_MODEL,
    priors: str | os.PathLike[str] | Priors = "default",
    levels: int = DEFAULT_LEVELS,
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
        Name of an item response model: a key of :data:`breadth.irt.MODELS`.
    priors
        ``default`` (weak), ``none`` (maximum likelihood), or a JSON file with fields of :class:`breadth.irt.Priors`.
    levels
        Number of equal-size difficulty levels; at most one per item.
    anchor
        An earlier calibration: its items keep their parameters, and new items are put on its scale.
    min_responses
        Items with fewer answers are left out and flagged.
    copies
        What to do with near-copies among subjects: ``keep`` them, ``weigh`` every group of them as one subject, or
        ``drop`` all but one of each group from the fit.
    seed
        Seeds the check of dimension and the samples of ``level_stability``.
    testset
        Calibrate only the items of this test set.

    Returns
    -------
    Calibration
        Tables of items, subjects and fit on one scale.

    Examples
    --------
    >>> import breadth, numpy as np
    >>> generator = np.random.default_rng(0)
    >>> ability, difficulty = generator.standard_normal((200, 1)), np.array([-1.0, 0.0, 1.0, 2.0])
    >>> answers = generator.random((200, 4)) < 1 / (1 + np.exp(difficulty - ability))
    >>> breadth.calibrate(answers).items["difficulty"].is_sorted()
    True
    """
    if model not in MODELS:
        known = (f"{name} (items differ in {one.description})" for name, one in MODELS.items())
        raise InputError(f"model is {model!r}; choose {listed(known)}")
    if copies not in get_args(Copies):
        raise InputError(f"copies is {copies!r}; choose {listed(get_args(Copies))}")
    if levels < 2:
        raise InputError(f"--levels is {levels}; choose at least 2")
    if not isinstance(priors, Priors):
        priors = Priors() if priors == "default" else Priors.none() if priors == "none" else _read_priors(priors)
    study = open_study(responses)
    study = (study if testset is None else study.select(testset=testset)).distinct()
    answers = Answers.of(study.matrix)
    fixed = None if anchor is None else _anchors(anchor, study)
    # Fit the items that have enough answers, then measure all subjects on them.
    fitted, scarce = answers, answers.item_counts < min_responses
    if scarce.any():
        unseen = np.broadcast_to(scarce, answers.right.shape) if answers.seen is None else scarce | (answers.seen == 0)
        fitted = Answers.of(np.where(unseen, np.nan, answers.right.astype(np.float64)))
    try:
        if copies != "keep":
            fitted = _without_copies(fitted, MODELS[model], priors, fixed, copies)
        estimates = MODELS[model].fit(fitted, priors, fixed)
    except InputError as error:
        raise InputError(f"{study.name}: {error}") from error
    abilities = score(answers, estimates.items, mean=estimates.ability_mean, sd=estimates.ability_sd)
    fit = fit_statistics(answers, estimates.items, abilities.ability)
    # The tables of items, subjects and fit.
    assigned = assign_levels(estimates.difficulty, estimates.difficulty_se, min(levels, answers.n_items))
    reliable = reliability(abilities)
    told_apart = reliable >= LEAST_RELIABILITY
    items = items_frame(study.item_names, answers, estimates, fit, assigned, min_responses, told_apart)
    if study.runs:
        label = pl.col("label").cast(pl.String) if "label" in study.items.columns else pl.lit(None, dtype=pl.String)
        items = items.hstack(study.items.select("testset", label.alias("label")))
    deviance, n_subjects = -2 * estimates.log_likelihood, int((answers.subject_counts > 0).sum())
    summary = {
        "log_likelihood": estimates.log_likelihood,
        "aic": deviance + 2 * estimates.parameters,
        "bic": deviance + np.log(max(n_subjects, 1)) * estimates.parameters,
        "converged": estimates.converged,
        "iterations": estimates.iterations,
        "reliability": reliable,
        "model": model,
        "parameters": estimates.parameters,
        "subjects": n_subjects,
        "items": int((answers.item_counts > 0).sum()),
        "responses": int(answers.item_counts.sum()),
        "ability_mean": estimates.ability_mean,
        "ability_sd": estimates.ability_sd,
    }
    subjects = subjects_frame(study.subject_names, answers, abilities, fit)
    alike = None if told_apart else UNRELIABLE.format(reliable)
    warnings = [*_warnings(study, estimates, items), *([] if alike is None else [alike])]
    return Calibration(items, subjects, pl.DataFrame(summary), tuple(warnings), study, seed, alike)


def ability(
    responses: Any, calibration: str | os.PathLike[str] | Calibration, *, method: Method = "eap"
) -> pl.DataFrame:
    """Score new subjects on calibrated items, without refitting; see ``Calibration.score``."""
    return Calibration.of(calibration).score(responses, method)


def levels(calibration: str | os.PathLike[str] | Calibration, *, n: int = DEFAULT_LEVELS) -> pl.DataFrame:
    """Item, difficulty and level (0 is the easiest), the levels it could be in, and how sure the assignment is."""
    return Calibration.of(calibration).levels(n)


def _read_priors(given: str | os.PathLike[str]) -> Priors:
    path = Path(given)
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: priors are 'default', 'none' or a JSON file ({error})") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: priors are a JSON object with some of {listed(Priors._fields)}")
    unknown = [name for name in values if name not in Priors._fields]
    if unknown:
        raise InputError(f"{path}: unknown prior {listed(unknown)}; known: {listed(Priors._fields)}")
    wrong = [name for name, value in values.items() if not (value is None or isinstance(value, int | float))]
    if wrong:
        raise InputError(f"{path}: {listed(wrong)} must be a number or null")
    return Priors(**values)


def _anchors(anchor: str | os.PathLike[str] | Calibration, study: Study) -> Anchors:
    earlier = Calibration.of(anchor).items.unique("item", keep="last")
    names = pl.DataFrame({"item": study.item_names}, schema={"item": pl.String})
    known = names.join(earlier.select("item", *ITEM_PARAMETERS), on="item", how="left", maintain_order="left")
    if known["difficulty"].is_null().all():
        raise InputError(f"{study.name}: none of its items is in the anchor; an anchor needs items in common")
    return Anchors(*(numbers(known, name) for name in ITEM_PARAMETERS))


def _without_copies(answers: Answers, model: Model, priors: Priors, fixed: Anchors | None, copies: Copies) -> Answers:
    first = model.fit(answers, priors, fixed, errors=False)
    ability = score(answers, first.items, mean=first.ability_mean, sd=first.ability_sd).ability
    patterns = distinct_patterns(answers, first.items, ability)
    if copies == "weigh":
        return answers.with_weights(patterns.weights)
    keep = np.zeros(answers.n_subjects)
    keep[np.unique(patterns.cluster, return_index=True)[1]] = 1.0
    return answers.with_weights(keep)


def _warnings(study: Study, estimates: Estimates, items: pl.DataFrame) -> list[str]:
    warnings = list(study.warnings)
    runs = study.subjects["run"].n_unique() if "run" in study.subjects.columns else study.subjects.height
    if runs != study.subjects.height:
        warnings.append(
            f"the {study.subjects.height} subjects are checkpoints of {runs} run{'' if runs == 1 else 's'}, and "
            "checkpoints of one run are not independent subjects: standard errors are too small"
        )
    if not estimates.converged:
        warnings.append(
            f"the fit did not converge in {estimates.iterations} iterations: treat its numbers with caution"
        )
    wrong = items.filter(flag=ItemFlag.WRONG_KEY.value)
    if wrong.height:
        warnings.append(
            f"{wrong.height} item{'s' if wrong.height > 1 else ''} may have a wrong key (flag {ItemFlag.WRONG_KEY}): "
            f"{listed(wrong['item'], 5)}"
        )
    return warnings

"""``calibrate``, ``ability`` and ``levels``: from answers to a calibration, and from a calibration to tables."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from breadth.errors import InputError, listed
from breadth.irt.abilities import score
from breadth.irt.answers import Answers, Floats
from breadth.irt.calibration import (
    ITEM_COLUMNS,
    POPULATION,
    Calibration,
    items_frame,
    noun_of_subjects,
    numbers,
    subjects_frame,
)
from breadth.irt.diagnostics import distinct_patterns, fit_statistics, point_biserial
from breadth.irt.flags import AGAINST, DOUBT, ITEM_RULES, ItemFlag, doubted_items, flagged, scale_warning
from breadth.irt.floor import FloorCheck, check_floor
from breadth.irt.models import DEFAULT_LEVELS, DEFAULT_MODEL, MODELS, Copies, Method, Model
from breadth.irt.one_scale import (
    CLEARLY_BY_ABILITY,
    Above,
    Component,
    FittedScale,
    above_chance,
    are_separate,
    expected_shares,
    given_by_ability,
    linked_components,
    main_component,
    score_correlation,
    stray_warning,
)
from breadth.irt.parameters import ITEM_PARAMETERS, STEEPEST, Anchors, ItemEstimates, Priors
from breadth.irt.scale_results import DifficultyLevels, ModelAbilities
from breadth.records import Study
from breadth.results.words import count, joined
from breadth.sources import open_answers, open_study

#: Labels of a test set from which chance follows: so many different ones, each of so many items.
FEWEST_LABELS, MOST_LABELS, LEAST_LABELLED = 2, 10, 5


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
    chance: float | None = None,
    round_shares: bool = False,
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
    chance
        Probability of a right answer by guessing, 0.25 for four options; 0 for answers that cannot be guessed. By
        default it follows from the options or labels that are stored with the items, if there are any. The curves of
        the 1PL and the 2PL start there, unless the answers speak against it (:func:`breadth.irt.check_floor`), and
        subjects and items that are not above it are counted.
    round_shares
        Whether to count shares from 0.5 on (ties, means of several tries) as right and others as wrong. Without it
        they count as fractions of a right answer, which models with guessing do not take.

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
    _check_calibration_options(model, copies, levels, chance)
    if not isinstance(priors, Priors):
        priors = Priors() if priors == "default" else Priors.none() if priors == "none" else _read_priors(priors)
    study = open_answers(responses)
    study = study if testset is None else study.select(testset=testset)
    study = study.comparable()
    if round_shares:
        study = study.rounded()
    recorded, study = study.answers, study.distinct()
    answers = Answers.of(study.matrix)
    fixed = None if anchor is None else _anchors(anchor, study)
    guess = _chance_of_guess(study, chance)
    try:
        fitted, checked, estimates = _fit_items(answers, MODELS[model], priors, fixed, copies, min_responses, guess)
    except InputError as error:
        raise InputError(f"{study.name}: {error}") from error
    population = estimates.ability_mean, estimates.ability_sd
    abilities = score(answers, estimates.items, "eap", *population)
    expected = expected_shares(answers, estimates.items, *population)
    fit = fit_statistics(answers, estimates.items, abilities.ability, expected)
    # Do the answers measure one ability, and more than guessing? Then the tables of items, subjects and fit.
    own_slopes = MODELS[model].slope == "item"
    items = items_frame(study.item_names, answers, estimates, fit, own_slopes, levels, fixed is not None)
    judged = items.filter(pl.col("p_correct").is_between(0, 1, closed="none") & (pl.col("n") >= min_responses))
    rho = score_correlation(answers, abilities.ability, expected)
    # Where items share a slope, ability follows the score whatever the answers measure.
    main = None
    if not own_slopes:
        curves = FittedScale(estimates.items, abilities.ability, expected)
        main = main_component(answers, fit.point_biserial, curves)
    above = above_chance(answers, guess) if np.isfinite(guess).any() else None
    anchored = None if fixed is None else ~np.isnan(fixed.difficulty)
    blocks = linked_components(fitted, ~np.isinf(estimates.difficulty), anchored)
    separate = are_separate(blocks)
    deviance, n_subjects = -2 * estimates.log_likelihood, int((answers.subject_counts > 0).sum())
    summary = {
        "log_likelihood": estimates.log_likelihood,
        "aic": deviance + 2 * estimates.parameters,
        "bic": deviance + np.log(max(n_subjects, 1)) * estimates.parameters,
        "converged": estimates.converged,
        "iterations": estimates.iterations,
        "reliability": abilities.reliability,
        "score_correlation": None if np.isnan(rho) else rho,
        "against_scale": judged.select(AGAINST.fill_null(False).mean()).item(),
        "main_correlation": None if main is None else main.correlation,
        "against_main": None if main is None else main.against,
        "model": model,
        "parameters": estimates.parameters,
        "subjects": n_subjects,
        "items": int((answers.item_counts > 0).sum()),
        "responses": int(answers.item_counts.sum()),
        "repeated": recorded - int(answers.item_counts.sum()),
        "ability_mean": estimates.ability_mean,
        "ability_sd": estimates.ability_sd,
        **_guessing(guess, above, checked),
        "blocks": len(blocks) if separate else None,
        "block_sizes": joined([str(block) for block in blocks], 5) if separate else None,
    }
    doubt = scale_warning(summary)
    within = _within_testsets(study, answers, expected)
    items = _flagged_items(items, study, within, min_responses, trusted=doubt is None)
    subjects = subjects_frame(study.subject_names, answers, abilities, fit, None if above is None else above.subjects)
    given = given_by_ability(answers, estimates.difficulty, abilities.ability)
    warnings = [] if doubt is None else [doubt]
    warnings += _warnings(study, estimates, items, [] if separate else blocks, 0.0 if separate else given)
    unknown = {name: pl.Float64 for name, value in summary.items() if value is None}
    frame = pl.DataFrame(summary, schema_overrides=unknown | {"block_sizes": pl.String})
    return Calibration(items, subjects, frame, tuple(warnings), study, seed, doubt)


def _check_calibration_options(model: str, copies: str, levels: int, chance: float | None) -> None:
    """Refuse options that are out of range, before anything is read."""
    if model not in MODELS:
        known = (f"{name} (items differ in {one.description})" for name, one in MODELS.items())
        raise InputError(f"--model is {model!r}; choose {listed(known)}")
    if copies not in get_args(Copies):
        raise InputError(f"copies is {copies!r}; choose {listed(get_args(Copies))}")
    if levels < 2:
        raise InputError(f"--levels is {levels}; choose at least 2")
    if chance is not None and not 0 <= chance < 1:
        raise InputError(
            f"--chance is {chance:g}; it lies between 0 and 1, for example 0.25 for four options, or 0 for no guessing"
        )


def ability(
    responses: Any, calibration: str | os.PathLike[str] | Calibration, *, method: Method = "eap"
) -> ModelAbilities:
    """Measure new models on questions of known difficulty, without estimating the difficulties again.

    The frame alone is what :meth:`breadth.irt.Calibration.score` returns.
    """
    known = Calibration.of(calibration)
    study = open_study(responses)
    fit = known.fit.row(0, named=True) if known.fit.height else {}
    mean, sd = (float(fit.get(name, default)) for name, default in POPULATION)
    doubt = () if known.scale_warning is None else (known.scale_warning,)
    return ModelAbilities(
        known.score(study, method),
        mean,
        sd,
        fit.get("subjects"),
        (*study.warnings, *doubt),
        noun_of_subjects(study),
        method,
    )


def levels(calibration: str | os.PathLike[str] | Calibration, *, n: int = DEFAULT_LEVELS) -> DifficultyLevels:
    """Sort questions into levels of difficulty of equal size, and say how sure it is which belongs where.

    The frame alone is what :meth:`breadth.irt.Calibration.levels` returns.
    """
    known = Calibration.of(calibration)
    return DifficultyLevels(known.levels(n), () if known.scale_warning is None else (known.scale_warning,))


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
    # A difficulty without a standard error is the end of the range, not an estimate.
    placed = earlier.drop_nulls(["difficulty", "difficulty_se"]).select("item", *ITEM_PARAMETERS)
    known = names.join(placed, on="item", how="left", maintain_order="left")
    if known["difficulty"].is_null().all():
        raise InputError(
            f"{study.name}: none of its items has a difficulty in the anchor; an anchor needs items in common"
        )
    return Anchors(*(numbers(known, name) for name in ITEM_PARAMETERS))


def _chance_of_guess(study: Study, given: float | None) -> Floats:
    """Chance of a right guess for every item: as given, else one over its options or over the labels of its test set.

    Labels count where a test set has 2 to 10 of them with 5 items or more each: with others, answers are free text.
    NaN where it is not known, or where nobody guesses (0 is given).
    """
    items = study.items
    if given == 0:
        return np.full(items.height, np.nan)
    if given is not None:
        return np.full(items.height, given)
    options = pl.lit(None, dtype=pl.Float64)
    if "options" in items.columns and isinstance(items["options"].dtype, pl.List):
        options = pl.col("options").list.len().cast(pl.Float64)
    labels = pl.lit(None, dtype=pl.Float64)
    if "label" in items.columns:
        number = pl.col("label").n_unique().over("testset")
        fewest = pl.len().over("testset", "label").min().over("testset")
        usable = number.is_between(FEWEST_LABELS, MOST_LABELS) & (fewest >= LEAST_LABELLED)
        usable &= pl.col("label").is_not_null().all().over("testset")
        labels = pl.when(usable).then(number.cast(pl.Float64))
    # with_columns, because a select of constants alone is not as long as the frame.
    return numbers(items.with_columns(chance=1 / pl.coalesce(pl.when(options > 1).then(options), labels)), "chance")


def _guessing(chance: Floats, above: Above | None, checked: FloorCheck | None) -> dict[str, float | int | None]:
    """What the row of a fit says about guessing; None where chance is not known, or no floor was asked for."""
    known = None if above is None else float(np.nanmean(chance))
    return {
        "chance": known,
        "subjects_at_chance": None if above is None else int((~above.subjects).sum()),
        "items_at_chance": None if above is None else int((~above.items).sum()),
        "floor": known if checked is not None and checked.suits else None,
        "below_chance": None if checked is None else checked.below,
        "floor_gain": None if checked is None or np.isnan(checked.gain) else checked.gain,
    }


def _flagged_items(
    items: pl.DataFrame, study: Study, within: Floats, min_responses: int, *, trusted: bool
) -> pl.DataFrame:
    """The table of items with flags and notes, and with test set and label where a study has them."""
    rules = items.with_columns(
        pl.lit(min_responses).alias("least"),
        pl.lit(trusted).alias("trusted"),
        pl.Series("within", within, nan_to_null=True),
    )
    table = flagged(rules.with_columns(DOUBT.alias("label_doubt")), ITEM_RULES).select(ITEM_COLUMNS)
    if study.runs or "label" in study.items.columns:
        label = pl.col("label").cast(pl.String) if "label" in study.items.columns else pl.lit(None, dtype=pl.String)
        table = table.hstack(study.items.select("testset", label.alias("label")))
    return table


def _within_testsets(study: Study, answers: Answers, expected: Floats) -> Floats:
    """Correlation of every item with the rest of its own test set [J]."""
    correlation = np.full(answers.n_items, np.nan)
    if len(study.testsets) < 2:
        # Then the rest of the test set is all the rest.
        return correlation
    every = np.ones(answers.n_subjects, dtype=np.bool_)
    for index in range(len(study.testsets)):
        own = np.asarray(study.set_index == index)
        correlation[own] = point_biserial(answers.part(every, own), expected[own])
    return correlation


def _fit_items(
    answers: Answers,
    model: Model,
    priors: Priors,
    fixed: Anchors | None,
    copies: Copies,
    min_responses: int,
    chance: Floats,
) -> tuple[Answers, FloorCheck | None, ItemEstimates]:
    """Fit the items that have enough answers: the answers that were used, whether they take a floor, the estimates."""
    scarce = answers.item_counts < min_responses
    if scarce.any():
        unseen = np.broadcast_to(scarce, answers.right.shape) if answers.seen is None else scarce | (answers.seen == 0)
        answers = Answers.of(np.where(unseen, np.nan, answers.right.astype(np.float64)))
    checked = _check_floor(answers, model, priors, chance)
    floor = np.nan_to_num(chance) if checked is not None and checked.suits else None
    if copies != "keep":
        answers = _without_copies(answers, model, priors, fixed, copies, floor)
    return answers, checked, model.fit(answers, priors, fixed, floor=floor)


def _check_floor(answers: Answers, model: Model, priors: Priors, chance: Floats) -> FloorCheck | None:
    """Whether curves should start at a known chance; None where the question does not arise.

    It does not for a model that estimates the chance of guessing, for shares, which have no likelihood with a floor,
    and where chance is not known.
    """
    known = np.isfinite(chance) & (answers.item_counts > 0)
    if model.guessing or answers.fractional or not known.any():
        return None
    return check_floor(answers, model, priors, chance)


def _without_copies(
    answers: Answers, model: Model, priors: Priors, fixed: Anchors | None, copies: Copies, floor: Floats | None
) -> Answers:
    first = model.fit(answers, priors, fixed, errors=False, floor=floor)
    ability = score(answers, first.items, mean=first.ability_mean, sd=first.ability_sd).ability
    patterns = distinct_patterns(answers, first.items, ability)
    if copies == "weigh":
        return answers.with_weights(patterns.weights)
    keep = np.zeros(answers.n_subjects)
    keep[np.unique(patterns.cluster, return_index=True)[1]] = 1.0
    return answers.with_weights(keep)


def _warnings(
    study: Study, estimates: ItemEstimates, items: pl.DataFrame, blocks: Sequence[Component], given: float
) -> list[str]:
    warnings = list(study.warnings)
    runs = study.subjects["run"].n_unique() if "run" in study.subjects.columns else study.subjects.height
    if runs != study.subjects.height:
        warnings.append(
            f"the {study.subjects.height} checkpoints come from {count(runs, 'run')}, and checkpoints of one run are "
            "not independent: standard errors are too small"
        )
    if not estimates.converged:
        warnings.append(
            f"the fit did not converge in {estimates.iterations} iterations: treat its numbers with caution"
        )
    if abs(given) > CLEARLY_BY_ABILITY:
        warnings.append(
            f"abler models were given {'harder' if given > 0 else 'easier'} questions (correlation {given:.2f} of "
            "ability with the mean difficulty of the questions given): no harm if questions were chosen by the answers "
            "in this table, but if they were chosen by other knowledge of the models, difficulties and abilities are "
            "biased"
        )
    if (stray := stray_warning(blocks)) is not None:
        warnings.append(stray)
    steep = items.filter(pl.col("discrimination").abs() > STEEPEST)
    if steep.height:
        warnings.append(
            f"{count(steep.height, 'question')} with a slope beyond {STEEPEST:g}, where "
            f"quadrature is no longer exact ({listed(steep['item'], 5)}): read it as steep, not as a number"
        )
    wrong = doubted_items(items)
    if wrong:
        first = ", the most doubtful first" if len(wrong) > 1 else ""
        warnings.append(
            f"{count(len(wrong), 'question')} may have a wrong label (flag {ItemFlag.WRONG_KEY}){first}: "
            f"{listed(wrong, 5)}"
        )
    return warnings

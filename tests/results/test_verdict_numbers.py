"""Every number in the sentences of a verdict stands in a table beside it, or among its facts."""

import re

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers, simulate_scores, simulate_study

#: Numbers that a sentence may say without a table: the level of intervals, and numbers of words ("one", "two").
ALWAYS = {"95", "0", "1", "100"}

#: Functions tried on each kind of data.
ON_ANSWERS = ("calibrate", "compare", "rank", "advise_power", "advise_together", "scores")
ON_STUDIES = (*ON_ANSWERS, "correlate", "stability", "profile", "transfer")
ON_SCORES = ("correlate", "stability", "advise_testsets", "advise_power")


def spellings(value):
    """How a number may be written in a sentence: as it is, in per cent or points, rounded to up to three digits."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        for text in re.findall(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+", value):
            yield from (text, text.replace(",", ""))
        return
    if not isinstance(value, int | float) or not np.isfinite(value):
        return
    for scaled in (abs(value), 100 * abs(value), 100 * abs(1 - value)):
        for digits in range(4):
            text = f"{scaled:,.{digits}f}"
            yield from (text, text.replace(",", ""), text.removeprefix("0"))
        if scaled:
            # Numbers that are not known exactly have two digits.
            yield f"{float(f'{scaled:.2g}'):,.0f}"
            yield f"{float(f'{scaled:.2g}'):g}"


def known_numbers(result):
    known = set(ALWAYS)
    verdict = result.verdict()
    for value in verdict.facts.values():
        known.update(spellings(value))
    for name, frame in result.tables().items():
        known.update(spellings(frame.height))
        for column in frame.head(3000).iter_columns():
            for value in column.unique().to_list():
                known.update(spellings(value))
        columns = result.columns(name).present(frame)
        for row in columns.rows(frame.head(300)):
            for cell in row:
                known.update(spellings(cell))
    return known


def check(result):
    verdict = result.verdict()
    if verdict is None:
        return
    known = known_numbers(result)
    missing = [number for number in verdict.numbers() if number not in known]
    assert missing == [], f"{type(result).__name__}: {missing} in {verdict.lines()}"


def check_all(source, functions):
    tried = 0
    for name in functions:
        try:
            result = getattr(breadth, name)(source)
        except breadth.InputError:  # not every question can be asked of every source
            continue
        assert result.verdict().question, name
        check(result)
        tried += 1
    assert tried >= 2


@pytest.mark.parametrize("options", [{}, {"train_levels": 3, "runs": 6}, {"answer_bias": 0.5}])
def test_numbers_of_verdicts_on_studies(tmp_path, options):
    settings = {"runs": 4, "checkpoints": 12, "items": 60} | options
    if "train_levels" in options:
        settings["testsets"] = ("plain", "science", "chains")
    simulated = simulate_study(tmp_path / "study", **settings)
    check_all(simulated.folder, ON_STUDIES)


@pytest.mark.parametrize(("models", "items"), [(120, 24), (12, 300), (2, 400), (60, 60)])
def test_numbers_of_verdicts_on_answers(models, items):
    matrix = simulate_answers(models, items, seed=models).matrix
    check_all(matrix.astype(float), ON_ANSWERS)


@pytest.mark.parametrize("runs", [1, 2, 6])
def test_numbers_of_verdicts_on_scores(runs):
    check_all(simulate_scores(runs=runs), ON_SCORES)


@pytest.mark.parametrize(
    "name", ["trajectories/berts_of_a_feather.csv", "scores/clip_finetunes.csv", "scores/open_llm_leaderboard_v2.csv"]
)
def test_numbers_of_verdicts_on_real_scores(shared_data, name):
    frame = pl.read_csv(shared_data / name, infer_schema_length=None)
    try:
        check(breadth.correlate(frame))
    except breadth.InputError:
        check(breadth.advise_testsets(frame))


@pytest.mark.parametrize("name", ["responses/rte.npz", "responses/musr.npz", "difficulty/zeroeval_gsm_answers.parquet"])
def test_numbers_of_verdicts_on_real_answers(shared_data, name):
    check_all(shared_data / name, ("calibrate", "rank", "advise_power"))

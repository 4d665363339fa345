from dataclasses import replace

import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import LevelAgreement, ModelAbilities
from breadth.results import Answer, Question, State


def abilities(values, error=0.2, **options):
    names = [f"model-{index}" for index in range(len(values))]
    frame = pl.DataFrame({"subject": names, "n": 50, "ability": values}, schema_overrides={"ability": pl.Float64})
    return ModelAbilities(frame.with_columns(ability_se=pl.lit(error)), **options)


@pytest.mark.parametrize(
    ("values", "candidates", "state"),
    [
        ([0.1, 2.0, -1.0], 1, State.YES),
        ([1.9, 2.0, -1.0], 2, State.MIXED),
        ([1.9, 2.0, 1.95], 3, State.OPEN),
        ([0.4], 1, State.YES),
    ],
)
def test_the_ablest_model_is_named(values, candidates, state):
    result = abilities(values)
    verdict = result.verdict()
    best = f"model-{values.index(max(values))}"
    assert verdict.question is Question.ABILITIES
    assert verdict.state is state
    assert verdict.facts["may be the ablest"] == candidates
    assert best in verdict.reason
    assert f"{max(values):+.2f}" in verdict.reason
    assert (verdict.answer == best) == (candidates == 1)
    assert result.shown()[0].frame["ability"].is_sorted(descending=True)


def test_comparisons_with_many_models_are_allowed_for():
    """0.6 apart at a standard error of 0.28 is clear for one comparison, and not for the best of forty."""
    assert abilities([0.6, 0.0]).candidates() == ["model-0"]
    assert len(abilities([0.6, *[0.0] * 39]).candidates()) == 40


def test_abilities_are_placed_on_the_scale():
    verdict = abilities([1.0, 0.0], mean=0.5, sd=2.0, reference=300).verdict()
    assert verdict.facts["models of the scale"] == 300
    assert all(number in verdict.findings for number in ("0.5", "−1.5", "2.5"))


def test_nobody_who_answered():
    verdict = abilities([None, None]).verdict()
    assert (verdict.answer, verdict.computed) == (Answer.UNKNOWN, False)


@pytest.fixture(scope="module")
def calibration():
    return breadth.calibrate(simulate_answers(300, 40).matrix, model="2pl")


def test_levels_say_how_sure_they_are(calibration):
    result = breadth.levels(calibration, n=4)
    verdict, summary = result.verdict(), result.tables()["summary"]
    assert verdict.answer == "4 levels"
    assert verdict.facts["questions"] == summary["items"].sum() == 40 - result.levels["level"].null_count()
    assert verdict.facts["chance"] == f"{result.levels['certainty'].mean():.0%}"
    for certainty, state in ((0.95, State.YES), (0.7, State.MIXED), (0.3, State.OPEN)):
        changed = type(result)(result.levels.with_columns(certainty=pl.lit(certainty))).verdict()
        assert changed.state is state
        assert bool(changed.advice) == (state is not State.YES)
    assert "hardest quarter (level 3)" in verdict.reason
    unplaced = result.levels.with_columns(level=pl.when(pl.int_range(pl.len()) > 2).then("level"))
    assert type(result)(unplaced).verdict().facts["without a level"] >= 3
    assert type(result)(unplaced.head(2)).verdict().computed is False


def test_scales_that_cannot_be_trusted_are_named_where_they_are_used(calibration):
    doubted = replace(calibration, scale_warning="these questions do not measure one ability")
    assert breadth.levels(doubted).warnings == (doubted.scale_warning,)
    assert doubted.scale_warning in breadth.ability(simulate_answers(5, 40).matrix, doubted).warnings


def test_levels_are_stable_from_some_number_of_models(calibration):
    frame = calibration.level_stability(4, repeats=1)
    rows = frame.with_columns(within_one=pl.int_range(pl.len()) / 10 + 0.85)
    enough = rows.filter(pl.col("within_one") >= 0.9)["subjects"].min()
    verdict = LevelAgreement(rows).verdict()
    assert (verdict.answer, verdict.state) == (f"{enough} models", State.YES)
    never = LevelAgreement(frame.with_columns(within_one=pl.lit(0.5))).verdict()
    assert never.state is State.OPEN
    assert str(frame["subjects"].max()) in never.answer
    assert "50%" in never.reason

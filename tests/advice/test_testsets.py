"""Predicting test sets: choice, intervals, range, time, what is refused."""

import itertools

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.advice import Predictor, choose_sets
from breadth.errors import InputError


def scores(models=150, seed=0):
    """Two abilities: a, b and c follow the first, d and e the second."""
    generator = np.random.default_rng(seed)
    one, two = generator.normal(50, 12, (2, models, 1))
    return np.hstack([one + generator.normal(0, 2, (models, 3)), two + generator.normal(0, 2, (models, 2))])


def frame(values, **columns):
    names = [f"m{k:03d}" for k in range(len(values))]
    return pl.DataFrame({"model": names, **columns, **dict(zip("abcde", values.T, strict=True))})


def test_one_set_of_each_ability_is_enough():
    steps = choose_sets(scores())
    assert {"abcde"[step.added] for step in steps[:2]} in [{x, y} for x in "abc" for y in "de"]
    assert steps[1].error < 4 < steps[0].error
    result = breadth.advise_testsets(frame(scores()), error=4)
    assert len(result.chosen) == 2
    assert str(result.verdict()).startswith("Yes: ")
    assert str(breadth.advise_testsets(frame(scores()), error=0.5).verdict()).startswith("No: no choice")
    assert len(result.figure().to_dict()["datasets"]["steps"]) == 4


def test_intervals_cover_inside_and_nothing_is_said_beyond():
    values, new = scores(), scores(400, seed=1)
    predictor = Predictor.of(values[:, [0, 3]], values[:, [1, 4]])
    inside = predictor.predict(new[:, [0, 3]])
    covered = (inside.low <= new[:, [1, 4]]) & (new[:, [1, 4]] <= inside.high)
    assert 0.9 < covered[inside.inside].mean() < 0.99
    assert 0.85 < inside.inside.mean() < 0.97
    assert not predictor.predict(np.full((1, 2), 99.0)).inside.any()


def test_missing_scores_are_predicted_or_refused_by_name():
    values = scores()
    values[:5, 2] = np.nan
    values[5:7] = [95, 96, np.nan, 94, 93]
    result = breadth.advise_testsets(frame(values))
    inside = result.predictions.filter("in_range")
    assert (inside["testset"] == "c").all()
    assert inside["ci_low"].is_not_null().all()
    refused = result.predictions.filter(~pl.col("in_range"))
    assert set(result.evaluate) == set(refused["model"]) >= {"m005", "m006"}
    assert refused["score"].null_count() == refused.height
    assert "in full to get back inside" in result.details()


def test_errors_look_forward_where_there_is_a_date():
    values = scores()
    values[75:, 4] += np.linspace(0, 30, 75)  # later models drift away on one set
    dates = [f"2024-{1 + k // 28:02d}-{1 + k % 28:02d}" for k in range(150)]
    later = breadth.advise_testsets(frame(values, date=dates))
    known = breadth.advise_testsets(frame(values))
    assert later.dated
    assert not known.dated
    assert later.steps["worst"][-2] > known.steps["worst"][-2]
    with pytest.raises(InputError, match="there is no column 'when'"):
        breadth.advise_testsets(frame(values), date="when")


def test_a_study_is_averaged_by_test_set():
    generator = np.random.default_rng(0)
    ability = generator.random((30, 1))
    parts = []
    for k, name in itertools.product(range(30), "xyz"):
        correct = (generator.random(200) < ability[k]).astype(int)
        parts.append(pl.DataFrame({"model": f"m{k}", "testset": name, "item": np.arange(200), "correct": correct}))
    result = breadth.advise_testsets(pl.concat(parts), error=6)
    assert result.steps.height == 2
    assert result.reached


@pytest.mark.parametrize(
    ("values", "message"),
    [(scores(19), "19 models have scores on all 5 test sets; predicting takes at least 20"),
     (np.hstack([scores()[:, :4], np.full((150, 1), 25.0)]), "all models have one score on e")],
)  # fmt: skip
def test_what_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        breadth.advise_testsets(frame(values))
    with pytest.raises(InputError, match="--error is 0"):
        breadth.advise_testsets(frame(values), error=0)


def study_of(ability, sets="xyz", items=200):
    generator = np.random.default_rng(0)
    parts = []
    for (k, own), name in itertools.product(enumerate(ability), sets):
        correct = (generator.random(items) < (0.5 if name == "z" else own)).astype(int)
        parts.append(pl.DataFrame({"model": f"m{k}", "testset": name, "item": np.arange(items), "correct": correct}))
    return pl.concat(parts)


def test_a_test_set_at_chance_is_refused_with_the_remedy():
    study = study_of(np.linspace(0.3, 0.9, 30))
    with pytest.raises(InputError, match=r"on z models differ no more than by chance.*leave z out with --testsets x,y"):
        breadth.advise_testsets(study)
    assert set(breadth.advise_testsets(study, testsets="x,y").steps["testset"]) <= {"x", "y"}
    with pytest.raises(InputError, match="there is no test set w"):
        breadth.advise_testsets(study, testsets=["x", "w"])
    with pytest.raises(InputError, match="evaluate on test sets that tell models apart"):
        breadth.advise_testsets(study_of([0.5] * 30))


def test_a_set_that_others_say_nothing_about_is_named():
    values = scores()
    values[:, 4] = np.random.default_rng(5).normal(50, 1, len(values))
    values[:, 3] = values[:, 0] + np.random.default_rng(6).normal(0, 2, len(values))
    assert any(
        text.startswith("e: the other test sets say nothing")
        for text in breadth.advise_testsets(frame(values)).warnings
    )
    assert not breadth.advise_testsets(frame(scores())).warnings


def test_who_stands_out_on_one_set_is_refused():
    values = scores()
    usual = values[:, [0, 3]].mean(axis=0)
    predictor = Predictor.of(values[:, [0, 3]], values[:, [1, 4]])
    assert predictor.predict(usual[None]).inside.all()
    assert not predictor.predict(np.array([[usual[0] - 20, values[:, 3].max() + 1]])).inside.any()

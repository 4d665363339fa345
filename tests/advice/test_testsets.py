"""Predicting test sets: choice, intervals, range, time, what is refused."""

import itertools
import re

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import breadth
from breadth.advice import Predictor, choose_sets, read_scores
from breadth.advice.prediction import fit_families
from breadth.advice.short_form import PENALTIES
from breadth.errors import InputError
from breadth.results import Question, State


def scores(models=150, seed=0):
    """Two abilities: a, b and c follow the first, d and e the second."""
    generator = np.random.default_rng(seed)
    one, two = generator.normal(50, 12, (2, models, 1))
    return np.hstack([one + generator.normal(0, 2, (models, 3)), two + generator.normal(0, 2, (models, 2))])


def frame(values, **columns):
    names = [f"m{k:03d}" for k in range(len(values))]
    return pl.DataFrame({"model": names, **columns, **dict(zip("abcde"[: values.shape[1]], values.T, strict=True))})


def test_one_set_of_each_ability_is_enough():
    steps = choose_sets(scores())
    assert {"abcde"[step.added] for step in steps[:2]} in [{x, y} for x in "abc" for y in "de"]
    assert steps[1].error < 4 < steps[0].error
    result = breadth.advise_testsets(frame(scores()), error=4)
    assert len(result.chosen) == 2
    verdict = result.verdict()
    assert (verdict.question, verdict.state) == (Question.DROP, State.YES)
    # The answer is what can be dropped; a sentence also says what is kept.
    assert set(result.dropped) == set("abcde") - set(result.chosen)
    assert set(re.findall(r"\b[a-e]\b", verdict.answer)) == set(result.dropped)
    assert set(result.chosen) <= set(re.findall(r"\w+", verdict.reason))
    assert f"{result.steps['rmse'][1]:.1f}" in verdict.numbers()
    none = breadth.advise_testsets(frame(scores()), error=0.5).verdict()
    assert (none.answer, none.state) == ("None", State.NO)
    # The error that is said to be enough is enough.
    enough = float(none.facts["error with which some can be dropped, in points"])
    assert breadth.advise_testsets(frame(scores()), error=enough).reached
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
    verdict = result.verdict()
    assert result.evaluate[0] in verdict.needed
    assert verdict.facts["missing scores that cannot be predicted"] == refused.height


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
    with pytest.raises(InputError, match="error= is 0"):
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
    with pytest.raises(InputError, match=r'on z models differ no more than by chance.*leave z out with testsets="x,y"'):
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


def family_scores(families=14, seed=0):
    """Scores whose last two sets shift by family, and the family of every model; sizes differ widely."""
    generator = np.random.default_rng(seed)
    family = np.repeat(np.arange(families), generator.permutation([60, 40, *[4] * (families - 2)]))
    shift = generator.normal(0, 5, (families, 2))[family]
    ability = generator.normal(50, 10, (len(family), 1))
    noise = generator.normal(0, 1.5, (len(family), 5))
    return ability + noise + np.hstack([np.zeros((len(family), 3)), shift]), family


def test_errors_of_families_left_out_are_those_of_fitting_without_them():
    values, family = family_scores()
    standard = (values[:, :3] - values[:, :3].mean(axis=0)) / values[:, :3].std(axis=0)
    free = np.column_stack([np.ones(len(standard)), standard.mean(axis=1)])
    fit = fit_families(standard, free, values[:, [3]], family)
    columns = np.column_stack([free, standard])
    weight = np.bincount(family)[family] ** -0.5
    weight /= weight.mean()
    found = []
    for penalty in PENALTIES:
        residual = np.empty(len(family))
        for number in range(14):
            out = family == number
            # Ridge regression as least squares with a row more for every penalised column.
            root = np.sqrt(weight[~out])
            extra = np.sqrt(penalty) * np.eye(5)[2:]
            rows = np.vstack([root[:, None] * columns[~out], extra])
            solved = np.linalg.lstsq(rows, np.append(root * values[~out, 3], np.zeros(3)), rcond=None)[0]
            residual[out] = values[out, 3] - columns[out] @ solved
        found.append(((weight * residual**2).mean(), residual))
    best = min(found, key=lambda trial: trial[0])[1]
    assert fit.residual[:, 0] == pytest.approx(best, abs=1e-4)


def test_intervals_for_another_family_cover_where_those_for_like_models_do_not():
    covered = {"with": [], "without": []}
    for seed in range(12):
        values, family = family_scores(seed=seed)
        for number in range(14):
            out = family == number
            codes = np.unique(family[~out], return_inverse=True)[1]
            for kind, given in (("with", codes), ("without", None)):
                predictor = Predictor.of(values[~out, :3], values[~out, 3:], family=given)
                predicted = predictor.predict(values[out, :3])
                inside = (predicted.low <= values[out, 3:]) & (values[out, 3:] <= predicted.high)
                covered[kind].append(inside[predicted.inside].mean() if predicted.inside.any() else np.nan)
    assert 0.92 < np.nanmean(covered["with"]) < 0.98
    assert np.nanmean(covered["without"]) < 0.9


def test_intervals_widen_with_the_distance_from_the_references():
    values, family = family_scores()
    predictor = Predictor.of(values[:, :3], values[:, 3:], family=family)
    middle = values[:, :3].mean(axis=0)
    predicted = predictor.predict(middle + np.array([[0, 0, 0], [30, 30, 30]]))
    width = predicted.high - predicted.low
    assert (width[1] > width[0]).all()


def test_more_families_than_parts_are_left_out_whole():
    values, _ = family_scores()
    family = np.arange(len(values)) // 2
    fit = fit_families(values[:, :3], np.ones((len(values), 1)), values[:, 3:], family)
    assert np.isfinite(fit.residual).all()
    predictor = Predictor.of(values[:, :3], values[:, 3:], family=family)
    assert (predictor.error > 0).all()


def test_the_result_says_for_which_kind_of_model_it_holds():
    values, family = family_scores()
    values[::25, 4] = np.nan
    named = frame(values, family=[f"f{k}" for k in family])
    result = breadth.advise_testsets(named, error=8)
    assert result.holds_for == "a model of another family"
    assert (result.family, result.n_families) == ("family", 14)
    assert "another family" in result.verdict().findings
    alone = breadth.advise_testsets(named, error=8, cluster="none")
    assert (alone.family, alone.holds_for) == (None, "a model like these")
    assert result.steps["worst"].max() > alone.steps["worst"].max()
    both = result.predictions.join(alone.predictions, on=["model", "testset"], suffix="_alone").drop_nulls()
    wider = (both["ci_high"] - both["ci_low"]) > (both["ci_high_alone"] - both["ci_low_alone"])
    assert wider.all()
    other = breadth.advise_testsets(named.rename({"family": "kind"}), error=8, cluster="kind")
    assert other.holds_for == "a model of another kind"
    assert other.steps.equals(result.steps)


def test_order_of_rows_and_a_column_of_dates_do_not_mix_up_families():
    values, family = family_scores()
    labels = [f"f{k}" for k in family]
    named = frame(values, family=labels)
    turned = frame(values[::-1], family=labels[::-1]).reverse()
    assert_frame_equal(breadth.advise_testsets(turned).steps, breadth.advise_testsets(named).steps)
    dates = [f"2024-{1 + k % 12:02d}-01" for k in range(len(family))]
    dated = breadth.advise_testsets(frame(values, family=labels, date=dates), error=8)
    assert dated.dated
    assert dated.n_families == 14
    assert (dated.steps["rmse"] > 0).all()


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_intervals_of_percentages_stay_within_0_and_100(scale):
    generator = np.random.default_rng(0)
    ability = generator.normal(0, 2, (120, 1))
    values = 100 / (1 + np.exp(-ability - generator.normal(0, 0.6, (120, 3))))
    values[::10, 2] = np.nan
    result = breadth.advise_testsets(frame(values * scale)).predictions.drop_nulls()
    assert result["ci_low"].min() >= 0
    assert result["ci_high"].max() <= 100
    assert result.filter((pl.col("ci_low") == 0) | (pl.col("ci_high") == 100)).height
    ratings = breadth.advise_testsets(frame(np.nan_to_num(values, nan=50) * 15 + 400)[:, :4])
    assert ratings.steps.height == 2


def test_held_out_families_of_real_models(shared_data):
    """Base models with their families (39): coverage of MMLU and HellaSwag for every family that is left out."""
    table = read_scores(shared_data / "scores" / "base_models_observational.csv", None, None, "family")
    known = ~np.isnan(table.scores).any(axis=1)
    values, family = table.scores[known], table.families.of(known)
    covered = []
    for target in (table.testsets.index("mmlu"), table.testsets.index("hellaswag")):
        others = [j for j in range(len(table.testsets)) if j != target]
        for number in range(family.max() + 1):
            out = family == number
            codes = np.unique(family[~out], return_inverse=True)[1]
            predicted = Predictor.of(values[~out][:, others], values[~out][:, [target]], family=codes).predict(
                values[out][:, others]
            )
            truth, inside = values[out][:, [target]], predicted.inside
            covered += ((predicted.low <= truth) & (truth <= predicted.high))[inside].tolist()
    assert 0.9 < np.mean(covered) < 0.99

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from breadth.errors import InputError
from breadth.records.sensitivity import bias_columns, item_values, placements, score_intervals, scored
from breadth.records.study import Study
from breadth.sources import load_scores


def make(margin, labels, testset=None, correct=None, **columns):
    """A study from margins [subjects, items] and the label of every item."""
    margin = np.asarray(margin, dtype=np.float32)
    items = {"testset": testset or ["t"] * len(labels), "item": [str(i) for i in range(len(labels))], "label": labels}
    answers = np.where(np.isnan(margin), -1, margin > 0) if correct is None else np.asarray(correct)
    subjects = pl.DataFrame({"subject": [str(i) for i in range(len(margin))]})
    return Study("study", subjects, pl.DataFrame(items | columns), answers.astype(np.int8), margin)


def normal(subjects, items, sensitivity, criterion, seed=0):
    """Subjects with a true d' and criterion on items of two labels."""
    first = np.arange(items) % 2 == 0
    odds = np.random.default_rng(seed).normal(size=(subjects, items)) + np.where(first, 0.5, -0.5) * sensitivity
    return make(np.where(first, 1, -1) * (odds - criterion), np.where(first, "no", "yes").tolist())


def delong(first, other):
    """Area, and the placements of both groups, by comparing every two items."""
    wins = (first[:, None] > other) + 0.5 * (first[:, None] == other)
    return wins.mean(), wins.mean(axis=1), wins.mean(axis=0)


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(2, 40), st.integers(1, 12))
def test_area_is_the_mann_whitney_statistic(seed, ones, zeros, distinct):
    generator = np.random.default_rng(seed)
    first = generator.permutation(np.repeat([True, False], [ones, zeros]))
    odds = generator.integers(0, distinct, (3, ones + zeros)).astype(float)
    odds[0, generator.integers(ones + zeros)] = np.nan
    values = placements(odds, first)
    for row, value in zip(odds, values, strict=True):
        a, b = row[first & ~np.isnan(row)], row[~first & ~np.isnan(row)]
        assert np.isnan(value).sum() == np.isnan(row).sum()
        if len(a) and len(b):
            expected = stats.mannwhitneyu(a, b).statistic / (len(a) * len(b))
            assert np.nanmean(value[first]) + np.nanmean(value[~first]) == pytest.approx(expected)


def test_variance_of_an_area_and_of_a_difference_are_those_of_delong():
    study = normal(2, 90, 1.2, 0.4)
    first = (study.items["label"] == "no").to_numpy()
    odds = np.where(first, 1, -1) * study.margin.astype(float)
    values, group = item_values(study, "auc", "t")
    each = [delong(row[first], row[~first]) for row in odds]
    for value, (area, above, below) in zip(values, each, strict=True):
        own = [value[group == k] for k in (0, 1)]
        assert sum(part.mean() for part in own) == pytest.approx(area)
        expected = above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below)
        assert sum(part.var(ddof=1) / len(part) for part in own) == pytest.approx(expected)
    change = values[1] - values[0]
    covariance = [np.cov(each[0][k], each[1][k]) for k in (1, 2)]
    expected = sum((c[0, 0] + c[1, 1] - 2 * c[0, 1]) / 45 for c in covariance)
    assert sum(change[group == k].var(ddof=1) / 45 for k in (0, 1)) == pytest.approx(expected)


def test_the_interval_of_an_area_is_wilsons_for_what_its_variance_is_worth():
    study = normal(3, 90, 1.2, 0.4)
    first = (study.items["label"] == "no").to_numpy()
    odds = np.where(first, 1, -1) * study.margin.astype(float)
    interval = score_intervals(study, "auc", "t")
    for k, row in enumerate(odds):
        area, above, below = delong(row[first], row[~first])
        own = [part.var(ddof=1) / 45 for part in (above, below)]
        formula = area * (1 - area) * (1 + 44 * ((1 - area) / (2 - area) + area / (1 + area))) / 45**2
        df = sum(own) ** 2 / sum(part**2 / 44 for part in own)
        variance = sum(own) if sum(own) > formula else (df * sum(own) + 30 * formula) / (df + 30)
        n = area * (1 - area) / variance
        ends = binomial_ends(area, n)
        assert (interval.low[k], interval.high[k]) == pytest.approx(ends, rel=1e-6)


def binomial_ends(share, n):
    """The shares at which a z test of an observed share of n gives exactly 5 %: what Wilson's interval is."""
    z = stats.norm.ppf(0.975)
    roots = np.roots([1 + z**2 / n, -(2 * share + z**2 / n), share**2])
    return tuple(sorted(roots))


def test_sensitivity_and_criterion_from_rates():
    """20 of 25 hits and 10 of 25 false alarms, as in any textbook, with half an answer added to either side."""
    labels = ["a"] * 25 + ["b"] * 25
    said_a = np.repeat([1, 0, 1, 0], [20, 5, 10, 15])
    right = np.where(np.array(labels) == "a", said_a, 1 - said_a)
    study = make(np.where(right, 1.0, -1.0)[None], labels)
    h, f = stats.norm.ppf(20.5 / 26), stats.norm.ppf(10.5 / 26)
    found = {name: score_intervals(study, name, "t") for name in ("dprime", "criterion", "share", "balanced")}
    assert found["dprime"].value[0] == pytest.approx(h - f)
    assert found["criterion"].value[0] == pytest.approx(-(h + f) / 2)
    assert found["share"].value[0] == pytest.approx(30 / 50)
    assert found["balanced"].value[0] == pytest.approx((20 / 25 + 15 / 25) / 2)
    error = np.sqrt(sum(special.ndtr(z) * special.ndtr(-z) / 25 / stats.norm.pdf(z) ** 2 for z in (h, f)))
    assert (found["dprime"].high[0] - found["dprime"].value[0]) == pytest.approx(1.959964 * error, rel=1e-5)
    assert (found["criterion"].high[0] - found["criterion"].value[0]) == pytest.approx(0.979982 * error, rel=1e-5)


@pytest.mark.parametrize("sensitivity", [0.4, 1.6, 2.6])
@pytest.mark.parametrize("criterion", [0.0, -1.1])
def test_intervals_cover(sensitivity, criterion):
    study = normal(1500, 120, sensitivity, criterion, seed=7)
    low, high = special.ndtr(np.array([sensitivity / 2 - criterion, -sensitivity / 2 - criterion]))
    truth = {
        "auc": special.ndtr(sensitivity / np.sqrt(2)), "dprime": sensitivity, "criterion": criterion,
        "balanced": (low + 1 - high) / 2,
    }  # fmt: skip
    for measure, value in truth.items():
        interval = score_intervals(study, measure, "t")
        assert 0.92 < np.mean((interval.low <= value) & (value <= interval.high)) < 0.98, measure


def test_an_area_of_1_still_has_an_interval():
    study = make([[3.0, 2.0, 4.0, 1.0, 2.0, 2.0] * 2], ["a", "b"] * 6)
    interval = score_intervals(study, "auc", "t")
    assert interval.value[0] == pytest.approx(1)
    assert 0.2 < interval.low[0] < 0.9
    assert interval.high[0] == pytest.approx(1)


@pytest.mark.parametrize("measure", ["auc", "dprime", "criterion"])
def test_with_four_items_of_a_label_there_is_no_interval(measure):
    for rare, known in ((4, False), (5, True)):
        labels = ["a"] * rare + ["b"] * 60
        study = make(np.random.default_rng(0).normal(0.5, 1, (2, len(labels))), labels)
        found = score_intervals(study, measure, "t")
        assert np.isfinite(found.value).all()
        assert np.isfinite(found.low).all() == np.isfinite(found.high).all() == known


@pytest.mark.parametrize(("rare", "often"), [(5, 20), (5, 200), (10, 60)])
@pytest.mark.parametrize("area", [0.5, 0.75, 0.9])
def test_areas_with_a_rare_label_are_covered(rare, often, area):
    """A small version of benchmarks/answer_bias.py few; DeLong's interval covered .73 to .93 here."""
    generator = np.random.default_rng(rare + often)
    labels = ["a"] * rare + ["b"] * often
    shift = np.sqrt(2) * special.ndtri(area)
    sign = np.where(np.array(labels) == "a", 1, -1)
    odds = generator.normal(size=(800, len(labels))) + np.where(sign > 0, shift, 0.0)
    interval = score_intervals(make(sign * odds, labels), "auc", "t")
    assert 0.925 <= np.mean((interval.low <= area) & (area <= interval.high)) <= 0.99
    assert interval.low.min() >= 0
    assert interval.high.max() <= 1


def test_bias_moves_accuracy_and_not_the_area():
    plain, leaning = normal(1, 400, 1.5, 0.0), normal(1, 400, 1.5, 2.0)
    for measure, moved in (("accuracy", True), ("auc", False), ("share", True), ("logscore", True)):
        before, after = (score_intervals(study, measure, "t").value[0] for study in (plain, leaning))
        assert (abs(after - before) > 0.05) == moved, measure


def test_three_answers_have_a_balanced_accuracy_and_a_log_score():
    """A margin is the log-odds of the right answer against all others, so it says nothing about each of them."""
    labels = ["x", "x", "y", "z"]
    study = make([[0.5, -0.2, 1.0, -3.0]], labels, correct=[[1, 1, 1, 0]])
    assert score_intervals(study, "balanced", "t").value[0] == pytest.approx((1 + 1 + 0) / 3)
    expected = np.log(special.expit([0.5, -0.2, 1.0, -3.0])).mean()
    assert score_intervals(study, "logscore", "t").value[0] == pytest.approx(expected)
    for measure in ("auc", "dprime", "criterion", "share"):
        with pytest.raises(InputError, match=r'has 3 answers \(x, y, z\).*score="balanced" or logscore'):
            item_values(study, measure, "t")


def test_options_count_even_if_no_item_has_them_as_its_label():
    options = pl.Series([["A", "B", "C", "D"]] * 4)
    study = make([[1.0, -1.0, 2.0, -2.0]], ["A", "B", "A", "B"], option_labels=options)
    with pytest.raises(InputError, match="has 4 answers"):
        item_values(study, "auc", "t")


@pytest.mark.parametrize(
    ("margin", "labels", "measure", "message"),
    [
        ([[np.nan] * 12], ["a", "b"] * 6, "auc", "no margin .* as where a model writes"),
        ([[np.nan] * 12], ["a", "b"] * 6, "logscore", "no margin"),
        ([[1.0] * 12], [str(i) for i in range(12)], "balanced", "12 different labels"),
        ([[1.0] * 12], ["a"] * 12, "auc", "12 items|1 different labels|all its items"),
        ([[1.0] * 12], ["a", None] * 6, "dprime", "no label"),
    ],
)
def test_what_is_not_defined_is_refused(margin, labels, measure, message):
    study = make(margin, labels, correct=np.ones((1, 12)))
    with pytest.raises(InputError, match=message):
        item_values(study, measure, "t")


@pytest.mark.parametrize("measure", ["auc", "dprime", "balanced", "logscore", "criterion", "lean"])
def test_split_halves_have_the_noise_of_the_score(measure):
    """The variance of half the difference of two halves is that of the score over other items."""
    study = normal(800, 160, 1.0, 0.3, seed=3)
    result = scored(study, measure, splits=4)
    assert result.undefined == {}
    assert np.var(result.halves, axis=0).mean() / np.var(result.scores) == pytest.approx(1, abs=0.12)


def test_halves_of_accuracy_are_exact():
    study = normal(3, 41, 1.0, 0.0)
    half = scored(study, "accuracy", splits=1, seed=5)
    order = study.items.with_row_index().sort("testset", "item")["index"].to_numpy()
    side = np.empty(41, dtype=bool)
    side[order] = np.random.default_rng(5).permutation(np.arange(41) < 20.5)
    expected = (study.correct[:, side].mean(axis=1) - study.correct[:, ~side].mean(axis=1)) / 2
    assert half.halves[:, 0, 0] == pytest.approx(expected, abs=1e-6)


def two_sets(labels=("a", "b"), other=("a", "b"), seed=0):
    generator = np.random.default_rng(seed)
    margin = generator.normal(0.5, 1, (30, 80))
    testset = ["s"] * 40 + ["t"] * 40
    return make(margin, [*list(labels) * 20, *list(other) * 20], testset)


def lean(study):
    """The share of the answer a [test sets, subjects], averaged over labels."""
    said = np.where(study.items["label"].is_in(["a", "c"]), study.matrix, 1 - study.matrix)
    first = study.items["label"].is_in(["a", "c"]).to_numpy()
    own = [study.set_index == k for k in range(2)]
    return np.stack([(said[:, one & first].mean(axis=1) + said[:, one & ~first].mean(axis=1)) / 2 for one in own])


def test_bias_is_the_share_of_an_answer_averaged_over_labels_and_test_sets():
    study = two_sets()
    columns, halves, warnings = bias_columns(study, 2, 3, 0)
    each = lean(study)
    assert columns[:, 0] == pytest.approx(each.mean(axis=0))
    assert columns[:, 1] == pytest.approx((each.mean(axis=0) - each.mean()) ** 2)
    assert halves.shape == (30, 2, 3)
    assert warnings == []


def test_bias_is_over_test_sets_with_the_same_answers():
    study = two_sets(other=("c", "d"))
    columns, _, warnings = bias_columns(study, 1, 0, 0)
    assert columns[:, 0] == pytest.approx(lean(study)[0])
    assert "answers a, b, so without t" in warnings[0]
    with pytest.raises(InputError, match='omit control="bias"'):
        bias_columns(make([[1.0, 2.0]], [None, None]), 1, 0, 0)


def test_a_missing_test_set_does_not_shift_the_bias():
    study = two_sets()
    first = (np.array(study.items["label"]) == "a") & (study.set_index == 1)
    study.matrix[:, first] = 0  # the second test set leans away from a
    whole = bias_columns(study, 1, 0, 0)[0][:, 0]
    study = make(np.where((np.arange(30)[:, None] < 10) & (study.set_index == 1), np.nan, study.margin),
                 study.items["label"].to_list(), study.items["testset"].to_list())  # fmt: skip
    part = bias_columns(study, 1, 0, 0)[0][:, 0]
    assert abs(part[:10].mean() - part[10:].mean()) < abs(whole[:10].std()) * 2


def test_trajectories_of_another_score():
    study = two_sets()
    table = load_scores(study, None, score="auc")
    assert table.frame["s"].to_numpy() == pytest.approx(score_intervals(study, "auc", "s").value)
    with_bias = load_scores(study, "bias", score="auc", square_bias=True)
    assert with_bias.controls == ("bias", "bias squared")
    assert with_bias.halves.shape[1] == 4


def test_a_test_set_without_the_score_is_left_out_and_named():
    study = two_sets(other=("c", "d"))
    study = make(study.margin, study.items["label"].to_list()[:40] + ["x", "y", "z", "w"] * 10,
                 study.items["testset"].to_list())  # fmt: skip
    with pytest.raises(InputError, match="auc is not defined for test set t: it has 4 answers"):
        load_scores(study, None, "s,t", score="auc")
    more = Study(
        "study", study.subjects,
        pl.concat([study.items, study.items.head(40).with_columns(testset=pl.lit("u"))]),
        np.hstack([study.matrix, study.matrix[:, :40]]), np.hstack([study.margin, study.margin[:, :40]]),
    )  # fmt: skip
    table = load_scores(more, None, score="auc")
    assert table.testsets == ("s", "u")
    assert "auc is not defined for t, left out" in table.warnings[0]


def test_scores_have_no_other_score():
    table = pl.DataFrame({"m": range(5), "x": range(5), "y": range(5)})
    with pytest.raises(InputError, match='holds scores, and score="auc" needs single answers'):
        load_scores(table, "m", score="auc")
    with pytest.raises(InputError, match='control="bias" needs single answers'):
        load_scores(table, ["m", "bias"])

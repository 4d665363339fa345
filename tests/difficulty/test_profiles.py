from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.datasets import simulate_answers
from breadth.difficulty import Profile
from breadth.errors import InputError
from breadth.records.study import Study
from breadth.results import Answer, Question, State
from breadth.results.terminal import ShownTable
from breadth.sources import open_study


def as_study(matrix, subjects, items):
    names = pl.DataFrame({"subject": subjects}), pl.DataFrame({"testset": "t", "item": items})
    return Study("answers", *names, matrix)


@pytest.fixture(scope="module")
def data():
    truth = simulate_answers(200, 60, missing=0.1)
    return as_study(truth.matrix, [f"m{i}" for i in range(200)], [f"q{j}" for j in range(60)])


@pytest.fixture(scope="module")
def calibration(data):
    return breadth.calibrate(data, model="2pl")


@pytest.fixture(scope="module")
def placed(calibration):
    """Items that have a level: those with a slope that is clearly above 0."""
    return calibration.items["level"].is_not_null().to_numpy()


def test_accuracy_with_wilsons_interval(data, calibration):
    result = breadth.profile(data, calibration, ["m3"], levels=4).levels
    level = calibration.levels(4)["level"].to_numpy()
    for row in result.iter_rows(named=True):
        answers = data.matrix[3][(level == row["level"]) & (data.matrix[3] >= 0)]
        theirs = stats.binomtest(int(answers.sum()), len(answers)).proportion_ci(method="wilson")
        assert row["n"] == len(answers)
        assert row["accuracy"] == pytest.approx(answers.mean())
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_differences_are_paired_and_add_up(data, calibration, placed):
    result = breadth.profile(data, calibration, "m3,m5", levels=4).differences
    both = (data.matrix[3] >= 0) & (data.matrix[5] >= 0) & placed
    one, two = data.matrix[3][both], data.matrix[5][both]
    whole = result.filter(pl.col("level").is_null()).row(0, named=True)
    theirs = stats.ttest_rel(one, two)
    assert whole["n"] == both.sum()
    assert whole["difference"] == pytest.approx(one.mean() - two.mean())
    assert whole["p"] == pytest.approx(theirs.pvalue)
    interval = theirs.confidence_interval()
    assert (whole["ci_low"], whole["ci_high"]) == pytest.approx((interval.low, interval.high))
    parts = result.filter(pl.col("level").is_not_null())
    assert parts["share"].sum() == pytest.approx(1)
    assert (parts["difference"] * parts["n"]).sum() == pytest.approx(whole["difference"] * whole["n"])


def test_default_subjects_are_spread_over_ability(data, calibration):
    result = breadth.profile(data, calibration)
    assert result.levels["subject"].n_unique() == 5
    means = result.levels.group_by("subject", maintain_order=True).agg(pl.col("accuracy").mean())["accuracy"]
    assert means[0] < means[4]
    assert result.differences.select("subject_1", "subject_2").unique().height == 10
    assert result.figure().to_dict()


def test_items_without_a_level_are_left_out(data, calibration, placed):
    wider = np.column_stack([np.ones(200, dtype=np.int8), data.matrix])
    more = as_study(wider, data.subject_names, ["unknown", *data.item_names])
    result = breadth.profile(more, calibration, ["m1"], levels=3)
    assert f"{placed.sum()} of 61 items have a level in the calibration" in result.warnings[0]
    assert result.levels["n"].sum() == ((data.matrix[1] >= 0) & placed).sum()
    unplaced = calibration.items.with_columns(pl.lit(None, dtype=pl.Float64).alias("difficulty"))
    with pytest.raises(InputError, match="none of its items has a level, because no difficulty is known"):
        breadth.profile(data, breadth.Calibration(unplaced, calibration.subjects, calibration.fit), ["m1"])
    with pytest.raises(InputError, match="no subject nobody"):
        breadth.profile(data, calibration, "nobody")
    with pytest.raises(InputError, match=r"no subject M199x\. Did you mean m199"):
        breadth.profile(data, calibration, "m3,M199x")


def test_identical_subjects_do_not_differ(calibration, data):
    twins = as_study(np.repeat(data.matrix[:1], 2, axis=0), ["a", "b"], data.item_names)
    result = breadth.profile(twins, calibration, ["a", "b"]).differences
    assert (result["difference"] == 0).all()
    assert result["p"].is_null().all()
    assert result["share"].is_null().all()


def test_levels_stored_with_the_items(data):
    levels = pl.Series([0, 1, None] * 20)
    study = replace(data, items=data.items.with_columns(level=levels))
    result = breadth.profile(study, None, ["m3", "m5"])
    assert result.levels["level"].unique().sort().to_list() == [0, 1]
    assert result.levels["expected"].is_null().all()
    assert "40 of 60 items have a level" in result.warnings[0]
    with pytest.raises(InputError, match="its items have no level"):
        breadth.profile(data)


def test_a_profile_shows_itself(data, calibration):
    two = breadth.profile(data, calibration, ["m3", "m5"], levels=4)
    assert list(two.tables()) == ["levels", "differences"]
    assert two.verdict().headline in str(two)
    assert two.figure().to_dict()
    assert [table.frame.height for table in two.shown()] == [2, 5]
    many = breadth.profile(data, calibration, [f"m{i}" for i in range(15)])
    assert len(many.shown()) == 1
    assert many.verdict().facts["models"] == 12, "of more than twelve not all are compared"
    assert many.verdict().facts["all models"] == 15
    assert len(str(many).splitlines()) < 30


def profile_of(differences, n=100):
    """A profile with these differences: subjects, level, difference, se, q."""
    columns = ["subject_1", "subject_2", "level", "difference", "se", "q"]
    frame = pl.DataFrame(differences, schema=columns, orient="row")
    ends = {"ci_low": pl.col("difference") - 2 * pl.col("se"), "ci_high": pl.col("difference") + 2 * pl.col("se")}
    names = pl.concat([frame["subject_1"], frame["subject_2"]]).unique()
    return Profile(pl.DataFrame({"subject": names}), frame.with_columns(n=pl.lit(n), **ends))


def pair(whole, *levels, names=("a", "b")):
    """Two models: their whole difference, and those on levels; a difference that is None is small and not clear."""
    rows = []
    for level, difference in enumerate((whole, *levels), start=-1):
        clear = difference is not None
        rows.append((*names, level if level >= 0 else None, difference or 0.01, 0.015, 0.001 if clear else 0.6))
    return rows


@pytest.mark.parametrize(
    ("differences", "answer", "state"),
    [
        ((0.2, 0.3, 0.1), "On every level", State.YES),
        ((0.2, None, None, 0.1, 0.3), "On hard questions", State.YES),
        ((0.2, None, 0.1, 0.2, 0.3), "On all but the easiest questions", State.YES),
        ((None, -0.2, None, None, None), "On easy questions", State.YES),
        ((0.2, 0.2, 0.3, 0.1, None), "On all but the hardest questions", State.YES),
        ((0.2, None, 0.3, None), "On some levels", State.YES),
        ((None, 0.3, None, 0.2), "On some levels", State.MIXED),
        ((0.2, -0.3, 0.1), "Both ways", State.MIXED),
        ((0.2, None, None), "Overall only", State.MIXED),
        ((None, None, None), "Nowhere", State.NO),
    ],
)
def test_where_two_models_differ(differences, answer, state):
    verdict = profile_of(pair(*differences)).verdict()
    assert verdict.question is Question.PROFILE
    assert (verdict.answer, verdict.state) == (answer, state)
    found = [difference for difference in differences[1:] if difference is not None]
    if found:
        largest = max(found, key=abs)
        leader, other = ("a", "b") if largest > 0 else ("b", "a")
        assert verdict.reason.startswith(f"{leader} is ahead of {other}")
        assert f"{abs(100 * largest):.0f} points" in verdict.reason
        low, high = abs(100 * largest) - 3, abs(100 * largest) + 3
        assert f"95% interval {low:.0f} to {high:.0f}" in verdict.reason
        assert "−" not in verdict.reason, "who is ahead says the sign"
    assert ("Over all questions" in verdict.findings) == bool(found)
    assert verdict.advice, "what to do is always said"


def test_which_model_to_choose_for_which_questions():
    fifths = profile_of(pair(0.2, 0.2, 0.3, 0.1, 0.2, None)).verdict()
    assert "the second easiest fifth" in fifths.reason
    assert "from 2 points behind to 4 ahead" in fifths.reason
    assert fifths.advice.startswith("Choose a.")
    assert "hardest fifth" in fifths.advice
    assert "level" not in str(fifths), "test sets may have levels of their own"
    crossing = profile_of(pair(0.2, -0.3, 0.1)).verdict().advice
    assert crossing.index("a on the hardest half") < crossing.index("b on the easiest half")


def test_a_difference_that_could_not_have_been_seen():
    unknown = profile_of([("a", "b", None, 0.2, 0.1, 0.06)]).verdict()
    assert unknown.answer is Answer.UNKNOWN
    needed = float(unknown.facts["questions needed"].replace(",", ""))
    assert needed == pytest.approx(100 * (2.8 * 0.1 / 0.05) ** 2, rel=0.02)


def test_several_pairs_are_counted_and_the_largest_is_named():
    alike = pair(None, None, names=("a", "c")) + pair(None, None, names=("b", "c"))
    some = profile_of(pair(0.2, 0.2) + alike).verdict()
    assert (some.facts["pairs"], some.facts["pairs that differ"], some.facts["models"]) == (3, 1, 3)
    assert some.state is State.MIXED
    assert "a is ahead of b by 20 points" in some.reason
    assert "a and c" in some.findings
    every = profile_of(pair(0.2, 0.2) + pair(0.3, 0.4, names=("a", "c")) + pair(0.1, 0.2, names=("b", "c"))).verdict()
    assert (every.answer, every.state) == ("On every level", State.YES)
    assert "a is ahead of c by 40 points" in every.reason
    crossing = profile_of(pair(0.2, 0.2, 0.1) + pair(0.3, -0.4, 0.2, names=("a", "c"))).verdict()
    assert crossing.facts["pairs that differ both ways"] == 1
    assert crossing.state is State.MIXED


def test_verdicts_of_real_profiles(data, calibration):
    means = np.where(data.matrix >= 0, data.matrix, np.nan)
    order = np.argsort(np.nanmean(means, axis=1))
    apart = breadth.profile(data, calibration, [f"m{order[0]}", f"m{order[-1]}"]).verdict()
    assert apart.state is State.YES
    assert apart.reason.startswith(f"m{order[-1]} is ahead of m{order[0]}")
    assert breadth.profile(data, calibration, ["m1"]).verdict() is None
    twins = as_study(np.repeat(data.matrix[:1], 2, axis=0), ["a", "b"], data.item_names)
    assert breadth.profile(twins, calibration, ["a", "b"]).verdict().state is State.NO


@pytest.fixture(scope="module")
def study(write_study, tmp_path_factory):
    runs = [{"model": model, "seed": seed} for model in ("opt-1", "opt-2") for seed in (0, 1)]
    return open_study(write_study(tmp_path_factory.mktemp("s"), runs, steps=3, levels=4, testsets=("home",)))


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (None, [f"opt-{m}-home-8-{seed}/{step}" for m in (1, 2) for seed in (0, 1) for step in (0, 32)]),
        ("opt-1-home-8-1", ["opt-1-home-8-1/0", "opt-1-home-8-1/32"]),
        ("opt-2/16,opt-1-home-8-0/last", ["opt-2-home-8-0/16", "opt-2-home-8-1/16", "opt-1-home-8-0/32"]),
        (["opt-*/first"], [f"opt-{m}-home-8-{seed}/0" for m in (1, 2) for seed in (0, 1)]),
        ("opt-1-home-8-0/*", ["opt-1-home-8-0/0", "opt-1-home-8-0/16", "opt-1-home-8-0/32"]),
    ],
)
def test_checkpoints_by_pattern(study, wanted, chosen):
    result = breadth.profile(study, None, wanted)
    assert result.levels["subject"].unique(maintain_order=True).to_list() == chosen


def test_later_minus_earlier(study):
    first = breadth.profile(study, None, "opt-1-home-8-0").differences.row(0, named=True)
    assert (first["subject_1"], first["subject_2"]) == ("opt-1-home-8-0/32", "opt-1-home-8-0/0")
    with pytest.raises(InputError, match=r"no run, model or checkpoint matches 'opt-3'\. Did you mean"):
        breadth.profile(study, None, "opt-3")


@pytest.mark.parametrize(("levels", "width"), [(5, 100), (10, 100), (5, 60), (10, 60)])
def test_accuracies_are_shown_whole_with_their_intervals(levels, width, printed):
    cells = []
    for subject in ("owner/model-with-a-name", "b"):
        for k in range(levels):
            row = {"subject": subject, "level": k, "n": 50, "accuracy": 0.5, "ci_low": 0.37, "ci_high": 0.63}
            cells.append(row | {"expected": None})
    shown = Profile(pl.DataFrame(cells), pl.DataFrame()).shown()[0]
    text = printed(ShownTable(shown, width))
    assert text.count("50 ±13") == text.count("±13") >= 2 * min(levels, 5)
    table = [line.rstrip() for line in text.splitlines() if "Not shown" not in line]
    assert max(map(len, table)) <= width


def test_profile_without_answers_at_a_level():
    gap = {"subject": "a", "level": 0, "n": 0, "accuracy": None, "ci_low": None, "ci_high": None}
    row = {"subject": "a", "level": 1, "n": 4, "accuracy": 1.0, "ci_low": 0.5, "ci_high": 1.0}
    shown = Profile(pl.DataFrame([row, gap]), pl.DataFrame()).shown()[0]
    assert shown.rows == [["a", "-", "100 ±25"]]

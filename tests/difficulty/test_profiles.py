from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.datasets import simulate_answers
from breadth.difficulty import Profile, differences_table, profile_table
from breadth.errors import InputError
from breadth.records.study import Study
from breadth.results import Answer
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
    assert "m3 minus m5" in two.summary()
    assert "m3: " in str(two)
    assert two.figure().to_dict()
    many = breadth.profile(data, calibration, [f"m{i}" for i in range(8)])
    assert "3 more subjects in the table" in many.summary()


def profile_of(differences):
    """A profile with these differences: subjects, level, difference, se, q."""
    columns = ["subject_1", "subject_2", "level", "difference", "se", "q"]
    frame = pl.DataFrame(differences, schema=columns, orient="row")
    ends = {"ci_low": pl.col("difference") - 2 * pl.col("se"), "ci_high": pl.col("difference") + 2 * pl.col("se")}
    return Profile(pl.DataFrame({"subject": ["a", "b"]}), frame.with_columns(**ends))


def test_a_verdict_counts_findings():
    clear, open_ = ("a", "b", None, 0.2, 0.02, 0.001), ("a", "b", None, 0.2, 0.1, 0.06)
    yes = profile_of([clear, ("a", "b", 1, 0.3, 0.05, 0.01)]).verdict()
    assert (yes.answer, yes.reason) == (Answer.YES, "a and b differ overall.")
    assert yes.findings == "Largest: a minus b, +20 points (+16 to +24) overall and +30 points (+20 to +40) on level 1."
    unknown = profile_of([open_]).verdict()
    assert (unknown.answer, unknown.findings) == (Answer.UNKNOWN, "")
    assert unknown.reason == "a and b do not clearly differ overall or on a level."
    assert unknown.needed == "To see a difference of 5 points takes about 31 times as many items."
    no = profile_of([("a", "b", None, 0.01, 0.01, 0.4)]).verdict()
    assert (no.answer, "5 points would have been seen" in no.reason) == (Answer.NO, True)
    part = profile_of([open_, ("a", "b", 1, 0.3, 0.05, 0.01)]).verdict()
    assert part.answer is Answer.DEPENDS
    assert part.reason == "a and b do not clearly differ overall, but on level 1."
    ways = profile_of([clear, ("a", "b", 0, -0.3, 0.05, 0.01), ("a", "b", 1, 0.3, 0.05, 0.01)]).verdict()
    assert (ways.answer, "1 pair is apart both ways" in ways.reason) == (Answer.DEPENDS, True)
    many = profile_of([clear, ("a", "c", None, 0.0, 0.02, 0.9), ("b", "c", None, 0.0, 0.02, 0.9)]).verdict()
    assert many.reason.startswith("1 of 3 pairs of subjects differs overall")


def test_verdicts_of_real_profiles(data, calibration):
    means = np.where(data.matrix >= 0, data.matrix, np.nan)
    order = np.argsort(np.nanmean(means, axis=1))
    apart = breadth.profile(data, calibration, [f"m{order[0]}", f"m{order[-1]}"]).verdict()
    assert apart.answer is Answer.YES
    assert breadth.profile(data, calibration, ["m1"]).verdict() is None
    twins = as_study(np.repeat(data.matrix[:1], 2, axis=0), ["a", "b"], data.item_names)
    assert breadth.profile(twins, calibration, ["a", "b"]).verdict().answer is Answer.NO


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


@pytest.mark.parametrize(("levels", "lines_per_subject"), [(5, 1), (10, 2)])
def test_profile_always_shows_intervals(levels, lines_per_subject, printed):
    cells = [
        {"subject": subject, "level": k, "n": 50, "accuracy": 0.5, "ci_low": 0.37, "ci_high": 0.63}
        for subject in ("owner/model-with-a-name", "b")
        for k in range(levels)
    ]
    text = printed(profile_table(pl.DataFrame(cells)))
    assert text.count("±13") == 2 * levels
    assert "owner/model-with-a-name" in text
    lines = [line for line in text.splitlines() if "50" in line or "±13" in line]
    assert len(lines) == 2 * lines_per_subject
    assert all(len(line) <= 100 for line in lines)


def test_profile_without_answers_at_a_level(printed):
    gap = {"subject": "a", "level": 0, "n": 0, "accuracy": None, "ci_low": None, "ci_high": None}
    row = {"subject": "a", "level": 1, "n": 4, "accuracy": 1.0, "ci_low": 0.5, "ci_high": 1.0}
    assert printed(profile_table(pl.DataFrame([row, gap]))).splitlines()[-2].split() == ["a", "-", "100", "±25"]


def test_differences_by_level(printed):
    row = {"subject_1": "a", "subject_2": "b", "level": None, "n": 9, "difference": 0.1, "ci_low": 0.0, "ci_high": 0.2}
    text = printed(differences_table(pl.DataFrame([row | {"q": 0.0004, "share": 1.0}])))
    assert text.startswith("a minus b")
    assert text.splitlines()[4].split() == ["all", "9", "+0.10", "+0.00", "+0.20", "<.001", "100%"]

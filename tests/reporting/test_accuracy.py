import re

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats
from scipy.stats import binomtest

import breadth
from breadth.datasets import simulate_scores
from breadth.reporting import build_report
from breadth.reporting.accuracy import (
    GAINS,
    TESTED,
    Follows,
    at_shared_steps,
    behind,
    crossed_mean,
    long_scores,
    model_accuracy_by_level,
    other_starts,
    score_profile,
    score_tables,
    settled_mean,
    with_findings,
)
from breadth.reporting.data import ReportData
from breadth.reporting.scoring import bias_words, follow_words
from breadth.reporting.sources import ScoreKind
from breadth.results import Answer
from breadth.sources import open_source, open_study


def test_one_run_is_the_mean_of_its_items():
    answers = np.array([[1, 0, 1, 1, 0, 1, np.nan]], dtype=np.float32)
    mean = crossed_mean(answers, "gain")
    interval = stats.t.interval(0.95, 5, answers[0, :6].mean(), answers[0, :6].std(ddof=1) / np.sqrt(6))
    assert mean["n_items"] == 6
    assert (mean["ci_low"], mean["ci_high"]) == pytest.approx(interval)


def test_intervals_include_the_variation_between_runs():
    generator = np.random.default_rng(0)
    alike = np.repeat(generator.random((1, 400)) < 0.6, 4, axis=0).astype(float)
    apart = (generator.random((4, 400)) < np.array([0.4, 0.5, 0.7, 0.8])[:, None]).astype(float)
    narrow, wide = crossed_mean(alike, "accuracy"), crossed_mean(apart, "accuracy")
    assert wide["ci_high"] - wide["ci_low"] > 2 * (narrow["ci_high"] - narrow["ci_low"])


@pytest.mark.parametrize("answers", [np.empty((2, 0)), np.ones((2, 1)), np.ones((2, 30))])
def test_no_interval_without_variation(answers):
    mean = crossed_mean(answers, "accuracy")
    assert mean["ci_low"] is None
    assert mean["accuracy"] == (1 if answers.shape[1] else None)


def test_runs_without_answers_are_left_out():
    answers = np.array([[1.0, 0.0, 1.0, 1.0], [np.nan] * 4])
    mean = crossed_mean(answers, "accuracy")
    assert (mean["runs"], mean["n_items"], mean["accuracy"]) == (1, 4, 0.75)
    assert crossed_mean(answers[1:], "accuracy")["accuracy"] is None


def test_an_accuracy_stays_within_its_bounds():
    answers = np.array([[1, 1, 1, 1, 0, 1]], dtype=float)
    assert crossed_mean(answers, "gain")["ci_high"] > 1
    one, two = crossed_mean(answers, "accuracy"), crossed_mean(np.vstack([answers, answers]), "accuracy")
    assert two["ci_high"] == 1
    wilson = binomtest(5, 6).proportion_ci(method="wilson")
    assert (one["ci_low"], one["ci_high"]) == pytest.approx((wilson.low, wilson.high))
    sure = crossed_mean(np.ones((1, 6)), "accuracy")
    assert 0.5 < sure["ci_low"] < sure["ci_high"] == 1
    assert crossed_mean(np.vstack([1 - answers] * 2), "accuracy")["ci_low"] == 0


def test_gains_are_after_minus_before(simulated_study):
    profile, gains = score_profile(open_study(simulated_study.folder))
    wide = profile.pivot(on="when", index=["model", "testset"], values="accuracy").join(gains, on=["model", "testset"])
    assert (wide["after"] - wide["before"] - wide["gain"]).abs().max() < 1e-12
    assert gains.filter("in_domain")["testset"].unique().to_list() == ["plain"]
    assert profile["chance"].is_between(0.5, 0.7).all()
    assert profile["testset"].unique(maintain_order=True)[0] == "plain", "the in-domain set comes first"


def test_levels_partition_the_items(simulated_study):
    study = open_study(simulated_study.folder)
    table = model_accuracy_by_level(study, study.items["level"], ["model-b", "model-a"])
    after = table.filter((pl.col("when") == "after") & (pl.col("model") == "model-a")).sort("level")
    assert after["n_items"].sum() == study.items.height
    assert after["accuracy"].is_sorted(descending=True)
    assert table["model"].unique(maintain_order=True).to_list() == ["model-b", "model-a"]


def pair_of_checkpoints(sensitivity, lean, runs=2, items=200, seed=0, noise=0.3):
    """Runs of one model from before to after training, on the set chat: a change of sensitivity, and a lean to no."""
    generator = np.random.default_rng(seed)
    first = np.arange(items) % 2 == 0
    persistent, parts = generator.normal(size=items), []
    for run in range(runs):
        for step in (0, 100):
            odds = np.where(first, 1, -1) * (1 + sensitivity * (step > 0)) + persistent + lean * (step > 0)
            margin = np.where(first, 1, -1) * (odds + noise * generator.normal(size=items))
            columns = {"item": [f"i{i}" for i in range(items)], "label": np.where(first, "no", "yes")}
            frame = pl.DataFrame(columns | {"margin": margin, "correct": margin > 0})
            parts.append(frame.with_columns(testset=pl.lit("chat"), run=pl.lit(f"r{run}"), step=pl.lit(step)))
    return pl.concat(parts).with_columns(model=pl.lit("m"), train_set=pl.lit("plain"))


def test_a_change_of_accuracy_that_is_one_of_bias_is_named():
    result = breadth.scores(pair_of_checkpoints(sensitivity=0.0, lean=1.4))
    row = result.changes.row(0, named=True)
    assert row["accuracy_high"] < 0
    assert row["auc_low"] < 0 < row["auc_high"]
    assert (row["answer"], row["says_more"], row["flag"]) == ("no", "no", "bias")
    words = bias_words(result.changes, result.scores)[0]
    assert all(part in words for part in ("m on chat fell", "says no more often"))
    assert words in result.details()
    verdict = result.verdict()
    assert verdict.answer is Answer.YES
    assert all(part in verdict.reason for part in ("chat", "fell", "says no more often"))


@pytest.mark.parametrize(
    ("sensitivity", "lean"),
    [(1.0, 0.0), (-0.9, 0.0), (-0.8, 1.2), (0.0, 0.0)],
    ids=["gain of sensitivity", "loss of sensitivity", "both", "neither"],
)
def test_a_change_of_sensitivity_is_not_called_bias(sensitivity, lean):
    for seed in range(5):
        result = breadth.scores(pair_of_checkpoints(sensitivity, lean, seed=seed))
        assert result.changes["flag"].to_list() == [None]
        assert "more often" not in result.details()


def test_bias_is_not_called_where_sensitivity_may_have_changed_as_much():
    """Where the interval of the area covers 0 and the change of accuracy alike, nothing is known about sensitivity."""
    unknown = 0
    for seed in range(40):
        frame = pair_of_checkpoints(-0.4, 1.5, runs=1, items=40, seed=seed, noise=1.5)
        row = breadth.scores(frame).changes.row(0, named=True)
        moved = row["accuracy_high"] < 0 < row["share_low"] and row["auc_low"] <= 0 <= row["auc_high"]
        if moved and row["auc_low"] <= row["accuracy"]:
            unknown += 1
            assert row["flag"] is None
    assert unknown > 2


def test_the_paired_interval_of_an_area_covers():
    covered = []
    for seed in range(100):
        row = breadth.scores(pair_of_checkpoints(0.0, 1.0, runs=1, items=80, seed=seed)).changes.row(0, named=True)
        covered.append(row["auc_low"] <= 0 <= row["auc_high"])
    assert 0.9 <= np.mean(covered) <= 0.99


def changes(gain, runs=3, items=150, spread=0.5, seed=0):
    """Changes [runs, items] with a mean gain, and one group for all items."""
    values = gain + spread * np.random.default_rng(seed).normal(size=(runs, items))
    return values, np.zeros(items, dtype=np.intp)


def follows(*away, home):
    """Which of several shifted test sets follow the in-domain one, from changes [runs, items] on each."""
    rows = []
    for values, group in away:
        late, lag = crossed_mean(values, "gain", group), behind((values, group), home)
        tested = {"late": late["gain"], "p_late": late["p"], "behind": lag["gain"], "p_behind": lag["p"]}
        rows.append({"in_domain": False, **tested})
    frame = pl.DataFrame([dict.fromkeys(GAINS | TESTED) | row for row in rows], schema=GAINS | TESTED)
    return with_findings(frame)["follows"].to_list()


@pytest.mark.parametrize(
    ("away", "home", "verdict"),
    [
        (0.30, 0.30, Follows.YES),
        (0.00, 0.40, Follows.NO),
        (-0.30, 0.40, Follows.NO),
        (0.15, 0.70, Follows.PART),
        (0.00, 0.00, None),
        (0.30, 0.00, None),
        (0.30, -0.30, None),
    ],
)
def test_a_set_follows_if_it_gains_and_not_if_it_gains_less_than_half(away, home, verdict):
    assert follows(changes(away), home=changes(home, seed=1)) == [verdict]


def test_what_follows_is_seldom_decided_by_chance():
    """Half the in-domain gain is the border: neither a clear no nor, without a gain, a clear yes."""
    generator = np.random.default_rng(3)
    at_border, nothing = [], []
    for seed in generator.integers(1 << 30, size=150):
        home = changes(0.3, seed=seed + 1)
        at_border.append(follows(changes(0.15, seed=seed), home=home)[0] in (Follows.NO, Follows.PART))
        nothing.append(follows(changes(0.0, seed=seed), home=home)[0] in (Follows.YES, Follows.PART))
    assert np.mean(at_border) < 0.06
    assert np.mean(nothing) < 0.06


def test_one_set_among_many_follows_only_if_it_survives_the_false_discovery_rate():
    home = changes(0.3, seed=1)
    seed = next(k for k in range(2, 200) if follows(changes(0.06, seed=k), home=home)[0] in (Follows.YES, Follows.PART))
    weak = changes(0.06, seed=seed)
    among = follows(weak, *(changes(0.0, seed=1000 + k) for k in range(30)), home=home)
    assert among[0] not in (Follows.YES, Follows.PART)


def test_follows_in_words_names_sets_by_model():
    frame = pl.DataFrame(
        {
            "model": ["m"] * 4, "train_set": ["t"] * 4, "testset": ["t", "a", "b", "c"],
            "in_domain": [True, False, False, False], "follows": [None, "yes", "no", None], "late_checkpoints": [1] * 4,
        }
    )  # fmt: skip
    text = follow_words(frame, "auc")
    assert "In m trained on t, a follows; b does not follow; c is undecided." in text
    assert follow_words(frame.filter(pl.col("follows").is_null()), "auc") == ""


def test_one_run_says_nothing_about_the_recipe(simulated_study):
    study = open_study(simulated_study.folder)
    run = study.subjects["run"][0]
    alone = study.select(pl.col("run") == run)
    gains = score_profile(alone)[1]
    shifted = gains.filter(~pl.col("in_domain"))
    assert set(shifted["follows"]) == {Follows.ONE_RUN}
    assert shifted["q_late"].is_null().all()
    assert shifted["q_behind"].is_null().all()
    assert (shifted["late_low"] < shifted["late"]).all()
    text = follow_words(gains, "accuracy")
    assert "about this one trained model only" in text
    assert not re.search(r"\bfollows?;|does not follow|is undecided", text)
    several = score_profile(study)[1]
    assert Follows.ONE_RUN not in several["follows"].to_list()


def test_what_follows_is_decided_on_the_mean_of_late_checkpoints(simulated_study):
    study = open_study(simulated_study.folder)
    gains = score_profile(study)[1]
    row = gains.filter(~pl.col("in_domain")).row(0, named=True)
    subjects = study.subjects.with_row_index("row").filter(pl.col("model") == row["model"])
    scores, each = study.scores[0][:, study.testsets.index(row["testset"])], []
    for _, own in subjects.group_by("run"):
        last = own["step"].max()
        late = own.filter(pl.col("step") >= 0.8 * last)["row"]
        each.append(scores[late.to_numpy()].mean() - scores[own.sort("step")["row"][0]])
        assert row["late_checkpoints"] == late.len() > 1
    assert row["late"] == pytest.approx(np.mean(each), abs=1e-6)
    assert row["late"] != pytest.approx(row["gain"], abs=1e-4)


def test_an_interval_over_two_runs_is_as_wide_as_two_runs_allow():
    """Where runs differ far more than items let them, the mean of two is known with one degree of freedom."""
    generator = np.random.default_rng(0)
    runs = 0.1 * np.array([[1.0], [3.0]]) + 0.01 * generator.normal(size=(2, 400))
    mean = crossed_mean(runs, "gain")
    low, high = stats.t.interval(0.95, 1, 0.2, 0.1)
    assert (mean["ci_low"], mean["ci_high"]) == (pytest.approx(low, rel=0.01), pytest.approx(high, rel=0.01))
    assert mean["p"] == pytest.approx(stats.ttest_1samp([0.1, 0.3], 0).pvalue, rel=0.02)


def fluctuating(runs, generator, gain=0.0, sets=6, items=300, checkpoints=8, spread=0.05):
    """Late changes of every test set: items with difficulties, runs whose checkpoints fluctuate by ``spread``."""
    given = []
    for _ in range(sets):
        difficulty = generator.normal(size=items)
        before = -difficulty + generator.normal(size=items) > 0
        level = (gain + spread * generator.normal(size=(runs, checkpoints, 1))) * 4
        noise = generator.normal(size=(runs, checkpoints, items))
        after = level - difficulty + noise > 0
        given.append((after - before.astype(float)).mean(axis=1))
    return [(values, np.zeros(items, dtype=np.intp)) for values in given]


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_without_a_gain_hardly_any_study_says_that_a_set_follows(runs):
    """A small version of benchmarks/follows.py: any false "follows" in at most 5 % of studies, about."""
    generator = np.random.default_rng(runs)
    false = 0
    for seed in range(100):
        home = changes(0.3, runs=runs, seed=seed, items=200)
        said = follows(*fluctuating(runs, generator, sets=4, items=200), home=home)
        false += Follows.YES in said or Follows.PART in said
    assert false <= 9


def test_gains_are_seen_with_several_runs():
    generator, seen = np.random.default_rng(9), []
    for seed in range(20):
        home = changes(0.3, runs=4, seed=seed, items=300)
        seen += [word == Follows.YES for word in follows(*fluctuating(4, generator, gain=0.25), home=home)]
    assert np.mean(seen) > 0.8


def test_the_interval_of_one_run_counts_its_fluctuation():
    """A run whose checkpoints fluctuate by 5 points: the interval from items alone would hold its level too rarely."""
    generator = np.random.default_rng(4)
    held, wider = [], []
    for _ in range(300):
        level = 0.05 * generator.normal(size=(9, 1))
        values = level + 0.4 * generator.normal(size=(1, 300)) + 0.2 * generator.normal(size=(9, 300))
        group = np.zeros(300, dtype=np.intp)
        row = settled_mean(values, "gain", group, 2)
        held.append(row["ci_low"] <= 0 <= row["ci_high"])
        wider.append(row["se"] > crossed_mean(values.mean(axis=0, keepdims=True), "gain")["se"])
        assert row["p"] is None
    assert 0.91 <= np.mean(held) <= 0.995
    assert np.mean(wider) > 0.9


@pytest.fixture(scope="module")
def scores():
    return open_source(simulate_scores(runs=5, steps=12), by="run", order="step", control="in_domain")


def test_gains_are_means_over_runs_with_t_intervals(scores):
    gains = score_tables(scores)["gains"]
    frame = scores.frame.sort("run", "step")
    ends = frame.group_by("run", maintain_order=True).agg(pl.col("numbers").last() - pl.col("numbers").first())
    changes = ends["numbers"].to_numpy()
    row = gains.row(by_predicate=pl.col("testset") == "numbers", named=True)
    low, high = stats.t.interval(0.95, 4, changes.mean(), stats.sem(changes))
    assert row["gain"] == pytest.approx(changes.mean())
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(low), pytest.approx(high))
    assert row["p"] == pytest.approx(stats.ttest_1samp(changes, 0).pvalue)
    shifted = gains.filter(~pl.col("in_domain"))
    assert shifted["q"].to_list() == pytest.approx(stats.false_discovery_control(shifted["p"].to_numpy()).tolist())
    assert gains.filter("in_domain")["testset"].to_list() == ["in_domain"]
    assert gains.filter("in_domain")["q"].to_list() == [None]


def test_percentages_become_shares_and_losses_stay(scores):
    columns = [*scores.controls, *scores.testsets]
    whole = open_source(simulate_scores(runs=2, steps=5).with_columns(pl.col(columns) * 100), by="run", order="step")
    long, kinds, _ = long_scores(whole)
    assert set(kinds.values()) == {ScoreKind.PERCENT}
    assert long["score"].max() <= 1
    losses = simulate_scores(runs=2, steps=5).with_columns(pl.col(columns) + 2)
    kinds = long_scores(open_source(losses, by="run", order="step")).kinds
    assert set(kinds.values()) == {ScoreKind.PERCENT}  # 2 to 3 may be percent
    larger = losses.with_columns(pl.col(columns) * 100)
    long, kinds, _ = long_scores(open_source(larger, by="run", order="step", testsets=columns))
    assert set(kinds.values()) == {ScoreKind.OTHER}
    assert long["score"].max() > 100


def with_loss(scale=1.0):
    """Three runs whose accuracies rise by about 33 points while a loss, in the same table, falls from 4 to 1."""
    rows = []
    for run in range(3):
        for step in range(5):
            accuracy = scale * (0.4 + 0.08 * step + 0.01 * run)
            sets = {"science": accuracy, "chat": accuracy + 0.02 * scale, "formal": accuracy - 0.02 * scale}
            rows.append({"run": f"r{run}", "step": step, "loss": 4 - 0.7 * step + 0.02 * run, **sets})
    return pl.DataFrame(rows)


@pytest.mark.parametrize("scale", [1.0, 100.0], ids=["shares", "percentages"])
def test_a_loss_beside_accuracies_does_not_change_their_scale(scale):
    tables = score_tables(open_source(with_loss(scale), by="run", order="step", control="loss"))
    gains = dict(tables["gains"].select("testset", "gain").iter_rows())
    assert gains["science"] == pytest.approx(0.32)
    assert gains["loss"] == pytest.approx(-2.8)
    kinds = long_scores(open_source(with_loss(scale), by="run", order="step", control="loss")).kinds
    assert [name for name, kind in kinds.items() if kind is ScoreKind.OTHER] == ["loss"]


def test_a_report_says_a_loss_in_its_own_unit_and_accuracies_in_points():
    data = build_report(with_loss(), by="run", order="step", control="loss")
    assert data.share
    assert (data.others, data.comparable) == (("loss",), ["science", "chat", "formal"])
    overview = next(content for section, content in data.contents.items() if section.key == "overview")
    text = " ".join(overview.details)
    assert "loss changed by −2.8" in text
    assert "+32 points" in text
    assert "−280" not in text
    assert any("loss" in reason for reason in overview.absent)


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        ({"a": [0.2, 0.9], "b": [20.0, 90.0]}, "percent percent"),  # shares among percentages are put on their scale
        ({"a": [0.2, 0.9], "b": [2.0, 3.0]}, "share other"),
        ({"a": [20.0, 90.0], "b": [2.0, 3.0]}, "percent percent"),
        ({"a": [0.2, 0.9], "b": [-0.4, 0.5]}, "share other"),
        ({"a": [0.2, 0.9], "b_loss": [0.4, 0.5]}, "share other"),
        ({"a": [0.2, 0.9], "b": [300.0, 400.0]}, "share other"),
    ],
)
def test_what_a_column_holds_is_judged_for_each_by_itself(columns, kinds):
    frame = pl.DataFrame({"run": ["r", "s"], **columns})
    judged = long_scores(open_source(frame, by="run", order="none", control="none", testsets=list(columns))).kinds
    assert " ".join(judged.values()) == kinds


def test_a_model_column_names_models(scores):
    frame = simulate_scores(runs=4, steps=5)
    frame = frame.with_columns(model=pl.when(pl.col("run") < "run-02").then(pl.lit("a")).otherwise(pl.lit("b")))
    tables = score_tables(open_source(frame, by=["model", "run"], order="step", control="in_domain"))
    assert tables["runs"]["run"].to_list()[0] == "a / run-00"
    assert set(tables["gains"]["model"]) == {"a", "b"}
    assert tables["gains"]["ci_low"].null_count() == tables["gains"].height  # two runs are too few
    assert set(tables["trajectories"]["model"]) == {"a", "b"}


def test_without_an_order_there_are_no_gains():
    generator = np.random.default_rng(0)
    frame = pl.DataFrame({name: generator.random(30) for name in ("arc", "gsm8k", "mmlu")})
    tables = score_tables(open_source(frame))
    assert tables["gains"].height == 0
    assert "trajectories" not in tables
    assert tables["profile"].select("model", "testset", "when").rows()[0] == ("all rows", "arc", "after")


def test_missing_cells_and_constant_scores():
    frame = simulate_scores(runs=3, steps=4).with_columns(
        numbers=pl.lit(0.5), science=pl.when(pl.col("step") > 0).then(pl.col("science"))
    )
    gains = score_tables(open_source(frame, by="run", order="step", control="in_domain"))["gains"]
    constant = gains.row(by_predicate=pl.col("testset") == "numbers", named=True)
    assert (constant["gain"], constant["ci_low"], constant["p"]) == (0, None, None)
    assert gains.filter(pl.col("testset") == "science")["gain"].is_finite().all()


def test_a_mean_of_accuracies_over_runs_stays_within_0_and_1():
    frame = pl.DataFrame(
        {"run": ["r0", "r1", "r2"] * 2, "step": [0] * 3 + [1] * 3, "hard": [0.0, 0.01, 0.05, 0.02, 0.0, 0.06],
         "easy": [0.6, 0.99, 0.97, 0.59, 1.0, 0.98]}
    )  # fmt: skip
    for scale in (1, 100):
        table = frame.with_columns(pl.col("hard", "easy") * scale)
        profile = score_tables(open_source(table, by="run", order="step", control="none"))["profile"]
        low, high = stats.t.interval(0.95, 2, np.mean([0.59, 1, 0.98]), stats.sem([0.59, 1, 0.98]))
        row = profile.row(by_predicate=(pl.col("testset") == "easy") & (pl.col("when") == "after"), named=True)
        assert high > 1
        assert (row["ci_low"], row["ci_high"]) == (pytest.approx(low), 1.0)
        assert profile.filter(testset="hard")["ci_low"].to_list() == [0.0, 0.0]


def test_a_change_of_accuracy_is_at_most_one():
    runs = np.repeat([[0.2], [0.9]], 50, axis=1) + 0.01 * np.random.default_rng(0).normal(size=(2, 50))
    assert crossed_mean(runs, "gain")["ci_high"] > 1
    mean = crossed_mean(runs, "gain", most=1.0)
    assert (mean["ci_low"], mean["ci_high"]) == (-1.0, 1.0)


def late_starters():
    """Three runs from step 0, and one of which only the last checkpoints were evaluated."""
    parts, generator = [], np.random.default_rng(0)
    for run, first in (("a", 0), ("b", 0), ("c", 0), ("late", 114_000)):
        steps = np.arange(first, 144_000, 6_000)
        noise = 0.01 * generator.normal(size=(2, len(steps)))
        noise[:, [0, -1]] = 0
        score = 0.3 + 0.4 * steps / 144_000 + 0.01 * len(parts)
        parts.append(pl.DataFrame({"run": run, "step": steps, "arc": score + noise[0], "piqa": score + noise[1]}))
    return pl.concat(parts)


def test_runs_that_begin_late_are_no_part_of_before_and_after():
    tables = score_tables(open_source(late_starters(), by="run", order="step", control="none"))
    gain = tables["gains"].row(by_predicate=pl.col("testset") == "arc", named=True)
    assert gain["runs"] == 3
    assert gain["gain"] == pytest.approx(0.4 * 138 / 144)
    before = tables["profile"].row(by_predicate=(pl.col("testset") == "arc") & (pl.col("when") == "before"), named=True)
    assert before["score"] == pytest.approx(0.31)
    assert other_starts(tables["runs"]).select("run", "first_step").rows() == [("late", 114_000)]
    data = build_report(late_starters(), by="run", order="step", control="none")
    overview = next(content for section, content in data.contents.items() if section.key == "overview")
    assert any("late (step 114,000)" in text for text in overview.details)


def test_answers_of_runs_that_begin_late_are_left_out_and_named(simulated_study):
    study = open_study(simulated_study.folder)
    run = study.subjects["run"][0]
    late = study.select((pl.col("run") != run) | (pl.col("step") > 300))
    whole, cut = score_profile(study), score_profile(late)
    model = study.subjects["model"][0]
    assert cut[1].filter(model=model)["runs"].max() == whole[1].filter(model=model)["runs"].max() - 1
    assert f"{run} (step " in breadth.scores(late).details()
    assert "begins at another step" not in breadth.scores(study).details()


def test_means_are_over_the_same_runs_at_every_step():
    rows = [("a", step) for step in (0, 10, 20, 30)] + [("b", step) for step in (0, 15, 20, 30)] + [("c", 0)]
    frame = pl.DataFrame(rows, schema=["run", "step"], orient="row").with_columns(
        model=pl.lit("m"), testset=pl.lit("t")
    )
    shared = at_shared_steps(frame)
    assert shared["step"].unique().sort().to_list() == [0, 20, 30]
    assert set(shared["run"]) == {"a", "b"}


@pytest.mark.parametrize("values", [[0, 1], [0, 0.25, 0.5, 1]])
def test_models_that_were_evaluated_once_are_scored_all_at_once(values, monkeypatch):
    generator = np.random.default_rng(len(values))
    answers = pl.DataFrame(
        {
            "model": np.repeat(["a", "b", "c", "d"], 20),
            "testset": np.tile(["x", "y"], 40),
            "item": np.tile([f"q{k}" for k in range(20)], 4),
            "correct": generator.choice(values, 80),
            "label": np.tile(["l", "m", "l", "l", "m"], 16),
        }
    )
    few = pl.DataFrame({"model": ["e"], "testset": ["x"], "item": ["q0"], "correct": [values[-1]], "label": ["l"]})
    source = pl.concat([answers, few.cast(answers.schema)])
    study = ReportData(open_source(source)).described
    together, _ = score_profile(study)
    monkeypatch.setattr("breadth.reporting.accuracy._are_evaluated_once", lambda ends: False)
    one_by_one, _ = score_profile(study)
    assert together.height == 9
    assert_frame_equal(together, one_by_one, rel_tol=1e-9)

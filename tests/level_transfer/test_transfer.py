import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.inference import benjamini_hochberg
from breadth.level_transfer import BreakFlag, Effect, TransferFlag
from transfer_recovery import Setting, simulated_study


def table(seeds=2, items=60, by="train_level", names=None):
    gains, truth = simulated_study(np.random.default_rng(0), Setting(fade=0.03, seeds=seeds, items=items))
    item = [f"i{i}" for i in range(len(gains.level))]
    conditions = names or [str(k) for k in range(5)]
    parts = [
        pl.DataFrame({by: condition, "seed": seed, "item": item, "level": gains.level, "correct": answers[seed]})
        for condition, answers in zip(conditions, gains.trained, strict=True)
        for seed in range(seeds)
    ]
    untrained = pl.DataFrame({"item": item, "level": gains.level, "correct": gains.baseline})
    return pl.concat([*parts, untrained], how="diagonal"), gains, truth


def test_cells_are_the_means(tmp_path):
    frame, gains, _ = table()
    result = breadth.transfer(frame)
    assert result.cells.columns == [
        "train_level", "test_level", "n_items", "n_seeds", "accuracy", "baseline", "gain", "se", "ci_low", "ci_high",
        "p", "q", "flag",
    ]  # fmt: skip
    assert result.cells.height == 25
    row = result.cells.filter(train_level=3, test_level=1).row(0, named=True)
    inside = gains.level == 1
    assert row["accuracy"] == pytest.approx(gains.trained[3][:, inside].mean())
    assert row["gain"] == pytest.approx(row["accuracy"] - row["baseline"])
    assert (row["n_items"], row["n_seeds"], row["flag"]) == (60, 2, None)
    assert result.effects["effect"].to_list() == list(Effect)
    assert result.effects["estimate"][0] < 0
    assert result.best.height == 6
    for name in ("cells", "effects", "best"):
        frame_q, p = result.table(name)["q"], result.table(name)["p"].fill_null(float("nan")).to_numpy()
        assert frame_q.to_numpy() == pytest.approx(benjamini_hochberg(p), nan_ok=True)
    assert result.best["verdict"].to_list() == ["decided" if q < 0.05 else "undecided" for q in result.best["q"]]
    assert result.breaks["train_level"][0] == "before"
    frame.write_parquet(tmp_path / "a.parquet")
    assert breadth.transfer(tmp_path).cells.equals(result.cells), "a directory of tables is one table"


def test_a_result_shows_itself():
    result = breadth.transfer(table(seeds=3)[0])
    assert list(result.tables()) == ["cells", "effects", "breaks", "best"]
    assert result.verdict().headline in str(result)
    assert "<table>" in result._repr_html_()
    assert result.to_markdown("best").count("\n") == 7
    assert len(result.figure().to_dict()["vconcat"]) == 2, "the matrix and gain by distance"


def test_a_single_condition_has_no_second_best():
    frame, *_ = table()
    alone = breadth.transfer(frame.filter(pl.col("train_level").is_null() | (pl.col("train_level") == "2")))
    assert alone.best["second"].is_null().all()
    assert alone.effects.is_empty()
    assert alone.verdict().advice == "", "there is nothing to choose from"


def test_levels_and_strategies_together():
    frame, *_ = table()
    other = table(by="strategy", names=["easy", "hard", "full", "centred", "spiral"])[0].drop_nulls("strategy")
    both = pl.concat([frame, other], how="diagonal")
    result = breadth.transfer(both)
    assert (result.by, result.strategies.by) == ("train_level", "strategy")
    assert result.tables()["strategy_cells"].columns[0] == "strategy"
    alone = breadth.transfer(both, by="strategy")
    assert alone.cells.equals(result.strategies.cells)
    assert alone.strategies is None
    assert alone.effects.is_empty()
    assert "vconcat" not in alone.figure().to_dict(), "strategies have no distance"
    assert set(alone.best["verdict"]) <= {"decided", "undecided"}
    assert breadth.transfer(both, by="train_level").cells.equals(breadth.transfer(frame).cells)
    with pytest.raises(InputError, match="choose train_level or strategy"):
        breadth.transfer(both, by="model")
    with pytest.raises(InputError, match="no model was trained by strategy, only by train_level"):
        breadth.transfer(frame, by="strategy")


def test_levels_may_come_from_a_calibration():
    frame, gains, _ = table()
    difficulty = pl.DataFrame(
        {"item": [f"i{i}" for i in range(300)], "difficulty": gains.level + np.linspace(0, 0.5, 300)}
    )
    calibration = breadth.Calibration(
        difficulty.with_columns(difficulty_se=pl.lit(0.1), discrimination=pl.lit(1.0), guessing=pl.lit(0.0)),
        pl.DataFrame(),
        pl.DataFrame(),
    )
    assert breadth.transfer(frame.drop("level"), calibration, levels=5).cells.equals(breadth.transfer(frame).cells)


def test_other_words_for_the_untrained_model_and_levels_as_floats():
    """A pandas frame with missing values turns levels into floats."""
    frame, *_ = table()
    expected = breadth.transfer(frame)
    named = frame.with_columns(pl.col("train_level").fill_null(" Zero-Shot"), subject=pl.lit("one name for all"))
    floats = frame.with_columns(pl.col("train_level").cast(pl.Float64).fill_null(float("nan")))
    for other in (named, floats):
        assert breadth.transfer(other).cells.equals(expected.cells)


def test_items_that_not_all_answered_are_left_out():
    frame, *_ = table()
    result = breadth.transfer(frame.filter(~((pl.col("item") == "i0") & (pl.col("train_level") == "2"))))
    assert result.warnings == ("left out, because some model did not answer them: 1 item",)
    assert result.cells.filter(test_level=0)["n_items"].unique().to_list() == [59]


def test_items_without_a_level_are_left_out():
    frame, *_ = table()
    known = pl.when(pl.col("item") != "i7").then("level").alias("level")
    result = breadth.transfer(frame.with_columns(known))
    assert result.warnings == ("left out, because they have no level: 1 item, for instance i7",)


def test_one_seed_is_warned_about_and_flagged():
    result = breadth.transfer(table(seeds=1)[0])
    assert "one seed only" in " ".join(result.warnings)
    assert result.cells["flag"].unique().to_list() == [TransferFlag.ONE_SEED]


def test_one_seed_claims_no_more_than_these_models():
    one, several = (breadth.transfer(table(seeds=seeds)[0]).verdict() for seeds in (1, 3))
    assert "one seed" in one.needed
    assert "one seed" not in str(several)


def test_a_level_with_one_seed_beside_others():
    frame, *_ = table(seeds=3)
    fewer = frame.filter((pl.col("train_level") != "2") | (pl.col("seed") == 0) | pl.col("train_level").is_null())
    result = breadth.transfer(fewer)
    flags = dict(result.cells.select("train_level", "flag").unique().rows())
    assert flags == {0: None, 1: None, 2: TransferFlag.ONE_SEED, 3: None, 4: None}
    assert "one seed each" not in str(result.verdict())


def test_clusters_count_as_dependent():
    frame, gains, _ = table(seeds=3)
    # Items of one level whose gains are alike: all of a passage are right after training, or none is.
    number = pl.col("item").str.slice(1).cast(pl.Int64)
    alike = frame.with_columns(passage=number // 10).with_columns(
        correct=pl.when(pl.col("train_level").is_not_null()).then((pl.col("passage") % 3 > 0).cast(pl.Float64))
        .otherwise("correct")
    )  # fmt: skip
    apart, together = breadth.transfer(alike), breadth.transfer(alike, cluster="passage")
    assert together.cells["gain"].equals(apart.cells["gain"])
    assert (together.cells["se"] > 1.5 * apart.cells["se"]).all()
    assert (together.best.drop_nulls("second")["lead"] == apart.best.drop_nulls("second")["lead"]).all()
    assert together.cluster == "passage"
    assert "Questions of one passage count as dependent" in together.details()
    assert any("--cluster passage" in line for line in apart.warnings)
    assert not any("--cluster" in line for line in together.warnings)
    with pytest.raises(InputError, match="no column 'pasage'"):
        breadth.transfer(alike, cluster="pasage")
    assert len(gains.trained) == 5


def test_a_level_of_one_cluster_is_flagged():
    frame, *_ = table()
    single = frame.with_columns(
        source=pl.when(pl.col("level") == 2).then(pl.lit("only")).otherwise(pl.concat_str("item"))
    )
    cells = breadth.transfer(single, cluster="source").cells
    assert cells.filter(test_level=2)["flag"].unique().to_list() == [TransferFlag.ONE_CLUSTER]
    assert cells.filter(test_level=2)["ci_low"].null_count() == 5
    assert cells.filter(pl.col("test_level") != 2)["flag"].null_count() == 20
    all_in_one = frame.with_columns(source=pl.concat_str(pl.lit("s"), pl.col("level").cast(pl.String)))
    result = breadth.transfer(all_in_one, cluster="source")
    assert "have one source" in result.verdict().reason


def test_a_boundary_is_named_only_where_a_step_fits_better():
    steady = breadth.transfer(table()[0]).breaks
    assert steady.columns == ["train_level", "breaks_at", "drop", "low", "high", "p", "q", "flag"]
    assert steady["breaks_at"].null_count() == 6
    assert steady["drop"].null_count() == 6
    assert steady["flag"].unique().to_list() == [BreakFlag.STEADY]
    frame, *_ = table(items=200)
    chance = pl.Series(np.random.default_rng(1).random(frame.height))
    level = pl.col("level")
    cliff = frame.with_columns(correct=(chance < pl.when(level < 3).then(0.8).otherwise(0.2)).cast(pl.Float64))
    result = breadth.transfer(cliff)
    assert result.breaks["breaks_at"].to_list() == [3] * 6
    assert (result.breaks["low"] == 3).all()
    assert "from level 3 on: before training (−58 points)" in result.details()
    assert "level 3 already before training, by 58 points" in result.verdict().findings
    upward = cliff.with_columns(correct=1 - pl.col("correct"))
    assert breadth.transfer(upward).breaks["flag"].unique().to_list() == [BreakFlag.RISE]
    few = breadth.transfer(cliff.filter((level < 3) & pl.col("train_level").fill_null("0").is_in(["0", "1", "2"])))
    assert few.breaks["flag"].unique().to_list() == [BreakFlag.FEW_LEVELS]
    assert few.breaks["breaks_at"].null_count() == 4
    assert "fewer than 4" in few.details()


def test_cells_without_variation_are_flagged():
    result = breadth.transfer(table()[0].with_columns(correct=1.0))
    assert result.cells["flag"].unique().to_list() == [TransferFlag.NO_VARIATION]
    assert result.cells.select("ci_low", "ci_high", "p", "q").null_count().row(0) == (25,) * 4
    assert result.pairing is None
    assert "0 gained" in result.details()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("train_level").with_row_index("run"), "no column 'train_level'"),
        (lambda f: f.drop("level"), "items have no level"),
        (lambda f: f.with_columns(level=pl.lit("easy")), "'easy' is not a number"),
        (lambda f: f.drop_nulls("train_level"), r"step 0\) has not been evaluated; add its answers"),
        (lambda f: f.filter(pl.col("train_level").is_null()), "no model was trained by level or strategy"),
        (lambda f: pl.concat([f, f.head(1)]), "more than once"),
        (lambda f: f.filter((pl.col("level") != 2) | (pl.col("item") == "i121")), "level 2 has 1 item that"),
        (lambda f: f.filter(pl.col("level") != 2), "without gaps"),
    ],
)
def test_bad_tables(change, message):
    with pytest.raises(InputError, match=message):
        breadth.transfer(change(table()[0]))


def margins(seeds=3, items=80, sensitivity=0.0, lean=0.0, seed=0):
    """Answers with margins of the untrained model and of models trained on two levels, which differ from it by a gain
    of sensitivity and by a lean to one answer."""
    generator = np.random.default_rng(seed)
    level = np.repeat([0, 1], items)
    first = np.arange(2 * items) % 2 == 0
    persistent = generator.normal(size=2 * items)
    parts = []
    for condition in (None, 0, 1):
        for one in range(1 if condition is None else seeds):
            trained = condition is not None
            odds = np.where(first, 0.6, -0.6) * (1 + sensitivity * trained) + 0.8 * persistent + lean * trained
            odds = odds + 0.4 * generator.normal(size=2 * items)
            margin = np.where(first, odds, -odds)
            columns = {"item": range(2 * items), "level": level, "label": np.where(first, "no", "yes")}
            frame = pl.DataFrame(columns | {"margin": margin, "correct": margin > 0})
            parts.append(frame.with_columns(train_level=pl.lit(condition, dtype=pl.Int64), seed=pl.lit(one)))
    return pl.concat(parts)


def test_a_lean_is_no_gain_of_sensitivity():
    frame = margins(lean=-3.0)
    accuracy, area = breadth.transfer(frame), breadth.transfer(frame, score="auc")
    assert (accuracy.cells["ci_high"] < 0).all(), "all cells lose accuracy"
    assert (area.cells["ci_low"] < 0).all()
    assert (area.cells["ci_high"] > 0).all()
    assert "area under the ROC curve" in area.verdict().findings
    assert area.cells.columns[4] == "auc"
    assert len(area.figure().to_dict()["vconcat"]) == 2


@pytest.mark.parametrize("score", ["auc", "dprime", "balanced", "logscore"])
def test_gains_of_sensitivity_are_gains_of_every_score(score):
    result = breadth.transfer(margins(sensitivity=1.5), score=score)
    assert (result.cells["ci_low"] > 0).all()
    assert result.cells["gain"].to_numpy() == pytest.approx((result.cells[score] - result.cells["baseline"]).to_numpy())
    assert result.breaks.height == 3


def test_a_level_is_scored_by_its_own_items():
    from scipy.stats import mannwhitneyu

    frame = margins(seeds=1, sensitivity=0.5)
    cell = breadth.transfer(frame, score="auc").cells.filter(train_level=1, test_level=0).row(0, named=True)
    own = frame.filter(train_level=1, level=0).with_columns(
        odds=pl.when(pl.col("label") == "no").then(pl.col("margin")).otherwise(-pl.col("margin")).cast(pl.Float32)
    )
    no, yes = (own.filter(label=label)["odds"].to_numpy() for label in ("no", "yes"))
    assert cell["auc"] == pytest.approx(mannwhitneyu(no, yes).statistic / 1600)


def test_scores_that_cannot_be_computed_are_refused():
    frame = margins()
    with pytest.raises(InputError, match="score= is 'f1'; choose accuracy, auc"):
        breadth.transfer(frame, score="f1")
    with pytest.raises(
        InputError, match="auc is not defined for test set answers, level 0: its answers have no margin"
    ):
        breadth.transfer(frame.drop("margin"), score="auc")
    few = frame.filter((pl.col("label") == "no") | (pl.col("level") == 0) | (pl.col("item") == 81))
    with pytest.raises(InputError, match="needs 2 items of every label in every level, and answers, level 1 has 1"):
        breadth.transfer(few, score="auc")

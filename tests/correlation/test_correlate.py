import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation import CORRECTED_COLUMNS, PAIR_COLUMNS, Flag
from breadth.datasets import simulate_scores
from breadth.errors import InputError
from breadth.records.store import RunRecord, StudyStore
from breadth.results import Answer
from breadth.sources import open_study


@pytest.fixture(scope="module")
def scores():
    return simulate_scores(runs=4)


@pytest.fixture(scope="module")
def result(scores):
    return breadth.correlate(scores, control="in_domain", by="run", order="step", windows=2)


def test_known_structure_is_found(result):
    """Within a half of the test sets r is 0.6; between halves its sign alternates from run to run."""
    half = {"negation": 0, "word_order": 0, "numbers": 0, "formal_style": 1, "science": 1, "coreference": 1}
    same = pl.col("a").replace_strict(half) == pl.col("b").replace_strict(half)
    within, between = result.pairs.filter(same), result.pairs.filter(~same)
    assert within["r"].median() == pytest.approx(0.6, abs=0.12)
    even = between.filter(pl.col("run").is_in(["run-00", "run-02"]))
    odd = between.filter(pl.col("run").is_in(["run-01", "run-03"]))
    assert even["r"].median() == pytest.approx(0.4, abs=0.15)
    assert odd["r"].median() == pytest.approx(-0.4, abs=0.15)
    assert result.heterogeneity.filter(same)["i2"].median() < 0.5 < result.heterogeneity.filter(~same)["i2"].median()
    close = result.similarity.filter((pl.col("run_1") == "run-00") & (pl.col("run_2") == "run-02"))
    far = result.similarity.filter((pl.col("run_1") == "run-00") & (pl.col("run_2") == "run-01"))
    assert close["difference"].item() < far["difference"].item() - 0.2


def test_windows_are_the_parts_of_a_run_on_their_own(scores, result):
    part = scores.filter((pl.col("run") == "run-01") & (pl.col("step") < 16 * 21))
    alone = breadth.correlate(part, control="in_domain", order="step").pairs
    window = result.windows.filter(run="run-01", window=1)
    assert window["n"].unique().to_list() == [21]
    assert window["to"].unique().to_list() == [320]
    assert np.allclose(window["r"], alone["r"])


def test_without_groups_there_is_one(scores):
    correlation = breadth.correlate(scores.filter(pl.col("run") == "run-00"), control="in_domain", order="step")
    assert correlation.pairs.columns == list(PAIR_COLUMNS)
    assert correlation.heterogeneity.is_empty()
    assert correlation.similarity.is_empty()
    assert correlation.windows.is_empty()


def test_several_columns_may_name_a_group(scores):
    frame = scores.with_columns(model=pl.col("run").str.slice(0, 5), seed=pl.col("run").str.slice(5))
    correlation = breadth.correlate(frame, control="in_domain", by=["model", "seed"], order="step")
    assert correlation.pairs.columns[:2] == ["model", "seed"]
    assert correlation.similarity.columns[:4] == ["model_1", "seed_1", "model_2", "seed_2"]


def test_auto_intervals(scores):
    ordered = breadth.correlate(scores, control="in_domain", by="run", order="step")
    assert (ordered.pairs["n_eff"] <= ordered.pairs["n"]).all()
    assert (ordered.pairs["n_eff"] < ordered.pairs["n"]).any()
    plain = breadth.correlate(scores.drop("step"), control="in_domain", by="run")
    # Without an order only heavy tails cost rows, and these are normal.
    assert (plain.pairs["n_eff"] <= plain.pairs["n"]).all()
    assert (plain.pairs["n_eff"] == plain.pairs["n"]).any()
    assert plain.pairs["n_eff"].median() > 35


def test_order_of_rows_does_not_matter(scores, result):
    shuffled = breadth.correlate(
        scores.sample(fraction=1, shuffle=True, seed=1), control="in_domain", by="run", order="step"
    )
    assert shuffled.pairs.equals(result.pairs)


def test_answers_are_corrected_by_split_halves():
    generator = np.random.default_rng(0)
    steps, items = 30, 300
    skill = np.linspace(-0.5, 1.5, steps)
    wobble = 0.5 * generator.standard_normal((steps, 1)) + 0.2 * generator.standard_normal((steps, 2))
    ability = np.column_stack([skill, 0.5 * skill[:, None] + wobble])
    frames = []
    for j, testset in enumerate(["in", "x", "y"]):
        logits = ability[:, j][:, None] - generator.standard_normal(items)
        correct = generator.random((steps, items)) < 1 / (1 + np.exp(-logits))
        step, item = np.indices(correct.shape)
        frames.append(
            pl.DataFrame({"step": step.ravel(), "item": item.ravel(), "correct": correct.ravel()}).with_columns(
                pl.lit(testset).alias("testset"), pl.format("{}-{}", pl.lit(testset), "item").alias("item")
            )
        )
    correlation = breadth.correlate(pl.concat(frames), control="in", order="step").pairs
    assert correlation["r_corrected"].item() > correlation["r"].item()
    assert 0.3 < correlation["reliability_a"].item() < 1


def test_groups_of_one_row_are_explained(scores):
    correlation = breadth.correlate(scores, control="in_domain", by=["run", "step"])
    assert "single row" in " ".join(correlation.warnings)
    assert correlation.pairs["r"].is_null().all()
    assert correlation.verdict().answer is Answer.UNKNOWN
    assert not correlation.verdict().computed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": "none"}, "no column is known to be in-domain"),
        ({"control": "in_domain", "order": "none", "ci": "block"}, "needs order="),
        ({"control": "in_domain", "ci": "magic"}, "choose auto"),
        ({"control": "in_domain", "adjust": "spline"}, "choose gam"),
        ({"control": "in_domain", "method": "kendall"}, "choose pearson, spearman"),
        ({"control": "in_domain", "order": "none", "windows": 2}, "windows= needs order="),
        ({"control": "in_domain", "by": "run", "order": "step", "windows": 1}, "at least 2 parts"),
        ({"control": "in_domain", "order": "step", "by": "run", "ci": "block", "resamples": 5}, "at least 100"),
        ({"control": "in_domain", "item_counts": {"sience": 5}}, "Did you mean science"),
        ({"control": "in_domain", "item_counts": {"science": 0}}, "at least 1 item"),
        ({"control": "in_domain", "item_counts": {"science": 9}, "method": "spearman"}, "not ranks"),
        ({"control": "in_domain", "testsets": ["step", "science"], "item_counts": {"step": 9}}, "not an accuracy"),
    ],
)
def test_bad_options(scores, options, message):
    with pytest.raises(InputError, match=message):
        breadth.correlate(scores, **options)


def test_pandas_and_paths_give_the_same(scores, result, tmp_path):
    path = tmp_path / "scores.parquet"
    scores.write_parquet(path)
    from_path = breadth.correlate(path, control="in_domain", by="run", order="step").pairs
    pandas = __import__("pandas").DataFrame(scores.to_dict(as_series=False))
    from_pandas = breadth.correlate(pandas, control="in_domain", by="run", order="step").pairs
    assert from_path.equals(result.pairs)
    assert from_pandas.equals(result.pairs)


def test_spearman_correlates_ranks(scores):
    curved = scores.with_columns(pl.col("science").exp().pow(9))
    options = {"control": "in_domain", "testsets": "science,numbers", "by": "run", "order": "step", "adjust": "none"}
    plain, ranked = (breadth.correlate(scores, method="spearman", **options) for scores in (scores, curved))
    assert ranked.pairs.drop("q").equals(plain.pairs.drop("q")), "ranks do not change with the scale"
    assert not breadth.correlate(curved, **options).pairs["r"].equals(ranked.pairs["r"])


def test_progress_counts_groups(scores):
    calls = []
    breadth.correlate(
        scores, control="in_domain", by="run", order="step", progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1] == (4, 4)


SETS = ("home", "away", "abroad", "far")
ZERO = {
    "model": "m",
    "method": "zero-shot",
    "train_set": None,
    "seed": None,
    "examples": None,
    "steps": 1,
    "name": "m-zero",
}


@pytest.fixture(scope="module")
def plain(write_study, tmp_path_factory):
    runs = [{"model": "m", "seed": seed} for seed in (0, 1)]
    few = {"model": "m", "method": "few-shot", "steps": 1, "name": "m-few"}
    return write_study(tmp_path_factory.mktemp("plain"), [*runs, few, ZERO], SETS)


@pytest.fixture(scope="module")
def two(write_study, tmp_path_factory):
    runs = [{"model": "m", "seed": seed, "train_set": name} for seed in (0, 1) for name in ("home", "away")]
    return write_study(tmp_path_factory.mktemp("two"), runs, SETS)


class TestDirection:
    @pytest.fixture
    def losses(self, scores):
        """The same scores, two of them and the control as something that falls."""
        return scores.with_columns(
            (5 - 3 * pl.col("science")).alias("science_loss"), (1 - pl.col("numbers")).alias("error_rate"),
            (-pl.col("in_domain")).exp().alias("valLoss"),
        ).drop("science", "numbers", "in_domain")  # fmt: skip

    def test_names_of_losses_are_recognised_and_said(self, scores, losses):
        up = breadth.correlate(scores, control="in_domain", by="run", order="step", adjust="linear")
        down = breadth.correlate(losses, control="valLoss", by="run", order="step")
        assert set(down.trajectories.turned) == {"valLoss", "science_loss", "error_rate"}
        (line,) = down.warnings
        assert "lower is better on science_loss, error_rate, valLoss, judging by the name" in line
        assert "Lower is better on science_loss, error_rate and valLoss" in down.details()
        pair = pl.col("r").filter((pl.col("a") == "formal_style") & pl.col("b").str.starts_with("science")).mean()
        assert up.pairs.select(pair).item() > 0.4
        assert down.pairs.select(pair).item() > 0.4

    def test_named_columns_are_turned_and_none_turns_nothing(self, scores, losses):
        options = {"control": "valLoss", "by": "run", "order": "step"}
        plain = breadth.correlate(losses, **options, lower_is_better="none")
        assert plain.trajectories.turned == ()
        assert plain.warnings == ()
        assert "Lower is better" not in plain.details()
        turned = breadth.correlate(losses, **options, lower_is_better=["science*", "negation"])
        assert turned.trajectories.turned == ("science_loss", "negation")
        sign = pl.when((pl.col("a") == "negation") != pl.col("b").str.starts_with("science")).then(-1).otherwise(1)
        once = pl.col("a").is_in(["negation", "science_loss"]) | pl.col("b").is_in(["negation", "science_loss"])
        both = plain.pairs.with_columns(sign=pl.when(once).then(sign).otherwise(1))
        assert np.allclose(turned.pairs["r"].abs(), both["r"].abs())
        one = plain.pairs.filter((pl.col("a") == "word_order") & (pl.col("b") == "science_loss"))["r"]
        other = turned.pairs.filter((pl.col("a") == "word_order") & (pl.col("b") == "science_loss"))["r"]
        assert np.allclose(one, -other)

    def test_other_names_are_left_alone(self, scores):
        frame = scores.rename({"science": "error_detection", "numbers": "lossless", "negation": "glossary"})
        assert breadth.correlate(frame, control="in_domain", by="run", order="step").trajectories.turned == ()

    def test_a_column_that_is_not_there(self, scores):
        with pytest.raises(InputError, match=r"no column 'scienc' .lower is better.. Did you mean science"):
            breadth.correlate(scores, control="in_domain", by="run", order="step", lower_is_better="scienc")

    def test_item_counts_hold_for_error_rates(self, scores):
        scores = scores.with_columns(cs=pl.col("numbers"), error_rate=1 - pl.col("numbers")).drop("numbers")
        counts = dict.fromkeys(["in_domain", "cs", "error_rate", "science"], 20_000)
        options = {"control": "in_domain", "by": "run", "order": "step", "item_counts": counts}
        pairs = breadth.correlate(scores, **options).pairs
        accuracy, error = (pairs.filter(pl.col("b") == "science", pl.col("a") == name) for name in ("cs", "error_rate"))
        accuracy = accuracy if accuracy.height else pairs.filter(pl.col("a") == "science", pl.col("b") == "cs")
        error = error if error.height else pairs.filter(pl.col("a") == "science", pl.col("b") == "error_rate")
        assert np.allclose(accuracy["r_corrected"].fill_null(9), error["r_corrected"].fill_null(9))

    def test_a_study_has_no_losses(self, write_study, tmp_path):
        with pytest.raises(InputError, match="higher is better on every test set"):
            breadth.correlate(write_study(tmp_path, [{"model": "m"}]), lower_is_better="home")


@pytest.mark.parametrize("name", ["_step", "global_step", "train/global_step", "epoch"])
def test_usual_names_of_the_order_are_no_test_sets(scores, name):
    frame = scores.filter(run="run-00").drop("run").rename({"step": name})
    frame = frame.with_columns(_runtime=pl.col(name) * 3, _timestamp=pl.col(name) + 1_700_000_000)
    correlation = breadth.correlate(frame, control="in_domain")
    assert len(correlation.trajectories.testsets) == 6
    assert correlation.trajectories.order == name
    assert correlation.pairs.equals(breadth.correlate(frame, control="in_domain", order=name).pairs)


@pytest.mark.parametrize(("adjust", "rows", "warned"), [("linear", 5, True), ("linear", 10, False), ("gam", 14, True)])
def test_few_rows_are_warned_about(scores, adjust, rows, warned):
    few = scores.group_by("run", maintain_order=True).head(rows)
    correlation = breadth.correlate(few, control="in_domain", by="run", order="step", adjust=adjust)
    assert any("4 of 4 groups have fewer than" in line for line in correlation.warnings) == warned
    alone = breadth.correlate(few.filter(run="run-00"), control="in_domain", order="step", adjust=adjust)
    assert any("there are fewer than" in line for line in alone.warnings) == warned


class TestRobust:
    def test_pairs_have_both_and_the_summary_says_where_they_disagree(self, scores):
        spiked = scores.with_columns(
            pl.when((pl.col("step") == 320) & (pl.col("run") == "run-00")).then(9.0).otherwise(pl.col(name)).alias(name)
            for name in ("negation", "science")
        )
        options = {"control": "in_domain", "by": "run", "order": "step", "adjust": "linear"}
        plain = breadth.correlate(spiked, **options)
        robust = breadth.correlate(spiked, **options, robust=True)
        assert robust.pairs.columns == ["run", *PAIR_COLUMNS, "r_plain", "ci_low_plain", "ci_high_plain", "tail_df"]
        assert robust.pairs["r_plain"].equals(plain.pairs["r"])
        assert robust.pairs["ci_low_plain"].equals(plain.pairs["ci_low"])
        truth = breadth.correlate(scores, **options).pairs
        where = (pl.col("run") == "run-00") & (pl.col("a") == "negation") & (pl.col("b") == "science")
        r, r_plain = robust.pairs.filter(where).select("r", "r_plain").row(0)
        assert r_plain > 0.9
        assert r == pytest.approx(truth.filter(where)["r"].item(), abs=0.2)
        text = robust.details()
        assert "the plain ones disagree on" in text
        assert "most of all on " in text
        assert "a few rows decide the plain correlation" in text
        assert "utliers" not in plain.details()

    def test_agreement_is_said_too(self, scores):
        few = scores.filter(run="run-02").select("step", "in_domain", "formal_style", "science", "coreference")
        text = breadth.correlate(few, control="in_domain", order="step", robust=True).details()
        assert "the plain ones say the same" in text

    @pytest.mark.parametrize(("option", "message"), [({"method": "spearman"}, "choose one"), ({"ci": "block"}, "omit")])
    def test_what_it_does_not_go_with(self, scores, option, message):
        with pytest.raises(InputError, match=message):
            breadth.correlate(scores, control="in_domain", by="run", order="step", robust=True, **option)


class TestStudy:
    def test_the_train_set_is_the_control(self, plain):
        correlation = breadth.correlate(plain)
        known = ["model", "train_set", "examples", "seed"]
        assert correlation.pairs.columns == ["run", *PAIR_COLUMNS, *CORRECTED_COLUMNS, *known]
        assert correlation.trajectories.controls == ("home",)
        assert correlation.trajectories.order == "step"
        assert correlation.trajectories.testsets == ("away", "abroad", "far")
        assert correlation.pairs["n"].unique().to_list() == [12]
        study = open_study(plain)
        answers = study.responses.join(study.subjects.lazy(), on="subject").collect()
        by_hand = breadth.correlate(
            answers.filter(pl.col("run").str.starts_with("m-home")).select("run", "step", "testset", "item", "correct"),
            control="home",
            testsets=["away", "abroad", "far"],
            by="run",
            order="step",
        )
        assert correlation.pairs.drop(known).equals(by_hand.pairs)
        assert correlation.pairs["r_corrected"].is_not_null().any()

    def test_a_study_and_its_directory_are_the_same(self, plain):
        assert breadth.correlate(open_study(plain)).pairs.equals(breadth.correlate(plain).pairs)

    def test_a_study_from_elsewhere_needs_a_control(self, scores):
        answers = pl.DataFrame({"run": ["a"] * 4, "testset": ["x", "x", "y", "y"], "item": list("1212"), "correct": 1})
        with pytest.raises(InputError, match="no column is known to be in-domain"):
            breadth.correlate(open_study(answers))

    def test_seeds_split_items_into_other_halves(self, plain):
        study = open_study(plain)
        first, again, other = (breadth.correlate(study, seed=seed).pairs for seed in (0, 0, 1))
        assert first.equals(again)
        assert first["r"].equals(other["r"])
        assert not first["reliability_a"].equals(other["reliability_a"])
        assert not first["r_corrected"].equals(other["r_corrected"])

    def test_runs_without_a_course_are_left_out_with_a_warning(self, plain, write_study, tmp_path):
        correlation = breadth.correlate(plain)
        assert "2 runs without training or with a single checkpoint left out: m-few, m-zero" in correlation.warnings
        assert correlation.pairs["run"].n_unique() == 2
        with pytest.raises(InputError, match="no run was evaluated at two or more checkpoints"):
            breadth.correlate(write_study(tmp_path, [ZERO]))

    def test_options_of_a_table_hold_for_a_study(self, plain):
        correlation = breadth.correlate(plain, control="far", testsets="a*,home", windows=2, adjust="linear")
        assert correlation.trajectories.controls == ("far",)
        assert set(correlation.trajectories.testsets) == {"away", "abroad", "home"}
        assert correlation.windows.height == 2 * correlation.pairs.height
        assert breadth.correlate(plain, adjust="none").trajectories.controls == ()
        with pytest.raises(InputError, match="Did you mean step"):
            breadth.correlate(plain, order="stepp")
        with pytest.raises(InputError, match='Add by="run"'):
            breadth.correlate(plain, by="model")
        with pytest.raises(InputError, match="Did you mean abroad"):
            breadth.correlate(plain, testsets="abroat,far")

    def test_several_train_sets_have_their_own_controls(self, two):
        correlation = breadth.correlate(two, windows=2)
        assert correlation.pairs.columns[:4] == ["train_set", "run", "a", "b"]
        assert correlation.by == ("train_set", "run")
        alone = breadth.correlate(two, testsets="abroad,far,away").pairs
        assert alone.filter(train_set="away").height == 2, "the control is not a test set of its own part"
        for name, other in (("home", "away"), ("away", "home")):
            rows = correlation.pairs.filter(train_set=name)
            assert name not in {*rows["a"], *rows["b"]}
            assert other in {*rows["a"], *rows["b"]}
            assert rows["run"].str.contains(name).all()
        frames = (correlation.heterogeneity, correlation.similarity, correlation.windows)
        assert {frame.columns[0] for frame in frames} == {"train_set"}
        assert correlation.residuals.columns[:3] == ["train_set", "run", "step"]
        assert correlation.heterogeneity.height == 6
        assert "Trained on away: " in correlation.details()
        assert set(correlation.shown()[0].frame["train_set"]) == set(correlation.parts)
        order = {name: place for place, name in enumerate(correlation.trajectories.testsets)}
        assert all(order[a] < order[b] for a, b in correlation.pairs.select("a", "b").iter_rows())

    def test_q_is_over_all_train_sets(self, two):
        from breadth.inference import benjamini_hochberg

        correlation = breadth.correlate(two)
        q = benjamini_hochberg(correlation.pairs["p"].to_numpy())
        assert correlation.pairs["q"].to_numpy() == pytest.approx(q, nan_ok=True)
        assert pl.concat([part.pairs["q"] for part in correlation.parts.values()]).equals(correlation.pairs["q"])

    def test_too_few_checkpoints_are_noted(self, write_study, tmp_path):
        runs = [{"model": "m", "seed": 0, "steps": 6}, {"model": "m", "seed": 1}]
        correlation = breadth.correlate(write_study(tmp_path, runs))
        line, other = correlation.warnings
        assert other.startswith("1 of 2 groups have fewer than 15 rows")
        assert line.startswith("1 of 2 runs have too few checkpoints: at most 6, and --adjust gam needs 8")
        assert "--adjust linear needs 5" in line
        assert correlation.pairs.filter(run="m-home-8-0")["flag"].to_list() == [Flag.TOO_FEW_ROWS]
        assert correlation.pairs.filter(run="m-home-8-0")["note"].to_list() == ["6 complete rows; 8 are needed"]
        assert correlation.pairs.filter(run="m-home-8-1")["r"].is_not_null().all()

    def test_a_constant_set_is_noted(self, write_study, tmp_path):
        folder = write_study(tmp_path, [{"model": "m"}], SETS)
        run = StudyStore(folder).run("m-home-8-0")
        for step in run.parts():
            path = run.part_path(step)
            part = pl.read_parquet(path)
            path.unlink()
            constant = pl.when(testset="far").then(1.0).otherwise("correct").alias("correct")
            run.write_part(step, part.with_columns(constant))
        notes = breadth.correlate(folder).pairs.filter(b="far")["note"]
        assert notes.to_list() == ["far is constant"] * 2

    def test_unfinished_and_damaged_runs_are_reported_and_left_alone(self, write_study, tmp_path):
        folder = write_study(tmp_path, [{"model": "m", "checkpoints": (0, 640)}, {"model": "m", "seed": 1}])
        path = StudyStore(folder).run("m-home-8-1").part_path(16)
        path.write_bytes(path.read_bytes()[:-1])
        before = sorted(folder.rglob("*"))
        warnings = " ".join(breadth.correlate(folder).warnings)
        assert "1 run is not finished: m-home-8-0 at step 176 of 640; `breadth run` resumes it" in warnings
        assert "its checksum is wrong" in warnings
        assert sorted(folder.rglob("*")) == before

    def test_a_train_set_that_was_not_evaluated(self, write_study, tmp_path):
        folder = write_study(tmp_path, [{"model": "m", "train_set": "elsewhere"}])
        message = r"elsewhere was trained on but not evaluated.*control= \(abroad, away, home"
        with pytest.raises(InputError, match=message):
            breadth.correlate(folder)
        assert breadth.correlate(folder, control="home").pairs.height == 1

    def test_a_set_marked_in_domain_stands_for_one_that_was_not_evaluated(self, write_study, tmp_path):
        folder = write_study(tmp_path, [{"model": "m", "train_set": "elsewhere"}])
        store = StudyStore(folder)
        for name, (key,) in store.item_files().items():
            items = store.read_items(name).with_columns(shift=pl.lit("in-domain" if name == "home" else "domain"))
            (folder / key).unlink()
            store.write_items(name, items)
        assert breadth.correlate(folder).trajectories.controls == ("home",)

    def test_train_sets_without_a_control_are_left_out_with_a_warning(self, write_study, tmp_path):
        runs = [{"model": "m"}, {"model": "m", "train_set": "elsewhere"}]
        correlation = breadth.correlate(write_study(tmp_path, runs))
        assert correlation.pairs["run"].unique().to_list() == ["m-home-8-0"]
        (line,) = (line for line in correlation.warnings if "fewer than" not in line)
        assert line.startswith("runs trained on elsewhere are left out: elsewhere was trained on but not evaluated")

    def test_test_sets_that_no_run_answered_are_not_correlated(self, write_study, tmp_path):
        folder = write_study(tmp_path, [{"model": "m"}], SETS)
        extra = StudyStore(folder).run("zero")
        extra.write_record(RunRecord(model="m", method="zero-shot", checkpoints=(0,)))
        answers = pl.DataFrame({"testset": "other", "item": ["1", "2"], "correct": [1, 0]})
        extra.write_part(0, answers.with_columns(margin=pl.lit(0.0), answer=pl.lit("Yes")))
        assert "other" not in breadth.correlate(folder).trajectories.testsets


class TestRealData:
    def test_residuals_agree_with_pygam(self, trajectory_data):
        """On every Pythia series, what our smooth leaves correlates above 0.99 with what pyGAM's leaves."""
        pygam = pytest.importorskip("pygam")
        frame = pl.read_csv(trajectory_data / "pythia_zero_shot.csv")
        correlation = breadth.correlate(frame, control="lambada_openai", by="model", order="step").residuals
        models = ["pythia-70m", "pythia-410m-deduped", "pythia-2.8b", "pythia-12b"]
        for model in models:
            z = frame.filter(model=model).sort("step")["lambada_openai"].to_numpy()[:, None]
            for (testset,), part in correlation.filter(model=model).group_by("testset", maintain_order=True):
                y = part["score"].to_numpy()
                smooth = pygam.LinearGAM(pygam.s(0)).gridsearch(z, y, progress=False)
                r = np.corrcoef(part["residual"], y - smooth.predict(z))[0, 1]
                assert r > 0.99, (model, testset)

    def test_berts_of_a_feather(self, trajectory_data):
        correlation = breadth.correlate(
            trajectory_data / "berts_of_a_feather.csv",
            control="MNLI dev acc.",
            testsets="ln_*,le_*,sn_*,se_*,cn_*,ce_*",
        )
        assert correlation.pairs.height == 435
        assert set(correlation.pairs["flag"].drop_nulls()) <= {
            Flag.CONSTANT_A, Flag.CONSTANT_B, Flag.FEW_EFFECTIVE_ROWS, Flag.NO_ITEM_COUNT, Flag.LOW_RELIABILITY,
        }  # fmt: skip
        lexical = correlation.pairs.filter(a="ln_subject/object_swap", b="ln_preposition")
        assert lexical["r"].item() > 0.8
        assert "could not be computed" in correlation.details()

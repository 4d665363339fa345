import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_scores
from breadth.errors import InputError
from breadth.verbs.frames import CORRECTED_COLUMNS, PAIR_COLUMNS


@pytest.fixture(scope="module")
def scores():
    return simulate_scores(runs=4)


@pytest.fixture(scope="module")
def result(scores):
    return breadth.correlate(scores, control="in_domain", by="run", order="step", windows=2)


def test_columns_are_fixed(result):
    assert result.pairs.columns == ["run", *PAIR_COLUMNS]
    assert result.heterogeneity.columns[:11] == [
        "a", "b", "k", "r_mean", "ci_low", "ci_high", "tau2", "i2", "predict_low", "predict_high", "sign_agreement",
    ]  # fmt: skip
    assert result.similarity.columns == ["run_1", "run_2", "facets", "similarity", "difference", "p", "note"]
    assert result.windows.columns == ["run", "window", "from", "to", *PAIR_COLUMNS]
    assert result.residuals.columns == ["run", "step", "testset", "score", "residual"]
    assert result.pairs.height == 4 * 15
    assert result.windows.height == 2 * 4 * 15
    assert result.residuals.height == 4 * 41 * 6


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


def test_residuals_are_what_is_correlated(result):
    one = result.residuals.filter(pl.col("run") == "run-02").pivot(on="testset", index="step", values="residual")
    r = np.corrcoef(one["negation"], one["science"])[0, 1]
    row = result.pairs.filter(run="run-02", a="negation", b="science")
    assert row["r"].item() == pytest.approx(r, abs=1e-9)


def test_windows_are_the_parts_of_a_run_on_their_own(scores, result):
    part = scores.filter((pl.col("run") == "run-01") & (pl.col("step") < 16 * 21))
    alone = breadth.correlate(part, control="in_domain", order="step").pairs
    window = result.windows.filter(run="run-01", window=1)
    assert window["n"].unique().to_list() == [21]
    assert window["to"].unique().to_list() == [320]
    assert np.allclose(window["r"], alone["r"])


def test_without_groups_there_is_one(scores):
    found = breadth.correlate(scores.filter(pl.col("run") == "run-00"), control="in_domain", order="step")
    assert found.pairs.columns == list(PAIR_COLUMNS)
    assert found.heterogeneity.is_empty()
    assert found.similarity.is_empty()
    assert found.windows.is_empty()


def test_several_columns_may_name_a_group(scores):
    frame = scores.with_columns(model=pl.col("run").str.slice(0, 5), seed=pl.col("run").str.slice(5))
    found = breadth.correlate(frame, control="in_domain", by=["model", "seed"], order="step")
    assert found.pairs.columns[:2] == ["model", "seed"]
    assert found.similarity.columns[:4] == ["model_1", "seed_1", "model_2", "seed_2"]


def test_auto_inference(scores):
    ordered = breadth.correlate(scores, control="in_domain", by="run", order="step")
    assert (ordered.pairs["n_eff"] <= ordered.pairs["n"]).all()
    assert (ordered.pairs["n_eff"] < ordered.pairs["n"]).any()
    plain = breadth.correlate(scores.drop("step"), control="in_domain", by="run")
    assert (plain.pairs["n_eff"] == plain.pairs["n"]).all()


def test_order_of_rows_does_not_matter(scores, result):
    shuffled = breadth.correlate(scores.sample(fraction=1, shuffle=True, seed=1), "in_domain", by="run", order="step")
    assert shuffled.pairs.equals(result.pairs)


def test_item_counts_add_the_correction(scores):
    counts = dict.fromkeys(["in_domain", "negation", "science"], 20_000)
    found = breadth.correlate(scores, control="in_domain", by="run", order="step", item_counts=counts).pairs
    assert found.columns == ["run", *PAIR_COLUMNS, *CORRECTED_COLUMNS]
    known = found.filter(pl.col("a").is_in(list(counts)) & pl.col("b").is_in(list(counts)))
    assert known["r_corrected"].is_not_null().all()
    assert (known["r_corrected"].abs() >= known["r"].abs() - 0.02).all()
    other = found.filter(a="negation", b="numbers")
    assert other["r_corrected"].is_null().all()
    assert other["note"].unique().to_list() == ["not corrected: no item count for numbers"]


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
    found = breadth.correlate(pl.concat(frames), control="in", order="step").pairs
    assert found["r_corrected"].item() > found["r"].item()
    assert 0.3 < found["reliability_a"].item() < 1


def test_q_is_over_all_pairs_of_the_call(result):
    from scipy.stats import false_discovery_control

    assert np.allclose(result.pairs["q"], false_discovery_control(result.pairs["p"].to_numpy()))


def test_notes_are_words(scores):
    frame = scores.with_columns(
        flat=pl.lit(0.5), copy=pl.col("in_domain") * 2, missing=pl.lit(None, dtype=pl.Float64)
    ).filter(pl.col("run") == "run-00")
    found = breadth.correlate(
        frame, control="in_domain", order="step", facets=["negation", "flat", "copy", "missing"], regressor="linear"
    ).pairs
    notes = dict(zip(zip(found["a"], found["b"], strict=True), found["note"], strict=True))
    assert notes["negation", "flat"] == "flat is constant"
    assert notes["negation", "copy"] == "copy is fully explained by in_domain"
    assert notes["negation", "missing"] == "0 complete rows; the regressor needs 5"
    assert found.filter(b="missing")["n"].to_list() == [0, 0, 0]
    assert found.select(pl.col(pl.Float64).is_nan().sum()).sum_horizontal().item() == 0


def test_groups_of_one_row_are_explained(scores):
    found = breadth.correlate(scores, control="in_domain", by=["run", "step"])
    assert "single row" in " ".join(found.warnings)
    assert found.pairs["r"].is_null().all()
    assert found.summary().startswith("No partial correlation could be computed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name the in-domain column"),
        ({"control": "in_domain", "inference": "block"}, "needs --order"),
        ({"control": "in_domain", "inference": "magic"}, "choose auto"),
        ({"control": "in_domain", "regressor": "spline"}, "choose gam"),
        ({"control": "in_domain", "windows": 2}, "--windows needs --order"),
        ({"control": "in_domain", "by": "run", "order": "step", "windows": 1}, "at least 2 parts"),
        ({"control": "in_domain", "order": "step", "by": "run", "inference": "block", "resamples": 5}, "at least 100"),
        ({"control": "in_domain", "item_counts": {"sience": 5}}, "Did you mean science"),
        ({"control": "in_domain", "item_counts": {"science": 0}}, "at least 1 item"),
        ({"control": "in_domain", "item_counts": {"science": 9}, "rank": True}, "not ranks"),
        ({"control": "in_domain", "facets": ["step", "science"], "item_counts": {"step": 9}}, "no accuracy"),
    ],
)
def test_bad_options(scores, options, message):
    with pytest.raises(InputError, match=message):
        breadth.correlate(scores, **options)


def test_many_groups_leave_out_similarity():
    found = breadth.correlate(simulate_scores(runs=300, steps=12), control="in_domain", by="run", order="step")
    assert found.similarity.is_empty()
    assert "left out above 256" in " ".join(found.warnings)


def test_pandas_and_paths_give_the_same(scores, result, tmp_path):
    path = tmp_path / "scores.parquet"
    scores.write_parquet(path)
    from_path = breadth.correlate(path, control="in_domain", by="run", order="step").pairs
    pandas = __import__("pandas").DataFrame(scores.to_dict(as_series=False))
    from_pandas = breadth.correlate(pandas, control="in_domain", by="run", order="step").pairs
    assert from_path.equals(result.pairs)
    assert from_pandas.equals(result.pairs)


class TestRealData:
    def test_residuals_agree_with_pygam(self, trajectory_data):
        """On every Pythia series, what our smooth leaves correlates above 0.99 with what pyGAM's leaves."""
        pygam = pytest.importorskip("pygam")
        frame = pl.read_csv(trajectory_data / "pythia_zero_shot.csv")
        found = breadth.correlate(frame, control="lambada_openai", by="model", order="step").residuals
        models = ["pythia-70m", "pythia-410m-deduped", "pythia-2.8b", "pythia-12b"]
        for model in models:
            z = frame.filter(model=model).sort("step")["lambada_openai"].to_numpy()[:, None]
            for (testset,), part in found.filter(model=model).group_by("testset", maintain_order=True):
                y = part["score"].to_numpy()
                smooth = pygam.LinearGAM(pygam.s(0)).gridsearch(z, y, progress=False)
                r = np.corrcoef(part["residual"], y - smooth.predict(z))[0, 1]
                assert r > 0.99, (model, testset)

    def test_berts_of_a_feather(self, trajectory_data):
        found = breadth.correlate(
            trajectory_data / "berts_of_a_feather.csv", control="MNLI dev acc.", facets="ln_*,le_*,sn_*,se_*,cn_*,ce_*"
        )
        assert found.pairs.height == 435
        assert found.pairs["note"].drop_nulls().str.contains("constant").all()
        lexical = found.pairs.filter(a="ln_subject/object_swap", b="ln_preposition")
        assert lexical["r"].item() > 0.8
        assert "could not be computed" in found.summary()

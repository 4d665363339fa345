import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation import CORRECTED_COLUMNS, PAIR_COLUMNS, Flag
from breadth.correlation.moderators import MEANS_SCHEMA, MODERATOR_SCHEMA
from breadth.correlation.unmeasured import UNMEASURED_SCHEMA
from breadth.datasets import simulate_scores
from breadth.errors import InputError


@pytest.fixture(scope="module")
def scores():
    return simulate_scores(runs=4)


@pytest.fixture(scope="module")
def result(scores):
    return breadth.correlate(scores, control="in_domain", by="run", order="step", windows=2)


def test_columns_are_fixed(result):
    assert result.pairs.columns == ["run", *PAIR_COLUMNS]
    assert result.heterogeneity.columns == [
        "a", "b", "k", "r_mean", "ci_low", "ci_high", "p", "q", "tau2", "i2", "predict_low", "predict_high",
        "sign_agreement", "p_differ", "q_differ", "runs", "reliability_a", "reliability_b", "reliability_control",
        "r_raw", "r_partial",
    ]  # fmt: skip
    columns = ["run_1", "run_2", "testsets", "similarity", "difference", "p", "q", "flag", "note"]
    assert result.similarity.columns == columns
    assert result.pooled.columns == ["a", "b", "k", "r", "ci_low", "ci_high", "p", "q"]
    assert result.windows.columns == ["run", "window", "from", "to", *PAIR_COLUMNS]
    assert result.residuals.columns == ["run", "step", "testset", "score", "residual"]
    assert result.pairs.height == 4 * 15
    assert result.windows.height == 2 * 4 * 15
    assert result.residuals.height == 4 * 41 * 6


def test_no_column_of_the_results_can_name_a_group(scores):
    """Three groups under such a name would print as one, because the result's own column would replace theirs."""
    counts = dict.fromkeys(("science", "negation"), 100)
    options = {"control": "in_domain", "by": "run", "order": "step"}
    results = [
        breadth.correlate(scores, **options, windows=2, item_counts=counts),
        breadth.correlate(scores, **options, robust=True),
    ]
    own = {"run", "run_1", "run_2", "step"}
    frames = [frame for one in results for frame in (*one.tables().values(), one.pooled)]
    # What correlations depend on has no columns of groups, so nothing can be replaced there.
    ungrouped = ({*MODERATOR_SCHEMA}, {*MEANS_SCHEMA}, {*UNMEASURED_SCHEMA})
    names = {name for frame in frames if {*frame.columns} not in ungrouped for name in frame.columns} - own
    assert len(names) > 30
    for name in sorted(names):
        with pytest.raises(InputError, match=f"column {name} .*has the name of a column of the results"):
            breadth.correlate(scores.rename({"run": name}), **options | {"by": name})
    with pytest.raises(InputError, match="step is given for both by= and order="):
        breadth.correlate(scores, **options | {"by": ["run", "step"]})


def test_the_result_can_be_held(result):
    names = ["pairs", "heterogeneity", "similarity", "windows", "changes", "residuals", "moderators", "moderator_means"]
    assert list(result.tables()) == [*names, "unmeasured"]
    assert result.table().equals(result.pairs)
    assert result.table("residuals").equals(result.residuals)
    answer = "\n".join(result.verdict().lines())
    assert result.summary() == f"{answer}\n\n{result.details()}"
    assert answer in str(result)
    assert result.details() not in str(result)
    assert "<table>" in result._repr_html_()
    assert result.to_markdown("heterogeneity").count("\n") == 16


def test_residuals_are_what_is_correlated(result):
    one = result.residuals.filter(pl.col("run") == "run-02").pivot(on="testset", index="step", values="residual")
    r = np.corrcoef(one["negation"], one["science"])[0, 1]
    row = result.pairs.filter(run="run-02", a="negation", b="science")
    assert row["r"].item() == pytest.approx(r, abs=1e-9)


def test_q_is_over_all_pairs_of_the_call(result):
    from scipy.stats import false_discovery_control

    assert np.allclose(result.pairs["q"], false_discovery_control(result.pairs["p"].to_numpy()))


def test_pairs_without_numbers_have_a_flag_and_a_note(scores):
    frame = scores.with_columns(
        flat=pl.lit(0.5), copy=pl.col("in_domain") * 2, missing=pl.lit(None, dtype=pl.Float64)
    ).filter(pl.col("run") == "run-00")
    pairs = breadth.correlate(
        frame, control="in_domain", order="step", testsets=["negation", "flat", "copy", "missing"], adjust="linear"
    ).pairs
    rows = {(row["a"], row["b"]): (row["flag"], row["note"]) for row in pairs.iter_rows(named=True)}
    assert rows["negation", "flat"] == (Flag.CONSTANT_B, "flat is constant")
    assert rows["flat", "copy"] == (Flag.CONSTANT_A, "flat is constant")
    assert rows["negation", "copy"] == (Flag.CONTROL_EXPLAINS_B, "copy is fully explained by in_domain")
    assert rows["negation", "missing"] == (Flag.TOO_FEW_ROWS, "0 complete rows; 5 are needed")
    assert pairs.filter(b="missing")["n"].to_list() == [0, 0, 0]
    assert pairs.select(pl.col(pl.Float64).is_nan().sum()).sum_horizontal().item() == 0


def test_pairs_with_numbers_have_none(result):
    assert result.pairs["flag"].null_count() == result.pairs["note"].null_count() == result.pairs.height


def test_item_counts_add_the_correction(scores):
    counts = dict.fromkeys(["in_domain", "negation", "science"], 20_000)
    pairs = breadth.correlate(scores, control="in_domain", by="run", order="step", item_counts=counts).pairs
    assert pairs.columns == ["run", *PAIR_COLUMNS, *CORRECTED_COLUMNS]
    known = pairs.filter(pl.col("a").is_in(list(counts)) & pl.col("b").is_in(list(counts)))
    assert known["r_corrected"].is_not_null().all()
    assert (known["r_corrected"].abs() >= known["r"].abs() - 0.02).all()
    other = pairs.filter(a="negation", b="numbers")
    assert other["r_corrected"].is_not_null().all(), "numbers counts as free of noise"
    assert other["flag"].unique().to_list() == [Flag.NO_ITEM_COUNT]
    assert other["note"].unique().to_list() == [
        "no item count for numbers: it counts as free of noise, so the correlation is too weak if anything"
    ]


@pytest.mark.parametrize(
    ("counts", "flag", "note"),
    [
        ({"in_domain": 1}, Flag.LOW_RELIABILITY, "not corrected: "),
    ],
)
def test_why_a_pair_is_not_corrected(scores, counts, flag, note):
    pairs = breadth.correlate(
        scores, control="in_domain", testsets="negation,science", by="run", order="step", item_counts=counts
    ).pairs
    assert pairs["flag"].unique().to_list() == [flag]
    assert pairs["note"].str.contains(note, literal=True).all()


def test_an_invalid_correction_is_flagged():
    """Two test sets that agree better than their noise allows: the corrected value would exceed 1."""
    generator = np.random.default_rng(0)
    shared = generator.normal(0.5, 0.05, 60)
    frame = pl.DataFrame(
        {"m": generator.uniform(0.2, 0.8, 60), "a": shared, "b": shared + generator.normal(0, 0.001, 60)}
    )
    counts = {"m": 10**6, "a": 200, "b": 200}
    pairs = breadth.correlate(frame, control="m", adjust="linear", item_counts=counts).pairs
    assert pairs["flag"].to_list() == [Flag.NO_VALID_CORRECTION]
    assert pairs["r_corrected"].to_list() == [1.0]
    assert 0.9 < pairs["ci_low_corrected"][0] <= pairs["ci_high_corrected"][0] == 1.0


def test_a_control_without_a_count_is_free_of_noise_and_that_is_said(scores):
    """A loss has no items: it used to void every corrected correlation."""
    frame = scores.with_columns(loss=1 - pl.col("in_domain")).drop("in_domain")
    counts = {"negation": 9000, "science": 9000}
    result = breadth.correlate(
        frame, control="loss", testsets="negation,science", by="run", order="step", item_counts=counts
    )
    assert result.pairs["r_corrected"].is_not_null().all()
    assert result.pairs["reliability_a"].is_between(0, 1).all()
    assert any(line.startswith("loss has no item count, so it counts as free of noise") for line in result.warnings)


def test_few_test_sets_are_too_few_to_compare_groups(scores):
    similarity = breadth.correlate(
        scores, control="in_domain", testsets="negation,science,numbers", by="run", order="step"
    ).similarity
    assert similarity["flag"].unique().to_list() == [Flag.TOO_FEW_TESTSETS]
    assert similarity["note"].unique().to_list() == ["3 test sets have correlations in both; 4 are needed"]


def test_many_groups_leave_out_similarity():
    result = breadth.correlate(simulate_scores(runs=300, steps=12), control="in_domain", by="run", order="step")
    assert result.similarity.is_empty()
    assert "omitted above 256" in " ".join(result.warnings)

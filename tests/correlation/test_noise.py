import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation.noise import answer_with_items, find_too_small, has_accuracies
from breadth.datasets import simulate_study
from breadth.results import Answer
from units import model_correlations, simulate_table

INFINITE = float("inf")


def scores(truth=0.0, runs=8, control=INFINITE, sets=INFINITE, seed=0):
    generator = np.random.default_rng(seed)
    return simulate_table(generator, model_correlations(generator, 1, truth, 0.0), runs, control, sets)


def correlated(table, **options):
    return breadth.correlate(table, control="in_domain", by="run", order="step", **options)


def counts(control, sets):
    return {"in_domain": control, **{f"set_{k}": sets for k in range(4)}}


def test_small_test_sets_are_named_with_how_many_items_would_do():
    result = correlated(scores(control=5000, sets=50), item_counts=counts(5000, 50))
    small = find_too_small(result)
    assert small.names == ("set_0", "set_1", "set_2", "set_3")
    assert small.share == 1
    verdict = result.verdict()
    assert verdict.answer is Answer.UNKNOWN
    assert "too few questions" in verdict.reason
    assert verdict.facts["questions in set_0"] == 50
    assert "set_0" in verdict.needed


def test_a_small_control_is_what_has_to_grow():
    result = correlated(scores(control=60, sets=20000), item_counts=counts(60, 20000))
    small = find_too_small(result)
    assert small.now == {"in_domain": 60}


def test_large_test_sets_are_not_too_small():
    small = find_too_small(correlated(scores(control=20000, sets=20000), item_counts=counts(20000, 20000)))
    assert (small.names, small.share, small.enough, small.now) == ((), 0.0, {}, {})


def test_as_many_items_as_are_said_to_be_enough_are_about_enough():
    """The recommendation is tried: with the items that are asked for, half of a residual is signal."""
    small = find_too_small(correlated(scores(control=50000, sets=100, runs=24), item_counts=counts(50000, 100)))
    enough = round(max(small.enough.values()))
    assert 300 < enough < 20000
    again = correlated(scores(control=50000, sets=enough, runs=24), item_counts=counts(50000, enough))
    assert not find_too_small(again).names
    assert 0.3 < again.heterogeneity["reliability_a"].median() < 0.8


def test_unknown_noise_says_with_how_many_items_the_answer_would_change():
    result = correlated(scores(truth=0.6))
    verdict = result.verdict()
    assert verdict.answer is Answer.YES
    changed = verdict.facts["questions with which the answer would change"]
    assert f"{changed:,}" in verdict.reason
    assert answer_with_items(result, changed) is not Answer.YES
    assert answer_with_items(result, 1_000_000) is Answer.YES


def test_well_known_names_bring_their_sizes_and_say_so():
    table = scores(truth=0.6).rename({"set_0": "hans", "set_1": "paws", "in_domain": "mnli"})
    result = breadth.correlate(table, control="mnli", by="run", order="step")
    assert result.corrected
    assert any("hans 30,000" in line and "paws 8,000" in line for line in result.warnings)
    assert not breadth.correlate(table, control="mnli", by="run", order="step", item_counts="none").corrected


def test_a_loss_as_control_counts_as_free_of_noise():
    """Its variance must not be that of an accuracy: reliabilities were 8 to 1,989 and nothing was corrected."""
    table = scores(truth=0.6, sets=2000).with_columns(eval_loss=3 - 2 * pl.col("in_domain")).drop("in_domain")
    sizes = {f"set_{k}": 2000 for k in range(4)}
    result = breadth.correlate(table, control="eval_loss", by="run", order="step", item_counts=sizes)
    assert any("eval_loss has no item count" in line for line in result.warnings)
    assert result.pairs["reliability_a"].max() <= 1
    assert result.pairs["r_corrected"].null_count() == 0
    assert result.heterogeneity["reliability_control"].min() == pytest.approx(1)


def test_only_shares_have_noise_that_follows_from_items():
    assert has_accuracies(correlated(scores()))
    losses = scores().with_columns(pl.col("^set_.$") * 3 - 2)
    assert not has_accuracies(correlated(losses))


def test_both_truths_are_said_together():
    """Test sets rise together as training goes on; beyond what in-domain accuracy explains, these do not."""
    verdict = correlated(scores(control=20000, sets=20000, runs=12), item_counts=counts(20000, 20000)).verdict()
    assert verdict.answer is Answer.NO
    assert "rise together as training goes on" in verdict.findings


@pytest.fixture(scope="module")
def noisy_answers(tmp_path_factory):
    """Independent sets, answered anew at every checkpoint, with a control of 150 items."""
    sizes = {"plain": 150, "formal": 800, "chat": 800, "science": 800}
    folder = tmp_path_factory.mktemp("noisy") / "study"
    simulate_study(
        folder, runs=8, testsets=tuple(sizes), items=sizes, together=0.0, fresh_items=True, models=("m",), seed=3
    )
    return folder


def test_single_answers_tell_their_own_noise(noisy_answers):
    result = breadth.correlate(noisy_answers)
    assert result.corrected
    means = result.heterogeneity
    assert means["r_partial"].mean() > 0.1, "noise in the control makes sets look alike"
    assert not (means["q"] < 0.05).any()
    assert result.verdict().answer is not Answer.YES

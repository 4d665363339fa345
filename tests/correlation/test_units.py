import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation import Panel, Settings, partial_correlations
from breadth.correlation.units import LEAK_ERROR, find_units, pool_units
from breadth.datasets import autoregressive
from breadth.errors import InputError
from breadth.results import Answer
from units import answers, families, model_correlations, nested, new_group, simulate_table

INFINITE = float("inf")


def runs_of_models(seed=0, models=3, seeds=4):
    """Noise-free accuracies of the seeds of a few models, with a column that names the model."""
    generator = np.random.default_rng(seed)
    return simulate_table(generator, model_correlations(generator, models, 0.2, 0.3), seeds, INFINITE, INFINITE)


def correlated(table, **options):
    return breadth.correlate(table, control="in_domain", by="run", order="step", item_counts="none", **options)


def partial_of(groups=6, rows=41, sets=3, counts=None, seed=0):
    generator = np.random.default_rng(seed)
    control = 0.5 + 0.3 * np.linspace(0, 1, rows) + 0.02 * generator.standard_normal((groups, rows))
    moves = autoregressive(generator, groups, rows, np.eye(sets), 0.4)
    scores = 0.2 + control[:, :, None] / 2 + 0.02 * moves
    settings = Settings("linear", ci="ar", counts=counts, scale=None if counts is None else np.ones(sets + 1))
    return partial_correlations(Panel(scores, control[:, :, None]), settings)


def test_runs_of_one_model_are_one_unit():
    result = correlated(runs_of_models())
    assert result.units.column == "model"
    assert result.units.names == ("model-0", "model-1", "model-2")
    assert result.heterogeneity["k"].to_list() == [3] * 6
    assert result.heterogeneity["runs"].to_list() == [12] * 6


def test_none_takes_every_run_as_a_unit_and_a_column_can_be_named():
    table = runs_of_models().with_columns(house=pl.col("model").replace({"model-1": "model-0"}))
    assert correlated(table, cluster="none").heterogeneity["k"].to_list() == [12] * 6
    assert correlated(table, cluster="house").heterogeneity["k"].to_list() == [2] * 6


def test_a_unit_must_not_change_within_a_run():
    table = runs_of_models().with_columns(phase=pl.when(pl.col("step") < 300).then(pl.lit("a")).otherwise(pl.lit("b")))
    with pytest.raises(InputError, match="changes within a group"):
        correlated(table, cluster="phase")
    with pytest.raises(InputError, match="no column 'family'"):
        correlated(table, cluster="family")


def test_runs_of_a_single_model_are_the_units():
    table = runs_of_models(models=1, seeds=5)
    result = correlated(table)
    assert not result.units.nested
    assert result.heterogeneity["k"].to_list() == [5] * 6
    assert "another model may differ" in str(result.verdict())


def test_seeds_make_a_mean_over_models_no_more_certain_than_models_allow():
    generator = np.random.default_rng(4)
    matrices = model_correlations(generator, 3, 0.0, 0.8)
    table = simulate_table(generator, matrices, 12, INFINITE, INFINITE)
    over_models, over_runs = correlated(table).heterogeneity, correlated(table, cluster="none").heterogeneity
    width = over_models["ci_high"] - over_models["ci_low"]
    assert (width > 3 * (over_runs["ci_high"] - over_runs["ci_low"])).all()
    assert (over_models["p"] > 0.05).all()
    assert (over_runs["p"] < 0.05).any()


def test_one_unit_per_run_without_noise_is_the_random_effects_mean():
    """Against the textbook form: weights 1 / (variance + tau2), with tau2 by the equation of Paule and Mandel."""
    partial = partial_of(groups=8, seed=3)
    pooled = pool_units(partial, np.arange(8)).summary
    z = np.arctanh(partial.r[:, 0])
    variance = 1 / (partial.n_eff[:, 0] - 3 - partial.spent[:, 0])
    weight = 1 / (variance + pooled.tau2[0])
    assert np.tanh((weight * z).sum() / weight.sum()) == pytest.approx(pooled.r_mean[0], abs=1e-6)
    assert (weight * (z - np.arctanh(pooled.r_mean[0])) ** 2).sum() <= 7 + 1e-6


def test_the_mean_is_corrected_although_single_runs_cannot_be():
    """Small test sets: most runs have no correction of their own, and dropping these would select."""
    generator = np.random.default_rng(2)
    table = simulate_table(generator, model_correlations(generator, 1, 0.6, 0.0), 12, 2000, 400)
    counts = {"in_domain": 2000, **{f"set_{k}": 400 for k in range(4)}}
    result = breadth.correlate(table, control="in_domain", by="run", order="step", item_counts=counts)
    assert (result.pairs["reliability_a"] < 0.2).any()
    means = result.heterogeneity
    assert means["r_mean"].null_count() == 0
    assert (means["r_mean"] > means["r_partial"]).all()
    assert (means["runs"] == 12).all()


def test_what_was_subtracted_for_noise_of_the_control_may_be_off():
    """More runs narrow the interval, but never below the error of the correction itself."""
    counts = np.array([5000.0, 5000.0, 5000.0, 2000.0])
    pooled = pool_units(partial_of(groups=400, counts=counts), np.arange(400))
    leak = 1 - pooled.reliability_a - pooled.noise_a
    width = pooled.summary.ci_high - pooled.summary.ci_low
    assert (leak > 0.05).all()
    assert (width > 2 * LEAK_ERROR * 0.9 * leak).all()


@pytest.mark.parametrize(("control", "sets"), [(100, 5000), (500, 2000), (200, 200)])
def test_noise_makes_no_yes_of_independent_test_sets(control, sets):
    given, _ = answers(runs=12, truth=0.0, control_items=control, set_items=sets, studies=12)
    assert given["Yes"] == 0
    assert given["It depends"] <= 1


def test_noise_makes_no_no_of_test_sets_that_go_together():
    given, _ = answers(runs=12, truth=0.6, control_items=1000, set_items=100, studies=8)
    assert given["No"] == 0
    given, mean = answers(runs=12, truth=0.6, control_items=1000, set_items=1000, studies=8)
    assert given["Yes"] >= 7
    assert mean == pytest.approx(0.6, abs=0.08)


def test_seeds_of_few_models_are_no_sample_of_models():
    p, q, covered = nested(4, 6, 0.0, 0.3, 500, 2000, studies=25)
    assert p <= 0.1
    assert q <= 0.08
    assert covered >= 0.9


@pytest.mark.parametrize(("groups", "rows"), [(12, 20), (3, 41)])
def test_the_interval_for_a_new_group_covers(groups, rows):
    assert new_group(groups, rows, 0.5, 0.3, 0.0, studies=150) >= 0.92


def test_models_of_families_count_as_alike():
    by_family = families(20, 100, 0.6, 0.0, "linear", studies=60)
    as_independent = families(20, 100, 0.6, 0.0, "linear", studies=60, cluster="none")
    assert by_family >= 0.88
    assert as_independent <= by_family - 0.05


def test_few_units_say_how_many_new_ones_may_contradict():
    result = correlated(runs_of_models(models=3, seeds=2, seed=5), testsets="set_0,set_1")
    verdict = result.verdict()
    if verdict.answer is not Answer.UNKNOWN:
        assert verdict.facts["of 100 further models, how many may go the other way"] == 63
    generator = np.random.default_rng(1)
    table = simulate_table(generator, model_correlations(generator, 1, 0.8, 0.0), 4, INFINITE, INFINITE)
    assert correlated(table).verdict().facts["of 100 further runs, how many may go the other way"] == 53


def test_units_of_a_table_without_groups():
    table = runs_of_models(models=1, seeds=1)
    trajectories = breadth.correlate(table, control="in_domain", order="step", by="none").trajectories
    units = find_units(trajectories, trajectories.frame.select([]))
    assert (units.names, units.of_group.tolist()) == (("",), [0])

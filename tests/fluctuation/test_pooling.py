import numpy as np
import pytest
from scipy import special, stats

from breadth.fluctuation import compare_models, mean_squares, spread_of_runs, typical_run


def one(**values):
    return {name: np.array([float(value)]) for name, value in values.items()}


def test_interval_of_a_variance_by_hand():
    spread = spread_of_runs(**one(total=4, df=20, pure_df=20, noise=1, noise_df=np.inf), at_most=False)
    assert spread.variance[0] == 3
    assert spread.low[0] == pytest.approx(4 * 20 / stats.chi2.ppf(0.975, 20) - 1)
    assert spread.high[0] == pytest.approx(4 * 20 / stats.chi2.ppf(0.025, 20) - 1)


def test_noise_that_may_be_smaller_leaves_the_upper_end_at_what_was_seen():
    arguments = one(total=4, df=20, pure_df=20, noise=1, noise_df=np.inf)
    known, bound = (spread_of_runs(**arguments, at_most=at_most) for at_most in (False, True))
    assert bound.high[0] == pytest.approx(known.high[0] + 1)
    assert bound.low[0] == known.low[0]


def test_p_is_uniform_where_there_is_only_noise():
    values = np.random.default_rng(0).standard_normal((20_000, 30, 1))
    squares = mean_squares(values, variance=np.ones_like(values))
    p = spread_of_runs(*squares[:5], at_most=False).p
    for level in (0.05, 0.01):
        assert (p < level).mean() == pytest.approx(level, rel=0.15)


def test_unknown_noise_gives_no_test_and_too_few_checkpoints_nothing():
    spread = spread_of_runs(**one(total=4, df=20, pure_df=20, noise=np.nan, noise_df=np.inf), at_most=False)
    assert np.isnan(spread.p[0])
    assert spread.variance[0] == 4
    spread = spread_of_runs(**one(total=0, df=20, pure_df=20, noise=1, noise_df=np.inf), at_most=False)
    assert (spread.variance[0], spread.high[0], spread.p[0]) == (0, 0, 1)


def test_interval_of_a_run_covers():
    squares = mean_squares(np.random.default_rng(1).standard_normal((3000, 41, 1)))
    spread = spread_of_runs(*squares[:5], at_most=False)
    assert 0.94 < ((spread.low <= 1) & (spread.high >= 1)).mean() < 0.985


def test_interval_for_another_run_covers_where_runs_differ():
    generator = np.random.default_rng(2)
    seeds, studies = 4, 600
    values = generator.standard_normal((studies * seeds, 41, 1))
    values *= np.exp(0.3 * generator.standard_normal((studies * seeds, 1, 1)))
    squares = mean_squares(values)
    covered = []
    for study in range(studies):
        own = slice(study * seeds, (study + 1) * seeds)
        usual = typical_run(squares.total[own, 0], squares.df[own, 0], squares.noise[own, 0])
        low, high = usual.ends(special.stdtrit(seeds - 1, 0.975))
        covered.append(low <= 1 <= high)
    assert 0.92 < np.mean(covered) < 0.98


def test_typical_run_leaves_out_what_has_no_number_and_says_when_nothing_has():
    total, df = np.array([1.0, np.nan, 0.0, 1.2, 0.9]), np.full(5, 20.0)
    assert typical_run(total, df, np.zeros(5)).runs == 3
    assert typical_run(np.array([np.nan]), np.array([np.nan]), np.zeros(1)) is None
    assert np.isnan(typical_run(total[:1], df[:1], np.zeros(1)).error)


def test_runs_that_agree_by_chance_do_not_give_a_needle():
    total, df = np.array([1.0, 1.0001, 0.9999]), np.full(3, 20.0)
    error = typical_run(total, df, np.zeros(3)).error * special.stdtrit(2, 0.975)
    assert error == pytest.approx(0.7 * 1.96 * np.sqrt(2 / 20 / 3), rel=1e-3)


def usual(size, seeds=4, seed=0, noise=0.0):
    values = size * np.random.default_rng(seed).standard_normal((seeds, 200, 1))
    squares = mean_squares(values + np.sqrt(noise) * np.random.default_rng(seed + 1).standard_normal(values.shape))
    return typical_run(squares.total[:, 0], squares.df[:, 0], np.full(seeds, noise))


def test_ratio_is_that_of_standard_deviations():
    results = [compare_models(usual(3, seed=seed), usual(1, seed=seed + 100)) for seed in range(0, 40, 2)]
    assert np.mean([result.ratio for result in results]) == pytest.approx(3, rel=0.03)
    assert np.mean([result.low <= 3 <= result.high for result in results]) >= 0.85
    assert max(result.p for result in results) < 0.001


def test_ratio_turns_around():
    forth, back = compare_models(usual(3), usual(1, seed=5)), compare_models(usual(1, seed=5), usual(3))
    assert back.ratio == pytest.approx(1 / forth.ratio)
    assert (back.low, back.high, back.p) == pytest.approx((1 / forth.high, 1 / forth.low, forth.p))


def test_interval_of_the_ratio_excludes_one_exactly_when_p_is_small():
    for seed in range(8):
        result = compare_models(usual(1.1, seeds=3, seed=seed), usual(1, seeds=3, seed=seed + 50))
        assert (result.p < 0.05) == (not result.low <= 1 <= result.high)


def test_without_noise_the_test_is_close_to_that_of_welch_on_logarithms():
    logs = [np.array([0.1, 0.5, 0.3]), np.array([1.4, 1.1, 1.0, 1.3])]
    first, second = (typical_run(np.exp(each), np.full(len(each), 1e6), np.zeros(len(each))) for each in logs)
    ours, theirs = compare_models(first, second).p, stats.ttest_ind(*logs, equal_var=False).pvalue
    assert ours == pytest.approx(theirs, rel=0.05)
    assert compare_models(first, first).p == pytest.approx(1)


def test_a_model_that_does_not_fluctuate_leaves_the_ratio_open_above():
    result = compare_models(usual(3, noise=1.0), usual(0, seed=5, noise=1.0))
    assert result.low > 1
    assert result.high == np.inf
    nothing = compare_models(usual(0, noise=1.0)._replace(noise=2.0), usual(0, seed=5, noise=1.0)._replace(noise=2.0))
    assert nothing.p == 1


def test_one_run_cannot_be_compared():
    result = compare_models(usual(3, seeds=1), usual(1))
    assert np.isnan([result.low, result.high, result.p]).all()

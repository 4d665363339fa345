import numpy as np
import pytest
from scipy import signal

from breadth.fluctuation import contrasts, mean_over_testsets, mean_squares


def series(seed=0, runs=400, steps=41, sets=1):
    return np.random.default_rng(seed).standard_normal((runs, steps, sets))


def autoregression(rho, seed=0, runs=400, steps=41):
    shocks = np.random.default_rng(seed).standard_normal((runs, steps, 1)) * np.sqrt(1 - rho**2)
    shocks[:, 0] /= np.sqrt(1 - rho**2)
    return signal.lfilter([1], [1, -rho], shocks, axis=1)


def test_contrasts_by_hand():
    values = np.array([[[1.0], [4.0], [3.0], [3.0]]])
    expected = np.array([4 - (1 + 3) / 2, 3 - (4 + 3) / 2]) / np.sqrt(1.5)
    assert contrasts(values)[0, :, 0] == pytest.approx(expected)
    assert contrasts(values, gap=2).shape == (1, 0, 1)


def test_independent_values_have_their_variance():
    squares = mean_squares(3 * series())
    assert squares.total.mean() == pytest.approx(9, rel=0.03)


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.9])
def test_slower_swings_count_as_documented(rho):
    squares = mean_squares(autoregression(rho, runs=1500))
    assert squares.total.mean() == pytest.approx(1 - 4 / 3 * rho + rho**2 / 3, rel=0.06)


def test_degrees_of_freedom_are_those_of_the_quadratic_form():
    steps = 30
    matrix = np.zeros((steps - 2, steps))
    for row in range(steps - 2):
        matrix[row, row : row + 3] = [-0.5, 1, -0.5]
    product = matrix @ matrix.T
    expected = np.trace(product) ** 2 / np.trace(product @ product)
    assert mean_squares(series(steps=steps)).pure_df[0, 0] == pytest.approx(expected)


def test_neither_a_line_nor_a_shift_nor_a_scale_of_scores_matters():
    values = series(runs=3, sets=2)
    line = 5 * np.linspace(0, 1, values.shape[1])[None, :, None] + 40
    plain, moved, larger = (mean_squares(each) for each in (values, values + line, 10 * values))
    assert moved.total == pytest.approx(plain.total)
    assert larger.total == pytest.approx(100 * plain.total)
    assert larger.df == pytest.approx(plain.df)


def test_a_jump_that_stays_is_no_fluctuation_but_a_bad_checkpoint_is():
    values = series(runs=1, steps=60)
    jump, spike = values.copy(), values.copy()
    jump[:, 30:] += 30
    spike[:, 30] += 30
    plain = mean_squares(values)
    assert mean_squares(jump).jumps[0, 0] > 0
    assert mean_squares(jump).total[0, 0] < 1.5 * plain.total[0, 0]
    assert mean_squares(spike).total[0, 0] > 5 * plain.total[0, 0]


def test_a_score_that_changes_its_level_all_the_time_fluctuates():
    levels = np.repeat(np.tile([0.0, 10.0], 10), 3)[None, :, None]
    squares = mean_squares(levels + series(runs=1, steps=60))
    assert squares.jumps[0, 0] == 0
    assert squares.total[0, 0] > 5


def test_missing_checkpoints_are_left_out():
    values = series(runs=1, steps=20)
    values[0, 10, 0] = np.nan
    squares = mean_squares(values)
    assert squares.contrasts[0, 0] == 15
    each = contrasts(values)[0, :, 0]
    assert squares.total[0, 0] == pytest.approx(np.nanmean(each**2))


def test_too_few_checkpoints_have_no_number():
    assert np.isnan(mean_squares(series(runs=1, steps=7)).total).all()
    assert not np.isnan(mean_squares(series(runs=1, steps=8)).total).any()
    assert np.isnan(mean_squares(series(runs=1, steps=2)).total).all()


def test_noise_of_counts_is_the_variance_on_fresh_items():
    generator = np.random.default_rng(1)
    share, items = 0.7, 400
    scores = generator.binomial(items, share, (500, 41, 1)) / items
    squares = mean_squares(scores, variance=scores * (1 - scores) / items)
    assert squares.total.mean() == pytest.approx(squares.noise.mean(), rel=0.03)


def test_noise_of_halves_is_that_of_a_change_on_the_same_items():
    """Items that mostly keep their answers: the noise of a change is far below that of fresh items."""
    generator = np.random.default_rng(2)
    runs, steps, items = 60, 41, 300
    easiness = generator.standard_normal((runs, 1, items))
    right = (0.3 + easiness + 0.3 * generator.standard_normal((runs, steps, items)) > 0).astype(float)
    signs = np.stack([generator.permutation(np.tile([1.0, -1.0], items // 2)) for _ in range(10)], axis=1)
    scores, halves = right.mean(axis=2)[..., None], (right @ signs / items)[:, :, None, :]
    squares = mean_squares(scores, halves=halves)
    assert squares.noise.mean() == pytest.approx(squares.total.mean(), rel=0.06)
    assert squares.noise.mean() < 0.5 * (scores * (1 - scores) / items).mean()
    assert np.isfinite(squares.noise_df).all()


def test_together_is_the_mean_over_test_sets():
    values = series(runs=5, sets=3)
    whole, each = mean_over_testsets(values), mean_squares(values)
    assert whole.total[:, 0] == pytest.approx(each.total.mean(axis=1))
    same = mean_over_testsets(np.repeat(series(runs=200), 4, axis=2))
    assert np.median(same.df) < 1.6 * np.median(same.pure_df)
    assert np.median(mean_over_testsets(series(runs=200, sets=4)).df) > 1.6 * np.median(same.df)

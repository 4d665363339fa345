import numpy as np
import pytest

from breadth.datasets import autoregressive
from breadth.stats import Panel, Settings, partial_correlations
from breadth.stats.basis import make_basis
from breadth.stats.blocks import block_counts, block_length, refitted_z
from breadth.stats.smooth import remove_control


def test_blocks_are_consecutive_and_as_many_as_rows():
    counts = block_counts(np.random.default_rng(0), 20, 5, 300)
    assert np.all(counts.sum(axis=1) == 20)
    assert counts.mean(axis=0) == pytest.approx(np.ones(20), abs=0.25)
    single = block_counts(np.random.default_rng(0), 20, 20, 1)
    assert np.all(single == 1), "one block of full length is the run itself"


def test_blocks_grow_with_dependence():
    lengths = [block_length(41, growth) for growth in (1.0, 1.5, 3.0, 9.0)]
    assert lengths[0] == 1
    assert lengths == sorted(lengths)
    assert lengths[-1] <= 10


@pytest.mark.parametrize("regressor", ["gam", "linear"])
def test_a_resample_of_every_row_once_is_the_fit_itself(regressor):
    generator = np.random.default_rng(1)
    z = generator.uniform(0, 1, (1, 40, 1))
    y = np.sin(5 * z) + 0.3 * generator.standard_normal((1, 40, 3))
    y -= y.mean(axis=1, keepdims=True)
    rows = np.ones((1, 40), dtype=bool)
    basis = make_basis(z, rows, regressor)
    left = remove_control(basis, y, rows).residuals[0]
    keep = basis.ease[0] > 0
    ease = basis.ease[0][keep]
    z_resampled = refitted_z(basis.phi[0][:, keep], (1 - ease) / ease, y[0], np.ones((2, 40)))
    expected = np.arctanh(np.corrcoef(left.T)[np.triu_indices(3, 1)])
    assert np.allclose(z_resampled, expected, atol=1e-5)


def test_resamples_equal_fitting_the_repeated_rows():
    """Weights stand for repeated rows: a linear fit to the rows written out gives the same correlations."""
    generator = np.random.default_rng(2)
    z = generator.standard_normal((1, 30, 1))
    y = generator.standard_normal((30, 2)) + z[0]
    y -= y.mean(axis=0)
    rows = np.ones((1, 30), dtype=bool)
    basis = make_basis(z, rows, "linear")
    counts = block_counts(generator, 30, 4, 5)
    found = refitted_z(basis.phi[0], np.zeros(2), y, counts)
    for i, count in enumerate(counts.astype(int)):
        index = np.repeat(np.arange(30), count)
        design = np.column_stack([np.ones(30), z[0, index, 0]])
        left = y[index] - design @ np.linalg.lstsq(design, y[index], rcond=None)[0]
        assert np.tanh(found[i, 0]) == pytest.approx(np.corrcoef(left.T)[0, 1], abs=1e-8)


def test_errors_are_about_right_for_independent_rows():
    generator = np.random.default_rng(3)
    scores = autoregressive(generator, 40, 60, np.array([[1, 0.5], [0.5, 1]]), 0.0)
    panel = Panel(scores, generator.standard_normal((40, 60, 1)))
    found = partial_correlations(panel, Settings("linear", inference="block", resamples=400))
    assert np.median(found.n_eff) == pytest.approx(58, abs=6)


def test_seed_decides_and_threads_do_not():
    generator = np.random.default_rng(4)
    panel = Panel(generator.standard_normal((5, 30, 3)), generator.standard_normal((5, 30, 1)))
    first, again, other = (
        partial_correlations(panel, Settings(inference="block", resamples=100, seed=seed)).low for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)

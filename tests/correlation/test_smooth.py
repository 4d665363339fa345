import numpy as np
import pytest
from scipy.interpolate import BSpline

from breadth.correlation.smooth import (
    GRID,
    SPLINES,
    choose_factors,
    diagonalise,
    make_basis,
    raw_columns,
    remove_control,
)


@pytest.fixture
def control():
    return np.random.default_rng(0).uniform(2, 5, (3, 30, 1))


ALL = np.ones((3, 30), dtype=bool)


def test_splines_equal_scipys(control):
    ours = raw_columns(control, ALL, "gam")[1]
    z = control[1, :, 0]
    low, width = z.min(), (z.max() - z.min()) / (SPLINES - 3)
    knots = low + width * np.arange(-3, SPLINES + 1)
    # scipy leaves the last point of the range to the next piece; step just inside it.
    inside = np.minimum(z, z.max() - 1e-12)
    theirs = BSpline.design_matrix(inside, knots, 3).toarray()
    assert np.allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("adjust", ["gam", "linear"])
def test_slopes_are_derivatives(control, adjust):
    lattice = np.sort(control, axis=1)
    step = 1e-6
    shifted = lattice.copy()
    shifted[:, 1:-1] += step  # the ends stay, so the range stays
    change = (raw_columns(shifted, ALL, adjust) - raw_columns(lattice, ALL, adjust)) / step
    slopes = raw_columns(lattice, ALL, adjust, slope_of=0)
    if adjust == "linear":  # shifting changes the mean that is taken off
        change = change - change[:, :1]
    assert np.allclose(change[:, 1:-1], slopes[:, 1:-1], atol=1e-4)


@pytest.mark.parametrize("adjust", ["gam", "linear", "none"])
@pytest.mark.parametrize("controls", [1, 2])
def test_basis_is_orthonormal_on_its_rows(adjust, controls):
    generator = np.random.default_rng(1)
    z = generator.standard_normal((2, 40, controls))
    rows = generator.random((2, 40)) < 0.8
    basis = make_basis(np.where(rows[:, :, None], z, 0), rows, adjust)
    assert np.all(basis.phi[~rows] == 0)
    products = basis.phi.transpose(0, 2, 1) @ basis.phi
    for f in range(2):
        known = basis.ease[f] > 0
        assert np.allclose(products[f][np.ix_(known, known)], np.eye(known.sum()), atol=1e-4)
        assert np.allclose(products[f][~known], 0, atol=1e-6)
        unpenalised = {"gam": 1 + controls, "linear": 1 + controls, "none": 1}[adjust]
        assert (basis.ease[f] > 1 - 1e-6).sum() == unpenalised


def test_collinear_controls_cost_one_degree_of_freedom():
    z = np.random.default_rng(2).standard_normal((1, 30, 1))
    basis = make_basis(np.concatenate([z, 2 * z + 1], axis=2), np.ones((1, 30), dtype=bool), "linear")
    assert basis.ease.sum() == 2


def test_penalised_fit_equals_the_direct_solution():
    """The diagonal form gives, for every smoothing parameter, the solution of (B'B + lam S) c = B'y."""
    generator = np.random.default_rng(3)
    z, y = generator.standard_normal((1, 35, 1)), generator.standard_normal(35)
    rows = np.ones((1, 35), dtype=bool)
    raw = raw_columns(z, rows, "gam")[0]
    differences = np.diff(np.eye(SPLINES), 2, axis=0)
    basis = make_basis(z, rows, "gam")
    for lam in GRID[[0, 5, 10]]:
        direct = raw @ np.linalg.solve(raw.T @ raw + lam * differences.T @ differences, raw.T @ y)
        factor = basis.ease[0] / (basis.ease[0] + lam * (1 - basis.ease[0]))
        ours = basis.phi[0] @ (factor * (basis.phi[0].T @ y))
        assert np.allclose(ours, direct, atol=1e-5)


def test_smoothness_is_the_minimum_of_the_criterion():
    generator = np.random.default_rng(4)
    z = generator.uniform(0, 1, (1, 40, 1))
    y = np.sin(6 * z) + 0.1 * generator.standard_normal((1, 40, 1))
    y -= y.mean()
    rows = np.ones((1, 40), dtype=bool)
    basis = make_basis(z, rows, "gam")
    fit = remove_control(basis, y, rows)
    scores = []
    for lam in GRID:
        factor = basis.ease[0] / (basis.ease[0] + lam * (1 - basis.ease[0]))
        left = y[0, :, 0] - basis.phi[0] @ (factor * (basis.phi[0].T @ y[0, :, 0]))
        scores.append((left @ left / (40 - 1.4 * factor.sum()) ** 2, factor.sum()))
    assert fit.edf[0, 0] == pytest.approx(min(scores)[1])
    assert 4 < fit.edf[0, 0] < 12, "a sine needs several degrees of freedom"
    assert abs(fit.residuals.sum()) < 1e-8, "the constant is not penalised"


def test_smooth_may_not_spend_more_than_half_the_rows():
    generator = np.random.default_rng(5)
    z = np.linspace(0, 1, 12)[None, :, None]
    y = np.sin(40 * z) + 0.001 * generator.standard_normal(z.shape)
    rows = np.ones((1, 12), dtype=bool)
    assert remove_control(make_basis(z, rows, "gam"), y - y.mean(), rows).edf.max() <= 6 + 1e-9


def test_unpenalised_bases_are_fitted_in_full():
    ease = np.array([[1.0, 1.0, 0.0]])
    loadings = np.ones((1, 3, 2))
    factors = choose_factors(ease, loadings, np.full((1, 2), 5.0), np.array([10.0]))
    assert factors[0, :, 0].tolist() == [1.0, 1.0, 0.0]


def test_diagonalise_turns_both_matrices():
    generator = np.random.default_rng(6)
    x = generator.standard_normal((4, 30, 6))
    gram = x.transpose(0, 2, 1) @ x
    penalty = np.diag(np.arange(6.0))
    rotation, ease = diagonalise(gram, penalty)
    assert np.allclose(rotation.transpose(0, 2, 1) @ gram @ rotation, np.eye(6), atol=1e-6)
    turned = rotation.transpose(0, 2, 1) @ penalty @ rotation
    assert np.allclose(turned, np.eye(6) * ((1 - ease) / ease)[:, None, :], atol=1e-6)

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

import breadth
from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Anchors, Answers, Priors
from breadth.irt.expectation import expect
from breadth.irt.marginal import Step, fixed_point, make_problem
from breadth.irt.parameters import Common


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("model", list(MODELS))
def test_the_fixed_point_is_a_maximum_of_the_objective_priors_included(model: str, anchored: bool) -> None:
    matrix = simulate(400, 8, 1, "1pl", 0.1).matrix
    matrix[:, 6] = 1  # so that the prior pulls hard
    fixed = None
    if anchored:
        nan = np.full(5, np.nan)
        fixed = Anchors(*(np.append(np.full(3, value), nan) for value in (0.0, 1.0, 0.0, 1.0)))
    priors = Priors(intercept_sd=2.0, slope_ratio=None)
    problem = make_problem(MODELS[model], Answers.of(matrix), priors, fixed)
    found = fixed_point(problem.step, problem.start, 2000)
    assert found.converged
    # What items have in common is held where it is, on their own scale: an estimate of its own.
    _, (centre, width), (_, _, beta) = problem.unpack(found.point)
    mean = centre + width * beta

    def objective(point: np.ndarray) -> float:
        items, ability, _ = problem.unpack(point)
        seen = items.for_population(*ability)
        common = Common(0.0, 1.0, (mean - ability.mean) / ability.sd)
        density = priors.at(seen, problem.free, common).log_density.sum()
        spread = np.log(ability.sd) if anchored else np.log(items.slope[0]) if model == "1pl" else 0.0
        return expect(MODELS[model], problem.answers, seen).log_likelihood + float(density - spread**2 / 2)

    gradient = optimize.approx_fprime(found.point, objective, 1e-6)
    assert np.abs(gradient / problem.step(found.point).precision).max() < 5e-3


@pytest.mark.parametrize("model", ["2pl", "3pl"])
@pytest.mark.parametrize(("typical", "spread"), [(0.7, 0.2), (2.0, 0.5)])
def test_the_mean_and_the_spread_of_slopes_are_estimated(model: str, typical: float, spread: float) -> None:
    rng = np.random.default_rng(3)
    slope, difficulty, ability = rng.normal(typical, spread, 300), rng.normal(0.5, 1, 300), rng.normal(0, 1, (1500, 1))
    chance = 1 / (1 + np.exp(-slope * (ability - difficulty)))
    floor = 0.2 if model == "3pl" else 0.0
    answers = Answers.of((rng.random(chance.shape) < floor + (1 - floor) * chance).astype(np.int8))
    problem = make_problem(MODELS[model], answers, Priors())
    common = problem.unpack(fixed_point(problem.step, problem.start, 500).point)[2]
    assert common.slope_mean == pytest.approx(typical, rel=0.08)
    assert common.slope_sd == pytest.approx(spread, rel=0.2)
    assert common.difficulty_mean == pytest.approx(float(slope**2 @ difficulty / (slope @ slope)), abs=0.15)


@pytest.mark.parametrize("typical", [1.0, 3.0])
def test_ability_is_standardised_whatever_the_slopes(typical: float) -> None:
    rng = np.random.default_rng(5)
    slope, difficulty, ability = typical * rng.lognormal(0, 0.3, 400), rng.normal(1, 1, 400), rng.normal(0, 1, (300, 1))
    matrix = (rng.random((300, 400)) < 1 / (1 + np.exp(-slope * (ability - difficulty)))).astype(np.int8)
    calibration = breadth.calibrate(matrix, model="2pl")
    measured = calibration.subjects["ability"].to_numpy()
    assert np.std(measured) == pytest.approx(1.0, abs=0.03)
    assert np.mean(measured) == pytest.approx(0.0, abs=0.03)
    assert np.median(calibration.items["discrimination"].to_numpy() / slope) == pytest.approx(np.std(ability), rel=0.06)


@pytest.mark.parametrize("steep", [4.0, 8.0, 12.0, 16.0, 20.0])
@pytest.mark.parametrize("priors", [Priors(), Priors.none()], ids=["priors", "none"])
def test_the_likelihood_is_exact_for_steep_items(steep: float, priors: Priors) -> None:
    rng = np.random.default_rng(1)
    slope, difficulty = np.where(np.arange(12) % 3, 1.0, steep), rng.normal(0, 1, 12)
    ability = rng.normal(0, 1, (400, 1))
    matrix = (rng.random((400, 12)) < 1 / (1 + np.exp(-slope * (ability - difficulty)))).astype(np.int8)
    found = MODELS["2pl"].fit(Answers.of(matrix), priors, errors=False)
    theta = np.linspace(-8, 8, 4001)
    z = np.outer(theta, found.items.slope) + found.items.intercept
    table = -(matrix @ np.logaddexp(0, -z).T + (1 - matrix) @ np.logaddexp(0, z).T) - theta**2 / 2
    actual = special.logsumexp(table, axis=1) + np.log((theta[1] - theta[0]) / np.sqrt(2 * np.pi))
    assert found.log_likelihood == pytest.approx(float(actual.sum()), abs=0.05)


def test_the_scale_points_where_the_score_does() -> None:
    rng = np.random.default_rng(2)
    ability, label = rng.normal(0, 1, (300, 1)), np.arange(40) % 2
    # A preference for one of two labels, and a little ability.
    lean = np.where(label == 1, 2.0, -2.0) * rng.normal(0, 1, (300, 1)) + 0.7 * ability
    matrix = (rng.random((300, 40)) < 1 / (1 + np.exp(-lean))).astype(np.int8)
    for answers in (matrix, matrix[:, ::-1], matrix[:, label == 1], matrix[:, np.append(np.arange(0, 40, 2), 1)]):
        calibration = breadth.calibrate(answers, model="2pl")
        assert np.corrcoef(calibration.subjects["ability"].to_numpy(), answers.mean(axis=1))[0, 1] >= 0


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_perfectly_ordered_subjects_stay_finite(model: str) -> None:
    for matrix in (np.tril(np.ones((30, 30), dtype=np.int8)), np.repeat(np.eye(2, dtype=np.int8)[:, :1], 6, axis=1)):
        found = MODELS[model].fit(Answers.of(np.tile(matrix, (10, 1))))
        assert np.isfinite(found.difficulty).all()
        assert found.log_likelihood < 0


def test_a_slow_linear_iteration_is_finished_in_few_steps() -> None:
    rates = np.array([0.99, 0.9, 0.5])
    target = np.array([1.0, -2.0, 3.0])

    def step(point: np.ndarray) -> Step:
        after = target + rates * (point - target)
        return Step(after, np.ones(3), float(np.abs(after - point).max()), 0.99)

    found = fixed_point(step, np.zeros(3), 100)
    assert found.converged
    assert found.iterations < 12
    np.testing.assert_allclose(found.point, target, atol=1e-3)


def test_a_step_that_overshoots_is_damped() -> None:
    def step(point: np.ndarray) -> Step:
        return Step(-2.5 * point, np.ones(1), float(np.abs(3.5 * point).max()), 0.0)

    found = fixed_point(step, np.ones(1), 200)
    assert found.converged
    assert found.point[0] == pytest.approx(0.0, abs=1e-3)


def test_an_endless_iteration_says_so() -> None:
    def step(point: np.ndarray) -> Step:
        return Step(point + 1, np.ones(1), 1.0, 0.0)

    found = fixed_point(step, np.zeros(1), 5)
    assert not found.converged
    assert found.iterations == 5

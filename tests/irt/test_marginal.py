from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

import breadth
from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Anchors, Answers, Parameters, Priors
from breadth.irt.expectation import expect
from breadth.irt.marginal import Problem, make_problem, maximise
from breadth.irt.maximisation import improve


def objective_at(problem: Problem, point: np.ndarray) -> Callable[[np.ndarray], float]:
    """Marginal likelihood and priors, with what is estimated of all items together held as it is at a point."""
    items, (centre, width), held = problem.unpack(point)
    mean = centre + width * held.difficulty_mean
    expectation = expect(problem.model, problem.answers, items.for_population(centre, width))
    improved = improve(
        *(problem.model, items.for_population(centre, width), expectation, problem.priors, problem.free, held)
    )
    power = improved.released * improved.items.slope

    def objective(point: np.ndarray) -> float:
        items, ability, _ = problem.unpack(point)
        seen = items.for_population(*ability)
        common = held._replace(difficulty_mean=(mean - ability.mean) / ability.sd)
        if problem.anchored:
            scale = ability.sd / width
            common = common._replace(slope_mean=held.slope_mean * scale, slope_sd=held.slope_sd * scale)
        density = problem.priors.at(seen, problem.free, common).log_density.sum()
        density += power @ np.log(np.abs(seen.slope[problem.free[1]]))
        spread = np.log(ability.sd) if problem.anchored else 0.0
        if problem.model.slope == "common" and not problem.anchored:
            spread = np.log(items.slope[0])
        return expect(problem.model, problem.answers, seen).log_likelihood + float(density - spread**2 / 2)

    return objective


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("model", list(MODELS))
def test_the_fixed_point_is_a_maximum_of_the_objective_priors_included(model: str, anchored: bool) -> None:
    matrix = simulate(400, 8, 1, "1pl", 0.1).matrix
    matrix[:, 6] = 1  # so that the prior pulls hard
    fixed = None
    if anchored:
        nan = np.full(5, np.nan)
        fixed = Anchors(*(np.append(np.full(3, value), nan) for value in (0.0, 1.0, 0.0, 1.0)))
    problem = make_problem(MODELS[model], Answers.of(matrix), Priors(intercept_sd=2.0), fixed)
    found = maximise(problem)
    assert found.converged
    gradient = optimize.approx_fprime(found.point, objective_at(problem, found.point), 1e-6)
    of_items = slice(None, -2 if problem.hierarchical else None)
    assert np.abs(gradient / problem.step(found.point).precision)[of_items].max() < 5e-3


@pytest.mark.parametrize("model", ["2pl", "3pl", "4pl"])
def test_l_bfgs_finds_nothing_better(model: str) -> None:
    """From other starts; `benchmarks/irt_likelihood.py` does the same on real matrices."""
    problem = make_problem(MODELS[model], Answers.of(simulate(300, 10, 4, "3pl", 0.1).matrix), Priors())
    found = maximise(problem)
    assert found.converged
    objective, hyper = objective_at(problem, found.point), found.point[-2:]
    rng = np.random.default_rng(0)
    for start in (found.point, problem.start, problem.start + rng.normal(0, 0.3, problem.start.size)):
        end = optimize.minimize(lambda x: -objective(np.append(x, hyper)), start[:-2], method="L-BFGS-B")
        assert -end.fun < objective(found.point) + 0.1


@pytest.mark.parametrize("model", ["3pl", "4pl"])
@pytest.mark.parametrize("name", ["LSAT6", "LSAT7"])
def test_published_answers_converge(patterns: Callable[[str], Any], name: str, model: str) -> None:
    matrix, counts = patterns(name)
    assert MODELS[model].fit(Answers.of(matrix, weights=counts.astype(float)), errors=False).converged


@pytest.mark.parametrize(("name", "best"), [("LSAT6", -2466.65), ("LSAT7", -2658.05)])
def test_asymptotes_at_their_bound_do_not_hold_up_the_fit(
    patterns: Callable[[str], Any], name: str, best: float
) -> None:
    """Without priors most guessing rates of these tests are 0. The likelihoods are those that mirt from PyPI finds."""
    matrix, counts = patterns(name)
    found = MODELS["3pl"].fit(Answers.of(matrix, weights=counts.astype(float)), Priors.none(), errors=False)
    assert found.converged
    assert found.guessing.min() < 1e-4
    assert found.log_likelihood == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize(
    ("name", "model"), [("rte", "3pl"), ("ifeval", "3pl"), ("bigcodebench", "3pl"), ("rte", "4pl")]
)
def test_real_matrices_converge(shared_data: Path, name: str, model: str) -> None:
    with np.load(shared_data / "responses" / f"{name}.npz", allow_pickle=False) as stored:
        answers = Answers.of(stored["R"])
    found = MODELS[model].fit(answers, errors=False)
    assert found.converged
    assert found.iterations < 100


@pytest.mark.parametrize("model", ["2pl", "3pl"])
@pytest.mark.parametrize(("typical", "spread"), [(0.7, 0.2), (2.0, 0.5)])
def test_the_mean_and_the_spread_of_slopes_are_estimated(model: str, typical: float, spread: float) -> None:
    rng = np.random.default_rng(3)
    slope, difficulty, ability = rng.normal(typical, spread, 300), rng.normal(0.5, 1, 300), rng.normal(0, 1, (1500, 1))
    chance = 1 / (1 + np.exp(-slope * (ability - difficulty)))
    floor = 0.2 if model == "3pl" else 0.0
    answers = Answers.of((rng.random(chance.shape) < floor + (1 - floor) * chance).astype(np.int8))
    problem = make_problem(MODELS[model], answers, Priors())
    common = problem.unpack(maximise(problem).point)[2]
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


def by_4001_points(matrix: np.ndarray, items: Parameters) -> float:
    theta = np.linspace(-8, 8, 4001)
    right = np.clip(items.probability(theta), 1e-300, 1 - 1e-16)
    table = np.where(matrix[:, None], np.log(right), np.log1p(-right)).sum(axis=2) - theta**2 / 2
    return float((special.logsumexp(table, axis=1) + np.log((theta[1] - theta[0]) / np.sqrt(2 * np.pi))).sum())


@pytest.mark.parametrize("steep", [4.0, 8.0, 12.0, 16.0, 20.0])
@pytest.mark.parametrize(
    ("model", "priors"),
    [("2pl", Priors()), ("2pl", Priors.none()), ("3pl", Priors()), ("4pl", Priors())],
    ids=["2pl", "2pl without priors", "3pl", "4pl"],
)
def test_the_likelihood_is_exact_for_steep_items(steep: float, model: str, priors: Priors) -> None:
    rng = np.random.default_rng(1)
    slope, difficulty = np.where(np.arange(12) % 3, 1.0, steep), rng.normal(0, 1, 12)
    ability = rng.normal(0, 1, (200, 1))
    floor = 0.2 if model == "3pl" else 0.0
    chance = floor + (1 - floor) / (1 + np.exp(-slope * (ability - difficulty)))
    matrix = (rng.random((200, 12)) < chance).astype(np.int8)
    found = MODELS[model].fit(Answers.of(matrix), priors, errors=False)
    assert found.log_likelihood == pytest.approx(by_4001_points(matrix, found.items), abs=0.05)


@pytest.mark.parametrize("model", ["2pl", "3pl"])
def test_steeper_items_get_a_warning(model: str) -> None:
    """Forty items that only the order of subjects decides: slopes grow beyond what quadrature follows."""
    rng = np.random.default_rng(3)
    ability, difficulty = rng.normal(0, 1, (300, 1)), rng.normal(0, 1, 40)
    found = breadth.calibrate((ability > difficulty).astype(np.int8), model=model)
    steepest = found.items["discrimination"].abs().max()
    assert steepest > 20
    assert "with a discrimination beyond 20" in " ".join(found.warnings)


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


def test_a_wide_matrix_converges_in_few_steps() -> None:
    """Thirty subjects and a thousand times as many answers: the benchmark has 90 x 82,755."""
    rng = np.random.default_rng(7)
    slope, difficulty, ability = rng.lognormal(0, 0.4, 4000), rng.normal(0.3, 1, 4000), rng.normal(0, 1, (30, 1))
    matrix = (rng.random((30, 4000)) < 1 / (1 + np.exp(-slope * (ability - difficulty)))).astype(np.int8)
    found = MODELS["2pl"].fit(Answers.of(matrix), errors=False)
    assert found.converged
    assert found.iterations < 25


@pytest.mark.parametrize("model", ["2pl", "3pl", "4pl"])
@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[1, 0], [0, 1], [1, 1]]),
        np.array([[1, 0], [1, 0], [0, 1]]),
        np.ones((5, 4)),
        np.zeros((3, 2)),
        np.eye(4),
        np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]]),
    ],
    ids=["two items", "opposite items", "all right", "all wrong", "one each", "missing"],
)
def test_a_handful_of_answers_does_not_break_the_fit(model: str, matrix: np.ndarray) -> None:
    """They say nothing about the spread of slopes, which must stay finite all the same."""
    found = MODELS[model].fit(Answers.of(matrix.astype(np.int8)))
    assert np.isfinite(found.log_likelihood)
    assert np.isfinite(found.discrimination).all()
    assert np.abs(found.discrimination).max() < 100

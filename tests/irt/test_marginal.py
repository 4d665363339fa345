from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

import breadth
from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Anchors, Answers, Parameters, Priors, score
from breadth.irt.expectation import expect
from breadth.irt.marginal import (
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    CalibrationProblem,
    climb,
    log_likelihood,
    make_problem,
    maximise,
)
from breadth.irt.maximisation import improve


def objective_at(problem: CalibrationProblem, point: np.ndarray) -> Callable[[np.ndarray], float]:
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
    assert "with a slope beyond 20" in " ".join(found.warnings)


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


@pytest.mark.parametrize("model", ["2pl", "3pl"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_test_that_adapts_ends_at_the_best_of_several_starts(
    adapted: Callable[..., Any], model: str, seed: int
) -> None:
    """The first component of such answers is a contrast of hard with easy items, and a maximum far below the best."""
    matrix, ability = adapted(seed=seed)
    problem = make_problem(MODELS[model], Answers.of(matrix), Priors())
    found = maximise(problem)
    ours = log_likelihood(problem, found)
    assert found.converged
    assert ours > log_likelihood(problem, climb(problem, problem.start, 200)) + 3, "the start that misled"
    if model == "2pl":
        generator, n = np.random.default_rng(2), matrix.shape[1]
        for _ in range(4):
            start = problem.start.copy()
            start[:n] += generator.normal(0, 0.5, n)
            start[n : 2 * n] = np.exp(generator.normal(0, 0.5, n))
            assert ours > log_likelihood(problem, climb(problem, start, 300)) - 0.5
    items = MODELS[model].fit(Answers.of(matrix), errors=False).items
    assert np.corrcoef(score(Answers.of(matrix), items).ability, ability)[0, 1] > 0.9


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_a_test_that_follows_the_answers_is_not_taken_for_items_that_are_alike(
    adaptive_test: tuple[Any, Any], model: str
) -> None:
    """Half of the answers to every item are right: from shares alone, EM stays where no item differs from another."""
    matrix, ability = adaptive_test
    problem = make_problem(MODELS[model], Answers.of(matrix), Priors())
    found = maximise(problem)
    assert found.converged
    start, generator = problem.start.copy(), np.random.default_rng(1)
    n = int(problem.kept.sum())
    start[:n] += generator.normal(0, 0.3, n)
    reached = log_likelihood(problem, found)
    assert reached > log_likelihood(problem, climb(problem, start, 300)) - 0.5
    fitted = MODELS[model].fit(Answers.of(matrix), errors=False)
    assert np.nanmin(fitted.discrimination) > 0.3
    assert np.corrcoef(score(Answers.of(matrix), fitted.items).ability, ability)[0, 1] > 0.93


def test_answers_missing_at_random_keep_the_scale_on_which_subjects_differ_most() -> None:
    """A preference for one of two answers: a scale that follows the score would be a far lower maximum."""
    generator = np.random.default_rng(4)
    lean, half = generator.standard_normal((1500, 1)), np.arange(40) % 2 == 0
    right = generator.random((1500, 40)) < special.expit(np.where(half, 1.2, -1.2) * lean)
    matrix = np.where(generator.random(right.shape) < 0.3, -1, right).astype(np.int8)
    found = MODELS["2pl"].fit(Answers.of(matrix), errors=False)
    assert found.converged
    assert ((found.discrimination < 0) == (found.discrimination[0] > 0) ^ half).mean() > 0.9


@pytest.mark.parametrize("model", ["2pl", "4pl"])
def test_a_handful_of_answers_is_given_up_soon(model: str) -> None:
    generator = np.random.default_rng(0)
    fits = [MODELS[model].fit(Answers.of(generator.integers(0, 2, (6, 8)).astype(np.int8))) for _ in range(2)]
    assert max(fit.iterations for fit in fits) <= FEWEST_ITERATIONS
    assert not all(fit.converged for fit in fits), "there are fewer answers than a peak takes"
    large = make_problem(MODELS[model], Answers.of(np.tile(np.eye(20, dtype=np.int8), (30, 1))), Priors())
    assert FEWEST_ITERATIONS < large.most_iterations <= MOST_ITERATIONS


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_floor_gives_the_maximum_of_the_likelihood_with_a_floor(missing: float) -> None:
    """Found by L-BFGS on a likelihood that is written down again."""
    generator = np.random.default_rng(5)
    ability, difficulty = generator.standard_normal((400, 1)), np.linspace(-1.5, 1, 6)
    chance = 0.25 + 0.75 * special.expit(1.3 * (ability - difficulty))
    right = (generator.random(chance.shape) < chance).astype(np.int8)
    matrix = np.where(generator.random(right.shape) < missing, -1, right).astype(np.int8)
    points = np.linspace(-7, 7, 201)
    weight = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()

    def behind(parameters: np.ndarray) -> float:
        p = 0.25 + 0.75 * special.expit(parameters[0] * (points[:, None] - parameters[1:]))
        table = (matrix == 1) @ np.log(p).T + (matrix == 0) @ np.log1p(-p).T
        return -float(special.logsumexp(table + np.log(weight), axis=1).sum())

    best = optimize.minimize(behind, np.append(1.0, np.zeros(6)), method="L-BFGS-B")
    found = MODELS["1pl"].fit(Answers.of(matrix), Priors.none(), floor=np.full(6, 0.25))
    assert found.converged
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-3)
    assert found.difficulty == pytest.approx(best.x[1:], abs=0.02)
    assert found.discrimination == pytest.approx(best.x[0], abs=0.01)
    assert (found.guessing == 0.25).all()
    assert found.parameters == MODELS["1pl"].fit(Answers.of(matrix), Priors.none()).parameters, "no more than without"


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_intervals_hold_where_subjects_guess_with_a_known_chance(model: str) -> None:
    held, bare = [], []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        difficulty = generator.normal(0.5, 1, 60)
        slope = np.ones(60) if model == "1pl" else generator.lognormal(0, 0.3, 60)
        known = special.expit(slope * (generator.standard_normal((600, 1)) - difficulty))
        matrix = (generator.random(known.shape) < 0.25 + 0.75 * known).astype(np.int8)
        for floor, into in ((np.full(60, 0.25), held), (None, bare)):
            found = MODELS[model].fit(Answers.of(matrix), floor=floor)
            into.append(np.abs(found.difficulty - difficulty) <= 1.96 * found.difficulty_se)
    assert 0.9 < np.mean(held) <= 0.99
    assert np.mean(bare) < 0.6


def test_a_model_that_estimates_guessing_takes_no_floor() -> None:
    with pytest.raises(breadth.InputError, match="estimates the chance of guessing"):
        MODELS["3pl"].fit(Answers.of(simulate(50, 5).matrix), floor=np.full(5, 0.25))

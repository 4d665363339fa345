"""Every model of the registry against published values, brute force and simulated truth; and a model from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize

import breadth
from breadth.datasets import simulate_answers as simulate
from breadth.errors import InputError
from breadth.irt import MODELS, Anchors, Answers, Model, Priors
from breadth.irt import answers as answers_module
from irt_coverage import coverage_by_slope

fit_rasch, fit_2pl, fit_3pl = (MODELS[name].fit for name in ("1pl", "2pl", "3pl"))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("name", "model"), [("LSAT6", "1pl"), ("LSAT6", "2pl"), ("LSAT7", "2pl")])
def test_published_values_of_lsat(
    lsat: dict[str, Any], patterns: Callable[[str], Any], name: str, model: str, masked: bool
) -> None:
    matrix, counts = patterns(name)
    published = lsat[name]["estimates"][model]
    answers = Answers.of(np.repeat(matrix, counts, axis=0))
    assert answers.n_subjects == 1000
    found = MODELS[model].fit(answers.with_mask() if masked else answers, Priors.none())
    assert found.converged
    assert found.parameters == {"1pl": 6, "2pl": 10}[model]
    assert found.log_likelihood == pytest.approx(published["log_likelihood"], abs=0.005)
    np.testing.assert_allclose(found.discrimination, published["a"], atol=0.01)
    np.testing.assert_allclose(-found.discrimination * found.difficulty, published["d"], atol=0.01)
    if model == "1pl":
        np.testing.assert_allclose(found.discrimination**2, published["rasch_variance"], atol=0.005)


@pytest.mark.parametrize("model", list(MODELS))
def test_patterns_with_counts_are_the_same_as_every_subject(patterns: Callable[[str], Any], model: str) -> None:
    matrix, counts = patterns("LSAT7")
    counted = MODELS[model].fit(Answers.of(matrix, weights=counts.astype(float)))
    each = MODELS[model].fit(Answers.of(np.repeat(matrix, counts, axis=0)))
    assert counted.log_likelihood == pytest.approx(each.log_likelihood, abs=1e-4)
    np.testing.assert_allclose(counted.difficulty, each.difficulty, atol=1e-4)
    np.testing.assert_allclose(counted.difficulty_se, each.difficulty_se, rtol=1e-5)


def test_published_standard_errors(lsat: dict[str, Any], patterns: Callable[[str], Any]) -> None:
    matrix, counts = patterns("LSAT7")
    found = fit_2pl(Answers.of(np.repeat(matrix, counts, axis=0)), Priors.none())
    low, high = np.array(lsat["LSAT7"]["estimates"]["2pl"]["a_ci95"]).T
    np.testing.assert_allclose(found.discrimination_se, (high - low) / 2 / 1.959964, rtol=0.01)


@pytest.mark.parametrize("masked", [False, True])
def test_published_values_of_sat12(sat12: Any, masked: bool) -> None:
    matrix, published = sat12
    answers = Answers.of(matrix)
    found = fit_2pl(answers.with_mask() if masked else answers, Priors.none())
    assert found.log_likelihood == pytest.approx(published["SAT12_2PL_own_fit"]["logLik"], abs=0.005)
    np.testing.assert_allclose(found.discrimination, published["SAT12_2PL_own_fit"]["a"], atol=0.01)
    np.testing.assert_allclose(-found.discrimination * found.difficulty, published["SAT12_2PL_own_fit"]["d"], atol=0.01)


def test_published_values_with_known_guessing(sat12: Any) -> None:
    matrix, published = sat12
    reference = published["SAT12_2PL_fixed_guess_0.1"]
    found = fit_3pl(Answers.of(matrix), Priors.none(), Anchors.known_guessing(np.full(32, 0.1)))
    assert found.converged
    assert found.parameters == 64
    intercept = -found.discrimination * found.difficulty
    # Within 0.01 but for the steepest item (slope 3.27, standard error 1.07), where the published values are not quite
    # at the maximum: ours are likelier.
    np.testing.assert_allclose(found.discrimination, reference["a"], rtol=0.007, atol=0.004)
    np.testing.assert_allclose(intercept, reference["d"], rtol=0.007, atol=0.004)
    assert direct(matrix, found.discrimination, intercept, 0.1) > direct(matrix, reference["a"], reference["d"], 0.1)


class TestModelFromOutside:
    """A Rasch model whose common slope is known to be 2: neither the slope nor the spread of ability is estimated."""

    @pytest.fixture
    def steep(self, monkeypatch: pytest.MonkeyPatch) -> Model:
        model = Model("steep", "Rasch with slope 2", "difficulty", slope=2)
        monkeypatch.setitem(MODELS, model.name, model)
        return model

    @pytest.fixture
    def truth(self) -> Any:
        rng = np.random.default_rng(3)
        ability, difficulty = rng.normal(size=(500, 1)), rng.normal(size=30)
        return (rng.random((500, 30)) < 1 / (1 + np.exp(-2 * (ability - difficulty)))).astype(np.int8), difficulty

    def test_it_calibrates(self, steep: Model, truth: Any) -> None:
        matrix, difficulty = truth
        found = breadth.calibrate(matrix, model="steep")
        assert found.fit["converged"].item()
        assert found.fit["model"].item() == found.model == "steep"
        assert found.fit["parameters"].item() == 30
        assert (found.items["discrimination"] == 2).all()
        assert (found.items["discrimination_se"] == 0).all()
        error = found.items["difficulty"].to_numpy() - difficulty
        assert np.sqrt(np.mean((error / found.items["difficulty_se"].to_numpy()) ** 2)) < 1.3
        assert found.details().startswith("Rasch with slope 2 on 500 models x 30 questions")
        assert found.level_stability(n=3, repeats=1).height
        with pytest.raises(InputError, match=r"choose 1pl \(items differ in difficulty\), .* steep \(items"):
            breadth.calibrate(matrix, model="steeper")

    def test_its_likelihood_is_a_maximum(self, steep: Model, truth: Any) -> None:
        matrix = truth[0][:, :6]
        found = steep.fit(Answers.of(matrix), Priors.none())
        intercept = -2 * found.difficulty
        assert found.log_likelihood == pytest.approx(direct(matrix, np.full(6, 2.0), intercept), abs=1e-5)
        gradient = optimize.approx_fprime(intercept, lambda d: direct(matrix, np.full(6, 2.0), d), 1e-5)
        assert np.abs(gradient).max() < 0.05
        free = fit_rasch(Answers.of(matrix), Priors.none())
        assert free.log_likelihood > found.log_likelihood
        assert found.difficulty_se.sum() < free.difficulty_se.sum(), "a known slope leaves less to estimate"

    def test_known_items_must_have_its_slope(self, steep: Model, truth: Any) -> None:
        nan = np.nan
        answers = Answers.of(truth[0][:, :3])
        fixed = Anchors(np.array([truth[1][0], nan, nan]), np.array([2.0, nan, nan]))
        assert np.abs(steep.fit(answers, fixed=fixed).difficulty - truth[1][:3]).max() < 0.5
        with pytest.raises(InputError, match="must have a discrimination of 2"):
            steep.fit(answers, fixed=fixed._replace(discrimination=np.array([1.0, nan, nan])))


def direct(matrix: np.ndarray, slope: Any, intercept: Any, guessing: Any = 0.0) -> float:
    """Marginal log-likelihood on a fine grid of abilities."""
    theta = np.linspace(-6.5, 6.5, 2001)
    weight = np.exp(-(theta**2) / 2)
    g = np.broadcast_to(guessing, len(slope))[:, None]
    p = g + (1 - g) / (1 + np.exp(-(np.outer(slope, theta) + np.asarray(intercept)[:, None])))
    table = matrix @ np.log(p) + (1 - matrix) @ np.log(1 - p)
    top = table.max(axis=1)
    return float((np.log(np.exp(table - top[:, None]) @ (weight / weight.sum())) + top).sum())


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_no_guessing_is_the_2pl_3pl(missing: float) -> None:
    answers = Answers.of(simulate(300, 15, 1, "2pl", missing).matrix)
    two = fit_2pl(answers)
    three = fit_3pl(answers, fixed=Anchors.known_guessing(np.zeros(15)))
    assert three.log_likelihood == pytest.approx(two.log_likelihood, abs=1e-4)
    np.testing.assert_allclose(three.discrimination, two.discrimination, atol=2e-3)
    np.testing.assert_allclose(three.difficulty_se, two.difficulty_se, rtol=0.01)


def test_recovers_parameters_3pl() -> None:
    truth = simulate(2000, 60, 2, "3pl")
    found = fit_3pl(Answers.of(truth.matrix))
    assert found.converged
    assert np.corrcoef(found.difficulty, truth.difficulty)[0, 1] > 0.95
    assert np.corrcoef(found.guessing, truth.guessing)[0, 1] > 0.4
    assert np.isfinite(found.guessing_se).all()
    inside = np.abs(found.difficulty - truth.difficulty) < 1.96 * found.difficulty_se
    assert np.mean(inside) > 0.85


def test_estimates_maximise_the_likelihood_3pl() -> None:
    matrix = simulate(1500, 5, 7, "3pl").matrix
    priors = Priors(slope_ratio=None, guessing_right=20.0, guessing_wrong=60.0)
    found = fit_3pl(Answers.of(matrix), priors)
    a, d, g = found.discrimination, -found.discrimination * found.difficulty, found.guessing
    assert found.log_likelihood == pytest.approx(direct(matrix, a, d, g), abs=1e-4)

    def posterior(point: np.ndarray) -> float:
        slope, intercept, chance = point.reshape(3, 5)
        mean = -(slope @ intercept) / (slope @ slope)
        prior = -np.sum((intercept + slope * mean) ** 2) / 50
        prior += np.sum(19 * np.log(chance) + 59 * np.log1p(-chance))
        return direct(matrix, slope, intercept, chance) + float(prior)

    gradient = optimize.approx_fprime(np.concatenate([a, d, g]), posterior, 1e-5).reshape(3, 5)
    assert np.abs(gradient * [found.discrimination_se, found.discrimination_se, found.guessing_se]).max() < 0.05


def test_guessing_must_be_modelled_where_it_happens_3pl() -> None:
    answers = Answers.of(simulate(2000, 40, 3, "3pl").matrix)
    assert fit_3pl(answers).log_likelihood > fit_2pl(answers).log_likelihood


def test_anchored_items_keep_their_guessing_3pl() -> None:
    truth = simulate(800, 30, 4, "3pl")
    nan = np.full(10, np.nan)
    fixed = Anchors(*(np.append(known[:20], nan) for known in (truth.difficulty, truth.discrimination, truth.guessing)))
    found = fit_3pl(Answers.of(truth.matrix), fixed=fixed)
    np.testing.assert_allclose(found.guessing[:20], truth.guessing[:20])
    assert np.corrcoef(found.difficulty[20:], truth.difficulty[20:])[0, 1] > 0.9
    assert found.parameters == 32


def test_extreme_items_stay_finite_3pl() -> None:
    matrix = simulate(200, 12, 5, "3pl").matrix
    matrix[:, 0], matrix[:, 1] = 1, 0
    found = fit_3pl(Answers.of(matrix))
    assert np.isfinite(found.difficulty).all()
    assert np.isfinite(found.difficulty_se).all()


def test_shares_are_refused_3pl() -> None:
    with pytest.raises(InputError, match=r"3PL needs answers that are right .* use 1pl, 2pl"):
        fit_3pl(Answers.of(np.full((3, 3), 0.5)))


def test_recovers_difficulties_1pl() -> None:
    truth = simulate(1000, 300, 1, "1pl")
    found = fit_rasch(Answers.of(truth.matrix))
    error = found.difficulty - truth.difficulty
    assert np.sqrt(np.mean((error - error.mean()) ** 2)) < 0.09
    assert found.discrimination[0] == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_intervals_cover_1pl(missing: float) -> None:
    inside = []
    for seed in range(25):
        truth = simulate(400, 40, seed, "1pl", missing)
        found = fit_rasch(Answers.of(truth.matrix))
        inside.append(np.abs(found.difficulty - truth.difficulty) < 1.96 * found.difficulty_se)
    assert 0.92 < np.mean(inside) < 0.98


def test_missing_path_equals_complete_path_1pl() -> None:
    answers = Answers.of(simulate(200, 30, 3, "1pl").matrix)
    complete, masked = fit_rasch(answers), fit_rasch(answers.with_mask())
    assert masked.log_likelihood == pytest.approx(complete.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(masked.difficulty, complete.difficulty, atol=1e-6)
    np.testing.assert_allclose(masked.difficulty_se, complete.difficulty_se, rtol=1e-6)


def test_block_missing_data_are_linked_through_common_items_1pl() -> None:
    truth = simulate(1200, 60, 4, "1pl")
    matrix = truth.matrix.copy()
    able = truth.ability > np.median(truth.ability)
    matrix[np.ix_(able, np.arange(60) < 20)] = -1
    matrix[np.ix_(~able, np.arange(60) >= 40)] = -1
    found = fit_rasch(Answers.of(matrix))
    assert np.mean(found.difficulty - truth.difficulty) == pytest.approx(0, abs=0.12)
    assert np.corrcoef(found.difficulty, truth.difficulty)[0, 1] > 0.98


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_order_of_items_and_subjects_does_not_matter_1pl(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = simulate(60, 12, seed, "1pl").matrix
    rows, columns = rng.permutation(60), rng.permutation(12)
    found, shuffled = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(matrix[rows][:, columns]))
    np.testing.assert_allclose(shuffled.difficulty, found.difficulty[columns], atol=1e-7)
    np.testing.assert_allclose(shuffled.difficulty_se, found.difficulty_se[columns], atol=1e-7)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_flipping_answers_negates_difficulty_1pl(seed: int) -> None:
    matrix = simulate(60, 12, seed, "1pl").matrix
    found, flipped = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(1 - matrix))
    np.testing.assert_allclose(flipped.difficulty, -found.difficulty, atol=2e-4)
    assert flipped.log_likelihood == pytest.approx(found.log_likelihood, abs=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_duplicating_subjects_halves_the_variance_1pl(seed: int) -> None:
    matrix = simulate(150, 20, seed, "1pl").matrix
    matrix[0], matrix[1] = 0, 1
    once = fit_rasch(Answers.of(matrix), Priors.none())
    twice = fit_rasch(Answers.of(np.concatenate([matrix, matrix])), Priors.none())
    weighted = fit_rasch(Answers.of(matrix, weights=np.full(150, 2.0)), Priors.none())
    np.testing.assert_allclose(twice.difficulty, once.difficulty, atol=1e-4)
    np.testing.assert_allclose(twice.difficulty_se * np.sqrt(2), once.difficulty_se, rtol=1e-3)
    np.testing.assert_allclose(weighted.difficulty, twice.difficulty, atol=1e-6)
    np.testing.assert_allclose(weighted.difficulty_se, twice.difficulty_se, rtol=1e-6)


def test_weights_undo_copies_1pl() -> None:
    matrix = simulate(200, 20, 5, "1pl").matrix
    copied = np.concatenate([matrix, np.repeat(matrix[:10], 30, axis=0)])
    weights = np.concatenate([np.where(np.arange(200) < 10, 1 / 31, 1.0), np.full(300, 1 / 31)])
    plain, weighted = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(copied, weights=weights))
    np.testing.assert_allclose(weighted.difficulty, plain.difficulty, atol=1e-5)


def test_anchored_items_land_on_the_old_scale_1pl() -> None:
    old = simulate(2000, 40, 6, "1pl")
    first = fit_rasch(Answers.of(old.matrix))
    rng = np.random.default_rng(7)
    b_new = rng.normal(size=15)
    theta = rng.normal(1.0, 0.7, size=2000)
    b = np.concatenate([old.difficulty, b_new])
    matrix = (rng.random((2000, 55)) < 1 / (1 + np.exp(-(theta[:, None] - b)))).astype(np.int8)
    nan = np.full(15, np.nan)
    fixed = Anchors(np.concatenate([first.difficulty, nan]), np.concatenate([first.discrimination, nan]))
    found = fit_rasch(Answers.of(matrix), fixed=fixed)
    assert found.converged
    np.testing.assert_array_equal(found.difficulty[:40], first.difficulty)
    assert np.abs(found.difficulty[40:] - b_new).max() < 0.25
    assert found.ability_mean == pytest.approx(1.0, abs=0.1)
    assert found.ability_sd == pytest.approx(0.7, abs=0.1)
    assert (found.difficulty_se[:40] == 0).all()
    assert (found.difficulty_se[40:] > 0.03).all()


def test_items_that_all_or_none_got_right_1pl() -> None:
    matrix = simulate(300, 20, 8, "1pl").matrix
    matrix[:, 0], matrix[:, 1] = 1, 0
    found = fit_rasch(Answers.of(matrix))
    assert found.difficulty[0] == found.difficulty.min()
    assert found.difficulty[1] == found.difficulty.max()
    assert np.isfinite(found.difficulty_se).all()
    assert found.difficulty_se[0] > 5 * np.median(found.difficulty_se)
    without = fit_rasch(Answers.of(matrix), Priors.none())
    assert without.difficulty[0] == -np.inf
    assert without.difficulty[1] == np.inf
    assert np.isfinite(without.difficulty[2:]).all()


def test_items_and_subjects_without_answers_are_left_out_1pl() -> None:
    matrix = simulate(100, 10, 9, "1pl").matrix
    gaps = np.full((101, 11), -1, dtype=np.int8)
    gaps[:100, :10] = matrix
    plain, found = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(gaps))
    assert np.isnan(found.difficulty[10])
    assert np.isnan(found.difficulty_se[10])
    np.testing.assert_allclose(found.difficulty[:10], plain.difficulty)
    assert found.log_likelihood == pytest.approx(plain.log_likelihood)


def test_subjects_that_do_not_differ_still_give_finite_difficulties_1pl() -> None:
    matrix = np.tile(np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=np.int8), (30, 1))
    found = fit_rasch(Answers.of(matrix))
    assert np.isfinite(found.difficulty).all()


@pytest.mark.parametrize(
    ("matrix", "says"),
    [(np.array([[1, 0, 1]]), "2 subjects"), (np.array([[1], [0]]), "2 items"), (np.full((2, 2), -1), "2 subjects")],
)
def test_too_little_data_is_refused_1pl(matrix: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says):
        fit_rasch(Answers.of(matrix))


def test_bad_anchors_are_refused_1pl() -> None:
    answers = Answers.of(simulate(50, 4, 1).matrix)
    nan = np.nan
    with pytest.raises(InputError, match="share one discrimination"):
        fit_rasch(answers, fixed=Anchors(np.array([0, 1, nan, nan]), np.array([1, 2, nan, nan])))
    with pytest.raises(InputError, match="not both"):
        fit_rasch(answers, fixed=Anchors(np.array([0, 1, nan, nan]), np.array([1, nan, nan, nan])))
    with pytest.raises(InputError, match="nothing to calibrate"):
        fit_rasch(answers, fixed=Anchors(np.zeros(4), np.ones(4)))
    with pytest.raises(InputError, match="one value per item"):
        fit_rasch(answers, fixed=Anchors(np.zeros(3), np.ones(3)))


def brute_force(matrix: np.ndarray, a: np.ndarray, d: np.ndarray) -> float:
    """Marginal log-likelihood by adaptive numerical integration, missing cells skipped."""
    total = 0.0
    for row in matrix:
        seen = row >= 0

        def density(theta: float, row: np.ndarray = row, seen: np.ndarray = seen) -> float:
            p = 1 / (1 + np.exp(-(a[seen] * theta + d[seen])))
            value = np.prod(np.where(row[seen] == 1, p, 1 - p)) * np.exp(-(theta**2) / 2) / np.sqrt(2 * np.pi)
            return float(value)

        total += np.log(integrate.quad(density, -9, 9, epsabs=1e-12, limit=200)[0])
    return float(total)


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_estimates_maximise_the_likelihood_found_by_brute_force_2pl(missing: float) -> None:
    matrix = simulate(200, 4, 12, "2pl", missing).matrix
    matrix = matrix[(matrix >= 0).any(axis=1)]
    priors = Priors(intercept_sd=2.0, slope_ratio=None)
    found = fit_2pl(Answers.of(matrix), priors)
    a, d = found.discrimination, -found.discrimination * found.difficulty
    assert found.log_likelihood == pytest.approx(brute_force(matrix, a, d), abs=1e-4)

    def posterior(point: np.ndarray) -> float:
        slope, intercept = point[:4], point[4:]
        mean = -(slope @ intercept) / (slope @ slope)
        prior = np.sum((intercept + slope * mean) ** 2) / (2 * 2.0**2)
        return brute_force(matrix, slope, intercept) - float(prior)

    gradient = optimize.approx_fprime(np.concatenate([a, d]), posterior, 1e-4)
    assert np.abs(gradient).max() < 0.02


def test_recovers_parameters_2pl() -> None:
    truth = simulate(1000, 200, 12)
    found = fit_2pl(Answers.of(truth.matrix))
    error = found.difficulty - truth.difficulty
    assert np.sqrt(np.mean((error - error.mean()) ** 2)) < 0.13
    assert np.sqrt(np.mean((found.discrimination - truth.discrimination) ** 2)) < 0.15
    assert np.corrcoef(found.difficulty, truth.difficulty)[0, 1] > 0.99


def test_more_parameters_fit_better_2pl() -> None:
    answers = Answers.of(simulate(400, 40, 13).matrix)
    assert fit_2pl(answers).log_likelihood > fit_rasch(answers).log_likelihood


@pytest.mark.slow
@pytest.mark.parametrize("typical", [0.5, 3.0])
def test_intervals_cover_whatever_the_slopes_2pl(typical: float) -> None:
    assert 0.92 < coverage_by_slope(typical, 300, 500, 5) < 0.98


@pytest.mark.slow
@pytest.mark.parametrize(("n", "j", "missing", "repeats"), [(400, 30, 0.0, 25), (400, 30, 0.3, 25), (500, 250, 0.0, 8)])
def test_intervals_cover_2pl(n: int, j: int, missing: float, repeats: int) -> None:
    difficulty, slope = [], []
    for seed in range(repeats):
        truth = simulate(n, j, seed, "2pl", missing)
        found = fit_2pl(Answers.of(truth.matrix))
        difficulty.append(np.abs(found.difficulty - truth.difficulty) < 1.96 * found.difficulty_se)
        slope.append(np.abs(found.discrimination - truth.discrimination) < 1.96 * found.discrimination_se)
    assert 0.92 < np.mean(difficulty) < 0.98
    assert 0.92 < np.mean(slope) < 0.98


def test_single_precision_and_blocks_change_no_reported_digit_2pl(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = simulate(400, 150, 15, "2pl", 0.2).matrix
    double = fit_2pl(Answers.of(matrix))
    monkeypatch.setattr(answers_module, "SMALL_CELLS", 0)
    monkeypatch.setattr(answers_module, "DOUBLE_CELLS", 0)
    monkeypatch.setattr(answers_module, "BLOCK_CELLS", 5000)
    single = fit_2pl(Answers.of(matrix))
    assert single.log_likelihood == pytest.approx(double.log_likelihood, abs=1e-3)
    assert (np.abs(single.difficulty - double.difficulty) < 2e-3 * double.difficulty_se).all()
    assert (np.abs(single.discrimination - double.discrimination) < 2e-3 * double.discrimination_se).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_order_of_items_and_subjects_does_not_matter_2pl(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = simulate(80, 12, seed, "2pl", 0.1).matrix
    rows, columns = rng.permutation(80), rng.permutation(12)
    found, shuffled = fit_2pl(Answers.of(matrix)), fit_2pl(Answers.of(matrix[rows][:, columns]))
    np.testing.assert_allclose(shuffled.discrimination, found.discrimination[columns], atol=1e-5)
    np.testing.assert_allclose(shuffled.discrimination_se, found.discrimination_se[columns], rtol=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_missing_path_equals_complete_path_2pl(seed: int) -> None:
    answers = Answers.of(simulate(100, 15, seed).matrix)
    complete, masked = fit_2pl(answers), fit_2pl(answers.with_mask())
    assert masked.log_likelihood == pytest.approx(complete.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(masked.discrimination, complete.discrimination, atol=2e-5)


def test_a_wrong_key_shows_as_negative_discrimination_2pl() -> None:
    truth = simulate(600, 30, 16)
    matrix = truth.matrix.copy()
    matrix[:, 3] = 1 - matrix[:, 3]
    found = fit_2pl(Answers.of(matrix))
    assert found.discrimination[3] < -0.4
    assert (np.delete(found.discrimination, 3) > 0).all()
    assert found.difficulty[3] == pytest.approx(truth.difficulty[3], abs=0.4)
    assert np.isfinite(found.difficulty_se).all()


def test_scale_points_the_way_most_items_do_2pl() -> None:
    matrix = simulate(300, 10, 17).matrix
    matrix[:, :3] = 1 - matrix[:, :3]
    found = fit_2pl(Answers.of(matrix))
    assert (found.discrimination > 0).sum() == 7


def test_anchored_items_land_on_the_old_scale_2pl() -> None:
    truth = simulate(1500, 50, 18)
    nan = np.full(20, np.nan)
    fixed = Anchors(np.append(truth.difficulty[:30], nan), np.append(truth.discrimination[:30], nan))
    rng = np.random.default_rng(19)
    theta = rng.normal(-0.8, 1.3, size=1500)
    p = 1 / (1 + np.exp(-truth.discrimination * (theta[:, None] - truth.difficulty)))
    found = fit_2pl(Answers.of((rng.random(p.shape) < p).astype(np.int8)), fixed=fixed)
    assert found.converged
    np.testing.assert_array_equal(found.discrimination[:30], truth.discrimination[:30])
    inside = np.abs(found.difficulty - truth.difficulty)[30:] < 3 * found.difficulty_se[30:]
    assert inside.all()
    assert found.ability_mean == pytest.approx(-0.8, abs=0.12)
    assert found.ability_sd == pytest.approx(1.3, abs=0.12)


def test_shares_are_fitted_like_answers_2pl() -> None:
    truth = simulate(300, 20, 20)
    found = fit_2pl(Answers.of(truth.matrix * 0.999999 + 0.0000005))
    plain = fit_2pl(Answers.of(truth.matrix))
    np.testing.assert_allclose(found.difficulty, plain.difficulty, atol=1e-3)


def test_extreme_items_and_few_subjects_stay_finite_2pl() -> None:
    matrix = simulate(12, 30, 21).matrix
    matrix[:, 0], matrix[:, 1] = 1, 0
    found = fit_2pl(Answers.of(matrix))
    assert np.isfinite(found.difficulty).all()
    assert np.isfinite(found.difficulty_se).all()


def test_items_with_guessing_cannot_be_anchors_here_2pl() -> None:
    answers = Answers.of(simulate(50, 3, 22).matrix)
    nan = np.nan
    with pytest.raises(InputError, match="no guessing"):
        fit_2pl(answers, fixed=Anchors(np.array([0, nan, nan]), np.array([1, nan, nan]), np.array([0.2, nan, nan])))


def test_leaderboard_2pl(leaderboard: Any) -> None:
    answers = Answers.of(leaderboard[::6])
    one, two = fit_rasch(answers, errors=False), fit_2pl(answers, errors=False)
    assert one.converged
    assert two.converged
    assert two.log_likelihood > one.log_likelihood + 1000
    assert np.isfinite(two.difficulty).all()

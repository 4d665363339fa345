from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.errors import InputError
from breadth.irt import (
    MODELS,
    Answers,
    Parameters,
    diagnostics,
    distinct_patterns,
    fit_statistics,
    point_biserial,
    residual_dimension,
    score,
)


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_mean_squares_by_hand(missing: float) -> None:
    truth = simulate(50, 12, 1, "3pl", missing)
    matrix = truth.matrix
    p = truth.guessing + (1 - truth.guessing) / (
        1 + np.exp(-truth.discrimination * (truth.ability[:, None] - truth.difficulty))
    )
    seen, square, variance = matrix >= 0, (matrix - p) ** 2, p * (1 - p)
    items = Parameters.of(truth.difficulty, truth.discrimination, truth.guessing)
    fit = fit_statistics(Answers.of(matrix), items, truth.ability)
    for axis, found in ((0, fit.items), (1, fit.subjects)):
        infit = np.where(seen, square, 0).sum(axis=axis) / np.where(seen, variance, 0).sum(axis=axis)
        outfit = np.where(seen, square / variance, 0).sum(axis=axis) / seen.sum(axis=axis)
        np.testing.assert_allclose(found.infit, infit, rtol=1e-4)
        np.testing.assert_allclose(found.outfit, outfit, rtol=1e-4)


def test_data_from_the_model_fit_and_random_answers_do_not() -> None:
    truth = simulate(1000, 40, 2)
    matrix = truth.matrix.copy()
    matrix[:, 0] = np.random.default_rng(3).integers(0, 2, size=1000)
    found = fit_statistics(Answers.of(matrix), Parameters.of(truth.difficulty, truth.discrimination), truth.ability)
    assert found.items.infit[0] > 1.2
    assert np.abs(found.items.infit[1:] - 1).max() < 0.15
    assert found.subjects.infit.mean() == pytest.approx(1.0, abs=0.05)
    assert abs(found.point_biserial[0]) < 0.1


@pytest.mark.parametrize("kind", ["complete", "missing", "shares"])
def test_point_biserial_by_hand(kind: str) -> None:
    matrix = simulate(80, 9, 4, "2pl", 0.3 if kind == "missing" else 0.0).matrix.astype(float)
    if kind == "shares":
        matrix = np.clip(matrix * 0.8 + np.random.default_rng(5).random(matrix.shape) * 0.2, 0, 1)
    matrix[matrix < 0] = np.nan
    found = point_biserial(Answers.of(matrix))
    for item in range(9):
        rest = np.nanmean(np.delete(matrix, item, axis=1), axis=1)
        keep = np.isfinite(matrix[:, item]) & np.isfinite(rest)
        assert found[item] == pytest.approx(np.corrcoef(matrix[keep, item], rest[keep])[0, 1], abs=1e-6)


@pytest.mark.parametrize("kind", ["missing", "shares"])
def test_point_biserial_beyond_what_is_expected_by_hand(kind: str) -> None:
    matrix = simulate(80, 9, 4, "2pl", 0.3).matrix.astype(float)
    matrix[matrix < 0] = np.nan
    if kind == "shares":
        matrix = np.clip(matrix * 0.8 + np.random.default_rng(5).random(matrix.shape) * 0.2, 0, 1)
    expected = np.linspace(0.1, 0.9, 9)
    found = point_biserial(Answers.of(matrix), expected)
    for item in range(9):
        rest = np.nanmean(np.delete(matrix - expected, item, axis=1), axis=1)
        keep = np.isfinite(matrix[:, item]) & np.isfinite(rest)
        assert found[item] == pytest.approx(np.corrcoef(matrix[keep, item], rest[keep])[0, 1], abs=1e-6)


def test_items_without_variation_or_answers_have_no_value() -> None:
    matrix = simulate(30, 6, 6).matrix
    matrix[:, 0], matrix[:, 1] = 1, -1
    answers = Answers.of(matrix)
    correlation = point_biserial(answers)
    assert np.isnan(correlation[:2]).all()
    assert np.isfinite(correlation[2:]).all()
    items = Parameters.of(np.where(np.arange(6) == 2, np.nan, 0.0), np.ones(6))
    found = fit_statistics(answers, items, np.zeros(30))
    assert np.isnan(found.items.infit[1:3]).all()
    assert np.isfinite(found.subjects.outfit).all()


def test_lengths_must_agree() -> None:
    answers = Answers.of(simulate(5, 4, 7).matrix)
    with pytest.raises(InputError, match="5 subjects but 4 abilities"):
        fit_statistics(answers, Parameters.of(np.zeros(4), np.ones(4)), np.zeros(4))
    with pytest.raises(InputError, match="4 items but parameters of 3"):
        fit_statistics(answers, Parameters.of(np.zeros(3), np.ones(3)), np.zeros(5))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_share_is_the_largest_singular_value(missing: float) -> None:
    rng = np.random.default_rng(1)
    truth = simulate(120, 40, 1, "2pl", missing)
    matrix = truth.matrix.copy()
    halo = rng.normal(size=120)[:, None] > 0
    matrix[:, :15] = np.where((rng.random((120, 15)) < 0.7) & (matrix[:, :15] >= 0), halo, matrix[:, :15])
    p = 1 / (1 + np.exp(-truth.discrimination * (truth.ability[:, None] - truth.difficulty)))
    z = np.where(matrix >= 0, np.clip((matrix - p) / np.sqrt(p * (1 - p)), -5, 5), 0)
    _, values, vectors = np.linalg.svd(z)
    found = residual_dimension(Answers.of(matrix), Parameters.of(truth.difficulty, truth.discrimination), truth.ability)
    assert found.share == pytest.approx(values[0] ** 2 / (values**2).sum(), rel=1e-3)
    assert abs(found.loadings @ vectors[0]) > 0.99
    assert found.ratio == pytest.approx(found.share / found.expected)


def test_one_dimension_is_told_from_two() -> None:
    truth = simulate(600, 80, 2)
    answers = Answers.of(truth.matrix)
    rng = np.random.default_rng(3)
    second = rng.normal(size=600)
    theta = np.where(np.arange(80) < 40, truth.ability[:, None], second[:, None])
    matrix = (rng.random((600, 80)) < 1 / (1 + np.exp(-(theta - truth.difficulty)))).astype(np.int8)
    ratios = []
    for data in (answers, Answers.of(matrix)):
        items = MODELS["2pl"].fit(data, errors=False).items
        ratios.append(residual_dimension(data, items, score(data, items).ability).ratio)
    assert ratios[0] < 1.2
    assert ratios[1] > 2


def test_unknown_items_have_no_dimension() -> None:
    answers = Answers.of(simulate(5, 4, 4).matrix)
    assert np.isnan(residual_dimension(answers, Parameters.of(np.full(4, np.nan), np.ones(4)), np.zeros(5)).share)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_copies_are_found_and_weighted(missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "BLOCK_SUBJECTS", 16)
    truth = simulate(60, 200, 1, "2pl", missing)
    matrix = np.concatenate([truth.matrix, truth.matrix[:3], truth.matrix[:1]])
    changed = np.random.default_rng(2).choice(200, size=6, replace=False)
    matrix[60, changed] = np.where(matrix[60, changed] >= 0, 1 - matrix[60, changed], -1)
    ability = np.concatenate([truth.ability, truth.ability[:3], truth.ability[:1]])
    found = distinct_patterns(Answers.of(matrix), Parameters.of(truth.difficulty, truth.discrimination), ability)
    assert found.distinct == 61
    assert {tuple(pair) for pair in found.pairs} == {(0, 60), (0, 63), (60, 63), (1, 61), (2, 62)}
    assert found.weights[0] == pytest.approx(1 / 3)
    assert found.weights[61] == pytest.approx(1 / 2)
    assert found.weights[10] == 1
    assert found.cluster[0] == found.cluster[60] == found.cluster[63]
    assert found.weights.sum() == pytest.approx(60)
    exact = found.agreement[[tuple(pair) == (1, 61) for pair in found.pairs]]
    assert exact == pytest.approx(1.0)


def test_agreement_that_ability_explains_is_no_copying() -> None:
    rng = np.random.default_rng(3)
    b = rng.normal(size=300)
    theta = np.full(40, 4.0)
    matrix = (rng.random((40, 300)) < 1 / (1 + np.exp(-2 * (theta[:, None] - b)))).astype(np.int8)
    found = distinct_patterns(Answers.of(matrix), Parameters.of(b, np.full(300, 2.0)), theta)
    assert len(found.pairs) == 0
    assert (found.weights == 1).all()


def test_few_common_items_prove_nothing() -> None:
    matrix = np.tile(np.array([1, 0] * 5, dtype=np.int8), (2, 1))
    found = distinct_patterns(Answers.of(matrix), Parameters.of(np.zeros(10), np.ones(10)), np.zeros(2))
    assert found.distinct == 1
    assert len(found.pairs) == 0


def test_copies_need_right_or_wrong_answers() -> None:
    with pytest.raises(InputError, match="right or wrong"):
        distinct_patterns(Answers.of(np.full((2, 2), 0.5)), Parameters.of(np.zeros(2), np.ones(2)), np.zeros(2))

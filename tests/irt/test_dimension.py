from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.irt import Answers, fit_2pl, residual_dimension, score


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
    found = residual_dimension(Answers.of(matrix), truth.difficulty, truth.discrimination, truth.ability)
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
        fit = fit_2pl(data, errors=False)
        ability = score(data, fit.difficulty, fit.discrimination).ability
        ratios.append(residual_dimension(data, fit.difficulty, fit.discrimination, ability).ratio)
    assert ratios[0] < 1.2
    assert ratios[1] > 2


def test_nothing_known_gives_nothing() -> None:
    answers = Answers.of(simulate(5, 4, 4).matrix)
    assert np.isnan(residual_dimension(answers, np.full(4, np.nan), np.ones(4), np.zeros(5)).share)

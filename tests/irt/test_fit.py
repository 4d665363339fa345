from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.errors import InputError
from breadth.irt import Answers, fit_statistics, item_fit, point_biserial, subject_fit


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_mean_squares_by_hand(missing: float) -> None:
    truth = simulate(50, 12, 1, "3pl", missing)
    matrix = truth.matrix
    p = truth.guessing + (1 - truth.guessing) / (
        1 + np.exp(-truth.discrimination * (truth.ability[:, None] - truth.difficulty))
    )
    seen, square, variance = matrix >= 0, (matrix - p) ** 2, p * (1 - p)
    arguments = (Answers.of(matrix), truth.difficulty, truth.discrimination, truth.ability, truth.guessing)
    items, subjects = item_fit(*arguments), subject_fit(*arguments)
    for axis, found in ((0, items), (1, subjects)):
        infit = np.where(seen, square, 0).sum(axis=axis) / np.where(seen, variance, 0).sum(axis=axis)
        outfit = np.where(seen, square / variance, 0).sum(axis=axis) / seen.sum(axis=axis)
        np.testing.assert_allclose(found.infit, infit, rtol=1e-4)
        np.testing.assert_allclose(found.outfit, outfit, rtol=1e-4)


def test_data_from_the_model_fit_and_random_answers_do_not() -> None:
    truth = simulate(1000, 40, 2)
    matrix = truth.matrix.copy()
    matrix[:, 0] = np.random.default_rng(3).integers(0, 2, size=1000)
    found = fit_statistics(Answers.of(matrix), truth.difficulty, truth.discrimination, truth.ability)
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


def test_items_without_variation_or_answers_have_no_value() -> None:
    matrix = simulate(30, 6, 6).matrix
    matrix[:, 0], matrix[:, 1] = 1, -1
    answers = Answers.of(matrix)
    correlation = point_biserial(answers)
    assert np.isnan(correlation[:2]).all()
    assert np.isfinite(correlation[2:]).all()
    found = fit_statistics(answers, np.where(np.arange(6) == 2, np.nan, 0.0), np.ones(6), np.zeros(30))
    assert np.isnan(found.items.infit[1:3]).all()
    assert np.isfinite(found.subjects.outfit).all()


def test_lengths_must_agree() -> None:
    answers = Answers.of(simulate(5, 4, 7).matrix)
    with pytest.raises(InputError, match="5 values of ability"):
        item_fit(answers, np.zeros(4), np.ones(4), np.zeros(4))

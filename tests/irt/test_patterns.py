from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.errors import InputError
from breadth.irt import Answers, distinct_patterns
from breadth.irt import patterns as module


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_copies_are_found_and_weighted(missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_SUBJECTS", 16)
    truth = simulate(60, 200, 1, "2pl", missing)
    matrix = np.concatenate([truth.matrix, truth.matrix[:3], truth.matrix[:1]])
    changed = np.random.default_rng(2).choice(200, size=6, replace=False)
    matrix[60, changed] = np.where(matrix[60, changed] >= 0, 1 - matrix[60, changed], -1)
    ability = np.concatenate([truth.ability, truth.ability[:3], truth.ability[:1]])
    found = distinct_patterns(Answers.of(matrix), truth.difficulty, truth.discrimination, ability)
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
    found = distinct_patterns(Answers.of(matrix), b, np.full(300, 2.0), theta)
    assert len(found.pairs) == 0
    assert (found.weights == 1).all()


def test_few_common_items_prove_nothing() -> None:
    matrix = np.tile(np.array([1, 0] * 5, dtype=np.int8), (2, 1))
    found = distinct_patterns(Answers.of(matrix), np.zeros(10), np.ones(10), np.zeros(2))
    assert found.distinct == 1
    assert len(found.pairs) == 0


def test_shares_are_refused() -> None:
    with pytest.raises(InputError, match="right or wrong"):
        distinct_patterns(Answers.of(np.full((2, 2), 0.5)), np.zeros(2), np.ones(2), np.zeros(2))

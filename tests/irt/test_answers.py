from __future__ import annotations

import numpy as np
import pytest

from breadth.errors import InputError
from breadth.irt import Answers
from breadth.irt import answers as module


def matrix_with_gaps(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, size=(40, 23)).astype(np.int8)


def test_all_ways_to_write_answers_are_read_alike() -> None:
    matrix = matrix_with_gaps()
    as_float = np.where(matrix < 0, np.nan, matrix.astype(float))
    for other in (as_float, matrix.astype(np.int64), as_float.astype(np.float32)):
        read = Answers.of(other)
        assert not read.fractional
        np.testing.assert_array_equal(read.right, matrix == 1)
        np.testing.assert_array_equal(read.seen, matrix >= 0)
    whole = np.abs(matrix)
    np.testing.assert_array_equal(Answers.of(whole.astype(bool)).right, whole)
    assert Answers.of(whole).complete


def test_margins_count_answers() -> None:
    matrix = matrix_with_gaps()
    read = Answers.of(matrix)
    np.testing.assert_array_equal(read.subject_sums, (matrix == 1).sum(axis=1))
    np.testing.assert_array_equal(read.item_sums, (matrix == 1).sum(axis=0))
    np.testing.assert_array_equal(read.subject_counts, (matrix >= 0).sum(axis=1))
    np.testing.assert_array_equal(read.item_counts, (matrix >= 0).sum(axis=0))


@pytest.mark.parametrize("in_blocks", [False, True])
def test_products_are_those_of_the_dense_matrix(monkeypatch: pytest.MonkeyPatch, in_blocks: bool) -> None:
    if in_blocks:
        monkeypatch.setattr(module, "SMALL_CELLS", 0)
        monkeypatch.setattr(module, "DOUBLE_CELLS", 0)
        monkeypatch.setattr(module, "BLOCK_CELLS", 100)
    matrix = matrix_with_gaps()
    read = Answers.of(matrix)
    rng = np.random.default_rng(1)
    per_item, per_subject = rng.normal(3, 1, size=(23, 4)), rng.normal(3, 1, size=(40, 4))
    right, seen = (matrix == 1).astype(float), (matrix >= 0).astype(float)
    close = {"rtol": 1e-5, "atol": 1e-5} if in_blocks else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(read.sums(per_item), right @ per_item, **close)
    np.testing.assert_allclose(read.sums(per_item, seen=True), seen @ per_item, **close)
    np.testing.assert_allclose(read.sums(per_subject, axis=0), right.T @ per_subject, **close)
    np.testing.assert_allclose(read.sums(per_subject, axis=0, seen=True), seen.T @ per_subject, **close)
    for cells, dense in ((read.right, right), (read.seen, seen)):
        np.testing.assert_array_equal(np.concatenate([block.copy() for _, block in read.blocks(cells)]), dense)


def test_single_precision_keeps_the_digits_that_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    matrix = (rng.random((50, 4000)) < 0.6).astype(np.int8)
    slopes = np.exp(rng.normal(0, 0.3, size=(4000, 1)))
    exact = matrix @ slopes
    monkeypatch.setattr(module, "DOUBLE_CELLS", 0)
    single = Answers.of(matrix)
    assert single.dtype is np.float32
    np.testing.assert_allclose(single.sums(slopes), exact, atol=1e-3)


def test_part_keeps_what_was_asked_for_and_notices_that_it_is_complete() -> None:
    matrix = np.array([[1, 0, -1], [0, 1, -1], [1, 1, 0]], dtype=np.int8)
    part = Answers.of(matrix).part(np.ones(3, dtype=bool), np.array([True, True, False]))
    assert part.complete
    np.testing.assert_array_equal(part.item_sums, [2, 2])


def test_weights_count_subjects_more_or_less_than_once() -> None:
    matrix, weights = matrix_with_gaps(), np.random.default_rng(1).random(40)
    read = Answers.of(matrix, weights=weights)
    np.testing.assert_allclose(read.weighted_item_sums, weights @ (matrix == 1))
    np.testing.assert_array_equal(read.item_sums, (matrix == 1).sum(axis=0))
    rows = np.arange(40) < 30
    part = read.part(rows, np.ones(23, dtype=bool))
    np.testing.assert_allclose(part.weighted_item_sums, weights[rows] @ (matrix[rows] == 1))


def test_a_mask_that_is_spelled_out_changes_no_sum() -> None:
    read = Answers.of(np.abs(matrix_with_gaps()))
    masked, table = read.with_mask(), np.random.default_rng(1).normal(size=(23, 2))
    assert masked.seen is not None
    assert not masked.complete
    np.testing.assert_allclose(masked.sums(table, seen=True), read.sums(table, seen=True))
    np.testing.assert_array_equal(masked.sums(table), read.sums(table))


def test_shares_are_kept() -> None:
    read = Answers.of(np.array([[0.25, np.nan], [1.0, 0.5]]))
    assert read.fractional
    np.testing.assert_allclose(read.item_sums, [1.25, 0.5])


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (np.array([[2, 0], [1, 1]]), "range from 0 to 2"),
        (np.array([[1.5, 0.0]]), "between 0 and 1"),
        (np.array([[np.inf, 0.0]]), "between 0 and 1"),
        (np.zeros((0, 4)), "empty"),
        (np.zeros(4), "matrix"),
        (np.array([["a", "b"]], dtype=object), "numbers"),
    ],
)
def test_bad_matrices_are_refused(matrix: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Answers.of(matrix)


def test_bad_weights_are_refused() -> None:
    matrix = np.ones((2, 2), dtype=np.int8)
    with pytest.raises(InputError, match="3 weights"):
        Answers.of(matrix, weights=np.ones(3))
    with pytest.raises(InputError, match="not negative"):
        Answers.of(matrix, weights=np.array([1.0, -1.0]))

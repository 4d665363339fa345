import itertools

import numpy as np
import pytest

from breadth.stats import compare_groups, pair_indices


def matrices(generator, groups, m):
    return np.tanh(0.5 * generator.standard_normal((groups, m * (m - 1) // 2)))


def brute_force(x, y, m):
    a, b = pair_indices(m)
    square = np.zeros((m, m))
    square[a, b] = square[b, a] = y
    observed = np.corrcoef(x, y)[0, 1]
    others = [np.corrcoef(x, square[np.ix_(order, order)][a, b])[0, 1] for order in itertools.permutations(range(m))]
    return observed, np.mean(np.array(others) >= observed - 1e-12)


def test_equals_brute_force_over_all_relabellings():
    r = matrices(np.random.default_rng(0), 3, 5)
    found = compare_groups(r, np.arctanh(r), 5)
    for i, (first, second) in enumerate(zip(found.first, found.second, strict=True)):
        similarity, p = brute_force(np.arctanh(r[first]), np.arctanh(r[second]), 5)
        assert found.similarity[i] == pytest.approx(similarity)
        assert found.p[i] == pytest.approx(p)
        assert found.difference[i] == pytest.approx(np.abs(r[first] - r[second]).mean())


def test_same_structure_is_found_and_none_is_not():
    generator = np.random.default_rng(1)
    shared = matrices(generator, 1, 9)
    alike = np.tanh(np.arctanh(shared) + 0.1 * generator.standard_normal((2, shared.shape[1])))
    assert compare_groups(alike, np.arctanh(alike), 9).p[0] < 0.01
    unlike = matrices(generator, 40, 6)
    assert np.mean(compare_groups(unlike, np.arctanh(unlike), 6).p < 0.05) == pytest.approx(0.05, abs=0.03)


def test_test_sets_without_numbers_are_left_out():
    r = matrices(np.random.default_rng(2), 3, 6)
    a, b = pair_indices(6)
    r[0, (a == 2) | (b == 2)] = np.nan
    r[1, (a < 3)] = np.nan
    found = compare_groups(r, np.arctanh(r), 6)
    assert found.facets.tolist() == [3, 5, 3]
    assert np.isnan(found.similarity[0])
    keep = (a != 2) & (b != 2)
    assert found.similarity[1] == pytest.approx(np.corrcoef(np.arctanh(r[0][keep]), np.arctanh(r[2][keep]))[0, 1])


def test_no_groups():
    assert compare_groups(np.zeros((0, 3)), np.zeros((0, 3)), 3).p.size == 0

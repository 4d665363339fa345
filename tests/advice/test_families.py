"""Families of reference models: recognised, thinned, and how far errors for another family reach."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from breadth.advice.families import (
    find_families,
    limit_to_families,
    mean_of_families,
    reach_to_another,
    thin_families,
)
from breadth.errors import InputError


def test_reach_is_the_t_interval_of_the_formula():
    errors = np.array([1.0, 3.0, -2.0, 0.5, 4.0, -1.0])
    family = np.array([0, 0, 1, 1, 2, 3])
    squares = [np.mean(errors[family == k] ** 2) for k in range(4)]
    df = np.sum(squares) ** 2 / np.sum(np.square(squares)) - 1
    # Two degrees of freedom at least: 16 of the sum of 26 come from one family.
    expected = stats.t.ppf(0.975, max(df, 2)) * np.sqrt(np.mean(squares) * (1 + 1 / 4))
    assert reach_to_another(errors, family) == pytest.approx(expected)
    assert mean_of_families(errors**2, family) == pytest.approx(squares)
    assert reach_to_another(np.zeros(6), family) == 0


def test_a_family_counts_once_however_many_models_it_has():
    errors, family = np.array([1.0, -2.0, 3.0, 0.5]), np.arange(4)
    many = np.repeat(errors, [1000, 1, 1, 1]), np.repeat(family, [1000, 1, 1, 1])
    assert reach_to_another(*many) == pytest.approx(reach_to_another(errors, family))


@pytest.mark.parametrize("families", [5, 10, 40])
def test_intervals_cover_the_error_of_another_family(families):
    generator = np.random.default_rng(families)
    covered = []
    for _ in range(300):
        shift = generator.normal(0, 1, families + 1)
        size = generator.geometric(0.2, families)
        family = np.repeat(np.arange(families), size)
        errors = shift[family] + generator.normal(0, 0.5, len(family))
        new = shift[-1] + generator.normal(0, 0.5, 20)
        covered.append(np.mean(np.abs(new) <= reach_to_another(errors, family)))
    # Families are of two kinds of spread together, so few of them are given more than they need.
    assert 0.925 < np.mean(covered) < 0.995


def test_the_largest_families_are_thinned_first():
    family = np.repeat([0, 1, 2, 3], [500, 60, 5, 1])
    kept = thin_families(family, 100)
    assert len(kept) <= 100
    assert (np.diff(kept) > 0).all()
    counts = np.bincount(family[kept])
    assert counts[2:].tolist() == [5, 1]
    assert abs(counts[0] - counts[1]) <= 1
    assert thin_families(family, 1000).tolist() == list(range(566))
    assert len(thin_families(np.arange(50), 10)) == 10


MODELS = pl.DataFrame({"model": [f"m{k}" for k in range(20)], "family": [f"f{k % 5}" for k in range(20)]})


def test_a_column_of_families_is_recognised_named_or_turned_off():
    names = MODELS["model"].to_list()
    found, warnings = find_families(MODELS, names, None, "t")
    assert found is not None
    assert (found.column, found.codes.tolist()) == ("family", [k % 5 for k in range(20)])
    assert "--cluster none" in warnings[0]
    assert find_families(MODELS, names, "none", "t") == (None, [])
    named, silent = find_families(MODELS.rename({"family": "kind"}), names, "kind", "t")
    assert named is not None
    assert silent == []
    with pytest.raises(InputError, match=r"there is no column 'famly'.*Did you mean family"):
        find_families(MODELS, names, "famly", "t")


def test_too_few_families_are_refused_if_asked_for_and_else_not_used():
    few = MODELS.with_columns(family=pl.Series([f"f{k % 3}" for k in range(20)]))
    with pytest.raises(InputError, match=r'cluster="family" has 3 values; .*at least 4'):
        find_families(few, few["model"].to_list(), "family", "t")
    assert find_families(few, few["model"].to_list(), None, "t") == (None, [])


def test_models_of_unknown_family_are_not_learnt_from():
    family = [None if k in (3, 7) else f"f{k % 5}" for k in range(20)]
    found, warnings = find_families(MODELS.with_columns(family=pl.Series(family)), [], None, "t")
    assert found is not None
    assert np.flatnonzero(~found.known).tolist() == [3, 7]
    assert warnings[0].startswith("2 models of unknown family")
    usable = np.arange(20) < 15
    rows, codes, _ = limit_to_families(found, usable, 10, None, "t")
    assert np.flatnonzero(rows).tolist() == [k for k in range(15) if k not in (3, 7)]
    assert codes is not None
    assert np.unique(codes).tolist() == [0, 1, 2, 3, 4]
    mostly = [f"f{k % 5}" if k < 8 else "?" for k in range(20)]
    assert find_families(MODELS.with_columns(family=pl.Series(mostly)), [], None, "t") == (None, [])


def test_families_that_are_too_few_among_usable_models_are_given_up_or_refused():
    found, _ = find_families(MODELS, [], None, "t")
    usable = np.isin(np.arange(20) % 5, [0, 1, 2])
    rows, codes, warnings = limit_to_families(found, usable, 10, None, "t")
    assert codes is None
    assert (rows == usable).all()
    assert "taken as independent" in warnings[0]
    with pytest.raises(InputError, match="12 models of 3 known families"):
        limit_to_families(found, usable, 10, "family", "t")


def test_names_that_show_families_are_warned_about_but_not_used():
    names = ["Qwen2.5-7B", "Qwen2.5-14B", "gemma-2-9b", "gemma-2-27b"]
    found, warnings = find_families(pl.DataFrame({"model": names}), names, None, "t")
    assert found is None
    assert "qwen-2.5 (2)" in warnings[0]
    assert find_families(pl.DataFrame({"model": ["a", "b"]}), ["a", "b"], None, "t") == (None, [])

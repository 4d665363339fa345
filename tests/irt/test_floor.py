from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.irt import MODELS, Answers, Priors, check_floor


def guessed(chance: float, subjects: int = 300, items: int = 40, seed: int = 0) -> np.ndarray:
    """Answers of subjects that guess where they do not know."""
    generator = np.random.default_rng(seed)
    known = 1 / (1 + np.exp(generator.normal(0.5, 1, items) - generator.standard_normal((subjects, 1))))
    return (generator.random(known.shape) < chance + (1 - chance) * known).astype(np.int8)


@pytest.mark.parametrize("model", ["1pl", "2pl"])
@pytest.mark.parametrize("chance", [0.2, 0.5])
def test_subjects_that_guess_get_a_floor(model: str, chance: float) -> None:
    checked = check_floor(Answers.of(guessed(chance)), MODELS[model], Priors(), np.full(40, chance))
    assert checked.suits
    assert checked.below < 0.15
    assert checked.gain > -3


def test_items_below_chance_speak_against_a_floor() -> None:
    """A distractor that convinces every model."""
    matrix = guessed(0.25)
    matrix[:, :10] = np.random.default_rng(1).random((300, 10)) < 0.1
    checked = check_floor(Answers.of(matrix), MODELS["1pl"], Priors(), np.full(40, 0.25))
    assert not checked.suits
    assert checked.below == pytest.approx(0.25, abs=0.05)
    assert np.isnan(checked.gain), "that was enough"


def test_the_likelihood_speaks_against_a_floor_where_no_item_is_below_it() -> None:
    """Subjects that know much and guess nothing: the weak ones are far below chance on items that most get right."""
    generator = np.random.default_rng(2)
    logit = 2 * (generator.standard_normal((400, 1)) + np.linspace(0.2, 1, 40))
    matrix = (generator.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    checked = check_floor(Answers.of(matrix), MODELS["2pl"], Priors(), np.full(40, 0.5))
    assert not checked.suits
    assert checked.below == 0
    assert checked.gain < -20


def test_a_calibration_says_whether_curves_start_at_chance() -> None:
    with_floor = breadth.calibrate(guessed(0.25), chance=0.25)
    assert with_floor.items["guessing"].to_list() == [0.25] * 40
    assert with_floor.fit["floor"].item() == 0.25
    assert with_floor.model == "1pl"
    assert with_floor.probability(-9.0).min() == pytest.approx(0.25, abs=0.01)
    assert "fixed at 25%" in with_floor.details()
    plain = breadth.calibrate(guessed(0.25))
    nobody = breadth.calibrate(guessed(0.25), chance=0)
    for found in (plain, nobody):
        assert found.fit["floor"].item() is None
        assert found.fit["chance"].item() is None
        assert (found.items["guessing"] == 0).all()
    assert nobody.items.equals(plain.items)
    estimated = breadth.calibrate(guessed(0.25), model="3pl", chance=0.25)
    assert estimated.fit["floor"].item() is None
    assert estimated.items["guessing"].n_unique() > 1


def test_a_floor_that_is_refused_is_mentioned() -> None:
    matrix = guessed(0.25)
    matrix[:, :10] = np.random.default_rng(1).random((300, 10)) < 0.1
    found = breadth.calibrate(matrix, chance=0.25)
    assert found.fit["floor"].item() is None
    assert found.fit["below_chance"].item() > 0.2
    assert "guessing is not allowed for" in found.details()
    assert "guessing is not allowed for" not in breadth.calibrate(guessed(0.25), chance=0.25).details()
    assert found.items["difficulty"].equals(breadth.calibrate(matrix).items["difficulty"])


def test_shares_have_no_floor() -> None:
    shares = np.random.default_rng(3).uniform(0.3, 1, (50, 10))
    assert breadth.calibrate(shares, chance=0.25).fit["below_chance"].item() is None


def test_new_items_join_a_scale_with_a_floor(as_study: Any) -> None:
    matrix, names = guessed(0.25, 600), [f"q{j}" for j in range(40)]
    first = breadth.calibrate(as_study(matrix[:300, :30], range(300), names[:30]), model="2pl", chance=0.25)
    second = as_study(matrix[300:], range(300), names)
    found = breadth.calibrate(second, model="2pl", chance=0.25, anchor=first)
    both = found.items.join(first.items, on="item", suffix="_first").drop_nulls("difficulty_first")
    assert both["difficulty"].to_list() == pytest.approx(both["difficulty_first"].to_list())
    assert (found.items["guessing"] == 0.25).all()
    with pytest.raises(breadth.InputError, match="or say the chance"):
        breadth.calibrate(second, model="2pl", anchor=first)


def test_floors_differ_by_the_options_of_items(as_study: Any) -> None:
    study = as_study(guessed(0.25), range(300), [f"q{j}" for j in range(40)])
    options = [["a", "b", "c", "d"]] * 30 + [None] * 10
    items = study.items.with_columns(pl.Series("options", options, dtype=pl.List(pl.String)))
    found = breadth.calibrate(replace(study, items=items))
    assert found.items["guessing"].to_list() == [0.25] * 30 + [0.0] * 10
    assert found.level_stability(n=4, repeats=1)["rank_correlation"].min() > 0.5

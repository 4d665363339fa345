from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.irt import ItemFlag, doubted_items
from breadth.irt.flags import Rule, flagged, scale_warning, suspect_items


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"against_scale": 0.16, "score_correlation": 0.95, "subjects": 300}, "16% of them run clearly against"),
        ({"against_scale": 0.02, "score_correlation": 0.65, "subjects": 300}, "with score is 0.65"),
        ({"against_scale": 0.02, "score_correlation": -0.4, "subjects": 30}, "; or 30 models are too few"),
        ({"against_scale": 0.02, "score_correlation": 0.7, "subjects": 20}, None),
        ({"against_scale": 0.15, "score_correlation": 0.81, "subjects": 5000}, None),
        ({"against_scale": None, "score_correlation": None, "subjects": 50}, None),
        ({"against_scale": 0.4, "score_correlation": None, "subjects": 50}, "with score is unknown"),
        ({"reliability": 0.3}, "too alike"),
        ({}, None),
    ],
)
def test_when_a_scale_is_doubted(row, says):
    text = scale_warning({"model": "2pl", **row})
    assert (text is None) if says is None else (says in text)


def test_one_headline_that_says_what_to_do():
    row = {"model": "2pl", "against_scale": 0.4, "score_correlation": 0.1, "subjects": 300, "reliability": 0.2}
    assert scale_warning(row).startswith("these questions do not measure one ability")
    assert "too alike" not in scale_warning(row)
    assert "(1pl)" not in scale_warning(row)
    assert "(1pl)" in scale_warning(row | {"subjects": 40})


def test_the_main_component_speaks_for_a_common_slope():
    row = {"model": "1pl", "against_scale": 0.02, "score_correlation": 1.0, "subjects": 300}
    assert scale_warning(row | {"main_correlation": 0.99, "against_main": 0.05}) is None
    for doubted in ({"main_correlation": 0.2, "against_main": 0.05}, {"main_correlation": 0.99, "against_main": 0.4}):
        text = scale_warning(row | doubted)
        assert "(first principal component)" in text
        assert f"a rank correlation of {doubted['main_correlation']:.2f} with the score" in text
        assert f"{doubted['against_main']:.0%} of the questions run clearly against it" in text


def test_the_first_rule_that_applies_gives_flag_and_note():
    frame = pl.DataFrame({"x": [1, 2, 3, None]})
    rules = [
        Rule(ItemFlag.WRONG_KEY, pl.col("x") > 2, pl.lit("large")),
        Rule(ItemFlag.MISFIT, pl.col("x") > 1, pl.format("{} is more than 1", "x")),
    ]
    found = flagged(frame, rules)
    assert found["flag"].to_list() == [None, "misfit", "wrong_key", None]
    assert found["note"].to_list() == [None, "2 is more than 1", "large", None]


@pytest.fixture(scope="module")
def wrong_keys():
    """Answers to fifty items, the first four of which have a wrong label."""
    generator = np.random.default_rng(7)
    logit = 1.5 * (generator.standard_normal((150, 1)) - generator.uniform(-1, 1, 50))
    right = generator.random(logit.shape) < 1 / (1 + np.exp(-logit))
    right[:, :4] = ~right[:, :4]
    return right.astype(np.int8)


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_a_wrong_label_is_doubted_and_said_not_to_separate(wrong_keys, model):
    items = breadth.calibrate(wrong_keys, model=model).items
    doubted = doubted_items(items)
    assert set(doubted) == set(items["item"][:4])
    rows = items.filter(pl.col("item").is_in(doubted))
    assert rows["note"].str.contains("the label may be wrong").all()
    assert rows["note"].str.contains("does not separate").all()
    strength = dict(items.select("item", "label_doubt").iter_rows())
    assert [strength[item] for item in doubted] == sorted((strength[item] for item in doubted), reverse=True)
    assert min(strength[item] for item in doubted) > 1.645
    assert items["label_doubt"].drop_nulls().len() < 10, "most items have none"


def test_a_scale_that_is_not_trusted_still_ranks_labels_to_check(wrong_keys):
    """Beside items that show a preference for one answer: no label is flagged, but some run against the score."""
    generator = np.random.default_rng(8)
    lean = np.where(np.arange(60) % 2, 2.0, -2.0) * generator.standard_normal((150, 1))
    other = (generator.random(lean.shape) < 1 / (1 + np.exp(-lean))).astype(np.int8)
    found = breadth.calibrate(np.hstack([wrong_keys, other]))
    assert found.scale_warning.startswith("these questions do not measure one ability")
    assert doubted_items(found.items) == []
    suspects = suspect_items(found.items)
    assert set(suspects[:4]) == set(found.items["item"][:4]), "the wrong ones first"
    verdict = found.verdict()
    assert verdict.facts["labels in doubt"] == len(suspects)
    assert f" {suspects[0]}" in verdict.advice
    assert "label" in verdict.advice
    notes = found.items.filter(pl.col("item").is_in(suspects))["note"]
    assert notes.str.contains("does not separate").all()
    assert notes.str.contains("its label may be wrong, or it measures something else").all()


def test_a_test_set_that_runs_against_the_others_is_not_a_set_of_wrong_labels(wrong_keys, as_study):
    matrix = np.hstack([wrong_keys[:, 4:], 1 - wrong_keys[:, 44:]])
    study = as_study(matrix, range(150), [f"q{j}" for j in range(52)])
    sets = pl.Series("testset", ["a"] * 46 + ["b"] * 6)
    of_two = replace(study, items=study.items.with_columns(sets))
    assert len(doubted_items(breadth.calibrate(study, model="2pl").items)) == 6
    assert doubted_items(breadth.calibrate(of_two, model="2pl").items) == []


def test_older_calibrations_have_no_rank_of_doubt():
    items = pl.DataFrame({"item": ["a", "b"], "flag": ["wrong_key", "wrong_key"]})
    assert doubted_items(items) == ["a", "b"]
    assert suspect_items(items) == []
    assert doubted_items(items.drop("flag")) == []

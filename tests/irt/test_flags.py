import polars as pl
import pytest

from breadth.irt import ItemFlag
from breadth.irt.flags import Rule, flagged, scale_warning


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"against_scale": 0.16, "score_correlation": 0.95, "subjects": 300}, "16% of the items run clearly against"),
        ({"against_scale": 0.02, "score_correlation": 0.65, "subjects": 300}, "with score is 0.65"),
        ({"against_scale": 0.02, "score_correlation": -0.4, "subjects": 30}, "; or 30 subjects are too few for slopes"),
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
    assert scale_warning(row).startswith("the answers do not measure one ability here")
    assert "too alike" not in scale_warning(row)
    assert "whether the 1PL says the same" not in scale_warning(row)
    assert "whether the 1PL says the same" in scale_warning(row | {"subjects": 40})


def test_the_main_component_speaks_for_a_common_slope():
    row = {"model": "1pl", "against_scale": 0.02, "score_correlation": 1.0, "subjects": 300}
    assert scale_warning(row | {"main_correlation": 0.99, "against_main": 0.05}) is None
    for doubted in ({"main_correlation": 0.2, "against_main": 0.05}, {"main_correlation": 0.99, "against_main": 0.4}):
        text = scale_warning(row | doubted)
        assert "what the subjects differ in most (first principal component)" in text
        assert f"a rank correlation of {doubted['main_correlation']:.2f} with the score" in text
        assert f"{doubted['against_main']:.0%} of the items run clearly against it" in text


def test_the_first_rule_that_applies_gives_flag_and_note():
    frame = pl.DataFrame({"x": [1, 2, 3, None]})
    rules = [
        Rule(ItemFlag.WRONG_KEY, pl.col("x") > 2, pl.lit("large")),
        Rule(ItemFlag.MISFIT, pl.col("x") > 1, pl.format("{} is more than 1", "x")),
    ]
    found = flagged(frame, rules)
    assert found["flag"].to_list() == [None, "misfit", "wrong_key", None]
    assert found["note"].to_list() == [None, "2 is more than 1", "large", None]

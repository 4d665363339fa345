import numpy as np
import polars as pl
import pytest

from breadth.irt import Dimension, ItemFlag, Patterns
from breadth.irt.words import Rule, calibration_details, flagged, label_finding, scale_warning


def test_findings_follow_the_checks(result):
    def text(**checks):
        return calibration_details(result.items, result.subjects, result.fit, **checks)

    def copies(distinct, pairs, groups):
        none = np.empty(0)
        return Patterns(distinct, np.zeros((pairs, 2), int), none, none, np.arange(groups), none)

    few, many = (Dimension(share, 0.03, ratio, np.empty(0)) for share, ratio in ((0.01, 1.2), (0.1, 3.0)))
    assert "holds 1.0% of the residual variance, 1.2 times" in text(dimension=few)
    assert "one ability describes" in text(dimension=few)
    assert "something besides one ability" in text(dimension=many)
    assert "300 distinct answer patterns, and there are no near-copies among them" in text(copies=copies(300, 0, 300))
    assert "12 pairs are near-copies, which leaves 290 groups" in text(copies=copies(299, 12, 290))
    assert "residual" not in text()
    assert "patterns" not in text()


@pytest.mark.parametrize(
    ("right", "chance", "says"),
    [
        (0.21, None, "21% of the answers are right: the items are hard for these subjects"),
        (0.5, None, "50% of the answers are right: the items suit these subjects"),
        (0.8, None, "80% of the answers are right: the items are easy for these subjects"),
        (
            0.55,
            0.5,
            "55% of the answers are right (10% after correction for chance): the items are hard for these subjects",
        ),
    ],
)
def test_how_hard_the_items_are_follows_from_the_share_right(result, right, chance, says):
    """Not from the gap between the median difficulty and ability, which negative slopes make small at 21 % right."""
    items = result.items.with_columns(p_correct=pl.lit(right))
    fit = result.fit.with_columns(chance=pl.lit(chance), subjects_at_chance=pl.lit(7), items_at_chance=pl.lit(3))
    text = calibration_details(items, result.subjects, fit)
    assert says in text
    assert ("Chance is 50%: 7 of 400 subjects and 3 of 40 items are not clearly above it" in text) == (
        chance is not None
    )


def test_difficulties_that_are_not_known_are_out_of_the_summary(result):
    def span(items):
        text = calibration_details(items, result.subjects, result.fit)
        return text[text.index("Nine in ten") : text.index(" (ability has")]

    flags = pl.Series([ItemFlag.ALL_WRONG, *[None] * 39], dtype=pl.String)
    first = pl.int_range(pl.len()) == 0
    far = result.items.with_columns(difficulty=pl.when(first).then(6.5).otherwise("difficulty"), flag=flags)
    none = result.items.with_columns(difficulty=pl.when(~first).then("difficulty"))
    assert span(far) == span(none)
    assert "1 item has no difficulty and no level." in calibration_details(none, result.subjects, result.fit)


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


def test_nothing_is_said_about_difficulties_that_should_not_be_used(result):
    doubted = result.fit.with_columns(against_scale=pl.lit(0.4))
    for dimension in (Dimension(0.01, 0.03, 1.2, np.empty(0)), Dimension(0.1, 0.03, 3.0, np.empty(0))):
        text = calibration_details(result.items, result.subjects, doubted, dimension=dimension)
        assert "of the answers are right." in text
        for claim in ("the items suit", "Nine in ten", "one ability describes", "Difficulty is then", "looks broken"):
            assert claim not in text


def labelled(negative, n=20):
    """Items whose labels have so many negative slopes."""
    slopes = [-1.0 if k < count else 1.0 for count in negative.values() for k in range(n)]
    labels = [name for name in negative for _ in range(n)]
    return pl.DataFrame({"label": labels, "discrimination": slopes, "point_biserial": slopes, "p_correct": 0.5})


@pytest.mark.parametrize(
    ("negative", "says"),
    [
        ({"contradiction": 20, "neutral": 0, "entailment": 7}, "100% of the 20 items labelled contradiction"),
        ({"Yes": 18, "No": 2}, "and 10% of the 20 labelled No"),
        ({"Yes": 9, "No": 1}, None),
        ({"Yes": 20}, None),
    ],
)
def test_slopes_that_depend_on_the_label(negative, says):
    text = label_finding(labelled(negative), own_slopes=True)
    assert (text is None) if says is None else (says in text)


def test_labels_need_items():
    few = labelled({"Yes": 4, "No": 0}, n=4)
    assert label_finding(few, own_slopes=True) is None
    assert label_finding(few.drop("label"), own_slopes=True) is None
    rasch = label_finding(labelled({"Yes": 20, "No": 0}), own_slopes=False)
    assert rasch.startswith("Item-rest correlations depend on the label: 100% of the 20 items labelled Yes")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "No item looks broken."),
        ([ItemFlag.WRONG_KEY], "Of 40 items, 1 may have a wrong label (column flag)."),
        ([ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG, ItemFlag.MISFIT], "1 are noisier than the model expects, 2 were"),
    ],
)
def test_flags_are_counted(result, flags, says):
    items = result.items.with_columns(flag=pl.Series([*flags, *[None] * (40 - len(flags))], dtype=pl.String))
    assert says in calibration_details(items, result.subjects, result.fit)


def test_the_first_rule_that_applies_gives_flag_and_note():
    frame = pl.DataFrame({"x": [1, 2, 3, None]})
    rules = [
        Rule(ItemFlag.WRONG_KEY, pl.col("x") > 2, pl.lit("large")),
        Rule(ItemFlag.MISFIT, pl.col("x") > 1, pl.format("{} is more than 1", "x")),
    ]
    found = flagged(frame, rules)
    assert found["flag"].to_list() == [None, "misfit", "wrong_key", None]
    assert found["note"].to_list() == [None, "2 is more than 1", "large", None]

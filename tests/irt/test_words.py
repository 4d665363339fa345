from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import Dimension, ItemFlag, Patterns, calibration_verdict
from breadth.irt.words import calibration_details, compare_labels
from breadth.results import Answer, Question

FIT = {
    "model": "2pl", "subjects": 400, "items": 40, "reliability": 0.92, "converged": True, "score_correlation": 0.99,
    "against_scale": 0.0, "main_correlation": None, "against_main": None,
}  # fmt: skip
ITEMS = pl.DataFrame({"item": ["a", "b", "c", "d"], "flag": pl.Series([None] * 4, dtype=pl.String)})
ONE, TWO = (Dimension(0.03 * ratio, 0.03, ratio, np.empty(0)) for ratio in (0.9, 4.0))


def verdict(items=ITEMS, dimension=ONE, **fit):
    return calibration_verdict(items, pl.DataFrame([FIT | fit]), dimension)


@pytest.mark.parametrize(
    ("fit", "dimension", "answer", "number"),
    [
        ({}, ONE, Answer.YES, "0.92"),
        ({}, None, Answer.YES, "0.92"),
        ({}, TWO, Answer.MIXED, "0.92"),
        ({"reliability": 0.7}, ONE, Answer.MIXED, "0.70"),
        ({"reliability": 0.7}, TWO, Answer.MIXED, "0.70"),
        ({"converged": False}, ONE, Answer.MIXED, "0.92"),
        ({"reliability": 0.3}, ONE, Answer.UNKNOWN, "0.30"),
        ({"against_scale": 0.3}, ONE, Answer.NO, "30%"),
        ({"score_correlation": 0.2}, TWO, Answer.NO, "0.20"),
        ({"score_correlation": -0.2}, TWO, Answer.NO, "−0.20"),
        ({"blocks": 3.0, "block_sizes": "2 subjects x 3 items"}, None, Answer.UNKNOWN, "3 blocks"),
    ],
)
def test_answers(fit, dimension, answer, number):
    result = verdict(dimension=dimension, **fit)
    assert result.question is Question.ONE_ABILITY
    assert result.answer is answer
    assert number in result.reason
    assert (result.facts["questions"], result.facts["models"]) == (40, 400)
    assert stray_numbers(result) == []
    assert result.advice, "what to do is always said"


def stray_numbers(verdict):
    """Numbers in the sentences that are not among the facts."""
    known = " ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in verdict.facts.values())
    return [number for number in verdict.numbers() if number not in known]


def test_no_agreement_is_called_complete():
    assert verdict(reliability=0.999).facts["reliability"] == "more than 0.99"


def test_items_that_are_needed_follow_spearman_and_brown():
    assert verdict().needed == ""
    needed = verdict(reliability=0.75)
    assert needed.facts["questions needed"] == "120"
    assert "120 questions" in needed.needed
    times = 120 / 40
    assert times * 0.75 / (1 + (times - 1) * 0.75) == pytest.approx(0.9)
    for reliability in (0.0, 1e-50, 0.003):
        hopeless = verdict(reliability=reliability)
        assert hopeless.needed
        assert "questions needed" not in hopeless.facts
    assert verdict(reliability=0.0041).facts["questions needed"] == "87,000"


def test_labels_in_doubt_come_first():
    flags = [ItemFlag.WRONG_KEY, ItemFlag.ALL_RIGHT, ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG]
    doubted = verdict(ITEMS.with_columns(flag=pl.Series(flags)))
    assert doubted.advice.startswith("First check the label of question a:")
    assert all(number in doubted.findings for number in ("2 questions", "1 "))
    facts = {"labels in doubt": 1, "answered right by all": 2, "answered wrong by all": 1, "answered alike by all": 3}
    assert facts.items() <= doubted.facts.items()
    assert "label" in doubted.advice
    assert stray_numbers(doubted) == []
    many = pl.DataFrame({"item": [f"q-{k}" for k in range(8)], "flag": [ItemFlag.WRONG_KEY] * 8})
    eight = verdict(many)
    assert eight.facts["labels not named"] == 3
    assert "8 questions" in eight.advice
    assert "q-4" in eight.advice
    assert "q-5" not in eight.advice
    plain = verdict(ITEMS.drop("flag"))
    assert plain.findings == ""
    assert "label" not in plain.advice


def test_test_sets_are_only_spoken_of_where_there_are_several():
    sets = ITEMS.with_columns(testset=pl.Series(["s", "s", "t", "u"]))
    for fit, dimension in (({}, TWO), ({"against_scale": 0.3}, ONE), ({"score_correlation": 0.2}, ONE)):
        assert "3 test sets" in verdict(sets, dimension, **fit).advice
        assert stray_numbers(verdict(sets, dimension, **fit)) == []
        assert "test set" not in str(verdict(ITEMS, dimension, **fit))


def test_what_runs_against_the_others_most_is_an_example():
    items = ITEMS.with_columns(label_doubt=pl.Series([2.0, None, 4.0, 3.0]))
    against = verdict(items, against_scale=0.3)
    assert "c, d and a" in against.advice
    assert stray_numbers(against) == []
    assert "400 models" not in against.advice
    assert "1pl" in verdict(items, against_scale=0.3, subjects=40).advice, "slopes of few models may be noise"


def test_a_preference_for_an_answer_is_named():
    """Where slopes have the sign of the label, models differ in how often they give it."""
    items = labelled({"Yes": 2, "No": 18}).with_columns(item=pl.int_range(pl.len()).cast(pl.String))
    found = verdict(items, against_scale=0.5)
    assert found.answer is Answer.NO
    assert "how often they say Yes" in found.reason
    assert "auc" in found.advice


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_nothing_is_said_where_every_answer_is_right(model):
    result = breadth.calibrate(np.ones((12, 40), dtype=np.int8), model=model)
    assert result.verdict().answer is Answer.UNKNOWN
    assert "questions needed" not in result.verdict().facts
    assert result.verdict().needed
    assert result.items["difficulty"].is_null().all()
    assert result.items["level"].is_null().all()
    assert "no difficulty and no level" in result.details()
    earlier = breadth.calibrate(simulate_answers(200, 38).matrix, model=model)
    anchored = breadth.calibrate(np.ones((12, 40), dtype=np.int8), model=model, anchor=earlier)
    assert anchored.items["difficulty"].is_not_null().any(), "an anchor keeps its difficulty"


def test_a_table_of_difficulties_has_no_verdict():
    assert calibration_verdict(ITEMS, pl.DataFrame()) is None


def test_a_calibration_answers_first(tmp_path):
    truth = simulate_answers(400, 60)
    truth.matrix[:, 7] = 1 - truth.matrix[:, 7]
    result = breadth.calibrate(truth.matrix, model="2pl")
    found = result.verdict()
    assert found.answer is Answer.YES
    assert found.facts["reliability"] == "0.91"
    assert "question 7:" in found.advice
    assert result.summary().startswith("\n".join(found.lines()))
    assert len(str(result).splitlines()) < 30
    result.save(tmp_path / "c.parquet")
    assert breadth.Calibration.load(tmp_path / "c.parquet").verdict().answer is Answer.YES


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_doubted_keys_survive_the_false_discovery_rate(model):
    """Of 600 items without any slope, one in twenty runs clearly against the scale by chance; no label is doubted."""
    generator = np.random.default_rng(2)
    logit = 1.5 * (generator.standard_normal((150, 1)) - generator.standard_normal(700))
    logit[:, 100:] = 0.0
    turned = generator.random(logit.shape) < 1 / (1 + np.exp(-logit))
    turned[:, :3] = ~turned[:, :3]
    result = breadth.calibrate(turned.astype(np.int8), model=model)
    assert result.scale_warning is None
    wrong = result.items.filter(pl.col("flag") == ItemFlag.WRONG_KEY)["item"].to_list()
    assert len({"0", "1", "2"} & set(wrong)) >= 2
    assert len(wrong) <= 5
    if model == "2pl":
        clearly = result.items.filter(pl.col("discrimination") + 1.645 * pl.col("discrimination_se") < 0)
        assert clearly.height > 10, "what a test of every item on its own would doubt"


def test_findings_follow_the_checks(result):
    def text(**checks):
        return calibration_details(result.items, result.subjects, result.fit, **checks)

    def copies(distinct, pairs, groups):
        none = np.empty(0)
        return Patterns(distinct, np.zeros((pairs, 2), int), none, none, np.arange(groups), none)

    few, many = (Dimension(share, 0.03, ratio, np.empty(0)) for share, ratio in ((0.01, 1.2), (0.1, 3.0)))
    assert all(number in text(dimension=few) for number in ("1.0%", "1.2 times"))
    assert all(number in text(dimension=many) for number in ("10.0%", "3.0 times"))
    assert "300 distinct patterns" in text(copies=copies(300, 0, 300))
    assert "near-copies, which leaves" not in text(copies=copies(300, 0, 300))
    assert all(number in text(copies=copies(299, 12, 290)) for number in ("12 pairs", "290 groups"))
    assert "residual" not in text()
    assert "patterns" not in text()


@pytest.mark.parametrize(
    ("right", "chance", "says"),
    [
        (0.21, None, "21% of the answers are right: the questions are hard for these models"),
        (0.5, None, "50% of the answers are right: the questions suit these models"),
        (0.8, None, "80% of the answers are right: the questions are easy for these models"),
        (
            0.55,
            0.5,
            "55% of the answers are right (10% after correction for chance): the questions are hard for these models",
        ),
    ],
)
def test_how_hard_the_items_are_follows_from_the_share_right(result, right, chance, says):
    """Not from the gap between the median difficulty and ability, which negative slopes make small at 21 % right."""
    items = result.items.with_columns(p_correct=pl.lit(right))
    fit = result.fit.with_columns(chance=pl.lit(chance), subjects_at_chance=pl.lit(7), items_at_chance=pl.lit(3))
    text = calibration_details(items, result.subjects, fit)
    assert says in text
    assert ("Chance is 50%: 7 of 400 models and 3 of 40 questions" in text) == (chance is not None)


def test_difficulties_that_are_not_known_are_out_of_the_summary(result):
    def span(items):
        text = calibration_details(items, result.subjects, result.fit)
        return text[text.index("Nine in ten") : text.index(" (ability has")]

    flags = pl.Series([ItemFlag.ALL_WRONG, *[None] * 39], dtype=pl.String)
    first = pl.int_range(pl.len()) == 0
    far = result.items.with_columns(difficulty=pl.when(first).then(6.5).otherwise("difficulty"), flag=flags)
    none = result.items.with_columns(difficulty=pl.when(~first).then("difficulty"))
    assert span(far) == span(none)
    assert "1 question has no difficulty" in calibration_details(none, result.subjects, result.fit)


def test_nothing_is_said_about_difficulties_that_should_not_be_used(result):
    doubted = result.fit.with_columns(against_scale=pl.lit(0.4))
    for dimension in (Dimension(0.01, 0.03, 1.2, np.empty(0)), Dimension(0.1, 0.03, 3.0, np.empty(0))):
        text = calibration_details(result.items, result.subjects, doubted, dimension=dimension)
        assert "BIC" in text
        for claim in ("the questions suit", "Nine in ten"):
            assert claim not in text


def labelled(negative, n=20):
    """Items whose labels have so many negative slopes."""
    slopes = [-1.0 if k < count else 1.0 for count in negative.values() for k in range(n)]
    labels = [name for name in negative for _ in range(n)]
    return pl.DataFrame({"label": labels, "discrimination": slopes, "point_biserial": slopes, "p_correct": 0.5})


@pytest.mark.parametrize(
    ("negative", "preferred", "shares"),
    [
        ({"contradiction": 20, "neutral": 0, "entailment": 7}, "neutral", (0.0, 1.0)),
        ({"Yes": 18, "No": 2}, "No", (0.1, 0.9)),
        ({"Yes": 9, "No": 1}, None, None),
        ({"Yes": 20}, None, None),
    ],
)
def test_slopes_that_depend_on_the_label(negative, preferred, shares):
    found = compare_labels(labelled(negative), own_slopes=True)
    if preferred is None:
        assert found is None
        return
    assert found.preferred == preferred
    assert (found.preferred_share, found.other_share) == pytest.approx(shares)
    assert f"{shares[1]:.0%}" in found.sentence("model")


def test_labels_need_items():
    few = labelled({"Yes": 4, "No": 0}, n=4)
    assert compare_labels(few, own_slopes=True) is None
    assert compare_labels(few.drop("label"), own_slopes=True) is None
    rasch = compare_labels(labelled({"Yes": 20, "No": 0}), own_slopes=False)
    assert rasch.what == "Item-rest correlation"


def test_shown_tables(result):
    items, levels = result.shown()
    assert items.frame.height <= 20
    noted = result.items.with_columns(label_doubt=pl.when(item="q11").then(3.0), note=pl.lit("its label may be wrong"))
    assert replace(result, items=noted).shown()[0].frame["item"][0] == "q11", "the most doubtful label comes first"
    assert items.frame["difficulty"].max() == result.items["difficulty"].max()
    assert levels.frame["items"].sum() == result.items["level"].count()
    doubted = replace(result, scale_warning="not one ability")
    assert len(doubted.shown()) == 1, "levels that should not be used are not shown"


@pytest.mark.parametrize("name", ["items", "subjects", "fit"])
def test_every_column_of_a_calibration_is_declared(result, name):
    declared = {part for column in result.columns(name) for part in (column.name, column.high)}
    left = set(result.tables()[name].columns) - declared - UNDECLARED
    assert left == set()
    assert all(column.meaning for column in result.columns(name))


#: Numbers of an estimation that no reader needs.
UNDECLARED = {"intercept", "guessing_se", "ceiling_se", "repeated", "floor", "below_chance", "floor_gain"}

import io

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import (
    Dimension,
    ItemFlag,
    Patterns,
    calibration_verdict,
    items_table,
    levels_table,
    stability_table,
    subjects_table,
)
from breadth.irt.words import calibration_details, label_finding
from breadth.results import Answer

FIT = {
    "model": "2pl", "subjects": 400, "items": 40, "reliability": 0.92, "converged": True, "score_correlation": 0.99,
    "against_scale": 0.0, "main_correlation": None, "against_main": None,
}  # fmt: skip
ITEMS = pl.DataFrame({"item": ["a", "b", "c", "d"], "flag": pl.Series([None] * 4, dtype=pl.String)})
ONE, TWO = (Dimension(0.03 * ratio, 0.03, ratio, np.empty(0)) for ratio in (0.9, 4.0))


def verdict(items=ITEMS, dimension=ONE, **fit):
    return calibration_verdict(items, pl.DataFrame([FIT | fit]), dimension)


@pytest.mark.parametrize(
    ("fit", "dimension", "answer", "words"),
    [
        ({}, ONE, Answer.YES, "one ability describes these answers; abilities are measured with reliability 0.92."),
        ({}, None, Answer.YES, "one ability describes"),
        (
            {},
            TWO,
            Answer.DEPENDS,
            "moves groups of items together (residual component 4.0 times what noise would show)",
        ),
        ({"reliability": 0.7}, ONE, Answer.DEPENDS, "reliability 0.70, too low to tell single subjects apart."),
        ({"converged": False}, ONE, Answer.DEPENDS, "the fit did not converge"),
        ({"reliability": 0.3}, ONE, Answer.UNKNOWN, "too alike to be told apart (reliability 0.30)."),
        ({"against_scale": 0.3}, ONE, Answer.NO, "30% of the items run clearly against the scale"),
        ({"score_correlation": 0.2}, TWO, Answer.NO, "the rank correlation of ability with score is 0.20"),
    ],
)
def test_answers(fit, dimension, answer, words):
    result = verdict(dimension=dimension, **fit)
    assert result.answer is answer
    assert words in result.reason


def test_items_that_are_needed_follow_spearman_and_brown():
    assert verdict().needed == ""
    needed = verdict(reliability=0.75).needed
    assert needed == (
        "A reliability of 0.9 takes about 120 items like these (now 40), or subjects that differ more in ability."
    )
    times = 120 / 40
    assert times * 0.75 / (1 + (times - 1) * 0.75) == pytest.approx(0.9)
    for reliability in (0.0, 1e-50, 0.003):
        assert verdict(reliability=reliability).needed.startswith("No number of items like these is enough")
    assert "takes about 87,000 items" in verdict(reliability=0.0041).needed


def test_doubted_and_extreme_items_are_counted():
    flags = [ItemFlag.WRONG_KEY, ItemFlag.ALL_RIGHT, ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG]
    assert verdict(ITEMS.with_columns(flag=pl.Series(flags))).findings == (
        "1 item may have a wrong label: a. Of 4 items, 2 were answered right by all and 1 was answered wrong by all: "
        "they do not tell these subjects apart."
    )
    assert verdict(ITEMS.drop("flag")).findings == ""


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_nothing_is_said_where_every_answer_is_right(model):
    result = breadth.calibrate(np.ones((12, 40), dtype=np.int8), model=model)
    assert result.verdict().answer is Answer.UNKNOWN
    assert result.verdict().needed.startswith("No number of items like these is enough")
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
    lines = result.verdict().lines()
    assert lines[0] == "Yes: one ability describes these answers; abilities are measured with reliability 0.91."
    assert lines[1] == "1 item may have a wrong label: 7."
    assert result.summary().startswith("\n".join(lines))
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


def test_terminal_tables(result):
    tables = {
        items_table(result.items): ["Items: the easiest, the hardest and some with a note, of 40", "q00"],
        subjects_table(result.subjects): ["Subjects: the 30 ablest of 400"],
        levels_table(result.levels(4)): ["Difficulty levels, 0 is the easiest"],
        stability_table(result.level_stability(4, repeats=1)): ["200"],
    }
    for table, words in tables.items():
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(table)
        text = console.export_text()
        assert all(word in text for word in words)
        assert max(len(line) for line in text.splitlines()) <= 100

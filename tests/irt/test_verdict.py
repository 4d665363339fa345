import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import Dimension, ItemFlag, calibration_verdict
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

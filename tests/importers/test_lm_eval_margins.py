import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.importers import lm_eval_margins
from breadth.importers.lm_eval_margins import weigh
from breadth.importers.lm_eval_samples import Sample
from breadth.importers.reading import log_odds

LOGS = st.floats(-50, 0)


def samples_of(rows, targets, options=None):
    names = options or [[f" {'x' * (i + 1)}" for i in range(len(row))] for row in rows]
    return [
        Sample(k, str(k), t, list(row), own) for k, (row, t, own) in enumerate(zip(rows, targets, names, strict=True))
    ]


def acc_of(rows, golds):
    return np.array([float(int(np.argmax(row)) in gold) for row, gold in zip(rows, golds, strict=True)])


@given(st.lists(st.tuples(st.lists(LOGS, min_size=3, max_size=5), st.integers(0, 2)), min_size=1, max_size=8))
def test_margin_is_the_log_odds_of_the_right_option(cases):
    rows, golds = [row for row, _ in cases], [gold for _, gold in cases]
    acc = acc_of(rows, [[gold] for gold in golds])
    for form in (
        lambda gold: gold,
        str,
        lambda gold: [gold],
        lambda gold: f"[{gold}]",
        lambda gold: " " + "x" * (gold + 1),
    ):
        choices = weigh(samples_of(rows, map(form, golds)), {"acc": acc})
        expected = [log_odds(row, [gold]) for row, gold in cases]
        np.testing.assert_allclose(choices.margins["acc"], np.array(expected, float), rtol=1e-9, atol=1e-9)
        assert choices.gold.argmax(axis=1).tolist() == golds
        assert choices.chosen["acc"].tolist() == [int(np.argmax(row)) for row in rows]


@given(st.lists(st.tuples(LOGS, LOGS, st.booleans()), min_size=1, max_size=8))
def test_two_options_are_inferred_whatever_the_target_says(cases):
    rows = [case[:2] for case in cases]
    acc = np.array([float(case[2]) for case in cases])
    choices = weigh(samples_of(rows, ["no rule"] * len(cases)), {"acc": acc})
    margin = choices.margins["acc"]
    assert (margin[acc == 1] >= 0).all()
    assert (margin[acc == 0] <= 0).all()
    np.testing.assert_allclose(np.abs(margin), [abs(a - b) for a, b in rows], atol=1e-12)


def test_rule_must_explain_every_row():
    rows, targets = [[-1, -2, -3], [-3, -1, -2]], [0, 1]
    assert weigh(samples_of(rows, targets), {"acc": np.array([1.0, 1.0])}).margins
    wrong = weigh(samples_of(rows, targets), {"acc": np.array([1.0, 0.0])})
    assert wrong.gold is None
    assert not wrong.margins
    assert wrong.chosen["acc"].tolist() == [0, 1]


def test_rules_that_disagree_give_no_margin():
    options = [[" 1", " 2", " 0"]]  # "1" is the second option, or the first one's text
    assert weigh(samples_of([[-2, -3, -1]], ["1"], options), {"acc": np.array([0.0])}).gold is None
    assert weigh(samples_of([[-1, -3, -2]], ["1"], options), {"acc": np.array([1.0])}).gold.tolist() == [
        [True, False, False]
    ]


def test_several_right_options_count_together():
    choices = weigh(samples_of([[-1.0, -2.0, -3.0]], [[0, 2]]), {"acc": np.array([1.0])})
    assert choices.margins["acc"][0] == pytest.approx(math.log(math.exp(-1) + math.exp(-3)) + 2)


def test_acc_norm_divides_by_the_length_without_the_delimiter():
    options = [[" a", " bbbb", " cc"]]
    logs = [-1.5, -2.0, -9.0]
    choices = weigh(samples_of([logs], [1], options), {"acc": np.array([0.0]), "acc_norm": np.array([1.0])})
    assert choices.margins["acc_norm"][0] == pytest.approx(log_odds([-1.5, -0.5, -4.5], [1]))
    assert choices.chosen["acc_norm"].tolist() == [1]
    # with an empty delimiter the blank belongs to the option
    choices = weigh(samples_of([logs], [1], options), {"acc": np.array([0.0]), "acc_norm": np.array([1.0])}, "")
    assert choices.margins["acc_norm"][0] == pytest.approx(log_odds([-0.75, -0.4, -3.0], [1]))
    # the length that explains the scores is used
    choices = weigh(
        samples_of([[-1.0, -1.5, -9.0]], [0], [[" a", " bbb", " c"]]), {"acc": np.ones(1), "acc_norm": np.ones(1)}
    )
    assert "acc_norm" not in choices.margins


def test_acc_norm_alone():
    choices = weigh(samples_of([[-1.5, -2.0, -9.0]], [1], [[" a", " bbbb", " cc"]]), {"acc_norm": np.array([1.0])})
    assert list(choices.margins) == list(choices.chosen) == ["acc_norm"]
    assert not weigh(samples_of([[-1.0, -2.0, -3.0]], [1]), {"acc_norm": np.array([0.5])}).margins


def test_second_half_of_mutual_information_is_left_out():
    rows, scores = [[-1.0, -2.0, -3.0, -9.0, -0.1, -9.0]], {"acc": np.ones(1), "acc_mutual_info": np.zeros(1)}
    choices = weigh(samples_of(rows, [0]), scores)
    assert choices.margins["acc"][0] == pytest.approx(log_odds(rows[0][:3], [0]))


@pytest.mark.parametrize(
    ("rows", "acc"),
    [
        ([], []),
        ([[]], [1.0]),
        ([[-1.0, -2.0, -3.0]], [0.4]),
        ([[-1.0, -2.0, -3.0], []], [1.0, 1.0]),
        ([[math.nan, -2.0, -3.0]], [1.0]),
        ([[-math.inf, -math.inf, -math.inf]], [1.0]),
    ],
)
def test_degenerate_input_has_no_finite_margin(rows, acc):
    choices = weigh(samples_of(rows, [0] * len(rows)), {"acc": np.array(acc)})
    assert all(np.isnan(column).all() for column in choices.margins.values())


def test_unscored_rows_have_no_margin():
    acc = np.array([1.0, math.nan])
    choices = weigh(samples_of([[-1.0, -2.0, -3.0]] * 2, [0, 0]), {"acc": acc})
    assert np.isnan(choices.margins["acc"]).tolist() == [False, True]


def test_tables_are_bounded(monkeypatch):
    monkeypatch.setattr(lm_eval_margins, "MOST_CELLS", 5)
    assert not weigh(samples_of([[-1.0, -2.0, -3.0]] * 2, [0, 0]), {"acc": np.ones(2)}).margins


@pytest.mark.parametrize("target", [None, {}, [[]], [None], "", "{", "[", 10**30, -1, True, 1.0, "1.0"])
def test_targets_that_are_no_rule(target):
    assert weigh(samples_of([[-1.0, -2.0, -3.0]], [target]), {"acc": np.ones(1)}).gold is None

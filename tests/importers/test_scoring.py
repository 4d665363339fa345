import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.importers.logs import Metric, Options
from breadth.importers.scoring import choose_metrics, mean_notes

from .conftest import entry

STRICT, FLEXIBLE = Metric("exact_match", "strict"), Metric("exact_match", "flexible")


def choose(*entries, **options):
    left_out = {}
    choices = choose_metrics(entries, Options(**options), left_out)
    return {testset: (str(choice.metric), choice.reason) for testset, choice in choices.items()}, left_out


def test_the_only_metric():
    assert choose(entry([1, 0])) == ({"set": ("acc", "the only metric")}, {})


def test_the_first_preferred_metric_that_all_logs_have():
    rich = entry({"acc_norm": [1], "acc": [0], "f1": [1]}, prefer=("acc", "acc_norm"))
    assert choose(rich)[0] == {"set": ("acc", "default; there are also acc_norm, f1")}
    poor = entry({"acc_norm": [1]}, model="n")
    assert choose(rich, poor)[0] == {"set": ("acc_norm", "default; there are also acc, f1")}
    assert rich.metric == poor.metric == Metric("acc_norm")
    two = entry({"acc": [1], "f1": [1]}, prefer=("acc",))
    assert choose(two)[0] == {"set": ("acc", "default; there is also f1")}


def test_a_metric_that_is_asked_for():
    first = entry({"acc": [1], "acc_norm": [0]}, prefer=("acc",))
    other = entry({"f1": [1]}, testset="other")
    choices, _ = choose(first, other, metric="acc_norm")
    assert choices == {"set": ("acc_norm", "asked for"), "other": ("f1", "the only metric")}


def test_a_filter_that_is_asked_for():
    filters = {STRICT: [0], FLEXIBLE: [1], Metric("f1", "flexible"): [0.5]}
    assert choose(entry(filters, prefer=("exact_match",)), variant="flexible")[0]["set"][0] == "exact_match (flexible)"
    assert choose(entry(filters, prefer=("f1",)), variant="flexible")[0]["set"][0] == "f1 (flexible)"
    assert choose(entry(filters), metric="exact_match", variant="flexible")[0]["set"][0] == "exact_match (flexible)"
    without_f1 = entry({FLEXIBLE: [1]}, model="n")
    assert choose(entry(filters, prefer=("f1",)), without_f1, variant="flexible")[0]["set"][0] == (
        "exact_match (flexible)"
    )


def test_a_metric_that_no_log_has():
    with pytest.raises(InputError, match=r"no log has 'acc_nrm'. Did you mean acc_norm, acc\? Metrics: acc, acc_norm"):
        choose(entry({"acc": [1], "acc_norm": [0]}), metric="acc_nrm")
    with pytest.raises(InputError, match="no log has 'acc strict'"):
        choose(entry([1]), metric="acc", variant="strict")


def test_metrics_that_differ_are_refused_with_both_files():
    entries = entry({"acc": [1]}, path="a.jsonl"), entry({"f1": [1]}, model="n", path="b.jsonl")
    with pytest.raises(InputError, match=r"set: metrics differ between logs: a.jsonl has acc, b.jsonl has f1; choose"):
        choose(*entries)
    with pytest.raises(InputError, match="metrics differ between logs"):
        choose(*entries, metric="acc")
    three = entry({"a": [1], "b": [1]}), entry({"a": [1]}, path="x"), entry({"b": [1]}, path="y")
    with pytest.raises(InputError, match="metrics differ between logs"):
        choose(*three)  # any two of them share one


def test_all_test_sets_with_a_problem_are_named_at_once():
    pairs = [
        entry({metric: [1]}, testset=testset, path=f"{testset}-{metric}") for testset in "st" for metric in ("a", "b")
    ]
    with pytest.raises(InputError) as refused:
        choose(*pairs)
    assert [line[0] for line in str(refused.value).splitlines()] == ["s", "t"]


def test_values_outside_0_to_1_are_refused_never_scaled():
    percent = entry({"score": [0.0, 85.0]}, path="p.json", items=["first", "second"])
    choices, left_out = choose(percent)
    assert choices == {}
    assert left_out == {"set": "no metric between 0 and 1 (for instance 85) (metrics: score)"}
    with pytest.raises(InputError, match=r"p.json: score of item 'second' of set is 85, not between 0 and 1; choose"):
        choose(percent, metric="score")
    for value in (-0.01, 1.0000001, float("inf")):
        assert choose(entry({"score": [0.5, value]}))[0] == {}


def test_another_metric_is_taken_where_the_preferred_one_is_no_share():
    both = entry({"bleu": [31.5], "acc": [1]}, prefer=("bleu",))
    assert choose(both)[0] == {"set": ("acc", "default; there is also bleu")}
    other = entry({"bleu": [0.3], "acc": [None]}, model="n", prefer=("bleu",), path="n.json")
    assert choose(both, other) == (
        {"set": ("acc", "default; there is also bleu")},
        {"n.json": "no answer is scored by acc"},
    )


def test_a_log_without_scores_does_not_spoil_the_others():
    scored, failed = entry([1, 0]), entry([None, None], model="n", path="failed.json")
    nothing = entry({}, model="o", path="nothing.json")
    choices, left_out = choose(failed, scored, nothing)
    assert choices == {"set": ("acc", "the only metric")}
    assert left_out == dict.fromkeys(("failed.json", "nothing.json"), "no answer is scored")
    assert scored.metric == Metric("acc")
    assert failed.metric == Metric("")


def test_a_metric_that_scores_answers_of_all_logs_is_preferred():
    first = entry({"a": [1, None], "b": [1, 1]})
    second = entry({"a": [None, None], "b": [0, 1]}, model="n")
    assert choose(first, second)[0]["set"][0] == "b"


def notes(values, stated):
    one = entry({"acc": values}, path="log.json", stated={Metric("acc"): stated})
    choose(one)
    return mean_notes(one)


def test_a_mean_that_differs_is_reported_with_both_numbers():
    assert notes([1, 0, 1, None], 0.75) == [
        "log.json: the mean of acc over 3 answers to set is 0.666667, but the log states 0.75"
    ]
    assert "over 1 answer to" in notes([1], 0.5)[0]


@pytest.mark.parametrize("stated", [2 / 3, 0.6667, 0.667, 0.66666667, float("nan")])
def test_means_are_compared_to_the_digits_that_are_stated(stated):
    assert notes([1, 0, 1], stated) == []


@pytest.mark.parametrize(
    ("values", "stated"),
    [([1, 0, 1], 0.6666), ([1, 0, 1], 0.7), ([1] * 6 + [0] * 7, 0.5), ([1] * 10**4 + [0], 1.0 - 1e-5)],
)
def test_small_differences_are_reported(values, stated):
    assert len(notes(values, stated)) == 1


@given(st.lists(st.booleans(), min_size=1, max_size=400), st.integers(4, 17))
def test_rounded_means_agree_and_those_of_other_answers_do_not(answers, digits):
    values = np.array(answers, dtype=float)
    mean = float(values.mean())
    assert notes(values, round(mean, digits)) == []
    assert notes(values, round(mean + (1 if mean < 0.5 else -1) / len(values), digits))


def test_answers_of_an_earlier_import_are_not_compared_again():
    one = entry([1, 1], stated={Metric("acc"): 0.5})
    choose(one)
    assert mean_notes(one)
    one.total = 4
    assert mean_notes(one) == []

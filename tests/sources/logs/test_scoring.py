import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.sources.logs.log import Metric, Options
from breadth.sources.logs.scoring import choose_metrics, mean_notes

from ..conftest import subject_log

STRICT, FLEXIBLE = Metric("exact_match", "strict"), Metric("exact_match", "flexible")


def choose(*entries, **options):
    left_out = {}
    choices = choose_metrics(entries, Options(**options), left_out)
    return {testset: (str(choice.metric), choice.reason) for testset, choice in choices.items()}, left_out


def test_the_only_metric():
    assert choose(subject_log([1, 0])) == ({"set": ("acc", "the only metric")}, {})


def test_the_first_preferred_metric_that_all_logs_have():
    rich = subject_log({"acc_norm": [1], "acc": [0], "f1": [1]}, prefer=("acc", "acc_norm"))
    assert choose(rich)[0] == {"set": ("acc", "default; there are also acc_norm, f1")}
    poor = subject_log({"acc_norm": [1]}, model="n")
    assert choose(rich, poor)[0] == {"set": ("acc_norm", "default; there are also acc, f1")}
    assert rich.metric == poor.metric == Metric("acc_norm")
    two = subject_log({"acc": [1], "f1": [1]}, prefer=("acc",))
    assert choose(two)[0] == {"set": ("acc", "default; there is also f1")}


def test_a_metric_that_is_asked_for():
    first = subject_log({"acc": [1], "acc_norm": [0]}, prefer=("acc",))
    other = subject_log({"f1": [1]}, testset="other")
    choices, _ = choose(first, other, metric="acc_norm")
    assert choices == {"set": ("acc_norm", "asked for"), "other": ("f1", "the only metric")}


def test_a_filter_that_is_asked_for():
    filters = {STRICT: [0], FLEXIBLE: [1], Metric("f1", "flexible"): [0.5]}
    assert (
        choose(subject_log(filters, prefer=("exact_match",)), variant="flexible")[0]["set"][0]
        == "exact_match (flexible)"
    )
    assert choose(subject_log(filters, prefer=("f1",)), variant="flexible")[0]["set"][0] == "f1 (flexible)"
    assert (
        choose(subject_log(filters), metric="exact_match", variant="flexible")[0]["set"][0] == "exact_match (flexible)"
    )
    without_f1 = subject_log({FLEXIBLE: [1]}, model="n")
    assert choose(subject_log(filters, prefer=("f1",)), without_f1, variant="flexible")[0]["set"][0] == (
        "exact_match (flexible)"
    )


def test_a_metric_that_no_log_has():
    with pytest.raises(InputError, match=r"no log has 'acc_nrm'. Did you mean acc_norm, acc\? Metrics: acc, acc_norm"):
        choose(subject_log({"acc": [1], "acc_norm": [0]}), metric="acc_nrm")
    with pytest.raises(InputError, match="no log has 'acc strict'"):
        choose(subject_log([1]), metric="acc", variant="strict")


def refused(*logs, **options):
    with pytest.raises(InputError) as error:
        choose(*logs, **options)
    return str(error.value)


def test_metrics_that_differ_are_refused_with_both_files():
    pair = subject_log({"acc": [1]}, path="a.jsonl"), subject_log({"f1": [1]}, model="n", path="b.jsonl")
    assert refused(*pair).startswith("set: metrics differ between logs: a.jsonl has acc, b.jsonl has f1. ")
    assert "metric=" in refused(*pair, metric="acc")
    three = (
        subject_log({"a": [1], "b": [1]}),
        subject_log({"a": [1]}, path="x"),
        subject_log({"b": [1]}, path="y"),
    )
    assert "y has b" in refused(*three)  # any two of them share one


@pytest.mark.parametrize("place", [0, 5, 9])
def test_the_log_that_is_the_cause_is_named(place):
    logs = [subject_log({"acc": [1], "f1": [0]}, model=f"m{k}", path=f"{k}.jsonl") for k in range(10)]
    logs[place] = subject_log({"bleu": [1]}, model="odd", path="odd.jsonl")
    message = refused(*logs)
    assert "odd.jsonl has bleu, the other 9 logs have acc, f1" in message
    assert "0.jsonl" not in message
    assert "odd.jsonl has bleu, the other 9 logs have acc, f1; acc is asked for" in refused(*logs, metric="acc")
    assert "odd.jsonl has bleu, the other 9 logs have" in refused(*logs, metric="bleu")


def test_of_many_odd_logs_some_are_named():
    logs = [subject_log({"acc": [1]}, model=f"m{k}", path=f"{k}.jsonl") for k in range(9)]
    odd = [subject_log({"f1": [1]}, model=f"o{k}", path=f"odd{k}.jsonl") for k in range(5)]
    message = refused(*odd, *logs)
    assert "odd0.jsonl, odd1.jsonl, odd2.jsonl, ... (5 in all) have f1, the other 9 logs have acc" in message


def test_all_test_sets_with_a_problem_are_named_at_once():
    pairs = [
        subject_log({metric: [1]}, testset=testset, path=f"{testset}-{metric}")
        for testset in "st"
        for metric in ("a", "b")
    ]
    with pytest.raises(InputError) as refused:
        choose(*pairs)
    assert [line[0] for line in str(refused.value).splitlines()] == ["s", "t"]


def test_values_outside_0_to_1_are_refused_never_scaled():
    percent = subject_log({"score": [0.0, 85.0]}, path="p.json", items=["first", "second"])
    choices, left_out = choose(percent)
    assert choices == {}
    assert left_out == {"set": "no metric between 0 and 1 (score is 85 in p.json; metrics: score)"}
    with pytest.raises(InputError, match=r"p.json: score of item 'second' of set is 85, not between 0 and 1; choose"):
        choose(percent, metric="score")
    odd = [subject_log({"score": [0.5]}, model="n"), percent]
    assert "85 in p.json" in choose(*odd)[1]["set"]
    for value in (-0.01, 1.0000001, float("inf")):
        assert choose(subject_log({"score": [0.5, value]}))[0] == {}


def test_another_metric_is_taken_where_the_preferred_one_is_no_share():
    both = subject_log({"bleu": [31.5], "acc": [1]}, prefer=("bleu",))
    assert choose(both)[0] == {"set": ("acc", "default; there is also bleu")}
    other = subject_log({"bleu": [0.3], "acc": [None]}, model="n", prefer=("bleu",), path="n.json")
    assert choose(both, other) == (
        {"set": ("acc", "default; there is also bleu")},
        {"n.json": "no answer is scored by acc"},
    )


def test_a_log_without_scores_does_not_spoil_the_others():
    scored, failed = subject_log([1, 0]), subject_log([None, None], model="n", path="failed.json")
    nothing = subject_log({}, model="o", path="nothing.json")
    choices, left_out = choose(failed, scored, nothing)
    assert choices == {"set": ("acc", "the only metric")}
    assert left_out == dict.fromkeys(("failed.json", "nothing.json"), "no answer is scored")
    assert scored.metric == Metric("acc")
    assert failed.metric == Metric("")


def test_a_metric_that_scores_answers_of_all_logs_is_preferred():
    first = subject_log({"a": [1, None], "b": [1, 1]})
    second = subject_log({"a": [None, None], "b": [0, 1]}, model="n")
    assert choose(first, second)[0]["set"][0] == "b"


def notes(values, stated):
    one = subject_log({"acc": values}, path="log.json", stated={Metric("acc"): stated})
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
    one = subject_log([1, 1], stated={Metric("acc"): 0.5})
    choose(one)
    assert mean_notes(one)
    one.total = 4
    assert mean_notes(one) == []

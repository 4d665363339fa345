import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.sources.logs import lm_eval_samples
from breadth.sources.source_files import SourceFile, log_odds
from breadth.sources.tools.lm_eval_samples import Sample, read_samples, read_written_out, weigh

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def row(k, **changes):
    arguments = {f"gen_args_{i}": {"arg_0": "Why?", "arg_1": option} for i, option in enumerate((" a", " b"))}
    return {
        "doc_id": k, "doc": {"question": f"Why {k}?"}, "target": "1", "arguments": arguments,
        "resps": [[["-1", "False"]], [["-2", "True"]]], "filtered_resps": [["-1", "False"], ["-2", "True"]],
        "filter": "none", "metrics": ["acc"], "doc_hash": f"{k:064x}", "acc": 1.0, **changes,
    }  # fmt: skip


def outcome(file, fast=True):
    """The samples, or the message with which they are refused."""
    try:
        return read_samples(file, True, fast)
    except InputError as error:
        return str(error)


def write(path, rows, indent=None):
    lines = [json.dumps(one) + "\n" for one in rows]
    path.write_text("".join(lines) if indent is None else json.dumps(rows, indent=indent))
    return SourceFile.look(path)


@pytest.mark.parametrize("fast", [True, False])
def test_samples_are_in_the_order_of_their_documents(tmp_path, fast):
    samples = read_samples(write(tmp_path / "x.jsonl", [row(k) for k in (2, 0, 1)]), True, fast)
    assert [sample.doc_id for sample in samples] == [0, 1, 2]
    assert samples[1].text == "Why 1?"
    assert samples[1].logs == [-1, -2]
    assert samples[1].continuations == [" a", " b"]
    assert samples[1].options == ["a", "b"]
    assert samples[1].scores == {"none": {"acc": 1.0}}


def test_real_samples_are_the_same_read_fast_and_whole(shared_data):
    paths = [*shared_data.glob("logs/lm-eval/**/samples_*.jsonl"), *shared_data.glob("logs/samples_*.jsonl")]
    assert len(paths) == 24
    for path in paths:
        for texts in (True, False):
            file = SourceFile.look(path)
            assert read_samples(file, texts) == read_samples(file, texts, fast=False), path


@given(st.lists(st.tuples(st.sampled_from(sorted(row(0))), ANYTHING), max_size=3), st.integers(0, 2))
def test_rows_with_anything_in_them_are_read_or_refused(tmp_path_factory, changes, changed):
    rows = [row(k) for k in range(3)]
    rows[changed] |= dict(changes)
    file = write(tmp_path_factory.mktemp("rows") / "x.jsonl", rows)
    fast, whole = outcome(file), outcome(file, fast=False)
    assert isinstance(whole, list) or whole.startswith(f"{file.path}, line ")
    assert repr(fast) == repr(whole)  # NaN is not itself


def test_scores_of_every_kind(tmp_path):
    scores = {
        "a": "True", "b": "0.5", "c": True, "d": [1, 0], "e": None, "f": "text", "g": 10**400, "h": float("nan"), "i": 2
    }  # fmt: skip
    changes = {"metrics": None} | scores
    (sample,) = read_samples(write(tmp_path / "x.jsonl", [row(0, **changes)]), True)
    assert sample.scores["none"] == {
        "a": 1, "b": 0.5, "c": 1, "d": None, "e": None, "f": None, "g": None, "h": None, "i": 2, "acc": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    "responses",
    [[], None, "text", [["-1", "False"]], [["-1"], ["-2"]], [["x", "False"]] * 2, [[-1, 2]] * 2, [[1, []]] * 2],
)
def test_responses_that_are_no_log_likelihoods(tmp_path, responses):
    (sample,) = read_samples(write(tmp_path / "x.jsonl", [row(0, filtered_resps=responses)]), True)
    assert sample.logs == []


def test_long_answers_are_not_kept(tmp_path):
    rows = [row(0, filtered_resps=["x" * 201]), row(1, filtered_resps=["x" * 200]), row(2, filtered_resps=[["a"]])]
    samples = read_samples(write(tmp_path / "x.jsonl", rows), True)
    assert [sample.responses["none"] for sample in samples] == [None, "x" * 200, None]


def test_half_surrogates_and_deep_nesting(tmp_path):
    path = tmp_path / "x.jsonl"
    bare = json.dumps(row(0) | {"doc_hash": None})
    for hard in ('"\\ud800"', "[" * 900 + "]" * 900, "[" * 100_000 + "]" * 100_000):
        path.write_text(bare.replace('"Why 0?"', hard))
        result = outcome(SourceFile.look(path))
        assert len(result) == 1 or result.startswith(f"{path}, line 1: ")


def test_written_out_documents_are_told_apart_by_prompts_if_need_be(tmp_path):
    rows = [
        {"doc_id": k, "prompt_0": f"Example {k}.\n\nTL;DR:", "logit_0": "text", "truth": "x", "em": "0.0"}
        for k in range(3)
    ]
    samples = read_written_out(write(tmp_path / "x.json", rows, 4), True)
    assert len({sample.identity for sample in samples}) == 3
    assert [sample.responses[0] for sample in samples] == ["text"] * 3
    assert samples[0].scores == {0: {"em": 0.0}}


@pytest.mark.parametrize("damaged", [{}, {"prompt_0": 3}, 7, {"logit_0": 1.0}])
def test_damaged_written_out_elements_are_named(tmp_path, damaged):
    rows = [{"doc_id": 0, "prompt_0": "Why?", "logit_0": "x", "acc": "1"}, damaged]
    with pytest.raises(InputError, match="element 2: has no prompt_0"):
        read_written_out(write(tmp_path / "x.json", rows, 4), True)


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
    monkeypatch.setattr(lm_eval_samples, "MOST_CELLS", 5)
    assert not weigh(samples_of([[-1.0, -2.0, -3.0]] * 2, [0, 0]), {"acc": np.ones(2)}).margins


@pytest.mark.parametrize("target", [None, {}, [[]], [None], "", "{", "[", 10**30, -1, True, 1.0, "1.0"])
def test_targets_that_are_no_rule(target):
    assert weigh(samples_of([[-1.0, -2.0, -3.0]], [target]), {"acc": np.ones(1)}).gold is None

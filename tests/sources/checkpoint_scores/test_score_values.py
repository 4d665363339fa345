from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.sources.checkpoint_scores.score_values import (
    LOSSES,
    SCORES,
    Kind,
    Values,
    kind_of,
    parse_name,
    rank,
    settled_items,
)
from breadth.sources.checkpoint_scores.score_values import Testset as Set
from breadth.sources.checkpoint_scores.score_values import TestsetMetric as Metric
from breadth.sources.checkpoint_scores.scores import Run, Score, ScoreFormat

A, B = Run("a"), Run("b")
LOG = ScoreFormat("log", bool, iter)
EXPORT = LOG._replace(exported=True)
ACCURACY = Metric("accuracy", "", False)


def collected(*scores, metric=None, losses=False, known=LOG):
    values = Values(metric, losses)
    values.add_file("file", known, scores, 0)
    return values


def cells(values, testset, metric=ACCURACY):
    series = values.testsets[Set(*testset, "") if len(testset) == 2 else Set(*testset)][metric]
    return {(run.name, step): value.value for (run, step), value in series.cells.items()}


def test_scores_are_kept_and_the_rest_is_said():
    names = ("eval_hans_accuracy", "eval_hans_loss", "epoch", "loss", "kl")
    values = collected(*(Score(A, 1, name, 0.5) for name in names))
    assert values.testsets.keys() == {("eval", "hans", "")}
    assert values.left_out.keys() == {"eval_hans_loss", "epoch", "loss", "kl"}
    assert values.sources == [("file", "log", 5)]


def test_losses_are_kept_when_asked_for():
    values = collected(Score(A, 1, "eval_hans_loss", 0.5), Score(A, 1, "train/loss", 0.5), losses=True)
    assert cells(values, ("eval", "hans"), Metric("loss", "", True)) == {("a", 1): 0.5}
    assert values.left_out.keys() == {"train/loss"}


def test_what_was_exported_is_kept_but_for_bookkeeping():
    names = ("train/loss", "kl", "_step", "eval/hans/acc")
    values = collected(*(Score(A, 1, name, 0.5) for name in names), known=EXPORT)
    assert values.testsets.keys() == {("train", "", ""), ("", "kl", ""), ("eval", "hans", "")}
    assert values.left_out.keys() == {"_step"}


@pytest.mark.parametrize(
    ("metric", "kept"), [("kl", {"kl"}), ("*", {"kl", "entropy"}), ("e*", {"entropy"}), ("x", set())]
)
def test_names_that_are_not_known_can_be_asked_for(metric, kept):
    values = collected(Score(A, 1, "kl", 0.5), Score(A, 1, "entropy", 0.5), Score(A, 1, "lr", 1), metric=metric)
    assert {testset.name for testset in values.testsets} == kept


def test_rows_of_training_are_left_out_whatever_their_names():
    assert not collected(Score(A, 1, "token_accuracy", 0.5, training=True)).testsets


def test_the_later_value_counts_in_any_order():
    early, late = (Score(A, 1, "eval_x_accuracy", value, time) for value, time in ((0.25, 5), (0.5, 6)))
    for scores in ((early, late), (late, early)):
        values = collected(*scores)
        assert cells(values, ("eval", "x")) == {("a", 1): 0.5}
        assert values.replaced == {A: 1}
    assert not collected(early, early).replaced


def test_a_format_with_more_digits_counts_more():
    values = Values(None, False)
    values.add_file("state", LOG, [Score(A, 1, "eval_x_accuracy", 0.1, 7)], 0)
    values.add_file("events", LOG, [Score(A, 1, "eval/x_accuracy", 0.10000000149, 1e9)], -1)
    assert cells(values, ("eval", "x")) == {("a", 1): 0.1}
    assert not values.replaced


def test_one_test_set_under_two_names():
    scores = (Score(A, 1, "eval_x_accuracy", 0.25), Score(B, 1, "x/accuracy", 0.5))
    values = collected(*scores)
    values.join_stages()
    assert cells(values, ("eval", "x")) == {("a", 1): 0.25, ("b", 1): 0.5}
    apart = collected(*scores, Score(A, 1, "x/accuracy", 0.75))
    apart.join_stages()
    assert apart.testsets.keys() == {("eval", "x", ""), ("", "x", "")}
    stages = collected(*scores, Score(B, 1, "test_x_accuracy", 0.5))
    stages.join_stages()
    assert len(stages.testsets) == 3


def test_values_without_steps_go_where_others_have_steps():
    values = collected(
        Score(A, 1, "eval_x_acc", 0.5), Score(A, None, "eval_x_acc", 0.5), Score(B, None, "eval_y_acc", 0.5)
    )
    assert values.keep_steps() == (True, [A, B])
    assert {testset.name for testset in values.testsets} == {"x"}
    assert collected(Score(A, None, "eval_x_acc", 0.5)).keep_steps() == (False, [])


def test_not_every_file_of_a_run_names_the_model():
    values = collected(
        Score(A, 1, "eval_x_acc", 0.5),
        Score(A._replace(model="m"), 2, "eval_x_acc", 0.5),
        Score(A, 3, "eval_x_acc", 0.5),
    )
    assert values.runs == [A]
    assert values.models == {A: "m"}


def test_files_without_scores_are_said():
    assert collected().left_out == {"file": "no scores, though it looks like log"}


@pytest.mark.parametrize(
    ("name", "stage", "testset", "metric"),
    [
        ("eval_hans_accuracy", "eval", "hans", "accuracy"),
        ("eval/hans/accuracy", "eval", "hans", "accuracy"),
        ("eval/hans_accuracy", "eval", "hans", "accuracy"),
        ("eval_accuracy", "eval", "", "accuracy"),
        ("test_mnli-mm_f1", "test", "mnli-mm", "f1"),
        ("eval_anli_r3_exact_match", "eval", "anli_r3", "exact_match"),
        ("val_acc/dataloader_idx_1", "val", "dataloader_idx_1", "acc"),
        ("val_acc_epoch", "val", "", "acc"),
        ("validation/epoch_accuracy", "validation", "", "accuracy"),
        ("eval_hans/accuracy", "eval", "hans", "accuracy"),
        ("hans/acc", "", "hans", "acc"),
        ("acc_hans", "", "hans", "acc"),
        ("accuracy/hans", "", "hans", "accuracy"),
        ("recall/hans", "", "hans", "recall"),
        ("eval_acc_norm", "eval", "", "acc_norm"),
        ("eval/downstream/arc_easy_acc", "eval", "downstream/arc_easy", "acc"),
        ("eval_rougeLsum", "eval", "", "rougeLsum"),
        ("eval_hans", "eval", "hans", ""),
        ("Val/HANS/Accuracy", "val", "HANS", "Accuracy"),
        ("humaneval/pass@1", "", "humaneval", "pass@1"),
        ("evaluator_accuracy", "", "evaluator", "accuracy"),
        ("librispeech/wer", "", "librispeech", "wer"),
    ],
)
def test_scores(name, stage, testset, metric):
    assert parse_name(name)[:4] == (stage, testset, metric, Kind.SCORE)


def test_filters():
    assert parse_name("gsm8k/exact_match,strict-match") == ("", "gsm8k", "exact_match", Kind.SCORE, "strict-match")
    assert parse_name("arc_easy/acc,none") == ("", "arc_easy", "acc", Kind.SCORE, "")


@pytest.mark.parametrize(
    ("name", "testset"),
    [
        ("eval_loss", ""), ("eval_hans_loss", "hans"), ("hans/perplexity", "hans"), ("val/bpb", ""),
        ("eval/lm/c4_en-validation/CE loss", "lm/c4_en-validation"),
    ],
)  # fmt: skip
def test_losses(name, testset):
    parts = parse_name(name)
    assert (parts.testset, parts.kind) == (testset, Kind.LOSS)


@pytest.mark.parametrize("name", ["loss", "train/loss", "train_accuracy", "training/hans/acc", "train_loss_epoch"])
def test_training(name):
    assert parse_name(name).kind is Kind.TRAINING


@pytest.mark.parametrize(
    "name",
    [
        "epoch", "learning_rate", "grad_norm", "eval_runtime", "eval_hans_runtime", "eval_samples_per_second",
        "eval_hans_steps_per_second", "eval/steps_per_second", "train_runtime", "total_flos", "lr", "lr-AdamW", "_step",
        "_runtime", "_timestamp", "train/global_step", "trainer/global_step", "eval_samples", "num_input_tokens_seen",
        "system/gpu_0_utilization", "time/fps", "eval_model_preparation_time", "hp_metric", "arc_easy/acc_stderr,none",
        "eval_gen_len", "loss-scale", "batch-size", "hparam/accuracy", "train/epoch", "train_loss_step",
        "eval_mem_cpu_alloc_delta",
    ],
)  # fmt: skip
def test_bookkeeping(name):
    assert parse_name(name).kind is Kind.BOOKKEEPING


@pytest.mark.parametrize("name", ["hans", "kl", "rewards/chosen", "eval", "", "x" * 300, "val"])
def test_unknown(name):
    assert parse_name(name).kind is Kind.UNKNOWN


@given(st.text(max_size=400))
def test_any_name(name):
    parts = parse_name(name)
    assert isinstance(parts.kind, Kind)
    assert (parts.kind is not Kind.SCORE) or parts.metric or parts.testset


@pytest.mark.parametrize("name", ["a_" * 125, "a" * 249 + "_", "_per_" * 50, "/" * 250, ", " * 125])
def test_long_names_take_no_time(name):
    assert parse_name(name).kind in (Kind.UNKNOWN, Kind.BOOKKEEPING)


def test_order_of_defaults():
    assert sorted(("f1", "made_up", "acc_norm", "loss", "accuracy", "exact_match"), key=rank) == [
        *("exact_match", "accuracy", "acc_norm", "f1", "loss", "made_up")
    ]
    assert {kind_of(name) for name in SCORES} == {Kind.SCORE}
    assert {kind_of(name) for name in LOSSES} == {Kind.LOSS}
    assert kind_of("pct_stereotype") is Kind.UNKNOWN


def test_items_differ_a_little_by_rounding():
    assert settled_items(Counter({9815: 7, 9814: 1, 9816: 1})) == 9815
    assert settled_items(Counter({100: 1, 1319: 1})) is None
    assert settled_items(Counter()) is None

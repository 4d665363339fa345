from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.sources.checkpoint_scores.score_values import (
    ScoreCollection,
    ScoredMetric,
    ScoredTestset,
    role_of_metric,
    role_of_value,
    usual_count,
)
from breadth.sources.checkpoint_scores.scores import CheckpointScore, TrainingRun
from breadth.sources.registry import Source
from breadth.sources.vocabulary import LOSSES, Role


class LogSource(Source):
    name, looks_like = "log", "log"


class ExportSource(LogSource):
    exported = True


A, B = TrainingRun("a"), TrainingRun("b")
LOG, EXPORT = LogSource(), ExportSource()
ACCURACY = ScoredMetric("accuracy", "", False)


def collected(*scores, metric=None, losses=False, known=LOG):
    values = ScoreCollection(metric, losses)
    values.add_file("file", known, scores, 0)
    return values


def cells(values, testset, metric=ACCURACY):
    series = values.testsets[ScoredTestset(*testset, "")][metric]
    return {(run.name, step): value.value for (run, step), value in series.cells.items()}


def test_scores_are_kept_and_the_rest_is_said():
    names = ("eval_hans_accuracy", "eval_hans_loss", "epoch", "loss", "kl")
    values = collected(*(CheckpointScore(A, 1, name, 0.5) for name in names))
    assert values.testsets.keys() == {("eval", "hans", "")}
    assert values.left_out.keys() == {"eval_hans_loss", "epoch", "loss", "kl"}
    assert values.sources == [("file", "log", 5)]


def test_losses_are_kept_when_asked_for():
    values = collected(
        CheckpointScore(A, 1, "eval_hans_loss", 0.5), CheckpointScore(A, 1, "train/loss", 0.5), losses=True
    )
    assert cells(values, ("eval", "hans"), ScoredMetric("loss", "", True)) == {("a", 1): 0.5}
    assert values.left_out.keys() == {"train/loss"}


def test_what_was_exported_is_kept_but_for_bookkeeping():
    names = ("train/loss", "kl", "_step", "eval/hans/acc")
    values = collected(*(CheckpointScore(A, 1, name, 0.5) for name in names), known=EXPORT)
    assert values.testsets.keys() == {("train", "", ""), ("", "kl", ""), ("eval", "hans", "")}
    assert values.left_out.keys() == {"_step"}


@pytest.mark.parametrize(
    ("metric", "kept"), [("kl", {"kl"}), ("*", {"kl", "entropy"}), ("e*", {"entropy"}), ("x", set())]
)
def test_names_that_are_not_known_can_be_asked_for(metric, kept):
    values = collected(
        CheckpointScore(A, 1, "kl", 0.5),
        CheckpointScore(A, 1, "entropy", 0.5),
        CheckpointScore(A, 1, "lr", 1),
        metric=metric,
    )
    assert {testset.name for testset in values.testsets} == kept


def test_rows_of_training_are_left_out_whatever_their_names():
    assert not collected(CheckpointScore(A, 1, "token_accuracy", 0.5, training=True)).testsets


def test_the_later_value_counts_in_any_order():
    early, late = (CheckpointScore(A, 1, "eval_x_accuracy", value, time) for value, time in ((0.25, 5), (0.5, 6)))
    for scores in ((early, late), (late, early)):
        values = collected(*scores)
        assert cells(values, ("eval", "x")) == {("a", 1): 0.5}
        assert values.replaced == {A: 1}
    assert not collected(early, early).replaced


def test_a_format_with_more_digits_counts_more():
    values = ScoreCollection(None, False)
    values.add_file("state", LOG, [CheckpointScore(A, 1, "eval_x_accuracy", 0.1, 7)], 0)
    values.add_file("events", LOG, [CheckpointScore(A, 1, "eval/x_accuracy", 0.10000000149, 1e9)], -1)
    assert cells(values, ("eval", "x")) == {("a", 1): 0.1}
    assert not values.replaced


def test_one_test_set_under_two_names():
    scores = (CheckpointScore(A, 1, "eval_x_accuracy", 0.25), CheckpointScore(B, 1, "x/accuracy", 0.5))
    values = collected(*scores)
    values.join_stages()
    assert cells(values, ("eval", "x")) == {("a", 1): 0.25, ("b", 1): 0.5}
    apart = collected(*scores, CheckpointScore(A, 1, "x/accuracy", 0.75))
    apart.join_stages()
    assert apart.testsets.keys() == {("eval", "x", ""), ("", "x", "")}
    stages = collected(*scores, CheckpointScore(B, 1, "test_x_accuracy", 0.5))
    stages.join_stages()
    assert len(stages.testsets) == 3


def test_values_without_steps_go_where_others_have_steps():
    values = collected(
        CheckpointScore(A, 1, "eval_x_acc", 0.5),
        CheckpointScore(A, None, "eval_x_acc", 0.5),
        CheckpointScore(B, None, "eval_y_acc", 0.5),
    )
    assert values.keep_steps() == (True, [A, B])
    assert {testset.name for testset in values.testsets} == {"x"}
    assert collected(CheckpointScore(A, None, "eval_x_acc", 0.5)).keep_steps() == (False, [])


def test_not_every_file_of_a_run_names_the_model():
    values = collected(
        CheckpointScore(A, 1, "eval_x_acc", 0.5),
        CheckpointScore(A._replace(model="m"), 2, "eval_x_acc", 0.5),
        CheckpointScore(A, 3, "eval_x_acc", 0.5),
    )
    assert values.runs == [A]
    assert values.models == {A: "m"}


def test_files_without_scores_are_said():
    assert collected().left_out == {"file": "no scores, though it looks like log"}


@pytest.mark.parametrize(
    "name",
    ["eval_hans_accuracy", "hans/acc", "acc_hans", "eval_hans", "val_acc_epoch", "eval_average", "eval/hans/mean",
     "humaneval/pass@1", "arc/acc,none", "eval_mnli_len_norm", "Accuracy/test", "hans/test", "reward"],
)  # fmt: skip
def test_scores(name):
    assert role_of_value(name) is Role.SCORE


@pytest.mark.parametrize(
    "name",
    ["eval_loss", "eval_hans_loss", "hans/perplexity", "val/bpb", "eval/lm/c4_en-validation/CE loss", "loss/val"],
)
def test_losses(name):
    assert role_of_value(name) is Role.LOSS


@pytest.mark.parametrize(
    "name", ["loss", "CE loss", "train/loss", "train_accuracy", "training/hans/acc", "train_loss_epoch", "Loss/train"]
)
def test_training(name):
    assert role_of_value(name) is Role.TRAINING


@pytest.mark.parametrize(
    "name",
    [
        "epoch", "learning_rate", "grad_norm", "eval_runtime", "eval_hans_runtime", "eval_samples_per_second",
        "eval_hans_steps_per_second", "eval/steps_per_second", "train_runtime", "total_flos", "lr", "lr-AdamW", "_step",
        "_runtime", "_timestamp", "train/global_step", "trainer/global_step", "eval_samples", "num_input_tokens_seen",
        "system/gpu_0_utilization", "time/fps", "eval_model_preparation_time", "hp_metric", "arc_easy/acc_stderr,none",
        "eval_gen_len", "loss-scale", "batch-size", "hparam/accuracy", "train/epoch", "train_loss_step",
        "eval_mem_cpu_alloc_delta", "eval_hans_std", "runtime_test",
    ],
)  # fmt: skip
def test_bookkeeping(name):
    assert role_of_value(name) is Role.OTHER


@pytest.mark.parametrize(
    "name", ["hans", "kl", "rewards/chosen", "rewards/mean", "overall", "success", "eval", "", "x" * 300, "val"]
)
def test_unknown(name):
    assert role_of_value(name) is None


@given(st.text(max_size=400))
def test_any_name(name):
    assert role_of_value(name) in (None, Role.SCORE, Role.LOSS, Role.TRAINING, Role.OTHER)


def test_metrics_that_a_file_names():
    assert {role_of_metric(name) for name in ("exact_match", "pass@1", "rougeL", "wer")} == {Role.SCORE}
    assert {role_of_metric(name) for name in LOSSES} == {Role.LOSS}
    assert role_of_metric("pct_stereotype") is None
    assert role_of_metric("value") is None


def test_items_differ_a_little_by_rounding():
    assert usual_count(Counter({9815: 7, 9814: 1, 9816: 1})) == 9815
    assert usual_count(Counter({100: 1, 1319: 1})) is None
    assert usual_count(Counter()) is None

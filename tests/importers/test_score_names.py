import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.importers.score_names import LOSSES, SCORES, Kind, kind_of, parse_name, rank


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

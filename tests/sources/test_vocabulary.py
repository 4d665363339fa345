import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.sources.vocabulary import (
    LOSSES,
    METRICS,
    Role,
    dataset_of,
    is_bare,
    is_loss,
    is_lower_better,
    is_metric,
    metric_rank,
    parse_name,
    parse_score,
    place_of,
    plain,
    role_of,
)
from breadth.sources.vocabulary_data import VOCABULARY


@pytest.mark.parametrize(
    ("name", "role"),
    [
        *[(name, Role.ORDER) for name in ("Step", "_step", "global_step", "train/global_step", "iteration", "epoch")],
        *[(name, Role.RUN) for name in ("run", "run_name", "Name", "experiment")],
        *[(name, Role.MODEL) for name in ("model", "model_name", "Model", "fullname", "eval_name", "modelName")],
        *[(name, Role.ITEM) for name in ("question_id", "item_id", "doc_id", "sample_id", "task_id", "questionId")],
        *[(name, Role.CORRECT) for name in ("is_correct", "isCorrect", "correct", "passed", "resolved")],
        *[(name, Role.SCORE) for name in ("eval/mnli_acc", "pass@1", "exact_match", "val_acc", "hans_mean", "test")],
        *[(name, Role.SCORE) for name in ("eval_accuracy", "eval_f1", "val_acc_epoch", "Accuracy/test", "reward")],
        *[(name, Role.SCORE) for name in ("arc_rc_5shot_len_norm", "arc_rc_5shot_soft_log", "arc_rc_5shot_hard")],
        *[(name, Role.LOSS) for name in ("loss", "eval/loss", "c4_bpb", "val_perplexity", "loss/val", "eval_loss")],
        *[(name, Role.LOSS) for name in ("eval/downstream/piqa (CE loss v2)", "bpb/c4", "arc_rc_5shot_ce_loss")],
        *[(name, Role.TRAINING) for name in ("train/loss", "train_acc", "training accuracy", "Accuracy/train")],
        *[(name, Role.TIME) for name in ("_runtime", "_timestamp", "Wall time", "eval_samples_per_second", "date")],
        *[(name, Role.TIME) for name in ("samples_per_second_test", "eval_model_preparation_time")],
        *[(name, Role.SIZE) for name in ("#Params (B)", "n_params", "total_flos", "flops_1e21", "Hub \u2764\ufe0f")],
        *[(name, Role.SIZE) for name in ("eval_samples", "val_examples", "eval_gen_len", "completions/mean_length")],
        *[(name, Role.SPREAD) for name in ("acc_stderr", "hans_std", "mmlu_ci_low", "run-1 - eval/acc__MIN")],
        *[(name, Role.SPREAD) for name in ("arc_easy/acc_stderr,none", "eval_hans_std")],
        *[(name, Role.AVERAGE) for name in ("Average \u2b06\ufe0f", "Overall accuracy", "mean_score", "Mean win rate")],
        *[(name, Role.AVERAGE) for name in ("eval_mean", "mean/test")],
        *[(name, Role.OTHER) for name in ("grad_norm", "train/learning_rate", "lora_alpha", "is_chat", "sha")],
        *[(name, Role.OTHER) for name in ("eval_step", "val_acc_step", "hparam/accuracy", "time/fps", "lr-AdamW")],
        *[(name, Role.OTHER) for name in ("eval_mem_cpu_alloc_delta", "eval_epoch", "hp_metric", "test_loss_scale")],
        *[(name, Role.ROW) for name in ("", " ", "Unnamed: 0", "index")],
        *[
            (name, None)
            for name in (
                "hans",
                "math_lvl_5",
                "math_hard",
                "date_understanding",
                "adversarial_examples",
                "\u6a21\u578b",
            )
        ],
    ],
)
def test_names_of_tools(name, role):
    assert role_of(name) is role


def test_a_name_has_one_role():
    names = [name for words in VOCABULARY["columns"].values() for name in words]
    assert len(names) == len(set(names))
    assert all(plain(name) == name for name in names)


def test_a_metric_is_a_score_or_a_loss():
    assert len({*METRICS, *LOSSES}) == len(METRICS) + len(LOSSES)
    assert all(plain(name) == name for name in (*METRICS, *LOSSES))
    assert not any(map(is_loss, METRICS))
    assert all(map(is_metric, METRICS))
    assert all(is_loss(name) and is_metric(name) for name in ("ce_loss", "CE loss", "Brier-score"))
    assert not is_metric("pct_stereotype")


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
        ("val_hans_acc/dataloader_idx_1", "val", "hans/dataloader_idx_1", "acc"),
        ("val_acc_epoch", "val", "", "acc"),
        ("validation/epoch_accuracy", "validation", "", "accuracy"),
        ("eval_hans/accuracy", "eval", "hans", "accuracy"),
        ("hans/acc", "", "hans", "acc"),
        ("acc_hans", "", "hans", "acc"),
        ("eval_acc_hans", "eval", "hans", "acc"),
        ("accuracy/hans", "", "hans", "accuracy"),
        ("recall/hans", "", "hans", "recall"),
        ("recall_hans", "", "recall_hans", ""),
        ("eval_acc_norm", "eval", "", "acc_norm"),
        ("eval_rougeLsum", "eval", "", "rougeLsum"),
        ("eval_hans", "eval", "hans", ""),
        ("Val/HANS/Accuracy", "val", "HANS", "Accuracy"),
        ("HANS/Accuracy/val", "val", "HANS", "Accuracy"),
        ("MNLI dev acc.", "dev", "MNLI", "acc"),
        ("Accuracy/test", "test", "", "Accuracy"),
        ("humaneval/pass@1", "", "humaneval", "pass@1"),
        ("evaluator_accuracy", "", "evaluator", "accuracy"),
        ("librispeech/wer", "", "librispeech", "wer"),
        ("eval_loss", "eval", "", "loss"),
        ("hans/perplexity", "", "hans", "perplexity"),
        ("eval/lm/c4_en-validation/CE loss", "eval", "lm/c4_en-validation", "CE loss"),
        ("eval/uncheatable_eval/bpb", "eval", "uncheatable_eval", "bpb"),
        ("stsb_combined_score", "", "stsb", "combined_score"),
    ],
)
def test_parts_of_names_as_they_are_spelled(name, stage, testset, metric):
    assert parse_name(name) == (stage, testset, metric, "")
    assert parse_score(name) == (stage, plain(testset), plain(metric))


@pytest.mark.parametrize(
    ("name", "testset", "metric"),
    [
        ("eval/downstream/arc_easy_acc", "arc_easy", "acc"),
        ("eval/downstream/arc_challenge_rc_5shot_len_norm", "arc_challenge_rc_5shot", "len_norm"),
        ("eval/downstream_soft/arc_challenge_rc_5shot_soft", "arc_challenge_rc_5shot", "soft"),
        ("eval/downstream_soft_log/arc_challenge_rc_5shot_soft_log", "arc_challenge_rc_5shot", "soft_log"),
        ("arc_challenge_rc_5shot_hard", "arc_challenge_rc_5shot", "hard"),
        ("arc_challenge_hard", "arc_challenge_hard", ""),
        ("snli_hard", "snli_hard", ""),
        ("eval/downstream/arc_easy_rc_5shot (length-normalized accuracy v2)", "arc_easy_rc_5shot",
         "length_normalized_accuracy_v2"),
        ("eval/downstream/mmlu_stem_mc_5shot (PMI-DC accuracy)", "mmlu_stem_mc_5shot", "pmi_dc_accuracy"),
        ("eval/downstream/boolq_mc_5shot (BPB v2)", "boolq_mc_5shot", "bpb_v2"),
    ],
)  # fmt: skip
def test_metrics_of_one_test_set_in_logs_of_olmo(name, testset, metric):
    assert parse_score(name)[1:] == (testset, metric)


def test_filters_belong_to_the_metric():
    assert parse_name("gsm8k/exact_match,strict-match") == ("", "gsm8k", "exact_match", "strict-match")
    assert parse_name("arc_easy/acc,none") == ("", "arc_easy", "acc", "none")
    assert parse_score("arc_challenge/acc_norm,none") == ("", "arc_challenge", "acc_norm_none")
    assert parse_score("arc_challenge_acc_norm_none") == ("", "arc_challenge", "acc_norm_none")
    assert parse_score("hans, mnli") == ("", "hans_mnli", "")


def test_names_of_values_alone():
    assert is_bare("accuracy")
    assert is_bare("is_correct")
    assert is_bare("value")
    assert not is_bare("val_accuracy")
    assert not is_bare("hans")


def test_spellings_of_one_data_set():
    assert dataset_of("eval_mnli-matched_accuracy") == dataset_of("MultiNLI") == "mnli"


@given(st.text(max_size=400))
def test_any_name_has_parts(name):
    parts = parse_name(name)
    assert all(part in name or part.lower() in name.lower() or "/" in part for part in parts)
    assert role_of(name) is None or isinstance(role_of(name), Role)


@pytest.mark.parametrize("name", ["a_" * 125, "a" * 249 + "_", "_per_" * 50, "/" * 250, ", " * 125, "acc_" * 62])
def test_long_names_take_no_time(name):
    assert role_of(name) is not Role.LOSS


def test_preferred_names_come_first():
    steps = ["epoch", "_step", "Step", "train/global_step"]
    assert sorted(steps, key=place_of) == ["train/global_step", "Step", "_step", "epoch"]
    metrics = ["f1", "made_up", "acc_norm", "loss", "accuracy", "exact_match"]
    assert sorted(metrics, key=metric_rank) == ["exact_match", "accuracy", "acc_norm", "f1", "loss", "made_up"]


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        *[(name, True) for name in ("eval_loss", "loss_hans", "c4_bpb", "valLoss", "librispeech/wer")],
        *[(name, True) for name in ("error", "hans_error_rate", "bits_per_byte", "ece", "cross entropy", "mse_hans")],
        *[(name, False) for name in ("error_detection", "hans", "accuracy", "lossless_acc", "errata", "")],
    ],
)
def test_less_is_better_on_losses_and_errors(name, lower):
    assert is_lower_better(name) is lower

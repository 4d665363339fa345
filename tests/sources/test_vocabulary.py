import pytest

from breadth.sources.vocabulary import NAMES, Role, dataset_of, is_bare, parse_score, place_of, plain, role_of


@pytest.mark.parametrize(
    ("name", "role"),
    [
        *[(name, Role.ORDER) for name in ("Step", "_step", "global_step", "train/global_step", "iteration", "epoch")],
        *[(name, Role.RUN) for name in ("run", "run_name", "Name", "experiment")],
        *[(name, Role.MODEL) for name in ("model", "model_name", "Model", "fullname", "eval_name", "modelName")],
        *[(name, Role.ITEM) for name in ("question_id", "item_id", "doc_id", "sample_id", "task_id", "questionId")],
        *[(name, Role.CORRECT) for name in ("is_correct", "isCorrect", "correct", "passed", "resolved")],
        *[(name, Role.SCORE) for name in ("eval/mnli_acc", "pass@1", "exact_match", "val_acc", "hans_mean", "test")],
        *[(name, Role.LOSS) for name in ("loss", "eval/loss", "c4_bpb", "val_perplexity")],
        *[(name, Role.TRAINING) for name in ("train/loss", "train_acc", "training accuracy")],
        *[(name, Role.TIME) for name in ("_runtime", "_timestamp", "Wall time", "eval_samples_per_second", "date")],
        *[(name, Role.SIZE) for name in ("#Params (B)", "n_params", "total_flos", "flops_1e21", "Hub \u2764\ufe0f")],
        *[(name, Role.SPREAD) for name in ("acc_stderr", "hans_std", "mmlu_ci_low", "run-1 - eval/acc__MIN")],
        *[(name, Role.AVERAGE) for name in ("Average \u2b06\ufe0f", "Overall accuracy", "mean_score", "Mean win rate")],
        *[(name, Role.OTHER) for name in ("grad_norm", "train/learning_rate", "lora_alpha", "is_chat", "sha")],
        *[(name, Role.ROW) for name in ("", " ", "Unnamed: 0", "index")],
        *[
            (name, None)
            for name in ("hans", "math_lvl_5", "date_understanding", "adversarial_examples", "\u6a21\u578b")
        ],
    ],
)
def test_names_of_tools(name, role):
    assert role_of(name) is role


def test_a_name_has_one_role():
    names = [name for words in NAMES.values() for name in words.split()]
    assert len(names) == len(set(names))
    assert all(plain(name) == name for name in names)


def test_parts_of_names():
    assert parse_score("eval/hans_acc") == ("eval", "hans", "acc")
    assert parse_score("MNLI dev acc.") == ("dev", "mnli", "acc")
    assert parse_score("arc_challenge/acc_norm,none") == ("", "arc_challenge", "acc_norm_none")
    assert parse_score("acc_hans") == ("", "hans", "acc")
    assert parse_score("MMLU - EM") == ("", "mmlu", "em")
    assert is_bare("accuracy")
    assert is_bare("is_correct")
    assert not is_bare("val_accuracy")
    assert dataset_of("eval_mnli-matched_accuracy") == dataset_of("MultiNLI") == "mnli"


def test_preferred_names_come_first():
    assert sorted(["epoch", "_step", "Step", "train/global_step"], key=place_of) == [
        "train/global_step",
        "Step",
        "_step",
        "epoch",
    ]

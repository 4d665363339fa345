"""What a column of a table is, judged by its name: the names that tools of the field use, in one table."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class Role(StrEnum):
    """What a column is; the value is what messages call it."""

    RUN = "run"
    MODEL = "model"
    CONDITION = "setting"
    ORDER = "step"
    TESTSET = "test set"
    METRIC = "metric"
    ITEM = "item"
    CORRECT = "answer"
    SCORE = "score"
    LOSS = "loss"
    TRAINING = "training"
    AVERAGE = "average"
    SPREAD = "spread"
    TIME = "time"
    SIZE = "size"
    ROW = "row number"
    OTHER = "not a score"


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


class ScoreName(NamedTuple):
    """The parts of the name of a score, in plain words: ``eval/hans_acc`` is stage eval, test set hans, metric acc."""

    stage: str
    testset: str
    metric: str


#: Names in plain words (see :func:`plain`), the preferred ones of a role first.
NAMES: dict[Role, str] = {
    Role.RUN: "run run_name run_id experiment experiment_name experiment_id exp exp_name trial trial_id job job_id "
    "display_name name",
    Role.MODEL: "model models model_name model_id model_name_or_path fullname full_name eval_name "
    "model_adapter llm lm system agent engine participant respondent student person subject",
    Role.CONDITION: "train_set training_set train_data trained_on seed random_seed data_seed fold replicate "
    "repetition rep examples n_examples shots n_shot num_fewshot fewshot train_level strategy method variant setting "
    "condition config optimizer lr learning_rate rank revision temperature template language lang",
    Role.ORDER: "global_step trainer_global_step train_global_step step training_step train_step steps iteration "
    "iterations iter iters it update updates num_updates checkpoint ckpt epoch train_epoch epochs tokens train_tokens "
    "training_tokens tokens_seen num_tokens_seen num_input_tokens_seen consumed_tokens tokens_b tokens_t samples_seen "
    "examples_seen consumed_samples",
    Role.TESTSET: "testset test_set task tasks task_name benchmark eval_set eval_dataset eval_task evaluation suite "
    "scenario dataset dataset_name data_set subset subtask split",
    Role.METRIC: "metric metrics metric_name measure scorer filter",
    Role.ITEM: "item item_id question_id qid query_id doc_id sample_id problem_id prompt_id instance_id example_id "
    "case_id exercise_id task_id item_name uid question problem",
    Role.CORRECT: "correct is_correct correctness right is_right passed resolved solved success successful hit",
    Role.ROW: "index id idx unnamed_0 row row_id row_number rownames row_names",
    Role.TIME: "runtime timestamp wall_time time seconds duration elapsed latency date datetime day year created "
    "created_at updated submitted uploaded submission_date upload_to_hub_date relative_time eta",
    Role.SIZE: "params parameters params_b n_params num_params size model_size size_b flos total_flos flops mfu memory "
    "n num count total samples n_samples num_samples items n_items num_items support hub likes downloads votes "
    "position place train_samples num_layers layers hidden_size vocab_size context context_length",
    Role.OTHER: "grad_norm gradient_norm batch_size weight_decay momentum dropout warmup warmup_ratio warmup_steps "
    "max_steps num_epochs num_train_epochs loss_scale version sha model_sha type base_model family architecture "
    "license hub_license weight_type flagged merged moe state status notes tags user sweep generation alpha beta gamma "
    "co2_cost_kg co₂_cost_kg label gold margin difficulty level shift train_test answer prediction response output",
}

#: Names that a pattern decides, tried in this order after the exact ones.
PATTERNS: tuple[tuple[Role, str], ...] = (
    (Role.SPREAD, r"(?:.*_)?(?:stderr|std_?err|standard_error|std|stdev|std_dev|sd|sem|variance|ci(?:_?95)?)"),
    (Role.SPREAD, r"(?:.*_)?(?:ci(?:_?95)?|conf|confidence|interval)_(?:low|high|lower|upper|min|max|width)"),
    (Role.TIME, r".*_(?:runtime|timestamp|time|date|datetime|seconds|duration|latency|hours|minutes|ms)"),
    (Role.TIME, r".*_?(?:per_(?:second|sec|step)|throughput)"),
    (Role.SIZE, r"(?:.*_)?(?:params|parameters|flops|flos|size|length|len)(?:_\w{1,4})?|(?:flops|flos)_\w+"),
    (Role.SIZE, r"(?:n|num|number_of|max|eval|test|train)_\w*(?:samples|examples|items)|\w+_(?:count|tokens)|num_\w+"),
    (Role.OTHER, r"(?:.*_)?(?:lr|learning_rate|(?:grad|gradient)_norm|weight_decay|batch_size|dropout|warmup\w*)"),
    (Role.OTHER, r"(?:is|has|uses?)_\w+"),
    (Role.OTHER, r"(?:system|gpu|mem|perf|optim|hparams|config|args|lora|adam)_.*"),
)

#: Metrics; the unnamed ones of a long table are among them.
METRICS = (
    *("exact_match", "quasi_exact_match", "prefix_exact_match", "em", "acc", "accuracy", "acc_norm", "acc_norm_bytes"),
    *("accuracy_norm", "balanced_accuracy", "pass_1", "pass_at_1", "mc1", "mc2", "top1", "top5", "top_1", "top_5"),
    *("top1_accuracy", "top5_accuracy", "prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc"),
    *("inst_level_loose_acc", "f1", "f1_macro", "macro_f1", "f1_micro", "micro_f1", "f1_score", "mcc", "auc", "auroc"),
    *("matthews_correlation", "roc_auc", "precision", "recall", "kappa", "pearson", "pearsonr", "spearman"),
    *("spearmanr", "bleu", "sacrebleu", "chrf", "meteor", "rouge1", "rouge2", "rougel", "rouge_l", "bertscore"),
    *("ndcg", "mrr", "miou", "win_rate", "solve_rate", "score", "value", "result", "mean", "raw", "percent", "pct"),
    *("wer", "cer", "ter", "error_rate", "error", "err"),
)
LOSSES = (
    *("loss", "ce_loss", "nll", "nll_loss", "cross_entropy", "xent", "ppl", "perplexity", "word_perplexity"),
    *("byte_perplexity", "bits_per_byte", "bpb", "bpc", "brier", "brier_score", "mse", "rmse", "mae", "ece"),
)

_ROLES = {name: role for role, names in reversed(NAMES.items()) for name in names.split()}
_PLACES = {name: place for names in NAMES.values() for place, name in enumerate(names.split())}
_PATTERNS = tuple((role, re.compile(pattern)) for role, pattern in PATTERNS)
_ANY_METRIC = "|".join(sorted((*METRICS, *LOSSES), key=len, reverse=True))
_VARIANT = r"(?:_(?:none|strict_match|flexible_extract|dataloader_idx_\d+))?"
_AT_END = re.compile(rf"(?:^|(.*?)_)((?:{_ANY_METRIC}){_VARIANT})")
_AT_START = re.compile(r"(acc|accuracy|em|exact_match|f1|score|loss|ppl|perplexity|bleu)_(.+)")
_STAGE = r"eval|evaluation|test|valid|val|validation|dev|predict|train|training"
_STAGED = re.compile(rf"(?:({_STAGE})(?:_|$))?(.*?)(?:(?:^|_)({_STAGE}))?")

#: Validation parts, which come from where the training data come from.
VALIDATION = frozenset({"valid", "val", "validation", "dev"})

#: Words of which the name of an average is made.
_AVERAGE = _words("average avg mean overall macro micro aggregate total all win rate score the of")

#: Scores of everything, where a table has others as well.
OVERALL = _words("score value result mean")

#: How scores on data like those trained on are called.
IN_DOMAIN = _words(
    "in_domain indomain in_dist in_distribution iid id id_test id_val source in_domain_test in_domain_val"
)

#: Well-known training sets, with test sets that are shifts of them. RTE and WNLI do not tell: GLUE has them, too.
TRAINING_SETS: dict[str, frozenset[str]] = {
    "mnli": _words("hans anli anlir1 anlir2 anlir3 snli scitail paws wanli counterfactual stress"),
    "snli": _words("mnli hans anli anlir1 anlir2 anlir3 scitail paws wanli breakingnli"),
    "squad": _words("adversarialqa advqa newsqa triviaqa naturalquestions nq hotpotqa squadshifts searchqa"),
    "qqp": _words("paws pawsqqp twitterppdb"),
    "sst2": _words("imdb yelp amazon contrastimdb"),
    "imagenet": _words("imagenetv2 imagenetr imageneta imagenetc imagenetsketch objectnet"),
    "cifar10": _words("cifar101 cifar10c cifar102 svhn stl10 cinic10"),
}
_SAME_SET = {
    **dict.fromkeys(("multinli", "mnlim", "mnlimatched", "gluemnli", "mnlidevmatched"), "mnli"),
    **dict.fromkeys(("sst", "gluesst2"), "sst2"),
    **dict.fromkeys(("imagenet1k", "ilsvrc2012"), "imagenet"),
    "squadv1": "squad",
}


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name in lower-case words joined by underscores: ``isCorrect``, ``Is correct`` and ``_is-correct`` are one."""
    return "_".join(re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", name).lower()))


@lru_cache(maxsize=4096)
def parse_score(name: str) -> ScoreName:
    """Take the name of a score apart."""
    rest, metric = plain(name), ""
    if match := _AT_END.fullmatch(rest):
        rest, metric = match[1] or "", match[2]
    elif match := _AT_START.fullmatch(rest):
        metric, rest = match[1], match[2]
    staged = _STAGED.fullmatch(rest)
    stage, testset, end = staged.groups() if staged else ("", rest, "")
    return ScoreName(stage or end or "", testset, metric)


@lru_cache(maxsize=4096)
def role_of(name: str) -> Role | None:
    """What a column is by its name; None if the name says nothing."""
    words, (stage, testset, metric) = plain(name), parse_score(name)
    role = _ROLES.get(words) or next((role for role, pattern in _PATTERNS if pattern.fullmatch(words)), None)
    if not name.strip():
        role = Role.ROW
    elif name.endswith(("__MIN", "__MAX")):
        role = Role.SPREAD
    elif role is None and stage in ("train", "training"):
        role = Role.TRAINING
    elif role is None and metric.removesuffix("_none") in LOSSES:
        role = Role.LOSS
    elif role is None and testset and _AVERAGE.issuperset(testset.split("_")):
        role = Role.AVERAGE
    elif role is None and (metric or stage):
        role = Role.SCORE
    return role


def place_of(name: str) -> tuple[int, bool, str]:
    """Sorts the columns of a role: preferred names first, those with an underscore in front after the same without."""
    return _PLACES.get(plain(name), len(_PLACES)), name.startswith("_"), name


def is_bare(name: str) -> bool:
    """Whether a name is that of a score or loss alone, with no test set: the column of values of a long table."""
    stage, testset, metric = parse_score(name)
    return role_of(name) is Role.CORRECT or bool(metric and not stage and not testset)


def dataset_of(name: str) -> str:
    """The data set that a score is on, with one spelling for each well-known one."""
    squeezed = parse_score(name).testset.replace("_", "")
    return _SAME_SET.get(squeezed, squeezed)

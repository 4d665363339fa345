"""What a value in the log of a training run is, judged by its name: ``eval_hans_accuracy`` is the accuracy on hans."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a value is, and why it is left out if it is not a score."""

    SCORE = ""
    LOSS = "a loss; --losses keeps losses"
    TRAINING = "of training, not of a test set"
    BOOKKEEPING = "not a score"
    UNKNOWN = "not known as a score; --metric takes such names, or wildcards"


class ScoreName(NamedTuple):
    """The parts of a name. ``variant`` is lm-evaluation-harness's filter."""

    stage: str
    testset: str
    metric: str
    kind: Kind
    variant: str = ""


#: Names of scores, the default of a test set that has several first.
SCORES = (
    *("exact_match", "acc", "accuracy", "acc_norm", "acc_norm_bytes", "accuracy_norm", "balanced_accuracy", "em"),
    *("quasi_exact_match", "prefix_exact_match", "pass@1", "pass_at_1", "pass1", "mc1", "mc2", "acc_mutual_info"),
    *("prompt_level_strict_acc", "prompt_level_loose_acc", "inst_level_strict_acc", "inst_level_loose_acc", "top1"),
    *("top1_accuracy", "top_1_accuracy", "top5", "top5_accuracy", "top_5_accuracy", "mean_token_accuracy"),
    *("f1", "f1_macro", "macro_f1", "f1_micro", "micro_f1", "f1_weighted", "weighted_f1", "f1_score", "mcc"),
    *("matthews_correlation", "auc", "auroc", "roc_auc", "average_precision", "precision", "recall", "kappa"),
    *("pearson", "pearsonr", "spearman", "spearmanr", "combined_score", "correlation", "r2"),
    *("bleu", "bleu_acc", "sacrebleu", "chrf", "meteor", "rouge", "rouge1", "rouge2", "rougeL", "rougeLsum", "rougel"),
    *("bertscore", "ndcg", "mrr", "map", "iou", "miou", "dice", "win_rate", "reward", "solve_rate", "score"),
    *("wer", "cer", "ter", "error_rate", "error", "err"),
)

#: Names of losses. Like error rates they keep their name in that of the column, so that `correlate` turns them around.
LOSSES = (
    *("loss", "ce_loss", "ce loss", "nll", "nll_loss", "cross_entropy", "xent", "ppl", "perplexity", "word_perplexity"),
    *("byte_perplexity", "bits_per_byte", "bpb", "bpc", "brier", "brier_score", "mse", "rmse", "mae"),
)
LOWER_IS_BETTER = frozenset((*LOSSES, "wer", "cer", "ter", "error_rate", "error", "err"))

#: Metrics that may also come before the name of a test set without a slash: acc_hans.
_FIRST = ("accuracy", "acc", "exact_match", "f1", "loss")

#: Longer names are not taken apart; MLflow allows 250 characters.
LONGEST = 250

_CUT = r"[/_.: -]"
_STAGE = re.compile(rf"(eval|evaluation|test|val|valid|validation|dev|predict|train|training)(?:{_CUT}+|$)", re.I)
_LONGEST_FIRST = "|".join(map(re.escape, sorted((*SCORES, *LOSSES), key=len, reverse=True)))
_AT_END = re.compile(rf"(?:^|(.*?){_CUT}+)({_LONGEST_FIRST})", re.I | re.S)
_AT_START = re.compile(rf"(?:({'|'.join(_FIRST)}){_CUT}|({_LONGEST_FIRST})/)(.+)", re.I | re.S)
_LOADER = re.compile(r"(.*)/(dataloader_idx_\d+)", re.S)
_VARIANT = re.compile(r"(.*[^,\s]),([\w-]+)", re.S)

#: Time, place in training, amounts, sizes: what every trainer logs beside its scores.
_BOOKKEEPING = re.compile(
    rf"(?:.*{_CUT})?(?:runtime|samples|examples|(?:model_)?preparation_time|compilation_time|\w*_per_(?:second|sec|step)"
    r"|\w*per_second|epochs?|(?:global_?)?steps?|iter(?:ation)?s?|lr|learning[_-]rate|grad(?:ient)?[_-]norm|timestamp"
    r"|(?:wall_?)?time|total_flos|flops|mfu|\w*tokens(?:_seen)?|throughput|\w*_stderr|loss[_-]scale|batch[_-]size"
    r"|mem_[cg]pu_\w+|gen_len|\w*length|hp_metric|weight[_-]decay|momentum|sample_len|num_samples)"
    r"|(?:system|time|lr|perf|throughput|optim|gpu|memory|hparams?)/.*|lr-.*",
    re.I | re.S,
)


def parse_name(name: str) -> ScoreName:
    """Take a name apart: a stage (eval, test, val, ...), a test set, and a metric at the end or the beginning."""
    name = name.strip()
    if len(name) > LONGEST:
        return ScoreName("", name, "", Kind.UNKNOWN)
    if name.endswith("_epoch") and _AT_END.fullmatch(name[: -len("_epoch")]):  # Lightning's mean over an epoch
        name = name.removesuffix("_epoch")
    if _BOOKKEEPING.fullmatch(name):
        return ScoreName("", name, "", Kind.BOOKKEEPING)
    variant = ""
    if match := _VARIANT.fullmatch(name):
        name, variant = match[1], "" if match[2] == "none" else match[2]
    rest, loader = name, ""
    if match := _LOADER.fullmatch(rest):  # Lightning: val_acc/dataloader_idx_1
        rest, loader = match[1], match[2]
    stage = ""
    if match := _STAGE.match(rest):
        stage, rest = match[1].lower(), rest[match.end() :]
    if _BOOKKEEPING.fullmatch(rest):
        return ScoreName(stage, name, "", Kind.BOOKKEEPING)
    testset, metric = rest, ""
    if match := _AT_END.fullmatch(rest):
        testset, metric = match[1] or "", match[2]
    elif match := _AT_START.fullmatch(rest):
        testset, metric = match[3], match[1] or match[2]
    testset = "" if testset == "epoch" else testset.strip("/_.: -")  # Keras: epoch_accuracy
    testset = "/".join(part for part in (testset, loader) if part)
    loss = metric.lower() in LOSSES
    if stage in ("train", "training") or (loss and not stage and not testset):
        kind = Kind.TRAINING
    elif loss:
        kind = Kind.LOSS
    else:
        kind = Kind.SCORE if metric or (stage and testset) else Kind.UNKNOWN
    return ScoreName(stage, testset, metric, kind, variant)


def kind_of(metric: str) -> Kind:
    """What a metric is, where a file keeps it apart from the test set."""
    if metric.lower() in LOSSES:
        return Kind.LOSS
    return Kind.SCORE if metric.lower() in _KNOWN else Kind.UNKNOWN


def rank(metric: str) -> int:
    """The place of a metric in the order of defaults; unknown ones come last."""
    return _KNOWN.get(metric.lower(), len(_KNOWN))


_KNOWN = {name.lower(): place for place, name in reversed(list(enumerate((*SCORES, *LOSSES))))}

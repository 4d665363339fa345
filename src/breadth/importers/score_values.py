"""Values of checkpoints as they are read: which are scores, by their names, and which of two for one cell is used.

``eval_hans_accuracy`` is the accuracy on hans.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from breadth.errors import listed
from breadth.importers.score_files import Run, Score, ScoreFormat


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

_KNOWN = {name.lower(): place for place, name in reversed(list(enumerate((*SCORES, *LOSSES))))}

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


class Testset(NamedTuple):
    """What gets a column of its own, given its metric."""

    stage: str
    name: str
    setting: str


class TestsetMetric(NamedTuple):
    """A metric of a test set, and whether it is a loss."""

    name: str
    variant: str
    loss: bool

    def __str__(self) -> str:
        """The name as messages show it."""
        return f"{self.name or 'value'} ({self.variant})" if self.variant else self.name or "value"


class _Value(NamedTuple):
    """A value; of several, the one with the greatest ``place`` counts: priority of its format, time of logging."""

    place: tuple[int, float]
    value: float


@dataclass
class Series:
    """The values of one metric on one test set."""

    cells: dict[tuple[Run, float | None], _Value] = field(default_factory=dict)
    items: Counter[int] = field(default_factory=Counter)
    asked: bool = False

    @property
    def runs(self) -> set[Run]:
        """Runs that have values."""
        return {run for run, _ in self.cells}


def settled_items(counts: Counter[int]) -> int | None:
    """The number of items of a test set: speeds are rounded in logs, so counts may differ a little; else None."""
    if not counts:
        return None
    usual = max(counts, key=lambda count: (counts[count], count))
    near = all(math.isclose(count, usual, rel_tol=1e-3, abs_tol=1) for count in counts)
    return usual if near else None


class Values:
    """Collects the values of all files, without those that are no scores."""

    def __init__(self, metric: str | None, losses: bool) -> None:
        self.metric, self.losses = metric, losses
        self.testsets: dict[Testset, dict[TestsetMetric, Series]] = {}
        self.sources: list[tuple[str, str, int]] = []
        self.left_out: dict[str, str] = {}
        self.names: dict[str, None] = {}
        self.replaced: Counter[Run] = Counter()
        self.models: dict[Run, str] = {}
        self._order: dict[Run, int] = {}
        self._parsed: dict[tuple[str, bool, bool], tuple[ScoreName, bool] | None] = {}

    def add_file(self, path: str, known: ScoreFormat, scores: Iterable[Score], priority: int) -> None:
        """Add what a file of a known format holds."""
        count = 0
        for score in scores:
            count += 1
            if score.mean_of:
                self.left_out[score.name] = f"mean of {listed(score.mean_of, 3)}, which are here themselves"
            elif (parsed := self._parse(score, known.exported)) is not None:
                self._add(score, *parsed, priority)
        if count:
            self.sources.append((path, known.name, count))
        else:
            self.left_out[path] = f"no scores, though it looks like {known.name}"

    @property
    def runs(self) -> list[Run]:
        """All runs that have values, in the order in which they were read."""
        runs = dict.fromkeys(
            run for metrics in self.testsets.values() for one in metrics.values() for run, _ in one.cells
        )
        return sorted(runs, key=lambda run: self._order[run])

    def join_stages(self) -> None:
        """Let ``hans`` and ``eval_hans`` be one test set, unless a run has both or there are other stages of it."""
        alike: dict[tuple[str, str], list[Testset]] = {}
        for testset in self.testsets:
            alike.setdefault((testset.name, testset.setting), []).append(testset)
        for group in alike.values():
            plain = next((testset for testset in group if not testset.stage), None)
            if plain is None or not plain.name or len(group) != 2:
                continue
            staged = next(testset for testset in group if testset.stage)
            runs = [set().union(*(one.runs for one in self.testsets[one_of].values())) for one_of in (plain, staged)]
            if not runs[0] & runs[1]:
                for metric, series in self.testsets.pop(plain).items():
                    joined = self.testsets[staged].setdefault(metric, Series())
                    joined.cells |= series.cells
                    joined.items += series.items
                    joined.asked |= series.asked

    def keep_steps(self) -> tuple[bool, list[Run]]:
        """Drop values without a training step if any value has one: whether that is so, and runs that lost values."""
        every = [one for metrics in self.testsets.values() for one in metrics.values()]
        if not any(step is not None for one in every for _, step in one.cells):
            return False, []
        lost = {run for one in every for run, step in one.cells if step is None}
        for one in every:
            one.cells = {cell: value for cell, value in one.cells.items() if cell[1] is not None}
        for testset, metrics in list(self.testsets.items()):
            self.testsets[testset] = {metric: one for metric, one in metrics.items() if one.cells}
        self.testsets = {testset: metrics for testset, metrics in self.testsets.items() if metrics}
        return True, sorted(lost, key=lambda run: self._order[run])

    def _parse(self, score: Score, exported: bool) -> tuple[ScoreName, bool] | None:
        """What a value is and whether the user asked for it; None if it is left out."""
        full = score.name if score.metric is None else f"{score.name}/{score.metric}"
        variant = f",{score.variant}" if score.variant else ""
        key = (full + variant, exported, score.training)
        if key not in self._parsed:
            parts = parse_name(score.name)
            if score.metric is not None:
                parts = ScoreName("", score.name, score.metric, kind_of(score.metric), score.variant)
            elif score.training and parts.kind is not Kind.BOOKKEEPING:
                parts = parts._replace(kind=Kind.TRAINING)
            self.names |= dict.fromkeys(filter(None, (parts.metric, full)))
            asked = self.metric is not None and self.metric in (
                *(score.name, full, key[0], parts.metric),
                f"{parts.metric},{parts.variant or 'none'}",
            )
            wild = self.metric is not None and fnmatch.fnmatchcase(full, self.metric)
            kept = asked or parts.kind is Kind.SCORE or (parts.kind is Kind.LOSS and self.losses)
            kept |= (parts.kind is Kind.UNKNOWN and wild) or (exported and parts.kind is not Kind.BOOKKEEPING)
            self._parsed[key] = (parts, asked or wild) if kept else None
            if not kept:
                self.left_out[key[0]] = parts.kind.value
        return self._parsed[key]

    def _add(self, score: Score, parts: ScoreName, asked: bool, priority: int) -> None:
        testset = Testset(parts.stage, parts.testset, score.setting)
        metric = TestsetMetric(parts.metric, parts.variant, kind_of(parts.metric) is Kind.LOSS)
        series = self.testsets.setdefault(testset, {}).setdefault(metric, Series())
        series.asked |= asked
        if score.items is not None:
            series.items[score.items] += 1
        run = score.run._replace(model=None)  # not every file of a run names the model
        if score.run.model:
            self.models[run] = score.run.model
        self._order.setdefault(run, len(self._order))
        step = None if score.step is None else float(score.step)
        cell, value = (run, step), _Value((priority, score.time), score.value)
        before = series.cells.get(cell)
        if before is not None and not math.isclose(before.value, value.value, rel_tol=1e-5):
            self.replaced[run] += 1
        if before is None or value.place >= before.place:
            series.cells[cell] = value

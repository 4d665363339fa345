"""HELM: run directories of all suites (classic, lite, capabilities, ...). HELM is not needed.

``per_instance_stats.json`` holds the scores, ``run_spec.json`` says of which model and scenario. Directories that were
reduced to what HELM's web page shows have ``display_predictions.json`` and ``instances.json`` instead; these two are
written from HELM's source code, not tried on a real log. Texts, answers and log-probabilities come from
``scenario_state.json``.

- **Item**: the instance's id, which is its position in the scenario. Two versions of a scenario may use one id for two
  questions; where texts are read, such items are kept apart.
- **Split**: test, else valid; ``--split`` chooses. Perturbed instances are left out.
- **Test set**: the name of the run without the model and without what says how it was asked: ``mmlu:subject=anatomy``.
- **Metric**: the one that HELM's leaderboards show for the scenario; other measures of correctness are there to choose,
  and any other per-instance statistic if ``--metric`` names it.
- **Train trials**: the mean, or ``--epochs each``.
- **Subject**: model and deployment; the adaptation method, examples in the prompt, and other arguments are settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from breadth.errors import InputError, listed
from breadth.importers.helm_requests import Requests, is_perturbed, read_requests
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part
from breadth.importers.reading import LogFile, Object, agreed, entries, mapping, mean_of, number, parse, plain, words

STATS, DISPLAY, SPEC, AGGREGATE = "per_instance_stats.json", "display_predictions.json", "run_spec.json", "stats.json"

#: Scenarios and groups whose leaderboards show another metric than the first of :data:`CORRECTNESS` that they have.
MAIN = {
    "quasi_exact_match": (
        *("legalbench", "med_qa", "boolq", "imdb", "raft", "civil_comments", "lsat_qa", "babi_qa"),
        *("synthetic_reasoning", "synthetic_reasoning_natural", "entity_matching", "entity_data_imputation"),
    ),
    "f1_score": ("narrative_qa", "natural_qa", "quac", "natural_qa_closedbook", "natural_qa_openbook_longans"),
}

#: Statistics that say how right an answer is, the preferred first.
CORRECTNESS = (
    *("math_equiv_chain_of_thought", "math_equiv", "final_number_exact_match", "chain_of_thought_correctness"),
    *("ifeval_strict_accuracy", "omni_math_accuracy", "wildbench_score_rescaled", "safety_score", "pass", "test_avg"),
    *("exact_match_indicator", "exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match"),
    *("f1_score", "rouge_2", "rouge_l", "rouge_1", "bleu_4", "bleu_1", "NDCG@10", "RR@10"),
)
_CORRECT = re.compile(r"(?:.*_)?(?:cot_correctness|correctness|accuracy|exact_match|math_equiv\w*)")

#: Arguments in the name of a run that say how a model was asked, not what, and are nowhere else.
ASKED = re.compile(
    r"instructions|prompt|newline|stop|format|add_to_stop|global_(?:pre|suf)fix|num_outputs|tokenizer"
    r"|num_(?:prompt|output)_tokens|increase_max_tokens|increase_temperature|chatml|(?:output|follow)_format_instructions"
    r"|use_(?:chain_of_thought|few_shot|official_examples)|num_respondents|annotator_model(?:_deployment)?"
)

#: Such arguments that the adapter's specification has, too, or that do not change the answers that are read.
ELSEWHERE = re.compile(
    r"model|model_deployment|method|data_augmentation|max_(?:train|eval)_instances|(?:num|max)_(?:train_)?trials"
    r"|eval_split|temperature|max_tokens|groups"
)

Key = tuple[str, int]


@dataclass
class Split:
    """Scores of one split: by metric, and there by instance and train trial."""

    order: dict[Key, None] = field(default_factory=dict)
    scores: dict[str, dict[Key, float]] = field(default_factory=dict)
    divided: bool = False  #: Whether instances belong to parts of the split, of which each has its own mean.


class Helm(Importer):
    """Reads run directories of HELM."""

    name: ClassVar[str] = "helm"

    def part(self, file: LogFile) -> Part | None:
        """Files by their keys; the directory says whether answers are there."""
        keys, folder = file.keys, file.path.parent
        if file.is_list:
            if {"instance_id", "train_trial_index"} <= keys:
                if "request" in keys or ("predicted_text" in keys and (folder / STATS).is_file()):
                    return Part.COMPANION
                return Part.ANSWERS if "stats" in keys else None
            known = {"name", "count", "sum", "sum_squared"} <= keys
            known |= {"input", "references", "id"} <= keys and (folder / SPEC).is_file()
            return Part.COMPANION if known else None
        if {"adapter_spec", "scenario_spec"} <= keys:
            has_answers = (folder / STATS).is_file() or (folder / DISPLAY).is_file()
            return Part.COMPANION if has_answers else Part.ANSWERS
        known = {"adapter_spec", "request_states"} <= keys
        known |= {"name", "description", "tags"} <= keys and (folder / SPEC).is_file()
        return Part.COMPANION if known else None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read the scores of one run, with what lies beside them."""
        if "scenario_spec" in file.keys:
            raise LeftOut(f"the run directory has no {STATS}, so no answers to single items")
        folder = file.path.parent
        run = _Run.read(folder / SPEC)
        splits, perturbed = _splits(file)
        name, notes = _chosen(splits, options.split, perturbed)
        split = splits[name]
        values = _kept(split.scores, run, options.metric)
        requests = read_requests(folder, split.order, options.texts)
        trials = sorted({trial for _, trial in split.order})
        for trial in trials if options.epochs == "each" and len(trials) > 1 else [None]:
            items = list(dict.fromkeys(key[0] for key in split.order if trial in (None, key[1])))
            yield Log(
                path=str(file.path),
                tool=self.name,
                testset=run.testset,
                model=run.model,
                items=items,
                values={Metric(metric): _means(scores, items, trials, trial) for metric, scores in values.items()},
                prefer=run.preferred(values),
                margins={
                    Metric(metric): _means(odds, items, trials, trial)
                    for metric, scores in values.items()
                    if (odds := requests.margins(scores))
                },
                answers=[agreed(requests.replies.get(item, {}), trial) for item in items],
                texts=requests.columns(items) if options.texts else {},
                subject=run.subject if trial is None else {**run.subject, "epoch": trial},
                settings=run.settings,
                stamp=requests.stamp,
                stated=_stated(folder / AGGREGATE, name, split) if trial is None else {},
                notes=[*notes, *_partial(requests, items, trials), *requests.notes],
            )


@dataclass(frozen=True)
class _Run:
    """What a run was: model, test set, and how the model was asked."""

    model: str
    testset: str
    groups: Sequence[str]
    subject: Mapping[str, str | float | bool | None]
    settings: Mapping[str, str | float | bool | None]

    @classmethod
    def read(cls, path: Path) -> _Run:
        if not path.is_file():
            raise LeftOut(f"the run directory has no {path.name}, so model and scenario are not known")
        spec = mapping(LogFile.look(path).json())
        adapter = mapping(spec.get("adapter_spec"))
        name, model = words(spec.get("name")), words(adapter.get("model"))
        if name is None or model is None:
            raise InputError(f"{path}: has no name or no adapter_spec.model; the file is damaged")
        scenario, _, arguments = name.partition(":")
        # Values may hold commas; a comma that separates arguments is followed by a name and "=".
        pairs = [pair.partition("=") for pair in re.split(r",(?=[A-Za-z_]\w*=)", arguments) if pair]
        kept = ",".join(
            f"{key}{equals}{value}"
            for key, equals, value in pairs
            if not ASKED.fullmatch(key) and not ELSEWHERE.fullmatch(key)
        )
        settings = {key: value for key, _, value in pairs if ASKED.fullmatch(key)}
        settings |= {
            "method": plain(adapter.get("method")),
            "num_fewshot": plain(adapter.get("max_train_instances")),
            "temperature": plain(adapter.get("temperature")),
        }
        return cls(
            model,
            f"{scenario}:{kept}" if kept else scenario,
            [scenario, *(group for group in entries(spec.get("groups")) if isinstance(group, str))],
            {"model_deployment": words(adapter.get("model_deployment"))},
            {key: int(value) if isinstance(value, float) and value.is_integer() else value
             for key, value in settings.items() if value is not None},
        )  # fmt: skip

    def preferred(self, metrics: Object) -> list[str]:
        """Metrics in the order in which they are taken."""
        main = [metric for metric, groups in MAIN.items() if any(group in groups for group in self.groups)]
        return list(dict.fromkeys([*main, *CORRECTNESS, *metrics]))


def _splits(file: LogFile) -> tuple[dict[str, Split], int]:
    """Scores by split, and the number of rows about perturbed instances."""
    splits: dict[str, Split] = {}
    perturbed = 0
    of_instance: Mapping[str, str] | None = None
    for line, content in file.rows():
        row = parse(content, str(file.path), line)
        if not isinstance(row, dict) or not isinstance(row.get("instance_id"), str):
            raise InputError(f"{file.path}, line {line}: has no instance_id; the file is damaged")
        if is_perturbed(row):
            perturbed += 1
            continue
        trial = row.get("train_trial_index")
        key = (row["instance_id"], trial if type(trial) is int else 0)
        stats = row.get("stats")
        if isinstance(stats, dict):
            if of_instance is None:
                of_instance = _split_of_instances(file.path.with_name("instances.json"))
            stats = [
                {"name": {"name": name, "split": of_instance.get(key[0])}, "mean": mean} for name, mean in stats.items()
            ]
        if not isinstance(stats, list):
            raise InputError(f"{file.path}, line {line}: has no stats; the file is damaged")
        for stat in stats:
            _add(splits, key, mapping(stat))
    return splits, perturbed


def _add(splits: dict[str, Split], key: Key, stat: Object) -> None:
    name = mapping(stat.get("name"))
    metric, split_name = words(name.get("name")), name.get("split")
    if metric is None or is_perturbed(name):
        return
    split = splits.setdefault(split_name if isinstance(split_name, str) else "", Split())
    split.order.setdefault(key)
    split.divided |= name.get("sub_split") is not None
    value, count = number(stat.get("mean")), number(stat.get("count"))
    if value is None and count:  # the first versions did not write means
        total = number(stat.get("sum"))
        value = None if total is None else number(total / count)
    if value is not None:
        split.scores.setdefault(metric, {})[key] = value


def _split_of_instances(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    instances = [mapping(instance) for instance in entries(LogFile.look(path).json())]
    return {str(one.get("id")): one["split"] for one in instances if isinstance(one.get("split"), str)}


def _chosen(splits: Mapping[str, Split], wanted: str | None, perturbed: int) -> tuple[str, list[str]]:
    """The split to read, and what to tell the user about it."""
    if not splits:
        raise LeftOut("all instances are perturbed" if perturbed else "no instances")
    names = listed((name or "(none)" for name in splits), 8)
    if wanted is not None and wanted not in splits:
        raise LeftOut(f"no split {wanted!r}; there is {names}")
    name = wanted or next((one for one in ("test", "valid") if one in splits), next(iter(splits)))
    others = [f"{len(split.order):,} of {other or '(none)'}" for other, split in splits.items() if other != name]
    notes = []
    if name != "test" and wanted is None:
        notes.append(f"no test split; the answers are to {name or 'a split without a name'}")
    if others:
        notes.append(f"split {name}; left out: {listed(others, 4)}")
    if perturbed:
        notes.append(f"{perturbed:,} answers to perturbed instances are left out")
    return name, notes


def _kept(scores: Mapping[str, Mapping[Key, float]], run: _Run, wanted: str | None) -> dict[str, Mapping[Key, float]]:
    """Statistics that say how right an answer is, and the one that the user names."""
    known = {*CORRECTNESS, wanted}
    kept = {name: column for name, column in scores.items() if name in known or _CORRECT.fullmatch(name)}
    if not kept:
        reason = f"no statistic of {run.testset} is known to say whether an answer is right"
        raise LeftOut(f"{reason}; choose one with --metric: {listed(scores, 40)}")
    return kept


def _means(
    scores: Mapping[Key, float], items: Sequence[str], trials: Sequence[int], trial: int | None
) -> list[float | None]:
    """A number per item: of one train trial, or the mean over all."""
    return [mean_of(scores.get((item, k)) for k in trials if trial in (None, k)) for item in items]


def _stated(path: Path, split_name: str, split: Split) -> dict[Metric, float]:
    """The means in ``stats.json``."""
    if split.divided or not path.is_file():
        return {}
    stated: dict[Metric, float] = {}
    for row in entries(LogFile.look(path).json()):
        stat = mapping(row)
        name = mapping(stat.get("name"))
        metric, mean = words(name.get("name")), number(stat.get("mean"))
        plain_name = not name.get("perturbation") and name.get("sub_split") is None
        if metric and mean is not None and plain_name and name.get("split", "") == split_name:
            stated.setdefault(Metric(metric), mean)
    return stated


def _partial(requests: Requests, items: Sequence[str], trials: Sequence[int]) -> list[str]:
    """Whether instances were asked that have no scores."""
    missing = len(requests.asked - set(items))
    notes = [f"partial: {missing:,} of {missing + len(items):,} instances have no scores"] if missing else []
    return notes + [f"mean over {len(trials)} train trials"] * (len(trials) > 1)

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
- **Margins** need the log-probability of every option: of the letters, where the completion's first token lists
  alternatives (``multiple_choice_joint``), or of each reference, which has its own request
  (``multiple_choice_separate_original``). Many clients write 0.0 for every token; such runs have no margins. Runs with
  log-probabilities are read as HELM's source code writes them; none was tried.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from breadth.errors import InputError, listed
from breadth.sources.columns import Column, Columns, text, whole_number
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile
from breadth.sources.registry import Detection, Part, Source, experimental_note
from breadth.sources.source_files import (
    Object,
    SourceFile,
    agreed,
    blocks,
    entries,
    log_odds,
    mapping,
    mean_of,
    number,
    option_letters,
    parse,
    plain,
    short_answer,
    words,
)
from breadth.sources.tools.common import texts_of_items

# Files of a run directory.
STATS_FILE, AGGREGATE_FILE = "per_instance_stats.json", "stats.json"
DISPLAY_FILE, INSTANCES_FILE = "display_predictions.json", "instances.json"
SPEC_FILE, STATE_FILE = "run_spec.json", "scenario_state.json"

#: Scenarios and groups whose leaderboards show another metric than the first of :data:`CORRECTNESS` that they have.
LEADERBOARD_METRICS = {
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
_NAMES_CORRECTNESS = re.compile(r"(?:.*_)?(?:cot_correctness|correctness|accuracy|exact_match|math_equiv\w*)")

#: Arguments in the name of a run that say how a model was asked, not what, and are nowhere else.
PROMPT_ARGUMENTS = re.compile(
    r"instructions|prompt|newline|stop|format|add_to_stop|global_(?:pre|suf)fix|num_outputs|tokenizer"
    r"|num_(?:prompt|output)_tokens|increase_max_tokens|increase_temperature|chatml|(?:output|follow)_format_instructions"
    r"|use_(?:chain_of_thought|few_shot|official_examples)|num_respondents|annotator_model(?:_deployment)?"
)

#: Such arguments that the adapter's specification has, too, or that do not change the answers that are read.
REPEATED_ARGUMENTS = re.compile(
    r"model|model_deployment|method|data_augmentation|max_(?:train|eval)_instances|(?:num|max)_(?:train_)?trials"
    r"|eval_split|temperature|max_tokens|groups"
)

#: Bytes up to which a file of requests is parsed as a whole.
LARGEST_WHOLE = 1 << 26

#: What HELM publishes in place of texts that must not be published. Numbers differ between runs.
_ENCRYPTED = re.compile(r"\[encrypted_text_\d+\]")


def plain_setting(value: Any) -> Plain:
    """A text, truth value or number; whole numbers are written as such whether the run has 0 or 0.0."""
    setting = plain(value)
    if isinstance(setting, float) and setting.is_integer():
        return int(setting)
    return setting


def list_or_object(value: Any) -> list[Any] | dict[str, Any] | None:
    """Statistics of an instance: as objects, or by name in files for the web page."""
    return value if isinstance(value, list | dict) else None


#: What is read of run_spec.json.
RUN_SPEC = Columns(
    Column("name", type=words, required=True),
    Column("groups", type=entries),
    Column("model", "adapter_spec.model", words, required=True),
    Column("deployment", "adapter_spec.model_deployment", words),
    Column("method", "adapter_spec.method", plain_setting),
    Column("num_fewshot", "adapter_spec.max_train_instances", plain_setting),
    Column("temperature", "adapter_spec.temperature", plain_setting),
)

#: What is read of a row of per_instance_stats.json or display_predictions.json.
INSTANCE_STATS = Columns(
    Column("item", "instance_id", text, required=True),
    Column("trial", "train_trial_index", whole_number, default=0, strict=True),
    Column("perturbation"),
    Column("stats", type=list_or_object, required=True),
)

#: What is read of a statistic, of one instance or of all.
STATISTIC = Columns(
    Column("metric", "name.name", words, required=True),
    Column("split", "name.split", text, default=""),
    Column("sub_split", "name.sub_split"),
    Column("perturbation", "name.perturbation"),
    Column("mean", type=number),
    Column("sum", type=number),
    Column("count", type=number),
)

#: What is read of a request in scenario_state.json.
REQUEST_STATE = Columns(
    Column("item", "instance.id", text, required=True),
    Column("split", "instance.split"),
    Column("perturbation", "instance.perturbation"),
    Column("input", "instance.input", mapping),
    Column("references", "instance.references", entries),
    Column("trial", "train_trial_index", whole_number, default=0, strict=True),
    Column("mode", "request_mode"),
    Column("reference", "reference_index", whole_number),
    Column("letters", "output_mapping", mapping),
    Column("completions", "result.completions", entries),
    Column("time", "result.request_datetime", number),
)

#: What is read of an instance in instances.json.
INSTANCE = Columns(
    Column("item", "id", text, required=True),
    Column("split", type=text, default=""),
    Column("perturbation"),
    Column("input", type=mapping),
    Column("references", type=entries),
)

#: An instance's id and a train trial.
InstanceTrial = tuple[str, int]


class Helm(Source):
    """Reads run directories of HELM."""

    name: ClassVar[str] = "helm"
    looks_like: ClassVar[str] = "run directories of HELM"

    def detect(self, file: SourceFile) -> Detection | None:
        """Files by their keys; the directory says whether answers are there."""
        if file.is_list:
            return _detect_list(file)
        return _detect_object(file)

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the scores of one run, with what lies beside them."""
        if "scenario_spec" in file.keys:
            raise SkipFile(f"the run directory has no {STATS_FILE}, so no answers to single items")
        folder = file.path.parent
        run = HelmRun.read(folder / SPEC_FILE)
        splits, perturbed = _read_scores(file)
        split, notes = _choose_split(splits, options.split, perturbed)
        statistics = _choose_statistics(split.scores, run, options.metric)
        requests = read_requests(folder, split.trials, options.texts)
        odds = {metric: requests.margins(scores) for metric, scores in statistics.items()}
        if any(odds.values()):
            notes.append(experimental_note("HELM with log-probabilities"))
        if "predicted_text" in file.keys:
            notes.append(experimental_note("HELM that was reduced to its web page"))
        trials = sorted({trial for _, trial in split.trials})
        epochs: Sequence[int | None] = [None]
        if options.epochs == "each" and len(trials) > 1:
            epochs = trials
        for epoch in epochs:
            counted = trials if epoch is None else [epoch]
            items = list(dict.fromkeys(item for item, trial in split.trials if trial in counted))
            values: dict[Metric, list[float | None]] = {}
            margins: dict[Metric, list[float | None]] = {}
            for metric, scores in statistics.items():
                values[Metric(metric)] = _mean_of_trials(scores, items, counted)
                if odds[metric]:
                    margins[Metric(metric)] = _mean_of_trials(odds[metric], items, counted)
            subject, means = dict(run.subject), dict[Metric, float]()
            if epoch is None:
                means = _aggregate_means(folder / AGGREGATE_FILE, split)  # over all trials
            else:
                subject["epoch"] = epoch
            yield Log(
                path=str(file.path),
                tool=self.name,
                testset=run.testset,
                model=run.model,
                items=items,
                values=values,
                prefer=run.preferred(statistics),
                margins=margins,
                answers=[agreed(requests.replies.get(item, {}), epoch) for item in items],
                texts=requests.columns(items) if options.texts else {},
                subject=subject,
                settings=run.settings,
                stamp=requests.stamp,
                stated=means,
                notes=[*notes, *_notes_on_trials(requests, items, counted), *requests.notes],
            )


def _detect_list(file: SourceFile) -> Detection | None:
    keys, folder = file.keys, file.path.parent
    if {"instance_id", "train_trial_index"} <= keys:
        # Predictions hold scores, too; they are read where a directory has no others.
        has_others = "predicted_text" in keys and (folder / STATS_FILE).is_file()
        if "request" in keys or has_others:
            return Detection(Part.COMPANION, "rows have instance_id, and a request or predicted_text")
        if "stats" in keys:
            return Detection(Part.ANSWERS, "rows have instance_id, train_trial_index and stats")
        return None
    if {"name", "count", "sum", "sum_squared"} <= keys:
        return Detection(Part.COMPANION, "rows have name, count, sum and sum_squared")
    if {"input", "references", "id"} <= keys and (folder / SPEC_FILE).is_file():
        return Detection(Part.COMPANION, f"rows have input and references, and {SPEC_FILE} lies beside it")
    return None


def _detect_object(file: SourceFile) -> Detection | None:
    keys, folder = file.keys, file.path.parent
    if {"adapter_spec", "scenario_spec"} <= keys:
        if (folder / STATS_FILE).is_file() or (folder / DISPLAY_FILE).is_file():
            return Detection(Part.COMPANION, "it has adapter_spec and scenario_spec")
        # A run that lacks its answers is not passed over in silence.
        return Detection(Part.ANSWERS, f"it has adapter_spec and scenario_spec, but no {STATS_FILE} lies beside it")
    if {"adapter_spec", "request_states"} <= keys:
        return Detection(Part.COMPANION, "it has adapter_spec and request_states")
    if {"name", "description", "tags"} <= keys and (folder / SPEC_FILE).is_file():
        return Detection(Part.COMPANION, f"it has name, description and tags, and {SPEC_FILE} lies beside it")
    return None


# The run


@dataclass(frozen=True)
class HelmRun:
    """What a run was: model, test set, and how the model was asked."""

    model: str
    testset: str
    groups: Sequence[str]
    subject: Mapping[str, Plain]
    settings: Mapping[str, Plain]

    @classmethod
    def read(cls, path: Path) -> HelmRun:
        """Read run_spec.json."""
        if not path.is_file():
            raise SkipFile(f"the run directory has no {path.name}, so model and scenario are not known")
        spec = RUN_SPEC.read(SourceFile.look(path).json(), str(path))
        scenario, _, arguments = spec["name"].partition(":")
        kept: list[str] = []
        settings: dict[str, Plain] = {}
        # Values may hold commas; a comma that separates arguments is followed by a name and "=".
        for argument in re.split(r",(?=[A-Za-z_]\w*=)", arguments):
            key, _, value = argument.partition("=")
            if PROMPT_ARGUMENTS.fullmatch(key):
                settings[key] = value
            elif argument and not REPEATED_ARGUMENTS.fullmatch(key):
                kept.append(argument)
        for key in ("method", "num_fewshot", "temperature"):
            if spec[key] is not None:
                settings[key] = spec[key]
        testset = scenario
        if kept:
            testset += ":" + ",".join(kept)
        return cls(
            model=spec["model"],
            testset=testset,
            groups=[scenario, *map(str, spec["groups"])],
            subject={"model_deployment": spec["deployment"]},
            settings=settings,
        )

    def preferred(self, metrics: Iterable[str]) -> list[str]:
        """Metrics in the order in which they are taken."""
        shown: list[str] = []
        for metric, groups in LEADERBOARD_METRICS.items():
            if not set(groups).isdisjoint(self.groups):
                shown.append(metric)
        return list(dict.fromkeys([*shown, *CORRECTNESS, *metrics]))


# Scores


@dataclass
class SplitScores:
    """Scores of one split: by metric, and there by instance and train trial."""

    name: str
    trials: dict[InstanceTrial, None] = field(default_factory=dict)
    scores: dict[str, dict[InstanceTrial, float]] = field(default_factory=dict)
    divided: bool = False  #: Whether instances belong to parts of the split, of which each has its own mean.


def _read_scores(file: SourceFile) -> tuple[dict[str, SplitScores], int]:
    """Scores by split, and the number of rows about perturbed instances."""
    splits: dict[str, SplitScores] = {}
    perturbed = 0
    split_of: Mapping[str, str] | None = None
    for where, row in INSTANCE_STATS.read_rows(file):
        if _is_perturbed(row["perturbation"]):
            perturbed += 1
            continue
        stats = row["stats"]
        if isinstance(stats, dict):
            if split_of is None:
                split_of = _split_of_instances(file.path.with_name(INSTANCES_FILE))
            split_name = split_of.get(row["item"])
            stats = [{"name": {"name": name, "split": split_name}, "mean": mean} for name, mean in stats.items()]
        place = f"{where}, stats"
        for stat in stats:
            _add_statistic(splits, (row["item"], row["trial"]), STATISTIC.read(stat, place))
    return splits, perturbed


def _add_statistic(splits: dict[str, SplitScores], trial: InstanceTrial, stat: Object) -> None:
    if _is_perturbed(stat["perturbation"]):
        return
    split = splits.get(stat["split"])
    if split is None:
        split = splits[stat["split"]] = SplitScores(stat["split"])
    split.trials[trial] = None
    split.divided |= stat["sub_split"] is not None
    value = stat["mean"]
    if value is None and stat["sum"] is not None and stat["count"]:  # the first versions did not write means
        value = number(stat["sum"] / stat["count"])
    if value is not None:
        split.scores.setdefault(stat["metric"], {})[trial] = value


def _is_perturbed(perturbation: Any) -> bool:
    """Whether a row or an instance is about a perturbed text."""
    return bool(perturbation) and mapping(perturbation).get("name") != "identity"


def _split_of_instances(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    return {instance["item"]: instance["split"] for instance in _read_instances(path)}


def _read_instances(path: Path) -> Iterator[dict[str, Any]]:
    for k, instance in enumerate(entries(SourceFile.look(path).json()), 1):
        yield INSTANCE.read(instance, f"{path}, instance {k}")


def _choose_split(
    splits: Mapping[str, SplitScores], wanted: str | None, perturbed: int
) -> tuple[SplitScores, list[str]]:
    """The split to read, and what to tell the user about it."""
    if not splits:
        raise SkipFile("all instances are perturbed" if perturbed else "no instances")
    sizes = {name: f"{len(split.trials):,} of {name or '(none)'}" for name, split in splits.items()}
    if wanted is not None and wanted not in splits:
        raise SkipFile(f"no split {wanted!r}; there are answers to {listed(sizes.values(), 8)}")
    notes: list[str] = []
    name = wanted
    if name is None:
        by_preference = ("test", "valid", *splits)
        name = next(split for split in by_preference if split in splits)
        if name != "test":
            notes.append(f"no test split; the answers are to {name or 'a split without a name'}")
    del sizes[name]
    if sizes:
        notes.append(f"split {name}; left out: {listed(sizes.values(), 4)}")
    if perturbed:
        notes.append(f"{perturbed:,} answers to perturbed instances are left out")
    return splits[name], notes


def _choose_statistics(
    scores: Mapping[str, Mapping[InstanceTrial, float]], run: HelmRun, wanted: str | None
) -> dict[str, Mapping[InstanceTrial, float]]:
    """Statistics that say how right an answer is, and the one that the user names."""
    chosen: dict[str, Mapping[InstanceTrial, float]] = {}
    for name, column in scores.items():
        if name == wanted or name in CORRECTNESS or _NAMES_CORRECTNESS.fullmatch(name):
            chosen[name] = column
    if not chosen:
        reason = f"no statistic of {run.testset} is known to say whether an answer is right"
        raise SkipFile(f"{reason}; choose one with --metric: {listed(scores, 40)}")
    return chosen


def _mean_of_trials(
    scores: Mapping[InstanceTrial, float], items: Iterable[str], trials: Sequence[int]
) -> list[float | None]:
    """The mean of every item over train trials."""
    means: list[float | None] = []
    for item in items:
        means.append(mean_of(scores.get((item, trial)) for trial in trials))
    return means


def _aggregate_means(path: Path, split: SplitScores) -> dict[Metric, float]:
    """The means of a split in ``stats.json``."""
    means: dict[Metric, float] = {}
    if split.divided or not path.is_file():
        return means
    for k, row in enumerate(entries(SourceFile.look(path).json()), 1):
        stat = STATISTIC.read(row, f"{path}, statistic {k}")
        is_whole = not stat["perturbation"] and stat["sub_split"] is None
        if is_whole and stat["split"] == split.name and stat["mean"] is not None:
            means.setdefault(Metric(stat["metric"]), stat["mean"])
    return means


def _notes_on_trials(requests: RunRequests, items: Sequence[str], trials: Sequence[int]) -> list[str]:
    """Whether instances were asked that have no scores, and over how many trials a score is the mean."""
    notes: list[str] = []
    missing = len(requests.asked - set(items))
    if missing:
        notes.append(f"partial: {missing:,} of {missing + len(items):,} instances have no scores")
    if len(trials) > 1:
        notes.append(f"mean over {len(trials)} train trials")
    return notes


# Requests: what the instances ask, what the model answered, and how likely it found the options


class AskedInstance(NamedTuple):
    """What an instance asks; ``gold`` are positions of right options."""

    text: str | None = None
    options: Sequence[str] = ()
    labels: Sequence[str] = ()
    gold: Sequence[int] = ()
    target: str | None = None


@dataclass
class RunRequests:
    """What a run asked and got. ``asked`` are ids of all instances of the split."""

    instances: dict[str, AskedInstance] = field(default_factory=dict)
    replies: dict[str, dict[int, str | None]] = field(default_factory=dict)
    likelihoods: dict[InstanceTrial, dict[int, float]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    stamp: str = ""
    notes: list[str] = field(default_factory=list)

    def margins(self, scores: Mapping[InstanceTrial, float]) -> dict[InstanceTrial, float]:
        """Log-odds of the right options; none at all unless the likeliest one is right exactly where scores are 1."""
        margins: dict[InstanceTrial, float] = {}
        for trial, likelihoods in self.likelihoods.items():
            instance = self.instances.get(trial[0], AskedInstance())
            places = range(len(instance.options))
            if trial not in scores or set(likelihoods) != set(places):
                continue
            likeliest = max(places, key=likelihoods.__getitem__)
            is_right = scores[trial] == 1
            if (likeliest in instance.gold) is not is_right:
                return {}
            margin = log_odds([likelihoods[place] for place in places], instance.gold)
            if margin is not None:
                margins[trial] = margin
        return margins

    def columns(self, items: Iterable[str]) -> dict[str, Sequence[Any]]:
        """What the items ask, as columns."""
        rows: list[tuple[Any, ...]] = []
        for item in items:
            asked = self.instances.get(item, AskedInstance())
            options = asked.options if any(asked.options) else None  # those of encrypted questions are empty
            label = None
            if len(asked.gold) == 1 and asked.labels:
                label = asked.labels[asked.gold[0]]
            rows.append((asked.text, options, asked.labels, label, asked.target))
        return texts_of_items(rows)


def read_requests(folder: Path, trials: Collection[InstanceTrial], texts: bool) -> RunRequests:
    """Read the requests of a run, as far as they are about the given instances and trials.

    A file that is damaged costs texts, answers and margins, not the scores: public runs have truncated ones.
    """
    wanted = {item for item, _ in trials}
    state, instances = folder / STATE_FILE, folder / INSTANCES_FILE
    requests = RunRequests()
    try:
        if state.is_file():
            _read_state(SourceFile.look(state), wanted, requests)
        elif texts and instances.is_file():
            for row in _read_instances(instances):
                if row["item"] in wanted and not _is_perturbed(row["perturbation"]):
                    requests.instances.setdefault(row["item"], _describe_instance(row, {}, one_each=False))
    except InputError as error:
        return RunRequests(notes=[f"no texts, answers and margins: {error}"])
    return requests


def _read_state(file: SourceFile, wanted: Collection[str], requests: RunRequests) -> None:
    of_split: dict[str, set[str]] = {}
    for k, content in enumerate(_each_request(file), 1):
        request = REQUEST_STATE.read(content, f"{file.path}, request {k}")
        if _is_perturbed(request["perturbation"]):
            continue
        of_split.setdefault(str(request["split"]), set()).add(request["item"])
        if request["item"] in wanted and request["mode"] != "calibration":
            _add_request(requests, request)
    for items in of_split.values():
        # Instances of other splits are not missing: the split is the one of the instances that have scores.
        if not items.isdisjoint(wanted):
            requests.asked |= items


def _each_request(file: SourceFile) -> Iterator[Any]:
    """The requests one by one; a large file is not parsed as a whole."""
    if file.size <= LARGEST_WHOLE:
        yield from entries(mapping(file.json()).get("request_states"))
        return
    try:
        with file.path.open("rb") as content:
            for line, block in blocks(content, str(file.path), indent=4):
                yield parse(block, str(file.path), line)
    except OSError as error:
        raise InputError(f"{file.path}: cannot be read ({error.strerror})") from error


def _add_request(requests: RunRequests, request: Object) -> None:
    item, trial, reference = request["item"], request["trial"], request["reference"]
    if item not in requests.instances:
        requests.instances[item] = _describe_instance(request, request["letters"], one_each=reference is not None)
    options, labels = requests.instances[item].options, requests.instances[item].labels
    completion = mapping(next(iter(request["completions"]), None))
    tokens = list(map(mapping, entries(completion.get("tokens"))))
    if reference is None:
        reply = text(completion.get("text"))
        if reply is not None:
            reply = short_answer(reply.strip())
        requests.replies.setdefault(item, {})[trial] = reply
        likelihoods = _likelihoods_of_letters(tokens, labels)
        if likelihoods:
            requests.likelihoods[item, trial] = likelihoods
    elif 0 <= reference < len(options):
        likelihood = _likelihood_per_token(tokens, options[reference])
        if likelihood is not None:
            requests.likelihoods.setdefault((item, trial), {})[reference] = likelihood
    requests.stamp = max(requests.stamp, _time_of_seconds(request["time"]))


def _describe_instance(instance: Object, letters: Object, *, one_each: bool) -> AskedInstance:
    """What an instance asks: with letters, with one request per reference, or freely."""
    question = _shown_text(instance["input"])
    outputs: list[str] = []
    gold: list[int] = []
    for reference in map(mapping, instance["references"]):
        if "correct" in entries(reference.get("tags")):
            gold.append(len(outputs))
        outputs.append(_shown_text(mapping(reference.get("output"))) or "")
    if letters:
        options = list(map(str, letters.values()))
        if len(options) != len(outputs):  # letters may be for fewer classes than there are references
            right = {outputs[k] for k in gold}
            gold = [k for k, option in enumerate(options) if option in right]
        return AskedInstance(question, _told_options(options), list(map(str, letters)), gold)
    if one_each:
        return AskedInstance(question, _told_options(outputs), option_letters(len(outputs)), gold)
    target = " | ".join(outputs[k] for k in gold)
    if not target.strip() or _ENCRYPTED.search(target):
        return AskedInstance(question)
    return AskedInstance(question, target=target)


def _told_options(options: list[str]) -> list[str]:
    """The texts of options; none of them where one is encrypted."""
    if any(map(_ENCRYPTED.search, options)):
        return [""] * len(options)
    return options


def _shown_text(content: Object) -> str | None:
    """The text of an input or output: plain, of messages, or of the parts of several media."""
    shown = words(content.get("text"))
    if shown is None:
        texts: list[str] = []
        for message in map(mapping, entries(content.get("messages"))):
            texts.append(words(message.get("content")) or "")
        for part in map(mapping, entries(mapping(content.get("multimedia_content")).get("media_objects"))):
            texts.append(words(part.get("text")) or f"[{part.get('content_type')}]")
        shown = "\n\n".join(filter(None, texts)) or None
    if shown is None or _ENCRYPTED.search(shown):
        return None
    return shown


def _likelihoods_of_letters(tokens: Sequence[Object], labels: Sequence[str]) -> dict[int, float]:
    """The log-probability of every letter as first token; nothing if one is not listed or they do not differ."""
    if not tokens or not labels:
        return {}
    alternatives: dict[str, float] = {}
    for token, value in mapping(tokens[0].get("top_logprobs")).items():
        likelihood = number(value)
        letter = token.strip()  # " A" and "A" are two tokens
        if likelihood is not None:
            alternatives[letter] = max(likelihood, alternatives.get(letter, likelihood))
    if not alternatives.keys() >= set(labels):
        return {}
    likelihoods = {k: alternatives[label] for k, label in enumerate(labels)}
    if len(set(likelihoods.values())) == 1:  # a client that writes zeros
        return {}
    return likelihoods


def _likelihood_per_token(tokens: Sequence[Object], reference: str) -> float | None:
    """Mean log-probability of the last tokens that spell the reference; None where clients wrote zeros."""
    wanted, spelled = reference.strip(), ""
    values: list[float] = []
    for token in reversed(tokens):
        value = number(token.get("logprob"))
        if value is None or len(spelled.strip()) >= len(wanted):
            break
        spelled = str(token.get("text")) + spelled
        values.append(value)
    if spelled.strip() != wanted or not any(values):
        return None
    return fmean(values)


def _time_of_seconds(seconds: float | None) -> str:
    """When a request was made, as text that sorts."""
    if not seconds:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""

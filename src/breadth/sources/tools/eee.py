"""every_eval_ever (schemas 0.1 to 0.3): ``<uuid>_samples.jsonl`` with a line per sample and metric.

The aggregate ``<uuid>.json`` beside it describes model, metrics and settings; without samples it holds scores only.
Records are written by :mod:`breadth.sources.exporting_eee`.

- **Item**: the hash of the document where the samples came from lm-evaluation-harness (``metadata.doc_hash``, so that
  they meet the same items in its own logs), else ``sample_id``; with a hash of the input where one id has several.
- **Test set**: ``evaluation_name``, without the filter that the converter of lm-evaluation-harness appends.
- **Metric**: the one that ``evaluation_result_id`` points to. Converted lm-evaluation-harness samples carry all their
  metrics in ``metadata.lm_eval_metrics``: these are read, because the score of a line is only the first of them, or 0
  where there is none. ``is_correct`` is read only if asked for (``--metric is_correct``): converters set it to false
  where a score is a matter of degree. Metrics of which lower is better are left out.
- **Missing**: samples with an error, and levels marked as unknown.
- **Subject**: the model with its revision, data type and adapter; generation options and shots are settings.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.sources.columns import Column, Columns, whole_number
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import (
    SourceFile,
    agreed,
    beside,
    entries,
    mapping,
    mean_of,
    number,
    numbered,
    option_letters,
    parse,
    plain,
    text_item,
    words,
)
from breadth.sources.tools.common import beside_answers, drop_empty

SAMPLES_ENDING = "_samples.jsonl"

#: Keys of a line of samples, of an aggregate, and of an index of aggregates.
LINE_KEYS = frozenset({"evaluation_id", "model_id", "evaluation_name", "sample_id"})
AGGREGATE_KEYS = frozenset({"schema_version", "evaluation_id", "model_info"})
INDEX_KEYS = frozenset({"record_type", "object_uuid", "eval_schema_version"})

#: Schemas that were tried, by major and minor number.
TRIED_SCHEMAS = ("0.1", "0.2", "0.3")

#: Source of a record that `breadth export` wrote; all details of its subjects are restored.
OWN_SOURCE = "breadth"

#: Details of a model that make its answers differ.
ANSWERING_DETAILS = re.compile(
    r"revision|model_revision|step|checkpoint|dtype|precision|quantization|adapter|peft|lora|chat_template"
    r"|reasoning_effort|thinking|system_prompt|agent|scaffold|harness"
)

#: Details of a model that say nothing about its answers.
DEPLOYMENT = ("deployment_type", "model_availability")

_HASH = re.compile(r"[0-9a-f]{16,64}")


def count_in_text(value: Any) -> int | None:
    """A count that is written as a number or as text."""
    digits = str(value) if type(value) in (int, str) else ""
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 15 else None


def number_in_text(value: Any) -> float | None:
    """A finite number that may be written as text."""
    try:
        return number(float(value)) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def item_hash(value: Any) -> str | None:
    """As much of a document's hash as lm-evaluation-harness's own logs are known by."""
    return value[:16] if isinstance(value, str) and _HASH.fullmatch(value) else None


def entries_as_texts(value: Any) -> list[str]:
    """The entries of a list as text."""
    return [str(one) for one in entries(value)]


def json_in_text(value: Any) -> Any:
    """A value that metadata hold as text; None if they hold something else."""
    try:
        return parse(value.encode(), "metadata") if words(value) else None
    except (InputError, UnicodeError):
        return None


def final_answer(attributions: Any) -> str | None:
    """What was taken as the answer at last, where the record says so."""
    for attribution in reversed(entries(attributions)):
        if mapping(attribution).get("is_terminal") is not False:
            return words(mapping(attribution).get("extracted_value"))
    return None


LINE = Columns(
    Column("evaluation", "evaluation_id", words, required=True),
    Column("model", "model_id", words, required=True),
    Column("testset", "evaluation_name", words, required=True),
    Column("sample", "sample_id", words, required=True),
    Column("schema", "schema_version", words),
    Column("result", "evaluation_result_id"),
    Column("question", "input.raw", words, default=""),
    Column("choices", "input.choices", entries_as_texts),
    Column("references", "input.reference", entries_as_texts),
    Column("error", type=words),
    Column("answer", "answer_attribution", final_answer),
    Column("score", "evaluation.score", number),
    Column("is_correct", "evaluation.is_correct"),
    Column("doc_hash", "metadata.doc_hash", item_hash),
    Column("filter", "metadata.filter", words, default="none"),
    Column("lm_eval_metrics", "metadata.lm_eval_metrics", words),
    Column("epoch", "metadata.epoch", count_in_text),
    Column("shots", "metadata.num_fewshot", count_in_text),
    Column("margin", "metadata.margin", number_in_text),
    Column("label", "metadata.label", words),
    Column("option_labels", "metadata.option_labels", json_in_text),
)

AGGREGATE = Columns(
    Column("evaluation", "evaluation_id"),
    Column("source", "source_metadata.source_name"),
    Column("model_details", "model_info.additional_details", mapping),
    Column("timestamp", "evaluation_timestamp|retrieved_timestamp", lambda value: value or None),
    Column("results", "evaluation_results", entries),
    Column("total_rows", "detailed_evaluation_results.total_rows", whole_number),
    Column("hash_algorithm", "detailed_evaluation_results.hash_algorithm"),
    Column("checksum", "detailed_evaluation_results.checksum", words),
)

RESULT = Columns(
    Column("id", "evaluation_result_id"),
    Column("testset", "evaluation_name"),
    Column("metric", "metric_config.metric_name|metric_config.metric_id|metric_config.metric_kind", words),
    Column("lower_is_better", "metric_config.lower_is_better"),
    Column("has_unknown_level", "metric_config.has_unknown_level"),
    Column("unit", "metric_config.metric_unit"),
    Column("max_score", "metric_config.max_score", number, default=1.0),
    Column("mean", "score_details.score", number),
    Column("generation_args", "generation_config.generation_args", mapping),
    Column("generation_details", "generation_config.additional_details", mapping),
)


def read_result(content: Any, where: str) -> dict[str, Any]:
    """A result of an aggregate with its settings: generation options and shots."""
    result = RESULT.read(mapping(content), where)
    options = {**result["generation_args"], **result["generation_details"]}
    settings: dict[str, Plain] = {}
    for name, value in options.items():
        if name != "execution_command" and plain(value) is not None:
            settings[name] = plain(value)
    if count_in_text(options.get("num_fewshot")) is not None:
        settings["num_fewshot"] = count_in_text(options["num_fewshot"])
    return {**result, "settings": settings}


NO_RESULT = read_result({}, "")


class EveryEvalEver(Source):
    """Reads records of every_eval_ever."""

    name: ClassVar[str] = "eee"
    looks_like: ClassVar[str] = f"every_eval_ever *{SAMPLES_ENDING}"

    def detect(self, file: SourceFile) -> Detection | None:
        """Samples hold answers; an aggregate is read along with its samples, or holds scores only."""
        if file.is_list:
            return None
        if file.keys >= LINE_KEYS:
            return Detection(Part.ANSWERS, f"rows have {', '.join(sorted(LINE_KEYS))}")
        if file.keys >= INDEX_KEYS:
            return Detection(Part.ANSWERS, f"rows have {', '.join(sorted(INDEX_KEYS))}")
        if file.keys >= AGGREGATE_KEYS:
            has_samples = file.path.with_name(file.path.stem + SAMPLES_ENDING).is_file()
            return beside_answers(has_samples, f"it has {', '.join(sorted(AGGREGATE_KEYS))}")
        return None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the samples of a record."""
        if file.keys >= INDEX_KEYS:
            raise SkipFile("an index of every_eval_ever records, no answers")
        record = _read_aggregate(file)
        groups: dict[tuple[str, str], TestsetSamples] = {}
        version: str | None = None
        lines = 0
        for _, line in LINE.read_rows(file):
            lines += 1
            version = version or line["schema"]
            testset = line["testset"].removesuffix(f"/{line['filter']}") or line["testset"]
            group = groups.setdefault((line["model"], testset), TestsetSamples(record, options))
            group.add(line)
        if not any(sample.scores for group in groups.values() for sample in group.samples.values()):
            lower = sorted({name for group in groups.values() for name in group.lower})
            raise SkipFile(f"lower is better: {', '.join(lower)}" if lower else "no sample is scored")
        total = record.about["total_rows"]
        if total is not None and total != lines:
            partial = "partial: " if lines < total else ""
            record.notes.append(f"{partial}{lines:,} lines, but its aggregate states {total:,}")
        if version is not None and not version.startswith(TRIED_SCHEMAS):
            record.notes.append(f"schema {version} is not known; read by its keys")
        for (model, testset), group in groups.items():
            for epoch in group.epochs():
                yield group.log(model, testset, version, epoch)


@dataclass
class EvaluationRecord:
    """Samples with the aggregate beside them, and what to say about the two."""

    path: Path
    about: Mapping[str, Any]
    notes: list[str]

    def __post_init__(self) -> None:
        """Read the results of its test sets once."""
        self.own = self.about["source"] == OWN_SOURCE
        self.results = [read_result(result, str(self.path)) for result in self.about["results"]]

    def result_of(self, line: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result that a line belongs to; an empty one if it cannot be told."""
        if line["result"] is not None:
            same = [result for result in self.results if result["id"] == line["result"]][:1]
        else:
            same = [result for result in self.results if result["testset"] == line["testset"]]
        return same[0] if len(same) == 1 else NO_RESULT

    def subject(self) -> dict[str, Plain]:
        """Details of the model that make its answers differ."""
        details: dict[str, Plain] = {}
        for name, value in self.about["model_details"].items():
            if (self.own and name not in DEPLOYMENT) or ANSWERING_DETAILS.fullmatch(name.lower()):
                details[name] = plain(value)
        return details


def _read_aggregate(file: SourceFile) -> EvaluationRecord:
    """The aggregate beside some samples, and what to say about the two."""
    path = file.path.with_name(file.path.name.removesuffix(SAMPLES_ENDING).removesuffix(".jsonl") + ".json")
    content = mapping(beside(path))
    about = AGGREGATE.read(content, str(path))
    nothing = AGGREGATE.read({}, str(path))
    if not content:
        note = f"its aggregate {path.name} is missing, so settings and metrics are not known"
        return EvaluationRecord(file.path, nothing, [note])
    first = next(LINE.read_rows(file), None)
    if first is not None and first[1]["evaluation"] != about["evaluation"]:
        note = f"{path.name} beside it is about another evaluation and was not used"
        return EvaluationRecord(file.path, nothing, [note])
    record = EvaluationRecord(file.path, about, [])
    algorithm, expected = about["hash_algorithm"], about["checksum"]
    if algorithm in ("sha256", "md5") and expected:
        with reading(file.path), file.path.open("rb") as samples:
            checksum = hashlib.file_digest(samples, algorithm).hexdigest()
        if checksum != expected.lower():
            record.notes.append(f"its {algorithm} checksum is not the one that {path.name} states")
    return record


@dataclass
class EvaluatedSample:
    """What a file says about one item: its input, and by metric and epoch its scores."""

    name: str
    texts: Mapping[str, Any]
    scores: dict[Metric, dict[int, list[float]]] = field(default_factory=dict)
    margins: dict[Metric, float] = field(default_factory=dict)
    answers: dict[int, str | None] = field(default_factory=dict)

    def mean(self, metric: Metric, epoch: int | None) -> float | None:
        """The mean over all epochs, or over one."""
        by_epoch = self.scores.get(metric, {})
        return mean_of(score for k, scores in by_epoch.items() if epoch in (None, k) for score in scores)


@dataclass
class TestsetSamples:
    """The samples of one model and test set, by id and hash of the input, and which result each metric belongs to."""

    record: EvaluationRecord
    options: Options
    samples: dict[tuple[str, str], EvaluatedSample] = field(default_factory=dict)
    metrics: dict[Metric, Any] = field(default_factory=dict)
    stated: dict[Metric, float] = field(default_factory=dict)
    settings: dict[str, Plain] = field(default_factory=dict)
    lower: set[str] = field(default_factory=set)

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        key = line["sample"], text_item(line["question"], *line["choices"], *line["references"])
        sample = self.samples.get(key)
        if sample is None:
            shown = _texts_of_item(line, self.record.own) if self.options.texts else {}
            sample = self.samples[key] = EvaluatedSample(line["doc_hash"] or line["sample"], shown)
        if line["error"] is not None:
            return
        epoch = line["epoch"] or 1
        sample.answers.setdefault(epoch, line["answer"])
        result = self.record.result_of(line)
        for metric, value in self._scores(line, result).items():
            self.metrics.setdefault(metric, None)
            if value is None:
                continue
            sample.scores.setdefault(metric, {}).setdefault(epoch, []).append(value)
            if self.record.own and line["margin"] is not None:
                sample.margins[metric] = line["margin"]
        self.settings |= result["settings"]
        if line["shots"] is not None and "num_fewshot" not in result["settings"]:
            self.settings["num_fewshot"] = line["shots"]

    def _scores(self, line: Mapping[str, Any], result: Mapping[str, Any]) -> dict[Metric, float | None]:
        """The scores of a line by metric."""
        scores: dict[Metric, float | None] = {}
        metric = _metric_of_line(line, result)
        if line["lm_eval_metrics"] is not None:
            variant = "" if line["filter"] == "none" else line["filter"]
            for name, value in mapping(json_in_text(line["lm_eval_metrics"])).items():
                scores[Metric(name, variant)] = number(value)
        elif result["lower_is_better"] is True:
            self.lower.add(metric.name)
        else:
            # Two results of one metric are two metrics: the second is told apart by its identifier.
            identity = words(line["result"]) or ""
            if self.metrics.setdefault(metric, identity) != identity:
                metric = Metric(metric.name, identity)
            is_unknown = result["has_unknown_level"] is True and line["score"] == -1
            scores[metric] = None if is_unknown else line["score"]
            # The score of an aggregate result counts if it is on the scale of its samples.
            if result["unit"] not in ("percent", "points") and result["max_score"] == 1 and result["mean"] is not None:
                self.stated[metric] = result["mean"]
        if self.options.metric == "is_correct":
            correct = line["is_correct"]
            scores[Metric("is_correct")] = float(correct) if isinstance(correct, bool) else None
        return scores

    def epochs(self) -> Sequence[int | None]:
        """The epochs that become subjects of their own, or None for the mean of all."""
        epochs = sorted({epoch for sample in self.samples.values() for epoch in sample.answers})
        return epochs if self.options.epochs == "each" and len(epochs) > 1 else [None]

    def log(self, model: str, testset: str, version: str | None, epoch: int | None) -> Log:
        """The answers of all epochs, or of one."""
        record = self.record
        subject = record.subject()
        step = count_in_text(subject.pop("step", None))
        if epoch is not None:
            subject["epoch"] = epoch
        notes = list(record.notes)
        if self.lower:
            notes.append(f"left out, because lower is better: {', '.join(sorted(self.lower))}")
        chosen: list[EvaluatedSample] = []
        items: list[str] = []
        for sample, item in zip(self.samples.values(), _items_of_samples(self.samples), strict=True):
            if epoch is None or epoch in sample.answers:
                chosen.append(sample)
                items.append(item)
        columns: dict[str, list[Any]] = {}
        for name in dict.fromkeys(name for sample in chosen for name in sample.texts):
            columns[name] = [sample.texts.get(name) or None for sample in chosen]
        margins: dict[Metric, list[float | None]] = {}
        for metric in self.metrics:
            if any(metric in sample.margins for sample in chosen):
                margins[metric] = [sample.margins.get(metric) for sample in chosen]
        return Log(
            path=str(record.path),
            tool=EveryEvalEver.name,
            version=version,
            testset=testset,
            model=model,
            items=items,
            values={metric: [sample.mean(metric, epoch) for sample in chosen] for metric in self.metrics},
            prefer=[metric.name for metric in self.metrics],
            margins=margins,
            answers=[agreed(sample.answers, epoch) for sample in chosen],
            texts=drop_empty(columns),
            subject=subject,
            settings=self.settings,
            step=step,
            stamp=_sortable_time(record.about["timestamp"]),
            stated=self.stated if epoch is None else {},
            notes=notes,
        )


def _sortable_time(value: Any) -> str:
    """When the evaluation ran: seconds since 1970 as a date, so that stamps sort."""
    seconds = number_in_text(value)
    try:
        if seconds is None:
            return str(value or "")
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(value)


def _metric_of_line(line: Mapping[str, Any], result: Mapping[str, Any]) -> Metric:
    """The metric of a line: as the aggregate calls it, else as its result is called (``exact_match:test``)."""
    if result["metric"] is not None:
        return Metric(result["metric"])
    name, _, variant = (words(line["result"]) or "score").partition(":")
    return Metric(name, variant)


def _texts_of_item(line: Mapping[str, Any], own: bool) -> dict[str, Any]:
    """What is known about an item's text; a reference that names a choice is its label."""
    choices, references = line["choices"], line["references"]
    labels = option_letters(len(choices))
    label: str | None = None
    if own:
        labels = entries_as_texts(line["option_labels"]) or labels
        label = line["label"]
    if label is None and choices and len(references) == 1:
        first = references[0]
        place = count_in_text(first) if line["lm_eval_metrics"] is not None else None
        if choices.count(first) == 1:
            label = labels[choices.index(first)]
        elif first in labels:
            label = first
        elif place is not None and place < len(labels):
            label = labels[place]
    target = " | ".join(references) if label is None else None
    shown = {"options": choices, "option_labels": labels, "label": label, "target": target}
    if line["doc_hash"] is None:
        return {"text": line["question"], **shown}
    # The raw input of a converted log holds its examples: as text it would tell equal items apart.
    return {**shown, "prompt": line["question"]}


def _items_of_samples(samples: Mapping[tuple[str, str], EvaluatedSample]) -> list[str]:
    """A name per sample; an id that stands for several inputs gets a hash of the input."""
    inputs = Counter(identity for identity, _ in samples)
    names: list[str] = []
    for (identity, hashed), sample in samples.items():
        is_ambiguous = sample.name == identity and inputs[identity] > 1
        names.append(f"{sample.name}~{hashed[:6]}" if is_ambiguous else sample.name)
    return numbered(names)

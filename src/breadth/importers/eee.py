"""every_eval_ever (schemas 0.1 to 0.3): ``<uuid>_samples.jsonl`` with a line per sample and metric.

The aggregate ``<uuid>.json`` beside it describes model, metrics and settings; without samples it holds scores only.

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
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from breadth.errors import InputError
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part, Plain
from breadth.importers.reading import (
    LogFile,
    Object,
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

SAMPLES = "_samples.jsonl"

#: What a line of samples, an aggregate, and an index of aggregates hold.
LINE = frozenset({"evaluation_id", "model_id", "evaluation_name", "sample_id"})
AGGREGATE = frozenset({"schema_version", "evaluation_id", "model_info"})
INDEX = frozenset({"record_type", "object_uuid", "eval_schema_version"})

#: Schemas that were tried, by major and minor number.
KNOWN = ("0.1", "0.2", "0.3")

#: Source of a record that `breadth export` wrote; all details of its subjects are restored.
OWN_SOURCE = "breadth"

#: Details of a model that make its answers differ.
DETAILS = re.compile(
    r"revision|model_revision|step|checkpoint|dtype|precision|quantization|adapter|peft|lora|chat_template"
    r"|reasoning_effort|thinking|system_prompt|agent|scaffold|harness"
)

#: Details of a model that say nothing about its answers.
ABOUT = ("deployment_type", "model_availability")


_HASH = re.compile(r"[0-9a-f]{16,64}")


class EveryEvalEver(Importer):
    """Reads records of every_eval_ever."""

    name: ClassVar[str] = "eee"

    def part(self, file: LogFile) -> Part | None:
        """Samples hold answers; an aggregate is read along with its samples, or holds scores only."""
        if file.is_list:
            return None
        if file.keys >= LINE or file.keys >= INDEX:
            return Part.ANSWERS
        if file.keys >= AGGREGATE:
            return Part.COMPANION if file.path.with_name(file.path.stem + SAMPLES).is_file() else Part.SCORES
        return None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read the samples of a record."""
        if file.keys >= INDEX:
            raise LeftOut("an index of every_eval_ever records, no answers")
        record = _record(file)
        groups: dict[tuple[str, str], Samples] = {}
        count = 0
        for line, content in file.rows():
            row = parse(content, str(file.path), line)
            if not isinstance(row, dict) or not all(isinstance(row.get(key), str) and row[key] for key in LINE):
                raise InputError(f"{file.path}, line {line}: lacks {', '.join(sorted(LINE))}; the file is damaged")
            count += 1
            record.version = record.version or words(row.get("schema_version"))
            testset = row["evaluation_name"]
            if (variant := words(mapping(row.get("metadata")).get("filter"))) and variant != "none":
                testset = testset.removesuffix(f"/{variant}") or testset
            group = groups.setdefault((row["model_id"], testset), Samples())
            _add_line(group, row, record, options)
        if not any(sample.scores for group in groups.values() for sample in group.samples.values()):
            lower = sorted({name for group in groups.values() for name in group.lower})
            raise LeftOut(f"lower is better: {', '.join(lower)}" if lower else "no sample is scored")
        total = mapping(record.aggregate.get("detailed_evaluation_results")).get("total_rows")
        if type(total) is int and total != count:
            partial = "partial: " if count < total else ""
            record.notes.append(f"{partial}{count:,} lines, but its aggregate states {total:,}")
        if record.version is not None and not record.version.startswith(KNOWN):
            record.notes.append(f"schema {record.version} is not known; read by its keys")
        for (model, testset), group in groups.items():
            yield from _logs(record, model, testset, group, options)


@dataclass
class Record:
    """Samples with the aggregate beside them, and what to say about the two."""

    path: Path
    aggregate: Object
    notes: list[str]
    version: str | None = None

    @cached_property
    def own(self) -> bool:
        """Whether `breadth export` wrote it."""
        return mapping(self.aggregate.get("source_metadata")).get("source_name") == OWN_SOURCE

    @cached_property
    def results(self) -> list[Object]:
        """The results of its test sets."""
        return [mapping(entry) for entry in entries(self.aggregate.get("evaluation_results"))]


def _record(file: LogFile) -> Record:
    """The aggregate beside some samples, and what to say about the two."""
    path = file.path.with_name(file.path.name.removesuffix(SAMPLES).removesuffix(".jsonl") + ".json")
    aggregate = mapping(beside(path))
    if not aggregate:
        return Record(file.path, {}, [f"its aggregate {path.name} is missing, so settings and metrics are not known"])
    first = next(file.rows(), None)
    known = mapping(parse(first[1], str(file.path), first[0])).get("evaluation_id") if first else None
    if known != aggregate.get("evaluation_id"):
        return Record(file.path, {}, [f"{path.name} beside it is about another evaluation and was not used"])
    details = mapping(aggregate.get("detailed_evaluation_results"))
    algorithm, expected = details.get("hash_algorithm"), words(details.get("checksum"))
    if algorithm in ("sha256", "md5") and expected and _checksum(file.path, algorithm) != expected.lower():
        return Record(file.path, aggregate, [f"its {algorithm} checksum is not the one that {path.name} states"])
    return Record(file.path, aggregate, [])


def _checksum(path: Path, algorithm: str) -> str:
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, algorithm).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def _logs(record: Record, model: str, testset: str, group: Samples, options: Options) -> Iterator[Log]:
    aggregate, notes = record.aggregate, record.notes
    samples = list(group.samples.values())
    items = _identify(group)
    subject: dict[str, Plain] = {
        key: plain(value)
        for key, value in mapping(mapping(aggregate.get("model_info")).get("additional_details")).items()
        if (record.own and key not in ABOUT) or DETAILS.fullmatch(key.lower())
    }
    step = _whole(subject.pop("step", None))
    stamp = aggregate.get("evaluation_timestamp") or aggregate.get("retrieved_timestamp")
    if group.lower:
        notes = [*notes, f"left out, because lower is better: {', '.join(sorted(group.lower))}"]
    epochs = sorted({epoch for sample in samples for epoch in sample.answers}) or [1]
    for epoch in epochs if options.epochs == "each" and len(epochs) > 1 else [None]:
        chosen = [k for k, sample in enumerate(samples) if epoch is None or epoch in sample.answers]
        columns: dict[str, list[Any]] = {}
        for name in dict.fromkeys(name for sample in samples for name in sample.shown):
            columns[name] = [samples[k].shown.get(name) or None for k in chosen]
        yield Log(
            path=str(record.path),
            tool=EveryEvalEver.name,
            version=record.version,
            testset=testset,
            model=model,
            items=[items[k] for k in chosen],
            values={
                metric: [_mean_over(samples[k].scores.get(metric, {}), epoch) for k in chosen]
                for metric in group.metrics
            },
            prefer=[metric.name for metric in group.metrics],
            margins={
                metric: [samples[k].margins.get(metric) for k in chosen]
                for metric in group.metrics
                if any(metric in sample.margins for sample in samples)
            },
            answers=[agreed(samples[k].answers, epoch) for k in chosen],
            texts={name: column for name, column in columns.items() if any(column)},
            subject=subject if epoch is None else {**subject, "epoch": epoch},
            settings=group.settings,
            step=step,
            stamp=_stamp(stamp),
            stated=group.stated if epoch is None else {},
            notes=[f"{record.path}: {note}" for note in notes],
        )


def _stamp(value: Any) -> str:
    """When the evaluation ran: seconds since 1970 as a date, so that stamps sort."""
    seconds = _real(value)
    try:
        if seconds is None:
            return str(value or "")
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(value)


@dataclass
class Sample:
    """What a file says about one item: its input, and by metric and epoch its scores."""

    name: str
    shown: dict[str, Any]
    scores: dict[Metric, dict[int, list[float]]] = field(default_factory=dict)
    margins: dict[Metric, float] = field(default_factory=dict)
    answers: dict[int, str | None] = field(default_factory=dict)


@dataclass
class Samples:
    """The samples of one model and test set, by id and hash of the input, and which result each metric belongs to."""

    samples: dict[tuple[str, str], Sample] = field(default_factory=dict)
    metrics: dict[Metric, str] = field(default_factory=dict)
    stated: dict[Metric, float] = field(default_factory=dict)
    settings: dict[str, Plain] = field(default_factory=dict)
    lower: set[str] = field(default_factory=set)


def _add_line(group: Samples, row: Object, record: Record, options: Options) -> None:
    """Add a line to the samples of its test set."""
    metadata, asked = mapping(row.get("metadata")), mapping(row.get("input"))
    raw, choices = words(asked.get("raw")) or "", [str(one) for one in entries(asked.get("choices"))]
    references = [str(one) for one in entries(asked.get("reference"))]
    hashed = words(metadata.get("doc_hash"))
    known = bool(hashed and _HASH.fullmatch(hashed))
    key = row["sample_id"], text_item(raw, *choices, *references)
    sample = group.samples.get(key)
    if sample is None:
        # The raw input of a converted log holds its examples: as text it would tell equal items apart.
        shown = _shown(raw, choices, references, metadata, record.own) if options.texts else {}
        if known and "text" in shown:
            shown["prompt"] = shown.pop("text")
        sample = group.samples[key] = Sample(hashed[:16] if hashed and known else row["sample_id"], shown)
    epoch = _whole(metadata.get("epoch")) or 1
    if words(row.get("error")):
        return
    sample.answers.setdefault(epoch, _answer(row))
    result = _result(row, record.results)
    for metric, value in _scores(group, row, metadata, result, options).items():
        sample.scores.setdefault(metric, {}).setdefault(epoch, []).append(value)
        if record.own and (margin := _real(metadata.get("margin"))) is not None:
            sample.margins[metric] = margin
    group.settings |= _settings(result, metadata)


def _scores(group: Samples, row: Object, metadata: Object, result: Object, options: Options) -> dict[Metric, float]:
    """The scores of a line by metric."""
    evaluation, config = mapping(row.get("evaluation")), mapping(result.get("metric_config"))
    scores: dict[Metric, float | None] = {}
    metric, written = _metric(row, config), words(metadata.get("lm_eval_metrics"))
    variant = words(metadata.get("filter")) or ""
    if written is not None:
        values = mapping(_json(written))
        scores |= {Metric(name, "" if variant == "none" else variant): number(one) for name, one in values.items()}
    elif config.get("lower_is_better") is True:
        group.lower.add(metric.name)
    else:
        score = number(evaluation.get("score"))
        unknown = config.get("has_unknown_level") is True and score == -1
        identity = words(row.get("evaluation_result_id")) or ""
        if group.metrics.setdefault(metric, identity) != identity:
            metric = Metric(metric.name, identity)
        scores[metric] = None if unknown else score
        # The score of an aggregate result counts if it is on the scale of its samples.
        unit, stated = config.get("metric_unit"), number(mapping(result.get("score_details")).get("score"))
        if unit not in ("percent", "points") and number(config.get("max_score")) in (None, 1.0) and stated is not None:
            group.stated[metric] = stated
    if options.metric == "is_correct":
        correct = evaluation.get("is_correct")
        scores[Metric("is_correct")] = float(correct) if isinstance(correct, bool) else None
    group.metrics |= {metric: group.metrics.get(metric, "") for metric in scores}
    return {metric: value for metric, value in scores.items() if value is not None}


def _json(text: str) -> Any:
    """A value that metadata hold as text; None if they hold something else."""
    try:
        return parse(text.encode(), "metadata")
    except (InputError, UnicodeError):
        return None


def _result(row: Object, results: Sequence[Object]) -> Object:
    """The aggregate result that a line belongs to; empty if it cannot be told."""
    identity, name = row.get("evaluation_result_id"), row["evaluation_name"]
    if identity is not None:
        return next((result for result in results if result.get("evaluation_result_id") == identity), {})
    same = [result for result in results if result.get("evaluation_name") == name]
    return same[0] if len(same) == 1 else {}


def _metric(row: Object, config: Object) -> Metric:
    """The metric of a line: as the aggregate calls it, else as its result is called (``exact_match:test``)."""
    for key in ("metric_name", "metric_id", "metric_kind"):
        if name := words(config.get(key)):
            return Metric(name)
    name, _, variant = (words(row.get("evaluation_result_id")) or "score").partition(":")
    return Metric(name, variant)


def _settings(result: Object, metadata: Object) -> dict[str, Plain]:
    """Generation options and shots of a result."""
    config = mapping(result.get("generation_config"))
    values = {**mapping(config.get("generation_args")), **mapping(config.get("additional_details"))}
    values.pop("execution_command", None)
    shots = _whole(values.get("num_fewshot", metadata.get("num_fewshot")))
    settings = {key: plain(value) for key, value in values.items() if plain(value) is not None}
    return settings if shots is None else {**settings, "num_fewshot": shots}


def _shown(raw: str, choices: list[str], references: list[str], metadata: Object, own: bool) -> dict[str, Any]:
    """What is known about an item's text; a reference that names a choice is its label."""
    labels = option_letters(len(choices))
    first = references[0] if len(references) == 1 else None
    label = words(metadata.get("label")) if own else None
    if own and (written := words(metadata.get("option_labels"))):
        labels = [str(one) for one in entries(_json(written))] or labels
    if label is None and first is not None and choices:
        if choices.count(first) == 1:
            label = labels[choices.index(first)]
        elif first in labels:
            label = first
        elif "lm_eval_metrics" in metadata and (place := _whole(first)) is not None and place < len(labels):
            label = labels[place]
    target = None if label is not None else " | ".join(references)
    return {"text": raw, "options": choices, "option_labels": labels, "label": label, "target": target}


def _answer(row: Object) -> str | None:
    """What was taken as the answer, where the record says so."""
    attributed = [mapping(entry) for entry in entries(row.get("answer_attribution"))]
    final = [entry for entry in attributed if entry.get("is_terminal") is not False]
    return words(final[-1].get("extracted_value")) if final else None


def _identify(group: Samples) -> list[str]:
    """A name per sample; an id that stands for several inputs gets a hash of the input."""
    inputs = Counter(identity for identity, _ in group.samples)
    return numbered(
        f"{sample.name}~{hashed[:6]}" if sample.name == identity and inputs[identity] > 1 else sample.name
        for (identity, hashed), sample in group.samples.items()
    )


def _mean_over(epochs: Mapping[int, Sequence[float]], epoch: int | None) -> float | None:
    """The mean over all epochs, or over one."""
    return mean_of(one for k, some in epochs.items() if epoch in (None, k) for one in some)


def _whole(value: Any) -> int | None:
    """A count that is written as a number or as text."""
    text = str(value) if type(value) in (int, str) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None


def _real(value: Any) -> float | None:
    """A finite number that may be written as text."""
    try:
        return number(float(value)) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None

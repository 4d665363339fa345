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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from breadth.errors import InputError
from breadth.importers.eee_samples import Samples, add_line, agreed, identify, mean_over, real, whole
from breadth.importers.logs import Importer, LeftOut, Log, Options, Part
from breadth.importers.reading import LogFile, beside, entries, mapping, parse, plain, words

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
        results = [mapping(entry) for entry in entries(record.aggregate.get("evaluation_results"))]
        groups: dict[tuple[str, str], Samples] = {}
        count = 0
        for line, content in file.rows():
            row = parse(content, str(file.path), line)
            if not isinstance(row, dict) or not all(isinstance(row.get(key), str) and row[key] for key in LINE):
                raise InputError(f"{file.path}, line {line}: lacks {', '.join(sorted(LINE))}; the file is damaged")
            count += 1
            record.version = record.version or words(row.get("schema_version"))
            metadata = mapping(row.get("metadata"))
            testset = row["evaluation_name"]
            if (variant := words(metadata.get("filter"))) and variant != "none":
                testset = testset.removesuffix(f"/{variant}") or testset
            group = groups.setdefault((row["model_id"], testset), Samples())
            add_line(group, row, metadata, results, record.own, options)
        if not any(sample.scores for group in groups.values() for sample in group.samples.values()):
            lower = sorted({name for group in groups.values() for name in group.lower})
            raise LeftOut(f"lower is better: {', '.join(lower)}" if lower else "no sample is scored")
        record.notes += _count_notes(record, count)
        for (model, testset), group in groups.items():
            yield from _logs(record, model, testset, group, options)


@dataclass
class Record:
    """Samples with the aggregate beside them, and what to say about the two."""

    path: Path
    aggregate: Mapping[str, Any]
    notes: list[str]
    version: str | None = None

    @property
    def own(self) -> bool:
        """Whether `breadth export` wrote it."""
        return mapping(self.aggregate.get("source_metadata")).get("source_name") == OWN_SOURCE


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


def _count_notes(record: Record, count: int) -> list[str]:
    notes: list[str] = []
    total = mapping(record.aggregate.get("detailed_evaluation_results")).get("total_rows")
    if type(total) is int and total != count:
        notes.append(f"{'partial: ' if count < total else ''}{count:,} lines, but its aggregate states {total:,}")
    if record.version is not None and not record.version.startswith(KNOWN):
        notes.append(f"schema {record.version} is not known; read by its keys")
    return notes


def _logs(record: Record, model: str, testset: str, group: Samples, options: Options) -> Iterator[Log]:
    aggregate, notes = record.aggregate, record.notes
    samples = list(group.samples.values())
    items = identify(group)
    info = mapping(aggregate.get("model_info"))
    subject = _subject(mapping(info.get("additional_details")), record.own)
    step = whole(subject.pop("step", None))
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
                metric: [mean_over(samples[k].scores.get(metric, {}), epoch) for k in chosen]
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


def _subject(details: Mapping[str, Any], own: bool) -> dict[str, str | int | float | bool | None]:
    """Details of a model that make it a subject of its own."""
    return {
        key: plain(value)
        for key, value in details.items()
        if (own and key not in ABOUT) or DETAILS.fullmatch(key.lower())
    }


def _stamp(value: Any) -> str:
    """When the evaluation ran: seconds since 1970 as a date, so that stamps sort."""
    seconds = real(value)
    try:
        return (
            datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
            if seconds is not None
            else str(value or "")
        )
    except (ValueError, OverflowError, OSError):
        return str(value)

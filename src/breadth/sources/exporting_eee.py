"""Records of every_eval_ever 0.3.0, for ``breadth export --to eee``: an aggregate and its samples, by subject and set.

Paths and identifiers follow from test set and subject, so that an export can be repeated. Missing answers have no line.
What the schema has no place for goes into ``metadata`` and ``additional_details``, where every value is text.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import orjson
import polars as pl

from breadth.boundary import writing
from breadth.records import Folder, Study, is_imported, read_imported
from breadth.sources.exporting import Exported, open_target
from breadth.sources.tools.eee import DEPLOYMENT, OWN_SOURCE, SAMPLES_ENDING

SCHEMA_VERSION = "0.3.0"

#: Columns of items that have a place of their own in a sample; other texts are part of the input.
PLACED = ("testset", "item", "text", "options", "option_labels", "label", "target")

#: Columns of items that describe them, and are no part of the input.
NOT_ASKED = ("shift", "prompt", "split", "source", "level", "difficulty")

# Names that some file systems keep for themselves.
_RESERVED_NAME = re.compile(r"data|con|prn|aux|nul|com\d|lpt\d", re.IGNORECASE)


class ExportedRecord(NamedTuple):
    """One subject's answers to one test set, with the names that follow from these two."""

    subject: Mapping[str, Any]
    testset: str
    log: Mapping[str, Any]  #: What is known about the log that the answers were imported from.
    model: str
    developer: str | None
    evaluation: str
    stem: str  #: Path of its files without their endings, relative to the directory of the export.

    @property
    def metric(self) -> str:
        """How answers were scored."""
        metric, variant = self.log.get("metric") or "accuracy", self.log.get("variant")
        return f"{metric} ({variant})" if variant else metric


class ExportedItem(NamedTuple):
    """What all samples of an item share."""

    input: dict[str, Any]
    hashed: str | None
    metadata: dict[str, str]


def write_records(study: Study, answers: pl.DataFrame, target: Path) -> Exported:
    """Write every record; samples before the aggregate that names them."""
    records = list(_records_of_study(study))
    samples = [PurePosixPath(f"{record.stem}{SAMPLES_ENDING}") for record in records]
    aggregates = [PurePosixPath(f"{record.stem}.json") for record in records]
    with open_target(target, [*samples, *aggregates]) as folder:
        library = ("breadth", version("breadth")) if study.runs else ("unknown", "unknown")
        items = {(row["testset"], row["item"]): _exported_item(row) for row in study.items.iter_rows(named=True)}
        parts = answers.partition_by("subject", "testset", as_dict=True, include_key=False)
        for record, path, aggregate in zip(records, samples, aggregates, strict=True):
            part = parts[record.subject["subject"], record.testset]
            content = b"".join(_lines_of_record(record, part, items))
            _write_part(folder, path, content)
            about = _aggregate_of_record(record, part, content, library)
            _write_part(folder, aggregate, orjson.dumps(about, option=orjson.OPT_INDENT_2))
    paths = tuple(target / path for path in (*samples, *aggregates))
    return Exported(paths, tuple(_lost_in_export(study, answers)))


def _write_part(folder: Folder, path: PurePosixPath, content: bytes) -> None:
    with writing(folder.path / path), folder.below(path.parent, make=True) as inner:
        inner.write(path.name, content)


def _records_of_study(study: Study) -> Iterator[ExportedRecord]:
    """A record for every subject and test set that has answers."""
    logs: dict[tuple[str, str], dict[str, Any]] = {}
    if study.folder is not None and is_imported(study.folder):
        for log in read_imported(study.folder).logs.iter_rows(named=True):
            logs[log["subject"], log["testset"]] = log
    _, counts = study.scores
    for row, subject in enumerate(study.subjects.iter_rows(named=True)):
        for column, testset in enumerate(study.testsets):
            if counts[row, column]:
                yield _named_record(subject, testset, logs.get((subject["subject"], testset), {}))


def _named_record(subject: Mapping[str, Any], testset: str, log: Mapping[str, Any]) -> ExportedRecord:
    model = str(subject.get("model") or subject["subject"])
    owner, slash, name = model.partition("/")
    developer = owner if slash and owner else None
    # An identifier that follows from subject and test set; the datastore takes UUIDs of version 4 only.
    key = f"{testset}\x1f{subject['subject']}".encode("utf-8", "surrogatepass")
    identity = str(uuid.UUID(bytes=hashlib.sha256(key).digest()[:16], version=4))
    folders = [_portable_name(part) for part in (testset, developer or "unknown", name if developer else model)]
    return ExportedRecord(
        subject,
        testset,
        log,
        model,
        developer,
        evaluation=f"{testset}/{model.replace('/', '_')}/{identity[:8]}",
        stem="/".join(("data", *folders, identity)),
    )


def _portable_name(name: str) -> str:
    """A name that every file system takes."""
    safe = re.sub(r"[^\w.+@=,-]", "_", name)[:80].strip(". ") or "_"
    return f"{safe}_" if _RESERVED_NAME.fullmatch(safe.partition(".")[0]) else safe


def _aggregate_of_record(
    record: ExportedRecord, part: pl.DataFrame, samples: bytes, library: tuple[str, str]
) -> dict[str, Any]:
    result = {
        "evaluation_result_id": f"{record.testset}:{record.metric}",
        "evaluation_name": record.testset,
        "source_data": {"dataset_name": record.testset, "source_type": "other"},
        "metric_config": {
            "metric_id": record.metric,
            "metric_name": record.metric,
            "metric_kind": "accuracy",
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {"score": part["correct"].mean(), "uncertainty": {"num_samples": part.height}},
    }
    settings = _as_texts(json.loads(record.log.get("settings") or "{}"))
    if settings:
        result["generation_config"] = {"additional_details": settings}
    if record.log:
        library = (str(record.log["tool"]), str(record.log["version"] or "unknown"))
    details = {name: value for name, value in record.subject.items() if name not in ("model", "tool", "version")}
    info = {
        "name": record.model,
        "id": record.model,
        "additional_details": _as_texts(details) | dict.fromkeys(DEPLOYMENT, "unknown"),
    }
    if record.developer:
        info["developer"] = record.developer
    aggregate = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": record.evaluation,
        "retrieved_timestamp": str(int(time.time())),
        "source_metadata": {
            "source_name": OWN_SOURCE,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": library[0], "version": library[1]},
        "model_info": info,
        "evaluation_results": [result],
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"{record.stem}{SAMPLES_ENDING}",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples).hexdigest(),
            "total_rows": part.height,
        },
    }
    if record.log.get("stamp"):
        aggregate["evaluation_timestamp"] = record.log["stamp"]
    return aggregate


def _lines_of_record(
    record: ExportedRecord, part: pl.DataFrame, items: Mapping[tuple[str, str], ExportedItem]
) -> Iterator[bytes]:
    for row in part.iter_rows(named=True):
        item, answer = items[record.testset, row["item"]], row["answer"]
        attribution = {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": answer,
            "extraction_method": "unknown",
            "is_terminal": True,
        }
        metadata = dict(item.metadata)
        if row["margin"] is not None:
            metadata["margin"] = repr(row["margin"])
        line = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": record.evaluation,
            "model_id": record.model,
            "evaluation_name": record.testset,
            "evaluation_result_id": f"{record.testset}:{record.metric}",
            "sample_id": row["item"],
            "sample_hash": item.hashed,
            "interaction_type": "single_turn",
            "input": item.input,
            "output": {"raw": [] if answer is None else [answer]},
            "answer_attribution": [] if answer is None else [attribution],
            "evaluation": {"score": row["correct"], "is_correct": row["correct"] == 1},
            "metadata": metadata,
        }
        yield orjson.dumps(line) + b"\n"


def _exported_item(item: Mapping[str, Any]) -> ExportedItem:
    references, question = _references(item), _question_of_item(item)
    hashed = json.dumps({"raw": question, "reference": references}, sort_keys=True, separators=(",", ":"))
    return ExportedItem(
        {"raw": question, "reference": references, "choices": item.get("options")},
        hashlib.sha256(hashed.encode()).hexdigest() if question else None,
        _as_texts({key: item.get(key) for key in ("label", "option_labels")}),
    )


def _question_of_item(item: Mapping[str, Any]) -> str:
    """The question: its text, else the fields of its task by name, else the whole prompt."""
    if item.get("text") is not None:
        return str(item["text"])
    fields: list[str] = []
    for name, value in item.items():
        if isinstance(value, str) and name not in (*PLACED, *NOT_ASKED):
            fields.append(f"{name}: {value}")
    return "\n".join(fields) or str(item.get("prompt") or "")


def _references(item: Mapping[str, Any]) -> list[str]:
    """The expected answer: the text of the right option, the target, or the label."""
    options, labels, label = item.get("options"), item.get("option_labels"), item.get("label")
    if isinstance(options, list) and isinstance(labels, list) and label in labels[: len(options)]:
        return [str(options[labels.index(label)])]
    expected = label if item.get("target") is None else item["target"]
    return [] if expected is None else [str(expected)]


def _as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as text, those that are there."""
    texts: dict[str, str] = {}
    for name, value in values.items():
        if value is not None:
            texts[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return texts


def _lost_in_export(study: Study, answers: pl.DataFrame) -> Iterator[str]:
    """What the schema has no place for."""
    yield "developer, deployment and availability of models, and who evaluated them, are not known: written as unknown"
    if answers["margin"].is_not_null().any():
        yield "margins are in metadata only, which other tools do not read as numbers"
    if not ((answers["correct"] == 0) | (answers["correct"] == 1)).all():
        yield "is_correct is true only where a share is 1; the score holds the share"
    if answers["answer"].null_count():
        yield f"{answers['answer'].null_count():,} of {answers.height:,} answers have no text; output is empty there"
    without = sum(not _question_of_item(item) for item in study.items.iter_rows(named=True))
    if without:
        yield f"{without:,} of {study.items.height:,} items have no text: an empty input, and no sample_hash"
    lost: list[str] = []
    for name, dtype in study.items.schema.items():
        if name not in PLACED and (name in NOT_ASKED or dtype != pl.String):
            lost.append(name)
    if lost:
        yield f"columns of items that have no place there: {', '.join(lost)}"

"""Records of every_eval_ever 0.3.0: one per subject and test set, an aggregate and its samples.

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
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from breadth.errors import InputError
from breadth.records import Study, atomic_write, is_imported, read_imported
from breadth.sources.exporting import Exported, prepare_folder
from breadth.sources.tools.eee import OWN_SOURCE, SAMPLES_ENDING as SAMPLES

SCHEMA = "0.3.0"

#: Columns of items that have a place of their own in a sample; other texts are part of the input.
PLACED = ("testset", "item", "text", "options", "option_labels", "label", "target")

#: Columns of items that describe them, and are no part of the input.
ABOUT = ("shift", "prompt", "split", "source", "level", "difficulty")

#: Names that some file systems keep for themselves.
_RESERVED = re.compile(r"data|con|prn|aux|nul|com\d|lpt\d", re.IGNORECASE)


@dataclass(frozen=True)
class Record:
    """One subject's answers to one test set."""

    subject: Mapping[str, Any]
    testset: str
    log: Mapping[str, Any]
    library: tuple[str, str]

    @cached_property
    def model(self) -> str:
        """The model, as the study calls it."""
        return str(self.subject.get("model") or self.subject["subject"])

    @cached_property
    def developer(self) -> str | None:
        """The owner in the model's name."""
        owner, slash, _ = self.model.partition("/")
        return owner if slash and owner else None

    @cached_property
    def identity(self) -> str:
        """A UUID that follows from subject and test set; the datastore takes version 4 only."""
        digest = hashlib.sha256(
            f"{self.testset}\x1f{self.subject['subject']}".encode("utf-8", "surrogatepass")
        ).digest()
        return str(uuid.UUID(bytes=digest[:16], version=4))

    @cached_property
    def evaluation(self) -> str:
        """The identifier that aggregate and samples share."""
        return f"{self.testset}/{self.model.replace('/', '_')}/{self.identity[:8]}"

    @cached_property
    def samples_path(self) -> str:
        """The samples, relative to the directory of the export."""
        model = self.model.partition("/")[2] if self.developer else self.model
        folders = (_folder_name(name) for name in (self.testset, self.developer or "unknown", model))
        return "/".join(("data", *folders, self.identity + SAMPLES))

    @cached_property
    def metric(self) -> str:
        """How answers were scored."""
        variant = self.log.get("variant")
        return f"{self.log.get('metric') or 'accuracy'}{f' ({variant})' if variant else ''}"


def write_records(study: Study, answers: pl.DataFrame, folder: Path) -> Exported:
    """Write every record; samples before the aggregate that names them."""
    records = list(_records(study))
    paths = [folder / record.samples_path for record in records]
    aggregates = [path.with_name(path.name.removesuffix(SAMPLES) + ".json") for path in paths]
    prepare_folder(folder, [*paths, *aggregates])
    items = {(row["testset"], row["item"]): _asked_about(row) for row in study.items.iter_rows(named=True)}
    parts = answers.partition_by("subject", "testset", as_dict=True, include_key=False)
    for record, path, aggregate in zip(records, paths, aggregates, strict=True):
        part = parts[record.subject["subject"], record.testset]
        content = b"".join(_lines(record, part, items))
        _write(path, content)
        _write(aggregate, orjson.dumps(_aggregate(record, part, content), option=orjson.OPT_INDENT_2))
    return Exported((*paths, *aggregates), tuple(_lost(study, answers)))


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be written ({error.strerror})") from error
    atomic_write(path, lambda temporary: temporary.write_bytes(content))


def _records(study: Study) -> Iterator[Record]:
    logs = read_imported(study.folder).logs if study.folder is not None and is_imported(study.folder) else None
    known = {(row["subject"], row["testset"]): row for row in logs.iter_rows(named=True)} if logs is not None else {}
    library = ("breadth", version("breadth")) if study.runs else ("unknown", "unknown")
    _, counts = study.scores
    for row, subject in enumerate(study.subjects.iter_rows(named=True)):
        for column, testset in enumerate(study.testsets):
            if counts[row, column]:
                log = known.get((subject["subject"], testset), {})
                named = (str(log["tool"]), str(log["version"] or "unknown")) if log else library
                yield Record(subject, testset, log, named)


def _aggregate(record: Record, part: pl.DataFrame, samples: bytes) -> dict[str, Any]:
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
    if settings := _texts(json.loads(record.log.get("settings") or "{}")):
        result["generation_config"] = {"additional_details": settings}
    details = _texts({key: value for key, value in record.subject.items() if key not in ("model", "tool", "version")})
    info = {
        "name": record.model,
        "id": record.model,
        "additional_details": {**details, "deployment_type": "unknown", "model_availability": "unknown"},
    }
    stamp = record.log.get("stamp")
    return {
        "schema_version": SCHEMA,
        "evaluation_id": record.evaluation,
        **({"evaluation_timestamp": stamp} if stamp else {}),
        "retrieved_timestamp": str(int(time.time())),
        "source_metadata": {
            "source_name": OWN_SOURCE,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": record.library[0], "version": record.library[1]},
        "model_info": {**info, **({"developer": record.developer} if record.developer else {})},
        "evaluation_results": [result],
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": record.samples_path,
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples).hexdigest(),
            "total_rows": part.height,
        },
    }


def _lines(record: Record, part: pl.DataFrame, items: Mapping[tuple[str, str], Asked]) -> Iterator[bytes]:
    for row in part.iter_rows(named=True):
        asked, answer = items[record.testset, row["item"]], row["answer"]
        attribution = {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": answer,
            "extraction_method": "unknown",
            "is_terminal": True,
        }
        line = {
            "schema_version": SCHEMA,
            "evaluation_id": record.evaluation,
            "model_id": record.model,
            "evaluation_name": record.testset,
            "evaluation_result_id": f"{record.testset}:{record.metric}",
            "sample_id": row["item"],
            "sample_hash": asked.hashed,
            "interaction_type": "single_turn",
            "input": asked.input,
            "output": {"raw": [] if answer is None else [answer]},
            "answer_attribution": [] if answer is None else [attribution],
            "evaluation": {"score": row["correct"], "is_correct": row["correct"] == 1},
            "metadata": asked.metadata if row["margin"] is None else {**asked.metadata, "margin": repr(row["margin"])},
        }
        yield orjson.dumps(line) + b"\n"


class Asked(NamedTuple):
    """What all samples of an item share."""

    input: dict[str, Any]
    hashed: str | None
    metadata: dict[str, str]


def _asked_about(item: Mapping[str, Any]) -> Asked:
    references, text = _references(item), _asked(item)
    hashed = json.dumps({"raw": text, "reference": references}, sort_keys=True, separators=(",", ":"))
    return Asked(
        {"raw": text, "reference": references, "choices": item.get("options")},
        hashlib.sha256(hashed.encode()).hexdigest() if text else None,
        _texts({key: item.get(key) for key in ("label", "option_labels")}),
    )


def _asked(item: Mapping[str, Any]) -> str:
    """The question: its text, else the fields of its task by name, else the whole prompt."""
    if item.get("text") is not None:
        return str(item["text"])
    fields = {name: value for name, value in item.items() if isinstance(value, str) and name not in (*PLACED, *ABOUT)}
    return "\n".join(f"{name}: {value}" for name, value in fields.items()) or str(item.get("prompt") or "")


def _references(item: Mapping[str, Any]) -> list[str]:
    """The expected answer: the text of the right option, the target, or the label."""
    options, labels, label = item.get("options"), item.get("option_labels"), item.get("label")
    if isinstance(options, list) and isinstance(labels, list) and label in labels[: len(options)]:
        return [str(options[labels.index(label)])]
    expected = item.get("target") if item.get("target") is not None else label
    return [] if expected is None else [str(expected)]


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as text, those that are there."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, default=str)
        for key, value in values.items()
        if value is not None
    }


def _folder_name(name: str) -> str:
    """A name that every file system takes."""
    safe = re.sub(r"[^\w.+@=,-]", "_", name)[:80].strip(". ") or "_"
    return f"{safe}_" if _RESERVED.fullmatch(safe.partition(".")[0]) else safe


def _lost(study: Study, answers: pl.DataFrame) -> Iterator[str]:
    """What the schema has no place for."""
    yield "developer, deployment and availability of models, and who evaluated them, are not known: written as unknown"
    if answers["margin"].is_not_null().any():
        yield "margins are in metadata only, which other tools do not read as numbers"
    if not ((answers["correct"] == 0) | (answers["correct"] == 1)).all():
        yield "is_correct is true only where a share is 1; the score holds the share"
    if answers["answer"].null_count():
        yield f"{answers['answer'].null_count():,} of {answers.height:,} answers have no text; output is empty there"
    without = sum(not _asked(item) for item in study.items.iter_rows(named=True))
    if without:
        yield f"{without:,} of {study.items.height:,} items have no text: an empty input, and no sample_hash"
    columns = [name for name, dtype in study.items.schema.items() if name in ABOUT or dtype != pl.String]
    if lost := [name for name in columns if name not in PLACED]:
        yield f"columns of items that have no place there: {', '.join(lost)}"

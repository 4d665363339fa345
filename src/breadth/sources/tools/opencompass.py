"""OpenCompass: results with details of every question.

Written from its source code, not tried on a real log.

A run directory ``<stamp>/`` has ``predictions/<model>/<dataset>[_k].json`` and ``results/<model>/<dataset>.json``. Only
the results say which answers are right, and only if details were kept (``--dump-eval-details``).

- **Item**: the position in the data set, or ``example_abbr`` of newer versions, with a hash of the reference: a range
  of the data set that begins elsewhere has other items at the same position.
- **Test set**: the abbreviation of the data set, which is the file's name.
- **Metric**: ``accuracy`` from ``correct`` (or ``is_correct``, ``cascade_correct``); the mean where a question was
  asked several times. ``model_postprocess_accuracy`` where a second model extracted the answers.
- **Subject**: the abbreviation of the model, which is the directory's name.

Prompts hold the template of the model, so they are kept as ``prompt`` and do not tell items apart. Perplexities are
those of whole prompts, not of answers: there are no margins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from breadth.errors import InputError
from breadth.sources.logs.log import Log, Metric, Options, SkipFile
from breadth.sources.registry import Part, Source
from breadth.sources.source_files import (
    Object,
    SourceFile,
    beside,
    entries,
    mapping,
    mean_of,
    number,
    numbered,
    text_item,
    words,
)

#: Keys that say whether an answer is right, in order of preference, and the metric that they make.
CORRECT = ("correct", "is_correct", "cascade_correct")
EXTRACTED = ("model_extract_correct",)

ACCURACY, MODEL_ACCURACY = Metric("accuracy"), Metric("model_postprocess_accuracy")

#: What the details of an answer call the expected and the given answer.
REFERENCES, GIVEN = ("references", "answer", "answers", "gold", "reference"), ("predictions", "pred", "prediction")

#: Aggregate numbers that results may hold.
SCORES = re.compile(r"(accuracy|score|pass@1|exact_match|em|f1|bleu|rouge\w*)( \(\d+ runs average\))?", re.IGNORECASE)

# Details may begin with a prompt that is longer than the head of a file.
_DETAILS = re.compile(rb'"details"\s*:\s*[\[{]')

_STAMP = re.compile(r"\d{8}_\d{6}")


class OpenCompass(Source):
    """Reads results of OpenCompass."""

    name: ClassVar[str] = "opencompass"

    def part(self, file: SourceFile) -> Part | None:
        """Results with details hold answers, results without hold scores; predictions are read along with results."""
        if file.is_list or not file.keys:
            return None
        in_results = file.path.parent.parent.name == "results"
        if all(key.isdecimal() for key in file.keys) and "0" in file.keys:
            if b'"prediction"' not in file.head and b'"origin_prompt"' not in file.head:
                return None
            return Part.COMPANION if _results(file.path).is_file() else Part.ANSWERS
        scored = any(SCORES.fullmatch(key) for key in file.keys)
        if "details" in file.keys and _DETAILS.search(file.head):
            told = any(f'"{key}"'.encode() in file.head for key in (*CORRECT, *GIVEN))
            if told or (in_results and scored):
                return Part.ANSWERS
        return Part.SCORES if in_results and scored else None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the results of one model on one data set."""
        content = mapping(file.json())
        if "details" not in content:
            raise SkipFile("predictions without correctness; run OpenCompass with --dump-eval-details")
        rows = _rows(content["details"], str(file.path))
        values = {
            metric: [_correct(row, keys) for _, row in rows]
            for metric, keys in ((ACCURACY, CORRECT), (MODEL_ACCURACY, EXTRACTED))
        }
        values = {metric: column for metric, column in values.items() if any(one is not None for one in column)}
        if not values:
            raise SkipFile("its details do not say which answers are right; the evaluator of this data set gives none")
        references = [_text(row, REFERENCES) for _, row in rows]
        yield Log(
            path=str(file.path),
            tool=self.name,
            testset=file.path.stem,
            model=file.path.parent.name,
            items=numbered(
                name if reference is None else f"{name}~{text_item(reference)[:6]}"
                for (name, _), reference in zip(rows, references, strict=True)
            ),
            values=values,
            prefer=[ACCURACY.name],
            answers=[_text(row, GIVEN) for _, row in rows],
            texts=_texts(file.path, rows, references) if options.texts else {},
            stamp=next((part for part in reversed(file.path.parts) if _STAMP.fullmatch(part)), ""),
            stated={metric: mean for metric in values if (mean := _stated(content, metric)) is not None},
            notes=_notes(file.path, rows),
        )


def _results(path: Path) -> Path:
    """Where the results of some predictions are; large data sets have predictions in parts, ``_0``, ``_1``, ..."""
    folder = path.parent.parent.parent / "results" / path.parent.name
    whole = folder / path.name
    return whole if whole.is_file() else folder / f"{re.sub(r'_[0-9]+$', '', path.stem)}.json"


def _rows(details: Any, where: str) -> list[tuple[str, Object]]:
    """The details of every question with its name: a list, or an object by position with other keys among them."""
    if isinstance(details, list):
        named = list(enumerate(details))
    elif isinstance(details, dict):
        named = [
            (int(key), value) for key, value in details.items() if len(key) < 10 and key.isascii() and key.isdecimal()
        ]
    else:
        raise InputError(f"{where}, details: expected an object or a list; the file is damaged")
    rows = [
        (words(mapping(row).get("example_abbr")) or str(k), mapping(row)) for k, row in sorted(named, key=itemgetter(0))
    ]
    if not rows:
        raise SkipFile("its details are empty")
    return rows


def _correct(row: Object, keys: Sequence[str]) -> float | None:
    """Whether an answer is right; the mean over several answers to one question."""
    for key in keys:
        if row.get(key) is not None:
            return mean_of(map(number, row[key] if isinstance(row[key], list) else [row[key]]))
    return None


def _text(row: Object, keys: Sequence[str]) -> str | None:
    """The first of some fields as text; lists of equal values, one per repetition, are one value."""
    value = next((row[key] for key in keys if row.get(key) not in (None, [], {})), None)
    if isinstance(value, list):
        texts = list(dict.fromkeys(map(str, value)))
        return " | ".join(texts)
    return None if value is None or isinstance(value, dict) else str(value)


def _texts(path: Path, rows: Sequence[tuple[str, Object]], references: Sequence[str | None]) -> dict[str, list[Any]]:
    """Prompts, from the details or the predictions, and expected answers."""
    prompts = [_prompt(row.get("prompt", row.get("origin_prompt"))) for _, row in rows]
    if not any(prompts):
        predictions = mapping(beside(path.parent.parent.parent / "predictions" / path.parent.name / path.name))
        prompts = [_prompt(mapping(predictions.get(str(k))).get("origin_prompt")) for k in range(len(rows))]
    columns: dict[str, list[Any]] = {"prompt": prompts, "target": list(references)}
    return {name: column for name, column in columns.items() if any(column)}


def _prompt(value: Any) -> str | None:
    """What the model was asked: a text, or the last human turn of a conversation; of repetitions the first."""
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    if isinstance(value, list):
        turns = [turn for turn in map(mapping, value) if turn.get("role") in ("HUMAN", "user", None)]
        value = next((words(turn.get("prompt", turn.get("content"))) for turn in reversed(turns)), None)
    return words(value)


def _stated(content: Object, metric: Metric) -> float | None:
    """The accuracy that the results state, which is in percent, as a share with as many digits."""
    repeated = f"{metric.name} ("
    found = [value for key, value in content.items() if key == metric.name or key.startswith(repeated)]
    percent = number(found[0]) if found else None
    if percent is None or not 0 <= percent <= 100:
        return None
    digits = len(repr(percent).partition(".")[2]) if "e" not in repr(percent) else 14
    return round(percent / 100, digits + 2)


def _notes(path: Path, rows: Sequence[tuple[str, Object]]) -> list[str]:
    repeated = max((len(entries(row.get(key))) for _, row in rows for key in CORRECT), default=0)
    return [f"{path}: mean over {repeated} answers to every question"] if repeated > 1 else []

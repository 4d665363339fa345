"""OpenCompass: results with details of every question. Written from its source code.

A run directory ``<stamp>/`` has ``predictions/<model>/<dataset>[_k].json`` and ``results/<model>/<dataset>.json``. Only
the results say which answers are right, and only if details were kept (``--dump-eval-details``).

- **Item**: the position in the data set, or ``example_abbr`` of newer versions, with a hash of the reference: a range
  of the data set that begins elsewhere has other items at the same position.
- **Test set** and **subject**: the abbreviations of data set and model, which name the file and its directory.
- **Metric**: ``accuracy``; the mean where a question was asked several times. ``model_postprocess_accuracy`` where a
  second model extracted the answers.

Prompts hold the template of the model, so they are kept as ``prompt`` and do not tell items apart. Perplexities are
those of whole prompts, not of answers: there are no margins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from breadth.errors import InputError
from breadth.sources.columns import Column, Columns
from breadth.sources.logs.log import Log, Metric, Options, SkipFile
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import (
    Object,
    SourceFile,
    beside,
    mapping,
    mean_of,
    number,
    numbered,
    text_item,
    words,
)
from breadth.sources.tools.common import column_of, drop_empty

EXTRACTED_ACCURACY = Metric("model_postprocess_accuracy")

#: Keys of a question that say whether the answer is right, what was expected, and what was given; the preferred first.
CORRECT = "correct|is_correct|cascade_correct"
REFERENCE = "references|answer|answers|gold|reference"
GIVEN = "predictions|pred|prediction"

#: Aggregate numbers that results may hold.
AGGREGATE_SCORE = re.compile(
    r"(accuracy|score|pass@1|exact_match|em|f1|bleu|rouge\w*)( \(\d+ runs average\))?", re.IGNORECASE
)

# Details may begin with a prompt that is longer than the head of a file.
_DETAILS = re.compile(rb'"details"\s*:\s*[\[{]')
_STAMP = re.compile(r"\d{8}_\d{6}")


def share_correct(value: Any) -> float | None:
    """Whether an answer is right; the mean over several answers to one question."""
    return mean_of(map(number, value if isinstance(value, list) else [value]))


def one_text(value: Any) -> str | None:
    """A text; lists of equal values, one per repetition, are one value."""
    if isinstance(value, list):
        return " | ".join(dict.fromkeys(map(str, value))) or None
    return None if value is None or isinstance(value, dict) else str(value)


def last_turn(value: Any) -> str | None:
    """What the model was asked: a text, or the last human turn of a conversation; of repetitions the first."""
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    if not isinstance(value, list):
        return words(value)
    for turn in map(mapping, reversed(value)):
        if turn.get("role") in ("HUMAN", "user", None):
            return words(turn.get("prompt", turn.get("content")))
    return None


DETAIL_OF_QUESTION = Columns(
    Column("name", "example_abbr", words),
    Column("accuracy", CORRECT, share_correct),
    Column("attempts", CORRECT, lambda value: len(value) if isinstance(value, list) else None, default=1),
    Column("extracted_accuracy", "model_extract_correct", share_correct),
    Column("reference", REFERENCE, one_text),
    Column("given", GIVEN, one_text),
    Column("prompt", "prompt|origin_prompt", last_turn),
)


class OpenCompass(Source):
    """Reads results of OpenCompass."""

    name: ClassVar[str] = "opencompass"
    looks_like: ClassVar[str] = "OpenCompass results/MODEL/DATASET.json"
    experimental: ClassVar[bool] = True

    def detect(self, file: SourceFile) -> Detection | None:
        """Results with details hold answers, results without hold scores; predictions are read along with results."""
        if file.is_list or not file.keys:
            return None
        if all(key.isdecimal() for key in file.keys) and "0" in file.keys:
            if b'"prediction"' not in file.head and b'"origin_prompt"' not in file.head:
                return None
            has_results = _results_of_predictions(file.path).is_file()
            return Detection(Part.COMPANION if has_results else Part.ANSWERS, "it has predictions by number")
        is_result = file.path.parent.parent.name == "results" and any(map(AGGREGATE_SCORE.fullmatch, file.keys))
        if "details" in file.keys and _DETAILS.search(file.head):
            own = f"{CORRECT}|{GIVEN}".split("|")
            if is_result or any(f'"{key}"'.encode() in file.head for key in own):
                return Detection(Part.ANSWERS, "it has details of every question")
        if is_result:
            return Detection(Part.SCORES, "it lies in results/MODEL and has a score")
        return None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the results of one model on one data set."""
        content = mapping(file.json())
        if "details" not in content:
            raise SkipFile("predictions without correctness; run OpenCompass with --dump-eval-details")
        rows = _rows_of_details(content["details"], f"{file.path}, details")
        values: dict[Metric, list[float | None]] = {}
        for metric, name in ((Metric("accuracy"), "accuracy"), (EXTRACTED_ACCURACY, "extracted_accuracy")):
            shares = column_of(rows, name)
            if shares.count(None) < len(shares):
                values[metric] = shares
        if not values:
            raise SkipFile("its details do not say which answers are right; the evaluator of this data set gives none")
        attempts = max(column_of(rows, "attempts"))
        stamps = [part for part in file.path.parts if _STAMP.fullmatch(part)]
        yield Log(
            path=str(file.path),
            tool=self.name,
            testset=file.path.stem,
            model=file.path.parent.name,
            items=numbered(column_of(rows, "item")),
            values=values,
            prefer=["accuracy"],
            answers=column_of(rows, "given"),
            texts=_prompts_and_references(file.path, rows) if options.texts else {},
            stamp=stamps[-1] if stamps else "",
            stated=_reported_shares(content, values),
            notes=[f"mean over {attempts} answers to every question"] if attempts > 1 else [],
        )


def _results_of_predictions(path: Path) -> Path:
    """Where the results of some predictions are; large data sets have predictions in parts, ``_0``, ``_1``, ..."""
    folder = path.parent.parent.parent / "results" / path.parent.name
    whole = folder / path.name
    return whole if whole.is_file() else folder / f"{re.sub(r'_[0-9]+$', '', path.stem)}.json"


def _rows_of_details(details: Any, where: str) -> list[dict[str, Any]]:
    """The details of every question: a list, or an object by position with other keys among them."""
    by_position: list[tuple[int, Any]] = []
    if isinstance(details, list):
        by_position = list(enumerate(details))
    elif isinstance(details, dict):
        for key, content in details.items():
            if len(key) < 10 and key.isascii() and key.isdecimal():
                by_position.append((int(key), content))
    else:
        raise InputError(f"{where}: expected an object or a list; the file is damaged")
    if not by_position:
        raise SkipFile("its details are empty")
    rows: list[dict[str, Any]] = []
    for position, content in sorted(by_position, key=itemgetter(0)):
        row = DETAIL_OF_QUESTION.read(mapping(content), f"{where}, {position}")
        row["item"] = row["name"] or str(position)
        if row["reference"] is not None:
            row["item"] += f"~{text_item(row['reference'])[:6]}"
        rows.append(row)
    return rows


def _prompts_and_references(path: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Prompts, from the details or the predictions, and expected answers."""
    prompts = column_of(rows, "prompt")
    if not any(prompts):
        predictions = mapping(beside(path.parent.parent.parent / "predictions" / path.parent.name / path.name))
        prompts = [last_turn(mapping(predictions.get(str(k))).get("origin_prompt")) for k in range(len(rows))]
    return drop_empty({"prompt": prompts, "target": column_of(rows, "reference")})


def _reported_shares(content: Object, metrics: dict[Metric, Any]) -> dict[Metric, float]:
    """The accuracies that the results state, which are in percent, as shares with as many digits."""
    shares: dict[Metric, float] = {}
    for name, value in content.items():
        metric, percent = Metric(name.partition(" (")[0]), number(value)
        if metric in metrics and percent is not None and 0 <= percent <= 100:
            digits = len(repr(percent).partition(".")[2]) if "e" not in repr(percent) else 14
            shares.setdefault(metric, round(percent / 100, digits + 2))
    return shares

"""Logs with one judgment per answer: preferences of AlpacaEval, and the event logs of OpenAI Evals.

AlpacaEval, ``annotations.json``: a row per instruction with two outputs and the annotator's preference, from 1 (the
baseline is better) to 2 (the model is better); 1.5 and, in version 1, 0 are draws; null is a failed judgment. The
answer counts as the share of a win, so that the mean is AlpacaEval's win rate. A ``leaderboard.csv`` beside it states
win rates. Item: the instruction's text. A win rate depends on annotator and baseline, so both are in the test set's
name.

OpenAI Evals, JSON lines: a specification, then events of samples, then the final report. Correctness comes from
``match`` events, else from the numbers of ``metrics`` events. Item: the sample's id, its position in the data. The
``metrics`` events are written from the tool's source code, not tried on a real log.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, ClassVar

from breadth.errors import InputError
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part
from breadth.importers.reading import (
    LogFile,
    Object,
    entries,
    mapping,
    mean_of,
    number,
    numbered,
    parse,
    plain,
    short_answer,
    text_item,
    words,
)

WIN_RATE = Metric("win_rate")

#: How OpenAI Evals calls the share of ``match`` events that are correct.
ACCURACY = "accuracy"


class AlpacaEval(Importer):
    """Reads annotations of AlpacaEval."""

    name: ClassVar[str] = "alpaca-eval"

    def part(self, file: LogFile) -> Part | None:
        """A list of judgments; lists of outputs only are named as such."""
        if not file.is_list or "instruction" not in file.keys:
            return None
        judged = {"generator_1", "generator_2", "preference"} <= file.keys
        return Part.ANSWERS if judged or {"output", "generator"} <= file.keys else None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read a log per model, baseline and annotator."""
        if "preference" not in file.keys:
            raise LeftOut("outputs of a model without judgments; import the annotations.json of AlpacaEval")
        groups: dict[tuple[str, str, str], list[Object]] = {}
        for line, content in file.rows():
            row = mapping(parse(content, str(file.path), line))
            baseline, model = words(row.get("generator_1")), words(row.get("generator_2"))
            if baseline is None or model is None or not isinstance(row.get("instruction"), str):
                raise InputError(
                    f"{file.path}, line {line}: has no instruction, generator_1 or generator_2; the file is damaged"
                )
            annotator = words(row.get("annotator")) or "unknown"
            groups.setdefault((model, baseline, annotator), []).append(row)
        if not groups:
            raise LeftOut("no judgments")
        stated = _win_rates(file.path.with_name("leaderboard.csv"))
        for (model, baseline, annotator), rows in groups.items():
            wins = [_win(row.get("preference"), f"{file.path}, {row['instruction'][:60]!r}") for row in rows]
            failed = sum(win is None for win in wins)
            yield Log(
                path=str(file.path),
                tool=self.name,
                testset=f"alpaca_eval:annotator={annotator},baseline={baseline}",
                model=model,
                items=numbered(text_item(row["instruction"], *filter(None, [words(row.get("input"))])) for row in rows),
                values={WIN_RATE: wins},
                texts=_instructions(rows) if options.texts else {},
                stated={WIN_RATE: stated[model]} if model in stated and len(groups) == 1 else {},
                notes=[f"{failed:,} of {len(wins):,} judgments failed: missing"] if failed else [],
            )


def _win(preference: Any, where: str) -> float | None:
    """The share of a win; draws are 0 or 1.5."""
    value = number(preference)
    if value is None:
        return None
    if value != 0 and not 1 <= value <= 2:
        raise InputError(f"{where}: preference is {value:g}; expected 1 to 2, or 0 for a draw")
    return value - 1 if value else 0.5


def _instructions(rows: Sequence[Object]) -> dict[str, list[str | None]]:
    columns: dict[str, list[str | None]] = {
        "text": ["\n\n".join(filter(None, [row["instruction"], words(row.get("input"))])) for row in rows],
        "subset": [words(row.get("dataset")) for row in rows],
    }
    return {name: column for name, column in columns.items() if any(column)}


def _win_rates(path: Path) -> dict[str, float]:
    """Win rates by model as a leaderboard states them, in percent; as many digits as it has."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        column = head.index("win_rate")
        rates = {row[0]: number(float(Decimal(row[column]) / 100)) for row in rows if len(row) > column}
    except (OSError, ValueError, csv.Error, InvalidOperation, OverflowError):
        return {}  # it is not needed, and other tools write files of this name
    return {model: rate for model, rate in rates.items() if rate is not None}


@dataclass
class _Sample:
    """What the events of one sample say; it may be asked several times."""

    scores: dict[str, list[float]] = field(default_factory=dict)
    picked: set[str | None] = field(default_factory=set)
    text: str | None = None
    target: str | None = None


class OpenAIEvals(Importer):
    """Reads event logs of OpenAI Evals."""

    name: ClassVar[str] = "openai-evals"

    def part(self, file: LogFile) -> Part | None:
        """JSON lines that begin with a specification."""
        own = not file.is_list and "spec" in file.keys and b'"eval_name"' in file.head
        return Part.ANSWERS if own else None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read the events of one run."""
        spec: Object = {}
        report: Object | None = None
        samples: dict[str, _Sample] = {}
        errors = 0
        for line, content in file.rows():
            event = mapping(parse(content, str(file.path), line))
            if "spec" in event and not spec:
                spec = mapping(event["spec"])
            elif "final_report" in event:
                report = mapping(event["final_report"])
            elif isinstance(event.get("sample_id"), str):
                errors += event.get("type") == "error"
                _take(samples.setdefault(event["sample_id"], _Sample()), event)
        model, task = _model(spec), words(spec.get("eval_name"))
        if model is None or task is None:
            raise InputError(f"{file.path}, line 1: spec has no eval_name or no completion_fns; the file is damaged")
        names = list(dict.fromkeys(name for sample in samples.values() for name in sample.scores))
        if not names:
            raise LeftOut("no sample has a match or a number among its metrics")
        columns = {name: [sample.scores.get(name, []) for sample in samples.values()] for name in names}
        repeats = max(len(scores) for column in columns.values() for scores in column)
        config = mapping(spec.get("run_config"))
        notes = [] if report is not None else ["the run did not finish: it has no final report"]
        notes += [f"{errors:,} samples ended in an error: missing"] if errors else []
        means = {Metric(name): number((report or {}).get(name)) for name in names}
        stated = {metric: mean for metric, mean in means.items() if mean is not None}
        for epoch in range(repeats) if options.epochs == "each" and repeats > 1 else [None]:
            yield Log(
                path=str(file.path),
                tool=self.name,
                testset=task,
                model=model,
                items=list(samples),
                values={
                    Metric(name): [mean_of(scores if epoch is None else scores[epoch : epoch + 1]) for scores in column]
                    for name, column in columns.items()
                },
                prefer=[ACCURACY, "score"],
                answers=[next(iter(sample.picked)) if len(sample.picked) == 1 else None for sample in samples.values()]
                if epoch is None
                else None,
                texts=_questions(list(samples.values())) if options.texts else {},
                subject={} if epoch is None else {"epoch": epoch + 1},
                settings={"seed": plain(config.get("seed")), "grader": _model(spec, 1)},
                stamp=words(spec.get("created_at")) or "",
                stated=stated if epoch is None else {},
                notes=notes,
            )


def _take(sample: _Sample, event: Object) -> None:
    """Add what an event says about its sample."""
    data = mapping(event.get("data"))
    if event.get("type") == "match":
        correct, picked = number(data.get("correct")), data.get("picked", data.get("sampled"))
        if correct is not None:
            sample.scores.setdefault(ACCURACY, []).append(correct)
        sample.picked.add(short_answer(picked))
        expected = data.get("expected")
        expected = [one for one in entries(expected) or [expected] if isinstance(one, str)]
        sample.target = " | ".join(expected) or sample.target
    elif event.get("type") == "metrics":
        for name, value in data.items():
            score = number(value)
            if score is not None:
                sample.scores.setdefault(name, []).append(score)
    elif event.get("type") == "sampling" and sample.text is None:
        sample.text = _prompt(data.get("prompt"))


def _prompt(prompt: Any) -> str | None:
    """The question: a prompt's last message, because earlier ones are instructions and examples."""
    if isinstance(prompt, str):
        return prompt
    contents = [words(mapping(message).get("content")) for message in entries(prompt)]
    return next((content for content in reversed(contents) if content), None)


def _questions(samples: Sequence[_Sample]) -> dict[str, list[str | None]]:
    columns = {"text": [sample.text for sample in samples], "target": [sample.target for sample in samples]}
    return {name: column for name, column in columns.items() if any(column)}


def _model(spec: Object, place: int = 0) -> str | None:
    """The model that is evaluated, or the one that grades it; the first versions had other keys."""
    functions = entries(spec.get("completion_fns")) or entries(mapping(spec.get("model_names")).get("completions"))
    if place == 0 and not functions:
        return words(spec.get("model_name"))
    return words(functions[place]) if place < len(functions) else None

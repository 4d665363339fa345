"""Samples of every_eval_ever: lines of one model and test set put together, with their scores, texts and answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from breadth.errors import InputError
from breadth.importers.logs import Metric, Options
from breadth.importers.reading import entries, mapping, number, numbered, option_letters, parse, plain, text_item, words

_HASH = re.compile(r"[0-9a-f]{16,64}")


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
    settings: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    lower: set[str] = field(default_factory=set)


def add_line(
    group: Samples,
    row: Mapping[str, Any],
    metadata: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    own: bool,
    options: Options,
) -> None:
    """Add a line to the samples of its test set."""
    asked = mapping(row.get("input"))
    raw, choices = words(asked.get("raw")) or "", [str(one) for one in entries(asked.get("choices"))]
    references = [str(one) for one in entries(asked.get("reference"))]
    hashed = words(metadata.get("doc_hash"))
    known = bool(hashed and _HASH.fullmatch(hashed))
    key = row["sample_id"], text_item(raw, *choices, *references)
    sample = group.samples.get(key)
    if sample is None:
        # The raw input of a converted log holds its examples: as text it would tell equal items apart.
        shown = _shown(raw, choices, references, metadata, own) if options.texts else {}
        if known and "text" in shown:
            shown["prompt"] = shown.pop("text")
        sample = group.samples[key] = Sample(hashed[:16] if hashed and known else row["sample_id"], shown)
    epoch = whole(metadata.get("epoch")) or 1
    if words(row.get("error")):
        return
    sample.answers.setdefault(epoch, _answer(row))
    result = _result(row, results)
    for metric, value in _scores(group, row, metadata, result, options).items():
        sample.scores.setdefault(metric, {}).setdefault(epoch, []).append(value)
        if own and (margin := real(metadata.get("margin"))) is not None:
            sample.margins[metric] = margin
    group.settings |= _settings(result, metadata)


def _scores(
    group: Samples, row: Mapping[str, Any], metadata: Mapping[str, Any], result: Mapping[str, Any], options: Options
) -> dict[Metric, float]:
    """The scores of a line by metric."""
    evaluation, config = mapping(row.get("evaluation")), mapping(result.get("metric_config"))
    scores: dict[Metric, float | None] = {}
    written = words(metadata.get("lm_eval_metrics"))
    variant = words(metadata.get("filter")) or ""
    if written is not None:
        values = mapping(_json(written))
        scores |= {Metric(name, "" if variant == "none" else variant): number(one) for name, one in values.items()}
    elif config.get("lower_is_better") is True:
        group.lower.add(_metric(row, config).name)
    else:
        score = number(evaluation.get("score"))
        unknown = config.get("has_unknown_level") is True and score == -1
        metric = _metric(row, config)
        identity = words(row.get("evaluation_result_id")) or ""
        if group.metrics.setdefault(metric, identity) != identity:
            metric = Metric(metric.name, identity)
        scores[metric] = None if unknown else score
        if (stated := _stated(result, config)) is not None:
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


def _result(row: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The aggregate result that a line belongs to; empty if it cannot be told."""
    identity, name = row.get("evaluation_result_id"), row["evaluation_name"]
    if identity is not None:
        return next((result for result in results if result.get("evaluation_result_id") == identity), {})
    same = [result for result in results if result.get("evaluation_name") == name]
    return same[0] if len(same) == 1 else {}


def _metric(row: Mapping[str, Any], config: Mapping[str, Any]) -> Metric:
    """The metric of a line: as the aggregate calls it, else as its result is called (``exact_match:test``)."""
    for key in ("metric_name", "metric_id", "metric_kind"):
        if name := words(config.get(key)):
            return Metric(name)
    name, _, variant = (words(row.get("evaluation_result_id")) or "score").partition(":")
    return Metric(name, variant)


def _stated(result: Mapping[str, Any], config: Mapping[str, Any]) -> float | None:
    """The score of an aggregate result, if it is on the scale of its samples."""
    if config.get("metric_unit") in ("percent", "points") or number(config.get("max_score")) not in (None, 1.0):
        return None
    return number(mapping(result.get("score_details")).get("score"))


def _settings(result: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, str | int | float | bool | None]:
    """Generation options and shots of a result."""
    config = mapping(result.get("generation_config"))
    values = {**mapping(config.get("generation_args")), **mapping(config.get("additional_details"))}
    values.pop("execution_command", None)
    shots = whole(values.get("num_fewshot", metadata.get("num_fewshot")))
    settings = {key: plain(value) for key, value in values.items() if plain(value) is not None}
    return settings if shots is None else {**settings, "num_fewshot": shots}


def _shown(
    raw: str, choices: list[str], references: list[str], metadata: Mapping[str, Any], own: bool
) -> dict[str, Any]:
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
        elif "lm_eval_metrics" in metadata and (place := whole(first)) is not None and place < len(labels):
            label = labels[place]
    target = None if label is not None else " | ".join(references)
    return {"text": raw, "options": choices, "option_labels": labels, "label": label, "target": target}


def _answer(row: Mapping[str, Any]) -> str | None:
    """What was taken as the answer, where the record says so."""
    attributed = [mapping(entry) for entry in entries(row.get("answer_attribution"))]
    final = [entry for entry in attributed if entry.get("is_terminal") is not False]
    return words(final[-1].get("extracted_value")) if final else None


def identify(group: Samples) -> list[str]:
    """A name per sample; an id that stands for several inputs gets a hash of the input."""
    inputs: dict[str, set[str]] = {}
    for identity, hashed in group.samples:
        inputs.setdefault(identity, set()).add(hashed)
    return numbered(
        f"{sample.name}~{hashed[:6]}" if sample.name == identity and len(inputs[identity]) > 1 else sample.name
        for (identity, hashed), sample in group.samples.items()
    )


def mean_over(epochs: Mapping[int, Sequence[float]], epoch: int | None) -> float | None:
    """The mean over all epochs, or over one."""
    scores = [one for k, some in epochs.items() if epoch in (None, k) for one in some]
    return fmean(scores) if scores else None


def agreed(answers: Mapping[int, str | None], epoch: int | None) -> str | None:
    """The answer of all epochs, or of one; None where they differ."""
    distinct = {answer for k, answer in answers.items() if epoch in (None, k)}
    return distinct.pop() if len(distinct) == 1 else None


def whole(value: Any) -> int | None:
    """A count that is written as a number or as text."""
    text = str(value) if type(value) in (int, str) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None


def real(value: Any) -> float | None:
    """A finite number that may be written as text."""
    try:
        return number(float(value)) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None

"""OLMES and olmo-eval (2026): predictions with a line per document.

Written from its source code, not tried on a real log.

OLMES writes ``task-000-<task>-predictions.jsonl`` with ``-metrics.json`` and ``-requests.jsonl`` beside it; olmo-eval
writes ``predictions/<model>/<task>_<hash>-predictions.jsonl``, ``requests/...`` and one ``metrics.json`` above both.

- **Item**: the document's ``native_id``.
- **Test set**: the task; its cloze and letter variants (``arc_easy:rc``, ``arc_easy:mc``) are two test sets.
- **Metric**: OLMES has one number per metric, olmo-eval one per metric and scorer. Preferred is the task's primary
  metric, then ``exact_match``, ``acc_per_char``, ``acc_raw``, ``pass_at_1``. Log-likelihoods, bits per byte, token
  counts and predicted positions are not metrics of answers and are left out.
- **Margin**: from the summed log-probabilities of the options, normalised as the metric is (by characters, tokens,
  bytes, or the unconditional log-probability); null unless its best option is right exactly where the log says so.
- **Subject**: model, revision and path; the number of examples and the regime (``::olmes``) are settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    log_odds,
    mapping,
    number,
    numbered,
    option_letters,
    parse,
    plain,
    words,
)
from breadth.sources.training_steps import step_in

PREDICTIONS, REQUESTS, METRICS = "-predictions.jsonl", "-requests.jsonl", "-metrics.json"

#: What a line of predictions, a line of requests, and files of metrics hold.
LINE = frozenset({"doc_id", "native_id", "model_output"})
REQUEST = frozenset({"request_type", "doc_id", "native_id", "request"})
SUMMARIES = (
    frozenset({"task_name", "task_config", "model_config"}),
    frozenset({"all_primary_scores", "tasks"}),
    frozenset({"timestamp", "config", "tasks", "summary"}),
)

PREFERRED = ("exact_match", "acc_per_char", "acc_raw", "accuracy", "pass_at_1", "mc1", "f1")

#: Numbers of a document that do not score its answer.
BOOKKEEPING = re.compile(
    r"predicted_index.*|correct_choice|no_answer|.*_corr|.*bits_per_byte.*|.*bpb.*|.*perplexity.*|ppl.*|.*logits.*"
    r"|.*logprob|num_.*|.*_tokens.*|.*tokens_.*|price|.*price|max_tokens_reached|answer_format.*|voted_ans.*"
)

#: Log-probability that vLLM's shortcut for letters writes for an option that it did not see.
UNSEEN = -999

#: Fields of a document that hold its question, in order of preference.
QUESTIONS = ("question", "query", "problem", "goal", "prompt", "text", "premise", "sentence", "input")

#: What of a model's configuration makes its answers differ.
MODEL_DETAILS = ("revision", "model_path", "chat_template", "process_output", "add_bos_token", "peft", "dtype")

_TASK = re.compile(r"task-\d+-(.+)")
_HASHED = re.compile(r"(.+)_[0-9a-f]{6}")


@dataclass
class Run:
    """What is known about the run that made some predictions."""

    model: str
    testset: str
    primary: Metric | None = None
    subject: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    step: int | None = None
    stamp: str = ""
    stated: dict[Metric, float] = field(default_factory=dict)
    count: int | None = None
    notes: list[str] = field(default_factory=list)


class Olmes(Source):
    """Reads predictions of OLMES and olmo-eval."""

    name: ClassVar[str] = "olmes"

    def part(self, file: SourceFile) -> Part | None:
        """Predictions hold answers; requests and metrics are read along with them."""
        if file.is_list:
            return None
        if file.keys >= REQUEST or file.keys >= {"doc_id", "native_id", "requests"}:
            return Part.COMPANION
        if file.keys >= LINE:
            return Part.ANSWERS
        if any(file.keys >= keys for keys in SUMMARIES):
            folder = file.path.parent
            beside_it = any(folder.glob(f"*{PREDICTIONS}")) or (folder / "predictions").is_dir()
            return Part.COMPANION if beside_it else Part.SCORES
        return None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the predictions of one task."""
        rows: list[Object] = []
        for line, content in file.rows():
            row = parse(content, str(file.path), line)
            if not isinstance(row, dict) or not row.keys() & {"metrics", "instance_metrics"}:
                raise InputError(f"{file.path}, line {line}: has no metrics; the file is damaged")
            rows.append(_slim(row))
        run = _new_run(file.path) if rows and "instance_metrics" in rows[0] else _old_run(file.path)
        values: dict[Metric, list[float | None]] = {}
        for k, row in enumerate(rows):
            for metric, value in row["scores"].items():
                values.setdefault(metric, [None] * len(rows))[k] = value
        if not values:
            raise SkipFile("no document has a score between right and wrong, only log-likelihoods and counts")
        if run.count is not None and len(rows) < run.count:
            run.notes.append(f"partial: {len(rows):,} of {run.count:,} documents")
        first = [run.primary.name] if run.primary else []
        values = dict(sorted(values.items(), key=lambda entry: entry[0] != run.primary))
        yield Log(
            path=str(file.path),
            tool=self.name,
            testset=run.testset,
            model=run.model,
            items=numbered(row["item"] for row in rows),
            values=values,
            prefer=[*first, *PREFERRED],
            margins=_margins(rows, values),
            answers=[row["answer"] for row in rows],
            texts=_texts(file.path, rows) if options.texts else {},
            subject=run.subject,
            settings=run.settings,
            step=run.step,
            stamp=run.stamp,
            stated={metric: value for metric, value in run.stated.items() if metric in values},
            notes=[f"{file.path}: {note}" for note in run.notes],
        )


def _slim(row: Object) -> dict[str, Any]:
    """What is kept of a line: generated texts can be long."""
    outputs = [mapping(output) for output in entries(row.get("model_output"))]
    nested, scores = mapping(row.get("instance_metrics")), dict[Metric, float | None]()
    for name, value in {**mapping(row.get("metrics")), **nested}.items():
        for scorer, single in value.items() if isinstance(value, dict) else [(name, value)]:
            if not BOOKKEEPING.fullmatch(name) and (scored := number(single)) is not None:
                scores[Metric(name, "" if scorer == name else scorer)] = scored
    gold = mapping(row.get("metrics")).get("correct_choice", row.get("label"))
    native, label = row.get("native_id"), row.get("label")
    answer = outputs[0] if len(outputs) == 1 else {}
    return {
        "item": str(row.get("doc_id") if native in (None, "") else native),
        "doc_id": str(row.get("doc_id")),
        "scores": scores,
        "gold": gold if type(gold) is int else None,
        "label": label if isinstance(label, str) else " | ".join(map(str, entries(label))) or None,
        "answer": next(
            (text for key in ("model_answer", "extracted_answer") if (text := words(answer.get(key)))), None
        ),
        "outputs": [{key: number(value) for key, value in output.items() if key in USED} for output in outputs],
        **({"instance_metrics": True} if "instance_metrics" in row else {}),
    }


def _old_run(path: Path) -> Run:
    """The run of OLMES predictions, by ``-metrics.json`` beside them."""
    stem = path.name.removesuffix(PREDICTIONS)
    named = match[1] if (match := _TASK.fullmatch(stem)) else stem
    found = mapping(beside(path.with_name(stem + METRICS)))
    task, config = mapping(found.get("task_config")), mapping(found.get("model_config"))
    model = words(config.get("model")) or words(config.get("model_path"))
    run = Run(model or path.parent.name, words(found.get("task_name")) or named)
    if not found:
        run.notes.append(f"{stem}{METRICS} is missing beside it; the model is taken from the directory's name")
    run.subject = {key: plain(config.get(key)) for key in MODEL_DETAILS if config.get(key) != model}
    path_of_model = words(config.get("model_path")) or ""
    run.step = step_in(path_of_model, path_of_model).step
    if primary := words(task.get("primary_metric")):
        run.primary = Metric(primary)
    regime = (words(mapping(task.get("metadata")).get("alias")) or "").partition("::")[2]
    run.settings = _task_settings(task) | ({"regime": regime} if regime else {})
    run.stamp = words(found.get("current_date")) or ""
    run.count = found["num_instances"] if type(found.get("num_instances")) is int and found["num_instances"] else None
    means = mapping(found.get("metrics"))
    for name, value in {**mapping(means.get("extra_metrics")), **means}.items():
        if (mean := number(value)) is not None:
            run.stated[Metric(name)] = mean
    return run


def _new_run(path: Path) -> Run:
    """The run of olmo-eval predictions, by the ``metrics.json`` above them."""
    stem, folder = path.name.removesuffix(PREDICTIONS), path.parent.name
    found = mapping(beside(path.parent.parent.parent / "metrics.json"))
    run = Run(folder, match[1] if (match := _HASHED.fullmatch(stem)) else stem)
    config = mapping(found.get("config"))
    several = mapping(config.get("models"))
    own = {name: mapping(one) for name, one in several.items() if _file_name(name) == folder}
    config = next(iter(own.values()), {} if several else config)
    provider = mapping(config.get("provider")) or config
    if model := words(provider.get("model")):
        run.model = model
        path_of_model = words(provider.get("model_path")) or model
        run.step = step_in(path_of_model, path_of_model).step
    elif not found:
        run.notes.append("metrics.json is missing above it; model and task are taken from file names")
    run.subject = {key: plain(provider.get(key)) for key in MODEL_DETAILS if provider.get(key) != "auto"}
    run.subject["scaffold"] = plain(config.get("scaffold"))
    run.stamp = words(found.get("timestamp")) or ""
    for task in map(mapping, entries(found.get("tasks"))):
        name, hashed = words(task.get("task")), words(task.get("task_hash")) or ""
        if name is None or (several and task.get("model") not in own):
            continue
        if stem not in (_file_name(name), f"{_file_name(name)}_{hashed[-6:]}"):
            continue
        run.testset = name.partition("::")[0] or name
        run.settings = _task_settings(mapping(task.get("config")))
        run.count = task["num_instances"] if type(task.get("num_instances")) is int else None
        metric, _, scorer = (words(task.get("primary_metric")) or "").partition(":")
        run.primary = Metric(metric, "" if scorer == metric else scorer) if metric else None
        for metric, scorers in mapping(task.get("metrics")).items():
            for scorer, value in mapping(scorers).items():
                if (mean := number(value)) is not None:
                    run.stated[Metric(metric, "" if scorer == metric else scorer)] = mean
    return run


def _file_name(spec: str) -> str:
    return re.sub(r"[:/\\ ]", "_", spec)


def _task_settings(task: Object) -> dict[str, Any]:
    names = {"num_shots": "num_fewshot", "num_fewshot": "num_fewshot"}
    kept = ("num_shots", "num_fewshot", "fewshot_seed", "fewshot_source", "split", "use_chat_format")
    return {names.get(key, key): plain(task[key]) for key in kept if plain(task.get(key)) is not None}


def _margins(
    rows: Sequence[Object], values: Mapping[Metric, Sequence[float | None]]
) -> dict[Metric, list[float | None]]:
    """Margins of metrics whose right answers a way of scoring the options reproduces on every document."""
    margins: dict[Metric, list[float | None]] = {}
    for metric, column in values.items():
        rules = [RULES[metric.name]] if metric.name in RULES else list(RULES.values()) if metric.variant else []
        for rule in rules:
            margin = _margin(rows, column, rule)
            if margin is not None:
                margins[metric] = margin
                break
    return margins


def _margin(
    rows: Sequence[Object],
    column: Sequence[float | None],
    rule: Callable[[Sequence[Object]], list[float]],
) -> list[float | None] | None:
    margin: list[float | None] = []
    for row, value in zip(rows, column, strict=True):
        try:
            scores = rule(row["outputs"])
        except (TypeError, KeyError, ValueError, ZeroDivisionError, OverflowError):
            return None
        gold = row["gold"]
        if gold is None or len(scores) < 2 or not 0 <= gold < len(scores):
            return None
        if value is not None and (scores.index(max(scores)) == gold) != (value == 1):
            return None
        unseen = any(output.get("sum_logits") == UNSEEN for output in row["outputs"])
        margin.append(None if unseen else log_odds(scores, [gold]))
    return margin


def _unconditional(outputs: Sequence[Object]) -> list[float]:
    """Scores relative to the unconditional log-probability: in the same output, or in the second half of them."""
    if outputs and "sum_logits_uncond" in outputs[0]:
        return [output["sum_logits"] - output["sum_logits_uncond"] for output in outputs]
    half = len(outputs) // 2
    return [one["sum_logits"] - other["sum_logits"] for one, other in zip(outputs[:half], outputs[half:], strict=True)]


#: How options are scored, by OLMES's name of the metric; the best one is the answer.
RULES: dict[str, Callable[[Sequence[Object]], list[float]]] = {
    "acc_raw": lambda outputs: [output["sum_logits"] + 0.0 for output in outputs],
    "acc_per_char": lambda outputs: [output["sum_logits"] / max(output["num_chars"], 1) for output in outputs],
    "acc_per_token": lambda outputs: [output["sum_logits"] / max(output["num_tokens"], 1) for output in outputs],
    "acc_per_byte": lambda outputs: [-output["bits_per_byte"] * 0.6931471805599453 for output in outputs],
    "acc_uncond": _unconditional,
}

#: Fields of an output that the rules use.
USED = frozenset({"sum_logits", "sum_logits_uncond", "num_chars", "num_tokens", "bits_per_byte"})


def _texts(path: Path, rows: Sequence[Object]) -> dict[str, list[Any]]:
    """Questions and options from the requests, if they were saved."""
    name = path.name.removesuffix(PREDICTIONS) + REQUESTS
    places = (path.with_name(name), path.parent.parent.parent / "requests" / path.parent.name / name)
    found = next((place for place in places if place.is_file()), None)
    documents: dict[str, tuple[str | None, list[str]]] = {}
    for line, content in SourceFile.look(found).rows() if found else ():
        request = mapping(parse(content, str(found), line))
        key, doc = str(request.get("doc_id")), mapping(request.get("doc"))
        if key not in documents:
            context = mapping(request.get("request")).get("context")
            asked = next((text for field in QUESTIONS if (text := words(doc.get(field)))), words(context))
            choices = doc.get("choices")
            options = mapping(choices).get("text", choices)
            documents[key] = asked, [str(one) for one in entries(options)]
    columns: dict[str, list[Any]] = {"text": [], "options": [], "option_labels": [], "label": [], "target": []}
    for row in rows:
        asked, options = documents.get(row["doc_id"], (None, []))
        labels = option_letters(len(options))
        gold = row["gold"]
        columns["text"].append(asked)
        columns["options"].append(options or None)
        columns["option_labels"].append(labels or None)
        columns["label"].append(labels[gold] if gold is not None and 0 <= gold < len(labels) else None)
        columns["target"].append(row["label"])
    return {name: column for name, column in columns.items() if any(column)}

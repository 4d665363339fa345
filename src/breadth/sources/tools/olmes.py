"""OLMES and olmo-eval (2026): predictions with a line per document. Written from its source code.

OLMES writes ``task-000-<task>-predictions.jsonl`` with ``-metrics.json`` and ``-requests.jsonl`` beside it; olmo-eval
writes ``predictions/<model>/<task>_<hash>-predictions.jsonl``, ``requests/...`` and one ``metrics.json`` above both.

- **Item**: the document's ``native_id``.
- **Test set**: the task; its cloze and letter variants (``arc_easy:rc``, ``arc_easy:mc``) are two test sets.
- **Metric**: OLMES has one number per metric, olmo-eval one per metric and scorer. Preferred is the task's primary
  metric, then :data:`PREFERRED_AFTER_PRIMARY`. Log-likelihoods, bits per byte, token counts and predicted positions
  are not metrics of answers and are left out.
- **Margin**: from the summed log-probabilities of the options, normalised as the metric is (by characters, tokens,
  bytes, or the unconditional log-probability); null unless its best option is right exactly where the log says so.
- **Subject**: model, revision and path; the number of examples and the regime (``::olmes``) are settings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from breadth.sources.columns import Column, Columns, json_list, json_object, whole_number
from breadth.sources.logs.log import Log, Metric, Options, SkipFile
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import (
    SourceFile,
    beside,
    entries,
    log_odds,
    mapping,
    number,
    numbered,
    option_letters,
    plain,
    words,
)
from breadth.sources.tools.common import beside_answers, column_of, texts_of_items
from breadth.sources.training_steps import step_in

PREDICTIONS, REQUESTS, METRICS_FILE = "-predictions.jsonl", "-requests.jsonl", "-metrics.json"

#: Keys of a line of predictions, of lines of requests, and of files of metrics.
PREDICTION_KEYS = frozenset({"doc_id", "native_id", "model_output"})
REQUEST_KEYS = (frozenset({"request_type", "doc_id", "native_id", "request"}), frozenset({"doc_id", "requests"}))
METRICS_KEYS = (
    frozenset({"task_name", "task_config", "model_config"}),
    frozenset({"all_primary_scores", "tasks"}),
    frozenset({"timestamp", "config", "tasks", "summary"}),
)

#: Metrics after the primary one, the preferred first.
PREFERRED_AFTER_PRIMARY = ("exact_match", "acc_per_char", "acc_raw", "accuracy", "pass_at_1", "mc1", "f1")

#: Numbers of a document that do not score its answer.
BOOKKEEPING = re.compile(
    r"predicted_index.*|correct_choice|no_answer|.*_corr|.*bits_per_byte.*|.*bpb.*|.*perplexity.*|ppl.*|.*logits.*"
    r"|.*logprob|num_.*|.*_tokens.*|.*tokens_.*|price|.*price|max_tokens_reached|answer_format.*|voted_ans.*"
)

#: Log-probability that vLLM's shortcut for letters writes for an option that it did not see.
UNSEEN = -999

#: What of a model's configuration makes its answers differ, and settings of a task.
OLMES_MODEL_DETAILS = ("revision", "model_path", "chat_template", "process_output", "add_bos_token", "peft", "dtype")
TASK_SETTINGS = ("num_shots", "num_fewshot", "fewshot_seed", "fewshot_source", "split", "use_chat_format")

#: How an option is scored, given what the log has about it.
OptionRule = Callable[[Mapping[str, float]], float]

#: Rules by OLMES's name of the metric; the best option is the answer.
OPTION_RULES: dict[str, OptionRule] = {
    "acc_raw": lambda output: +output["sum_logits"],
    "acc_per_char": lambda output: output["sum_logits"] / max(output["num_chars"], 1),
    "acc_per_token": lambda output: output["sum_logits"] / max(output["num_tokens"], 1),
    "acc_per_byte": lambda output: -output["bits_per_byte"] * math.log(2),
    "acc_uncond": lambda output: output["sum_logits"] - output["sum_logits_uncond"],
}

OUTPUT = Columns(
    Column("sum_logits", type=number),
    Column("sum_logits_uncond", type=number),
    Column("num_chars", type=number),
    Column("num_tokens", type=number),
    Column("bits_per_byte", type=number),
    Column("answer", "model_answer|extracted_answer", words),
)

PREDICTION = Columns(
    Column("item", "native_id|doc_id", lambda value: None if value in (None, "") else str(value), default="None"),
    Column("doc_id", type=str),
    Column("metrics", "instance_metrics|metrics", json_object, required=True),
    Column("is_new", "instance_metrics", json_object),
    Column("gold", "metrics.correct_choice|label", whole_number),
    Column("label"),
    Column("outputs", "model_output", entries),
)

#: The question is the first of some fields that a task has, else the prompt, which holds examples as well.
REQUEST = Columns(
    Column("doc_id", type=str),
    Column(
        "question",
        "doc.question|doc.query|doc.problem|doc.goal|doc.prompt|doc.text|doc.premise|doc.sentence|doc.input"
        "|request.context",
        words,
    ),
    Column("choices", "doc.choices.text|doc.choices", json_list, default=[]),
)

METRICS_OF_RUN = Columns(
    Column("testset", "task_name", words),
    Column("model", "model_config.model|model_config.model_path", words),
    Column("model_path", "model_config.model_path|model_config.model", words, default=""),
    Column("model_config", type=mapping),
    Column("primary", "task_config.primary_metric", words),
    Column("task_config", type=mapping),
    Column("alias", "task_config.metadata.alias", words, default=""),
    Column("time", "current_date", words, default=""),
    Column("count", "num_instances", whole_number),
    Column("means", "metrics", mapping),
    Column("extra_means", "metrics.extra_metrics", mapping),
)


class Olmes(Source):
    """Reads predictions of OLMES and olmo-eval."""

    name: ClassVar[str] = "olmes"
    looks_like: ClassVar[str] = f"OLMES *{PREDICTIONS}"
    experimental: ClassVar[bool] = True

    def detect(self, file: SourceFile) -> Detection | None:
        """Predictions hold answers; requests and metrics are read along with them."""
        if file.is_list:
            return None
        if any(keys <= file.keys for keys in REQUEST_KEYS) and "native_id" in file.keys:
            return Detection(Part.COMPANION, "rows are requests with doc_id and native_id")
        if file.keys >= PREDICTION_KEYS:
            return Detection(Part.ANSWERS, "rows have doc_id, native_id and model_output")
        for keys in METRICS_KEYS:
            if keys <= file.keys:
                folder = file.path.parent
                has_answers = any(folder.glob(f"*{PREDICTIONS}")) or (folder / "predictions").is_dir()
                return beside_answers(has_answers, f"it has {', '.join(sorted(keys))}")
        return None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the predictions of one task."""
        rows: list[dict[str, Any]] = []
        for where, row in PREDICTION.read_rows(file):
            row["outputs"] = [OUTPUT.read(mapping(output), where) for output in row["outputs"]]
            rows.append(row)
        values: dict[Metric, list[float | None]] = {}
        for place, row in enumerate(rows):
            for metric, value in _each_score(row["metrics"]):
                values.setdefault(metric, [None] * len(rows))[place] = value
        if not values:
            raise SkipFile("no document has a score between right and wrong, only log-likelihoods and counts")
        run = _read_run(file.path, rows[0]["is_new"] is not None)
        primary = run["primary"]
        margins: dict[Metric, list[float | None]] = {}
        for metric, column in values.items():
            rules = [OPTION_RULES[metric.name]] if metric.name in OPTION_RULES else []
            if metric.variant:  # olmo-eval does not say how it scored the options
                rules = list(OPTION_RULES.values())
            for rule in rules:
                margin = _margins_by_rule(rows, column, rule)
                if margin is not None:
                    margins[metric] = margin
                    break
        if run["count"] and len(rows) < run["count"]:
            run["notes"].append(f"partial: {len(rows):,} of {run['count']:,} documents")
        yield Log(
            path=str(file.path),
            tool=self.name,
            testset=run["testset"],
            model=run["model"],
            items=numbered(column_of(rows, "item")),
            values=dict(sorted(values.items(), key=lambda entry: entry[0] != primary)),
            prefer=[primary.name, *PREFERRED_AFTER_PRIMARY] if primary else PREFERRED_AFTER_PRIMARY,
            margins=margins,
            answers=[row["outputs"][0]["answer"] if len(row["outputs"]) == 1 else None for row in rows],
            texts=_texts_of_requests(file.path, rows) if options.texts else {},
            subject=run["subject"],
            settings=run["settings"],
            step=step_in(run["model_path"], run["model_path"]).step,
            stamp=run["time"],
            stated={metric: mean for metric, mean in run["stated"].items() if metric in values},
            notes=run["notes"],
        )


def _each_score(metrics: Mapping[str, Any]) -> Iterator[tuple[Metric, float]]:
    """Numbers that score answers, by metric; olmo-eval has an object with a number per scorer."""
    for name, value in metrics.items():
        for scorer, single in value.items() if isinstance(value, dict) else [(name, value)]:
            score = number(single)
            if score is not None and not BOOKKEEPING.fullmatch(name):
                yield Metric(name, "" if scorer == name else scorer), score


def _read_run(path: Path, is_olmo_eval: bool) -> dict[str, Any]:
    """What is known about the run that made some predictions."""
    stem = path.name.removesuffix(PREDICTIONS)
    beside_it = path.with_name(stem + METRICS_FILE)
    if is_olmo_eval:
        beside_it = path.parent.parent.parent / "metrics.json"
    content = mapping(beside(beside_it))
    run = METRICS_OF_RUN.read(_as_olmes(content, stem, path.parent.name) if is_olmo_eval else content, str(beside_it))
    run["notes"] = [] if content else [f"{beside_it.name} is missing; model and task are taken from the file's path"]
    run["subject"] = {}
    for name in OLMES_MODEL_DETAILS:
        value = plain(run["model_config"].get(name))
        run["subject"][name] = None if value in ("auto", run["model"]) else value
    run["settings"] = {}
    for name in TASK_SETTINGS:
        value = plain(run["task_config"].get(name))
        if value is not None:
            run["settings"]["num_fewshot" if name == "num_shots" else name] = value
    regime = run["alias"].partition("::")[2]
    if regime:
        run["settings"]["regime"] = regime
    if run["primary"] is not None:
        metric, _, scorer = run["primary"].partition(":")
        run["primary"] = Metric(metric, "" if scorer == metric else scorer)
    run["stated"] = {**dict(_each_score(run["extra_means"])), **dict(_each_score(run["means"]))}
    run["model"] = run["model"] or path.parent.name
    run["testset"] = run["testset"] or re.sub(r"^task-\d+-|_[0-9a-f]{6}$", "", stem)
    return run


def _as_olmes(content: Mapping[str, Any], stem: str, folder: str) -> dict[str, Any]:
    """What olmo-eval's file of metrics says of some predictions, as OLMES writes it."""
    config = mapping(content.get("config"))
    models = mapping(config.get("models"))
    own = next((name for name in models if _file_name(name) == folder), None)
    if models:  # several in one run, each with predictions of its own
        config = mapping(models.get(own or ""))
    metrics: dict[str, Any] = {}
    for task in map(mapping, entries(content.get("tasks"))):
        name, hashed = words(task.get("task")) or "", words(task.get("task_hash")) or ""
        is_stem = stem in (_file_name(name), f"{_file_name(name)}_{hashed[-6:]}")
        if is_stem and (not models or task.get("model") == own):
            settings = {**mapping(task.get("config")), "primary_metric": task.get("primary_metric")}
            metrics = {**task, "task_name": name.partition("::")[0], "task_config": settings}
    return {**metrics, "model_config": config.get("provider") or config, "current_date": content.get("timestamp")}


def _file_name(specification: str) -> str:
    """What olmo-eval makes of a model or a task in the name of a file."""
    return re.sub(r"[:/\\ ]", "_", specification)


def _margins_by_rule(
    rows: Sequence[Mapping[str, Any]], column: Sequence[float | None], rule: OptionRule
) -> list[float | None] | None:
    """Margins, if a way of scoring the options reproduces the log's right answers on every document."""
    margins: list[float | None] = []
    for row, value in zip(rows, column, strict=True):
        try:
            scores = [rule(output) for output in row["outputs"]]
        except (TypeError, OverflowError):  # a number is not there, or is far too large
            return None
        gold = row["gold"]
        if gold is None or len(scores) < 2 or not 0 <= gold < len(scores):
            return None
        if value is not None and (scores.index(max(scores)) == gold) != (value == 1):
            return None
        unseen = any(output["sum_logits"] == UNSEEN for output in row["outputs"])
        margins.append(None if unseen else log_odds(scores, [gold]))
    return margins


def _texts_of_requests(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Questions and options from the requests, if they were saved, and what was expected."""
    name = path.name.removesuffix(PREDICTIONS) + REQUESTS
    requests: dict[str, dict[str, Any]] = {}
    for place in (path.with_name(name), path.parent.parent.parent / "requests" / path.parent.name / name):
        if place.is_file():
            for _, request in REQUEST.read_rows(SourceFile.look(place)):
                requests.setdefault(request["doc_id"], request)
            break
    known: list[tuple[Any, ...]] = []
    for row in rows:
        request = requests.get(row["doc_id"], {"question": None, "choices": []})
        options = [str(one) for one in request["choices"]]
        labels = option_letters(len(options))
        gold, target = row["gold"], row["label"]
        label = labels[gold] if gold is not None and 0 <= gold < len(labels) else None
        if not isinstance(target, str):
            target = " | ".join(map(str, entries(target)))
        known.append((request["question"], options, labels, label, target))
    return texts_of_items(known)

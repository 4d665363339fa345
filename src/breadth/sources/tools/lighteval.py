"""lighteval: the Parquet files of details that it writes per task. lighteval is not needed.

Since version 0.10 a row has the columns ``doc``, ``model_response`` and ``metric``. Up to 0.9, and in the details of
the first Open LLM Leaderboard, a row is flat (``example``, ``choices``, ``gold_index``, ``predictions``, ``metrics``),
and where Arrow refused the types every cell is text; these are read by rules written from lighteval's source code.
Types differ between tasks, so every file is read by its own schema.

- **Item**: a hash of the query, with the choices where the model chose among them, and ``#2`` for the second one of the
  same text; ``doc.id`` is only a position.
- **Test set**: the task without its suite and its number of examples; these two are settings.
- **Metric**: an exact match, else ``acc``, else as the log lists them.
- **Margin**: from the log-probabilities of the choices, divided by their length for ``acc_norm``. A rule is accepted
  only if its likeliest choice gives the log's own value on every row.
- **Subject**: the model, its revision, weights and precision, as ``results_*.json`` of the same run states them; that
  file states the means, too. Without it, the model is named by the path.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

import polars as pl

from breadth.boundary import reading
from breadth.sources.columns import Column, Columns, json_object, text
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile
from breadth.sources.registry import Detection, Part, Source, experimental_note
from breadth.sources.source_files import (
    Object,
    SourceFile,
    log_odds,
    mapping,
    number,
    numbered,
    option_letters,
    plain,
    short_answer,
    text_item,
    words,
)
from breadth.sources.tools.common import drop_empty, reported_means

#: Names of metrics, the preferred first.
PREFERRED_METRICS = tuple(
    map(re.compile, (r"(?:exact|extractive)_match.*|em", r".*pass@(?:k:k=)?1(?!\d).*", r"acc", r"mc1", r"acc.*"))
)

#: Metrics that score a choice by the log-probabilities of all choices.
CHOICE_METRIC = re.compile(r"(?:loglikelihood_)?acc(?:_norm)?(?:_\w+)?|mc1")

#: What log-probabilities of choices may be divided by, where a metric is normalised and where it is not.
LENGTHS: tuple[Callable[[str], int], ...] = (len, lambda choice: len(choice.removeprefix(" ")))
NO_LENGTHS: tuple[Callable[[str], int], ...] = (lambda choice: 1,)

NEW_ROW = frozenset({"doc", "metric", "model_response"})
FLAT_ROW = frozenset({"example", "full_prompt", "predictions"})

#: Metrics that are columns of their own where a flat row has no column ``metrics``.
FLAT_METRICS = ("acc", "acc_norm", "em", "exact_match", "mc1", "mc2", "f1")

#: Bytes up to which a file is read at once, and rows that are read at a time of a larger one.
READ_AT_ONCE, ROWS_AT_A_TIME = 1 << 26, 2000

_DETAILS_NAME = re.compile(r"details_(.+)_(\d{4}-\d\d-\d\dT\d\d[-:_]\d\d[-:_]\d\d(?:\.\d+)?)\.parquet")
_RESULTS_NAME = re.compile(r"results_(.+)\.json")


def cell(value: Any) -> Any:
    """A cell that was cast to text as what it was; other cells, and texts that are just that, as they are."""
    if not isinstance(value, str) or value[:1] not in tuple("[{(-+.0123456789TFN"):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


def strings(value: Any) -> list[str] | None:
    """The texts of a list, or of the text of a list; None if there are none."""
    value = cell(value)
    if not isinstance(value, list | tuple):
        return None
    return [one for one in value if isinstance(one, str)] or None


def log_probabilities(value: Any) -> list[float] | None:
    """A number per choice, alone or with whether it is the likeliest continuation; None if anything else is there."""
    value = cell(value)
    numbers: list[float] = []
    for one in value if isinstance(value, list | tuple) else ():
        alone = one[0] if isinstance(one, list | tuple) and one else one
        converted = None if isinstance(alone, bool) else number(alone)
        if converted is None:
            return None
        numbers.append(converted)
    return numbers or None


def indices(value: Any) -> list[int]:
    """The places of right choices: one or a list."""
    value = cell(value)
    places = value if isinstance(value, list | tuple) else [value]
    return [place for place in places if type(place) is int and place >= 0]


def numbers_by_name(value: Any) -> dict[str, float] | None:
    """Metrics that are numbers; others, such as lists, score nothing."""
    value = cell(value)
    if not isinstance(value, dict):
        return None
    converted = {name: number(cell(one)) for name, one in value.items()}
    return {name: one for name, one in converted.items() if one is not None}


def stated(value: Any) -> str | None:
    """A text that is not one of the question marks which lighteval writes for what it does not know."""
    return value if isinstance(value, str) and value.strip(" ?") else None


DETAIL = Columns(
    Column("query", "doc.query", text, required=True),
    Column("choices", "doc.choices", strings, default=[]),
    Column("gold", "doc.gold_index", indices),
    Column("task", "doc.task_name", words),
    Column("logprobs", "model_response.logprobs", log_probabilities, default=[]),
    Column("replies", "model_response.text_post_processed|model_response.text", strings, default=[]),
    Column("metrics", "metric", numbers_by_name, default={}),
)

FLAT_DETAIL = Columns(
    Column("query", "example", text, required=True),
    Column("choices", type=strings, default=[]),
    Column("gold", "gold_index", indices),
    Column("gold_texts", "gold"),
    Column("logits", "pred_logits", log_probabilities, default=[]),
    Column("logprobs", "predictions", log_probabilities, default=[]),
    Column("replies", "predictions", strings, default=[]),
    Column("metrics", type=numbers_by_name),
    *[Column(name) for name in FLAT_METRICS],
)

RESULTS_OF_RUN = Columns(
    Column("version", "config_general.lighteval_sha", stated),
    Column("model", "config_general.model_name|config_general.model_config.model_name", words),
    Column("model_sha", "config_general.model_sha", stated),
    Column("dtype", "config_general.model_dtype|config_general.model_config.dtype", stated),
    Column("revision", "config_general.model_config.revision", stated),
    Column("adapter", "config_general.model_config.adapter_weights", plain),
    Column("system_prompt", "config_general.model_config.system_prompt", stated),
    Column("chat_template", "config_general.model_config.override_chat_template", plain),
    Column("generation", "config_general.model_config.generation_parameters", json_object),
    Column("general_generation", "config_general.generation_parameters", json_object, default={}),
    Column("results", type=json_object, default={}),
)


class AskedQuestion(NamedTuple):
    """A row: what was asked, the log-probability of each choice if the model chose, and the metrics."""

    query: str
    choices: Sequence[str]
    gold: Sequence[int]
    logprobs: Sequence[float]
    reply: str | None
    metrics: Mapping[str, float]
    task: str | None

    @property
    def item(self) -> str:
        """The identity of the question."""
        choices = [choice.strip() for choice in self.choices] if self.logprobs else []
        return text_item(" ".join(self.query.split()), *choices)

    @property
    def labels(self) -> list[str]:
        """Labels of choices: the choices themselves where they are letters, else letters by position."""
        bare = [choice.strip() for choice in self.choices]
        if all(re.fullmatch(r"[A-Z]", choice) for choice in bare):
            return bare
        return option_letters(len(bare))


class Lighteval(Source):
    """Reads details of lighteval."""

    name: ClassVar[str] = "lighteval"
    looks_like: ClassVar[str] = "lighteval details_*.parquet"

    def detect(self, file: SourceFile) -> Detection | None:
        """Parquet files by their columns; results are companions where the details of their run are there."""
        for own in (NEW_ROW, FLAT_ROW):
            if own <= file.columns:
                return Detection(Part.ANSWERS, f"it has the columns {', '.join(sorted(own))}")
        if file.is_list or not {"config_general", "results"} <= file.keys:
            return None
        named = _RESULTS_NAME.fullmatch(file.path.name)
        folders = [file.path.parent, *_parallel_folder(file.path.parent, "results", "details")]
        has_details = named is not None and any((folder / named[1]).is_dir() for folder in folders)
        return Detection(Part.COMPANION if has_details else Part.SCORES, "it has config_general and results")

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the details of one task."""
        named = _DETAILS_NAME.fullmatch(unquote(file.path.name))
        questions = list(read_questions(file))
        if not questions:
            raise SkipFile("no rows")
        names = sorted(dict.fromkeys(name for question in questions for name in question.metrics), key=_rank)
        if not names:
            raise SkipFile("no metric of a single answer is a number")
        key, stamp = named.groups() if named else (questions[0].task or file.path.stem, "")
        results = _results_beside(file.path, stamp)
        run = RESULTS_OF_RUN.read(results, f"results_{stamp}.json")
        suite, task, shots = _parts_of_task(key)
        margins: dict[Metric, list[float | None]] = {}
        chosen: dict[str, list[str]] = {}
        for name in filter(CHOICE_METRIC.fullmatch, names):
            rule = _find_rule(questions, name)
            if rule is not None:
                margins[Metric(name)], chosen[name] = rule
        answers: Sequence[str | None] = [question.reply for question in questions]
        if chosen:
            answers = chosen.get(options.metric or names[0]) or next(iter(chosen.values()))
        notes = [] if results else ["no results of this run were found; the model is named by the path"]
        if not file.columns >= NEW_ROW:
            notes.append(experimental_note("lighteval 0.9 or earlier"))
        yield Log(
            path=str(file.path),
            tool=self.name,
            version=run["version"],
            testset=task,
            model=run["model"] or _model_in_path(file.path),
            items=numbered(question.item for question in questions),
            values={Metric(name): [question.metrics.get(name) for question in questions] for name in names},
            prefer=names,
            margins=margins,
            answers=answers,
            texts=_texts_of_questions(questions) if options.texts else {},
            subject=_details_of_model(run),
            settings={"num_fewshot": shots, "suite": suite, **_generation_options(run)},
            stamp=stamp,
            stated=reported_means(mapping(run["results"].get(key)), names),
            notes=notes,
        )


def _rank(name: str) -> int:
    for rank, pattern in enumerate(PREFERRED_METRICS):
        if pattern.fullmatch(name):
            return rank
    return len(PREFERRED_METRICS)


def _parts_of_task(key: str) -> tuple[str | None, str, int | None]:
    """Suite, task and number of examples: leaderboard|arc:challenge|25, arc:challenge|25, or a bare task."""
    names = key.split("|")
    shots: int | None = None
    for place, part in enumerate(names):
        if place and part.isdecimal():  # what follows says how examples were truncated
            shots = int(part) if len(part) < 10 else None
            names = names[:place]
            break
    suite = names.pop(0) if len(names) > 1 else None
    return suite or None, "|".join(names) or key, shots


def _texts_of_questions(questions: Sequence[AskedQuestion]) -> dict[str, Sequence[Any]]:
    columns: dict[str, list[Any]] = {"text": [], "options": [], "option_labels": [], "label": [], "target": []}
    for question in questions:
        # Without log-probabilities the model wrote freely, and the choices are texts that count as right.
        labels = question.labels if question.logprobs else []
        gold = [question.choices[place] for place in question.gold]
        columns["text"].append(question.query)
        columns["options"].append([choice.strip() for choice in question.choices] if labels else None)
        columns["option_labels"].append(labels or None)
        columns["label"].append(labels[question.gold[0]] if labels and len(gold) == 1 else None)
        columns["target"].append(None if labels else " | ".join(gold) or None)
    return drop_empty(columns)


def _parallel_folder(folder: Path, old: str, new: str) -> list[Path]:
    """The folder with its last part ``old`` replaced by ``new``: details and results lie in parallel directories."""
    parts = list(folder.parts)
    if old not in parts:
        return []
    place = len(parts) - 1 - parts[::-1].index(old)
    return [Path(*parts[:place], new, *parts[place + 1 :])]


def _results_beside(path: Path, stamp: str) -> Object:
    """The results of the run that wrote a file of details; nothing where they are not there."""
    folder = path.parent.parent
    for candidate in (*_parallel_folder(folder, "details", "results"), folder, path.parent):
        results = candidate / f"results_{stamp}.json"
        if stamp and results.is_file():
            return mapping(SourceFile.look(results).json())
    return {}


def _model_in_path(path: Path) -> str:
    folder = path.parent.parent
    parts = folder.parts
    if "details" in parts[:-1]:  # details/org/model/time/...
        place = len(parts) - 1 - parts[::-1].index("details")
        return "/".join(parts[place + 1 :]) or path.parent.name
    # The hub has a repository per model: details_org__model.
    hub = re.fullmatch(r"details_(.+?)(?:_private|_public)?", folder.name)
    return hub[1].replace("__", "/", 1) if hub else path.parent.name


def _details_of_model(run: Mapping[str, Any]) -> dict[str, Plain]:
    details = {name: run[name] for name in ("revision", "model_sha", "dtype", "system_prompt", "chat_template")}
    if details["revision"] == "main":  # which says nothing: it moves
        details["revision"] = None
    return {**details, "adapter": run["adapter"] or None}


def _generation_options(run: Mapping[str, Any]) -> dict[str, Plain]:
    """Generation options that are set."""
    options = run["generation"] or run["general_generation"]
    return {name: value for name, value in options.items() if plain(value) is not None}


def read_questions(file: SourceFile) -> Iterator[AskedQuestion]:
    """The rows of a file, some at a time."""
    where = str(file.path)
    frame = pl.scan_parquet(file.path, glob=False)
    is_new = file.columns >= NEW_ROW
    columns, question = (DETAIL, _question_of_row) if is_new else (FLAT_DETAIL, _question_of_flat_row)
    wanted = frame.select(_needed_columns(dict(_collected(frame, where).schema), columns))
    total = _collected(frame.select(pl.len()), where, 1).item()
    step = max(total, 1) if file.size <= READ_AT_ONCE else ROWS_AT_A_TIME
    for start in range(0, total, step):
        rows = _collected(wanted.slice(start, step), where, step).iter_rows(named=True)
        for place, row in enumerate(rows, start + 1):
            yield question(columns.read(row, f"{where}, row {place}"))


def _needed_columns(schema: Mapping[str, pl.DataType], columns: Columns) -> list[pl.Expr]:
    """What the declared columns read of a file, and no more: lists of tokens make up most of it."""
    fields_by_name: dict[str, list[str]] = {}
    for column in columns.columns:
        for path in (column.path or column.name).split("|"):
            name, _, field = path.partition(".")
            fields_by_name.setdefault(name, []).append(field)
    needed = [pl.lit(None).alias("nothing")]
    for name, fields in fields_by_name.items():
        dtype = schema.get(name)
        if isinstance(dtype, pl.Struct) and all(fields):
            there = {field.name for field in dtype.fields}
            kept = [pl.col(name).struct.field(field) for field in fields if field in there]
            needed.append(pl.struct(kept or [pl.lit(None).alias("nothing")]).alias(name))
        elif dtype is not None:
            needed.append(pl.col(name))
    return needed


def _collected(frame: pl.LazyFrame, where: str, rows: int = 0) -> pl.DataFrame:
    """The first rows of a frame."""
    with reading(where):
        return frame.head(rows).collect()


def _question_of_row(row: Mapping[str, Any]) -> AskedQuestion:
    count = len(row["choices"])
    return AskedQuestion(
        row["query"],
        row["choices"],
        [place for place in row["gold"] if place < count],
        row["logprobs"] if len(row["logprobs"]) == count else [],
        short_answer(row["replies"][0].strip()) if row["replies"] else None,
        row["metrics"],
        row.get("task"),
    )


def _question_of_flat_row(row: dict[str, Any]) -> AskedQuestion:
    """A row of version 0.9 as later ones are."""
    if row["metrics"] is None:
        row["metrics"] = numbers_by_name({name: row[name] for name in FLAT_METRICS})
    if not row["choices"]:  # the model wrote freely
        gold = cell(row["gold_texts"])
        row["choices"] = strings(gold if isinstance(gold, list) else [gold]) or []
        row["gold"] = range(len(row["choices"]))
        row["logprobs"] = []
    elif len(row["logits"]) == len(row["choices"]):
        row["logprobs"] = row["logits"]
    return _question_of_row(row)


def _find_rule(questions: Sequence[AskedQuestion], name: str) -> tuple[list[float | None], list[str]] | None:
    """Log-odds of the right choices, and what was chosen, by a rule that gives the log's own value on every row."""
    for length in LENGTHS if "norm" in name else NO_LENGTHS:
        margins: list[float | None] = []
        chosen: list[str] = []
        for question in questions:
            pairs = zip(question.logprobs, question.choices, strict=False)
            scores = [logprob / max(length(choice), 1) for logprob, choice in pairs]
            value = question.metrics.get(name)
            if not scores or value not in (0.0, 1.0):
                break
            best = scores.index(max(scores))
            if (best in question.gold) != (value == 1.0):
                break
            margins.append(log_odds(scores, question.gold))
            chosen.append(question.labels[best])
        else:
            return margins, chosen
    return None

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
from typing import Any, ClassVar
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
from breadth.sources.tools.common import beside_answers, column_of, reported_means, texts_of_items

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
_TASK_KEY = re.compile(r"(?s)(?:(?P<suite>[^|]*)\|)?(?P<task>(?!\d+(?:\||$)).+?)(?:\|(?P<shots>\d{1,9})(?:\|.*)?)?")
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


def fixed_revision(value: Any) -> str | None:
    """A revision that says something; the branch ``main`` moves."""
    return None if value == "main" else stated(value)


def set_options(value: Any) -> dict[str, Plain] | None:
    """Generation options that are set; None if there are none."""
    options = {name: plain(one) for name, one in mapping(value).items()}
    return {name: one for name, one in options.items() if one is not None} or None


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
    Column("revision", "config_general.model_config.revision", fixed_revision),
    Column("adapter", "config_general.model_config.adapter_weights", lambda value: plain(value) or None),
    Column("system_prompt", "config_general.model_config.system_prompt", stated),
    Column("chat_template", "config_general.model_config.override_chat_template", plain),
    Column(
        "generation",
        "config_general.model_config.generation_parameters|config_general.generation_parameters",
        set_options,
        default={},
    ),
    Column("results", type=json_object, default={}),
)


#: What makes the answers of a model differ.
SUBJECT = ("revision", "model_sha", "dtype", "adapter", "system_prompt", "chat_template")


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
        return beside_answers(has_details, "it has config_general and results")

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the details of one task."""
        rows = list(read_details(file))
        if not rows:
            raise SkipFile("no rows")
        names = sorted(dict.fromkeys(name for row in rows for name in row["metrics"]), key=_rank)
        if not names:
            raise SkipFile("no metric of a single answer is a number")
        named = _DETAILS_NAME.fullmatch(unquote(file.path.name))
        key, stamp = named.groups() if named else (rows[0]["task"] or file.path.stem, "")
        suite, task, shots = _parts_of_task(key)
        results = _results_beside(file.path, stamp)
        run = RESULTS_OF_RUN.read(results, f"results_{stamp}.json")
        margins: dict[Metric, list[float | None]] = {}
        answers: dict[str, list[str]] = {}
        for name in filter(CHOICE_METRIC.fullmatch, names):
            found = _find_margins(rows, name)
            if found is not None:
                margins[Metric(name)], answers[name] = found
        # Where the model chose, its choices by the metric that is asked for or preferred; else what it wrote.
        chosen = answers.get(options.metric or names[0]) or next(iter(answers.values()), None)
        notes = [] if results else ["no results of this run were found; the model is named by the path"]
        if not file.columns >= NEW_ROW:
            notes.append(experimental_note("lighteval 0.9 or earlier"))
        yield Log(
            path=str(file.path),
            tool=self.name,
            version=run["version"],
            testset=task,
            model=run["model"] or _model_in_path(file.path),
            items=numbered(column_of(rows, "item")),
            values={Metric(name): [row["metrics"].get(name) for row in rows] for name in names},
            prefer=names,
            margins=margins,
            answers=chosen or column_of(rows, "reply"),
            texts=_texts_of_details(rows) if options.texts else {},
            subject={name: run[name] for name in SUBJECT},
            settings={"num_fewshot": shots, "suite": suite, **run["generation"]},
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
    match = _TASK_KEY.fullmatch(key)
    if match is None:
        return None, key, None
    return match["suite"] or None, match["task"], int(match["shots"]) if match["shots"] else None


def _texts_of_details(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    known: list[tuple[Any, ...]] = []
    for row in rows:
        gold = [row["choices"][place] for place in row["gold"]]
        if row["logprobs"]:
            options = [choice.strip() for choice in row["choices"]]
            label = row["labels"][row["gold"][0]] if len(gold) == 1 else None
            known.append((row["query"], options, row["labels"], label, None))
        else:  # the model wrote freely, and the choices are texts that count as right
            known.append((row["query"], None, None, None, " | ".join(gold)))
    return texts_of_items(known)


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


def read_details(file: SourceFile) -> Iterator[dict[str, Any]]:
    """The rows of a file, some at a time, as versions since 0.10 write them."""
    where = str(file.path)
    is_new = file.columns >= NEW_ROW
    columns = DETAIL if is_new else FLAT_DETAIL
    frame = pl.scan_parquet(file.path, glob=False)
    wanted = frame.select(_needed_columns(dict(_collected(frame, where).schema), columns))
    total = _collected(frame.select(pl.len()), where, 1).item()
    step = max(total, 1) if file.size <= READ_AT_ONCE else ROWS_AT_A_TIME
    for start in range(0, total, step):
        rows = _collected(wanted.slice(start, step), where, step).iter_rows(named=True)
        for place, content in enumerate(rows, start + 1):
            row = columns.read(content, f"{where}, row {place}")
            yield _completed(row if is_new else _unflattened(row))


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


def _unflattened(row: dict[str, Any]) -> dict[str, Any]:
    """A row of version 0.9 as later ones are."""
    if row["metrics"] is None:
        row["metrics"] = numbers_by_name({name: row[name] for name in FLAT_METRICS})
    if not row["choices"]:  # the model wrote freely
        gold = cell(row["gold_texts"])
        row["choices"] = strings(gold if isinstance(gold, list) else [gold]) or []
        row["gold"] = list(range(len(row["choices"])))
        row["logprobs"] = []
    elif len(row["logits"]) == len(row["choices"]):
        row["logprobs"] = row["logits"]
    return {**row, "task": None}


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its item, the labels of its choices, and the model's reply."""
    bare = [choice.strip() for choice in row["choices"]]
    row["gold"] = [place for place in row["gold"] if place < len(bare)]
    if len(row["logprobs"]) != len(bare):
        row["logprobs"] = []
    are_letters = all(re.fullmatch(r"[A-Z]", choice) for choice in bare)
    row["labels"] = bare if are_letters else option_letters(len(bare))
    row["item"] = text_item(" ".join(row["query"].split()), *(bare if row["logprobs"] else ()))
    row["reply"] = short_answer(row["replies"][0].strip()) if row["replies"] else None
    return row


def _find_margins(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[list[float | None], list[str]] | None:
    """Log-odds of the right choices, and what was chosen, by a rule that gives the log's own value on every row."""
    for length in LENGTHS if "norm" in name else NO_LENGTHS:
        margins: list[float | None] = []
        chosen: list[str] = []
        for row in rows:
            pairs = zip(row["logprobs"], row["choices"], strict=False)
            scores = [logprob / max(length(choice), 1) for logprob, choice in pairs]
            value = row["metrics"].get(name)
            if not scores or value not in (0.0, 1.0):
                break
            best = scores.index(max(scores))
            if (best in row["gold"]) != (value == 1.0):
                break
            margins.append(log_odds(scores, row["gold"]))
            chosen.append(row["labels"][best])
        else:
            return margins, chosen
    return None

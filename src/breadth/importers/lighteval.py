"""lighteval: the Parquet files of details that it writes per task. lighteval is not needed.

Since version 0.10 a row has the columns ``doc``, ``model_response`` and ``metric``. Up to 0.9, and in the details of
the first Open LLM Leaderboard, a row is flat (``example``, ``choices``, ``gold_index``, ``predictions``, ``metrics``),
and where Arrow refused the types every cell is text; these are written from lighteval's source code, not tried on a
real log. Types differ between tasks, so every file is read by its own schema.

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

from breadth.errors import InputError
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part
from breadth.importers.reading import (
    LogFile,
    Object,
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
from breadth.records import reading

#: Names of metrics, the preferred first.
PREFERRED = tuple(
    map(re.compile, (r"(?:exact|extractive)_match.*|em", r".*pass@(?:k:k=)?1(?!\d).*", r"acc", r"mc1", r"acc.*"))
)

NEW = frozenset({"doc", "metric", "model_response"})
OLD = frozenset({"example", "full_prompt", "predictions"})

#: What is read of each column; lists of tokens, which make up most of a file, are not, but for their lengths.
FIELDS = {
    "doc": ("query", "choices", "gold_index", "task_name"),
    "model_response": ("text", "text_post_processed", "logprobs"),
}
FLAT = ("example", "choices", "gold", "gold_index", "predictions", "pred_logits", "metrics")

#: Metrics that are columns of their own where there is no column ``metrics``.
COLUMNS = ("acc", "acc_norm", "em", "exact_match", "mc1", "mc2", "f1")

#: What log-probabilities of choices may be divided by, where a metric is normalised.
LENGTHS: tuple[Callable[[str], int], ...] = (len, lambda choice: len(choice.removeprefix(" ")))

#: Bytes up to which a file is read at once, and rows that are read at a time of a larger one.
SMALL, ROWS = 1 << 26, 2000

_NAME = re.compile(r"details_(.+)_(\d{4}-\d\d-\d\dT\d\d[-:_]\d\d[-:_]\d\d(?:\.\d+)?)\.parquet")
_RESULTS = re.compile(r"results_(.+)\.json")


class Lighteval(Importer):
    """Reads details of lighteval."""

    name: ClassVar[str] = "lighteval"

    def part(self, file: LogFile) -> Part | None:
        """Parquet files by their columns; results are companions where the details of their run are there."""
        if columns := file.columns:
            return Part.ANSWERS if columns >= NEW or columns >= OLD else None
        if file.is_list or not {"config_general", "results"} <= file.keys:
            return None
        stamp = _RESULTS.fullmatch(file.path.name)
        folders = [file.path.parent, *_swapped(file.path.parent, "results", "details")]
        return Part.COMPANION if stamp and any((folder / stamp[1]).is_dir() for folder in folders) else Part.SCORES

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read the details of one task."""
        named = _NAME.fullmatch(unquote(file.path.name))
        rows = list(questions(file))
        if not rows:
            raise LeftOut("no rows")
        key = named[1] if named else rows[0].task or file.path.stem
        stamp = named[2] if named else ""
        results = _results(file.path, stamp)
        general = mapping(results.get("config_general"))
        names = sorted(dict.fromkeys(name for row in rows for name in row.metrics), key=_rank)
        if not names:
            raise LeftOut("no metric of a single answer is a number")
        suite, task, shots = _task(key)
        margins, answers = margins_of(rows, names, options.metric)
        stated = mapping(mapping(results.get("results")).get(key))
        yield Log(
            path=str(file.path),
            tool=self.name,
            version=_known(general.get("lighteval_sha")),
            testset=task,
            model=_model(file.path, general),
            items=numbered(row.item for row in rows),
            values={Metric(name): [row.metrics.get(name) for row in rows] for name in names},
            prefer=names,
            margins=margins,
            answers=answers,
            texts=_texts(rows) if options.texts else {},
            subject=_subject(general),
            settings={"num_fewshot": shots, "suite": suite, **_generation(general)},
            stamp=stamp,
            stated={Metric(name): mean for name in names if (mean := number(stated.get(name))) is not None},
            notes=[] if results else ["no results of this run were found; the model is named by the path"],
        )


def _rank(name: str) -> int:
    return next((k for k, pattern in enumerate(PREFERRED) if pattern.fullmatch(name)), len(PREFERRED))


def _task(key: str) -> tuple[str | None, str, int | None]:
    """Suite, task and number of examples: leaderboard|arc:challenge|25, arc:challenge|25, or a bare task."""
    parts = key.split("|")
    cut = next((k for k, part in enumerate(parts) if k and part.isdecimal()), len(parts))
    names, shots = parts[:cut], parts[cut] if cut < len(parts) else ""
    suite = names[0] if len(names) > 1 else None
    return suite or None, "|".join(names[1:] if suite else names) or key, int(shots) if 0 < len(shots) < 10 else None


def _texts(rows: Sequence[Question]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"text": [], "options": [], "option_labels": [], "label": [], "target": []}
    for row in rows:
        labels = row.labels if row.logprobs else []
        gold = [row.choices[k] for k in row.gold]
        columns["text"].append(row.query)
        columns["options"].append([choice.strip() for choice in row.choices] if labels else None)
        columns["option_labels"].append(labels or None)
        columns["label"].append(labels[row.gold[0]] if labels and len(row.gold) == 1 else None)
        columns["target"].append(" | ".join(gold) if gold and not labels else None)
    return {name: column for name, column in columns.items() if any(column)}


def _swapped(folder: Path, old: str, new: str) -> list[Path]:
    """The folder with its last part ``old`` replaced by ``new``: details and results lie in parallel directories."""
    parts = list(folder.parts)
    places = [k for k, part in enumerate(parts) if part == old]
    return [Path(*parts[: places[-1]], new, *parts[places[-1] + 1 :])] if places else []


def _results(path: Path, stamp: str) -> Object:
    """The results of the run that wrote a file of details; nothing where they are not there."""
    folder = path.parent.parent
    for candidate in (*_swapped(folder, "details", "results"), folder, path.parent):
        results = candidate / f"results_{stamp}.json"
        if stamp and results.is_file():
            return mapping(LogFile.look(results).json())
    return {}


def _model(path: Path, general: Object) -> str:
    stated = words(general.get("model_name")) or words(mapping(general.get("model_config")).get("model_name"))
    if stated:
        return stated
    folder = path.parent.parent
    if "details" in folder.parts[:-1]:
        last = len(folder.parts) - 1 - folder.parts[::-1].index("details")
        return "/".join(folder.parts[last + 1 :]) or path.parent.name
    # The hub has a repository per model: details_org__model.
    hub = re.fullmatch(r"details_(.+?)(?:_private|_public)?", folder.name)
    return hub[1].replace("__", "/", 1) if hub else path.parent.name


def _known(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip(" ?") else None


def _subject(general: Object) -> dict[str, str | float | bool | None]:
    config = mapping(general.get("model_config"))
    revision = _known(config.get("revision"))
    return {
        "revision": None if revision == "main" else revision,
        "model_sha": _known(general.get("model_sha")),
        "dtype": _known(general.get("model_dtype")) or _known(config.get("dtype")),
        "adapter": plain(config.get("adapter_weights")) or None,
        "system_prompt": _known(config.get("system_prompt")),
        "chat_template": plain(config.get("override_chat_template")),
    }


def _generation(general: Object) -> dict[str, str | float | bool | None]:
    """Generation options that are set."""
    config = mapping(mapping(general.get("model_config")).get("generation_parameters"))
    options = config or mapping(general.get("generation_parameters"))
    return {key: value for key, one in options.items() if (value := plain(one)) is not None}


class Question(NamedTuple):
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


def questions(file: LogFile) -> Iterator[Question]:
    """The rows of a file, some at a time."""
    where = str(file.path)
    frame = pl.scan_parquet(file.path, glob=False)
    schema = dict(_collected(frame, where).schema)
    new = schema.keys() >= NEW
    flat = [*FLAT, *([] if "metrics" in schema else COLUMNS)]
    wanted = frame.select(_new_columns(schema) if new else [name for name in flat if name in schema])
    total = _collected(frame.select(pl.len()), where, 1).item()
    step = max(total, 1) if file.size <= SMALL else ROWS
    for start in range(0, total, step):
        rows = _collected(wanted.slice(start, step), where, step).iter_rows(named=True)
        for k, row in enumerate(rows, start + 1):
            yield _new(row, f"{where}, row {k}") if new else _old(row, f"{where}, row {k}")


def _collected(frame: pl.LazyFrame, where: str, rows: int = 0) -> pl.DataFrame:
    """The first rows of a frame."""
    with reading(where):
        return frame.head(rows).collect()


def _new_columns(schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    columns = [pl.col("metric")] if isinstance(schema["metric"], pl.Struct) else []
    for column, wanted in FIELDS.items():
        dtype = schema[column]
        fields = {field.name for field in dtype.fields} if isinstance(dtype, pl.Struct) else set()
        columns += [pl.col(column).struct.field(name) for name in wanted if name in fields]
    return columns or [pl.lit(None).alias("metric")]


def _new(row: Object, where: str) -> Question:
    query = row.get("query")
    if not isinstance(query, str):
        raise InputError(f"{where}: doc has no query; the file is damaged")
    choices, logprobs = _strings(row.get("choices")), _numbers(row.get("logprobs"))
    texts = _strings(row.get("text_post_processed")) or _strings(row.get("text"))
    return Question(
        query,
        choices,
        _indices(row.get("gold_index"), len(choices)),
        logprobs if len(logprobs) == len(choices) else (),
        short_answer(texts[0].strip() if texts else None),
        _metrics(row.get("metric")),
        words(row.get("task_name")),
    )


def _old(row: Object, where: str) -> Question:
    query = row.get("example")
    if not isinstance(query, str):
        raise InputError(f"{where}: has no example; the file is damaged")
    choices, gold = _strings(_literal(row.get("choices"))), _literal(row.get("gold"))
    predictions = _literal(row.get("predictions"))
    chosen = [_numbers(_literal(row.get("pred_logits"))), _numbers(predictions)] if choices else []
    replies = _strings(predictions)
    metrics = row["metrics"] if "metrics" in row else {name: row.get(name) for name in COLUMNS}
    indices = _indices(_literal(row.get("gold_index")), len(choices))
    if not choices:
        choices = _strings(gold if isinstance(gold, list) else [gold])
        indices = list(range(len(choices)))
    return Question(
        query,
        choices,
        indices,
        next((numbers for numbers in chosen if len(numbers) == len(choices)), ()),
        short_answer(replies[0].strip() if replies else None),
        _metrics(_literal(metrics)),
        None,
    )


def _literal(value: Any) -> Any:
    """A cell that was cast to text as what it was; other cells, and texts that are just that, as they are."""
    if not isinstance(value, str) or value[:1] not in tuple("[{(-+.0123456789TFN"):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


def _strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def _numbers(value: Any) -> list[float]:
    """Log-probabilities; each alone, or with whether it is the likeliest continuation."""
    numbers = []
    for one in value if isinstance(value, list | tuple) else ():
        alone = one[0] if isinstance(one, list | tuple) and one else one
        converted = None if isinstance(alone, bool) else number(alone)
        if converted is None:
            return []
        numbers.append(converted)
    return numbers


def _indices(value: Any, count: int) -> list[int]:
    indices = list(value) if isinstance(value, list | tuple) else [value]
    return [k for k in indices if type(k) is int and 0 <= k < count]


def _metrics(value: Any) -> dict[str, float]:
    converted = {name: number(_literal(one)) for name, one in mapping(value).items()}
    return {name: one for name, one in converted.items() if one is not None}


def margins_of(
    rows: Sequence[Question], names: Sequence[str], asked: str | None
) -> tuple[dict[Metric, list[float | None]], list[str | None]]:
    """Log-odds of the right choices by metric, and what was chosen, by the metric that is asked for or preferred."""
    margins: dict[Metric, list[float | None]] = {}
    chosen: dict[str, list[str | None]] = {}
    for name in names:
        if not re.fullmatch(r"(?:loglikelihood_)?acc(?:_norm)?(?:_\w+)?|mc1", name):
            continue
        for length in LENGTHS if "norm" in name else (lambda _: 1,):
            scores = [
                [p / max(length(choice), 1) for p, choice in zip(row.logprobs, row.choices, strict=False)]
                for row in rows
            ]
            best = [max(range(len(one)), key=one.__getitem__) if one else None for one in scores]
            reproduced = all(
                k is not None and row.metrics.get(name) in (0.0, 1.0) and (k in row.gold) is (row.metrics[name] == 1)
                for k, row in zip(best, rows, strict=True)
            )
            if reproduced:
                margins[Metric(name)] = [log_odds(one, row.gold) for one, row in zip(scores, rows, strict=True)]
                chosen[name] = [None if k is None else row.labels[k] for k, row in zip(best, rows, strict=True)]
                break
    replies = [row.reply for row in rows]
    return margins, chosen.get(asked or names[0], next(iter(chosen.values()), replies))

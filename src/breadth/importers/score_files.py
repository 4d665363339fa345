"""Files that list scores of checkpoints: states of the Hugging Face trainer, results of lm-eval, charts of W&B.

A format is a function that says whether a file is of it, and one that yields its :class:`Score`s.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from breadth.errors import InputError, listed
from breadth.importers.reading import LogFile, Object, entries, mapping, model_arguments, words
from breadth.importers.subjects import MOST_DIGITS, Step, step_in, without_match

#: Folder of a checkpoint in the output of the Hugging Face trainer.
CHECKPOINT = re.compile(r"checkpoint-\d+")

#: A test set has fewer items; a larger number is damaged.
MOST_ITEMS = 1e12

#: Arguments of a model, and entries of a file of results, that change what the model answers.
_TELLING_ARGUMENTS = ("subfolder", "delta", "dtype", "load_in_8bit", "load_in_4bit", "quantization", "gguf_file")
_TELLING_ENTRIES = ("chat_template_sha", "system_instruction_sha")

#: X axes of W&B charts that are training steps.
_STEPS = frozenset(("Step", "_step", "global_step", "train/global_step", "trainer/global_step"))

#: What lm-evaluation-harness lists among the metrics of a task.
_NO_METRICS = frozenset(("alias", "name", "sample_len", "samples", "sample_count"))


class Run(NamedTuple):
    """A training run: a path-like name, of which the end will be shown, and what tells runs of one name apart."""

    name: str
    attributes: tuple[str, ...] = ()
    model: str | None = None


class Score(NamedTuple):
    """One value of one checkpoint.

    ``name`` is what the file calls it; if ``metric`` is given, it is the test set. Of two values for the same cell, the
    one with the later ``time`` counts. ``variant`` is a filter, ``setting`` how the test set was given (few-shot
    examples), ``items`` the number of its items. ``mean_of`` names the test sets of which this is the mean, and
    ``training`` says that the value is about training, whatever its name.
    """

    run: Run
    step: float | None
    name: str
    value: float
    time: float = 0.0
    metric: str | None = None
    variant: str = ""
    setting: str = ""
    items: int | None = None
    mean_of: tuple[str, ...] = ()
    training: bool = False


class Reading(NamedTuple):
    """What goes with a file: the user's pattern for steps, and a list that takes notes for the user."""

    notes: list[str]
    step_pattern: re.Pattern[str] | None = None


class ScoreFormat(NamedTuple):
    """A kind of file with scores of checkpoints. ``exported`` ones hold only what the user chose to export."""

    name: str
    recognises: Callable[[LogFile], bool]
    read: Callable[[LogFile, Reading], Iterator[Score]]
    exported: bool = False


def real(value: object) -> float | None:
    """A finite number that is not a truth value, or None. MLflow writes infinities as numbers of the order 1e308."""
    finite = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return float(value) if finite else None  # type: ignore[arg-type]


def decimal(text: str) -> float | None:
    """A finite number that is written as text, or None."""
    try:
        return real(float(text))
    except ValueError:
        return None


def is_trainer_state(file: LogFile) -> bool:
    """Whether this is a ``trainer_state.json``."""
    return not file.is_list and "log_history" in file.keys


def read_trainer_state(file: LogFile, reading: Reading) -> Iterator[Score]:
    """Yield the values of a Hugging Face trainer: a row per log entry; several evaluation sets have a row each."""
    state = mapping(file.json())
    rows = state.get("log_history")
    if not isinstance(rows, list):
        raise InputError(f"{file.path}: 'log_history' is not a list; the file is damaged")
    folder = file.path.resolve().parent
    output = folder.parent if CHECKPOINT.fullmatch(folder.name) else folder
    # Every checkpoint repeats the history so far, so the last one knows most.
    run, reached = Run(output.as_posix(), model=_base_model(folder)), real(state.get("global_step")) or 0.0
    stepless = 0
    for k, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{file.path}: entry {k} of 'log_history' is not an object; the file is damaged")
        step = real(row.get("step"))
        if step is None:
            stepless += 1
            continue
        values = {key: value for key, cell in row.items() if (value := real(cell)) is not None and key != "step"}
        logged = "loss" in values or "train_runtime" in values  # a row of training; its other values have any name
        for key, value in values.items():
            stem = next((end for end in _stems(key) if f"{end}runtime" in values), "")
            items = values.get(f"{stem}samples_per_second", 0.0) * values.get(f"{stem}runtime", 0.0) if stem else 0.0
            score = Score(run, step, key, value, reached, items=round(items) if 0.5 < items < MOST_ITEMS else None)
            yield score._replace(training=logged and not key.startswith(("eval_", "test_")))
    if stepless:
        reading.notes.append(f"{file.path}: {stepless} of {len(rows)} entries of 'log_history' have no step, left out")


def _stems(key: str) -> Iterator[str]:
    """eval_hans_accuracy: eval_hans_, eval_."""
    while "_" in key:
        key = key.rpartition("_")[0]
        yield f"{key}_"


def _base_model(folder: Path) -> str | None:
    """The model that a trainer started from, as the files beside its state name it."""
    for name, key in (("adapter_config.json", "base_model_name_or_path"), ("config.json", "_name_or_path")):
        try:
            model = words(mapping(LogFile.look(folder / name).json()).get(key)) if (folder / name).is_file() else None
        except InputError:  # it only names the model; what matters is in another file
            model = None
        if model is not None:
            return model
    return None


def is_harness_results(file: LogFile) -> bool:
    """Whether this may be a file of results of lm-evaluation-harness."""
    return not file.is_list and "results" in file.keys and not {"eval", "samples", "config_general"} & file.keys


def read_harness_results(file: LogFile, reading: Reading) -> Iterator[Score]:
    """Yield the results of lm-evaluation-harness, 0.3 (``acc``) and 0.4 and later (``acc,none``)."""
    data = mapping(file.json())
    if not all(isinstance(data.get(key), dict) for key in ("results", "versions", "config")):
        return  # another tool's file that has results, too
    results, config = mapping(data.get("results")), mapping(data.get("config"))
    run, step = _checkpoint(file, data, config, reading.step_pattern)
    groups, shots, samples = (mapping(data.get(key)) for key in ("group_subtasks", "n-shot", "n-samples"))
    date = real(data.get("date")) or 0.0
    for task, metrics in results.items():
        members = groups.get(task)
        mean_of = tuple(one for one in entries(members) if isinstance(one, str) and one in results)
        shot = real(shots.get(task, mapping(mapping(data.get("configs")).get(task)).get("num_fewshot")))
        shot = real(config.get("num_fewshot")) if shot is None else shot
        stated = real(mapping(samples.get(task)).get("effective"))
        for key, cell in mapping(metrics).items():
            metric, _, variant = key.partition(",")
            value = real(cell)
            if value is None or metric.endswith("_stderr") or metric in _NO_METRICS:
                continue
            error = real(mapping(metrics).get(f"{metric}_stderr,{variant}" if variant else f"{metric}_stderr"))
            items = int(stated) if stated is not None and 0 < stated < MOST_ITEMS else items_from_error(value, error)
            setting = "" if shot is None else f"{shot:g}-shot"
            named = "" if variant == "none" else variant
            yield Score(run, step, task, value, date, metric, named, setting, items, mean_of)


def items_from_error(accuracy: float, error: float | None) -> int | None:
    """The number of items, from an accuracy and its standard error sqrt(p (1 - p) / (n - 1)); None if it is no such."""
    if error is None or error < 1e-9 or not 0 < accuracy < 1:
        return None
    n = accuracy * (1 - accuracy) / (error * error) + 1  # error**2 would raise where it overflows
    # An accuracy is a whole number of items divided by n; other metrics hardly ever are.
    whole = abs(n - round(n)) < 0.01 and abs(accuracy * round(n) - round(accuracy * round(n))) < 1e-6 * round(n)
    return round(n) if whole else None


def _checkpoint(
    file: LogFile, data: Object, config: Object, pattern: re.Pattern[str] | None
) -> tuple[Run, float | None]:
    """The run and the step that results are about, from revision, model and path."""
    arguments = model_arguments(config.get("model_args"))
    named = (*(arguments.get(key) for key in ("peft", "pretrained", "model")), data.get("model_name"))
    model = str(next(filter(None, (*named, config.get("model"))), file.path.stem)).rstrip("/")
    revision = str(arguments.get("revision") or "")
    step: float | None = None
    rest, branch = model, revision
    # The file's own name holds the step only in old versions; new ones write a date there.
    for text in (revision, model, file.path.parent.as_posix(), file.path.stem):
        place = _step(text, pattern, "" if text == revision else model)
        if place.step is not None:
            step, rest = place.step, place.rest if text == model else model
            branch = place.rest if text == revision else revision
            break
    if step is None:
        step = _trainer_step(model)
    attributes = [f"{key}={arguments[key]}" for key in _TELLING_ARGUMENTS if arguments.get(key)]
    attributes += [f"{key}={str(data[key])[:8]}" for key in _TELLING_ENTRIES if data.get(key)]
    if arguments.get("peft") and arguments.get("pretrained"):
        attributes.append(f"pretrained={arguments['pretrained']}")
    at = f"@{branch}" if branch not in ("", "main", "None") else ""
    return Run(f"{rest or model}{at}", tuple(attributes), rest or model), step


def _step(text: str, pattern: re.Pattern[str] | None, model: str) -> Step:
    """The step in a text, by the user's pattern if there is one, and the text without it."""
    if pattern is None:
        return step_in(text, model)
    match = pattern.search(text)
    if match is None or not match[1] or not match[1].isdecimal() or len(match[1]) > MOST_DIGITS:
        return Step(None, text)
    return Step(int(match[1]), without_match(text, match))


def _trainer_step(model: str) -> float | None:
    """The step of a model's directory on this machine, if a trainer left its state there."""
    path = Path(model, "trainer_state.json")
    try:
        return real(mapping(LogFile.look(path).json()).get("global_step")) if path.is_file() else None
    except (InputError, OSError, ValueError):  # the name of a model need not be a path
        return None


def is_wandb(file: LogFile) -> bool:
    """Whether this is a table that W&B exported from a chart."""
    if b"\0" in file.head or file.keys:
        return False
    header, _, rest = file.head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    first, comma, others = header.partition(b",")
    if not comma or b" - " in first or b" - " not in others:
        return False
    if b"__MIN" in others:
        return True
    # W&B quotes every field; a program that saved the file again may not have.
    table = header.startswith(b'"') or decimal(rest.partition(b",")[0].decode(errors="replace")) is not None
    return table and all(b" - " in name for name in others.split(b","))


class _Column(NamedTuple):
    place: int
    run: Run
    metric: str


def read_wandb(file: LogFile, reading: Reading) -> Iterator[Score]:
    """Yield the table of a W&B chart: a column for the x axis, then ``RUN - METRIC`` with its minimum and maximum."""
    try:
        rows = list(csv.reader(io.StringIO(file.read().decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file.path}: cannot be read as CSV ({error}); export the chart again") from error
    header = rows[0]
    places = {name: k for k, name in enumerate(header)}
    extremes = {
        k: places[name[:-5]] for k, name in enumerate(header) if name[-5:] in ("__MIN", "__MAX") and name[:-5] in places
    }
    columns = list(_columns(header, extremes.keys()))
    spread = [(k, place) for k, place in extremes.items() if " - _" not in header[k]]  # not those of _step, _runtime
    times = Counter((column.run.name, column.metric) for column in columns)
    if repeated := [f"{run!r}" for (run, _), count in times.items() if count > 1]:
        reading.notes.append(f"{file.path}: several runs are called {listed(repeated, 3)}; they are numbered")
    if header[0] not in _STEPS:
        reading.notes.append(f"{file.path}: 'step' is the x axis of the chart, {header[0]!r}")
    binned = False
    for line, row in enumerate(rows[1:], 2):
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"{file.path}, line {line}: has {len(row)} of {len(header)} fields; the file is damaged")
        step = decimal(row[0])
        if step is None:
            raise InputError(
                f"{file.path}, line {line}: {row[0][:40]!r} in column {header[0]!r} is not a number; export the chart "
                "with a step as its x axis"
            )
        for k, run, metric in columns:
            if (value := decimal(row[k])) is not None:
                yield Score(run, step, metric, value)
        binned = binned or any(row[k] and row[k] != row[place] for k, place in spread)
    if binned:
        reading.notes.append(
            f"{file.path}: minima and maxima differ from the values, so these are means over steps or over grouped "
            "runs; W&B thins out long series. scan_history() of its API gives every step of every run"
        )


def _columns(header: list[str], but: Collection[int]) -> Iterator[_Column]:
    """The columns of runs; those of one name, which W&B does not forbid, are numbered."""
    seen: Counter[str] = Counter()
    for k, name in enumerate(header):
        title, dash, metric = name.rpartition(" - ")  # names of runs may hold " - ", those of metrics do not
        if not k or k in but or not dash:
            continue
        seen[name] += 1
        yield _Column(k, Run(title, (f"({seen[name]})",) if seen[name] > 1 else ()), metric)

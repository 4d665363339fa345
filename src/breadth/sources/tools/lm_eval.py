"""lm-evaluation-harness: samples of every version since 2023 with the results beside them, and results alone.

- **Item**: a document's hash, which the tool writes since 0.4.3 and which is computed for earlier logs, with ``#2`` for
  the second document of the same content. Files of 2023 have no documents: there the last paragraph of the prompt.
- **Test set**: the task in the file's name.
- **Metric**: a metric of a filter; the filter ``none`` is not shown. Preferred is ``exact_match``, then ``acc``, then
  the others in breadth's vocabulary; of several filters the first. Metrics of which lower values are better are read if
  asked for.
- **Subject**: the model with its arguments, its revision, chat template and system instruction. The number of few-shot
  examples, seeds and the like are settings.
- **Margin**: for ``acc`` and ``acc_norm``, where the right option is certain (:func:`find_choices`).

Samples and results of one run carry the same time stamp. Files of several runs and models may share a directory, so a
stamp is the only way to pair them. Versions 0.4.0 to 0.4.2 have no stamps: there the samples' name holds the arguments
of the model, and ``results.json`` is that of the last model only.

The module goes the way of a file: sources, what is declared, the run, the lines, the samples, choices and margins, the
log. Results as scores of checkpoints come last.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from breadth.errors import InputError, listed
from breadth.inference import Floats
from breadth.sources.checkpoint_scores.scores import MOST_ITEMS, CheckpointScore, ScoreOptions, TrainingRun, real
from breadth.sources.columns import Column, Columns, json_list, json_object, text, whole_number
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile, pack
from breadth.sources.paths import path_text
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import (
    Object,
    SourceFile,
    as_text,
    beside,
    entries,
    mapping,
    model_arguments,
    number,
    numbered,
    parse,
    short_answer,
    text_item,
    words,
)
from breadth.sources.tools.common import drop_empty, epochs_to_read
from breadth.sources.training_steps import step_by_pattern, step_in, trainer_step
from breadth.sources.vocabulary_data import VOCABULARY

#: The names that the tool and its tasks use.
NAMES_USED = VOCABULARY["lm_eval"]

#: Keys of a document that hold what is asked, in any case of letters.
QUESTION_KEYS = frozenset(NAMES_USED["questions"])

#: Arguments that do not change what a model answers, and secrets.
IDLE_ARGUMENT = re.compile("|".join(NAMES_USED["idle_arguments"]))

#: Where the task begins in a file's name that has the model before it.
TASK_START = re.compile(f"_(?=(?:{'|'.join(NAMES_USED['task_beginnings'])}))")

#: The time stamp at the end of a file's name, without its suffix.
STAMP = re.compile(r"(?:^|_)(\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d{1,9})?)$")

#: The end of the name of a file that ``--write_out`` wrote in 2023.
WRITTEN_OUT = "_write_out_info"

#: The versions of files whose names hold the model's arguments; these files do not say it.
UNSTAMPED_VERSION = "0.4.0 to 0.4.2"

#: The latest version whose logs were tried.
NEWEST_TRIED = (0, 5)

#: The name of a filter that changes nothing.
NO_FILTER = "none"

#: Keys of a row of samples that are not metrics.
ROW_KEYS = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "scores_per_repeat"),
        *("doc_hash", "prompt_hash", "target_hash"),
    )
)

#: What is listed among the metrics of a task, but is none.
TASK_ENTRIES = frozenset(("alias", "name", "sample_len", "samples", "sample_count"))

#: Keys of rows and of results that look like this tool's but are another's: OLMES; Inspect and lighteval.
ROWS_OF_OTHERS = frozenset(("native_id", "request_type", "model_output", "metric"))
RESULTS_OF_OTHERS = frozenset(("eval", "samples", "config_general"))

#: How a row of samples begins, in every version since 0.4.
ROW_START = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[?\s*\{\s*"doc_id":\s*-?\d+,\s*"doc":')


# --- The sources, and how files are recognised ------------------------------------------------------------------------


class LmEval(Source):
    """Samples of lm-evaluation-harness, and the results beside them."""

    name: ClassVar[str] = "lm-eval"
    looks_like: ClassVar[str] = "lm-evaluation-harness samples_*.jsonl"

    def detect(self, file: SourceFile) -> Detection | None:
        """Samples by the keys of their first row, whatever the file's name says; results by theirs."""
        reason = samples_reason(file)
        if reason:
            return Detection(Part.ANSWERS, reason)
        reason = results_reason(file)
        if not reason:
            return None
        if has_samples(file.path):
            return Detection(Part.COMPANION, f"{reason}, and samples of its run are beside it", has_scores=True)
        return Detection(Part.SCORES, reason, has_scores=True)

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read a file of samples and the results of its run."""
        run = find_run(file.path, is_written_out(file))
        if is_written_out(file):
            samples = read_written_out(file, options.texts)
        else:
            samples = read_samples(file, options.texts)
        if not samples:
            raise SkipFile("holds no samples")
        for epoch in epochs_to_read(options, most_attempts(samples)):
            yield make_log(file, run, samples, options, epoch)


class LmEvalResults(Source):
    """Results of lm-evaluation-harness as scores of checkpoints, with samples beside them or without.

    Tasks come first in such a file: many of them, as 0.3 writes them, hide all other keys from :meth:`detect`. So it
    takes every file that may be one, and is asked after all sources that can be certain.
    """

    name: ClassVar[str] = "lm-eval-results"
    looks_like: ClassVar[str] = "lm-evaluation-harness results JSON"

    def detect(self, file: SourceFile) -> Detection | None:
        """Any object with results that is not known to be of another tool."""
        if not has_results(file):
            return None
        return Detection(Part.SCORES, results_reason(file) or "has results", has_scores=True)

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """Yield the results."""
        return read_results(file, options)


def samples_reason(file: SourceFile) -> str:
    """Why a file is one of samples; empty if it is none."""
    if ROW_START.match(file.head):
        return "rows begin with doc_id and doc"
    if is_written_out(file):
        return "a list of rows with doc_id and prompt_0"
    if {"doc_id", "doc"} <= file.keys and not ROWS_OF_OTHERS & file.keys:
        for key in ("arguments", "resps", "target"):
            if key in file.keys:
                return f"rows have doc_id, doc and {key}"
    return ""


def is_written_out(file: SourceFile) -> bool:
    """Whether a file is what ``--write_out`` wrote in 2023."""
    return file.is_list and {"doc_id", "prompt_0"} <= file.keys


def has_results(file: SourceFile) -> bool:
    """Whether a file may be one of results."""
    return not file.is_list and "results" in file.keys and not RESULTS_OF_OTHERS & file.keys


def results_reason(file: SourceFile) -> str:
    """Why a file is certainly one of results, of any version; empty if that is not certain."""
    if has_results(file):
        for keys in (("configs",), ("group_subtasks",), ("versions", "config")):
            if file.keys.issuperset(keys):
                return f"has results and {' and '.join(keys)}"
        # The results of many tasks fill the head, so that no other key is seen.
        if len(file.keys) == 1 and b"_stderr," in file.head:
            return "has results with standard errors by filter"
    return ""


def has_samples(path: Path) -> bool:
    """Whether samples lie beside a file of results."""
    names = json_names(path.parent, time_of_change(path.parent))
    stamp = stamp_of(path.stem)
    if stamp:
        return any(name.startswith("samples_") and stamp_of(Path(name).stem) == stamp for name in names)
    try:
        tasks = mapping(mapping(beside(path)).get("results"))
    except InputError:  # if samples need it, reading them says what is wrong
        return False
    ends: list[str] = []
    for task in tasks:
        ends += [f"_{task}.jsonl", f"{task}{WRITTEN_OUT}.json"]
    return any(name.endswith(tuple(ends)) for name in names)


def stamp_of(stem: str) -> str:
    """The time stamp in a file's name without its suffix; empty if there is none."""
    match = STAMP.search(stem)
    if match is None:
        return ""
    return match[1]


def time_of_change(folder: Path) -> int:
    """When a directory was last changed; 0 if it cannot be read."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


# Every file of a directory asks for its neighbours: they are looked for again only if the directory has changed.
@lru_cache(maxsize=64)
def json_names(folder: Path, _changed: int) -> Sequence[str]:
    """Files of a directory that may be results or samples."""
    return sorted(path.name for path in folder.glob("*.json*") if path.suffix in (".json", ".jsonl"))


@lru_cache(maxsize=64)
def unstamped_results(folder: Path, changed: int) -> Sequence[Path]:
    """Files of results in a directory whose names have no stamp."""
    paths: list[Path] = []
    for name in json_names(folder, changed):
        path = folder / name
        if path.suffix == ".json" and not stamp_of(path.stem) and results_reason(SourceFile.look(path)):
            paths.append(path)
    return paths


# --- What is declared: columns of samples and of results --------------------------------------------------------------

#: What a row of samples says of its document, if it is parsed whole. Rows of which the prompts are cut out, and all
#: answers, are read by hand below: there a microsecond a row is a tenth of the time of an import.
DOCUMENT_COLUMNS = Columns(
    Column("doc_id", type=whole_number, required=True),
    Column("doc"),
    Column("target"),
    Column("doc_hash", type=words),  # since 0.4.3
)

#: What results say of a run.
RUN_COLUMNS = Columns(
    Column("arguments", "config.model_args", model_arguments),
    Column("model_name", type=words),
    Column("backend", "config.model", words),
    Column("revision", "config.model_revision", words),
    Column("model_sha", "config.model_sha", words),
    Column("dtype", "config.model_dtype", words),
    Column("chat_template", type=words),
    Column("chat_template_sha", type=words),
    Column("system_instruction", type=words),
    Column("system_instruction_sha", type=words),
    Column("fewshot_as_multiturn"),
    Column("fewshot_seed", "config.fewshot_seed"),
    Column("random_seed", "config.random_seed"),
    Column("numpy_seed", "config.numpy_seed"),
    Column("torch_seed", "config.torch_seed"),
    Column("gen_kwargs", "config.gen_kwargs", as_text),
    Column("num_fewshot", "config.num_fewshot", real),  # 0.3; later every task has its own
    Column("limit", "config.limit", real),
    Column("date", type=real),
    Column("version", "lm_eval_version", words),
)

#: What results say of a task: each of these objects has an entry of its name.
TASK_OBJECTS = ("results", "configs", "versions", "n-shot", "n-samples", "higher_is_better", "group_subtasks")
TASK_COLUMNS = Columns(
    Column("values", "results", json_object, default={}),
    Column("metrics", "configs.metric_list", json_list, default=()),
    Column("filters", "configs.filter_list", json_list, default=()),
    Column("delimiter", "configs.target_delimiter", text),
    Column("output_type", "configs.output_type", text),
    Column("num_fewshot", "n-shot|configs.num_fewshot", real),
    Column("version", "versions", as_text),
    Column("asked", "n-samples.effective", real),
    Column("whole", "n-samples.original", real),
    Column("higher_is_better", type=json_object, default={}),
    Column("members", "group_subtasks", json_list, default=()),
)


def about_task(results: Object, task: str) -> dict[str, Any]:
    """What results say of a task."""
    return TASK_COLUMNS.read({key: mapping(results.get(key)).get(task) for key in TASK_OBJECTS}, "")


def ignored_notes(results: Object, where: str) -> list[str]:
    """Notes on entries of results that are not the objects that the tool writes: they are taken to be absent."""
    notes: list[str] = []
    for key in ("config", *TASK_OBJECTS):
        if results.get(key) is not None and not isinstance(results[key], dict):
            notes.append(f"{where}: {key!r} is not an object; it is ignored")
    return notes


# --- The run: model, subject and settings, from the results beside samples or from the file's name --------------------


@dataclass(frozen=True)
class HarnessRun:
    """Which run a file of samples is of: its task, and what is known of the model and how it was asked.

    ``about`` is what results say of the task (:data:`TASK_COLUMNS`).
    """

    task: str
    model: str
    stamp: str = ""
    version: str | None = None
    subject: Mapping[str, Plain] = field(default_factory=dict)
    settings: Mapping[str, Plain] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=lambda: about_task({}, ""))
    limit: float | None = None
    notes: Sequence[str] = ()

    def metric_configs(self) -> dict[str, Object]:
        """The configuration of every metric, by its name."""
        configs: dict[str, Object] = {}
        for config in map(mapping, self.about["metrics"]):
            name = words(config.get("metric"))
            if name is not None:
                configs[name] = config
        return configs

    def reported_means(self) -> Iterator[tuple[str, str, float]]:
        """Metric, filter and value of every mean in the results; other aggregates are not means of answers."""
        configs = self.metric_configs()
        for key, value in self.about["values"].items():
            name, _, variant = key.partition(",")
            mean = number(value)
            aggregation = mapping(configs.get(name)).get("aggregation", "mean")
            if mean is not None and aggregation in ("mean", "nanmean") and not name.endswith("_stderr"):
                yield name, variant or NO_FILTER, mean

    def lower_is_better(self) -> set[str]:
        """Metrics of which the results say that lower values are better."""
        said = list(self.about["higher_is_better"].items())
        for name, config in self.metric_configs().items():
            said.append((name, config.get("higher_is_better")))
        return {name for name, higher in said if higher is False}

    def partial_note(self, rows: int) -> str:
        """How the file falls short of its test set, if it does."""
        asked, whole = self.about["asked"], self.about["whole"]
        if asked is not None and rows != asked:
            return f"has {rows:,} samples of {asked:,.0f} that its results count: the file is partial"
        if asked is not None and whole is not None and asked < whole:
            return f"{asked:,.0f} of {whole:,.0f} items were asked (--limit or --samples)"
        if asked is None and self.limit is not None:
            return f"the items were limited (--limit {self.limit:g})"
        return ""

    def version_note(self) -> str:
        """What to say of a version that was never tried."""
        match = re.match(r"(\d{1,4})\.(\d{1,4})", self.version or "")
        if match is None or (int(match[1]), int(match[2])) <= NEWEST_TRIED:
            return ""
        return f"written by version {self.version}, which is newer than those that were tried; check the numbers"


def find_run(path: Path, written_out: bool) -> HarnessRun:
    """Find out which run a file of samples belongs to."""
    if written_out:
        return _run_by_task(path, path.stem.removesuffix(WRITTEN_OUT), "2023")
    stamp = stamp_of(path.stem)
    if not stamp:
        return _run_in_name(path)
    task = path.stem.removesuffix(stamp).removesuffix("_").removeprefix("samples_")
    for name in json_names(path.parent, time_of_change(path.parent)):
        if name.endswith(f"_{stamp}.json") and not name.startswith("samples_"):
            if "results" in mapping(beside(path.parent / name)):
                return _run_of_results(path.parent / name, task, stamp)
    folder = path.absolute().parent.name
    if "__" in folder:
        model, note = folder.strip("_").replace("__", "/"), "the model is named by the directory"
    else:
        model, note = f"unnamed {stamp}", "the model is not named; name it with --subject NAME=PATH"
    return HarnessRun(task, model, stamp, notes=[f"no results_{stamp}.json beside it; {note}"])


def _run_by_task(path: Path, task: str, version: str | None) -> HarnessRun:
    """A file that names its task only: results beside it name the model if there is only one such file."""
    of_task: list[Path] = []
    for results in unstamped_results(path.parent, time_of_change(path.parent)):
        if task in mapping(mapping(beside(results)).get("results")):
            of_task.append(results)
    if len(of_task) == 1:
        return _run_of_results(of_task[0], task, "", version)
    folder = path.absolute().parent.name
    note = f"the log does not name the model; it is called {folder!r} by its directory (--subject NAME=PATH names it)"
    return HarnessRun(task, folder, version=version, notes=[note])


def _run_in_name(path: Path) -> HarnessRun:
    """A file of 0.4.0 to 0.4.2: arguments of the model and task are in its name, with / and = written as __."""
    stem = path_text(path.stem)
    if stem.startswith("samples"):  # renamed by somebody
        return _run_by_task(path, stem.removeprefix("samples").strip("_-.") or stem, None)
    neighbours: list[Object] = []
    for neighbour in unstamped_results(path.parent, time_of_change(path.parent)):
        results = mapping(beside(neighbour))
        start = re.sub("[/=]", "__", str(mapping(results.get("config")).get("model_args"))) + "_"
        task = stem.replace("=", "__").removeprefix(start)
        if task in mapping(results.get("results")):
            return _run_of_results(neighbour, task, "", UNSTAMPED_VERSION)
        neighbours.append(results)
    task = _task_in_name(stem, neighbours)
    name = "" if task == stem else stem.removesuffix(f"_{task}")
    arguments: dict[str, str] = {}
    for part in name.split(","):
        key, *value = re.split("__|=", part, maxsplit=1)
        if value:
            arguments[key] = value[0].replace("__", "/")
    model = arguments.get(naming_argument(arguments)) or name or path.absolute().parent.name
    # Results of another model tell nothing of this one, but their configuration of the task holds for it as well.
    about = about_task({}, task)
    for results in neighbours:
        if mapping(mapping(results.get("configs")).get(task)):
            about = about_task({"configs": results["configs"]}, task)
            break
    notes: list[str] = []
    if not neighbours:
        notes.append(f"no results beside it; model {model!r} and task {task!r} are taken from its name")
    subject = telling_arguments(arguments)
    return HarnessRun(task, model, version=UNSTAMPED_VERSION, subject=subject, about=about, notes=notes)


def _task_in_name(stem: str, neighbours: Iterable[Object]) -> str:
    """The task at the end of a file's name: one that results know, one with a usual name, else what is after a part."""
    known = ""
    for results in neighbours:
        for task in (*mapping(results.get("configs")), *mapping(results.get("results"))):
            if stem.endswith(f"_{task}") and len(task) > len(known):
                known = task
    if known:
        return known
    usual = TASK_START.search(stem)
    if usual is not None:
        return stem[usual.end() :]
    start = 0
    if "__" in stem:  # after the model's last part, at the first underscore
        start = max(stem.rfind("__") + 2, stem.rfind(",") + 1)
    return stem[start:].partition("_")[2] or stem


def _run_of_results(path: Path, task: str, stamp: str, version: str | None = None) -> HarnessRun:
    """A run as its results describe it."""
    results = mapping(beside(path))
    own, about = RUN_COLUMNS.read(results, path_text(path)), about_task(results, task)
    notes = ignored_notes(results, path_text(path.name))
    model = own["arguments"].get(naming_argument(own["arguments"]))
    if model is None:
        model = own["model_name"] or own["backend"] or "unnamed"
        notes.append(f"the model has no name but {model!r}; name it with --subject NAME=PATH")
    if not stamp and own["date"] is not None and 0 < own["date"] < 1e11:  # in seconds; what is larger is damaged
        stamp = datetime.fromtimestamp(own["date"], UTC).strftime("%Y-%m-%dT%H-%M-%S")
    subject = _subject(own)
    settings = _settings(own, about)
    if "dtype" in subject:
        settings.pop("dtype", None)
    version = own["version"] or version
    return HarnessRun(task, model, stamp, version, subject, settings, about, own["limit"], notes)


def _subject(own: Mapping[str, Any]) -> dict[str, Plain]:
    """What makes the answers of a model differ from those of another of its name."""
    subject = telling_arguments(own["arguments"])
    if own["revision"] not in (None, "main"):
        subject.setdefault("revision", own["revision"])
    if own["model_sha"]:
        subject["model_sha"] = own["model_sha"][:12]
    for key in ("chat_template", "system_instruction"):
        if own[key]:
            whole = own[f"{key}_sha"] or hashlib.sha256(own[key].encode("utf-8", "replace")).hexdigest()
            subject[key] = whole[:8]
    return subject


def _settings(own: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Plain]:
    """How a model was asked."""
    shots = _few_shots(own, about)
    settings: dict[str, Any] = {}
    if shots is not None:
        settings["num_fewshot"] = int(shots)
    if shots:  # without examples it does not matter how they are chosen and shown
        settings["fewshot_seed"] = own["fewshot_seed"]
        settings["fewshot_as_multiturn"] = own["fewshot_as_multiturn"] is True or None
    settings["gen_kwargs"] = own["gen_kwargs"]
    settings["dtype"] = (own["dtype"] or "").removeprefix("torch.") or None
    settings["backend"] = own["backend"]
    settings["task_version"] = about["version"]
    if about["output_type"] == "generate_until":
        for key in ("random_seed", "numpy_seed", "torch_seed"):
            settings[key] = own[key]
    return {key: value for key, value in settings.items() if isinstance(value, str | int | float)}


def _few_shots(own: Mapping[str, Any], about: Mapping[str, Any]) -> float | None:
    """The number of few-shot examples of a task, or, as 0.3 says it, of the run."""
    shots: float | None = about["num_fewshot"]
    if shots is None:
        shots = own["num_fewshot"]
    return shots


def naming_argument(arguments: Mapping[str, str]) -> str:
    """The argument that names the model; empty if none does."""
    for key in NAMES_USED["naming_arguments"]:
        if arguments.get(key):
            return str(key)
    return ""


def telling_arguments(arguments: Mapping[str, str]) -> dict[str, Plain]:
    """Arguments that change what a model answers, without the one that names it."""
    defaults = {"revision": "main", "dtype": "auto"}
    telling: dict[str, Plain] = {}
    for key, value in arguments.items():
        is_default = value in ("None", defaults.get(key))
        if key != naming_argument(arguments) and not is_default and not IDLE_ARGUMENT.fullmatch(key.lower()):
            telling[key] = value
    return telling


# --- Lines of samples, parsed without their prompts -------------------------------------------------------------------
#
# Most of a row is ``arguments``: the prompt with its few-shot examples, once per option. Parsing it would take most of
# the time of an import, so it is cut out of the line before the rest is parsed. The cut is safe: a quotation mark in a
# JSON string is escaped, so ``, "arguments": `` can only be a key, and a row that has other keys after the cut than
# the row before it, or does not parse, is parsed as a whole. What stands before the cut, the document, is the same for
# every model: it is parsed once. So are the continuations that a model was given, if their bytes are the same.

#: Documents that are remembered for the next file, and the most bytes of each.
MOST_DOCUMENTS, LONGEST_HEAD = 20_000, 2_000

# Keys that stand before the cut, and all that are cut off; what the tool writes around what is looked for.
_HEAD_KEYS = frozenset(("doc_id", "doc", "target"))
_CUT_KEYS = frozenset((*_HEAD_KEYS, "arguments", "resps"))
_ARGUMENTS, _RESPONSES = b', "arguments": ', b', "filtered_resps": '
_FIRST_PROMPT, _CONTINUATION = b'{"gen_args_0": {"arg_0": "', b'", "arg_1": '
_CONTINUATION_END = re.compile(rb'("(?:[^"\\]|\\.)*+")\}(?:\}|, "gen_args_\d+": \{"arg_0": ")', re.DOTALL)


@dataclass(slots=True)
class ParsedDocument:
    """What a row says before its arguments: a document, its options where it lists them, and the target.

    ``hashed`` is the document's hash if it was computed, because rows do not say it; else empty. ``pieces`` are the
    bytes around each continuation of the last model that was asked, by which those of the next model are recognised;
    ``continuations`` and ``shown``, the options as a reader wants them, belong to them.
    """

    doc_id: int
    target: Any
    text: str | None
    options: list[list[str]]
    hashed: str
    pieces: list[bytes] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    shown: list[str] | None = None


class SampleRow(NamedTuple):
    """A line, parsed but for the arguments if they were cut out: these are at ``span`` then."""

    document: ParsedDocument
    hashed: str
    rest: dict[str, Any]
    span: tuple[int, int] | None = None


def whole_row(content: bytes, texts: bool, path: str, line: int) -> SampleRow:
    """Parse a line whole."""
    row, where = parse(content, path, line), f"{path}, line {line}"
    values = DOCUMENT_COLUMNS.read(row, where)
    hashed = values["doc_hash"]
    if hashed is None:
        if "doc" not in row:
            raise InputError(f"{where}: has neither doc nor doc_hash; the file is damaged")
        hashed = document_hash(values["doc"], where)
    return SampleRow(_parsed_document(values, texts, hashed), hashed, row)


def cut_row(line: bytes, expected: frozenset[str], texts: bool) -> SampleRow | None:
    """Parse a line without ``arguments`` and ``resps``; None if it must be parsed whole."""
    start = line.find(_ARGUMENTS)
    end = line.rfind(_RESPONSES)
    if not 0 < start < end:
        return None
    head, documents = line[:start], _documents(texts)
    try:
        rest = orjson.loads(b"{" + line[end + 2 :])
        if rest.keys() != expected:
            return None
        hashed, document = words(rest.get("doc_hash")), documents.get(head)
        if document is None or not (hashed or document.hashed):
            row = orjson.loads(head + b"}")
            if row.keys() != _HEAD_KEYS or whole_number(row["doc_id"]) is None:
                return None
            document = _parsed_document(row, texts, "" if hashed else document_hash(row["doc"], ""))
            if len(documents) >= MOST_DOCUMENTS:
                documents.clear()
            if len(head) <= LONGEST_HEAD:
                documents[head] = document
    except (orjson.JSONDecodeError, InputError):  # parsed whole, it says what is wrong
        return None
    return SampleRow(document, hashed or document.hashed, rest, (start + len(_ARGUMENTS), end))


@lru_cache(maxsize=1)
def _documents(texts: bool) -> dict[bytes, ParsedDocument]:
    """Documents of this process, with texts or without, by the bytes in which they are written."""
    return {}


def _parsed_document(values: Mapping[str, Any], texts: bool, hashed: str) -> ParsedDocument:
    document = ParsedDocument(values["doc_id"], values["target"], None, [], hashed)
    if texts:
        document.text = question(values["doc"])
        for key in NAMES_USED["options"]:
            choices = mapping(values["doc"]).get(key)
            if isinstance(choices, dict):
                choices = choices.get("text")
            if isinstance(choices, list) and all(map(words, choices)):
                document.options.append(choices)
    return document


def read_options(row: SampleRow, content: bytes, count: int, texts: bool) -> tuple[list[str], list[str] | None]:
    """The continuations of which log-likelihoods are given and, if asked for, the options as a reader wants them."""
    document, span = row.document, row.span
    if span is not None and _are_known(document, content, *span, count):
        return document.continuations, document.shown
    continuations = None
    if span is not None:
        continuations = _find_continuations(document, content, *span, count)
    if continuations is None:
        _, continuations = _requests(row.rest, content)
    document.continuations, document.shown = continuations, None
    if texts and len(set(continuations)) == 1:  # the options are in the contexts, as in Winogrande
        contexts, _ = _requests(row.rest, content)
        if contexts:
            document.shown = split_endings(contexts)[1]
    elif texts:
        document.shown = _readable_options(document.options, continuations)
    return continuations, document.shown


def _are_known(document: ParsedDocument, line: bytes, start: int, end: int, count: int) -> bool:
    """Whether a document's continuations are those of the last model: the same bytes after prompts of one length."""
    if len(document.pieces) != count:
        return False
    at = line.find(_CONTINUATION, start, end)
    length = at - start - len(_FIRST_PROMPT)
    for piece in document.pieces:
        if not line.startswith(piece, at):
            return False
        at += len(piece) + length
    return True


def _find_continuations(document: ParsedDocument, line: bytes, start: int, end: int, count: int) -> list[str] | None:
    """The continuation of each request, found by its key; None if the layout is not the usual one.

    Prompts of one document are mostly the same, so the next continuation is looked for at the same distance first.
    """
    document.pieces = []
    texts: list[str] = []
    pieces: list[bytes] = []
    at = line.find(_CONTINUATION, start, end)
    length = at - start - len(_FIRST_PROMPT)
    while at >= 0:
        match = _CONTINUATION_END.match(line, at + len(_CONTINUATION), end)
        if match is None:
            return None
        try:
            texts.append(orjson.loads(match[1]))
        except orjson.JSONDecodeError:
            return None
        pieces.append(line[at : match.end()])
        at = match.end() + length
        if not line.startswith(_CONTINUATION, at):
            at = line.find(_CONTINUATION, match.end(), end)
    if len(texts) != count:
        return None
    if len(set(texts)) > 1:  # else the options are in the prompts, as in Winogrande: every line must be looked at
        document.pieces = pieces
    return texts


def _requests(row: dict[str, Any], content: bytes) -> tuple[list[str], list[str]]:
    """Contexts and continuations of all requests, however the version writes them; whole rows are parsed if need be.

    Arguments that were cut out and cannot be parsed give no requests: the scores do not need them.
    """
    arguments = row.get("arguments")
    if "arguments" not in row:
        try:
            arguments = mapping(parse(content, "")).get("arguments")
        except InputError:
            return [], []
    if isinstance(arguments, dict):  # since 0.4.3
        arguments = list(arguments.values())
    contexts: list[str] = []
    continuations: list[str] = []
    for request in entries(arguments):
        if isinstance(request, dict):
            context, continuation = request.get("arg_0"), request.get("arg_1")
        else:
            context, continuation = [*entries(request)[:2], None, None][:2]
        contexts.append(text(context) or "")
        continuations.append(text(continuation) or "")
    return contexts, continuations


def document_hash(doc: Any, where: str) -> str:
    """A document's hash, as the tool has written it since 0.4.3."""
    try:
        written = json.dumps(doc, indent=2, ensure_ascii=False)
    except RecursionError:
        raise InputError(f"{where}: doc is nested too deeply; the file is damaged") from None
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def question(doc: Any) -> str | None:
    """What a document asks: its fields that usually hold it, else all its texts."""
    if not isinstance(doc, dict):
        return words(doc)
    named: dict[str, None] = {}
    for key, value in doc.items():
        if isinstance(value, str) and value and key.lower() in QUESTION_KEYS:
            named[value] = None
    if not named:
        return "\n".join(f"{key}: {value}" for key, value in doc.items() if isinstance(value, str)) or None
    parts: list[str] = []
    for part in named:
        if not any(part in other for other in named if other != part):  # a passage may quote the question
            parts.append(part)
    return "\n".join(parts)


def _readable_options(listed_options: Sequence[list[str]], continuations: Sequence[str]) -> list[str]:
    """The options as a reader wants them: where the model saw mere letters, the document may list the texts."""
    longest = max(map(len, continuations), default=0)
    for choices in listed_options:
        if longest <= len("(A)") and len(choices) == len(continuations):
            return choices
    return [continuation.strip() for continuation in continuations]


def split_endings(prompts: Sequence[str]) -> tuple[str, list[str]]:
    """What prompts begin with, all alike, and the rest of each, from the beginning of a word."""
    alike = 0
    for one, other in zip(min(prompts), max(prompts), strict=False):  # all others are between these two
        if one != other:
            break
        alike += 1
    first = prompts[0]
    start = first[: max(first.rfind(" ", 0, alike), first.rfind("\n", 0, alike)) + 1]
    return start, [prompt[len(start) :] for prompt in prompts]


def last_part(prompt: str) -> str:
    """The last paragraph of a prompt: those before it are few-shot examples."""
    return prompt[prompt.rstrip().rfind("\n\n") + 1 :].lstrip()


# --- Samples: what became of every document ---------------------------------------------------------------------------

#: Most characters of a prompt that are shown as a question, where there is no document.
LONGEST_PROMPT = 2000

_GREEDY = frozenset((True, False, "True", "False"))
_NUMBERED = re.compile(r"(?:prompt|logit)_(\d{1,4})")

#: The scores of a row by metric.
RowScores = dict[str, float | None]


@dataclass(slots=True)
class HarnessSample:
    """One document and what became of it; ``scores`` and ``responses`` by filter, or by its place if it has no name.

    ``logs`` are the log-likelihoods of the options, empty where the model writes freely. ``repeats`` are the scores of
    each attempt by metric, where a log has several attempts.
    """

    doc_id: int
    identity: str
    target: Any
    logs: list[float]
    continuations: list[str]
    text: str | None = None
    options: list[str] | None = None
    scores: dict[str | int, RowScores] = field(default_factory=dict)
    responses: dict[str | int, str | None] = field(default_factory=dict)
    repeats: dict[str | int, dict[str, list[float | None]]] = field(default_factory=dict)


def read_samples(file: SourceFile, texts: bool, fast: bool = True) -> list[HarnessSample]:
    """Read the samples of a file (0.4 and later), in the order of their documents' numbers.

    Several lines of one document are those of several filters. ``fast=False`` parses every line whole.
    """
    samples: dict[tuple[int, str], HarnessSample] = {}
    expected: frozenset[str] | None = None
    named: bool | None = None
    path = path_text(file.path)
    for line, content in file.rows():
        row = None
        if expected is not None:
            row = cut_row(content, expected, texts)
        if row is None:
            row = whole_row(content, texts, path, line)
            expected = None
            if fast and not file.is_list and row.rest.keys() >= _CUT_KEYS:
                expected = frozenset(row.rest.keys() - _CUT_KEYS)
        document, rest = row.document, row.rest
        filter_name = text(rest.get("filter"))  # since 0.4.7
        if named not in (None, filter_name is not None):
            raise InputError(f"{path}, line {line}: some lines name their filter, others do not; the file is damaged")
        named = filter_name is not None
        identity = row.hashed[:16]
        sample = samples.get((document.doc_id, identity))
        if sample is None:
            sample = HarnessSample(document.doc_id, identity, document.target, [], [], document.text)
            samples[document.doc_id, identity] = sample
            sample.logs = _log_likelihoods(rest.get("filtered_resps"))
            if sample.logs:
                sample.continuations, sample.options = read_options(row, content, len(sample.logs), texts)
            if texts and sample.text is None:
                sample.text = prompted(row, content)
        if not _add_scores(sample, filter_name, rest):
            raise InputError(
                f"{path}, line {line}: doc_id {sample.doc_id} has two different scores for filter "
                f"{filter_name!r}; the file holds several runs, split it"
            )
    return sorted(samples.values(), key=lambda sample: sample.doc_id)


def prompted(row: SampleRow, content: bytes) -> str | None:
    """What the prompt asks, where the document has no texts."""
    contexts, _ = _requests(row.rest, content)
    if not contexts:
        return None
    return words(last_part(contexts[0]))


def _add_scores(sample: HarnessSample, filter_name: str | None, row: Object) -> bool:
    """Add the scores of one line, unless there are others of its filter; without a name it is the next filter."""
    key: str | int = len(sample.scores) if filter_name is None else filter_name
    names = row.get("metrics")  # since 0.4.7; before, every other key is a metric
    if type(names) is not list:
        names = [name for name in row if name not in ROW_KEYS]
    scores: RowScores = {}
    for name in names:
        if type(name) is str:
            scores[name] = _score(row.get(name))
    if sample.scores.setdefault(key, scores) != scores:
        return False
    response = row.get("filtered_resps")
    if type(response) is list and response:
        response = response[0]
    sample.responses[key] = short_answer(response)
    for name, attempts in mapping(row.get("scores_per_repeat")).items():  # since 0.5
        if entries(attempts):
            sample.repeats.setdefault(key, {})[name] = list(map(_score, attempts))
    return True


def most_attempts(samples: Sequence[HarnessSample]) -> int:
    """How often a document was asked at most, where that is told; else 0."""
    most = 0
    for sample in samples:
        for repeats in sample.repeats.values():
            most = max(most, *map(len, repeats.values()))
    return most


def read_written_out(file: SourceFile, texts: bool) -> list[HarnessSample]:
    """Read what ``--write_out`` wrote in 2023: prompts, log-likelihoods and scores as text, no documents.

    A document is identified by the last paragraph of its prompts: those before it are few-shot examples. Documents
    which that does not tell apart are identified by their whole prompts.
    """
    samples: list[HarnessSample] = []
    by_prompts: list[str] = []
    for k, element in enumerate(entries(file.json())):
        row = mapping(element)
        sample = HarnessSample(k, "", row.get("truth"), [], [])
        sample.doc_id = row["doc_id"] if type(row.get("doc_id")) is int else k
        scores: RowScores = {}
        places: set[int] = set()
        for key, value in row.items():
            match = _NUMBERED.fullmatch(key)
            if match:
                places.add(int(match[1]))
            elif key not in ("doc_id", "truth"):
                scores[key] = _score(value)
        sample.scores[0] = scores
        prompts: list[str] = []
        pairs: list[Any] = []
        for place in sorted(places):
            prompts.append(words(row.get(f"prompt_{place}")) or "")
            answer = row.get(f"logit_{place}")
            pairs.append(answer if isinstance(answer, list) else [answer, False])
        if not any(prompts):
            raise InputError(f"{path_text(file.path)}, element {k + 1}: has no prompt_0; the file is damaged")
        sample.logs = _log_likelihoods(pairs)
        if not sample.logs:
            sample.responses[0] = short_answer(row.get(f"logit_{min(places)}"))
        start, rests = prompts[0], [""]
        if len(prompts) > 1:
            start, rests = split_endings(prompts)
        sample.identity = text_item(*(last_part(start) + rest for rest in rests))
        if texts:
            sample.text = last_part(start)[-LONGEST_PROMPT:].strip() or None
            sample.options = rests if sample.logs else None
        samples.append(sample)
        by_prompts.append(text_item(*prompts))
    count = Counter(sample.identity for sample in samples)
    for sample, identity in zip(samples, by_prompts, strict=True):
        if count[sample.identity] > 1:
            sample.identity = identity
    return sorted(samples, key=lambda sample: sample.doc_id)


def _log_likelihoods(responses: Any) -> list[float]:
    """Log-likelihoods of two or more options, each given with whether it is the greedy one; else empty."""
    if type(responses) is not list or len(responses) < 2:
        return []
    logs: list[float] = []
    try:
        for value, greedy in responses:
            if greedy not in _GREEDY:
                return []
            logs.append(float(value))
    except (TypeError, ValueError, OverflowError):
        return []
    return logs


def _score(value: Any) -> float | None:
    """A score; some versions write numbers and truth values as text."""
    if isinstance(value, str):
        if value in ("True", "False"):
            return float(value == "True")
        try:
            value = float(value)
        except ValueError:
            return None
    return number(value)


# --- Which option is right, which was chosen, and by what margin ------------------------------------------------------

#: Most cells of a table of options by row; a damaged file could ask for any number.
MOST_OPTION_CELLS = 5_000_000

Marks = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Choices:
    """Options by row: ``gold`` marks the right ones (None if no rule explains the scores), ``chosen`` by metric."""

    gold: Marks | None = None
    chosen: Mapping[str, Places] = field(default_factory=dict)
    margins: Mapping[str, Floats] = field(default_factory=dict)


def find_choices(
    samples: Sequence[HarnessSample], scores: Mapping[str, Floats], delimiter: str | None = None
) -> Choices:
    """Find choices, right options and margins of ``acc`` and ``acc_norm``; ``scores`` are those of one filter.

    Logs do not reliably say which option is right: ``target`` is an index, a list of them, the text of an option, or,
    for tasks whose options differ in the context, something else. A rule to read it is accepted only if it reproduces
    the log's own scores on every row. With two options the right one follows from the scores. Otherwise there is no
    margin.

    ``delimiter`` stands between context and continuation; ``acc_norm`` divides by the length of the option without it.
    """
    counts = np.array([len(sample.logs) for sample in samples], dtype=np.intp)
    if "acc_mutual_info" in scores:
        counts //= 2  # the second half are log-likelihoods without the context
    if not len(samples) or not 2 <= counts.max() <= MOST_OPTION_CELLS // len(samples):
        return Choices()
    inside: Marks = np.arange(counts.max()) < counts[:, None]
    sums = _option_table([sample.logs[:n] for sample, n in zip(samples, counts, strict=True)], inside)
    acc, acc_norm = scores.get("acc"), scores.get("acc_norm")
    normalised: list[Floats] = []
    if acc_norm is not None:
        normalised = [sums / lengths for lengths in _option_lengths(samples, counts, inside, delimiter)]
    gold: Marks | None = None
    chosen: dict[str, Places] = {}
    margins: dict[str, Floats] = {}
    if acc is not None:
        chosen["acc"] = sums.argmax(axis=1)
        gold = _right_options(samples, counts, chosen["acc"], acc)
        if gold is not None:
            margins["acc"] = _log_odds(sums, gold, inside, acc)
    elif acc_norm is not None:
        for shares in normalised:
            gold = _right_options(samples, counts, shares.argmax(axis=1), acc_norm)
            if gold is not None:
                normalised = [shares]
                break
    if gold is not None and acc_norm is not None:
        for shares in normalised:
            best = shares.argmax(axis=1)
            if _explains(gold, best, acc_norm):
                chosen["acc_norm"], margins["acc_norm"] = best, _log_odds(shares, gold, inside, acc_norm)
                break
    return Choices(gold, chosen, margins)


def _option_table(rows: Iterable[Iterable[float]], inside: Marks) -> Floats:
    """Numbers of options by row, in the places that rows have."""
    table = np.full(inside.shape, -np.inf)
    table[inside] = np.fromiter(chain.from_iterable(rows), dtype=np.float64)
    return table


def _option_lengths(
    samples: Sequence[HarnessSample], counts: Places, inside: Marks, delimiter: str | None
) -> Iterator[Floats]:
    """Lengths of the options in characters: without the delimiter if every continuation begins with it, then with."""
    if delimiter is None:
        delimiter = " "
    rows: list[Iterable[int]] = []
    all_begin_with_it = delimiter != ""
    for sample, n in zip(samples, counts.tolist(), strict=True):
        if len(sample.continuations) < n:
            return
        continuations = sample.continuations[:n]
        rows.append(map(len, continuations))
        for continuation in continuations:
            all_begin_with_it = all_begin_with_it and continuation.startswith(delimiter)
    lengths = _option_table(rows, inside)
    shorter = lengths - len(delimiter)
    if all_begin_with_it and shorter[inside].min() > 0:
        yield np.where(inside, shorter, 1.0)
    if lengths[inside].min() > 0:
        yield np.where(inside, lengths, 1.0)


def _right_options(samples: Sequence[HarnessSample], counts: Places, chosen: Places, acc: Floats) -> Marks | None:
    """The right options, by the rule that explains ``acc``; None if none does, or two do that disagree."""
    scored = ~np.isnan(acc)
    if not np.isin(acc[scored], (0.0, 1.0)).all() or (counts[scored] < 2).any():
        return None
    width = int(counts.max())
    if (counts[scored] == 2).all():
        right = np.where(acc == 1, chosen, 1 - chosen)
        inferred: Marks = (np.arange(width) == right[:, None]) & scored[:, None]
        return inferred
    accepted: Marks | None = None
    for rule in (_places_by_index, _places_by_text):
        gold = np.zeros((len(samples), width), dtype=np.bool_)
        for k, (sample, count) in enumerate(zip(samples, counts.tolist(), strict=True)):
            for place in rule(sample.target, sample.continuations[:count]):
                if 0 <= place < count:
                    gold[k, place] = True
        if not _explains(gold, chosen, acc):
            continue
        if accepted is not None and (gold != accepted)[scored].any():
            return None
        accepted = gold
    return accepted


def _explains(gold: Marks, chosen: Places, acc: Floats) -> bool:
    """Whether every row has a right option, and what was chosen is one exactly where the log says so."""
    scored = ~np.isnan(acc)
    right = gold[np.arange(len(gold)), chosen]
    return bool(gold[scored].any(axis=1).all() and (right == (acc == 1))[scored].all())


def _places_by_index(target: Any, _: Sequence[str]) -> list[int]:
    """An index or a list of them; since 0.4.4 they are written as text."""
    if isinstance(target, str):
        try:
            target = orjson.loads(target)
        except orjson.JSONDecodeError:
            return []
    return [place for place in _listed(target) if type(place) is int]


def _places_by_text(target: Any, continuations: Sequence[str]) -> list[int]:
    """The text of an option, or a list of such texts; blanks around it do not count."""
    texts = {one.strip() for one in _listed(target) if isinstance(one, str)}
    return [place for place, continuation in enumerate(continuations) if continuation.strip() in texts]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _log_odds(logs: Floats, gold: Marks, inside: Marks, acc: Floats) -> Floats:
    """Log-odds of the right options against all others; NaN where they are not finite."""
    with np.errstate(invalid="ignore", divide="ignore"):
        right = np.logaddexp.reduce(np.where(gold & inside, logs, -np.inf), axis=1)
        wrong = np.logaddexp.reduce(np.where(~gold & inside, logs, -np.inf), axis=1)
        odds: Floats = right - wrong
    odds[~np.isfinite(odds) | np.isnan(acc)] = np.nan
    return odds


# --- The log ----------------------------------------------------------------------------------------------------------


class FileScores(NamedTuple):
    """The scores of a file: numbers by metric and sample, and under which key samples have each filter."""

    filter_keys: Mapping[str, str | int]
    values: Mapping[Metric, Floats]
    notes: Sequence[str]

    def preferred(self, options: Options) -> Metric:
        """The metric whose answers are shown: the preferred one of those that were asked for, if there are any."""
        order = {name: place for place, name in enumerate(NAMES_USED["metrics"])}
        metrics = sorted(self.values, key=lambda metric: order.get(metric.name, len(order)))
        for metric in metrics:
            if options.metric in (None, metric.name) and options.variant in (None, metric.variant):
                return metric
        return metrics[0]


def make_log(
    file: SourceFile, run: HarnessRun, samples: Sequence[HarnessSample], options: Options, epoch: int | None
) -> Log:
    """What a file of samples hands over."""
    scores = collect_scores(samples, run, options, epoch)
    shown = scores.preferred(options)
    margins: dict[Metric, Floats] = {}
    choices = Choices()
    for variant in dict.fromkeys((shown.variant, *scores.filter_keys)):
        own: dict[str, Floats] = {}
        for metric, column in scores.values.items():
            if metric.variant == variant:
                own[metric.name] = column
        found = find_choices(samples, own, run.about["delimiter"])
        for name, column in found.margins.items():
            margins[Metric(name, variant)] = column
        if variant == shown.variant:
            choices = found
    subject = dict(run.subject)
    stated: dict[Metric, float] = {}
    if epoch is None:
        for name, variant, mean in run.reported_means():
            is_hidden = variant == NO_FILTER and "" in scores.filter_keys
            metric = Metric(name, "" if is_hidden else variant)
            if metric in scores.values:
                stated[metric] = mean
    else:  # what results state is the mean over all attempts
        subject["epoch"] = epoch
    notes = [*run.notes, *scores.notes, run.partial_note(len(samples)), run.version_note()]
    return Log(
        path=str(file.path),
        tool="lm-evaluation-harness",
        version=run.version,
        testset=run.task,
        model=run.model,
        items=pack(numbered(sample.identity for sample in samples)),
        values=scores.values,
        prefer=NAMES_USED["metrics"],
        margins=margins,
        answers=_given_answers(samples, choices, shown, scores.filter_keys[shown.variant]),
        texts=_item_texts(samples, choices) if options.texts else {},
        subject=subject,
        settings=run.settings,
        stamp=run.stamp,
        stated=stated,
        notes=[f"{path_text(file.path)}: {note}" for note in notes if note],
    )


def collect_scores(
    samples: Sequence[HarnessSample], run: HarnessRun, options: Options, epoch: int | None = None
) -> FileScores:
    """Collect all numbers, of one attempt where samples have several and not their mean is wanted.

    A metric that has none, such as pairs of label and prediction, is left out.
    """
    keys: dict[str | int, None] = {}
    names: dict[tuple[str | int, str], None] = {}
    for sample in samples:
        for key, scores in sample.scores.items():
            keys[key] = None
            for name in scores:
                names[key, name] = None
    filters, notes = _name_filters(list(keys), run, options)
    variants = dict(zip(keys, filters, strict=True))
    lower = run.lower_is_better() - {options.metric}
    values: dict[Metric, Floats] = {}
    left_out: dict[str, str] = {}
    for key, name in names:
        column = np.array([sample.scores.get(key, {}).get(name) for sample in samples], dtype=np.float64)
        if np.isnan(column).all():
            left_out[name] = name
        elif name in lower:
            left_out[name] = f"{name}, of which lower values are better"
        else:
            if epoch is not None:
                column = _scores_of_attempt(samples, key, name, epoch)
            values[Metric(name, variants[key])] = column
    if not values:
        why = "made with --predict_only" if "bypass" in left_out else "give no number for an answer"
        raise SkipFile(f"no answer is scored: {listed(left_out.values(), 6) or 'no metrics'} ({why})")
    return FileScores(dict(zip(filters, keys, strict=True)), values, notes)


def _scores_of_attempt(samples: Sequence[HarnessSample], key: str | int, name: str, epoch: int) -> Floats:
    """The scores of one attempt; NaN where a document was asked less often."""
    column = np.full(len(samples), np.nan)
    for row, sample in enumerate(samples):
        attempts = sample.repeats.get(key, {}).get(name, [])
        if epoch <= len(attempts):
            column[row] = attempts[epoch - 1]
    return column


def _name_filters(keys: Sequence[str | int], run: HarnessRun, options: Options) -> tuple[list[str], list[str]]:
    """Names of the filters that samples have under some keys: versions before 0.4.7 only say their places."""
    names = [key for key in keys if isinstance(key, str)]
    notes: list[str] = []
    if not names:
        names = [str(mapping(one).get("name")) for one in run.about["filters"]]
        if len(keys) == 1 and not names:
            names = [NO_FILTER]
        if len(set(names)) != len(keys):
            names = [f"filter-{place + 1}" for place in range(len(keys))]
            notes = [f"{len(keys)} filters without names; they are called {listed(names, 4)}"]
    # A filter that changes nothing is not shown, so that logs of tools without filters agree.
    if NO_FILTER in names and "" not in names and options.variant != NO_FILTER:
        names[names.index(NO_FILTER)] = ""
    return names, notes


@cache
def _option_labels(count: int) -> list[str]:
    """A to Z, then 27, 28, ..."""
    return [chr(ord("A") + place) if place < 26 else str(place + 1) for place in range(count)]


def _given_answers(
    samples: Sequence[HarnessSample], choices: Choices, metric: Metric, key: str | int
) -> Sequence[str | None] | None:
    """What was chosen, or what the filter extracted from what was written; None if nothing is known."""
    chosen = choices.chosen.get(metric.name, choices.chosen.get("acc"))
    answers: list[str | None] = []
    if chosen is None:
        answers = [sample.responses.get(key) for sample in samples]
    else:
        labels = _option_labels(int(chosen.max()) + 1)
        for sample, place in zip(samples, chosen.tolist(), strict=True):
            answers.append(labels[place] if sample.logs else None)
    return pack(answers) if any(answers) else None


def _item_texts(samples: Sequence[HarnessSample], choices: Choices) -> dict[str, Sequence[Any]]:
    """Columns that describe the items; those that are empty are left out."""
    labels: list[str | None] = [None] * len(samples)
    most = None
    if choices.gold is not None:
        most = choices.gold.shape[1]
        for k, place in np.argwhere(choices.gold).tolist():
            label = _option_labels(most)[place]
            labels[k] = label if labels[k] is None else f"{labels[k]}, {label}"
    columns: dict[str, list[Any]] = {"text": [], "options": [], "option_labels": [], "label": labels, "target": []}
    for sample, answer in zip(samples, labels, strict=True):
        options = (sample.options or [])[:most] or None
        columns["text"].append(sample.text)
        columns["options"].append(options)
        columns["option_labels"].append(options and _option_labels(len(options)))
        columns["target"].append(_target_text(sample.target) if answer is None else None)
    return {name: pack(column) for name, column in drop_empty(columns).items()}


def _target_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # nested too deeply, or a whole number of too many digits
        return None


# --- Results as scores of checkpoints ---------------------------------------------------------------------------------

#: Arguments of a model that tell runs of one name apart.
TELLING_ARGUMENTS = ("subfolder", "delta", "dtype", "load_in_8bit", "load_in_4bit", "quantization", "gguf_file")


def read_results(file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
    """Yield the results of lm-evaluation-harness, 0.3 (``acc``) and 0.4 and later (``acc,none``)."""
    results, path = mapping(file.json()), path_text(file.path)
    for key in ("results", "versions", "config"):
        if key not in results:
            raise SkipFile(f"has no {key!r}, as results of lm-evaluation-harness have")
    for key in ("results", "versions", "config"):
        if not isinstance(results[key], dict):
            raise InputError(f"{path}: {key!r} is not an object; the file is damaged")
    options.notes.extend(ignored_notes(results, path))
    own = RUN_COLUMNS.read(results, path)
    run, step = _checkpoint(file, own, options.step_pattern)
    not_numbers: list[str] = []
    for task, values in results["results"].items():
        if not isinstance(values, dict):
            raise InputError(f"{path}: 'results.{task}' is not an object; the file is damaged")
        about = about_task(results, task)
        members: list[str] = []
        for member in about["members"]:
            if isinstance(member, str) and member in results["results"]:
                members.append(member)
        shots = _few_shots(own, about)
        setting = "" if shots is None else f"{shots:g}-shot"
        for key, value in values.items():
            metric, comma, variant = key.partition(",")
            if metric.endswith("_stderr") or metric in TASK_ENTRIES:
                continue
            mean = real(value)
            if mean is not None:
                items = _items_evaluated(about["asked"], mean, values.get(f"{metric}_stderr{comma}{variant}"))
                shown = "" if variant == NO_FILTER else variant
                yield CheckpointScore(
                    run, step, task, mean, own["date"] or 0.0, metric, shown, setting, items, tuple(members)
                )
            elif comma and value is not None:  # what has no comma may be about the task
                not_numbers.append(f"results.{task}.{key}")
    if not_numbers:
        options.notes.append(f"{path}: left out, as they are not numbers: {listed(not_numbers, 4)}")


def _items_evaluated(asked: float | None, mean: float, error: Any) -> int | None:
    """How many items a mean is over: as many as the results count, else as many as its standard error tells."""
    if asked is not None and 0 < asked < MOST_ITEMS:
        return int(asked)
    return items_from_error(mean, real(error))


def items_from_error(accuracy: float, error: float | None) -> int | None:
    """The number of items, from an accuracy and its standard error sqrt(p (1 - p) / (n - 1)); None if it is no such."""
    if error is None or error < 1e-9 or not 0 < accuracy < 1:
        return None
    n = accuracy * (1 - accuracy) / (error * error) + 1  # error**2 would raise where it overflows
    # An accuracy is a whole number of items divided by n; other metrics hardly ever are.
    right = accuracy * round(n)
    if abs(n - round(n)) >= 0.01 or abs(right - round(right)) >= 1e-6 * round(n):
        return None
    return round(n)


def _checkpoint(
    file: SourceFile, own: Mapping[str, Any], pattern: re.Pattern[str] | None
) -> tuple[TrainingRun, float | None]:
    """The run and the step that results are about, from revision, model and path."""
    arguments = own["arguments"]
    named = (*map(arguments.get, ("peft", "pretrained", "model")), own["model_name"], own["backend"])
    model = next(filter(None, named), path_text(file.path.stem)).rstrip("/")
    branch = revision = arguments.get("revision", "")
    step: float | None = None
    run = model
    # The file's own name holds the step only in old versions; new ones write a date there.
    for place in (revision, model, file.path.parent.as_posix(), file.path.stem):
        if pattern is not None:
            stated = step_by_pattern(place, pattern)
        elif place == revision:
            stated = step_in(place)
        else:  # what the model itself is called is no step
            stated = step_in(place, model)
        if stated.step is not None:
            step = stated.step
            if place == model:
                run = stated.rest or model
            if place == revision:
                branch = stated.rest
            break
    if step is None:
        step = trainer_step(model)
    attributes: list[str] = []
    for key in TELLING_ARGUMENTS:
        if arguments.get(key):
            attributes.append(f"{key}={arguments[key]}")
    for key in ("chat_template_sha", "system_instruction_sha"):
        if own[key]:
            attributes.append(f"{key}={own[key][:8]}")
    if arguments.get("peft") and arguments.get("pretrained"):
        attributes.append(f"pretrained={arguments['pretrained']}")
    at = "" if branch in ("", "main", "None") else f"@{branch}"
    return TrainingRun(f"{run}{at}", tuple(attributes), run), step

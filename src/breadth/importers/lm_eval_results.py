"""What lies beside a file of samples of lm-evaluation-harness: results with the model, the settings and the means.

Samples and results of one run carry the same time stamp. Files of several runs and models may share a directory, so a
stamp is the only way to pair them. Versions 0.4.0 to 0.4.2 have no stamps: there the samples' name holds the arguments
of the model, and ``results.json`` is that of the last model only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from breadth.errors import InputError
from breadth.importers.logs import Plain
from breadth.importers.reading import LogFile, Object, as_text, entries, mapping, model_arguments, number, words
from breadth.importers.score_files import is_harness_results

STAMP = re.compile(r"(?:^|_)(\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d{1,9})?)$")

WRITTEN_OUT = "_write_out_info"

#: Arguments that name the model, in the tool's own order: an adapter is named before the model it adapts.
NAMES = ("peft", "delta", "pretrained", "model", "path", "engine")

#: Arguments that change how a model is run, but not what it answers; and secrets.
NOISE = re.compile(
    r"device|device_map.*|parallelize|.*batch_size.*|.*parallel_size|data_parallel.*|gpu_memory_utilization|base_url"
    r"|num_concurrent|max_retries|timeout|trust_remote_code|use_accelerate|low_cpu_mem_usage|tokenizer_backend"
    r"|tokenized_requests|verify_certificate|eos_string|header|cache_dir|offload_folder|max_.*_memory|max_memory.*"
    r"|local_files_only|max_length|max_model_len|swap_space|backend|disable_.*|enforce_eager|seed"
    r"|.*(?:api_?key|secret|password|credential).*|(?:.*_)?token|use_auth_token"
)

#: Beginnings of tasks' names, to tell task from model in a name where no results are beside it.
TASKS = re.compile(
    r"_(?=(?:arc_|ai2_arc|hellaswag|mmlu|hendrycks|winogrande|winogender|truthfulqa|gsm8k|gsm_|piqa|boolq|openbookqa"
    r"|lambada|sciq|logiqa|race|copa|xcopa|rte|wic|wsc|cb$|multirc|record|super_?glue|glue|cola|mnli|mrpc|qnli|qqp|sst"
    r"|anli|triviaqa|nq_open|webqs|drop|squad|coqa|bbh|bigbench|agieval|math|minerva|mathqa|asdiv|svamp|aime|gpqa|ifeval"
    r"|humaneval|mbpp|leaderboard|musr|medqa|medmcqa|pubmedqa|headqa|prost|qasper|swag|social_iqa|siqa|commonsense"
    r"|wikitext|pile|c4$|paloma|belebele|xnli|xstorycloze|xwinograd|pawsx|mgsm|ceval|cmmlu|kmmlu|kobest|blimp|crows"
    r"|toxigen|realtoxicity|unscramble|arithmetic|storycloze|eq_bench|fda|swde|tiny|metabench|babi|ruler|longbench))"
)


@dataclass(frozen=True)
class Run:
    """Which run a file of samples is of: its task, and what is known of the model and how it was asked."""

    task: str
    model: str
    stamp: str = ""
    version: str | None = None
    subject: Mapping[str, Plain] = field(default_factory=dict)
    settings: Mapping[str, Plain] = field(default_factory=dict)
    task_config: Object = field(default_factory=dict)
    results: Object = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def filters(self) -> list[str]:
        """Names of the filters, in the order in which samples are written."""
        return [str(mapping(one).get("name")) for one in entries(self.task_config.get("filter_list"))]

    def stated(self) -> Iterator[tuple[str, str, float]]:
        """Metric, filter and value of every mean in the results."""
        kinds = {mapping(one).get("metric"): mapping(one) for one in entries(self.task_config.get("metric_list"))}
        for key, value in mapping(mapping(self.results.get("results")).get(self.task)).items():
            name, _, variant = key.partition(",")
            mean, kind = number(value), kinds.get(name, {}).get("aggregation", "mean")
            if mean is not None and kind in ("mean", "nanmean") and not name.endswith("_stderr"):
                yield name, variant or "none", mean

    def lower_is_better(self) -> set[str]:
        """Metrics of which the results say that lower values are better."""
        named = mapping(mapping(self.results.get("higher_is_better")).get(self.task))
        listed = {mapping(one).get("metric"): mapping(one) for one in entries(self.task_config.get("metric_list"))}
        return {name for name, higher in named.items() if higher is False} | {
            name for name, one in listed.items() if isinstance(name, str) and one.get("higher_is_better") is False
        }

    def partial(self, rows: int) -> str | None:
        """How the file falls short of its test set, if it does."""
        samples = mapping(mapping(self.results.get("n-samples")).get(self.task))
        asked, whole = number(samples.get("effective")), number(samples.get("original"))
        limit = number(mapping(self.results.get("config")).get("limit"))
        if asked is not None and rows != asked:
            return f"has {rows:,} samples of {asked:,.0f} that its results count: the file is partial"
        if asked is not None and whole is not None and asked < whole:
            return f"{asked:,.0f} of {whole:,.0f} items were asked (--limit or --samples)"
        if asked is None and limit is not None:
            return f"the items were limited (--limit {limit:g})"
        return None


def is_results(file: LogFile) -> bool:
    """Whether a file looks like results of any version. The head may end before most keys."""
    return is_harness_results(file) and (
        bool({"configs", "group_subtasks"} & file.keys)
        or {"versions", "config"} <= file.keys
        or (b"_stderr," in file.head and len(file.keys) == 1)
    )


def has_samples(path: Path) -> bool:
    """Whether samples lie beside a file of results."""
    names, stamp = _names(path.parent), STAMP.search(path.stem)
    if stamp:
        return any(name.startswith("samples_") and STAMP.findall(Path(name).stem) == [stamp[1]] for name in names)
    try:
        tasks = tuple(mapping(mapping(_content(path)).get("results")))
    except InputError:  # if samples need it, reading them says what is wrong
        return False
    ends = tuple(f"_{task}.jsonl" for task in tasks) + tuple(f"{task}{WRITTEN_OUT}.json" for task in tasks)
    return any(name.endswith(ends) for name in names) if tasks else False


def run_of(path: Path, written_out: bool) -> Run:
    """Find out which run a file of samples belongs to."""
    stamp = STAMP.search(path.stem)
    if written_out:
        return _run_without_model(path, path.stem.removesuffix(WRITTEN_OUT), "2023")
    if stamp is None:
        return _run_in_name(path)
    task = path.stem[: stamp.start()].removeprefix("samples_")
    for name in _names(path.parent):
        if name.endswith(f"_{stamp[1]}.json") and not name.startswith("samples_"):
            results = mapping(_content(path.parent / name))
            if "results" in results:
                return _run(task, results, stamp[1])
    folder = path.absolute().parent.name
    if "__" in folder:
        model, note = folder.strip("_").replace("__", "/"), "the model is named by the directory"
    else:
        model, note = f"unnamed {stamp[1]}", "the model is not named; name it with --subject NAME=PATH"
    return Run(task, model, stamp[1], notes=(f"no results_{stamp[1]}.json beside it; {note}",))


def _run_without_model(path: Path, task: str, version: str | None) -> Run:
    """A file that names its task only: results beside it name the model if there is only one such file."""
    beside = [results for results in _unstamped(path.parent) if task in mapping(results.get("results"))]
    if len(beside) == 1:
        return _run(task, beside[0], "", version)
    folder = path.absolute().parent.name
    note = f"the log does not name the model; it is called {folder!r} by its directory (--subject NAME=PATH names it)"
    return Run(task, folder, version=version, notes=(note,))


def _run_in_name(path: Path) -> Run:
    """A file of 0.4.0 to 0.4.2: arguments of the model and task are in its name, with / and = written as __."""
    if path.stem.startswith("samples"):  # renamed by somebody
        return _run_without_model(path, path.stem.removeprefix("samples").strip("_-.") or path.stem, None)
    beside = _unstamped(path.parent)
    for results in beside:
        start = re.sub("[/=]", "__", str(mapping(results.get("config")).get("model_args"))) + "_"
        task = path.stem.replace("=", "__").removeprefix(start)
        if task in mapping(results.get("results")):
            return _run(task, results, "", "0.4.0 to 0.4.2")
    named = [mapping(results.get(key)) for results in beside for key in ("configs", "results")]
    ends = [task for tasks in named for task in tasks if path.stem.endswith(f"_{task}")]
    known = TASKS.search(path.stem)
    if ends:
        task = max(ends, key=len)
    elif known:
        task = path.stem[known.end() :]
    else:  # after the model's last part, at the first underscore
        last = max(path.stem.rfind("__") + 2, path.stem.rfind(",") + 1, 0) if "__" in path.stem else 0
        task = path.stem[last:].partition("_")[2] or path.stem
    name = path.stem.removesuffix(f"_{task}") if task != path.stem else ""
    pairs = (re.split("__|=", part, maxsplit=1) for part in name.split(","))
    arguments = {pair[0]: pair[1].replace("__", "/") for pair in pairs if len(pair) == 2}
    config = next((own for one in beside if (own := mapping(mapping(one.get("configs")).get(task)))), {})
    model = next((arguments[key] for key in NAMES if arguments.get(key)), name or path.absolute().parent.name)
    notes = () if beside else (f"no results beside it; model {model!r} and task {task!r} are taken from its name",)
    return Run(task, model, version="0.4.0 to 0.4.2", subject=_described(arguments), task_config=config, notes=notes)


def _run(task: str, results: Object, stamp: str, version: str | None = None) -> Run:
    """A run as its results describe it."""
    config, task_config = mapping(results.get("config")), mapping(mapping(results.get("configs")).get(task))
    arguments, notes = model_arguments(config.get("model_args")), []
    named = next((arguments[key] for key in NAMES if arguments.get(key)), None)
    model = named or words(results.get("model_name")) or words(config.get("model")) or "unnamed"
    if named is None:
        notes.append(f"the model has no name but {model!r}; name it with --subject NAME=PATH")
    subject: dict[str, Plain] = _described(arguments)
    revision, sha = words(config.get("model_revision")), words(config.get("model_sha"))
    if revision and revision != "main":
        subject.setdefault("revision", revision)
    if sha:
        subject["model_sha"] = sha[:12]
    for key in ("chat_template", "system_instruction"):
        if text := words(results.get(key)):
            whole = words(results.get(f"{key}_sha")) or hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
            subject[key] = whole[:8]
    shots = number(mapping(results.get("n-shot")).get(task))
    if shots is None:
        shots = number(task_config.get("num_fewshot", config.get("num_fewshot")))
    settings: dict[str, Any] = {
        "num_fewshot": None if shots is None else int(shots),
        "fewshot_seed": config.get("fewshot_seed") if shots else None,
        "fewshot_as_multiturn": results.get("fewshot_as_multiturn") is True or None if shots else None,
        "gen_kwargs": as_text(config.get("gen_kwargs")),
        "dtype": str(config.get("model_dtype") or "").removeprefix("torch.") or None,
        "backend": words(config.get("model")),
        "task_version": as_text(mapping(results.get("versions")).get(task)),
    }
    if "dtype" in subject:
        del settings["dtype"]
    if task_config.get("output_type") == "generate_until":
        settings |= {key: config.get(key) for key in ("random_seed", "numpy_seed", "torch_seed")}
    date = number(results.get("date"))
    if not stamp and date is not None and 0 < date < 1e11:
        stamp = datetime.fromtimestamp(date, UTC).strftime("%Y-%m-%dT%H-%M-%S")
    used = {key: value for key, value in settings.items() if value is not None and isinstance(value, str | int | float)}
    written_by = words(results.get("lm_eval_version")) or version
    return Run(task, model, stamp, written_by, subject, used, task_config, results, tuple(notes))


def _described(arguments: Mapping[str, str]) -> dict[str, Plain]:
    """Arguments that change what a model answers, without the one that names it."""
    name = next((key for key in NAMES if arguments.get(key)), None)
    default = {"revision": "main", "dtype": "auto"}
    return {
        key: value
        for key, value in arguments.items()
        if key != name and value not in ("None", default.get(key)) and not NOISE.fullmatch(key.lower())
    }


def _names(folder: Path) -> tuple[str, ...]:
    """Files of a directory that may be results or samples."""
    try:
        return _names_then(folder, folder.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=64)
def _names_then(folder: Path, _: int) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir() if path.suffix in (".json", ".jsonl")))


def _unstamped(folder: Path) -> list[Object]:
    """Results in a directory whose names have no stamp."""
    try:
        paths = _unstamped_then(folder, folder.stat().st_mtime_ns)
    except OSError:
        return []
    return [mapping(_content(path)) for path in paths]


@lru_cache(maxsize=64)
def _unstamped_then(folder: Path, _: int) -> tuple[Path, ...]:
    paths = [folder / name for name in _names(folder) if name.endswith(".json") and not STAMP.search(name[:-5])]
    return tuple(path for path in paths if is_results(LogFile.look(path)))


def _content(path: Path) -> Any:
    """A file of results, kept for the next samples of its run."""
    try:
        state = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return _content_then(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _content_then(path: Path, *_: int) -> Any:
    return LogFile.look(path).json()

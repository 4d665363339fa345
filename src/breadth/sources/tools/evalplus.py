"""EvalPlus and BigCodeBench: ``*_eval_results.json``.

A task passes or fails on its original tests (test sets ``humaneval``, ``mbpp``) and, only if it passes these, on the
added ones (``humaneval+``, ``mbpp+``). Several samples of a task count as the share that passes, or as epochs. The
model is only in the path. Results of version 0.1 were tried on a real log; those of 0.2 and later, and BigCodeBench's,
are read by rules written from their source code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from breadth.errors import InputError
from breadth.sources.columns import Column, Columns, json_object
from breadth.sources.logs.log import Log, Metric, Options, SkipFile
from breadth.sources.registry import Detection, Part, Source, experimental_note
from breadth.sources.source_files import SourceFile, entries, mapping, number, words
from breadth.sources.tools.common import (
    NO_MODEL,
    beside_answers,
    column_of,
    epoch_means,
    epochs_to_read,
    folder_of_model,
)

PASSED = Metric("pass@1")

#: What EvalPlus and BigCodeBench call a sample's outcome, by version.
OUTCOMES = {"success": True, "pass": True, "failed": False, "fail": False, "timed out": False, "timeout": False}


def sample_outcome(status: Any) -> bool | None:
    """Whether a sample passed; None for a status that no version has."""
    return OUTCOMES.get(status) if isinstance(status, str) else None


RESULTS = Columns(
    Column("tasks", "eval", json_object, required=True),
    Column("date", type=words, default=""),
    Column("pass_at_k", type=json_object),
    Column("base", "pass_at_k.base.pass@1", number),
    Column("plus", "pass_at_k.plus.pass@1", number),
)

#: BigCodeBench writes ``status``, and has no added tests.
CODE_SAMPLE = Columns(
    Column("base", "base_status|status", sample_outcome, required=True),
    Column("plus", "plus_status", sample_outcome, strict=True),
)

_EVAL_RESULTS = re.compile(r"[-_.]?eval_results$")
_BACKENDS = "vllm|hf|openai|anthropic|google|mistral|bedrock|ollama|gptqmodel|hf-gaudi|e2b"
_DECODING = re.compile(rf"(?:_(?:{_BACKENDS}))?_temp_(\d+(?:\.\d+)?)(?:[-_]sanitized)?$")
_BIGCODEBENCH = re.compile(
    r"(.+)--(bigcodebench(?:-hard)?-(?:complete|instruct))--(?:.+?)-(\d+(?:\.\d+)?|greedy)-\d+(?:-.*)?"
)


class NamedRun(NamedTuple):
    """What a path says of the run that made a file."""

    model: str
    settings: Mapping[str, float]
    testset: str | None = None


class EvalPlus(Source):
    """Reads results of EvalPlus and BigCodeBench."""

    name: ClassVar[str] = "evalplus"
    looks_like: ClassVar[str] = "EvalPlus and BigCodeBench *_eval_results.json"

    def detect(self, file: SourceFile) -> Detection | None:
        """Objects with an object of outcomes by task, and the file of pass@k beside it."""
        if file.is_list:
            return None
        if "pass@1" in file.keys and file.path.name.endswith("pass_at_k.json"):
            has_results = _sibling(file.path, "pass_at_k", "eval_results").is_file()
            return beside_answers(has_results, "it has pass@1 and is named pass_at_k")
        # Logs of Inspect have eval, too, beside a status.
        if "eval" in file.keys and {"hash", "date"} & file.keys and not {"status", "task"} & file.keys:
            return Detection(Part.ANSWERS, "it has eval with a date or a hash")
        return None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read a log per kind of tests."""
        results = RESULTS.read(file.json(), str(file.path))
        families: dict[str, dict[str, Any]] = {}
        for task, samples in results["tasks"].items():
            families.setdefault(task.partition("/")[0].lower(), {})[task] = samples
        if not families:
            raise SkipFile("no tasks")
        run = _run_of_path(file.path)
        reported = _reported_pass_at_1(file.path, results)
        for family, tasks in families.items():
            testset = run.testset if run.testset and family == "bigcodebench" else family
            is_new = any(isinstance(samples, list) for samples in tasks.values())
            experimental = [experimental_note("EvalPlus 0.2 or later, or of BigCodeBench")] if is_new else []
            base, plus = _outcomes_of_tasks(tasks, f"{file.path}, eval")
            for name, kind, columns in ((testset, "base", base), (f"{testset}+", "plus", plus)):
                if all(passed is None for column in columns for passed in column):
                    continue  # only the original tests were run
                repeats = max(map(len, columns))
                repeated = [f"{repeats} samples per task"] if repeats > 1 else []
                for epoch in epochs_to_read(options, repeats):
                    # The file states one share for all families together.
                    states_mean = epoch is None and len(families) == 1 and kind in reported
                    yield Log(
                        path=str(file.path),
                        tool=self.name,
                        testset=name,
                        model=run.model,
                        items=list(tasks),
                        values={PASSED: epoch_means(columns, epoch)},
                        subject={} if epoch is None else {"epoch": epoch},
                        settings=run.settings,
                        stamp=results["date"],
                        stated={PASSED: reported[kind]} if states_mean else {},
                        notes=experimental + repeated,
                    )


def _outcomes_of_tasks(tasks: Mapping[str, Any], where: str) -> tuple[list[list[bool]], list[list[bool | None]]]:
    """Whether the samples of every task passed the original tests, and the added ones as well; None if not tested."""
    base: list[list[bool]] = []
    plus: list[list[bool | None]] = []
    for task, content in tasks.items():
        samples = content
        if isinstance(content, dict) and isinstance(content.get("base"), list):
            samples = _samples_of_first_version(content)
        if not isinstance(samples, list):
            raise InputError(f"{where}, {task}: expected a list of samples; the file is damaged")
        rows = [CODE_SAMPLE.read(sample, f"{where}, {task}") for sample in samples]
        base.append(column_of(rows, "base"))
        plus.append([row["plus"] and row["base"] for row in rows])
    return base, plus


def _samples_of_first_version(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The samples of a task as later versions write them; version 0.1 has lists of status and details, by tests."""
    samples: list[dict[str, Any]] = [{"base_status": next(iter(entries(result)), None)} for result in task["base"]]
    for sample, result in zip(samples, entries(task.get("plus")), strict=False):
        sample["plus_status"] = next(iter(entries(result)), None)
    return samples


def _run_of_path(path: Path) -> NamedRun:
    """The model as file or directory are named after it, with its temperature, and BigCodeBench's test set."""
    stem = _EVAL_RESULTS.sub("", path.stem)
    big = _BIGCODEBENCH.fullmatch(stem)
    if big is not None:
        temperature = 0.0 if big[3] == "greedy" else float(big[3])
        return NamedRun(big[1].replace("--", "/", 1), {"temperature": temperature}, big[2])
    if stem.lower() in NO_MODEL:
        stem = folder_of_model(path) or path.parent.name
    settings: dict[str, float] = {}
    decoding = _DECODING.search(stem)
    if decoding is not None:
        settings["temperature"] = float(decoding[1])
        stem = stem[: decoding.start()]
    return NamedRun(stem.replace("--", "/", 1) or str(path.parent), settings)


def _reported_pass_at_1(path: Path, results: Mapping[str, Any]) -> dict[str, float]:
    """The shares that the results, or BigCodeBench's file of pass@k beside them, state."""
    reported = {"base": results["base"], "plus": results["plus"]}
    beside = _sibling(path, "eval_results", "pass_at_k")
    if not results["pass_at_k"] and beside.is_file():
        reported["base"] = number(mapping(SourceFile.look(beside).json()).get("pass@1"))
    return {kind: share for kind, share in reported.items() if share is not None}


def _sibling(path: Path, old: str, new: str) -> Path:
    """The file beside it whose name ends otherwise."""
    return path.with_name(new.join(path.name.rsplit(old, 1)))

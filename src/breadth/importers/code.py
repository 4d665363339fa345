"""Benchmarks that run code: EvalPlus and BigCodeBench ``*_eval_results.json``, and results of the SWE-bench family.

EvalPlus: a task passes or fails on its original tests (test sets ``humaneval``, ``mbpp``) and, only if it passes these,
on the added ones (``humaneval+``, ``mbpp+``). Several samples of a task count as the share that passes, or as epochs.
The model is only in the path. Results of version 0.1 were tried on a real log; those of 0.2 and later, and
BigCodeBench's, are written from their source code, not tried on a real log.

SWE-bench: an instance is resolved or not. Recognised are

- ``{instance: true}``, as SWE-bench Pro writes it;
- ``{instance: {"resolved": true}}``, per run or per instance (``report.json``);
- reports of the harness with ``resolved_ids`` and other lists: an empty patch is not resolved; instances that were not
  run, or whose evaluation ended in an error, are missing;
- reports with ``resolved`` and ``generated``, in which patches that did not apply or timed out are not resolved.

All but the first are written from their source code, not tried on a real log. A file that lists only the resolved
instances is left out unless the predictions beside it say which instances there were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from breadth.errors import InputError
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part, Plain
from breadth.importers.reading import LogFile, Object, entries, mapping, mean_of, number, parse, words

PASSED = Metric("pass@1")
RESOLVED = Metric("resolved")

#: What EvalPlus and BigCodeBench call a sample's outcome, by version.
OUTCOMES = {
    **dict.fromkeys(("success", "pass"), True),
    **dict.fromkeys(("failed", "fail", "timed out", "timeout"), False),
}

_RESULTS = re.compile(r"[-_.]?eval_results$")
_BACKENDS = "vllm|hf|openai|anthropic|google|mistral|bedrock|ollama|gptqmodel|hf-gaudi|e2b"
_RUN = re.compile(rf"(?:_(?:{_BACKENDS}))?_temp_(\d+(?:\.\d+)?)(?:[-_]sanitized)?$")
_BIG = re.compile(r"(.+)--(bigcodebench(?:-hard)?-(?:complete|instruct))--(?:.+?)-(\d+(?:\.\d+)?|greedy)-\d+(?:-.*)?")

#: Names of files and directories that do not name a model.
ANONYMOUS = frozenset(
    ("", "samples", "sample", "humaneval", "mbpp", "results", "bigcodebench", "output", "eval", "evaluation", "logs")
)

_INSTANCE = re.compile(r"(?:instance_)?[A-Za-z0-9][\w.-]*__[\w.-]+")
_SPLITS = {"lite": "lite", "verified": "verified", "bash-only": "verified", "test": "full"}
_SPLITS |= {name: name for name in ("multimodal", "multilingual")}

#: Splits by their number of instances, for reports that do not name theirs.
SIZES = {500: "verified", 300: "lite", 2294: "full"}

#: Lists of the first harness that say that a patch, not the evaluation, failed.
FAILED = ("no_generation", "none", "generated", "with_logs", "no_apply", "applied", "test_errored", "test_timeout")

#: Keys at the start of reports; the lists after them may be longer than the head of a file.
FIRST_KEYS = (
    {"total_instances", "submitted_instances"},
    {"total_instances", "completed_ids"},
    {"no_generation", "generated"},
)


class EvalPlus(Importer):
    """Reads results of EvalPlus and BigCodeBench."""

    name: ClassVar[str] = "evalplus"

    def part(self, file: LogFile) -> Part | None:
        """Objects with an object of outcomes by task, and the file of pass@k beside it."""
        if file.is_list:
            return None
        if "pass@1" in file.keys and file.path.name.endswith("pass_at_k.json"):
            return Part.COMPANION if _counterpart(file.path, "pass_at_k", "eval_results").is_file() else Part.SCORES
        own = "eval" in file.keys and bool({"hash", "date"} & file.keys) and not {"status", "task"} & file.keys
        return Part.ANSWERS if own else None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read a log per kind of tests."""
        content = mapping(file.json())
        tasks = content.get("eval")
        if not isinstance(tasks, dict):
            raise InputError(f"{file.path}, eval: expected an object with an entry per task; the file is damaged")
        families: dict[str, dict[str, list[dict[str, bool | None]]]] = {}
        for task, samples in tasks.items():
            family = task.partition("/")[0].lower()
            families.setdefault(family, {})[task] = _outcomes(samples, f"{file.path}, eval, {task}")
        if not families:
            raise LeftOut("no tasks")
        model, settings, big = _path_model(file.path)
        stated = _pass_at_1(file.path, content)
        for family, outcomes in families.items():
            name = big if family == "bigcodebench" and big else family
            for testset, kind in ((name, "base"), (f"{name}+", "plus")):
                columns = [[sample[kind] for sample in samples] for samples in outcomes.values()]
                if all(one is None for column in columns for one in column):
                    continue  # only the original tests were run
                repeats = max(map(len, columns))
                for epoch in range(repeats) if options.epochs == "each" and repeats > 1 else [None]:
                    mean = stated.get(kind) if epoch is None and len(families) == 1 else None
                    yield Log(
                        path=str(file.path),
                        tool=self.name,
                        testset=testset,
                        model=model,
                        items=list(outcomes),
                        values={
                            PASSED: [
                                mean_of(column if epoch is None else column[epoch : epoch + 1]) for column in columns
                            ]
                        },
                        subject={} if epoch is None else {"epoch": epoch + 1},
                        settings=settings,
                        stamp=words(content.get("date")) or "",
                        stated={} if mean is None else {PASSED: mean},
                        notes=[f"{repeats} samples per task"] if repeats > 1 else [],
                    )


def _outcomes(samples: Any, where: str) -> list[dict[str, bool | None]]:
    """Whether each sample passed the original tests, and the added ones as well; None where it was not tested."""
    if isinstance(samples, dict) and isinstance(samples.get("base"), list):  # version 0.1
        original = [_outcome(next(iter(entries(one)), None), where) for one in samples["base"]]
        added = [_outcome(next(iter(entries(one)), None), where) for one in entries(samples.get("plus"))]
        pairs = list(zip(original, [*added, *[None] * len(original)], strict=False))
    elif not isinstance(samples, list):
        raise InputError(f"{where}: expected a list of samples; the file is damaged")
    else:
        rows = [mapping(sample) for sample in samples]
        if not all({"base_status", "status"} & row.keys() for row in rows):
            raise InputError(f"{where}: a sample has no status; the file is damaged")
        pairs = [
            (_outcome(row.get("base_status", row.get("status")), where), _outcome(row.get("plus_status"), where))
            for row in rows
        ]
    return [{"base": base, "plus": None if base is None or plus is None else base and plus} for base, plus in pairs]


def _outcome(status: Any, where: str) -> bool | None:
    if status is None:
        return None
    if not isinstance(status, str) or status not in OUTCOMES:
        raise InputError(f"{where}: status {str(status)[:60]!r} is not known; expected one of {', '.join(OUTCOMES)}")
    return OUTCOMES[status]


def _path_model(path: Path) -> tuple[str, dict[str, float], str | None]:
    """The model as file or directory are named after it, with its temperature, and BigCodeBench's test set."""
    stem = _RESULTS.sub("", path.stem)
    if big := _BIG.fullmatch(stem):
        temperature = 0.0 if big[3] == "greedy" else float(big[3])
        return big[1].replace("--", "/", 1), {"temperature": temperature}, big[2]
    if stem.lower() in ANONYMOUS:
        stem = next((part for part in path.parent.parts[::-1] if part.lower() not in ANONYMOUS), path.parent.name)
    run = _RUN.search(stem)
    name = (stem[: run.start()] if run else stem).replace("--", "/", 1)
    return name or str(path.parent), {"temperature": float(run[1])} if run else {}, None


def _pass_at_1(path: Path, content: Object) -> dict[str, float]:
    """The shares that the results, or the file of pass@k beside them, state."""
    inside = mapping(content.get("pass_at_k"))
    beside = _counterpart(path, "eval_results", "pass_at_k")
    if not inside and beside.is_file():
        inside = {"base": LogFile.look(beside).json()}
    shares = {kind: number(mapping(inside.get(kind)).get("pass@1")) for kind in ("base", "plus")}
    return {kind: share for kind, share in shares.items() if share is not None}


def _counterpart(path: Path, old: str, new: str) -> Path:
    return path.with_name(new.join(path.name.rsplit(old, 1)))


class SweBench(Importer):
    """Reads results of SWE-bench, SWE-bench Pro and their relatives."""

    name: ClassVar[str] = "swe-bench"

    def part(self, file: LogFile) -> Part | None:
        """Reports by their lists, and objects whose keys are instances."""
        keys = file.keys
        if file.is_list or not keys:
            return None
        if "resolved_ids" in keys or ("resolved" in keys and {"no_generation", "no_logs", "generated"} & keys):
            return Part.ANSWERS
        if any(first <= keys for first in FIRST_KEYS):
            return Part.ANSWERS
        # Pro writes nothing but truth values; other reports have an object per instance.
        start = re.match(rb'\s*\{\s*"[^"]*"\s*:\s*(true|false|null|\{)', file.head)
        if start is None or not all(map(_INSTANCE.fullmatch, keys)):
            return None
        return Part.ANSWERS if start[1] != b"{" or b'"resolved"' in file.head else None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read what became of each instance."""
        content = file.json()
        if not isinstance(content, dict):
            raise InputError(f"{file.path}: expected a JSON object; the file is damaged")
        notes: list[str] = []
        total = None
        if "resolved_ids" in content:
            outcomes = _report(content, str(file.path), notes)
            total = content.get("total_instances")
        elif isinstance(content.get("resolved"), list):
            outcomes = _listed(content, file.path)
        elif any(first <= content.keys() for first in FIRST_KEYS):
            raise LeftOut("a report without the list of resolved instances")
        else:
            outcomes = _mapped(content, str(file.path))
        if not outcomes:
            raise LeftOut("no instances")
        model, split, settings, stamp = _run(file.path, "resolved_ids" in content)
        split = split or ("pro" if all(one.startswith("instance_") for one in outcomes) else None)
        split = split or SIZES.get(total if type(total) is int else len(outcomes))
        yield Log(
            path=str(file.path),
            tool=self.name,
            testset=f"swe-bench-{split}" if split else "swe-bench",
            model=model,
            items=list(outcomes),
            values={RESOLVED: list(outcomes.values())},
            settings=settings,
            stamp=stamp,
            notes=notes,
        )


def _ids(content: Object, key: str, where: str) -> list[str]:
    ids = content.get(key, [])
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise InputError(f"{where}, {key}: expected a list of instances; the file is damaged")
    return list(dict.fromkeys(ids))


def _report(content: Object, where: str, notes: list[str]) -> dict[str, float | None]:
    """Instances of a harness report; lists that contradict each other are reported."""
    resolved, unresolved = _ids(content, "resolved_ids", where), _ids(content, "unresolved_ids", where)
    if "unresolved_ids" not in content:
        unresolved = [one for one in _ids(content, "completed_ids", where) if one not in set(resolved)]
    empty, failed = _ids(content, "empty_patch_ids", where), _ids(content, "error_ids", where)
    both = set(resolved) & {*unresolved, *empty}
    if both:
        raise InputError(f"{where}: {min(both)} is listed as resolved and as not resolved; the file is damaged")
    waiting = _ids(content, "incomplete_ids", where)
    outcomes: dict[str, float | None] = dict.fromkeys([*waiting, *failed])
    outcomes |= dict.fromkeys([*unresolved, *empty], 0.0) | dict.fromkeys(resolved, 1.0)
    for key, ids in (("resolved", resolved), ("unresolved", unresolved), ("empty_patch", empty), ("error", failed)):
        count = number(content.get(f"{key}_instances"))
        if count is not None and count != len(ids):
            notes.append(f"the report counts {count:g} {key} instances, but lists {len(ids)}")
    failed = [one for one in failed if outcomes[one] is None]
    waiting = [one for one in waiting if outcomes[one] is None and one not in set(failed)]
    notes += [f"the evaluation of {len(failed):,} instances ended in an error: missing"] * bool(failed)
    notes += [f"partial: {len(waiting):,} instances were not run: missing"] * bool(waiting)
    return outcomes


def _listed(content: Object, path: Path) -> dict[str, float | None]:
    """Instances of a file with lists by outcome. All instances are known if it lists every patch that was generated."""
    where = str(path)
    resolved = _ids(content, "resolved", where)
    known = [one for key in FAILED for one in _ids(content, key, where)]
    if "generated" not in content:
        predicted = _predicted(path.parent) or _predicted(path.parent.parent)
        if not predicted:
            raise LeftOut(
                "lists only the resolved instances, so the others are not known; put the run's all_preds.jsonl or "
                "preds.json beside it, or import its report or per_instance_details.json"
            )
        known += [*predicted, *_ids(content, "no_logs", where)]
    unfinished = [one for key in ("install_fail", "reset_failed") for one in _ids(content, key, where)]
    outcomes: dict[str, float | None] = dict.fromkeys(known, 0.0)
    return outcomes | dict.fromkeys(unfinished) | dict.fromkeys(resolved, 1.0)


def _predicted(folder: Path) -> list[str]:
    """Instances in a run's predictions."""
    lines, whole = folder / "all_preds.jsonl", folder / "preds.json"
    if lines.is_file():
        rows = (mapping(parse(line, str(lines), k)) for k, line in LogFile.look(lines).rows())
        return [row["instance_id"] for row in rows if isinstance(row.get("instance_id"), str)]
    return list(mapping(LogFile.look(whole).json())) if whole.is_file() else []


def _mapped(content: Object, where: str) -> dict[str, float | None]:
    """Instances as keys, each with a truth value or with an object that has one."""
    outcomes: dict[str, float | None] = {}
    for instance, value in content.items():
        resolved = value.get("resolved") if isinstance(value, dict) else value
        if resolved is not None and not isinstance(resolved, bool):
            raise InputError(f"{where}, {instance}: expected true or false, got {str(resolved)[:60]!r}")
        outcomes[instance] = None if resolved is None else float(resolved)
    return outcomes


def _run(path: Path, is_report: bool) -> tuple[str, str | None, dict[str, Plain], str]:
    """Model, split, settings and date, as paths of the tools name them."""
    parts = path.parent.parts
    if "evaluation" in parts[:-2]:  # evaluation/<split>/<date_model>/...
        place = len(parts) - 1 - parts[::-1].index("evaluation")
        if place + 2 < len(parts) and parts[place + 1] in _SPLITS:
            date = re.match(r"\d{8}", parts[place + 2])
            return parts[place + 2], _SPLITS[parts[place + 1]], {}, date[0] if date else ""
    if "run_evaluation" in parts[:-3]:  # run_evaluation/<run>/<model>/<instance>/report.json
        place = len(parts) - 1 - parts[::-1].index("run_evaluation")
        return parts[place + 2].replace("__", "/", 1), None, {"run_id": parts[place + 1]}, ""
    if is_report and "." in path.stem:  # <model>.<run>.json
        model, _, run = path.stem.rpartition(".")
        return model.replace("__", "/", 1), None, {"run_id": run}, ""
    return next((part for part in parts[::-1] if part.lower() not in ANONYMOUS), path.stem), None, {}, ""

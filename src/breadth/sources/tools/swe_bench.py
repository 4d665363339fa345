"""SWE-bench: an instance is resolved or not. Recognised are

- ``{instance: true}``, as SWE-bench Pro writes it;
- ``{instance: {"resolved": true}}``, per run or per instance (``report.json``);
- reports of the harness with ``resolved_ids`` and other lists: an empty patch is not resolved; instances that were not
  run, or whose evaluation ended in an error, are missing;
- reports with ``resolved`` and ``generated``, in which patches that did not apply or timed out are not resolved.

All but the first are read by rules written from their source code. A file that lists only the resolved instances is
left out unless the predictions beside it say which instances there were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from breadth.errors import InputError, escape_bytes
from breadth.sources.columns import Column, Columns, text, whole_number
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile
from breadth.sources.registry import Detection, Part, Source, experimental_note
from breadth.sources.source_files import Object, SourceFile, mapping, number
from breadth.sources.tools.common import folder_of_model

RESOLVED = Metric("resolved")

Outcomes = dict[str, float | None]

#: Splits by the directories of the experiments' repository, and by their number of instances.
SPLITS_BY_FOLDER = {"lite": "lite", "verified": "verified", "bash-only": "verified", "test": "full"}
SPLITS_BY_FOLDER |= {"multimodal": "multimodal", "multilingual": "multilingual"}
SPLITS_BY_SIZE = {500: "verified", 300: "lite", 2294: "full"}

#: The lists of a harness report, and what they say of an instance; of several lists the last one counts.
REPORT_LISTS: Outcomes = {
    **{"incomplete_ids": None, "error_ids": None},
    **{"unresolved_ids": 0.0, "empty_patch_ids": 0.0, "completed_ids": 0.0, "resolved_ids": 1.0},
}

#: The same for the first harness. Whatever else it lists of a patch that was generated, the patch did not resolve its
#: instance; unless the repository could not be set up.
FIRST_HARNESS_LISTS: Outcomes = {
    **{"no_generation": 0.0, "generated": 0.0, "no_logs": 0.0},
    **{"install_fail": None, "reset_failed": None, "resolved": 1.0},
}

#: Keys at the start of reports; the lists after them may be longer than the head of a file.
FIRST_KEYS = (
    {"total_instances", "submitted_instances"},
    {"total_instances", "completed_ids"},
    {"no_generation", "generated"},
)

_INSTANCE = re.compile(r"(?:instance_)?[A-Za-z0-9][\w.-]*__[\w.-]+")


def instance_ids(value: Any) -> list[str] | None:
    """A list of instances, each once."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return None
    return list(dict.fromkeys(value))


HARNESS_REPORT = Columns(
    *[Column(name, type=instance_ids, strict=True, default=[]) for name in REPORT_LISTS],
    Column("total_instances", type=whole_number),
    Column("resolved_instances", type=number),
    Column("unresolved_instances", type=number),
    Column("empty_patch_instances", type=number),
    Column("error_instances", type=number),
)
FIRST_HARNESS = Columns(*[Column(name, type=instance_ids, strict=True, default=[]) for name in FIRST_HARNESS_LISTS])
PREDICTED_PATCH = Columns(Column("instance_id", type=text))


class SweRun(NamedTuple):
    """What a path says of the run that made a file."""

    model: str
    split: str | None = None
    settings: Mapping[str, Plain] = {}
    date: str = ""


class SweBench(Source):
    """Reads results of SWE-bench, SWE-bench Pro and their relatives."""

    name: ClassVar[str] = "swe-bench"
    looks_like: ClassVar[str] = "SWE-bench results and reports"

    def detect(self, file: SourceFile) -> Detection | None:
        """Reports by their lists, and objects whose keys are instances."""
        keys = file.keys
        if file.is_list or not keys:
            return None
        if "resolved_ids" in keys or ("resolved" in keys and {"no_generation", "no_logs", "generated"} & keys):
            return Detection(Part.ANSWERS, "it lists the resolved instances")
        if any(first <= keys for first in FIRST_KEYS):
            return Detection(Part.ANSWERS, "it begins as a report of the harness")
        # Pro writes nothing but truth values; other reports have an object per instance.
        start = re.match(rb'\s*\{\s*"[^"]*"\s*:\s*(true|false|null|\{)', file.head)
        if start is None or not all(map(_INSTANCE.fullmatch, keys)):
            return None
        if start[1] == b"{" and b'"resolved"' not in file.head:
            return None
        return Detection(Part.ANSWERS, "its keys are instances, such as owner__repository-1")

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read what became of each instance."""
        content = file.json()
        where = str(file.path)
        if not isinstance(content, dict):
            raise InputError(f"{where}: expected a JSON object; the file is damaged")
        notes: list[str] = []
        total: int | None = None
        is_report = "resolved_ids" in content
        if is_report:
            report = HARNESS_REPORT.read(content, where)
            outcomes = _outcomes_of_report(report, where, notes)
            total = report["total_instances"]
        elif isinstance(content.get("resolved"), list):
            outcomes = _outcomes_of_first_harness(content, file.path)
        elif any(first <= content.keys() for first in FIRST_KEYS):
            raise SkipFile("a report without the list of resolved instances")
        else:
            outcomes = _outcomes_by_instance(content, where)
        if not outcomes:
            raise SkipFile("no instances")
        if not all(value is None or isinstance(value, bool) for value in content.values()):
            notes.append(experimental_note("SWE-bench (other than Pro)"))
        run = _run_of_parts(file.path, is_report)
        split = run.split
        if split is None and all(one.startswith("instance_") for one in outcomes):
            split = "pro"
        if split is None:
            split = SPLITS_BY_SIZE.get(len(outcomes) if total is None else total)
        yield Log(
            path=where,
            tool=self.name,
            testset=f"swe-bench-{split}" if split else "swe-bench",
            model=run.model,
            items=list(outcomes),
            values={RESOLVED: list(outcomes.values())},
            settings=run.settings,
            stamp=run.date,
            notes=notes,
        )


def _outcomes_of_report(report: Mapping[str, Any], where: str, notes: list[str]) -> Outcomes:
    """Instances of a harness report; lists that contradict each other are reported."""
    both = set(report["resolved_ids"]) & {*report["unresolved_ids"], *report["empty_patch_ids"]}
    if both:
        raise InputError(f"{where}: {min(both)} is listed as resolved and as not resolved; the file is damaged")
    outcomes = _outcomes_of_lists(report, REPORT_LISTS)
    for kind in ("resolved", "unresolved", "empty_patch", "error"):
        count, ids = report[f"{kind}_instances"], report[f"{kind}_ids"]
        if count is not None and count != len(ids):
            notes.append(f"the report counts {count:g} {kind} instances, but lists {len(ids)}")
    failed = {one for one in report["error_ids"] if outcomes[one] is None}
    waiting = {one for one in report["incomplete_ids"] if outcomes[one] is None} - failed
    if failed:
        notes.append(f"the evaluation of {len(failed):,} instances ended in an error: missing")
    if waiting:
        notes.append(f"partial: {len(waiting):,} instances were not run: missing")
    return outcomes


def _outcomes_of_first_harness(content: Object, path: Path) -> Outcomes:
    """Instances of a file with lists by outcome. All instances are known if it lists every patch that was generated."""
    predicted: list[str] = []
    if "generated" not in content:
        predicted = _predicted_instances(path.parent) or _predicted_instances(path.parent.parent)
        if not predicted:
            raise SkipFile(
                "lists only the resolved instances, so the others are not known; put the run's all_preds.jsonl or "
                "preds.json beside it, or import its report or per_instance_details.json"
            )
    listed = _outcomes_of_lists(FIRST_HARNESS.read(content, str(path)), FIRST_HARNESS_LISTS)
    return dict.fromkeys(predicted, 0.0) | listed


def _outcomes_of_lists(read: Mapping[str, list[str]], lists: Outcomes) -> Outcomes:
    outcomes: Outcomes = {}
    for name, outcome in lists.items():
        outcomes |= dict.fromkeys(read[name], outcome)
    return outcomes


def _predicted_instances(folder: Path) -> list[str]:
    """Instances in a run's predictions."""
    lines, whole = folder / "all_preds.jsonl", folder / "preds.json"
    if lines.is_file():
        rows = PREDICTED_PATCH.read_rows(SourceFile.look(lines))
        return [row["instance_id"] for _, row in rows if row["instance_id"] is not None]
    if whole.is_file():
        return list(mapping(SourceFile.look(whole).json()))
    return []


def _outcomes_by_instance(content: Object, where: str) -> Outcomes:
    """Instances as keys, each with a truth value or with an object that has one."""
    outcomes: Outcomes = {}
    for instance, value in content.items():
        resolved = value.get("resolved") if isinstance(value, dict) else value
        if resolved is not None and not isinstance(resolved, bool):
            raise InputError(f"{where}, {instance}: expected true or false, got {str(resolved)[:60]!r}")
        outcomes[instance] = None if resolved is None else float(resolved)
    return outcomes


def _run_of_parts(path: Path, is_report: bool) -> SweRun:
    """The run as paths of the tools name it."""
    parts = [escape_bytes(part) for part in path.parent.parts]
    if "evaluation" in parts[:-2]:  # evaluation/<split>/<date_model>/...
        place = len(parts) - 1 - parts[::-1].index("evaluation")
        if place + 2 < len(parts) and parts[place + 1] in SPLITS_BY_FOLDER:
            model = parts[place + 2]
            date = re.match(r"\d{8}", model)
            return SweRun(model, SPLITS_BY_FOLDER[parts[place + 1]], date=date[0] if date else "")
    if "run_evaluation" in parts[:-3]:  # run_evaluation/<run>/<model>/<instance>/report.json
        place = len(parts) - 1 - parts[::-1].index("run_evaluation")
        return SweRun(parts[place + 2].replace("__", "/", 1), settings={"run_id": parts[place + 1]})
    if is_report and "." in path.stem:  # <model>.<run>.json
        model, _, run_id = escape_bytes(path.stem).rpartition(".")
        return SweRun(model.replace("__", "/", 1), settings={"run_id": run_id})
    return SweRun(folder_of_model(path) or path.stem)

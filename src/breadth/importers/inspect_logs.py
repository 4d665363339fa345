"""Inspect AI: ``.eval`` archives (deflate or zstandard) and ``.json`` logs, of all versions, finished or not.

Scores are read from the summaries of an archive; a sample itself is opened only where its summary lacks the text
(cut at 5,120 characters, no images, no choices before version 0.3.156). Inspect is not needed.

- **Item**: a sample's id where it is text. A number may be no more than a position, which shuffling, ``--limit`` or
  another choice of subsets changes, so such samples are identified by their input and their choices in any order, with
  ``#2`` for the second one of the same text.
- **Test set**: the task without its package (``inspect_evals/arc_easy`` is ``arc_easy``).
- **Metric**: score and scorer as in the log's results: ``choice`` of ``choice``; ``fluency`` of ``rubric`` where a
  scorer gives several values. Grades count as in Inspect: C 1, P 0.5, I and N 0. Preferred is the log's headline, else
  the first scorer.
- **Subject**: model, model arguments, and a solver that was chosen for the run. Arguments of the task, generation
  options and limits are settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, ClassVar

from breadth.errors import InputError, listed
from breadth.importers.archives import Archive, open_archive
from breadth.importers.inspect_samples import (
    Record,
    answer_of,
    choices_told,
    describe,
    group,
    hash_column,
    identify,
    means,
    of_epoch,
    record,
    records,
    score_all,
    text_columns,
)
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part, Plain
from breadth.importers.reading import LogFile, Object, blocks, entries, garbage_kept, mapping, number, parse

HEADER, START, SUMMARIES = "header.json", "_journal/start.json", "summaries.json"

#: Versions of the log's schema that were tried.
KNOWN = (None, 1, 2, 3)

#: Bytes of a JSON log above which its samples are read one by one.
LARGE = 1 << 25

#: Arguments and options that change how a model is run, but not what it answers; and secrets.
NOISE = re.compile(
    r"device|device_map|batch|batch_size|.*_parallel_size|gpu_memory_utilization|host|port|base_url|server_args"
    r"|custom_outputs|max_connections|adaptive_connections|max_retries|.*timeout|cache|cache_prompt|.*logprobs"
    r"|.*(?:api_?key|secret|password|credential).*|(?:.*_)?token"
)

#: Limits in the configuration of a run that change what a model answers.
LIMITS = ("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit", "cost_limit")


class Inspect(Importer):
    """Reads logs of Inspect AI."""

    name: ClassVar[str] = "inspect"

    def part(self, file: LogFile) -> Part | None:
        """Archives with a header or a journal, and JSON objects with the keys of a log."""
        if file.head.startswith(b"PK"):
            own = START.encode() in file.head[:200] or not file.members.isdisjoint((HEADER, START))
        else:
            own = {"eval", "status"} <= file.keys and not file.is_list and b'"task' in file.head
        return Part.ANSWERS if own else None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read an archive or a JSON log."""
        try:
            with garbage_kept():
                return iter(_read(file, options))
        except RecursionError:
            raise InputError(f"{file.path}: is nested too deep; the file is damaged") from None


def _read(file: LogFile, options: Options) -> list[Log]:
    path = str(file.path)
    if not file.head.startswith(b"PK"):
        header, rows = _json_log(file)
        return list(_logs(path, header, rows, lambda row: row, options))
    with open_archive(file.path) as archive:
        header, rows = _archived(archive)
        return list(_logs(path, header, rows, lambda row: _whole(archive, row), options))


def _json_log(file: LogFile) -> tuple[Object, list[Record]]:
    """The header of a JSON log and its samples; those of a large one are never in memory all at once."""
    where = f"{file.path}, samples"
    if file.size <= LARGE or not file.head.startswith((b'{\n  "', b'{\r\n  "')):
        log = _object(file.json(), str(file.path))
        return log, records(log.get("samples") or [], where)
    rows: list[Record] = []
    header: list[bytes] = []
    try:
        with file.path.open("rb") as lines:
            for line in lines:
                if line.rstrip() != b'  "samples": [':
                    header.append(line)
                    continue
                for k, block in blocks(lines, where, indent=4, first=len(header) + 2):
                    rows.append(record(parse(block, where, k), where, len(rows) + 1))
                following = next(lines, b"")
                header += [b'  "samples": null' + (b"" if following.startswith(b"}") else b","), following]
    except OSError as error:
        raise InputError(f"{file.path}: cannot be read ({error.strerror})") from error
    return _object(parse(b"".join(header), str(file.path)), str(file.path)), rows


def _archived(archive: Archive) -> tuple[Object, list[Record]]:
    """The header of an archive and its samples; of a run that did not finish, what its journal and samples say."""
    names = archive.places
    header = _object(_parsed(archive, HEADER if HEADER in names else START), f"{archive.path}, {HEADER}")
    if SUMMARIES in names:
        return header, records(_parsed(archive, SUMMARIES), f"{archive.path}, {SUMMARIES}")
    journal = [name for name in names if re.fullmatch(r"_journal/summaries/[0-9]{1,9}\.json", name)]
    rows: dict[str, Record] = {}
    for name in sorted(journal, key=lambda name: int(name[19:-5])):  # a sample that was run again is listed again
        rows |= {_member_of(row): row for row in records(_parsed(archive, name), f"{archive.path}, {name}")}
    for name in names:
        if name.startswith("samples/") and name.endswith(".json") and name not in rows:
            rows[name] = record(_parsed(archive, name), f"{archive.path}, {name}")
    return {"status": "started", **header}, list(rows.values())


def _parsed(archive: Archive, name: str) -> Any:
    return parse(archive.read(name), f"{archive.path}, {name}")


def _member_of(row: Record) -> str:
    return f"samples/{row.id}_epoch_{row.epoch}.json"


def _whole(archive: Archive, row: Record) -> Record:
    """The sample of a summary, where the archive has it."""
    name = _member_of(row)
    if name not in archive.places:
        return row
    sample = record(_parsed(archive, name), f"{archive.path}, {name}")
    overwritten = len(archive.places) < archive.count  # of two samples with one id, the last is found
    return row if overwritten and not row.cut and sample.text != row.text else sample


def _logs(
    path: str, header: Object, rows: list[Record], whole: Callable[[Record], Record], options: Options
) -> Iterator[Log]:
    spec = _object(header.get("eval"), f"{path}, eval")
    model, task = spec.get("model"), spec.get("task")
    if not (isinstance(model, str) and model and isinstance(task, str) and task.strip("/")):
        raise InputError(f"{path}, eval: has no model or no task; the file is damaged")
    if not rows:
        raise LeftOut(f"no samples, only a header and results (status {header.get('status')})")
    if header.get("invalidated") is True:  # only the samples themselves say which
        rows = [whole(row) for row in rows]
    version = mapping(spec.get("packages")).get("inspect_ai")
    version = version if isinstance(version, str) else None
    results, config = mapping(header.get("results")), mapping(spec.get("config"))
    scorers = _scorers(spec, results)
    samples = group(rows)
    failed_count = config.get("score_on_error") is True
    scored = score_all(samples, scorers, failed_count)
    if not scored.values:
        raise LeftOut(_unscored(rows, scored.others, results))
    metrics = _ranked(results, scorers, scored.values)
    told = choices_told(version)
    described = [describe(sample, whole, options.texts, told) for sample in samples]
    items = identify(samples, described)
    settings = _settings(spec, config, mapping(mapping(header.get("plan")).get("config")))
    model, subject = _subject(spec, model)
    notes = [*_notes(header, spec, results, rows), *_missing(rows, scored.others, failed_count)]
    epochs = sorted({row.epoch for row in rows})
    for epoch in epochs if options.epochs == "each" else [None]:
        chosen = [k for k, sample in enumerate(samples) if of_epoch(sample, epoch)]
        all_means = {metric: means(scored.values[metric], len(samples), epoch) for metric in metrics}
        columns = {metric: [column[k] for k in chosen] for metric, column in all_means.items()}
        stated: dict[Metric, float] = {}
        unchecked: list[str] = []
        if epoch is None or len(epochs) == 1:
            distinct = len({sample[0].id for sample in samples})
            stated, unchecked = _stated(results, config, columns, rows, same_ids=len(samples) - distinct)
        yield Log(
            path=path,
            tool=Inspect.name,
            version=version,
            testset=task.rstrip("/").rpartition("/")[2],
            model=model,
            items=[items[k] for k in chosen],
            values=columns,
            prefer=list(dict.fromkeys(metric.name for metric in metrics)),
            answers=[answer_of(of_epoch(samples[k], epoch), scorers) for k in chosen],
            texts=(text_columns if options.texts else hash_column)([described[k] for k in chosen]),
            subject=subject if epoch is None else {**subject, "epoch": epoch},
            settings=settings,
            stamp=_stamp(spec.get("created")),
            stated=stated,
            notes=[*notes, *unchecked],
        )


def _object(value: Any, where: str) -> Object:
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object; the file is damaged, or not a log of Inspect")
    return value


def _scorers(spec: Object, results: Object) -> list[str]:
    """Names of scorers as samples may call them, in the order of the task."""
    told = [*entries(results.get("scores")), results.get("scorer"), *entries(spec.get("scorers"))]
    names = [mapping(entry).get("scorer") or mapping(entry).get("name") for entry in told]
    known = [name for name in names if isinstance(name, str)]
    return list(dict.fromkeys(chain.from_iterable((name, name.rpartition("/")[2]) for name in known)))


def _ranked(results: Object, scorers: Sequence[str], values: Mapping[Metric, Any]) -> list[Metric]:
    """Metrics, preferred ones first: the log's headline, then in the order of the scorers."""
    headline = mapping(results.get("headline"))
    wanted = headline.get("score"), headline.get("scorer")
    order = {scorer: k for k, scorer in enumerate(scorers)}

    def rank(metric: Metric) -> tuple[bool, int]:
        named = any(wanted) and all(one in (None, own) for one, own in zip(wanted, metric, strict=True))
        return not named, order.get(metric.variant, len(order))

    return sorted(values, key=rank)


def _stated(
    results: Object,
    config: Object,
    columns: Mapping[Metric, Sequence[float | None]],
    rows: Sequence[Record],
    same_ids: int,
) -> tuple[dict[Metric, float], list[str]]:
    """Means that the results state for exactly the samples of the log, and why others are not checked."""
    if same_ids:
        return {}, [f"{same_ids:,} samples share their id with another, which the results count as one; not checked"]
    stated: dict[Metric, float] = {}
    unchecked: list[str] = []
    completed = sum(not row.failed for row in rows)
    oldest = {"name": mapping(results.get("scorer")).get("name"), "metrics": results.get("metrics")}
    for entry in map(mapping, entries(results.get("scores")) or [oldest]):
        metric = Metric(str(entry.get("name")), str(entry.get("scorer") or entry.get("name")))
        reducers = [entry["reducer"]] if entry.get("reducer") else list(entries(config.get("epochs_reducer")))
        if metric not in columns or reducers not in ([], ["mean"]):
            continue
        counted, own = entry.get("scored_samples"), sum(value is not None for value in columns[metric])
        if counted is None:
            counted, own = results.get("completed_samples"), completed
        if counted not in (None, own):
            unchecked.append(f"its results count {counted} samples, but it holds {own} with a score; means not checked")
            continue
        for name, mean in mapping(entry.get("metrics")).items():
            value = number(mapping(mean).get("value"))
            plain = not (mapping(mean).get("params") or mapping(mean).get("options"))
            if value is not None and plain and name.rpartition("/")[2] in ("mean", "accuracy"):
                stated[metric] = value
    return stated, list(dict.fromkeys(unchecked))


def _notes(header: Object, spec: Object, results: Object, rows: Sequence[Record]) -> list[str]:
    """What the user should know about a log as a whole."""
    notes: list[str] = []
    epochs, total = mapping(spec.get("config")).get("epochs"), results.get("total_samples")
    planned = len(entries(mapping(spec.get("dataset")).get("sample_ids"))) * (epochs if type(epochs) is int else 1)
    total = max(planned, total if type(total) is int else 0)
    if len(rows) < total:
        notes.append(f"partial: {len(rows):,} of {total:,} samples")
    if header.get("status") not in ("success", None):
        notes.append(f"the run did not finish: status {header.get('status')}")
    if header.get("version") not in KNOWN:
        notes.append(f"log schema {header.get('version')} is not known; read by its keys")
    return notes


def _missing(rows: Sequence[Record], others: Mapping[Metric, int], failed_count: bool) -> list[str]:
    """Which samples and values are missing, and why."""
    void, failed, told = sum(row.void for row in rows), sum(row.failed for row in rows), f"of {len(rows):,} samples"
    notes = [f"{n:,} values of {metric} are not grades or numbers: missing" for metric, n in others.items()]
    if void:
        notes.append(f"{void:,} {told} were marked as invalid: missing")
    if failed:
        how = "scored all the same, as score_on_error asked" if failed_count else "missing"
        notes.append(f"{failed:,} {told} ended in an error: {how}")
    return notes


def _unscored(rows: Sequence[Record], others: Mapping[Metric, int], results: Object) -> str:
    """Why a log has no scores."""
    failed = sum(row.failed for row in rows)
    if failed == len(rows):
        return f"no answers: all {failed:,} samples ended in an error" if failed > 1 else "its sample ended in an error"
    if others:
        return f"its scores are not single numbers or grades ({listed(map(str, others), 4)})"
    if any(row.void for row in rows):
        return "its samples failed or were marked as invalid"
    if entries(results.get("scores")):
        return "its samples have no scores, only its results do"
    return "not scored; `inspect score` adds scores to a log"


def _subject(spec: Object, model: str) -> tuple[str, dict[str, Plain]]:
    """The model and what else makes it a subject of its own; a model at a path is called by the path."""
    arguments = mapping(spec.get("model_args"))
    path = arguments.get("model_path")
    subject = _flat({key: value for key, value in arguments.items() if key != "model_path"})
    if isinstance(spec.get("solver"), str):
        subject["solver"] = spec["solver"]
        subject |= _flat(mapping(spec.get("solver_args_passed", spec.get("solver_args"))), "solver.")
    return path if isinstance(path, str) and path else model, subject


def _settings(spec: Object, config: Object, generation: Object) -> dict[str, Plain]:
    """What a task was run with; tells subjects apart where one model has several logs of a test set."""
    roles = {
        f"role.{key}": ", ".join(str(mapping(one).get("model")) for one in entries(role) or [role])
        for key, role in mapping(spec.get("model_roles")).items()
    }
    limits = {key: config.get(key) for key in LIMITS}
    arguments = mapping(spec.get("task_args_passed", spec.get("task_args")))
    options = {**mapping(spec.get("model_generate_config")), **generation}
    return _flat({**roles, **limits, **options, **arguments, "task_version": spec.get("task_version") or None})


def _flat(values: Object, prefix: str = "") -> dict[str, Plain]:
    """Values that are there, lists and objects as JSON, without what does not change answers."""
    return {
        prefix + key: value if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True)
        for key, value in values.items()
        if value not in (None, [], {}) and not NOISE.fullmatch(key.lower())
    }


def _stamp(created: Any) -> str:
    """When the log was made, in UTC, so that stamps sort."""
    try:
        return datetime.fromisoformat(created).astimezone(UTC).isoformat(timespec="seconds")
    except (TypeError, ValueError, OverflowError, OSError):
        return created if isinstance(created, str) else ""

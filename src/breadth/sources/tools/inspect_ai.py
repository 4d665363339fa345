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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from breadth.errors import InputError, listed
from breadth.sources.columns import Column, Columns, json_list, json_object, text, whole_number
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import (
    Object,
    SourceFile,
    blocks,
    entries,
    garbage_kept,
    mapping,
    number,
    numbered,
    option_letters,
    parse,
    text_hash,
    text_item,
    words,
)
from breadth.sources.tools.common import drop_empty, texts_of_items
from breadth.sources.zip_archives import Archive, open_archive

# Members of an archive.
HEADER_MEMBER = "header.json"
START_MEMBER = "_journal/start.json"
SUMMARIES_MEMBER = "summaries.json"
_JOURNAL_MEMBER = re.compile(r"_journal/summaries/([0-9]{1,9})\.json")

#: Versions of the log's schema that were tried.
KNOWN_SCHEMAS = (None, 1, 2, 3)

#: Bytes of a JSON log above which its samples are read one by one, so that they are never in memory all at once.
LARGE_JSON = 1 << 25

#: The first version whose summaries hold the choices.
CHOICES_SINCE = (0, 3, 156)

#: What Inspect counts a grade or a word as.
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
TRUTH_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

#: How a summary ends a text that it cut, and what it has in place of everything that is not text.
CUT = "...\n(content truncated)"
PLACEHOLDERS = {"(Image)", "(Audio)", "(Video)", "(Data)", "(Document)", "(Tool_use)", "(Reasoning)"}

#: How a text that is kept elsewhere in the sample begins.
ATTACHED = "attachment://"

_INLINE_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[\w+/=-]+", re.ASCII)

#: Arguments and options that change how a model is run, but not what it answers; and secrets.
IGNORED_ARGUMENTS = re.compile(
    r"device|device_map|batch|batch_size|.*_parallel_size|gpu_memory_utilization|host|port|base_url|server_args"
    r"|custom_outputs|max_connections|adaptive_connections|max_retries|.*timeout|cache|cache_prompt|.*logprobs"
    r"|.*(?:api_?key|secret|password|credential).*|(?:.*_)?token"
)

#: Limits in the configuration of a run that change what a model answers.
LIMITS = ("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit", "cost_limit")


def text_or_whole_number(value: Any) -> str | int | None:
    """An identity of a sample."""
    return value if type(value) in (str, int) else None


def text_or_messages(value: Any) -> str | list[Any] | None:
    """An input of a sample."""
    return value if isinstance(value, str | list) else None


def task_name(value: Any) -> str | None:
    """The name of a task without its package."""
    name = words(value)
    if name is None:
        return None
    return words(name.rstrip("/").rpartition("/")[2])


#: What is read of the header of a log: of header.json, of _journal/start.json, or of a whole JSON log.
LOG_HEADER = Columns(
    Column("task", "eval.task", task_name, required=True),
    Column("task_version", "eval.task_version"),
    Column("task_arguments", "eval.task_args_passed|eval.task_args", json_object, default={}),
    Column("model", "eval.model", words, required=True),
    Column("model_arguments", "eval.model_args", mapping),
    Column("model_options", "eval.model_generate_config", mapping),
    Column("roles", "eval.model_roles", mapping),
    Column("solver", "eval.solver", words),
    Column("solver_arguments", "eval.solver_args_passed|eval.solver_args", json_object, default={}),
    Column("plan_options", "plan.config", mapping),
    Column("config", "eval.config", mapping),
    Column("epochs", "eval.config.epochs", whole_number, default=1),
    Column("reducers", "eval.config.epochs_reducer", entries),
    Column("score_on_error", "eval.config.score_on_error"),
    Column("planned_ids", "eval.dataset.sample_ids", entries),
    Column("scorers", "eval.scorers", entries),
    Column("created", "eval.created"),
    Column("inspect_version", "eval.packages.inspect_ai", words),
    Column("schema", "version"),
    Column("status", "status"),
    Column("invalidated", "invalidated"),
    Column("results", "results.scores", entries),
    Column("headline", "results.headline", mapping),
    Column("total_samples", "results.total_samples", whole_number, default=0),
    Column("completed_samples", "results.completed_samples"),
    Column("only_scorer", "results.scorer", mapping),  # the oldest logs have one scorer, and its metrics beside it
    Column("only_metrics", "results.metrics", mapping),
)

#: What is read of a sample or of its summary.
SAMPLE_RECORD = Columns(
    Column("id", type=text_or_whole_number, required=True),
    Column("epoch", type=whole_number, default=1, strict=True),
    Column("input", type=text_or_messages, default="", strict=True),
    Column("choices", type=json_list, strict=True),
    Column("target"),
    Column("scores", type=json_object, strict=True),
    Column("score"),  # of the oldest logs, which have one scorer
    Column("attachments", type=mapping),
    Column("failed", "error", bool),
    Column("void", "invalidation", bool),
)

#: What is read of an entry of the results: the means of one score.
SCORE_RESULT = Columns(
    Column("name", type=words, default=""),
    Column("scorer", "scorer|name", words, default=""),
    Column("reducer"),
    Column("scored_samples"),
    Column("metrics", type=mapping),
)


#: What a scorer made of an answer: its value, and what it took as the answer.
ScoredAnswer = tuple[Any, str | None]


class SampleEpoch(NamedTuple):
    """A sample in one epoch, as the sample itself or its summary says.

    ``text`` is the input as it is shown; ``identity`` a hash of all of it, images too, where the id is a number.
    ``choices`` are None where nothing is said of them, else values of any type that are shown as text. The oldest logs
    have one score without the name of its scorer, which is None. ``failed`` samples ended in an error, ``void`` ones
    were marked as invalid, and ``cut`` ones lack part of the input or the target.
    """

    id: str | int
    epoch: int
    text: str
    identity: str
    choices: list[Any] | None
    target: str | None
    scores: Mapping[str | None, ScoredAnswer]
    failed: bool
    void: bool
    cut: bool


#: A sample of the data set: what is known of it in all epochs.
EpochsOfSample = list[SampleEpoch]


@dataclass(frozen=True)
class InspectLog:
    """A log as it was read; ``archive`` has the samples themselves where ``rows`` are their summaries."""

    path: str
    header: Mapping[str, Any]
    rows: Sequence[SampleEpoch]
    archive: Archive | None = None

    @property
    def failed(self) -> int:
        """How many samples ended in an error."""
        return sum(row.failed for row in self.rows)

    @property
    def void(self) -> int:
        """How many samples were marked as invalid."""
        return sum(row.void for row in self.rows)

    def open_sample(self, row: SampleEpoch) -> SampleEpoch:
        """The sample of a summary, where the archive has it."""
        name = _member_of(row)
        if self.archive is None or name not in self.archive.members:
            return row
        sample = _read_member(self.archive, name)
        # Two samples with one id are two members with one name, of which the last is found.
        is_overwritten = len(self.archive.members) < self.archive.count
        if is_overwritten and not row.cut and sample.text != row.text:
            return row
        return sample


class Inspect(Source):
    """Reads logs of Inspect AI."""

    name: ClassVar[str] = "inspect"
    looks_like: ClassVar[str] = "Inspect .eval and .json logs"

    def detect(self, file: SourceFile) -> Detection | None:
        """Archives with a header or a journal, and JSON objects with the keys of a log."""
        if file.head.startswith(b"PK"):
            # The journal is what Inspect writes first, so that most archives need not be listed.
            if START_MEMBER.encode() in file.head[:200]:
                return Detection(Part.ANSWERS, f"it is an archive with {START_MEMBER}")
            for name in (HEADER_MEMBER, START_MEMBER):
                if name in file.members:
                    return Detection(Part.ANSWERS, f"it is an archive with {name}")
            return None
        if file.is_list or not {"eval", "status"} <= file.keys or b'"task' not in file.head:
            return None
        return Detection(Part.ANSWERS, "it is a JSON object with status, eval and a task")

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read an archive or a JSON log."""
        with garbage_kept():
            return iter(_read_file(file, options))


def _read_file(file: SourceFile, options: Options) -> list[Log]:
    if not file.head.startswith(b"PK"):
        return list(_make_logs(_read_json_log(file), options))
    with open_archive(file.path) as archive:
        return list(_make_logs(_read_archive(archive), options))


# Archives and JSON logs


def _read_json_log(file: SourceFile) -> InspectLog:
    path = str(file.path)
    if file.size > LARGE_JSON and file.head.startswith((b'{\n  "', b'{\r\n  "')):
        content, rows = _read_large_json(file)
        return InspectLog(path, LOG_HEADER.read(content, path), rows)
    content = file.json()
    header = LOG_HEADER.read(content, path)
    return InspectLog(path, header, read_sample_list(content.get("samples") or [], f"{path}, samples"))


def _read_large_json(file: SourceFile) -> tuple[Any, list[SampleEpoch]]:
    """The content of an indented JSON log without its samples, and these."""
    where = f"{file.path}, samples"
    rows: list[SampleEpoch] = []
    other_lines: list[bytes] = []
    try:
        with file.path.open("rb") as lines:
            for line in lines:
                if line.rstrip() != b'  "samples": [':
                    other_lines.append(line)
                    continue
                for k, block in blocks(lines, where, indent=4, first=len(other_lines) + 2):
                    rows.append(read_sample(parse(block, where, k), f"{where}, sample {len(rows) + 1}"))
                following = next(lines, b"")
                comma = b"" if following.startswith(b"}") else b","
                other_lines += [b'  "samples": null' + comma, following]
    except OSError as error:
        raise InputError(f"{file.path}: cannot be read ({error.strerror})") from error
    return parse(b"".join(other_lines), str(file.path)), rows


def _read_archive(archive: Archive) -> InspectLog:
    """An archive; of a run that did not finish, what its journal and samples say."""
    name = HEADER_MEMBER if HEADER_MEMBER in archive.members else START_MEMBER
    header = LOG_HEADER.read(_parse_member(archive, name), f"{archive.path}, {name}")
    if SUMMARIES_MEMBER in archive.members:
        summaries = _parse_member(archive, SUMMARIES_MEMBER)
        rows = read_sample_list(summaries, f"{archive.path}, {SUMMARIES_MEMBER}")
    else:
        rows = _read_journal(archive)
        if header["status"] is None:
            header["status"] = "started"
    log = InspectLog(archive.path, header, rows, archive)
    if header["invalidated"] is True:  # only the samples themselves say which
        log = replace(log, rows=[log.open_sample(row) for row in log.rows])
    return log


def _read_journal(archive: Archive) -> list[SampleEpoch]:
    """Samples by the summaries in the journal, and those that it lacks by themselves."""
    parts: list[tuple[int, str]] = []
    for name in archive.members:
        match = _JOURNAL_MEMBER.fullmatch(name)
        if match:
            parts.append((int(match[1]), name))
    rows: dict[str, SampleEpoch] = {}
    for _, name in sorted(parts):
        for row in read_sample_list(_parse_member(archive, name), f"{archive.path}, {name}"):
            rows[_member_of(row)] = row  # a sample that was run again is listed again
    for name in archive.members:
        if name.startswith("samples/") and name.endswith(".json") and name not in rows:
            rows[name] = _read_member(archive, name)
    return list(rows.values())


def _member_of(row: SampleEpoch) -> str:
    return f"samples/{row.id}_epoch_{row.epoch}.json"


def _read_member(archive: Archive, name: str) -> SampleEpoch:
    return read_sample(_parse_member(archive, name), f"{archive.path}, {name}")


def _parse_member(archive: Archive, name: str) -> Any:
    return parse(archive.read(name), f"{archive.path}, {name}")


# Samples


def read_sample_list(samples: Any, where: str) -> list[SampleEpoch]:
    """Take from samples or summaries what is used."""
    if not isinstance(samples, list):
        raise InputError(f"{where}: expected a list of samples; the file is damaged")
    return [read_sample(sample, f"{where}, sample {k}") for k, sample in enumerate(samples, 1)]


def read_sample(sample: Any, where: str) -> SampleEpoch:
    """Take from a sample or summary what is used."""
    values = SAMPLE_RECORD.read(sample, where)
    shown, whole = _read_input(values["input"], values["attachments"])
    scores: dict[str | None, ScoredAnswer] = {}
    for name, score in (values["scores"] or {None: values["score"]}).items():
        if score is None:
            continue
        if not isinstance(score, dict):
            raise InputError(f"{where}: the score of {name or 'its scorer'} is not a JSON object; the file is damaged")
        scores[name] = score.get("value"), text(score.get("answer"))
    id = values["id"]
    identity = ""
    if isinstance(id, int):
        identity = text_item(whole)
    target = values["target"]
    if isinstance(target, list):
        target = " | ".join(map(str, target))
    return SampleEpoch(
        id=id,
        epoch=values["epoch"],
        text=shown,
        identity=identity,
        choices=values["choices"],
        target=words(target),
        scores=scores,
        failed=values["failed"],
        void=values["void"],
        cut=_is_cut(values["input"]) or _is_cut(values["target"]),
    )


def _is_cut(value: Any) -> bool:
    """Whether a summary lacks part of a text, or of the messages of an input."""
    if isinstance(value, str):
        return value.endswith(CUT) or value in PLACEHOLDERS
    if isinstance(value, list):
        return any(map(_is_cut, value))
    return isinstance(value, dict) and (_is_cut(value.get("content")) or _is_cut(value.get("text")))


def _read_input(value: str | list[Any], attachments: Object) -> tuple[str, str]:
    """An input as it is shown, with ``[image]`` for an image, and as it identifies an item, with the image."""
    if isinstance(value, str):
        return _read_piece(value, attachments)
    messages = [message for message in value if isinstance(message, dict)]
    shown: list[str] = []
    whole: list[str] = []
    for message in messages:
        content = message.get("content")
        shown_pieces: list[str] = []
        whole_pieces: list[str] = []
        for part in entries(content) or [content]:
            if part:
                shown_piece, whole_piece = _read_piece(part, attachments)
                shown_pieces.append(shown_piece)
                whole_pieces.append(whole_piece)
        role = ""
        if len(messages) > 1:
            role = f"{message.get('role')}: "
        shown.append(role + "\n".join(shown_pieces))
        whole.append(role + "\n".join(whole_pieces))
    return "\n\n".join(shown), "\n\n".join(whole)


def _read_piece(part: Any, attachments: Object) -> tuple[str, str]:
    """A part of a message: its text, or what kind of thing it is; and all of it."""
    if isinstance(part, str):
        if part.startswith(ATTACHED):
            part = text(attachments.get(part.removeprefix(ATTACHED))) or part
        shown = part
        if ";base64," in part:
            shown = _INLINE_DATA.sub("[data]", part)
        return shown, part
    kind = str(mapping(part).get("type"))
    content = mapping(part).get(kind)
    if not isinstance(content, str):
        return f"[{kind}]", json.dumps(part, sort_keys=True)
    shown, whole = _read_piece(content, attachments)
    if kind != "text":
        shown = f"[{kind}]"
    return shown, whole


# Items


def group_epochs(rows: Iterable[SampleEpoch]) -> list[EpochsOfSample]:
    """Group rows into samples, in the order of numbered ids; an id with two texts in one epoch is two samples."""
    by_id: dict[str | int, EpochsOfSample] = {}
    for row in rows:
        by_id.setdefault(row.id, []).append(row)
    samples: list[EpochsOfSample] = []
    for same in by_id.values():
        if len(same) > 1:
            samples.extend(_split_texts(same))
        else:
            samples.append(same)
    return sorted(samples, key=_place_of)


def _split_texts(rows: EpochsOfSample) -> Iterable[EpochsOfSample]:
    """Rows of one id as one sample, or as one for each text if there are several in one epoch."""
    if len({row.epoch for row in rows}) == len({(row.epoch, row.text) for row in rows}):
        return [rows]
    by_text: dict[str, EpochsOfSample] = {}
    for row in rows:
        by_text.setdefault(row.text, []).append(row)
    return by_text.values()


def _place_of(sample: EpochsOfSample) -> int:
    id = sample[0].id
    return id if isinstance(id, int) else 0


def of_epoch(sample: EpochsOfSample, epoch: int | None) -> EpochsOfSample:
    """What is known of a sample in one epoch, or in all."""
    if epoch is None:
        return sample
    return [row for row in sample if row.epoch == epoch]


def summaries_have_choices(version: str | None) -> bool:
    """Whether summaries of a version of Inspect hold the choices; where they have none, there are none."""
    release = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", version or "")
    return release is not None and tuple(map(int, release.groups())) >= CHOICES_SINCE


def describe_samples(log: InspectLog, samples: Iterable[EpochsOfSample], texts: bool) -> list[SampleEpoch]:
    """A row per sample with all that is asked, where that is wanted for the report or needed as the item's identity."""
    choices_told = summaries_have_choices(log.header["inspect_version"])
    described: list[SampleEpoch] = []
    for sample in samples:
        row = sample[0]
        choices_needed = texts or not isinstance(row.id, str)
        if row.cut or (choices_needed and row.choices is None and not choices_told):
            row = log.open_sample(row)
        described.append(row)
    return described


def identify_samples(samples: Sequence[EpochsOfSample], described: Sequence[SampleEpoch]) -> list[str]:
    """A name per sample that it has in other logs, too: its id if that is text, else a hash of what it asks."""
    names: list[str] = []
    for sample, row in zip(samples, described, strict=True):
        id = sample[0].id
        if isinstance(id, int):
            id = text_item(row.identity, *sorted(map(str, row.choices or ())))
        names.append(id)
    return numbered(names)


def text_columns(rows: Iterable[SampleEpoch]) -> dict[str, Sequence[Any]]:
    """What is asked, as columns; a target that is the letter of a choice is the label."""
    asked: list[tuple[Any, ...]] = []
    for row in rows:
        options = [str(choice) for choice in row.choices or ()]
        labels = option_letters(len(options))
        if row.target in labels:
            asked.append((row.text, options, labels, row.target, None))
        else:
            asked.append((row.text, options, labels, None, row.target))
    return texts_of_items(asked)


def hash_column(rows: Sequence[SampleEpoch]) -> dict[str, Sequence[Any]]:
    """Hashes of the questions whose ids are text: subsets of a test set may use the same ids."""
    hashes: list[str | None] = []
    for row in rows:
        hashes.append(text_hash(row.text) if isinstance(row.id, str) else None)
    return drop_empty({"text_hash": hashes})


# Scores


#: A score as a number, after the place of its sample and the epoch.
PlacedNumber = tuple[int, int, float]


class CollectedNumbers(NamedTuple):
    """The numbers of every metric, and how many values of a metric are not numbers."""

    numbers: dict[Metric, list[PlacedNumber]]
    others: dict[Metric, int]


def collect_numbers(samples: Sequence[EpochsOfSample], scorers: Sequence[str], failed_count: bool) -> CollectedNumbers:
    """Collect the numbers of all metrics. Samples marked as invalid have none, nor have failed ones by default."""
    numbers: dict[Metric, list[PlacedNumber]] = {}
    others: dict[Metric, int] = {}
    only_scorer = next(iter(scorers), "score")
    for k, sample in enumerate(samples):
        for row in sample:
            if row.void or (row.failed and not failed_count):
                continue
            for name, (value, _) in row.scores.items():
                scorer = only_scorer if name is None else name
                values = value if isinstance(value, dict) else {scorer: value}
                for key, single in values.items():
                    metric = Metric(key, scorer)
                    converted = to_number(single)
                    if converted is not None:
                        numbers.setdefault(metric, []).append((k, row.epoch, converted))
                    elif isinstance(single, str | list | dict):
                        others[metric] = others.get(metric, 0) + 1
    return CollectedNumbers(numbers, others)


def to_number(value: Any) -> float | None:
    """A score as Inspect's ``value_to_float`` sees it; None where it is not a number, or NaN, which means unscored."""
    if not isinstance(value, str):
        return number(value)
    counted = GRADES.get(value, TRUTH_WORDS.get(value.lower()))
    if counted is None:
        try:
            counted = number(float(value))
        except ValueError:
            return None
    return counted


def mean_scores(scores: Iterable[PlacedNumber], epoch: int | None) -> dict[int, float]:
    """The mean of every sample that has scores, by its place: over all epochs that are scored, or its score in one."""
    sums: dict[int, float] = {}
    counts: dict[int, int] = {}
    for place, own_epoch, value in scores:
        if epoch is None or epoch == own_epoch:
            sums[place] = sums.get(place, 0.0) + value
            counts[place] = counts.get(place, 0) + 1
    return {place: total / counts[place] for place, total in sums.items()}


def agreed_answer(rows: Sequence[SampleEpoch], scorers: Sequence[str]) -> str | None:
    """What the first scorer that says so took as the answer; None where epochs differ."""
    answer = _extracted_answer(rows[0].scores, scorers)
    for row in rows[1:]:
        if _extracted_answer(row.scores, scorers) != answer:
            return None
    return answer


def _extracted_answer(scores: Mapping[str | None, ScoredAnswer], scorers: Sequence[str]) -> str | None:
    for name in (*scorers, *scores):
        if name in scores and scores[name][1] is not None:
            return scores[name][1]
    return None


# Logs


def _make_logs(log: InspectLog, options: Options) -> Iterator[Log]:
    header = log.header
    if not log.rows:
        raise SkipFile(f"no samples, only a header and results (status {header['status']})")
    scorers = _scorer_names(header)
    samples = group_epochs(log.rows)
    failed_count = header["score_on_error"] is True
    scores = collect_numbers(samples, scorers, failed_count)
    if not scores.numbers:
        raise SkipFile(_why_unscored(log, scores.others))
    metrics = _rank_metrics(header, scorers, scores.numbers)
    described = describe_samples(log, samples, options.texts)
    names = identify_samples(samples, described)
    repeated_ids = len(samples) - len({sample[0].id for sample in samples})
    model, subject = _describe_subject(header)
    all_epochs = sorted({row.epoch for row in log.rows})
    wanted_epochs: Sequence[int | None] = all_epochs if options.epochs == "each" else [None]
    for epoch in wanted_epochs:
        chosen: list[int] = []
        asked: list[SampleEpoch] = []
        answers: list[str | None] = []
        for k, sample in enumerate(samples):
            own_rows = of_epoch(sample, epoch)
            if own_rows:
                chosen.append(k)
                asked.append(described[k])
                answers.append(agreed_answer(own_rows, scorers))
        values: dict[Metric, list[float | None]] = {}
        for metric in metrics:
            means = mean_scores(scores.numbers[metric], epoch)
            values[metric] = [means.get(k) for k in chosen]
        notes = [*_notes_on_run(log), *_notes_on_missing(log, scores.others, failed_count)]
        reported: dict[Metric, float] = {}
        if epoch is None or len(all_epochs) == 1:  # results are over all epochs
            reported, unchecked = means_of_results(log, values, repeated_ids)
            notes += unchecked
        yield Log(
            path=log.path,
            tool=Inspect.name,
            version=header["inspect_version"],
            testset=header["task"],
            model=model,
            items=[names[k] for k in chosen],
            values=values,
            prefer=list(dict.fromkeys(metric.name for metric in metrics)),
            answers=answers,
            texts=text_columns(asked) if options.texts else hash_column(asked),
            subject=subject if epoch is None else {**subject, "epoch": epoch},
            settings=_describe_settings(header),
            stamp=_time_in_utc(header["created"]),
            stated=reported,
            notes=notes,
        )


def _scorer_names(header: Object) -> list[str]:
    """Names of scorers as samples may call them, in the order of the task: with and without their package."""
    names: dict[str, None] = {}
    for entry in (*header["results"], header["only_scorer"], *header["scorers"]):
        name = mapping(entry).get("scorer") or mapping(entry).get("name")
        if isinstance(name, str):
            names[name] = None
            names[name.rpartition("/")[2]] = None
    return list(names)


def _rank_metrics(header: Object, scorers: Sequence[str], metrics: Iterable[Metric]) -> list[Metric]:
    """Metrics, preferred ones first: the log's headline, then in the order of the scorers."""
    score, scorer = header["headline"].get("score"), header["headline"].get("scorer")
    order = {name: k for k, name in enumerate(scorers)}

    def rank(metric: Metric) -> tuple[bool, int]:
        is_headline = bool(score or scorer) and score in (None, metric.name) and scorer in (None, metric.variant)
        return not is_headline, order.get(metric.variant, len(order))

    return sorted(metrics, key=rank)


def means_of_results(
    log: InspectLog, values: Mapping[Metric, Sequence[float | None]], repeated_ids: int
) -> tuple[dict[Metric, float], list[str]]:
    """Means that the results state for exactly the samples of the log, and why others are not checked."""
    if repeated_ids:
        return {}, [
            f"{repeated_ids:,} samples share their id with another, which the results count as one; not checked"
        ]
    header = log.header
    means: dict[Metric, float] = {}
    unchecked: dict[str, None] = {}
    oldest = {"name": header["only_scorer"].get("name"), "metrics": header["only_metrics"]}
    for k, entry in enumerate(header["results"] or [oldest], 1):
        result = SCORE_RESULT.read(entry, f"{log.path}, results.scores, entry {k}")
        metric = Metric(result["name"], result["scorer"])
        reducers = [result["reducer"]] if result["reducer"] else header["reducers"]
        if metric not in values or reducers not in ([], (), ["mean"]):
            continue
        counted, own_count = result["scored_samples"], len(values[metric]) - values[metric].count(None)
        if counted is None:
            counted, own_count = header["completed_samples"], len(log.rows) - log.failed
        if counted not in (None, own_count):
            note = f"its results count {counted} samples, but it holds {own_count} with a score; means not checked"
            unchecked[note] = None
            continue
        for name, stated in result["metrics"].items():
            mean = mapping(stated)
            value = number(mean.get("value"))
            is_plain = not mean.get("params") and not mean.get("options")  # no mean of other numbers for the grades
            if value is not None and is_plain and name.rpartition("/")[2] in ("mean", "accuracy"):
                means[metric] = value
    return means, list(unchecked)


def _notes_on_run(log: InspectLog) -> list[str]:
    """What the user should know about a log as a whole."""
    notes: list[str] = []
    header = log.header
    total = max(len(header["planned_ids"]) * header["epochs"], header["total_samples"])
    if len(log.rows) < total:
        notes.append(f"partial: {len(log.rows):,} of {total:,} samples")
    if header["status"] not in ("success", None):
        notes.append(f"the run did not finish: status {header['status']}")
    if header["schema"] not in KNOWN_SCHEMAS:
        notes.append(f"log schema {header['schema']} is not known; read by its keys")
    return notes


def _notes_on_missing(log: InspectLog, others: Mapping[Metric, int], failed_count: bool) -> list[str]:
    """Which samples and values are missing, and why."""
    notes: list[str] = []
    for metric, count in others.items():
        notes.append(f"{count:,} values of {metric} are not grades or numbers: missing")
    if log.void:
        notes.append(f"{log.void:,} of {len(log.rows):,} samples were marked as invalid: missing")
    if log.failed:
        how = "scored all the same, as score_on_error asked" if failed_count else "missing"
        notes.append(f"{log.failed:,} of {len(log.rows):,} samples ended in an error: {how}")
    return notes


def _why_unscored(log: InspectLog, others: Mapping[Metric, int]) -> str:
    """Why a log has no scores."""
    if log.failed == len(log.rows) == 1:
        return "its sample ended in an error"
    if log.failed == len(log.rows):
        return f"no answers: all {log.failed:,} samples ended in an error"
    if others:
        return f"its scores are not single numbers or grades ({listed(map(str, others), 4)})"
    if log.void:
        return "its samples failed or were marked as invalid"
    if log.header["results"]:
        return "its samples have no scores, only its results do"
    return "not scored; `inspect score` adds scores to a log"


def _describe_subject(header: Object) -> tuple[str, dict[str, Plain]]:
    """The model and what else makes it a subject of its own; a model at a path is called by the path."""
    arguments = dict(header["model_arguments"])
    model = words(arguments.pop("model_path", None)) or header["model"]
    subject = _plain_arguments(arguments)
    if header["solver"] is not None:
        subject["solver"] = header["solver"]
        subject |= _plain_arguments(header["solver_arguments"], "solver.")
    return model, subject


def _describe_settings(header: Object) -> dict[str, Plain]:
    """What a task was run with; tells subjects apart where one model has several logs of a test set."""
    settings: dict[str, Any] = {}
    for key, role in header["roles"].items():
        settings[f"role.{key}"] = ", ".join(str(mapping(one).get("model")) for one in entries(role) or [role])
    for key in LIMITS:
        settings[key] = header["config"].get(key)
    settings |= {**header["model_options"], **header["plan_options"], **header["task_arguments"]}
    settings["task_version"] = header["task_version"] or None
    return _plain_arguments(settings)


def _plain_arguments(values: Object, prefix: str = "") -> dict[str, Plain]:
    """Values that are there, lists and objects as JSON, without what does not change answers."""
    arguments: dict[str, Plain] = {}
    for key, value in values.items():
        if value in (None, [], {}) or IGNORED_ARGUMENTS.fullmatch(key.lower()):
            continue
        is_plain = isinstance(value, str | int | float)
        arguments[prefix + key] = value if is_plain else json.dumps(value, sort_keys=True)
    return arguments


def _time_in_utc(created: Any) -> str:
    """When the log was made, in UTC, so that stamps sort."""
    try:
        return datetime.fromisoformat(created).astimezone(UTC).isoformat(timespec="seconds")
    except (TypeError, ValueError, OverflowError, OSError):
        return text(created) or ""

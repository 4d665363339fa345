"""Samples of Inspect logs: which item each is, what it asks, and what its scores are as numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from breadth.errors import InputError
from breadth.importers.logs import Metric
from breadth.importers.reading import entries, mapping, number, numbered, option_letters, text_hash, text_item, words

#: The first version whose summaries hold the choices.
CHOICES_SINCE = (0, 3, 156)

#: What Inspect counts a grade or a word as.
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
TRUTH = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

#: How a summary ends a text that it cut, and what it has in place of everything that is not text.
CUT = "...\n(content truncated)"
NOT_TEXT = {f"({kind})" for kind in ("Image", "Audio", "Video", "Data", "Document", "Tool_use", "Reasoning")}

#: How a text that is kept elsewhere in the sample begins.
ATTACHED = "attachment://"

_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[\w+/=-]+", re.ASCII)


#: What a scorer made of an answer: its value, and what it took as the answer.
Score = tuple[Any, str | None]


class Record(NamedTuple):
    """A sample in one epoch, as the sample itself or its summary says.

    ``text`` is the input as it is shown; ``asked`` a hash of all of it, images too, where the id is a number.
    ``choices`` are None where nothing is said of them, else values of any type that are shown as text. The oldest logs
    have one score without the name of its scorer, which is None. ``failed`` samples ended in an error, ``void`` ones
    were marked as invalid, and ``cut`` ones lack part of the input or the target.
    """

    id: str | int
    epoch: int
    text: str
    asked: str
    choices: list[Any] | None
    target: str | None
    scores: Mapping[str | None, Score]
    failed: bool
    void: bool
    cut: bool


def records(samples: Any, where: str) -> list[Record]:
    """Take from samples or summaries what is used."""
    if not isinstance(samples, list):
        raise InputError(f"{where}: expected a list of samples; the file is damaged")
    return [record(sample, where, k) for k, sample in enumerate(samples, 1)]


def record(sample: Any, where: str, k: int = 1) -> Record:
    """Take from a sample or summary, the ``k``-th of a file, what is used."""
    id = sample.get("id") if isinstance(sample, dict) else None
    if type(id) is not str and type(id) is not int:
        raise InputError(f"{where}, sample {k}: has no id; the file is damaged, or not a log of Inspect")
    get = sample.get
    epoch, asked, choices, target = get("epoch"), get("input"), get("choices"), get("target")
    read_input = _piece if isinstance(asked, str) else _messages
    text, whole = read_input(asked, get("attachments"))
    scores: dict[str | None, Score] = {}
    told = get("scores") or {None: get("score")}
    for name, score in told.items() if isinstance(told, dict) else ():
        if isinstance(score, dict):
            answer = score.get("answer")
            scores[name] = score.get("value"), answer if isinstance(answer, str) else None
    return Record(
        id,
        epoch if type(epoch) is int else 1,
        text,
        text_item(whole) if type(id) is int else "",
        choices if isinstance(choices, list) else None,
        " | ".join(map(str, target)) if isinstance(target, list) else words(target),
        scores,
        bool(get("error")),
        bool(get("invalidation")),
        _is_cut(asked) or _is_cut(target),
    )


def _is_cut(value: Any) -> bool:
    """Whether a summary lacks part of a text, or of the messages of an input."""
    if isinstance(value, str):
        return value.endswith(CUT) or value in NOT_TEXT
    if isinstance(value, list):
        return any(map(_is_cut, value))
    return isinstance(value, dict) and (_is_cut(value.get("content")) or _is_cut(value.get("text")))


def _messages(value: Any, attachments: Any) -> tuple[str, str]:
    """Messages as they are shown, with ``[image]`` for an image, and as they identify an item, with the image."""
    messages = [message for message in entries(value) if isinstance(message, dict)]
    shown: list[str] = []
    whole: list[str] = []
    for message in messages:
        content = message.get("content")
        pieces = [_piece(part, attachments) for part in entries(content) or [content] if part]
        role = f"{message.get('role')}: " if len(messages) > 1 else ""
        shown.append(role + "\n".join(piece for piece, _ in pieces))
        whole.append(role + "\n".join(piece for _, piece in pieces))
    return "\n\n".join(shown), "\n\n".join(whole)


def _piece(part: Any, attachments: Any) -> tuple[str, str]:
    """A part of a message: its text, or what kind of thing it is; and all of it."""
    if isinstance(part, str):
        if part.startswith(ATTACHED):
            attached = mapping(attachments).get(part.removeprefix(ATTACHED))
            part = attached if isinstance(attached, str) else part
        return (_DATA.sub("[data]", part) if ";base64," in part else part), part
    kind = str(mapping(part).get("type"))
    content = mapping(part).get(kind)
    if not isinstance(content, str):
        return f"[{kind}]", json.dumps(part, sort_keys=True)
    shown, whole = _piece(content, attachments)
    return shown if kind == "text" else f"[{kind}]", whole


#: A sample of the data set: its records in all epochs.
Sample = list[Record]


def group(rows: Iterable[Record]) -> list[Sample]:
    """Group records into samples, in the order of numbered ids; an id with two texts in one epoch is two samples."""
    by_id: dict[str | int, Sample] = {}
    for row in rows:
        by_id.setdefault(row.id, []).append(row)
    samples = [sample for same in by_id.values() for sample in (_by_text(same) if len(same) > 1 else (same,))]
    return sorted(samples, key=lambda sample: place if isinstance(place := sample[0].id, int) else 0)


def _by_text(rows: list[Record]) -> Iterable[Sample]:
    """Records of one id as one sample, or as one for each text if there are several in one epoch."""
    if len({row.epoch for row in rows}) == len({(row.epoch, row.text) for row in rows}):
        return [rows]
    by_text: dict[str, Sample] = {}
    for row in rows:
        by_text.setdefault(row.text, []).append(row)
    return by_text.values()


def of_epoch(sample: Sample, epoch: int | None) -> Sample:
    """The records of one epoch, or of all."""
    return sample if epoch is None else [row for row in sample if row.epoch == epoch]


def choices_told(version: str | None) -> bool:
    """Whether summaries of a version of Inspect hold the choices; where they have none, there are none."""
    release = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", version or "")
    return bool(release and tuple(map(int, release.groups())) >= CHOICES_SINCE)


def describe(sample: Sample, whole: Callable[[Record], Record], texts: bool, told: bool) -> Record:
    """A record with all that is asked, where this is wanted for the report or needed as the item's identity.

    ``told`` says whether a record without choices is known to have none.
    """
    row = sample[0]
    choices_needed = texts or not isinstance(row.id, str)
    return whole(row) if row.cut or (choices_needed and row.choices is None and not told) else row


def identify(samples: Sequence[Sample], described: Sequence[Record]) -> list[str]:
    """A name per sample that it has in other logs, too: its id if that is text, else a hash of what it asks."""
    return numbered(
        name if isinstance(name := sample[0].id, str) else text_item(row.asked, *sorted(map(str, row.choices or ())))
        for sample, row in zip(samples, described, strict=True)
    )


def text_columns(rows: Sequence[Record]) -> dict[str, list[Any]]:
    """What is asked, as columns; a target that is the letter of a choice is the label."""
    options = [list(map(str, row.choices)) if row.choices else None for row in rows]
    labels = [option_letters(len(choices)) if choices else None for choices in options]
    chosen = [own is not None and row.target in own for row, own in zip(rows, labels, strict=True)]
    columns: dict[str, list[Any]] = {
        "text": [row.text for row in rows],
        "options": options,
        "option_labels": labels,
        "label": [row.target if is_label else None for row, is_label in zip(rows, chosen, strict=True)],
        "target": [None if is_label else row.target for row, is_label in zip(rows, chosen, strict=True)],
    }
    return {name: column for name, column in columns.items() if any(column)}


def hash_column(rows: Sequence[Record]) -> dict[str, list[Any]]:
    """Hashes of the questions whose ids are text: subsets of a test set may use the same ids."""
    column = [text_hash(row.text) if isinstance(row.id, str) else None for row in rows]
    return {"text_hash": column} if any(column) else {}


#: A score as a number, after the place of its sample and the epoch.
Number = tuple[int, int, float]


class Scores(NamedTuple):
    """The numbers of every metric, and how many values of a metric are not numbers."""

    values: dict[Metric, list[Number]]
    others: dict[Metric, int]


def score_all(samples: Sequence[Sample], scorers: Sequence[str], failed_count: bool) -> Scores:
    """Collect the numbers of all metrics. Samples marked as invalid have none, nor have failed ones by default."""
    values: dict[tuple[str, str], list[Number]] = {}
    others: dict[Metric, int] = {}
    unnamed = (*scorers, "score")[0]
    for k, sample in enumerate(samples):
        for row in sample:
            if row.void or (row.failed and not failed_count):
                continue
            for name, (value, _) in row.scores.items():
                scorer = unnamed if name is None else name
                for key, single in value.items() if isinstance(value, dict) else ((scorer, value),):
                    converted = to_number(single)
                    if converted is not None:
                        values.setdefault((key, scorer), []).append((k, row.epoch, converted))
                    elif isinstance(single, str | list | dict):
                        metric = Metric(key, scorer)
                        others[metric] = others.get(metric, 0) + 1
    return Scores({Metric(*key): numbers for key, numbers in values.items()}, others)


def to_number(value: Any) -> float | None:
    """A score as Inspect's ``value_to_float`` sees it; None where it is not a number, or NaN, which means unscored."""
    if not isinstance(value, str):
        return number(value)
    counted = GRADES.get(value, TRUTH.get(value.lower()))
    if counted is None:
        try:
            counted = number(float(value))
        except ValueError:
            return None
    return counted


def means(numbers: Iterable[Number], samples: int, epoch: int | None) -> list[float | None]:
    """The mean of every sample over all epochs that are scored, or its score in one."""
    sums, counts = [0.0] * samples, [0] * samples
    for place, own, value in numbers:
        if epoch is None or epoch == own:
            sums[place] += value
            counts[place] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def answer_of(rows: Sequence[Record], scorers: Sequence[str]) -> str | None:
    """What the first scorer that says so took as the answer; None where epochs differ."""
    answer = _answer(rows[0].scores, scorers)
    return answer if all(_answer(row.scores, scorers) == answer for row in rows[1:]) else None


def _answer(scores: Mapping[str | None, Score], scorers: Sequence[str]) -> str | None:
    for name in (*scorers, *scores) if len(scores) > 1 else scores:
        if name in scores and (answer := scores[name][1]) is not None:
            return answer
    return None

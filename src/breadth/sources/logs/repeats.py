"""Several logs of one subject and test set: equal answers are merged, different ones need the user's choice."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Literal

from breadth.errors import InputError
from breadth.results.words import count
from breadth.sources.logs.log_files import KnownFile
from breadth.sources.logs.subjects import LOG, SubjectLog

#: Which of two logs with different answers is used: the newest, or all of them as subjects of their own.
KeepLogs = Literal["newest", "all"]

#: AnswersByPlace by the places of their items.
AnswersByPlace = Mapping[int, float]


@dataclass
class MergedLogs:
    """Logs that agree: the newest of them, and all their answers by the places of the items."""

    newest: SubjectLog
    answers: dict[int, float] = field(default_factory=dict)

    def differing(self, answers: AnswersByPlace) -> int:
        """How many answers differ from those of these logs."""
        number = 0
        for place, value in answers.items():
            if value != self.answers.get(place, value):
                number += 1
        return number


def merge_repeated_logs(
    logs: Sequence[SubjectLog], keep: KeepLogs | None, left_out: dict[str, str]
) -> list[SubjectLog]:
    """One answer per subject and item: the logs that are used, each with the rows that no other has."""
    groups: dict[Hashable, list[SubjectLog]] = {}
    for log in logs:
        groups.setdefault((log.asked, log.testset), []).append(log)
    used: set[int] = set()
    problems: list[str] = []
    for group in groups.values():
        if len(group) == 1:
            used.add(id(group[0]))
            continue
        newest_first = sorted(group, key=lambda log: (log.content.stamp, log.path), reverse=True)
        used.update(map(id, _merge_group(newest_first, keep, left_out, problems)))
    if problems:
        raise InputError("\n".join(problems))
    return [log for log in logs if id(log) in used]


def _merge_group(
    newest_first: Sequence[SubjectLog], keep: KeepLogs | None, left_out: dict[str, str], problems: list[str]
) -> list[SubjectLog]:
    """The logs of one subject and test set that are used.

    Logs that agree with the newest are merged with it. One that does not is merged with logs that an earlier import
    kept, is refused or left out, or becomes a subject of its own. One that an earlier import left out, as the user
    chose then, is left out again.
    """
    replaced: set[KnownFile] = set()
    for log in newest_first:
        replaced.update(KnownFile.of(path, checksum) for path, checksum in log.older)
    used: list[SubjectLog] = []
    merged: dict[str, MergedLogs] = {}  # by label; the newest has none
    # What an earlier import kept as a subject of its own comes first, so that it stays one.
    for log in sorted(newest_first, key=lambda log: LOG not in log.own):
        answers = _answers_by_place(log)
        if LOG in log.own:
            kept = merged.setdefault(str(log.own[LOG]), MergedLogs(log))
            kept.answers |= answers
            used.append(log)
            continue
        newest = merged.setdefault("", MergedLogs(log)).newest
        label = _label_of_agreeing(answers, merged)
        if label is None and keep == "all":
            label = _new_label(log, newest, merged)
            merged[label] = MergedLogs(log)
        elif label is None:
            if keep is None and log.file not in replaced:
                problems.append(_different_answers(log, newest, merged[""].differing(answers)))
            else:
                left_out[log.path] = f"older than {newest.path}, which has the same subject and test set"
                _remember_replaced(newest, log)
            continue
        if label:
            log.own[LOG] = log.attributes[LOG] = label
        if _add_log(log, answers, merged[label], left_out):
            used.append(log)
    return used


def _answers_by_place(log: SubjectLog) -> dict[int, float]:
    answers = {}
    for place, value in zip(log.places, log.content.scores(log.metric).tolist(), strict=True):
        if not isnan(value):
            answers[place] = value
    return answers


def _label_of_agreeing(answers: AnswersByPlace, merged: Mapping[str, MergedLogs]) -> str | None:
    """The label of logs with the same answers, the newest first; None if all differ."""
    for label in ("", *merged):
        if not merged[label].differing(answers):
            return label
    return None


def _new_label(log: SubjectLog, newest: SubjectLog, merged: Mapping[str, MergedLogs]) -> str:
    """What tells a log from others of its subject: its time, or its path where another has the same time."""
    if log.content.stamp == newest.content.stamp or log.content.stamp in merged:
        return log.path
    return log.content.stamp


def _different_answers(log: SubjectLog, newest: SubjectLog, number: int) -> str:
    return (
        f"{log.path} and {newest.path} hold different answers of {log.model!r} to {count(number, 'item')} of "
        f"{log.testset}; use --keep newest for the later log, --keep all for both as subjects of their own"
    )


def _remember_replaced(newest: SubjectLog, log: SubjectLog) -> None:
    """Importing again leaves out what was left out, without asking the user again."""
    for one in [(log.path, log.checksum), *log.older]:
        if one not in newest.older:
            newest.older.append(one)


def _add_log(log: SubjectLog, answers: AnswersByPlace, merged: MergedLogs, left_out: dict[str, str]) -> bool:
    """Add a log to those with which it agrees, unless they have all its answers; only the others are used."""
    if merged.answers:
        log.rows = []
        for row, place in enumerate(log.places):
            if place in answers and place not in merged.answers:
                log.rows.append(row)
        if not log.rows:
            left_out[log.path] = f"the same answers as {merged.newest.path}"
            return False
        shared = len(answers) - len(log.rows)
        if shared:
            log.notes.append(f"shares {shared:,} of its {len(answers):,} answers with {merged.newest.path}")
    merged.answers |= answers
    return True

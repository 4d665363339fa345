"""Checks of a user's own test sets: the files, their columns, and the keys that belong to their kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from breadth.datasets.tasks import fields_of
from breadth.errors import InputError, listed
from breadth.records.tables import read_table
from breadth.study.checks import answer_problems
from breadth.study.known import KnownSet
from breadth.study.problems import Place, Problem, did_you_mean, quoted
from breadth.study.schema import OwnSet, Study

#: A field that the tasks fill in themselves.
CHOICES = "choices"

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
_ONLY_FOR = {
    "answers": "pattern",
    "options": "choice",
    "normalise": "choice",
    "extract": "generate",
    "metric": "generate",
    "most_tokens": "generate",
}


def own_set_problems(study: Study, known: dict[str, KnownSet], base: Path) -> Iterator[Problem]:
    """Everything that is wrong with the sets under ``sets``."""
    for name, own in study.sets.items():
        place: Place = ("sets", name)
        if name in known:
            yield Problem(place, "is the name of a data set that breadth knows; choose another")
        elif not _NAME.match(name):
            yield Problem(place, "a name has only letters, digits, dots, dashes and underscores")
        yield from _kind_problems(own, study, place)
        yield from _file_problems(own, study, place, base)


def _kind_problems(own: OwnSet, study: Study, place: Place) -> Iterator[Problem]:
    needs = ((*place, "kind"),)
    for key, kind in _ONLY_FOR.items():
        # A resolved study names every key, so what counts is that a value is not the default.
        if own.kind != kind and getattr(own, key) != OwnSet.model_fields[key].default:
            yield Problem((*place, key), f"is for kind {kind}, and this set is of kind {own.kind}", needs)
    if own.pattern is None and not (own.kind == "pattern" and study.pattern is not None):
        yield Problem((*place, "pattern"), f"is missing: kind {own.kind} needs the prompt", needs)
    if own.kind == "pattern":
        yield from _answer_problems(own, study, place)
    if own.kind == "choice" and own.options is None:
        yield Problem((*place, "options"), "is missing: kind choice needs the column with the options", needs)
    if own.kind == "generate":
        yield from _generate_problems(own, place)
    yield from _prompt_problems(own, study, place)


def _answer_problems(own: OwnSet, study: Study, place: Place) -> Iterator[Problem]:
    if own.answers is not None:
        yield from answer_problems((*place, "answers"), own.answers)
    elif study.answers is None:
        message = "is missing: kind pattern needs at least two labels and answers"
        yield Problem((*place, "answers"), message, ((*place, "kind"), ("answers",)))
    answers = own.answers or study.answers or {}
    strange = [label for label in (own.labels or {}).values() if label not in answers]
    if strange and answers:
        where = ((*place, "answers"), ("answers",))
        yield Problem((*place, "labels"), f"there is no answer for {quoted(dict.fromkeys(strange))}", where)


def _prompt_problems(own: OwnSet, study: Study, place: Place) -> Iterator[Problem]:
    fields = _fields(own, study)
    if isinstance(fields, str):
        yield Problem((*place, "pattern"), fields)
    elif fields is not None:
        if not fields:
            yield Problem((*place, "pattern"), "has no field in braces, so every item would get the same prompt")
        for key in own.fields:
            if key not in fields:
                yield Problem((*place, "fields", key), f"is not in the pattern.{did_you_mean(key, fields)}")
        if own.shorten is not None and own.shorten not in fields:
            message = f"{own.shorten!r} is not in the pattern.{did_you_mean(own.shorten, fields)}"
            yield Problem((*place, "shorten"), message, ((*place, "pattern"),))


def _generate_problems(own: OwnSet, place: Place) -> Iterator[Problem]:
    if own.extract is None:
        if own.metric != "number":
            message = "is missing: kind generate needs it, unless metric is number (then the last number counts)"
            yield Problem((*place, "extract"), message, ((*place, "metric"), (*place, "kind")))
        return
    try:
        if re.compile(own.extract).groups < 1:
            yield Problem((*place, "extract"), "has no group; put what is the answer in round brackets")
    except re.error as error:
        yield Problem((*place, "extract"), f"is no regular expression: {error}")


def _fields(own: OwnSet, study: Study) -> tuple[str, ...] | str | None:
    pattern = own.pattern or (study.pattern if own.kind == "pattern" else None)
    if pattern is None:
        return None
    try:
        return fields_of(pattern)
    except InputError as error:
        return str(error) if own.pattern else None


def _file_problems(own: OwnSet, study: Study, place: Place, base: Path) -> Iterator[Problem]:
    for key in ("file", "train_file"):
        name = getattr(own, key)
        if name is None:
            continue
        path = base / Path(name).expanduser()
        if not path.is_file():
            yield Problem((*place, key), f"there is no file {name!r} (paths are relative to the study file)")
            continue
        try:
            frame = read_table(path).frame
        except InputError as error:
            yield Problem((*place, key), str(error))
            continue
        yield from _column_problems(own, study, place, frame, name)


def _column_problems(own: OwnSet, study: Study, place: Place, frame: pl.DataFrame, file: str) -> Iterator[Problem]:
    def missing(where: Place, column: str) -> Problem:
        hint = did_you_mean(column, frame.columns)
        return Problem(where, f"{file} has no column {column!r}.{hint} Columns: {listed(frame.columns)}")

    fields = _fields(own, study)
    for field in fields if isinstance(fields, tuple) else ():
        column = own.fields.get(field, field)
        if column not in frame.columns and not (own.kind == "choice" and field == CHOICES):
            yield missing((*place, "fields", field) if field in own.fields else (*place, "pattern"), column)
    for key in ("label", "item", "options"):
        column = getattr(own, key)
        if column is not None and column not in frame.columns:
            yield missing((*place, key), column)
    answers = own.answers or study.answers
    if own.kind == "pattern" and answers and own.label in frame.columns:
        values = frame[own.label].cast(pl.String, strict=False).drop_nulls().unique().sort().to_list()
        found = [own.labels.get(value) for value in values] if own.labels is not None else values
        if not set(found) & set(answers):
            yield Problem(
                (*place, "label"),
                f"column {own.label!r} of {file} holds {listed(values, most=5)}, and none is a label with an answer "
                f"({listed(answers)}); say which is which under labels",
                ((*place, "answers"), (*place, "labels")),
            )
    if own.item is not None and own.item in frame.columns and frame[own.item].is_duplicated().any():
        row = int(frame[own.item].is_duplicated().arg_max() or 0)
        yield Problem(
            (*place, "item"), f"{file} has the item {frame[own.item][row]!r} more than once; names must differ"
        )

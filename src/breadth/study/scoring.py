"""How each test set of a study is asked and scored: the registry's task, the study's own words, or an own set's."""

from __future__ import annotations

import dataclasses
from typing import Any

from breadth.datasets.tasks import Choice, Generate, Pattern, Task
from breadth.study.known import KnownSet
from breadth.study.schema import OwnSet, Study

#: Takes the last number of a text, for own sets whose metric is a number and that name no expression.
LAST_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"


def used_sets(study: Study) -> list[str]:
    """Sets that a study evaluates or trains on, each once, in order."""
    train = study.train.set if study.train else []
    return list(dict.fromkeys([*study.evaluate.on, *train]))


def resolve_task(name: str, study: Study, known: dict[str, KnownSet]) -> Task:
    """The task of one set; the study's own ``pattern`` and ``answers`` replace those of every set of kind pattern."""
    own = study.sets.get(name)
    if own is not None:
        return own_task(own, study)
    task = known[name].task
    if isinstance(task, Pattern):
        # One list of answers may serve sets with different labels; each takes its own.
        answers = tuple((label, study.answers[label]) for label in task.labels) if study.answers else task.answers
        if study.pattern is None:
            return dataclasses.replace(task, answers=answers)
        return Pattern(study.pattern, answers, task.shorten if f"{{{task.shorten}}}" in study.pattern else None)
    return task


def own_task(own: OwnSet, study: Study) -> Task:
    """The task of an own set that has been checked."""
    template = own.pattern or (study.pattern if own.kind == "pattern" else None) or ""
    if own.kind == "choice":
        return Choice(template, normalise=own.normalise, shorten=own.shorten)
    if own.kind == "generate":
        extract = own.extract or LAST_NUMBER
        return Generate(template, extract, own.metric, own.most_tokens, shorten=own.shorten)
    answers = own.answers or study.answers or {}
    return Pattern(template, tuple(answers.items()), own.shorten)


def kind_of(task: Task) -> str:
    """The word for a task in a study file."""
    return {Pattern: "pattern", Choice: "choice", Generate: "generate"}[type(task)]


def task_spec(task: Task) -> dict[str, Any]:
    """A task as plain values; answers keep their order out of it, since it does not change who is right."""
    values = dataclasses.asdict(task)
    if isinstance(task, Pattern):
        values["answers"] = dict(task.answers)
    return {"kind": kind_of(task), **values}

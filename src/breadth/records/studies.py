"""A study's directory as the three tables: responses, subjects, items."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from breadth.errors import InputError
from breadth.records.schemas import SUBJECTS
from breadth.records.store import open_study

#: What of a run's description belongs to every one of its subjects.
SUBJECT_KEYS = ("model", "train_set", "shots", "seed", "train_level", "strategy", "method")

#: Columns of the subjects of a study.
SUBJECT_TYPES: dict[str, type[pl.DataType]] = {**SUBJECTS, "strategy": pl.String, "method": pl.String}
_RESPONSE_TYPES = {
    "subject": pl.String,
    "testset": pl.String,
    "item": pl.String,
    "correct": pl.Float64,
    "margin": pl.Float64,
    "answer": pl.String,
}


@dataclass(frozen=True)
class StudyTables:
    """Everything a study has answered so far.

    ``responses`` also names the test set of each item; ``planned`` is the last checkpoint of every run that is to come
    if it is not there yet; ``started`` counts the examples that a run's model learnt before step 0.
    """

    responses: pl.DataFrame
    subjects: pl.DataFrame
    items: pl.DataFrame
    warnings: tuple[str, ...] = ()
    planned: Mapping[str, int] = field(default_factory=dict)
    started: Mapping[str, int] = field(default_factory=dict)

    def answers(self) -> pl.DataFrame:
        """One long table of single answers with who and what, as the verbs read it."""
        described = [name for name in ("level", "difficulty") if name in self.items.columns]
        keys = [name for name in self.subjects.columns if self.subjects[name].null_count() < self.subjects.height]
        frame = self.responses.drop("answer").join(self.subjects.select(keys), on="subject", how="left")
        if not described:
            return frame
        about = self.items.select("testset", "item", *described)
        return frame.join(about, on=["testset", "item"], how="left", maintain_order="left")


def read_study(source: str | os.PathLike[str]) -> StudyTables:
    """Read a study's directory; damaged parts are set aside and named in the warnings."""
    store = open_study(source)
    folder = store.folder
    items = [store.read_items(name) for name in store.testsets()]
    subjects: list[dict[str, object]] = []
    parts: list[pl.DataFrame] = []
    warnings: list[str] = []
    planned: dict[str, int] = {}
    started: dict[str, int] = {}
    for run in store.runs():
        spec = run.spec()
        planned[run.name] = max([*(spec.get("checkpoints") or []), *run.parts()], default=0)
        started[run.name] = examples_before(spec)
        for step, path in run.parts().items():
            part = run.read_part(path)
            if part is None:
                continue
            subject = f"{run.name}/{step}"
            subjects.append(
                {"subject": subject, "run": run.name, "step": step, **{k: spec.get(k) for k in SUBJECT_KEYS}}
            )
            parts.append(part.with_columns(pl.lit(subject).alias("subject")))
        warnings += run.warnings
    if not parts:
        lost = f" ({len(warnings)} damaged ones were set aside)" if warnings else ""
        raise InputError(f"{folder}: no checkpoint has been evaluated yet{lost}; start or continue with `breadth run`")
    responses = pl.concat(parts).select(pl.col(name).cast(dtype) for name, dtype in _RESPONSE_TYPES.items())
    return StudyTables(
        responses,
        pl.DataFrame(subjects, schema=SUBJECT_TYPES, orient="row"),
        pl.concat(items, how="diagonal_relaxed"),
        tuple(warnings),
        planned,
        started,
    )


def examples_before(spec: Mapping[str, Any]) -> int:
    """Examples that the model of a run learnt before step 0, by what the run's file says."""
    start = spec.get("start")
    shots = start.get("shots") if isinstance(start, dict) else None
    return shots if isinstance(shots, int) else 0

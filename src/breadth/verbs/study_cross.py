"""A study that trained by level or strategy, as the table of answers that ``cross`` reads."""

from __future__ import annotations

import os

import polars as pl

from breadth.errors import InputError, did_you_mean, listed
from breadth.records import StudyTables, Table, read_study
from breadth.verbs.study_scores import unfinished

_OPTIONS = {"model": "--model", "train_set": "--train-set", "shots": "--shots"}


def study_table(
    folder: str | os.PathLike[str],
    model: str | None = None,
    train_set: str | None = None,
    shots: int | None = None,
    *,
    leveled: bool = False,
) -> Table:
    """Last checkpoint of every run trained by level or strategy, and step 0, on the items of the set trained on.

    The untrained model comes once per seed (its way of training is null), however many runs began with it: nothing is
    counted twice, and where step 0 was computed on different machines, ``cross`` averages. What differs between seeds
    is the training alone, so the baseline has no seeds to pair with. ``leveled`` says that levels of items come from
    elsewhere. Runs that have not reached their last checkpoint are left out.
    """
    tables, name = read_study(folder), str(folder)
    by_way = pl.col("train_level").is_not_null() | pl.col("strategy").is_not_null()
    subjects = tables.subjects.filter(by_way)
    if not subjects.height:
        raise InputError(
            f"{name}: no run was trained by level or strategy; `breadth cross` needs a study whose train section has "
            "difficulty, and levels or strategies"
        )
    for key, wanted in (("model", model), ("train_set", train_set), ("shots", shots)):
        subjects = _chosen(subjects, key, wanted, name)
    last = subjects.filter(pl.col("step") == pl.col("run").replace_strict(tables.planned, return_dtype=pl.Int64))
    trained = last.filter(pl.col("step") > 0)
    if not trained.height:
        raise InputError(
            f"{name}: no run trained by level or strategy has reached its last checkpoint; {_go_on(tables)}"
        )
    _refuse_twins(trained, name)
    untrained = _untrained(subjects, tables, name)
    answers = tables.responses.filter(pl.col("testset") == subjects["train_set"][0]).drop("margin", "answer")
    columns = ["train_level", "strategy", "seed"]
    frame = pl.concat(
        [
            answers.join(trained.select("subject", *columns), on="subject", maintain_order="left"),
            answers.join(untrained.select("subject", *columns), on="subject", maintain_order="left"),
        ]
    )
    if not frame.height:
        raise InputError(
            f"{name}: {subjects['train_set'][0]} was trained on but not evaluated; gains by level need its held-out "
            "items in the study's evaluate: on"
        )
    left_out = [f"{line}; left out" for line in unfinished(tables, subjects)]
    warnings = (*tables.warnings, *left_out, *_start_note(subjects, tables))
    return Table(frame if leveled else _with_levels(frame, tables, name), name, warnings=warnings)


def _chosen(subjects: pl.DataFrame, key: str, wanted: str | int | None, name: str) -> pl.DataFrame:
    """The runs of one model, train set or size; where there are several, one has to be named."""
    there = subjects[key].unique().drop_nulls().sort().to_list()
    option = _OPTIONS[key]
    if wanted is None:
        if len(there) < 2:
            return subjects
        raise InputError(
            f"{name}: has {len(there)} values of {key}; choose one with {option}: {listed(map(str, there))}"
        )
    if wanted not in there:
        hint = did_you_mean([str(wanted)], map(str, there))
        raise InputError(
            f"{name}: no run by level or strategy has {key} {wanted}.{hint} There are: {listed(map(str, there))}"
        )
    return subjects.filter(pl.col(key) == wanted)


def _refuse_twins(trained: pl.DataFrame, name: str) -> None:
    """Two runs of one level and seed differ in their recipe: they are not seeds of one way of training."""
    twins = trained.filter(pl.struct("train_level", "strategy", "seed").is_duplicated()).sort(
        "train_level", "strategy", "seed", "run"
    )
    if twins.height:
        raise InputError(
            f"{name}: runs {twins['run'][0]} and {twins['run'][1]} have the same model, level or strategy, and seed, "
            "but another recipe; keep studies of different recipes in directories of their own"
        )


def _untrained(subjects: pl.DataFrame, tables: StudyTables, name: str) -> pl.DataFrame:
    """Step 0, once per seed; else the model's zero-shot run, unless runs began somewhere else."""
    model = pl.col("model").eq_missing(pl.lit(subjects["model"][0]))
    start = subjects.filter(pl.col("step") == 0)
    if not start.height and not any(tables.started.get(run) for run in subjects["run"]):
        start = tables.subjects.filter(model & (pl.col("method") == "zero-shot"))
    if not start.height:
        raise InputError(f"{name}: the model before training (step 0) has not been evaluated; {_go_on(tables)}")
    once = start.sort("run").unique("seed", keep="first", maintain_order=True)
    blank = [pl.lit(None, dtype=start[key].dtype).alias(key) for key in ("train_level", "strategy")]
    return once.with_columns(blank)


def _start_note(subjects: pl.DataFrame, tables: StudyTables) -> list[str]:
    examples = sorted({tables.started.get(run, 0) for run in subjects["run"]} - {0})
    learnt = " or ".join(f"{count:,}" for count in examples)
    text = f"step 0 comes after a start: the model has learnt from {learnt} examples by then; gains count from there"
    return [text] if examples else []


def _with_levels(frame: pl.DataFrame, tables: StudyTables, name: str) -> pl.DataFrame:
    if "level" not in tables.items.columns:
        raise InputError(f"{name}: its items have no level; name a calibration of them with --calibration")
    known = tables.items.select("testset", "item", "level")
    return frame.join(known, on=["testset", "item"], how="left", maintain_order="left")


def _go_on(tables: StudyTables) -> str:
    return "continue with `breadth run`" if not tables.warnings else "`breadth run` does what was set aside again"

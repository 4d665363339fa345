"""A study's checkpoints as subjects: for calibration, and chosen by name for profiles."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from breadth.errors import InputError, did_you_mean, listed, unknown_column
from breadth.records import Responses, StudyTables, Table, is_study, read_answers, read_responses, read_study


def read_subjects(source: Any, testset: str | None = None) -> tuple[Responses, pl.DataFrame | None]:
    """Answers to calibrate on and, for a study, what is known about its items: ``item, testset, label``."""
    if is_study(source):
        return _from_study(source, testset)
    if testset is None:
        return read_responses(source), None
    path = isinstance(source, str | os.PathLike)
    if isinstance(source, np.ndarray | Responses) or (path and Path(source).suffix.lower() == ".npz"):
        raise InputError("--testset needs a study's directory or a long table with a column testset")
    table = read_answers(source)
    if "testset" not in table.frame.columns:
        raise unknown_column("testset", table.frame.columns, table.name, "--testset chooses by it")
    chosen = _of_testset(table.frame, testset, table.name)
    return read_responses(Table(chosen, table.name, warnings=table.warnings)), None


def _from_study(folder: str | os.PathLike[str], testset: str | None) -> tuple[Responses, pl.DataFrame]:
    tables = read_study(folder)
    answers = tables.responses.select("subject", "testset", "item", "correct")
    answers = answers if testset is None else _of_testset(answers, testset, str(folder))
    data = read_responses(Table(answers, str(folder), warnings=tables.warnings))
    data, copies = _starts_once(data, tables)
    told = [*data.warnings]
    if copies:
        told.append(
            f"{copies} of {len(data.subjects) + copies} checkpoints are the same model once more (step 0 of "
            "further runs) and are left out"
        )
    runs = tables.subjects.filter(pl.col("subject").is_in(list(data.subjects)))["run"].n_unique()
    if runs < len(data.subjects):
        told.append(
            f"the {len(data.subjects)} subjects are checkpoints of {runs} run{'' if runs == 1 else 's'}, and "
            "checkpoints of one run are not independent subjects: standard errors are too small"
        )
    return replace(data, warnings=tuple(told)), _about(tables.items, data)


def _of_testset(frame: pl.DataFrame, testset: str, name: str) -> pl.DataFrame:
    chosen = frame.filter(pl.col("testset").cast(pl.String) == testset)
    if not chosen.height:
        there = frame["testset"].cast(pl.String).unique().drop_nulls().sort().to_list()
        hint = did_you_mean([testset], there)
        raise InputError(f"{name}: there is no test set {testset!r}.{hint} Test sets: {listed(there)}")
    return chosen


def _starts_once(data: Responses, tables: StudyTables) -> tuple[Responses, int]:
    """Runs of one model begin with the same answers: keep those of the first run."""
    facts = {row["subject"]: row for row in tables.subjects.iter_rows(named=True)}
    seen: set[tuple[str | None, bytes]] = set()
    keep = []
    for index, subject in enumerate(data.subjects):
        if facts[subject]["step"] == 0:
            key = (facts[subject]["model"], data.matrix[index].tobytes())
            if key in seen:
                continue
            seen.add(key)
        keep.append(index)
    subjects = tuple(data.subjects[index] for index in keep)
    return replace(data, matrix=data.matrix[keep], subjects=subjects), len(data.subjects) - len(keep)


def _about(items: pl.DataFrame, data: Responses) -> pl.DataFrame:
    """Test set and label by the item's name in ``data``, which has the set in front where ids repeat between sets."""
    label = pl.col("label").cast(pl.String) if "label" in items.columns else pl.lit(None, dtype=pl.String)
    known = items.select(pl.col("item").cast(pl.String), "testset", label.alias("label"))
    joined = known.with_columns(pl.concat_str(["testset", "item"], separator=" / ").alias("item"))
    names = list(data.items)
    return pl.concat([known, joined]).filter(pl.col("item").is_in(names)).unique("item", keep="first")


def choose_checkpoints(subjects: pl.DataFrame, wanted: str | Sequence[str] | None, name: str) -> list[str]:
    """Subjects of a study by run, model or step, in order; by default the first and last checkpoint of every run.

    A pattern (with wildcards) that fits runs or models stands for their first and last checkpoint; RUN/STEP or
    MODEL/STEP, where STEP is a number, ``first``, ``last`` or ``*``, for those.
    """
    ends = subjects.group_by("run", maintain_order=True).agg(
        pl.col("step").min().alias("first"), pl.col("step").max().alias("last")
    )
    rows = subjects.join(ends, on="run", maintain_order="left").sort("run", "step", maintain_order=True)
    edge = (pl.col("step") == pl.col("first")) | (pl.col("step") == pl.col("last"))
    if wanted is None:
        return rows.filter(edge)["subject"].to_list()
    chosen: list[str] = []
    for pattern in _patterns(wanted, subjects["subject"].to_list()):
        found = _fitting(rows, pattern, edge)
        if not found:
            there = [*ends["run"], *subjects["model"].unique().drop_nulls().sort(), *subjects["subject"]]
            hint = did_you_mean([pattern], there)
            raise InputError(
                f"{name}: no run, model or checkpoint fits {pattern!r}.{hint} Runs: {listed(ends['run'], 5)}; a "
                "checkpoint is RUN/STEP, RUN/first or RUN/last"
            )
        chosen += found
    return list(dict.fromkeys(chosen))


def _patterns(wanted: str | Sequence[str], subjects: Sequence[str]) -> list[str]:
    names: list[str] = []
    for entry in [wanted] if isinstance(wanted, str) else wanted:
        names += [entry] if entry in subjects else [part.strip() for part in entry.split(",") if part.strip()]
    return names


def _fitting(rows: pl.DataFrame, pattern: str, edge: pl.Expr) -> list[str]:
    def fits(text: str | None, against: str) -> bool:
        return text is not None and (text == against or fnmatch.fnmatchcase(text, against))

    edges = rows.filter(edge)
    named = [fits(run, pattern) or fits(model, pattern) for run, model in edges.select("run", "model").iter_rows()]
    if any(named):
        return edges.filter(named)["subject"].to_list()
    front, _, step = pattern.rpartition("/")
    found = []
    for row in rows.iter_rows(named=True):
        steps = [str(row["step"]), *(end for end in ("first", "last") if row["step"] == row[end])]
        if any(fits(one, step) for one in steps) and (fits(row["run"], front) or fits(row["model"], front)):
            found.append(row["subject"])
    return found

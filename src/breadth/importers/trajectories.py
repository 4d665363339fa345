"""Scores of checkpoints from the files of trainers, harnesses and trackers, as a table for ``correlate``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from breadth.errors import InputError, NothingFoundError, did_you_mean, listed
from breadth.importers.collecting import Paths, log_files, path_list, step_pattern
from breadth.importers.reading import LogFile
from breadth.importers.score_files import (
    Reading,
    Run,
    ScoreFormat,
    is_harness_results,
    is_trainer_state,
    is_wandb,
    read_harness_results,
    read_trainer_state,
    read_wandb,
)
from breadth.importers.score_values import LOWER_IS_BETTER, Series, Testset, TestsetMetric, Values, rank, settled_items
from breadth.importers.subjects import short_names
from breadth.importers.trackers import is_mlflow, is_mlruns, is_tensorboard, read_mlflow, read_mlruns, read_tensorboard
from breadth.records.schemas import NO_SCORES
from breadth.results.words import count

#: Names that a line of the summary lists.
SHOWN = 12

#: Where two files have the same value of the same run, the format that comes first here counts: it has more digits.
SCORE_FORMATS: Sequence[ScoreFormat] = (
    ScoreFormat("Hugging Face trainer_state.json", is_trainer_state, read_trainer_state),
    ScoreFormat("lm-evaluation-harness results JSON", is_harness_results, read_harness_results),
    ScoreFormat("MLflow mlflow.db", is_mlflow, read_mlflow),
    ScoreFormat("MLflow mlruns/", is_mlruns, read_mlruns),
    ScoreFormat("TensorBoard event files", is_tensorboard, read_tensorboard),
    ScoreFormat("CSV exports of W&B charts", is_wandb, read_wandb, exported=True),
)


@dataclass(frozen=True, eq=False)
class TrajectoryImport:
    """What files with scores of checkpoints gave.

    ``frame`` has a row per run and step: ``run``, ``model`` and ``step`` where they are known, then a column per test
    set. Other frames: ``testsets`` (testset: the column, metric, reason, items where known, runs,
    values), ``left_out`` (what, reason), ``sources`` (path, format, values).
    """

    frame: pl.DataFrame
    testsets: pl.DataFrame
    notes: tuple[str, ...]
    left_out: pl.DataFrame
    sources: pl.DataFrame

    def summary(self) -> str:
        """How many runs, checkpoints and test sets there are, how they are scored, and what was left out."""
        runs, formats = self.frame["run"].n_unique(), self.sources["format"].unique(maintain_order=True)
        steps = count(self.frame.height, "checkpoint") if "step" in self.frame.columns else "no training steps"
        lines = [
            f"{count(runs, 'run')}, {steps}, {count(self.testsets.height, 'column')} of scores, from "
            f"{count(self.sources.height, 'file')} ({listed(formats)})."
        ]
        for (metric, reason), group in self.testsets.group_by("metric", "reason", maintain_order=True):
            lines.append(f"{listed(group['testset'], SHOWN)}: {metric} ({reason}).")
        for (reason,), group in self.left_out.group_by("reason", maintain_order=True):
            lines.append(f"Left out: {listed(group['what'], SHOWN // 2)} ({reason}).")
        return "\n".join(lines)


def read_trajectories(
    paths: Paths, *, metric: str | None = None, step_from: str | None = None, losses: bool = False
) -> pl.DataFrame:
    """Read the scores of checkpoints from the files of trainers, harnesses and trackers.

    Question: how did each run do on each test set, checkpoint by checkpoint? The answer is a table for
    :func:`breadth.correlate`. Files are sorted out by their content: ``trainer_state.json``, results of
    lm-evaluation-harness, TensorBoard event files, MLflow's ``mlflow.db`` and ``mlruns/``, CSV exports of W&B charts.

    A column has the name of its test set: ``eval_hans_accuracy`` and ``eval/hans/accuracy`` are ``hans``. Each test set
    has one metric, by default the first of exact_match, acc, accuracy, acc_norm, f1, ... that most runs have. Where a
    step was logged twice, after a restart for instance, the later value counts.

    Parameters
    ----------
    paths
        Files and directories, one or several.
    metric
        Metric of every test set that has it (``acc_norm``; with a filter ``exact_match,flexible-extract``). Or the name
        of a value in the logs, wildcards allowed, which is not recognised as a score otherwise.
    step_from
        Regular expression with one group of digits: the training step in a revision, model name or path. Only for
        results of lm-evaluation-harness; other files have their own steps.
    losses
        Whether to keep losses on test sets. Their columns end in the name of the loss.

    Returns
    -------
    polars.DataFrame
        A row per run and step: ``run``, ``model`` if known, ``step`` if known, then a column per test set.

    Examples
    --------
    >>> import breadth
    >>> scores = breadth.read_trajectories("runs/")  # doctest: +SKIP
    >>> breadth.correlate(scores, control="mnli", by="run", order="step")  # doctest: +SKIP
    """
    return import_trajectories(paths, metric=metric, step_from=step_from, losses=losses).frame


def import_trajectories(
    paths: Paths, *, metric: str | None = None, step_from: str | None = None, losses: bool = False
) -> TrajectoryImport:
    """Read the scores of checkpoints and say how: which metric of each test set, what was left out, what was noticed.

    The options are those of :func:`breadth.read_trajectories`.
    """
    given = path_list(paths, "with scores of checkpoints")
    reading = Reading([], step_pattern(step_from))
    values = Values(metric, losses)
    problems: list[str] = []
    others: list[Path] = []
    for path in log_files(given, None):
        file = LogFile.look(path)
        place = next((k for k, known in enumerate(SCORE_FORMATS) if known.recognises(file)), None)
        if place is None:
            others.append(path)
            continue
        try:
            scores = SCORE_FORMATS[place].read(file, reading)
            values.add_file(str(path), SCORE_FORMATS[place], scores, -place)
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("\n".join(problems))
    where = listed(map(str, given), 3)
    if not values.sources:
        shown = f" {count(len(others), 'other file')}, such as {others[0].name}." if others else ""
        names = ", ".join(known.name for known in SCORE_FORMATS)
        raise NothingFoundError(f"{where}: no scores of checkpoints.{shown} Looked for {names}")
    if others:
        names = listed(sorted({path.name for path in others}), 3)
        values.left_out[count(len(others), "other file")] = f"without scores of checkpoints: {names}"
    return _tabulate(values, reading.notes, where)


class _Column(NamedTuple):
    testset: Testset
    metric: TestsetMetric
    reason: str


def _choose(values: Values, notes: list[str]) -> list[_Column]:
    """One metric for every test set, and one loss if losses are kept."""
    columns: list[_Column] = []
    asked = False
    for testset, metrics in values.testsets.items():
        ranked = sorted(metrics, key=lambda metric: rank(metric.name))
        if wanted := [metric for metric in ranked if metrics[metric].asked]:
            asked = True
            columns.append(_Column(testset, wanted[0], "asked for"))
            continue
        for group in ([metric for metric in ranked if metric.loss is loss] for loss in (False, True)):
            if not group:
                continue
            runs = set().union(*(metrics[metric].runs for metric in group))
            covered = {metric: len(metrics[metric].runs) for metric in group}
            best = max(group, key=lambda metric: covered[metric])  # the first of those that most runs have
            if covered[best] < len(runs):
                missing = f"{len(runs) - covered[best]} of {len(runs)} runs"
                notes.append(f"{testset.name}: metrics differ between runs; {best} is taken, which {missing} lack")
            also = [str(metric) for metric in group if metric != best]
            columns.append(_Column(testset, best, f"default; also {listed(also, 4)}" if also else "the only metric"))
    if values.metric is not None and not asked:
        names = list(values.names)
        hint = did_you_mean([values.metric], names)
        raise InputError(f"--metric {values.metric}: no file has it.{hint} Names: {listed(names, 30)}")
    return columns


def _column_names(columns: Sequence[_Column]) -> list[str]:
    """A name for every column: that of its test set, with more only where it would not be clear."""
    stages: dict[tuple[str, str], set[str]] = {}
    settings: dict[tuple[str, str], set[str]] = {}
    for testset, _, _ in columns:
        stages.setdefault((testset.name, testset.setting), set()).add(testset.stage)
        settings.setdefault((testset.name, testset.stage), set()).add(testset.setting)
    names: dict[str, None] = {}
    for testset, metric, _ in columns:
        several = len(stages[testset.name, testset.setting]) > 1
        words = [testset.stage] if several or not testset.name else []
        words.append(testset.name)
        if not testset.name or metric.name.lower() in LOWER_IS_BETTER:
            words.append(metric.name)
        name = "_".join(filter(None, words))
        if testset.setting and len(settings[testset.name, testset.stage]) > 1:
            name = f"{name} {testset.setting}"
        while not name or name in names or name in NO_SCORES:
            name = f"{name}_{metric.name or 'score'}"
        names[name] = None
    return list(names)


def _run_names(runs: Iterable[Run]) -> dict[Run, str]:
    """The shortest name for every run that no other has."""
    alike: dict[str, list[Run]] = {}
    for run in dict.fromkeys(runs):
        alike.setdefault(run.name, []).append(run)
    short = short_names(set(alike))
    labels: dict[Run, str] = {}
    times: Counter[str] = Counter()
    for name, group in alike.items():
        shared = set(group[0].attributes).intersection(*(run.attributes for run in group))
        for run in group:
            label = " ".join([short[name], *(word for word in run.attributes if word not in shared)])
            times[label] += 1
            labels[run] = f"{label} #{times[label]}" if times[label] > 1 else label
    return labels


def _tabulate(values: Values, notes: list[str], where: str) -> TrajectoryImport:
    left_out = dict(values.left_out)
    if not values.testsets:
        shown = "; ".join(f"{name}: {reason}" for name, reason in list(left_out.items())[:6])
        raise InputError(f"{where}: holds no score of a test set. Left out: {shown}")
    values.join_stages()
    labels = _run_names(values.runs)
    stepped, lost = values.keep_steps()
    reason = "results without a training step in revision, name or path; say where it is with --step-from"
    left_out |= {labels[run]: reason for run in lost}
    if not stepped:
        notes.append("no score has a training step: rows are models, to be correlated without --order")
    columns = _choose(values, notes)
    named = sorted(zip(_column_names(columns), columns, strict=True), key=lambda pair: pair[0])
    series = {name: values.testsets[column.testset][column.metric] for name, column in named}
    cells = dict.fromkeys(cell for one in series.values() for cell in one.cells)
    used = {run for run, _ in cells}
    order = {run: k for k, run in enumerate(labels)}
    rows = sorted(cells, key=lambda cell: (order[cell[0]], cell[1] or 0.0))
    table = [pl.Series("run", [labels[run] for run, _ in rows], dtype=pl.String)]
    if used & values.models.keys():
        table.append(pl.Series("model", [values.models.get(run) for run, _ in rows], dtype=pl.String))
    if stepped:
        steps = pl.Series("step", [step for _, step in rows], dtype=pl.Float64)
        whole = all(step is not None and step.is_integer() and abs(step) < 2**53 for _, step in rows)
        table.append(steps.cast(pl.Int64) if whole else steps)
    for name, one in series.items():
        table.append(pl.Series(name, [value and value.value for value in map(one.cells.get, rows)], dtype=pl.Float64))
    for run, number in values.replaced.items():
        if run in used:
            notes.append(
                f"{labels[run]}: {number:,} {'value was' if number == 1 else 'values were'} logged again with another "
                "result; the later one counts"
            )
    return TrajectoryImport(
        pl.DataFrame(table),
        _described(dict(named), series),
        tuple(notes),
        pl.DataFrame(list(left_out.items()), {"what": pl.String, "reason": pl.String}, orient="row"),
        pl.DataFrame(values.sources, {"path": pl.String, "format": pl.String, "values": pl.Int64}, orient="row"),
    )


def _described(columns: Mapping[str, _Column], series: Mapping[str, Series]) -> pl.DataFrame:
    rows = [
        (name, str(column.metric), column.reason, settled_items(one.items), len(one.runs), len(one.cells))
        for (name, column), one in zip(columns.items(), series.values(), strict=True)
    ]
    schema = {"testset": pl.String, "metric": pl.String, "reason": pl.String}
    return pl.DataFrame(rows, schema | {"items": pl.Int64, "runs": pl.Int64, "values": pl.Int64}, orient="row")

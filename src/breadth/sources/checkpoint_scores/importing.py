"""Scores of checkpoints from the files of trainers, harnesses and trackers, as a table for ``correlate``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from breadth.errors import InputError, NothingFoundError, did_you_mean, listed
from breadth.records import NO_SCORES
from breadth.results.words import count
from breadth.sources.checkpoint_scores.score_values import (
    ScoreCollection,
    ScoredMetric,
    ScoredTestset,
    ScoreSeries,
    usual_count,
)
from breadth.sources.checkpoint_scores.scores import ScoreOptions, TrainingRun
from breadth.sources.logs.log import SkipFile
from breadth.sources.logs.subjects import short_model_names
from breadth.sources.paths import Paths, expand_paths, files_below, path_text
from breadth.sources.registry import detect_scores, each_source, what_sources_read
from breadth.sources.source_files import SourceFile
from breadth.sources.training_steps import parse_step_pattern
from breadth.sources.vocabulary import is_lower_better, metric_rank

#: Names that a line of the summary lists, and reasons that a message gives.
SHOWN, MOST_REASONS = 12, 6

#: Why several metrics of one test set have columns.
UNNAMED_TESTSET = "of the only test set, which has no name"


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
    given = expand_paths(paths, "with scores of checkpoints")
    options = ScoreOptions([], parse_step_pattern(step_from))
    collected = ScoreCollection(metric, losses)
    problems: list[str] = []
    others: list[str] = []
    # Where two files have the same value of the same run, the source that is asked first counts: it has more digits.
    priority = {source.name: -place for place, source in enumerate(each_source())}
    for path in files_below(given):
        try:
            file = SourceFile.look(path)
            source = detect_scores(file)
            if source is None:
                others.append(path_text(path.name))
            else:
                scores = source.read_scores(file, options)
                collected.add_file(path_text(path), source, scores, priority[source.name])
        except SkipFile as reason:
            collected.left_out[path_text(path)] = str(reason)
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("\n".join(problems))
    where = listed(map(path_text, given), 3)
    if not collected.sources:
        raise _nothing_found(where, others, collected.left_out, options.notes)
    if others:
        collected.left_out[count(len(others), "other file")] = (
            f"without scores of checkpoints: {listed(sorted(set(others)), 3)}"
        )
    if not collected.testsets:
        raise InputError(f"{where}: holds no score of a test set. Left out: {_first_reasons(collected.left_out)}")
    return _tabulate(collected, options.notes)


def _nothing_found(where: str, others: Sequence[str], left_out: dict[str, str], notes: Sequence[str]) -> InputError:
    """No value in any file: why those that looked right hold none, or else what was looked for."""
    if left_out:
        reasons = [_first_reasons(left_out), *notes]
        return NothingFoundError(f"{where}: no scores of checkpoints. {'; '.join(reasons)}")
    shown = f" {count(len(others), 'other file')}, such as {others[0]}." if others else ""
    names = what_sources_read(source for source in each_source() if source.holds_scores())
    return NothingFoundError(f"{where}: no scores of checkpoints.{shown} Looked for {names}")


def _first_reasons(left_out: dict[str, str]) -> str:
    """Why values and files were left out, as far as a message has room."""
    return "; ".join(map(": ".join, list(left_out.items())[:MOST_REASONS]))


class _ScoreColumn(NamedTuple):
    """A column of the table: the values of one metric of a test set, and why it is that metric."""

    testset: ScoredTestset
    metric: ScoredMetric
    reason: str
    series: ScoreSeries


def _choose_metrics(collected: ScoreCollection, notes: list[str]) -> list[_ScoreColumn]:
    """One metric for every test set, and one loss if losses are kept.

    Where the only test set has no name, as in the log of a trainer with one, every metric gets a column.
    """
    columns: list[_ScoreColumn] = []
    asked = False
    names = {testset.name for testset in collected.testsets}
    for testset, metrics in collected.testsets.items():
        ranked = sorted(metrics, key=lambda metric: metric_rank(metric.name))
        wanted = [metric for metric in ranked if metrics[metric].asked]
        if wanted:
            asked = True
            columns.append(_ScoreColumn(testset, wanted[0], "asked for", metrics[wanted[0]]))
        elif names == {""} and len(ranked) > 1:
            for metric in ranked:
                columns.append(_ScoreColumn(testset, metric, UNNAMED_TESTSET, metrics[metric]))
        else:
            scores = [metric for metric in ranked if not metric.loss]
            losses = [metric for metric in ranked if metric.loss]
            for group in (scores, losses):
                if group:
                    columns.append(_default_metric(testset, group, metrics, notes))
    if collected.metric is not None and not asked:
        hint = did_you_mean([collected.metric], collected.names)
        raise InputError(f"--metric {collected.metric}: no file has it.{hint} Names: {listed(collected.names, 30)}")
    return columns


def _default_metric(
    testset: ScoredTestset, group: list[ScoredMetric], metrics: dict[ScoredMetric, ScoreSeries], notes: list[str]
) -> _ScoreColumn:
    """Of some metrics, preferred ones first, the first of those that most runs have."""
    runs: set[TrainingRun] = set()
    for metric in group:
        runs |= metrics[metric].runs
    best = max(group, key=lambda metric: len(metrics[metric].runs))
    missing = len(runs - metrics[best].runs)
    if missing:
        notes.append(
            f"{testset.name}: metrics differ between runs; {best} is taken, which {missing} of {len(runs)} runs lack"
        )
    others = [str(metric) for metric in group if metric != best]
    reason = f"default; also {listed(others, 4)}" if others else "the only metric"
    return _ScoreColumn(testset, best, reason, metrics[best])


def _column_names(columns: Sequence[_ScoreColumn]) -> list[str]:
    """A name for every column: that of its test set, with more only where it would not be clear."""
    stages: dict[tuple[str, str], set[str]] = {}
    settings: dict[tuple[str, str], set[str]] = {}
    for column in columns:
        testset = column.testset
        stages.setdefault((testset.name, testset.setting), set()).add(testset.stage)
        settings.setdefault((testset.name, testset.stage), set()).add(testset.setting)
    names: dict[str, None] = {}
    for column in columns:
        testset, metric = column.testset, column.metric.name
        words = [testset.name]
        if not testset.name or len(stages[testset.name, testset.setting]) > 1:
            words.insert(0, testset.stage)
        if not testset.name or is_lower_better(metric):
            # The name of a loss says that it is one, so that `correlate` changes its sign.
            words.append(metric)
        name = "_".join(filter(None, words))
        if testset.setting and len(settings[testset.name, testset.stage]) > 1:
            name = f"{name} {testset.setting}"
        while not name or name in names or name in NO_SCORES:
            name = f"{name}_{metric or 'score'}"
        names[name] = None
    return list(names)


def _run_names(runs: Iterable[TrainingRun]) -> dict[TrainingRun, str]:
    """The shortest name for every run that no other has."""
    runs_by_name: dict[str, list[TrainingRun]] = {}
    for run in dict.fromkeys(runs):
        runs_by_name.setdefault(run.name, []).append(run)
    short = short_model_names(set(runs_by_name))
    labels: dict[TrainingRun, str] = {}
    times: Counter[str] = Counter()
    for name, group in runs_by_name.items():
        shared = set(group[0].attributes)
        for run in group:
            shared &= set(run.attributes)
        for run in group:
            label = " ".join([short[name], *(word for word in run.attributes if word not in shared)])
            times[label] += 1
            labels[run] = f"{label} #{times[label]}" if times[label] > 1 else label
    return labels


def _tabulate(collected: ScoreCollection, notes: list[str]) -> TrajectoryImport:
    left_out = dict(collected.left_out)
    collected.join_stages()
    labels = _run_names(collected.runs)
    stepped, lost = collected.keep_steps()
    for run in lost:
        left_out[labels[run]] = (
            "results without a training step in revision, name or path; say where it is with --step-from"
        )
    if not stepped:
        notes.append("no score has a training step: rows are models, to be correlated without --order")
    chosen = _choose_metrics(collected, notes)
    named = sorted(zip(_column_names(chosen), chosen, strict=True), key=lambda pair: pair[0])
    columns = dict(named)
    frame = _frame_of(columns, labels, collected.models)
    shown = set(frame["run"])
    for run, number in collected.replaced.items():
        if labels.get(run) in shown:
            values = "value was" if number == 1 else "values were"
            notes.append(f"{labels[run]}: {number:,} {values} logged again with another result; the later one counts")
    return TrajectoryImport(
        frame,
        _described(columns),
        tuple(notes),
        pl.DataFrame(list(left_out.items()), {"what": pl.String, "reason": pl.String}, orient="row"),
        pl.DataFrame(collected.sources, {"path": pl.String, "format": pl.String, "values": pl.Int64}, orient="row"),
    )


def _frame_of(
    columns: dict[str, _ScoreColumn], labels: dict[TrainingRun, str], models: dict[TrainingRun, str]
) -> pl.DataFrame:
    """A row per run and step: runs in the order in which they were read, steps from the first to the last."""
    cells: dict[tuple[TrainingRun, float | None], None] = {}
    for column in columns.values():
        cells |= dict.fromkeys(column.series.cells)
    order = {run: place for place, run in enumerate(labels)}
    rows = sorted(cells, key=lambda cell: (order[cell[0]], cell[1] or 0.0))
    table = [pl.Series("run", [labels[run] for run, _ in rows], pl.String)]
    if any(run in models for run, _ in rows):
        table.append(pl.Series("model", [models.get(run) for run, _ in rows], pl.String))
    steps = pl.Series("step", [step for _, step in rows], pl.Float64)
    if steps.null_count() < len(steps):
        is_whole = ((steps % 1 == 0) & (steps.abs() < 2**53)).all()
        table.append(steps.cast(pl.Int64) if is_whole else steps)
    for name, column in columns.items():
        values = []
        for row in rows:
            kept = column.series.cells.get(row)
            values.append(None if kept is None else kept.value)
        table.append(pl.Series(name, values, pl.Float64))
    return pl.DataFrame(table)


def _described(columns: dict[str, _ScoreColumn]) -> pl.DataFrame:
    """What every column is: its metric and why, items where known, runs and values."""
    rows = []
    for name, column in columns.items():
        series = column.series
        items = usual_count(series.items)
        rows.append((name, str(column.metric), column.reason, items, len(series.runs), len(series.cells)))
    schema = {"testset": pl.String, "metric": pl.String, "reason": pl.String}
    return pl.DataFrame(rows, schema | {"items": pl.Int64, "runs": pl.Int64, "values": pl.Int64}, orient="row")

"""``correlate``: does doing better on one test set go with doing better on another, given in-domain performance?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from breadth.errors import listed, unknown_column
from breadth.records import InputError, Trajectories, is_study, read_table, read_trajectories
from breadth.stats import Inference, Partial, Regressor, Settings, make_panel, partial_correlations, rows_needed
from breadth.verbs.correlation import MOST_COMPARED, Correlation
from breadth.verbs.frames import pairs_frame
from breadth.verbs.study_scores import correlate_study

Progress = Callable[[int, int], None]


def correlate(
    table: Any,
    control: str | Sequence[str] | None = None,
    facets: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    order: str | None = None,
    regressor: Regressor = "gam",
    rank: bool = False,
    inference: Literal["auto", "iid", "ar", "block"] = "auto",
    resamples: int = 2000,
    windows: int | None = None,
    item_counts: Mapping[str, int] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Correlation:
    """Correlate every pair of test sets once the control is taken out of both.

    Parameters
    ----------
    table
        Path or frame; wide (a column per test set), long (``testset``, ``score``) or answers (``testset``,
        ``item``, ``correct``); or the directory of a study, where ``by`` is ``run`` and ``order`` is ``step`` unless
        said otherwise. :class:`Trajectories` bring their own columns.
    control
        In-domain performance: one or several columns. In a study, by default every run's own train set; with several
        train sets the frames have a column ``train_set``.
    facets
        Test sets to correlate; names or wildcards. Default: every column of numbers that is nothing else.
    by
        Columns that name a group (a run, a model); every group is analysed on its own.
    order
        Column that orders the rows of a group, such as the training step: rows are then taken as dependent.
    regressor
        How the control is taken out: ``gam`` (penalised smooth), ``linear``, or ``none``.
    rank
        Correlate ranks (Spearman) instead of values.
    inference
        ``iid`` (Fisher), ``ar`` (effective sample size), ``block`` (block bootstrap); ``auto`` is ``ar`` with an
        order and ``iid`` without.
    resamples
        Bootstrap resamples for ``block``.
    windows
        Also analyse this many consecutive parts of every run.
    item_counts
        Items behind every column, to correct for their sampling noise.
    seed
        Seeds the bootstrap, the split halves and random relabellings.
    progress
        Called with (groups done, groups in all).

    Examples
    --------
    >>> import breadth
    >>> from breadth.datasets import simulate_scores
    >>> result = breadth.correlate(simulate_scores(runs=2), control="in_domain", by="run", order="step")
    >>> result.pairs.columns[:4]
    ['run', 'a', 'b', 'n']
    """
    if regressor not in get_args(Regressor):
        raise InputError(f"regressor is {regressor!r}; choose gam, linear or none")

    def analyse(
        source: Any,
        control: str | Sequence[str] | None,
        facets: str | Sequence[str] | None,
        by: str | Sequence[str] | None,
        order: str | None,
    ) -> Correlation:
        chosen = _inference(inference, order, resamples)
        if not control and regressor != "none":
            raise InputError("name the in-domain column with --control, or say --regressor none to control for nothing")
        trajectories = (
            source
            if isinstance(source, Trajectories)
            else read_trajectories(source, control, facets, by, order, seed=seed)
        )
        counts, scale = _counts(trajectories, item_counts, rank)
        settings = Settings(regressor, rank, chosen, resamples, seed, counts, scale)
        partial, labels, pairs = _analyse(trajectories, settings, None, progress)
        parts = pairs.clear() if windows is None else _windows(trajectories, settings, windows)
        warnings = (*trajectories.warnings, *_size_warnings(trajectories, labels))
        return Correlation(pairs, parts, trajectories, settings, warnings, partial, labels)

    if is_study(table):
        return correlate_study(table, analyse, control, facets, by, order, regressor)
    return analyse(table if isinstance(table, Trajectories) else read_table(table), control, facets, by, order)


def _inference(inference: str, order: str | None, resamples: int) -> Inference:
    if inference not in ("auto", "iid", "ar", "block"):
        raise InputError(f"inference is {inference!r}; choose auto, iid, ar or block")
    if inference in ("ar", "block") and order is None:
        raise InputError(f"--inference {inference} needs --order: the column that orders the rows, such as step")
    if inference == "block" and resamples < 100:
        raise InputError(f"--resamples is {resamples}; a standard error needs at least 100")
    if inference == "auto":
        return "iid" if order is None else "ar"
    return inference  # type: ignore[return-value]


def _counts(trajectories: Trajectories, given: Mapping[str, int] | None, rank: bool) -> tuple[Any, Any]:
    """Items and perfect score of every column, or (None, None) where no counts were given."""
    if given is None:
        return None, None
    if rank:
        raise InputError("--item-counts corrects scores, not ranks: leave out one of --rank and --item-counts")
    columns = (*trajectories.facets, *trajectories.controls)
    for name, count in given.items():
        if name not in columns:
            raise unknown_column(name, columns, trajectories.name, "item count")
        if count < 1:
            raise InputError(f"--item-counts: {name}={count}; a test set has at least 1 item")
    frame = trajectories.frame
    scale = []
    for name in columns:
        low, high = frame[name].min(), frame[name].max()
        if name in given and ((low or 0) < 0 or (high or 0) > 100):  # type: ignore[operator]
            raise InputError(
                f"{trajectories.name}, column {name!r}: runs from {low!r} to {high!r}, so it is no accuracy and "
                "item counts say nothing about its noise. Leave it out of --item-counts"
            )
        scale.append(100.0 if (high or 0) > 1 else 1.0)  # type: ignore[operator]
    return np.array([float(given.get(name, np.nan)) for name in columns]), np.array(scale)


def _analyse(
    trajectories: Trajectories, settings: Settings, groups: pl.DataFrame | None, progress: Progress | None
) -> tuple[Partial, pl.DataFrame, pl.DataFrame]:
    panel, labels = make_panel(trajectories, groups)
    total, done = len(panel.scores), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    partial = partial_correlations(panel, settings, advance)
    columns = (*trajectories.facets, *trajectories.controls)
    counts = np.zeros(len(columns)) if settings.counts is None else settings.counts
    uncounted = [name for name, count in zip(columns, counts, strict=True) if np.isnan(count)]
    controls = trajectories.controls
    needed = rows_needed(settings.regressor, len(controls))
    pairs = pairs_frame(partial, labels, trajectories.facets, controls, needed, uncounted)
    return partial, labels, pairs


def _windows(trajectories: Trajectories, settings: Settings, windows: int) -> pl.DataFrame:
    """Analyse consecutive parts of every group on their own; ``from`` and ``to`` are the ends of a part."""
    order, by = trajectories.order, list(trajectories.by)
    if order is None:
        raise InputError("--windows needs --order: the column that orders the rows, such as step")
    if windows < 2:
        raise InputError(f"--windows is {windows}; a comparison needs at least 2 parts")
    position = pl.int_range(pl.len()) * windows // pl.len() + 1
    part = (position.over(by) if by else position).alias("window")
    frame = trajectories.frame.with_columns(part)
    keys = frame.select([*by, "window"])
    _, _, pairs = _analyse(trajectories, settings, keys, None)
    ends = frame.group_by([*by, "window"], maintain_order=True).agg(
        pl.col(order).first().alias("from"), pl.col(order).last().alias("to")
    )
    named = pairs.join(ends, on=[*by, "window"], how="left", nulls_equal=True, maintain_order="left")
    first = [*by, "window", "from", "to"]
    return named.select(first + [name for name in named.columns if name not in first])


def _size_warnings(trajectories: Trajectories, labels: pl.DataFrame) -> list[str]:
    if trajectories.by and labels.height == trajectories.frame.height:
        return [
            f"every group of {listed(trajectories.by)} has a single row, so nothing can be correlated within it; "
            "leave out --by to correlate over rows"
        ]
    if labels.height > MOST_COMPARED:
        return [f"{labels.height} groups: similarity compares every two groups and is left out above {MOST_COMPARED}"]
    return []

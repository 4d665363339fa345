"""``correlate``: does doing better on one test set go with doing better on another, given in-domain performance?"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import polars as pl

from breadth.correlation.changes import changes_frame
from breadth.correlation.intervals import IntervalMethod
from breadth.correlation.moderators import carry_properties, kinds_of, moderate
from breadth.correlation.panel import Floats, Ints, make_panel, orient
from breadth.correlation.partial import Progress, Settings, partial_correlations, rows_needed
from breadth.correlation.result import (
    CHANGE_SCHEMA,
    MOST_COMPARED,
    OUTPUT_COLUMNS,
    Correlation,
    CorrelationByTrainSet,
    WindowParts,
    pairs_frame,
    select_groups,
    stacked,
)
from breadth.correlation.smooth import Adjust
from breadth.correlation.units import MODEL_COLUMNS, Units, describe_groups, find_units
from breadth.datasets.sizes import usual_items
from breadth.errors import InputError, listed, unknown_column
from breadth.inference import benjamini_hochberg
from breadth.records import BIAS, Score, Study, is_study
from breadth.results.words import count as counted
from breadth.sources import (
    ScoreTable,
    families_in_names,
    family_codes,
    family_column,
    load_scores,
    open_study,
)

Method = Literal["pearson", "spearman"]
Names = str | Sequence[str] | None

#: Items of test sets by name; None looks well-known names up, and "none" leaves noise alone.
ItemCounts = Mapping[str, int] | Literal["none"] | None

#: Rows below which results are warned about. In simulations of ten groups (benchmarks/interval_robustness.py) the mean
#: of correlations was up to 0.21 (gam) or 0.08 (linear) too high below, and at most 0.08 from there on.
FEW_ROWS: Mapping[Adjust, int] = {"gam": 15, "linear": 10, "none": 10}

#: Clusters of rows below which the spread between them says too little.
FEWEST_CLUSTERS = 4

#: Columns of a study's subjects by which its runs are correlated over their checkpoints.
RUN_COLUMNS = frozenset({"run", "step", "train_set"})


#: Most test sets that are correlated: with 500 there are 124,750 pairs, which take seconds and some 200 MB.
MOST_TESTSETS = 500


class CorrelationOptions(NamedTuple):
    """What to compute for every table, checked."""

    adjust: Adjust
    rank: bool
    ci: IntervalMethod
    resamples: int
    windows: int | None
    item_counts: ItemCounts
    seed: int
    progress: Progress | None
    score: Score = "accuracy"
    robust: bool = False
    cluster: str | None = None


def correlate(
    table: Any,
    *,
    control: Names = None,
    testsets: Names = None,
    by: Names = None,
    order: str | None = None,
    score: Score = "accuracy",
    lower_is_better: Names = None,
    adjust: Adjust = "gam",
    method: Method = "pearson",
    robust: bool = False,
    ci: IntervalMethod = "auto",
    resamples: int = 2000,
    windows: int | None = None,
    item_counts: ItemCounts = None,
    cluster: str | None = None,
    moderators: Names = None,
    kinds: Mapping[str, str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Correlation:
    """Correlate every pair of test sets after controlling for in-domain performance.

    Question: when a model does better on one test set than its in-domain score predicts, does it also do better on
    another? The partial correlation is the correlation of the residuals of both after adjustment for the control.

    Use it over models, or over the checkpoints of runs (``by`` and ``order``), where intervals allow for the dependence
    of neighbouring checkpoints. Do not read it as a statement about cause, nor over fewer than about ten rows.

    Parameters
    ----------
    table
        Path or frame; wide (a column per test set), long (``testset``, ``score``) or answers (``testset``,
        ``item``, ``correct``), with these names or those of other tools; or a study or its directory, where ``by`` is
        ``run`` and ``order`` is ``step`` by default. :class:`ScoreTable` bring their own columns. Which columns of a
        table play which part is recognised unless it is given, and said in ``trajectories.reading``.
    control
        In-domain performance: one or several columns, or ``none``. In a study, by default the in-domain set of every
        run's own training set; with several training sets the frames have a column ``train_set``. ``bias`` adds the
        answer bias (the share of one answer, averaged over labels and test sets) as a further control, where single
        answers and their labels are known.
    testsets
        Test sets to correlate; names or wildcards. Default: every column of scores except the control, without losses
        (unless they are named, or there is nothing else), scores of training and means of other columns.
    by
        Columns that name a group (a run, a model), or ``none``; every group is analysed on its own.
    order
        Column that orders the rows of a group, such as the training step, or ``none``: with one, rows count as
        dependent.
    score
        What single answers are scored by: ``accuracy``; what the model can tell apart, whichever answer it leans to
        (``auc``, ``dprime``); ``balanced`` (accuracy averaged over labels); ``logscore`` (mean log-probability of the
        right answer). ``auc`` and ``logscore`` need margins, all but ``accuracy`` and ``logscore`` need labels.
    lower_is_better
        Columns, or wildcards, where lower is better (losses, errors): their sign is changed, so that up is better in
        every result. By default guessed from words such as loss, bpb, perplexity or error in the names, and said in a
        warning; ``none`` changes nothing. Scores of single answers are never guessed at.
    adjust
        How to control: ``gam`` (penalised smooth), ``linear``, or ``none``.
    method
        ``pearson`` correlates values, ``spearman`` their ranks.
    robust
        Correlate by the scatter of a bivariate t distribution, in which outliers count for less. The frame
        ``pairs`` then also has the plain correlation, and the summary says where the two disagree.
    ci
        ``iid`` (Fisher), ``ar`` (effective sample size), ``block`` (block bootstrap); ``auto`` is ``ar`` with an
        order and ``iid`` without.
    resamples
        Bootstrap resamples for ``block``.
    windows
        Also analyse this many consecutive parts of every run; the frame ``changes`` compares the first and the last.
    item_counts
        Number of items of every column, to correct for their sampling noise. By default noise comes from single answers
        where there are any, and else from the usual sizes of well-known test sets, which a warning then names.
        ``none`` does not correct scores.
    cluster
        Column that says what belongs together: the model of runs that are its seeds, the family of models. Groups of
        one cluster are averaged first, and intervals are about a new cluster; without groups, rows of one cluster
        count as dependent. By default the model of a run, or a column such as ``family`` where rows are models;
        ``none`` takes all as independent.
    moderators
        What correlations may depend on: columns that describe runs or models (``examples``, ``train_set``, ``family``),
        ``size`` (from a column, or the names of models), or ``kind`` (whether two test sets are of one kind of shift).
        The frame ``moderators`` then says which of them matter (:func:`breadth.correlation.moderate`).
    kinds
        Kind of shift of test sets, by name or wildcard. By default what a study or the registry says.
    seed
        Seeds the bootstrap, the split halves and random relabellings.
    progress
        Called with (groups done, groups in total).

    Returns
    -------
    Correlation
        Frames ``pairs``, ``heterogeneity``, ``similarity``, ``windows``, ``residuals`` and ``moderators``, a summary
        and a figure.

    Examples
    --------
    >>> import breadth
    >>> from breadth.datasets import simulate_scores
    >>> result = breadth.correlate(simulate_scores(runs=2), control="in_domain", by="run", order="step")
    >>> result.pairs.columns[:4]
    ['run', 'a', 'b', 'n']
    """
    words = (
        ("adjust", adjust, Adjust),
        ("method", method, Method),
        ("ci", ci, IntervalMethod),
        ("score", score, Score),
    )
    for name, value, allowed in words:
        if value not in get_args(allowed):
            raise InputError(f"{name} is {value!r}; choose {', '.join(get_args(allowed))}")
    if item_counts not in (None, "none") and score != "accuracy":
        raise InputError(f"--item-counts tells the noise of accuracies, not of {score}; omit one of the two")
    if robust and method == "spearman":
        raise InputError("--robust and --method spearman both resist rows far out; choose one")
    if robust and ci == "block":
        raise InputError("--robust has an interval of its own; omit --ci block")
    if isinstance(item_counts, str) and item_counts != "none":
        raise InputError(f"item_counts is {item_counts!r}; give a number for every test set, or none")
    options = CorrelationOptions(
        adjust, method == "spearman", ci, resamples, windows, item_counts, seed, progress, score, robust, cluster
    )
    if is_study(table):
        table = open_study(table)
    if isinstance(table, Study) and set(table.subjects.columns) >= RUN_COLUMNS:
        if lower_is_better is not None:
            raise InputError(f"{table.name}: higher is better on every test set of a study; omit --lower-is-better")
        result = _correlate_study(table, control, testsets, by or "run", order or "step", options)
        return _with_properties(result, moderators, kinds, table.shifts, options)
    shifts = table.shifts if isinstance(table, Study) else {}
    guess = not isinstance(table, ScoreTable)
    if guess:
        table = load_scores(
            table, () if control is None and adjust == "none" else control, testsets, by, order,
            also=lower_is_better, score=score, square_bias=adjust == "linear", seed=seed,
        )  # fmt: skip
    if lower_is_better is None:
        lower_is_better = table.lower_is_better
    if lower_is_better is not None or (guess and table.halves is None):
        table = orient(table, lower_is_better)
    if isinstance(options.item_counts, Mapping):
        counts = {table.testset_named(name): number for name, number in options.item_counts.items()}
        options = options._replace(item_counts=counts)
    return _with_properties(_analyse(table, options), moderators, kinds, shifts, options)


def _with_properties(
    result: Correlation,
    moderators: Names,
    kinds: Mapping[str, str] | None,
    known: Mapping[str, str | None],
    options: CorrelationOptions,
) -> Correlation:
    """The result with the kinds of its test sets, and with what correlations depend on if that is asked."""
    result = replace(result, kinds=kinds_of(result.trajectories.testsets, kinds, known))
    if moderators is None:
        return result
    listed_names = moderators.split(",") if isinstance(moderators, str) else list(moderators)
    names = list(dict.fromkeys(name.strip() for name in listed_names if name.strip()))
    if not names:
        raise InputError("--moderators names nothing; give columns that describe runs or models, size or kind")
    moderation = moderate(result, names, kinds=result.kinds, cluster=options.cluster, seed=options.seed)
    return replace(result, moderation=moderation)


def _check_testsets(trajectories: ScoreTable) -> None:
    """Refuse tables that have no pair of test sets, or more pairs than anybody could read."""
    names = trajectories.testsets
    if len(names) < 2:
        columns = [*trajectories.frame.columns]
        if trajectories.about is not None:
            columns += trajectories.about.columns
        raise InputError(
            f"{trajectories.name}: test sets to correlate: {listed(names) or 'none'}; a correlation needs at least 2 "
            f"columns of scores besides the control. Columns: {listed(columns, 40)}"
        )
    if len(names) > MOST_TESTSETS:
        pairs = len(names) * (len(names) - 1) // 2
        raise InputError(
            f"{trajectories.name}: {len(names):,} test sets make {pairs:,} pairs; at most {MOST_TESTSETS:,} test sets "
            "are correlated at once. Choose some with --testsets. If the columns are single items, their answers must "
            "be 0 or 1"
        )


def _analyse(trajectories: ScoreTable, options: CorrelationOptions) -> Correlation:
    _check_testsets(trajectories)
    ci = _checked_interval(trajectories, options)
    warnings = list(trajectories.warnings)
    counts = _item_counts(trajectories, options, warnings)
    settings = Settings(
        options.adjust,
        options.rank,
        ci,
        options.resamples,
        options.seed,
        None if counts is None else counts.items,
        None if counts is None else counts.perfect,
        options.robust,
        _row_clusters(trajectories, options.cluster, warnings),
    )
    groups = describe_groups(trajectories)
    units = find_units(trajectories, groups, options.cluster)
    panel, labels = make_panel(trajectories)
    if options.item_counts == "none":
        panel = panel._replace(halves=None)
    partial = partial_correlations(panel, settings, options.progress)
    pairs = pairs_frame(partial, labels, trajectories, settings)
    windows = pairs.clear()
    pairs = carry_properties(pairs, groups, trajectories.by)
    changes = pl.DataFrame(schema=CHANGE_SCHEMA)
    parts = None
    if options.windows is not None:
        windows, changes, parts = _window_pairs(trajectories, settings, options, units)
    if trajectories.by and labels.height == trajectories.frame.height:
        warnings.append(
            f"every group of {listed(trajectories.by)} has a single row, so nothing can be correlated within it; "
            "omit --by to correlate over rows"
        )
    rows, needed = partial.n.max(axis=1), rows_needed(options.adjust, len(trajectories.controls))
    if few := int(((needed <= rows) & (rows < FEW_ROWS[options.adjust])).sum()):
        which = "there are" if not trajectories.by else f"{few} of {counted(labels.height, 'group')} have"
        warnings.append(
            f"{which} fewer than {FEW_ROWS[options.adjust]} rows, too few to trust --adjust {options.adjust}: "
            "correlations and their mean over groups are biased upwards"
        )
    if labels.height > MOST_COMPARED:
        warnings.append(
            f"{labels.height} groups: similarity compares every two groups and is omitted above {MOST_COMPARED}"
        )
    return Correlation(
        pairs, windows, trajectories, settings, tuple(warnings), partial, labels, units, changes=changes, _parts=parts
    )


def _checked_interval(trajectories: ScoreTable, options: CorrelationOptions) -> IntervalMethod:
    """The kind of interval, after checking that the table has what the options need."""
    order, ci = trajectories.order, options.ci
    if clash := [name for name in (*trajectories.by, order) if name in OUTPUT_COLUMNS]:
        raise InputError(
            f"{trajectories.name}: column {listed(map(str, clash))} (--by or --order) has the name of a column of the "
            "results; rename it"
        )
    if not trajectories.controls and options.adjust != "none":
        raise InputError(
            f"{trajectories.name}: no column is known to be in-domain; name it with --control, or use --adjust none to "
            f"control for nothing. Scores: {listed(trajectories.testsets)}"
        )
    if ci == "auto":
        ci = "iid" if order is None else "ar"
    if order is None and (ci != "iid" or options.windows is not None):
        option = "--windows" if ci == "iid" else f"--ci {ci}"
        raise InputError(f"{option} needs --order: the column that orders the rows, such as step")
    if ci == "block" and options.resamples < 100:
        raise InputError(f"--resamples is {options.resamples}; a standard error needs at least 100")
    return ci


def _window_pairs(
    trajectories: ScoreTable, settings: Settings, options: CorrelationOptions, units: Units
) -> tuple[pl.DataFrame, pl.DataFrame, WindowParts]:
    """Pairs of consecutive parts of every group on their own, and what changes from the first part to the last.

    ``from`` and ``to`` are the ends of a part.
    """
    windows = options.windows or 0
    if windows < 2:
        raise InputError(f"--windows is {windows}; a comparison needs at least 2 parts")
    position = pl.int_range(pl.len()) * windows // pl.len() + 1
    keys = [*trajectories.by, "window"]
    frame = trajectories.frame.with_columns(window=position.over(trajectories.by) if trajectories.by else position)
    parts, names = make_panel(trajectories, frame.select(keys))
    if options.item_counts == "none":
        parts = parts._replace(halves=None)
    partial = partial_correlations(parts, settings)
    pairs = pairs_frame(partial, names, trajectories, settings)
    # Groups with fewer rows than parts lack some of them.
    window = names["window"].to_numpy()
    group = np.cumsum(window == 1) - 1
    whole = np.isin(group, group[window == windows])
    first, last = np.flatnonzero((window == 1) & whole), np.flatnonzero((window == windows) & whole)
    sides = [select_groups(partial, chosen) for chosen in (first, last)]
    both = units._replace(of_group=units.of_group[group[first]])
    changes = changes_frame(sides[0], sides[1], both, trajectories.testsets)
    place = pl.col(str(trajectories.order))
    ends = frame.group_by(keys, maintain_order=True).agg(place.first().alias("from"), place.last().alias("to"))
    pairs = pairs.join(ends, on=keys, how="left", nulls_equal=True, maintain_order="left")
    windows_frame = pairs.select(*keys, "from", "to", pl.exclude(*keys, "from", "to"))
    return windows_frame, changes, WindowParts(partial, names)


class _Counts(NamedTuple):
    """Items (NaN where not known) and perfect score of every column, test sets first."""

    items: Floats
    perfect: Floats


def _item_counts(trajectories: ScoreTable, options: CorrelationOptions, warnings: list[str]) -> _Counts | None:
    """Items and perfect score of every column, given or looked up; None where noise is not to come from them."""
    given = options.item_counts
    if given == "none":
        return None
    if given is None:
        if trajectories.halves is not None or options.rank or options.score != "accuracy":
            return None
        given = _usual_counts(trajectories, warnings)
        if not given:
            return None
    elif options.rank:
        raise InputError("--item-counts corrects scores, not ranks: use it with --method pearson")
    columns = (*trajectories.testsets, *trajectories.controls)
    for name, number in given.items():
        if name not in columns:
            raise unknown_column(name, columns, trajectories.name, "item count")
        if number < 1:
            raise InputError(f"--item-counts: {name}={number}; a test set has at least 1 item")
        low, high = _column_range(trajectories, name)
        if low < 0 or high > 100:
            raise InputError(
                f"{trajectories.name}, column {name!r}: ranges from {low!r} to {high!r}, so it is not an accuracy and "
                "item counts do not determine its noise. Remove it from --item-counts"
            )
    if options.adjust != "none":
        named = " ".join(warnings)
        uncounted = [
            name for name in trajectories.controls if name not in given and f"{name} differs less" not in named
        ]
        warnings += [
            f"{name} has no item count, so it counts as free of noise; if it is the score of a finite test set, its "
            f"noise makes test sets look alike: give --item-counts {name}=N"
            for name in uncounted
        ]
    items = np.array([float(given.get(name, np.nan)) for name in columns])
    return _Counts(items, np.array([perfect_score(trajectories, name) for name in columns]))


def _usual_counts(trajectories: ScoreTable, warnings: list[str]) -> dict[str, int]:
    """Items of the columns that have the name of a well-known test set and hold its accuracy."""
    counts = {}
    for name in (*trajectories.testsets, *trajectories.controls):
        items = usual_items(name)
        low, high = _column_range(trajectories, name)
        if items is None or name in trajectories.turned or low < 0 or high > 100:
            continue
        if name in trajectories.controls and _varies_less(trajectories, name, items):
            # Seeds of one model on one dev set do: then the same items were used throughout, and how much of the
            # noise that leaves is anybody's guess.
            warnings.append(
                f"{name} differs less between rows than chance alone would make it on {items:,} items, so all rows "
                f"used the same items; how noisy it is is not known, and it counts as free of noise. --item-counts "
                f"{name}=N overrides this"
            )
            continue
        counts[name] = items
    if counts:
        shown = listed([f"{name} {items:,}" for name, items in counts.items()], 6)
        warnings.append(
            f"correlations are corrected for the noise of finite test sets, with the usual numbers of items: {shown}. "
            "If these are wrong, give --item-counts; --item-counts none corrects nothing"
        )
    return counts


def _varies_less(trajectories: ScoreTable, name: str, items: int) -> bool:
    """Whether a score varies less within groups than the accuracy on so many items, new in every row, would."""
    share = pl.col(name) / perfect_score(trajectories, name)
    observed, expected = share.var().alias("observed"), (share * (1 - share)).mean().alias("expected")
    groups = [trajectories.frame]
    if trajectories.by:
        groups = trajectories.frame.partition_by(trajectories.by)
    values = pl.concat([group.select(observed, expected) for group in groups]).drop_nulls()
    return bool(values.height) and values["observed"].sum() < values["expected"].sum() / items


def _column_range(trajectories: ScoreTable, name: str) -> tuple[float, float]:
    """Lowest and highest value of a column as it was given."""
    values = trajectories.frame[name]
    if name in trajectories.turned:
        values = -values
    low, high = values.min(), values.max()
    return float(low or 0), float(high or 0)  # type: ignore[arg-type]


def perfect_score(trajectories: ScoreTable, name: str) -> float:
    """What a column would be at best: 1, or 100 for percentages."""
    return 100.0 if _column_range(trajectories, name)[1] > 1 else 1.0


def _row_clusters(trajectories: ScoreTable, cluster: str | None, warnings: list[str]) -> Ints | None:
    """The cluster [n] of every row of a table whose rows are models; None where they count as independent."""
    about = trajectories.about
    if trajectories.by or about is None or cluster == "none":
        return None
    if trajectories.order is not None:
        if cluster is not None:
            raise InputError(
                f"{trajectories.name}: --cluster says which runs belong together, and there is a single run; name the "
                "column of runs with --by, or omit --cluster"
            )
        return None
    column = cluster
    if column is None:
        column = family_column(about)
        if column is not None and about[column].n_unique() >= FEWEST_CLUSTERS:
            warnings.append(
                f"models of one {column} count as alike, so intervals are about a model of another {column}; "
                "--cluster none takes all rows as independent"
            )
    elif column not in about.columns:
        raise unknown_column(column, about.columns, trajectories.name, "cluster")
    if column is None:
        _warn_of_families(about, warnings)
        return None
    codes = family_codes(about[column].cast(pl.String).to_list())
    if len(np.unique(codes)) < FEWEST_CLUSTERS and cluster is None:
        return None
    if len(np.unique(codes)) < FEWEST_CLUSTERS:
        raise InputError(
            f"{trajectories.name}: --cluster {column} has {len(np.unique(codes))} values; an interval needs at least "
            f"{FEWEST_CLUSTERS} that differ. Choose a finer column, or --cluster none"
        )
    return codes


def _warn_of_families(about: pl.DataFrame, warnings: list[str]) -> None:
    for name in MODEL_COLUMNS:
        if name not in about.columns:
            continue
        families = families_in_names(about[name].cast(pl.String).drop_nulls().to_list())
        if families:
            shown = listed([f"{family} ({len(models)})" for family, models in families.items()], 3)
            warnings.append(
                f"names of models show families ({shown}), and models of a family are alike: intervals are too narrow. "
                "Add a column that names the family and give it with --cluster"
            )
        return


def _correlate_study(
    study: Study, control: Names, testsets: Names, by: Names, order: str, options: CorrelationOptions
) -> Correlation:
    """Correlate the runs of a study over their checkpoints, each with its own in-domain set as the control.

    Runs of a single checkpoint have nothing to correlate and are left out. So are runs of which it is unknown what they
    were trained on, unless the control is given.
    """
    names = [control] if isinstance(control, str) else list(control or ())
    bias = BIAS in names and BIAS not in study.testsets
    given = bool(control and names != [BIAS] * bias) or options.adjust == "none"
    several = pl.len().over("run") > 1
    trained = study.select(several if given else several & pl.col("train_set").is_not_null())
    others = study.subjects.join(trained.subjects, on="run", how="anti")["run"].unique(maintain_order=True)
    if not trained.subjects.height and study.select(several).subjects.height:
        raise InputError(
            f"{study.name}: what its runs were trained on is unknown, so they have no in-domain test set to control "
            f"for; name it with --control (test sets: {listed(study.testsets, 6)}), or give --trained-on to `breadth "
            "evaluate`, or use --adjust none"
        )
    if not trained.subjects.height:
        raise InputError(
            f"{study.name}: no run was evaluated at two or more checkpoints, so nothing can be correlated over "
            f"checkpoints (runs: {listed(others, 4)})"
        )
    parts: dict[str, Correlation] = {}
    failures: dict[str, InputError] = {}
    if given:
        scores = load_scores(
            trained, control or (), testsets, by, order,
            score=options.score, square_bias=options.adjust == "linear", seed=options.seed,
        )  # fmt: skip
        parts[""] = _analyse(scores, options)
    else:
        for name in trained.subjects["train_set"].unique().sort():
            try:
                scores = _with_own_control(trained, name, testsets, by, order, options, names)
                parts[name] = _analyse(scores, options)
            except InputError as error:
                failures[name] = error
    if not parts:
        raise next(iter(failures.values()))
    warnings = []
    unfinished = [f"{run} at step {step} of {planned}" for run, (step, planned) in trained.unfinished.items()]
    if unfinished:
        verb, them = ("is", "it") if len(unfinished) == 1 else ("are", "them")
        runs = counted(len(unfinished), "run")
        warnings.append(f"{runs} {verb} not finished: {listed(unfinished, 3)}; `breadth run` resumes {them}")
    # How many checkpoints there are and how many are needed, where there are too few.
    controls = max(1, len(next(iter(parts.values())).trajectories.controls))
    needed, fewer = rows_needed(options.adjust, controls), rows_needed("linear", controls)
    checkpoints = trained.ends["checkpoints"]
    short = checkpoints.filter(checkpoints < needed).to_list()
    if short:
        which = "every run has" if len(short) == checkpoints.len() else f"{len(short)} of {checkpoints.len()} runs have"
        other = f" (--adjust linear needs {fewer})" if options.adjust == "gam" and max(short) >= fewer else ""
        warnings.append(
            f"{which} too few checkpoints: at most {max(short)}, and --adjust {options.adjust} needs {needed}{other}; "
            "evaluate more often or train for longer"
        )
    if others.len():
        runs = counted(others.len(), "run")
        warnings.append(f"{runs} without training or with a single checkpoint left out: {listed(others, 4)}")
    for name, failure in failures.items():
        reason = str(failure).removeprefix(f"{study.name}: ")
        warnings.append(f"runs trained on {name} are left out: {reason}")
    warnings = list(dict.fromkeys([*warnings, *(line for part in parts.values() for line in part.warnings)]))
    if len(parts) > 1:
        return _combined(parts, study, tuple(warnings))
    return replace(next(iter(parts.values())), warnings=tuple(warnings))


def _with_own_control(
    study: Study,
    train_set: str,
    testsets: Names,
    by: Names,
    order: str,
    options: CorrelationOptions,
    others: Sequence[str],
) -> ScoreTable:
    """ScoreTable of the runs of one training set; its in-domain sets are the control and not among the test sets.

    ``others`` are controls besides it.
    """
    study = study.select(pl.col("train_set") == train_set)
    evaluated = [name for name, items in zip(study.testsets, study.scores[1].sum(axis=0), strict=True) if items]
    own = [name for name in study.in_domain(train_set) if name in evaluated]
    if not own:
        raise InputError(
            f"{study.name}: {train_set} was trained on but not evaluated, so in-domain performance is unknown; name a "
            f"test set with --control ({listed(sorted(evaluated))}), or add {train_set} to the study's evaluate: on"
        )
    chosen: list[str] | None = None
    if testsets is not None:
        chosen = []
        names = testsets if isinstance(testsets, str) else ",".join(testsets)
        for pattern in filter(None, map(str.strip, names.split(","))):
            matches = fnmatch.filter(evaluated, pattern)
            if not matches:
                raise unknown_column(pattern, evaluated, study.name, "test set")
            chosen += [name for name in matches if name not in own]
    return load_scores(
        study, [*own, *others], chosen, by, order,
        score=options.score, square_bias=options.adjust == "linear", seed=options.seed,
    )  # fmt: skip


def _combined(parts: dict[str, Correlation], study: Study, warnings: tuple[str, ...]) -> CorrelationByTrainSet:
    """All training sets as one result, with false discovery rates over all pairs of the call."""
    frames = {}
    for which in ("pairs", "windows", "changes"):
        tables = {name: getattr(part, which) for name, part in parts.items()}
        p = pl.concat([table["p"] for table in tables.values()]).fill_null(float("nan")).to_numpy()
        q, start = pl.Series("q", benjamini_hochberg(p), nan_to_null=True), 0
        for name, table in tables.items():
            tables[name] = table.with_columns(q.slice(start, table.height))
            parts = {**parts, name: replace(parts[name], **{which: tables[name]})}
            start += table.height
        frames[which] = stacked(tables)
    first = next(iter(parts.values()))
    used = {name for part in parts.values() for name in part.trajectories.testsets}
    trajectories = replace(
        first.trajectories,
        frame=stacked({name: part.trajectories.frame for name, part in parts.items()}),
        by=first.by if "train_set" in first.by else ("train_set", *first.by),
        controls=tuple(dict.fromkeys(name for part in parts.values() for name in part.trajectories.controls)),
        testsets=tuple(name for name in study.testsets if name in used),
        halves=None,
    )
    return CorrelationByTrainSet(
        frames["pairs"],
        frames["windows"],
        trajectories,
        first.settings,
        warnings,
        first._partial,
        first._labels,
        first.units,
        parts,
        changes=frames["changes"],
    )

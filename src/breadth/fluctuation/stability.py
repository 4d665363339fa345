"""``stability``: how far do scores move up and down during training, and do models differ in it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.correlation import MODEL_COLUMNS, describe_groups, find_units, make_panel, orient, perfect_score
from breadth.datasets.sizes import usual_items
from breadth.errors import InputError, listed, unknown_column
from breadth.fluctuation.mean_squares import Floats, MeanSquares, mean_over_testsets, mean_squares
from breadth.fluctuation.pooling import Typical, compare_models, spread_of_runs, typical_run
from breadth.fluctuation.result import ALL_RUNS, NoiseSource, Stability, StabilityFlag
from breadth.inference import benjamini_hochberg
from breadth.records import Score, Study, is_study
from breadth.sources import ScoreTable, load_scores, open_study

Names = str | Sequence[str] | None
ItemCounts = Mapping[str, int] | Literal["none"] | None
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]

#: Distances, in checkpoints, at which slower swings are looked for.
GAPS = (1, 2, 4)

#: Scores that are no shares, so that a point means nothing.
NOT_SHARES = ("dprime", "logscore")

#: Models beyond which a table of every two of them is too long to read.
MOST_COMPARED = 30

#: Checkpoints of two models this many times as far apart, or more, are not the same time scale.
OTHER_SPACING = 1.5


def stability(
    table: Any,
    *,
    testsets: Names = None,
    by: Names = None,
    order: str | None = None,
    score: Score = "accuracy",
    item_counts: ItemCounts = None,
    cluster: str | None = None,
    seed: int = 0,
) -> Stability:
    """Measure how far the scores of test sets move up and down during training, beyond what the choice of items does.

    Question: if training had stopped a checkpoint earlier or later, how different would the scores be? And does one
    model fluctuate more than another?

    A fluctuation is how far a score lies from the middle of the line through the checkpoints before and after it. Its
    standard deviation, in points, is given per run, and per model as what to expect of a typical run. A steady rise is
    no fluctuation, nor is a jump that stays. Slower swings count in part; the frame ``scales`` shows whether there are
    any. Do not use it to compare models that were evaluated at other distances of steps.

    Parameters
    ----------
    table
        Scores of checkpoints, a study or its directory, as for :func:`breadth.correlate`.
    testsets
        Test sets; names or wildcards. Default: every column of scores, without losses (unless they are named).
    by
        Columns that name a run. In a study ``run``.
    order
        Column that orders the checkpoints of a run. In a study ``step``.
    score
        What single answers are scored by, as for :func:`breadth.correlate`.
    item_counts
        Number of items of every test set, or ``none``. By default the noise of items comes from single answers where
        there are any, and else from the usual sizes of well-known test sets, which a warning then names. The same items
        are used at every checkpoint as a rule; counts then give at most the noise, and the true fluctuation is larger.
    cluster
        Column that says which runs belong together. Default: the model of a run, or all runs together where no model is
        named; ``none`` takes every run on its own.
    seed
        Seeds the split halves.

    Returns
    -------
    Stability
        Frames ``models``, ``runs``, ``comparisons`` and ``scales``, a verdict, a summary and a figure.

    Examples
    --------
    >>> import breadth
    >>> from breadth.datasets import simulate_scores
    >>> result = breadth.stability(simulate_scores(runs=3), item_counts={"negation": 2000, "science": 2000})
    >>> result.models.columns[:4]
    ['model', 'testset', 'runs', 'sd_total']
    """
    if score not in get_args(Score):
        raise InputError(f"score is {score!r}; choose {', '.join(get_args(Score))}")
    if isinstance(item_counts, str) and item_counts != "none":
        raise InputError(f"item_counts is {item_counts!r}; give a number for every test set, or none")
    if item_counts not in (None, "none") and score != "accuracy":
        raise InputError(f"--item-counts tells the noise of accuracies, not of {score}; omit one of the two")
    trajectories = _open_scores(table, testsets, by, order, score, seed)
    if trajectories.order is None:
        raise InputError(
            f"{trajectories.name}: no column orders the checkpoints of a run; name it with --order, such as step"
        )
    warnings = [line for line in trajectories.warnings if "--control" not in line]
    panel, labels = make_panel(trajectories)
    # The control of a report's scores is a test set like the others here.
    values = np.concatenate([panel.scores, panel.controls], axis=2)
    names = (*trajectories.testsets, *trajectories.controls)
    scale, in_points = _scales(trajectories, names, score)
    noise, variance = _find_noise(trajectories, names, values, score, item_counts, warnings)
    data = _Data(
        values * scale,
        None if noise is not NoiseSource.HALVES or panel.halves is None else panel.halves * scale[:, None],
        None if variance is None else variance * scale**2,
        names,
        in_points,
        noise,
    )
    units = _find_models(trajectories, cluster)
    _warn_of_spacing(trajectories, units, warnings)
    if len(units.names) > MOST_COMPARED:
        warnings.append(f"{len(units.names)} {units.noun}s: every two are compared only up to {MOST_COMPARED}")
    return _make_stability(data, labels, units, trajectories, tuple(warnings))


class _Data(NamedTuple):
    """Scores [G, n, m] in points, what is known of their noise, and which of them are in points."""

    values: Floats
    halves: Floats | None
    variance: Floats | None
    names: tuple[str, ...]
    in_points: Bools
    noise: NoiseSource

    def squares(self, gap: int = 1) -> MeanSquares:
        """Mean squares of every run: all test sets together first, then each."""
        each = mean_squares(self.values, gap, self.halves, self.variance)
        chosen = self.in_points if self.in_points.any() else np.ones(len(self.names), dtype=bool)
        # A test set whose noise is not known would bring its noise into the mean.
        counted = ~np.isnan(each.noise).all(axis=0)
        if (counted & chosen).any():
            chosen = chosen & counted
        together = mean_over_testsets(
            self.values[:, :, chosen],
            gap,
            None if self.halves is None else self.halves[:, :, chosen],
            None if self.variance is None else self.variance[:, :, chosen],
        )
        return MeanSquares(*(np.concatenate([first, rest], axis=1) for first, rest in zip(together, each, strict=True)))


class _Models(NamedTuple):
    """The models of runs: what they are called, their names, and the model [G] of every run."""

    noun: str
    names: tuple[str, ...]
    of_run: Ints


def _open_scores(table: Any, testsets: Names, by: Names, order: str | None, score: Score, seed: int) -> ScoreTable:
    """Scores of checkpoints; in a study, of runs that have several."""
    if isinstance(table, ScoreTable):
        return table
    if is_study(table):
        table = open_study(table)
    if isinstance(table, Study) and {"run", "step"} <= set(table.subjects.columns):
        several = table.select(pl.len().over("run") > 1)
        if not several.subjects.height:
            raise InputError(
                f"{table.name}: no run was evaluated at two or more checkpoints, so nothing can fluctuate; evaluate "
                "more often (evaluate: every)"
            )
        table, by, order = several, by or "run", order or "step"
    return load_scores(table, (), testsets, by, order, score=score, seed=seed)


def _scales(trajectories: ScoreTable, names: Sequence[str], score: Score) -> tuple[Floats, Bools]:
    """What to multiply every column by so that it is in points, and for which columns that is possible."""
    scale, in_points = np.ones(len(names)), np.zeros(len(names), dtype=bool)
    losses = {*trajectories.turned, *orient(trajectories, None).turned}
    for index, name in enumerate(names):
        values = trajectories.frame[name]
        low, high = values.min(), values.max()
        shares = score not in NOT_SHARES and name not in losses and low is not None and high is not None
        if shares and float(low) >= 0 and float(high) <= 100:  # type: ignore[arg-type]
            scale[index] = 100 / perfect_score(trajectories, name)
            in_points[index] = True
    return scale, in_points


def _find_noise(
    trajectories: ScoreTable,
    names: Sequence[str],
    values: Floats,
    score: Score,
    given: ItemCounts,
    warnings: list[str],
) -> tuple[NoiseSource, Floats | None]:
    """Where the noise of items is known from, and its variance [G, n, m] if that is from item counts."""
    if given == "none":
        return NoiseSource.UNKNOWN, None
    if given is None and trajectories.halves is not None:
        return NoiseSource.HALVES, None
    counts = dict(given or {})
    for name, number in counts.items():
        if name not in names:
            raise unknown_column(name, names, trajectories.name, "item count")
        if number < 1:
            raise InputError(f"--item-counts: {name}={number}; a test set has at least 1 item")
    if given is None and score == "accuracy":
        counts = {name: items for name in names if (items := usual_items(name)) is not None}
        counts = {name: items for name, items in counts.items() if name not in trajectories.turned}
        if counts:
            shown = listed([f"{name} {items:,}" for name, items in counts.items()], 6)
            warnings.append(
                f"the noise of finite test sets follows from the usual numbers of items: {shown}. If these are wrong, "
                "give --item-counts; --item-counts none leaves noise in"
            )
    if not counts:
        return NoiseSource.UNKNOWN, None
    variance = np.full(values.shape, np.nan)
    for index, name in enumerate(names):
        if name not in counts:
            continue
        perfect = perfect_score(trajectories, name)
        share = values[:, :, index] / perfect
        known = share[~np.isnan(share)]
        if known.size and (known.min() < 0 or known.max() > 1):
            raise InputError(
                f"{trajectories.name}, column {name!r}: ranges from {known.min() * perfect:g} to "
                f"{known.max() * perfect:g}, so it is not an accuracy and item counts do not determine its noise. "
                "Remove it from --item-counts"
            )
        variance[:, :, index] = share * (1 - share) / counts[name] * perfect**2
    return NoiseSource.COUNTS, variance


def _find_models(trajectories: ScoreTable, cluster: str | None) -> _Models:
    """Which runs belong to one model."""
    groups = describe_groups(trajectories)
    # Refuses a column that is not there, or that changes within a run.
    units = find_units(trajectories, groups, cluster)
    if not trajectories.by:
        return _Models("run", (trajectories.name,), units.of_group)
    if cluster == "none":
        return _Models("run", units.names, units.of_group)
    column = cluster
    if column is None:
        column = next((name for name in MODEL_COLUMNS if name in groups.columns), None)
    if column is None or groups[column].null_count():
        # Nothing says which model they are of; what to expect of another run like these can still be said.
        return _Models("run", (ALL_RUNS,), np.zeros(groups.height, dtype=np.intp))
    names = groups[column].cast(pl.String)
    unique = names.unique(maintain_order=True).to_list()
    place = {name: index for index, name in enumerate(unique)}
    noun = "model" if column in MODEL_COLUMNS else column
    return _Models(noun, tuple(unique), np.array([place[name] for name in names], dtype=np.intp))


def _warn_of_spacing(trajectories: ScoreTable, models: _Models, warnings: list[str]) -> None:
    """Checkpoints at other distances are another time scale."""
    order = str(trajectories.order)
    if not trajectories.by or not trajectories.frame[order].dtype.is_numeric():
        return
    steps = trajectories.frame.group_by(trajectories.by, maintain_order=True).agg(
        pl.col(order).sort().diff().median().alias("apart")
    )
    apart = steps["apart"].to_numpy().astype(float)
    medians = {}
    for index, name in enumerate(models.names):
        own = apart[models.of_run == index]
        if (own > 0).any():
            medians[name] = float(np.median(own[own > 0]))
    if len(medians) > 1 and max(medians.values()) >= OTHER_SPACING * min(medians.values()):
        widest, closest = max(medians, key=lambda name: medians[name]), min(medians, key=lambda name: medians[name])
        warnings.append(
            f"checkpoints are {medians[closest]:g} apart in {closest} and {medians[widest]:g} in {widest} ({order}), "
            "so their fluctuations are of different time scales; compare models that were evaluated equally often"
        )


def _make_stability(
    data: _Data, labels: pl.DataFrame, models: _Models, trajectories: ScoreTable, warnings: tuple[str, ...]
) -> Stability:
    squares, at_most = data.squares(), data.noise is NoiseSource.COUNTS
    testsets = [None, *data.names]
    unit = ["points" if shares else "score" for shares in data.in_points]
    unit = ["points" if data.in_points.any() else "score", *unit]
    runs = _runs_frame(squares, labels, models, testsets, unit, at_most)
    typical = {
        (model, index): typical_run(*(getattr(squares, name)[own, index] for name in ("total", "df", "noise")))
        for model in range(len(models.names))
        for own in [models.of_run == model]
        for index in range(len(testsets))
    }
    frame = _models_frame(squares, typical, models, testsets, unit, at_most)
    comparisons = _comparisons_frame(typical, models, testsets, unit, at_most)
    scales = _scales_frame(data, models, testsets, unit)
    return Stability(frame, runs, comparisons, scales, trajectories, models.noun, data.noise, warnings)


def _runs_frame(
    squares: MeanSquares,
    labels: pl.DataFrame,
    models: _Models,
    testsets: Sequence[str | None],
    unit: Sequence[str],
    at_most: bool,
) -> pl.DataFrame:
    """One row per run and test set; null for all test sets together."""
    total, df, pure_df, noise, noise_df, contrasts, jumps = squares
    spread = spread_of_runs(total, df, pure_df, noise, noise_df, at_most)
    groups, width = total.shape
    run = np.repeat(np.arange(groups), width)
    flag: list[str | None] = []
    for value, size in zip(noise.reshape(-1), total.reshape(-1), strict=True):
        flag.append(_flag(size, value))
    names = pl.Series("model", models.names, dtype=pl.String).gather(models.of_run[run])
    own = {name: labels[name].gather(run) for name in labels.columns if name != "model"}
    return _add_q(
        pl.DataFrame(
            {
                "model": names,
                **own,
                "testset": pl.Series(list(testsets) * groups, dtype=pl.String),
                "checkpoints": contrasts.reshape(-1).astype(np.int64) + 2,
                "jumps": jumps.reshape(-1).astype(np.int64),
                "sd_total": np.sqrt(total.reshape(-1)),
                "sd_noise": np.sqrt(noise.reshape(-1)),
                "sd": np.sqrt(spread.variance.reshape(-1)),
                "ci_low": np.sqrt(spread.low.reshape(-1)),
                "ci_high": np.sqrt(spread.high.reshape(-1)),
                "p": spread.p.reshape(-1),
                "unit": list(unit) * groups,
                "flag": pl.Series(flag, dtype=pl.String),
            },
            nan_to_null=True,
        )
    )


def _flag(total: float, noise: float) -> str | None:
    if np.isnan(total):
        return str(StabilityFlag.TOO_FEW_CHECKPOINTS)
    if total == 0:
        return str(StabilityFlag.CONSTANT)
    if np.isnan(noise):
        return str(StabilityFlag.NOISE_UNKNOWN)
    return None


def _models_frame(
    squares: MeanSquares,
    typical: Mapping[tuple[int, int], Typical | None],
    models: _Models,
    testsets: Sequence[str | None],
    unit: Sequence[str],
    at_most: bool,
) -> pl.DataFrame:
    """One row per model and test set: the typical run, an interval for another run, and what these very runs did."""
    rows = []
    for model, name in enumerate(models.names):
        own = models.of_run == model
        for index, testset in enumerate(testsets):
            total, df, pure_df, noise, noise_df = (values[own, index] for values in squares[:5])
            known = ~np.isnan(total)
            row: dict[str, Any] = {"model": name, "testset": testset, "runs": int(known.sum()), "unit": unit[index]}
            rows.append(row)
            if not known.any():
                row["flag"] = str(StabilityFlag.TOO_FEW_CHECKPOINTS)
                continue
            # These very runs taken together: their contrasts count like those of one long run.
            weight = np.where(known, pure_df, 0.0) / np.nansum(pure_df)
            pooled = {
                "total": np.nansum(weight * np.nan_to_num(total)),
                "df": np.nansum(np.where(known, df, 0.0)),
                "pure_df": np.nansum(pure_df),
                "noise": np.nan if np.isnan(noise[known]).any() else np.nansum(weight * np.nan_to_num(noise)),
                "noise_df": np.nansum(noise_df[known]),
            }
            together = spread_of_runs(**{key: np.array([value]) for key, value in pooled.items()}, at_most=at_most)
            row |= {
                "sd_total": float(np.sqrt(pooled["total"])),
                "sd_noise": float(np.sqrt(pooled["noise"])),
                "sd": float(np.sqrt(together.variance[0])),
                "least": float(np.sqrt(together.low[0])),
                "most": float(np.sqrt(together.high[0])),
                "p": float(together.p[0]),
                "flag": _flag(pooled["total"], pooled["noise"]),
            }
            usual = typical[model, index]
            if usual is None or usual.runs < 2:
                row["flag"] = row["flag"] or str(StabilityFlag.ONE_RUN)
                continue
            row |= _usual_run(usual, at_most)
            if np.isnan(pooled["noise"]):
                row["sd_noise"] = None
    schema = {
        "model": pl.String, "testset": pl.String, "runs": pl.Int64, "sd_total": pl.Float64, "sd_noise": pl.Float64,
        "sd": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64, "least": pl.Float64, "most": pl.Float64,
        "p": pl.Float64, "unit": pl.String, "flag": pl.String,
    }  # fmt: skip
    return _add_q(pl.DataFrame(rows, schema=schema).with_columns(pl.col(pl.Float64).fill_nan(None)))


def _usual_run(usual: Typical, at_most: bool) -> dict[str, float]:
    """Standard deviation of a typical run with its interval."""
    from scipy import special

    from breadth.inference import LEVEL

    quantile = float(special.stdtrit(usual.runs - 1, (1 + LEVEL) / 2))
    low, high = usual.ends(quantile)
    if at_most:
        high += usual.noise
    middle = float(np.exp(usual.centre)) - usual.noise
    return {
        "sd_total": float(np.sqrt(middle + usual.noise)),
        "sd_noise": float(np.sqrt(usual.noise)),
        "sd": float(np.sqrt(max(middle, 0.0))),
        "ci_low": float(np.sqrt(max(low, 0.0))),
        "ci_high": float(np.sqrt(max(high, 0.0))),
    }


def _comparisons_frame(
    typical: Mapping[tuple[int, int], Typical | None],
    models: _Models,
    testsets: Sequence[str | None],
    unit: Sequence[str],
    at_most: bool,
) -> pl.DataFrame:
    """One row per two models and test set: how many times as much the first fluctuates as the second."""
    rows = []
    for index, testset in enumerate(testsets):
        for a, b in combinations(range(len(models.names)), 2) if len(models.names) <= MOST_COMPARED else ():
            first, second = typical[a, index], typical[b, index]
            if first is None or second is None or min(first.runs, second.runs) < 2:
                continue
            result = compare_models(first, second)
            if at_most:
                # The noise lies between none and what was subtracted: nothing that depends on which is claimed.
                plain = compare_models(first._replace(noise=0.0), second._replace(noise=0.0))
                low, high = min(result.low, plain.low), max(result.high, plain.high)
                result = result._replace(low=low, high=high, p=max(result.p, plain.p))
            rows.append(
                {
                    "testset": testset, "a": models.names[a], "b": models.names[b], "runs_a": first.runs,
                    "runs_b": second.runs, "sd_a": _usual_run(first, at_most)["sd"],
                    "sd_b": _usual_run(second, at_most)["sd"], "ratio": result.ratio, "ci_low": result.low,
                    "ci_high": result.high, "p": result.p, "unit": unit[index],
                }
            )  # fmt: skip
    floats = ("sd_a", "sd_b", "ratio", "ci_low", "ci_high", "p")
    schema = {"testset": pl.String, "a": pl.String, "b": pl.String, "runs_a": pl.Int64, "runs_b": pl.Int64}
    schema |= dict.fromkeys(floats, pl.Float64) | {"unit": pl.String}
    frame = pl.DataFrame(rows, schema=schema)
    # An end that is infinite is not a number: the ratio has no upper limit then.
    finite = [pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats]
    return _add_q(frame.with_columns(finite))


def _scales_frame(data: _Data, models: _Models, testsets: Sequence[str | None], unit: Sequence[str]) -> pl.DataFrame:
    """One row per model, test set and distance: the fluctuation around checkpoints that are farther away."""
    rows = []
    for gap in GAPS:
        squares = data.squares(gap)
        for model, name in enumerate(models.names):
            own = models.of_run == model
            for index, testset in enumerate(testsets):
                total, noise = squares.total[own, index], np.nan_to_num(squares.noise[own, index])
                known = ~np.isnan(total)
                sd = None
                if known.any():
                    sd = float(np.sqrt(max(float((total - noise)[known].mean()), 0.0)))
                rows.append({"model": name, "testset": testset, "distance": gap, "sd": sd, "unit": unit[index]})
    schema = {"model": pl.String, "testset": pl.String, "distance": pl.Int64, "sd": pl.Float64, "unit": pl.String}
    return pl.DataFrame(rows, schema=schema)


def _add_q(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``q`` after ``p``: false discovery rates over single test sets; all of them together are tests apart."""
    p = frame["p"].fill_null(np.nan).to_numpy()
    whole = frame["testset"].is_null().to_numpy()
    q = np.full(len(p), np.nan)
    for part in (whole, ~whole):
        q[part] = benjamini_hochberg(p[part])
    return frame.insert_column(frame.columns.index("p") + 1, pl.Series("q", q, nan_to_null=True))

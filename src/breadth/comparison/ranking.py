"""``rank``: where every model stands among all, and which neighbours cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from rich.table import Table
from rich.text import Text
from scipy import special

from breadth.comparison.groups import Group, final_groups, item_clusters, named_groups
from breadth.comparison.paired import Indices, run_spread
from breadth.errors import InputError, listed
from breadth.inference import LEVEL, NORMAL, Floats, benjamini_hochberg
from breadth.records import Study, open_answers
from breadth.results import Answer, Figure, Result, Verdict, as_chart
from breadth.results.figures import Spec, nominal, tooltip
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import FINDING, count, joined
from breadth.threads import one_blas_thread

if TYPE_CHECKING:
    import altair as alt

#: Draws behind the joint intervals, and models up to which they are drawn: beyond, Bonferroni's bound is close enough.
DRAWS, MOST_DRAWN = 1000, 400

#: A model that answered less than this share of the items that the median model answered is left out of a ranking.
LEAST_ANSWERED = 0.9

#: Models that a figure of ranks shows: the best ones.
MOST_SHOWN = 60


@dataclass(frozen=True)
class Ranking(Result):
    """Models from the best to the worst.

    ``ranks``: ``rank, model, accuracy, ci_low, ci_high, rank_low, rank_high, runs, testset_mean``; the interval of a
    rank covers it with a probability of 95 %. ``neighbours``: every model and the next: ``model, next, difference, se,
    ci_low, ci_high, p, q, apart``; they can be told apart if q < 0.05 over the neighbours.
    """

    ranks: pl.DataFrame
    neighbours: pl.DataFrame
    n_items: int = 0
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Ranks, and neighbours."""
        return {"ranks": self.ranks, "neighbours": self.neighbours}

    def verdict(self) -> Verdict:
        """Is there a best model? Yes: the interval of the first one's rank holds no other. It depends: otherwise.

        Not enough data, where every model may be the best.
        """
        ranks = self.ranks
        best = ranks.filter(pl.col("rank_low") == 1)
        first = ranks.row(0, named=True)
        width = ranks.select((pl.col("rank_high") - pl.col("rank_low") + 1).median()).item()
        spread = f"The interval of a rank spans {width:g} ranks in the median." if ranks.height > 2 else ""
        on = f"{first['accuracy']:.1%} on {count(self.n_items, 'item')}"
        if best.height == 1:
            return Verdict(Answer.YES, f"{first['model']} is the best of {ranks.height} models, {on}.", spread)
        if best.height == ranks.height:
            return Verdict(Answer.UNKNOWN, f"each of the {ranks.height} models may be the best.", spread)
        return Verdict(
            Answer.DEPENDS,
            f"{best.height} of {ranks.height} models may be the best; {first['model']} leads with {on}.",
            spread,
        )

    def details(self) -> str:
        """Which neighbours cannot be told apart."""
        near = self.neighbours
        tied = near.filter(~pl.col("apart"))
        said = f"{tied.height} of {count(near.height, 'pair')} of neighbours cannot be told apart (q at least 0.05)"
        names = joined([f"{row['model']} and {row['next']}" for row in tied.head(3).iter_rows(named=True)], 3)
        return f"{said}{': ' + names if names else ''}{' and others' if tied.height > 3 else ''}."

    def figure(self) -> alt.TopLevelMixin:
        """Accuracy of every model with its interval, and the interval of its rank."""
        return as_chart(ranking_figure(self.ranks), tables={"ranks": self.ranks})


ranking_verdict = Ranking.verdict


def ranks_table(ranking: Ranking, width: int = WIDTH) -> Table:
    """A row per model, the best first; = marks a model that cannot be told apart from the next."""
    ranks = ranking.ranks
    title = "Ranks (=: cannot be told apart from the next)"
    title += f": the first {MOST_ROWS} of {ranks.height}" if ranks.height > MOST_ROWS else ""
    table = make_table(title, ["model"], ["rank", "95% ranks", "accuracy", "interval", "runs"], width)
    apart = [*ranking.neighbours["apart"], True]
    for row, alone in zip(ranks.head(MOST_ROWS).iter_rows(named=True), apart, strict=False):
        ends = (
            f"{row['rank_low']} to {row['rank_high']}" if row["rank_low"] < row["rank_high"] else f"{row['rank_low']}"
        )
        span = f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}"
        table.add_row(Text(row["model"]), f"{row['rank']}{' ' if alone else '='}", ends,
                      f"{100 * row['accuracy']:.1f}", span, str(row["runs"]))  # fmt: skip
    return table


def ranking_figure(ranks: pl.DataFrame, table: str = "ranks") -> Figure:
    """Accuracy with its interval, a row per model, the best first; the text is the interval of the rank."""
    shown = ranks["model"].to_list()[:MOST_SHOWN]
    tips = tooltip(
        ("model", "model"), ("rank", "rank", "d"), ("rank_low", "rank from", "d"), ("rank_high", "to", "d"),
        ("accuracy", "accuracy", ".1%"), ("ci_low", "from", ".1%"), ("ci_high", "to", ".1%"), ("runs", "runs", "d"),
    )  # fmt: skip
    x = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": "accuracy", "format": ".0%"},
    }
    text = "datum.rank_low == datum.rank_high ? '' + datum.rank_low : datum.rank_low + ' to ' + datum.rank_high"
    spec: Spec = {
        "data": {"name": table},
        "transform": [{"filter": f"datum.rank <= {MOST_SHOWN}"}, {"calculate": text, "as": "ranks"}],
        "usermeta": {"most": 620},
        "width": "container",
        "height": {"step": 18},
        "encoding": {"y": nominal("model", shown, labelLimit=220)},
        "layer": [
            {
                "mark": {"type": "rule", "color": "@muted", "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "ci_low"}, "x2": {"field": "ci_high"}, "tooltip": tips},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 55, "color": "@ink"},
                "encoding": {"x": x, "tooltip": tips},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 10, "color": "@muted"},
                "encoding": {"x": {**x, "field": "ci_high"}, "text": {"field": "ranks"}},
            },
        ],
    }
    more = f" The best {MOST_SHOWN} of {ranks.height}." if ranks.height > MOST_SHOWN else ""
    caption = f"Accuracy with 95% intervals; the number is the rank, or the ranks that it may have.{more}"
    return Figure("ranking", "Ranking", caption, spec, table)


class Standing(NamedTuple):
    """Mean and squared standard error of every model [M], squared standard errors of differences [M, M], ranks.

    ``df`` are the degrees of freedom with which standard errors are known.
    """

    mean: Floats
    variance: Floats
    apart: Floats
    df: float
    rank_low: npt.NDArray[np.intp]
    rank_high: npt.NDArray[np.intp]


@one_blas_thread
def rank_intervals(
    answers: npt.NDArray[np.floating[Any]],
    cluster: Indices | None = None,
    runs_variance: Floats | None = None,
    runs_df: float = np.inf,
    seed: int = 0,
) -> Standing:
    """Means of models [M, items] and intervals of their ranks.

    The rank of a model lies between one more than the number of models that are surely better and the number that are
    not surely worse (Mogstad, Romano, Shaikh and Wilhelm 2024). What is sure is judged jointly for all comparisons of a
    model, by the largest of their |t|, drawn from the joint normal distribution that the paired answers imply.
    ``runs_variance`` is what runs add to the squared standard error of a model's mean, known with ``runs_df`` degrees
    of freedom; t quantiles make up for that.
    """
    models, n = answers.shape
    mean = answers.mean(axis=1, dtype=np.float64)
    centred = answers - mean[:, None].astype(answers.dtype)
    groups = n
    if cluster is not None:
        order = np.argsort(cluster, kind="stable")
        starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
        centred = np.add.reduceat(centred[:, order], starts, axis=1)
        groups = len(starts)
    covariance = (centred @ centred.T).astype(np.float64) * groups / max(groups - 1, 1) / n**2
    extra = np.zeros(models) if runs_variance is None else runs_variance
    covariance[np.diag_indices(models)] += extra
    own = np.diag(covariance)
    apart = np.maximum(own[:, None] + own[None, :] - 2 * covariance, 0.0)
    error = np.sqrt(apart)
    df = runs_df * float(np.mean(np.divide(own, extra, out=np.full(models, np.inf), where=extra > 0))) ** 2
    df = min(df, groups - 1.0)
    critical = _critical(covariance, error, seed) * float(special.stdtrit(df, (1 + LEVEL) / 2)) / NORMAL
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead = (mean[None, :] - mean[:, None]) / error > critical[:, None]
        behind = (mean[:, None] - mean[None, :]) / error > critical[:, None]
    return Standing(mean, own, apart, df, 1 + ahead.sum(axis=1), models - behind.sum(axis=1))


def _critical(covariance: Floats, error: Floats, seed: int) -> Floats:
    """For every model, the 95 % quantile of its largest |t| against the others."""
    models = len(covariance)
    if models > MOST_DRAWN:
        return np.full(models, float(-special.ndtri((1 - LEVEL) / 2 / (models - 1))))
    value, vector = np.linalg.eigh(covariance)
    root = vector * np.sqrt(np.maximum(value, 0.0))
    draws = root @ np.random.default_rng(seed).standard_normal((models, DRAWS))
    scale = np.divide(1.0, error, out=np.zeros_like(error), where=error > 1e-9)
    return np.array([
        np.quantile((np.abs(draws[k] - draws) * scale[k][:, None]).max(axis=0), LEVEL) for k in range(models)
    ])  # fmt: skip


def rank(responses: Any, *subjects: str, cluster: str | None = None, seed: int = 0) -> Ranking:
    """Rank models by their accuracy on the items that all of them answered, with intervals of the ranks.

    A model is all of its runs at their last checkpoint. Models that answered far fewer items than the others are left
    out, with a warning. See :func:`breadth.comparison.rank_intervals` for the intervals.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes.
    *subjects
        Which models to rank, as in :func:`breadth.compare`; by default all.
    cluster
        Column of the items that says which of them belong together.
    seed
        Seeds the draws behind the intervals.

    Examples
    --------
    >>> import breadth, numpy as np
    >>> answers = np.random.default_rng(0).random((4, 1000)) < np.array([[0.6], [0.8], [0.79], [0.3]])
    >>> breadth.rank(answers).ranks.select("model", "rank_low", "rank_high").rows()
    [('1', 1, 2), ('2', 1, 2), ('0', 3, 3), ('3', 4, 4)]
    """
    study = open_answers(responses)
    groups, warnings = named_groups(study, subjects) if subjects else (final_groups(study), [])
    if len(groups) < 2:
        raise InputError(f"{study.name}: a ranking needs at least two models; it has {listed(study.subject_names, 3)}")
    groups, columns, left_out = _complete(study, groups)
    if left_out:
        names = listed([group.name for group in left_out], 3)
        warnings.append(f"{len(left_out)} models that answered few items are left out: {names}")
    if len(columns) < study.items.height:
        warnings.append(f"models are ranked by the {len(columns):,} of {study.items.height:,} items that all answered")
    clusters = item_clusters(study, cluster)
    clusters = None if clusters is None else clusters[columns]
    answers = np.empty((len(groups), len(columns)), dtype=np.float32)
    spread, df_runs = 0.0, 0
    for k, group in enumerate(groups):
        runs = study.matrix[list(group.rows)][:, columns]
        answers[k] = runs.mean(axis=0, dtype=np.float32)
        if len(group.rows) > 1:
            own, noise, df = run_spread(runs.astype(np.float64), clusters)
            spread, df_runs = spread + df * (own - noise), df_runs + df
    per_run = max(spread / df_runs, 0.0) if df_runs else 0.0
    extra = np.array([per_run / len(group.rows) for group in groups])
    standing = rank_intervals(answers, clusters, extra, df_runs or np.inf, seed)
    return _ranking(study, groups, columns, answers, standing, (*study.warnings, *warnings))


def _complete(study: Study, groups: Sequence[Group]) -> tuple[list[Group], npt.NDArray[np.intp], list[Group]]:
    """The models to rank, the items that all of them answered, and the models that answered too few."""
    answered = np.stack([study.answered[list(group.rows)].all(axis=0) for group in groups])
    count = answered.sum(axis=1)
    keep = count >= LEAST_ANSWERED * np.median(count)
    columns = np.flatnonzero(answered[keep].all(axis=0))
    if not len(columns) or keep.sum() < 2:
        fewest = sorted(zip(count, (group.name for group in groups), strict=True))[:3]
        raise InputError(
            f"{study.name}: no item was answered by all {len(groups)} models, so they cannot be ranked. Fewest "
            f"answers: {listed(f'{name} ({number:,})' for number, name in fewest)}. Name models that share items"
        )
    return (
        [group for group, kept in zip(groups, keep, strict=True) if kept],
        columns,
        [group for group, kept in zip(groups, keep, strict=True) if not kept],
    )


def _ranking(
    study: Study,
    groups: Sequence[Group],
    columns: npt.NDArray[np.intp],
    answers: npt.NDArray[np.float32],
    standing: Standing,
    warnings: tuple[str, ...],
) -> Ranking:
    order = np.argsort(-standing.mean, kind="stable")
    mean = standing.mean[order]
    # Wilson's interval with the number of independent items that would give the same standard error.
    n = len(columns)
    size = np.divide(
        mean * (1 - mean),
        standing.variance[order],
        out=np.full(len(mean), float(n)),
        where=standing.variance[order] > 0,
    )
    size = np.where(size > 0, size, n)
    centre, reach = mean + NORMAL**2 / (2 * size), NORMAL * np.sqrt(mean * (1 - mean) / size + (NORMAL / size) ** 2 / 4)
    place = study.set_index[columns]
    by_set = np.stack([answers[:, place == k].mean(axis=1) for k in np.unique(place)]).mean(axis=0)
    names = [groups[k].name for k in order]
    ranks = pl.DataFrame(
        {
            "rank": np.searchsorted(-mean, -mean, side="left") + 1,
            "model": names,
            "accuracy": mean,
            "ci_low": np.clip((centre - reach) / (1 + NORMAL**2 / size), 0, 1),
            "ci_high": np.clip((centre + reach) / (1 + NORMAL**2 / size), 0, 1),
            "rank_low": standing.rank_low[order],
            "rank_high": standing.rank_high[order],
            "runs": [len(groups[k].rows) for k in order],
            "testset_mean": by_set[order].astype(np.float64),
        }
    )
    gap = mean[:-1] - mean[1:]
    error = np.sqrt(standing.apart[order[:-1], order[1:]])
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(error > 0, 2 * special.stdtr(standing.df, -gap / error), 1.0)
    q, half = benjamini_hochberg(p), float(special.stdtrit(standing.df, (1 + LEVEL) / 2)) * error
    neighbours = pl.DataFrame(
        {
            "model": names[:-1], "next": names[1:], "difference": gap, "se": error, "ci_low": gap - half,
            "ci_high": gap + half, "p": p, "q": q, "apart": q < FINDING,
        }
    )  # fmt: skip
    return Ranking(ranks, neighbours, len(columns), warnings)

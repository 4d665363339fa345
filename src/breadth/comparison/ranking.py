"""``rank``: where every model stands among all, and which neighbours cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from rich.table import Table
from rich.text import Text
from scipy import special

from breadth.comparison.groups import (
    ONE_RUN_EACH,
    Group,
    are_trained,
    describe_left_out,
    describe_runs,
    final_groups,
    group_answers,
    models_with_common_items,
    named_groups,
    noun_of_compared,
)
from breadth.comparison.paired import Difference, Indices, paired_difference, run_spread
from breadth.errors import InputError, listed
from breadth.inference import LEVEL, NORMAL, Floats
from breadth.records import Study
from breadth.results import Answer, Figure, Result, Verdict, as_chart
from breadth.results.figures import Spec, nominal, tooltip
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import count, joined
from breadth.sources import item_clusters, open_answers
from breadth.threads import one_blas_thread

if TYPE_CHECKING:
    import altair as alt

#: Models up to which the largest of a model's |t| is drawn: beyond, Bonferroni's bound is close enough.
MOST_DRAWN = 400

#: Draws behind the joint intervals: as many as this number of differences allows, within these bounds.
DRAWN_DIFFERENCES, FEWEST_DRAWS, MOST_DRAWS = 40_000_000, 1000, 20_000

#: Pairs of models that are held in memory together; more models are compared block by block.
MOST_HELD = 4_000_000

#: Models that a figure of ranks shows: the best ones.
MOST_SHOWN = 60

#: Models that may be the best which the verdict names.
MOST_NAMED = 5

#: Pseudo-items on which one of two models is right, added to the variance of a difference (Bonett and Price 2012 add
#: one for each): two models that differ on no item, or on every one in the same way, are not known to do so for ever.
PSEUDO_ITEMS = 2


@dataclass(frozen=True)
class Ranking(Result):
    """Models from the best to the worst.

    One rule says everything that is said here: which models are surely ahead of which (:func:`rank_intervals`). A model
    may be the best if none is surely ahead of it; the first is called the best if no other may be. Two neighbours can
    be told apart if one is surely ahead of the other.

    ``ranks``: ``rank, model, accuracy, ci_low, ci_high, rank_low, rank_high, runs, testset_mean``; the interval of a
    rank covers it with a probability of 95 %, and starts at 1 for models that may be the best. ``neighbours``: every
    model and the next: ``model, next, difference, se, ci_low, ci_high, p, p_joint, apart``. Difference, interval and
    ``p`` are those of :func:`breadth.compare`, as if the two had been the only models; ``p_joint`` allows for all the
    comparisons of the two with others, and they can be told apart if it is below 0.05.
    """

    ranks: pl.DataFrame
    neighbours: pl.DataFrame
    n_items: int = 0
    warnings: tuple[str, ...] = ()
    #: Whether the models are results of training runs, so that another run of a recipe is conceivable.
    trained: bool = False
    #: What is ranked: models, or recipes where a model was trained in several ways.
    noun: str = "model"

    @property
    def candidates(self) -> list[str]:
        """The models that may be the best: none is surely ahead of them."""
        return self.ranks.filter(pl.col("rank_low") == 1)["model"].to_list()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Ranks, and neighbours."""
        return {"ranks": self.ranks, "neighbours": self.neighbours}

    def verdict(self) -> Verdict:
        """Is there a best model? Yes: only one may be the best. It depends: some may be. Not enough data: all may be.

        The set of models that may be the best holds the best one with a probability of 95 % at least.
        """
        ranks, candidates = self.ranks, self.candidates
        leading = ranks.filter(pl.col("rank") == 1)["model"].to_list()
        on = f"{ranks['accuracy'][0]:.1%} on {count(self.n_items, 'item')}"
        lines = []
        if ranks.height > 2:
            width = ranks.select((pl.col("rank_high") - pl.col("rank_low") + 1).median()).item()
            lines.append(f"The 95% interval of a rank spans {width:g} ranks in the median.")
        if self.trained and ranks["runs"].max() == 1:
            lines.append(ONE_RUN_EACH)
        line = " ".join(lines)
        total = f"{count(ranks.height, self.noun)}"
        if self.noun == "recipe":
            total += " (a model and how it was trained)"
        if len(candidates) == 1:
            return Verdict(Answer.YES, f"{candidates[0]} is the best of {total}, {on}.", line)
        leads = f"{joined(leading, 3)} {'leads' if len(leading) == 1 else 'lead'} with {on}"
        if len(candidates) == ranks.height:
            return Verdict(Answer.UNKNOWN, f"{leads}, but each of the {total} may be the best.", line)
        named = f" ({joined(candidates, MOST_NAMED)})" if len(candidates) <= MOST_NAMED else ""
        return Verdict(Answer.DEPENDS, f"{leads}, but {len(candidates)} of {total} may be the best{named}.", line)

    def details(self) -> str:
        """Which neighbours cannot be told apart, and what the runs mean for that."""
        near = self.neighbours
        tied = near.filter(~pl.col("apart"))
        if tied.height:
            said = f"{tied.height} of {count(near.height, 'pair')} of neighbours cannot be told apart"
        else:
            said = "All neighbours can be told apart"
        names = joined([f"{row['model']} and {row['next']}" for row in tied.head(3).iter_rows(named=True)], 3)
        others = " and others" if tied.height > 3 else ""
        pairs = f": {names}{others}" if names else ""
        judged = " (judged together with the comparisons of either with all others)" if near.height > 1 else ""
        runs = describe_runs(dict(self.ranks.select("model", "runs").iter_rows()))
        return f"{said}{judged}{pairs}. {runs}".strip()

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
    """Mean, squared standard error and interval of the rank of every model [M].

    ``df`` are the degrees of freedom with which standard errors are known. ``neighbour_p`` [M - 1] is for every model
    and the next, from the highest mean down, the p-value that allows for all comparisons of the two with others.
    """

    mean: Floats
    variance: Floats
    df: float
    rank_low: npt.NDArray[np.intp]
    rank_high: npt.NDArray[np.intp]
    neighbour_p: Floats


@one_blas_thread
def rank_intervals(
    answers: npt.NDArray[np.floating[Any]],
    cluster: Indices | None = None,
    runs_variance: Floats | None = None,
    runs_df: float = np.inf,
    seed: int = 0,
    neighbour_p: Floats | None = None,
) -> Standing:
    """Means of models [M, items] and intervals of their ranks.

    The rank of a model lies between one more than the number of models that are surely better and the number that are
    not surely worse (Mogstad, Romano, Shaikh and Wilhelm 2024). What is sure is judged jointly for all comparisons of a
    model, by the largest of their |t|, drawn from the joint normal distribution that the paired answers imply; of two
    models, the one with the larger bound decides, so that whether one is surely ahead of the other has one answer.
    Hence the best model has no other surely ahead of it with a probability of 95 %: models without are a confidence set
    for the best. If there is only one, no other rank than the first is left to it.

    ``runs_variance`` is what runs add to the squared standard error of a model's mean, known with ``runs_df`` degrees
    of freedom; t quantiles make up for that. ``neighbour_p`` are the p-values [M - 1] of single comparisons of every
    model with the next, from the highest mean down, where better ones are known than t gives.
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
    extra = np.zeros(models) if runs_variance is None else runs_variance
    errors = _Errors(centred, groups, n, extra)
    own = errors.own
    df = runs_df * float(np.mean(np.divide(own, extra, out=np.full(models, np.inf), where=extra > 0))) ** 2
    df = max(min(df, groups - 1.0), 1.0)
    joint = _Joint(errors, seed)
    stretched = float(special.stdtrit(df, (1 + LEVEL) / 2)) / NORMAL
    order = np.argsort(-mean, kind="stable")
    following = np.full(models, -1)
    following[order[:-1]] = order[1:]
    rank_low, rank_high = np.ones(models, dtype=np.intp), np.full(models, models)
    t_next = np.empty(models)
    for block in errors.blocks:
        t = (mean[block, None] - mean[None, :]) / errors.of_differences(block) / stretched
        ahead = t > np.maximum(joint.critical[block, None], joint.critical[None, :])
        # A model and the next are judged below, by a p-value of their own.
        row = np.flatnonzero(following[block] >= 0)
        column = following[block][row]
        t_next[block.start + row] = t[row, column]
        ahead[row, column] = False
        rank_low += ahead.sum(axis=0)
        rank_high[block] -= ahead.sum(axis=1)
    if neighbour_p is None:
        neighbour_p = 2 * special.ndtr(-t_next[order[:-1]])
    joint_p = joint.p_values(order, neighbour_p)
    ahead_of_next = joint_p < 1 - LEVEL
    rank_low[order[1:]] += ahead_of_next
    rank_high[order[:-1]] -= ahead_of_next
    candidates = np.flatnonzero(rank_low == 1)
    if len(candidates) == 1:
        # No other model may be the best, though one may be ahead of some that is not surely behind this one.
        rank_high[candidates] = 1
    return Standing(mean, own, df, rank_low, rank_high, joint_p)


class _Errors:
    """How the means of models err together: squared standard errors ``own`` [M], and those of their differences.

    ``centred`` [M, groups] are answers without the mean of their model, summed over groups of items; ``extra`` [M] is
    added to the variance of every mean. Twenty thousand models have four hundred million pairs, so differences are
    computed for some rows at a time: ``blocks``.
    """

    def __init__(self, centred: npt.NDArray[Any], groups: int, items: int, extra: Floats) -> None:
        self.centred, self.groups, self.items, self.extra = centred, groups, items, extra
        self.models = len(centred)
        rows = max(MOST_HELD // self.models, 1)
        self.blocks = [slice(start, min(start + rows, self.models)) for start in range(0, self.models, rows)]
        if len(self.blocks) == 1:
            self.own = np.diag(self.whole)
        else:
            self.own = self._scaled(np.einsum("ij,ij->i", centred, centred, dtype=np.float64)) + extra

    @cached_property
    def whole(self) -> Floats:
        """The covariance of all means, where there are few."""
        return self._covariance(slice(0, self.models))

    def of_differences(self, block: slice) -> Floats:
        """Standard errors [rows, M] of the differences between the means of a block and all means."""
        covariance = self.whole if len(self.blocks) == 1 else self._covariance(block)
        least = PSEUDO_ITEMS / (self.groups + PSEUDO_ITEMS) ** 2
        apart = np.maximum(self.own[block, None] + self.own[None, :] - 2 * covariance, least)
        return np.asarray(np.sqrt(apart))

    def _covariance(self, block: slice) -> Floats:
        covariance = self._scaled((self.centred[block] @ self.centred.T).astype(np.float64))
        row = np.arange(len(covariance))
        covariance[row, block.start + row] += self.extra[block]
        return covariance

    def _scaled(self, products: Floats) -> Floats:
        return np.asarray(products * self.groups / max(self.groups - 1, 1) / self.items**2)


class _Joint:
    """How large the largest |t| of a model against all others gets by chance: ``critical`` [M] are 95 % quantiles."""

    def __init__(self, errors: _Errors, seed: int) -> None:
        self.models = errors.models
        self.largest: Floats | None = None
        bound = float(-special.ndtri((1 - LEVEL) / 2 / max(self.models - 1, 1)))
        self.critical = np.full(self.models, bound)
        if not 2 < self.models <= MOST_DRAWN:
            return
        error = errors.of_differences(slice(0, self.models))
        value, vector = np.linalg.eigh(errors.whole)
        root = vector * np.sqrt(np.maximum(value, 0.0))
        number = int(np.clip(DRAWN_DIFFERENCES // self.models**2, FEWEST_DRAWS, MOST_DRAWS))
        draws = root @ np.random.default_rng(seed).standard_normal((self.models, number))
        self.largest = np.empty((self.models, number))
        for k in range(self.models):
            self.largest[k] = (np.abs(draws[k] - draws) / error[k][:, None]).max(axis=0)
        self.largest.sort(axis=1)
        # Draws may put a quantile below that of a single comparison, or above the bound for all of them.
        self.critical = np.clip(np.quantile(self.largest, LEVEL, axis=1), NORMAL, bound)

    def p_values(self, order: npt.NDArray[np.intp], p: Floats) -> Floats:
        """P-values of every model in this order and the next, from those of the single comparisons."""
        if self.largest is None:
            return np.minimum(p * max(self.models - 1, 1), 1.0)
        size = -special.ndtri(np.asarray(p) / 2)
        shares = np.empty((2, len(size)))
        for side, members in enumerate((order[:-1], order[1:])):
            for place, model in enumerate(members):
                below = np.searchsorted(self.largest[model], size[place], side="left")
                shares[side, place] = 1 - below / self.largest.shape[1]
        joint: Floats = np.clip(shares.max(axis=0), p, np.minimum(p * (self.models - 1), 1.0))
        return joint


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
    study = open_answers(responses).comparable().by_name()
    groups, warnings = named_groups(study, subjects) if subjects else (final_groups(study), [])
    groups = sorted(groups, key=lambda group: group.name)  # equal models are ranked by name
    if len(groups) < 2:
        raise InputError(f"{study.name}: a ranking needs at least two models; it has {listed(study.subject_names, 3)}")
    groups, columns, left_out = _complete(study, groups)
    noun = noun_of_compared(study, groups)
    if left_out:
        warnings.append(describe_left_out(study, [group.name for group in left_out]))
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
    order = np.argsort(-answers.mean(axis=1, dtype=np.float64), kind="stable")
    # Neighbours as compare sees them, so that a page has one number for the difference of two models.
    gaps: list[Difference] = []
    better = None
    for k in order:
        own_answers = group_answers(study, groups[k], columns)
        if better is not None:
            gaps.append(paired_difference(own_answers, better, clusters))
        better = own_answers
    p = np.nan_to_num(np.array([gap.p for gap in gaps]), nan=1.0)
    standing = rank_intervals(answers, clusters, extra, df_runs or np.inf, seed, p)
    ranks = _ranks_frame(study, groups, columns, answers, standing)
    ordered = ranks["model"].to_list()
    neighbours = pl.DataFrame(
        {
            "model": ordered[:-1],
            "next": ordered[1:],
            "difference": [gap.estimate for gap in gaps],
            "se": [gap.se for gap in gaps],
            "ci_low": [gap.low for gap in gaps],
            "ci_high": [gap.high for gap in gaps],
            "p": p,
            "p_joint": standing.neighbour_p,
            "apart": standing.neighbour_p < 1 - LEVEL,
        }
    ).fill_nan(None)
    return Ranking(ranks, neighbours, len(columns), (*study.warnings, *warnings), are_trained(study), noun)


def _complete(study: Study, groups: Sequence[Group]) -> tuple[list[Group], npt.NDArray[np.intp], list[Group]]:
    """The models to rank, the items that all of them answered, and the models that answered too few."""
    answered = np.stack([study.answered[list(group.rows)].all(axis=0) for group in groups])
    count = answered.sum(axis=1)
    keep = models_with_common_items(answered)
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


def _ranks_frame(
    study: Study,
    groups: Sequence[Group],
    columns: npt.NDArray[np.intp],
    answers: npt.NDArray[np.float32],
    standing: Standing,
) -> pl.DataFrame:
    """A row per model, the best first."""
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
    return pl.DataFrame(
        {
            "rank": np.searchsorted(-mean, -mean, side="left") + 1,
            "model": [groups[k].name for k in order],
            "accuracy": mean,
            "ci_low": np.clip((centre - reach) / (1 + NORMAL**2 / size), 0, 1),
            "ci_high": np.clip((centre + reach) / (1 + NORMAL**2 / size), 0, 1),
            "rank_low": standing.rank_low[order],
            "rank_high": standing.rank_high[order],
            "runs": [len(groups[k].rows) for k in order],
            "testset_mean": by_set[order].astype(np.float64),
        }
    )

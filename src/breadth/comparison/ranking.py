"""``rank``: where every model stands among all, and which neighbours cannot be distinguished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.comparison.comparison import (
    BY_COST,
    NOT_DECIDED,
    PREFER,
    Lead,
    data_text,
    how_to_settle,
    questions_to_settle,
)
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
from breadth.results import (
    WORTH_SEEING,
    Column,
    Columns,
    Figure,
    Question,
    Result,
    Shown,
    State,
    Verdict,
    about,
    as_chart,
    times_more,
)
from breadth.results.figures import Spec, nominal, tooltip
from breadth.results.words import agree, count, joined, number_word, rounded_up, sentences, size_text
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

#: From where on along the axis the text of a mark stands to its left.
FAR_RIGHT = 0.75

#: Models that may be the best which the verdict names.
MOST_NAMED = 8

#: Pseudo-items on which one of two models is right, added to the variance of a difference (Bonett and Price 2012 add
#: one for each): two models that differ on no item, or on every one in the same way, are not known to do so for ever.
PSEUDO_ITEMS = 2


RANKS = Columns(
    Column("rank", priority=1, meaning="The place by accuracy; models with the same accuracy share one."),
    Column("tied", header="=", priority=1, meaning="= marks a model that cannot be distinguished from the next one."),
    Column(
        "model", priority=1, bold="may_be_best",
        meaning="The model; a recipe where a model was trained in several ways. Bold: it may be the best.",
    ),
    Column("accuracy", format="percent", header="% right", priority=1, meaning="Share of answers that are right."),
    Column("ci_low", "ci_high", format="percent", priority=2, meaning="Interval of the accuracy on such questions."),
    Column("rank_low", "rank_high", format="d", header="95% ranks", meaning="The ranks that the model may have."),
    Column("runs", format="d", priority=3, meaning="Training runs behind it."),
    Column("testset_mean", format="percent", header="mean of test sets", priority=4, meaning="Each counts alike."),
)  # fmt: skip
NEIGHBOURS = Columns(
    Column("model", priority=1, meaning="The model."),
    Column("next", priority=1, meaning="The model that follows it in the ranking."),
    Column("difference", format="points", header="points", priority=1, meaning="How much more the first gets right."),
    Column("ci_low", "ci_high", format="points", priority=1, meaning="Interval of the difference."),
    Column("p", format="p", priority=4, meaning="p-value as if these had been the only models."),
    Column("p_joint", format="p", header="joint p", priority=3, meaning="p-value that allows for all comparisons."),
    Column("apart", format="flag", header="distinct", meaning="Whether the first is surely better than the next."),
)


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

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"ranks": RANKS, "neighbours": NEIGHBOURS}

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
        """Which model is best? A name if only one may be; else how many may be, and which.

        The set of models that may be the best holds the best one with a probability of 95 % at least. The answer is
        open where it holds all models, mixed where it holds some.
        """
        if self.ranks.height == 2:
            return self._verdict_of_two()
        ranks, candidates = self.ranks, self.candidates
        leading = ranks.filter(pl.col("rank") == 1)["model"].to_list()
        best = ranks.row(0, named=True)
        total = count(ranks.height, self.noun)
        facts: dict[str, float | str] = {"questions": self.n_items, f"{self.noun}s": ranks.height}
        facts["may be the best"] = len(candidates)
        score = (
            f"({best['accuracy']:.1%} of {count(self.n_items, 'question')}, "
            f"95% interval {100 * best['ci_low']:.1f} to {100 * best['ci_high']:.1f})"
        )
        if len(candidates) == 1:
            state, answer = State.YES, candidates[0]
            reason = f"{candidates[0]} is the best of {total} {score}."
            advice = PREFER.format(candidates[0])
        else:
            state, advice = State.MIXED, self._choose_among(facts)
            answer = f"{len(candidates)} of {ranks.height} may be best"
            if len(candidates) == ranks.height:
                state, advice = State.OPEN, self._how_to_decide(facts)
                answer = f"Any of {ranks.height} may be best"
            reason = f"{joined(leading, 3)} {agree(len(leading), 'scores', 'score')} highest {score}"
            others = [name for name in candidates if name not in leading]
            reason += f", {self._explained_by_chance(leading, others, facts)}."
        return Verdict(
            answer, reason, advice=advice, needed=self._one_run_each(), question=Question.BEST, state=state, facts=facts
        )

    def _explained_by_chance(self, leading: Sequence[str], others: Sequence[str], facts: dict[str, float | str]) -> str:
        """Over which models the lead may be chance: by name, as far as a sentence holds them."""
        if not others:
            return "all the same, so any of them may be the best"
        lead = f"but chance could explain {agree(len(leading), 'its', 'their')} lead over"
        facts["others that may be the best"] = len(others)
        names = joined(others, MOST_NAMED)
        if len(others) == 1:
            return f"{lead} {names}"
        if len(others) > MOST_NAMED:
            facts["others that may be the best, besides those named"] = len(others) - MOST_NAMED
            names += " (bold in the table)"
        return f"{lead} {number_word(len(others))} others: {names}"

    def _choose_among(self, facts: dict[str, float | str]) -> str:
        """What to do where several may be the best; how many questions would separate the first two, if that helps."""
        which = agree(len(self.candidates) - 1, "either of the two", "any of these")
        advice = f"Pick {which} by cost, or compare them on another test set."
        gap = self.neighbours.row(0, named=True)
        number = ""
        # More questions do not make runs of a model more alike.
        if self.ranks["runs"].max() == 1 and not gap["apart"]:
            number = questions_to_settle(self.n_items, gap["difference"], gap["se"])
        if not number:
            return advice
        facts["questions that would separate the first two"] = number
        return f"{advice} About {number} questions like these would separate the first two."

    def _verdict_of_two(self) -> Verdict:
        """Of two models, what matters is how far one is ahead of the other, as in a comparison."""
        row = self.neighbours.row(0, named=True)
        lead = Lead(row["model"], row["next"], row["difference"], row["ci_low"], row["ci_high"])
        facts: dict[str, float | str] = {"questions": self.n_items}
        runs = dict(self.ranks.select("model", "runs").iter_rows())
        # In the order of their names, in which a comparison has them.
        data = data_text(self.n_items, [runs[name] for name in sorted(runs)])
        needed = self._one_run_each()
        if row["apart"]:
            state, answer, advice = State.YES, lead.ahead, PREFER.format(lead.ahead)
            reason = f"{lead.ahead} is better than {lead.behind} by {lead.with_interval} {data}."
        else:
            state, answer, advice = State.OPEN, NOT_DECIDED, self._how_to_decide(facts)
            reason = f"Either may be better: {lead.in_words(data)}."
        return Verdict(answer, reason, advice=advice, needed=needed, question=Question.BEST, state=state, facts=facts)

    def _how_to_decide(self, facts: dict[str, float | str]) -> str:
        """How many questions would show a difference that is worth seeing, where there are too few for it."""
        gap, single = self.neighbours.row(0, named=True), self.ranks["runs"].max() == 1
        times = times_more(gap["se"] or 0.0)
        if times <= 1:
            settled = ""
            if single and not gap["apart"]:
                settled = how_to_settle(self.n_items, gap["difference"], gap["se"], facts)
            return sentences("Choose by cost, or by another test set.", settled)
        effect = size_text(WORTH_SEEING)
        facts["difference to see, in points"] = f"{100 * WORTH_SEEING:g}"
        if not single:
            # More questions alone do not make runs of a model more alike.
            more = about(times)
            facts["times as many questions and runs that would be enough"] = more
            return f"{BY_COST} {more} times as many questions and runs would show a difference of {effect}."
        needed = rounded_up(self.n_items * times)
        facts["questions that would be enough"] = needed
        return f"{BY_COST} About {needed} questions would show a difference of {effect}."

    def _one_run_each(self) -> str:
        if self.trained and self.ranks["runs"].max() == 1:
            return ONE_RUN_EACH
        return ""

    def shown(self) -> Sequence[Shown]:
        """A row per model, the best first; = marks a model that cannot be distinguished from the next."""
        tied = self.neighbours.select("model", tied=pl.when("apart").then(pl.lit("")).otherwise(pl.lit("=")))
        # The last one has none below it.
        frame = self.ranks.join(tied, on="model", how="left", maintain_order="left").with_columns(
            pl.col("tied").fill_null(""), may_be_best=pl.col("rank_low") == 1
        )
        title = "Models from the best to the worst"
        columns, note = RANKS, "Bold: may be the best. = marks a model that cannot be distinguished from the next one."
        if self.neighbours["apart"].all():
            columns, note = RANKS.without("tied"), ""
        return [Shown(title, frame, columns, note=note)]

    def details(self) -> str:
        """How ranks are judged, and what the runs mean for that."""
        if self.ranks.height == 2:
            judged = "The two are compared as breadth compare does, question by question."
        else:
            judged = (
                "A model may be the best if no other is surely ahead of it. All differences of a model from the others "
                "are judged together (Mogstad, Romano, Shaikh and Wilhelm 2024), so the best model is among those that "
                "may be it with a probability of 95%."
            )
        runs = describe_runs(dict(self.ranks.select("model", "runs").iter_rows()))
        return f"{judged} Intervals of accuracy are Wilson's. {runs}".strip()

    def figure(self) -> alt.TopLevelMixin:
        """Accuracy of every model with its interval, and the interval of its rank."""
        return as_chart(ranking_figure(self.ranks), tables={"ranks": self.ranks})


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
    # To the right of the best models, ranks would be cut off by the edge of the figure.
    best = ranks.head(MOST_SHOWN)
    ends = (best["ci_low"].min(), best["ci_high"].max())
    is_far_right = "false"
    if None not in ends:
        left, right = map(float, ends)  # type: ignore[arg-type]
        is_far_right = f"datum.ci_high > {left + FAR_RIGHT * (right - left):.6g}"
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
                "transform": [{"filter": f"!({is_far_right})"}],
                "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 10, "color": "@muted"},
                "encoding": {"x": {**x, "field": "ci_high"}, "text": {"field": "ranks"}},
            },
            {
                "transform": [{"filter": is_far_right}],
                "mark": {"type": "text", "align": "right", "dx": -8, "fontSize": 10, "color": "@muted"},
                "encoding": {"x": {**x, "field": "ci_low"}, "text": {"field": "ranks"}},
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
    measured = pl.DataFrame(gaps, schema=list(Difference._fields), orient="row")
    p = np.nan_to_num(measured["p"].to_numpy(), nan=1.0)
    standing = rank_intervals(answers, clusters, extra, df_runs or np.inf, seed, p)
    ranks = _ranks_frame(study, groups, columns, answers, standing)
    ordered = ranks["model"].to_list()
    neighbours = pl.DataFrame(
        {
            "model": ordered[:-1],
            "next": ordered[1:],
            "difference": measured["estimate"],
            "se": measured["se"],
            "ci_low": measured["low"],
            "ci_high": measured["high"],
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
        fewest = []
        for k in np.argsort(count, kind="stable")[:3]:
            fewest.append(f"{groups[k].name} ({count[k]:,})")
        raise InputError(
            f"{study.name}: no item was answered by all {len(groups)} models, so they cannot be ranked. Fewest "
            f"answers: {listed(fewest)}. Name models that share items"
        )
    return (
        [groups[int(k)] for k in np.flatnonzero(keep)],
        columns,
        [groups[int(k)] for k in np.flatnonzero(~keep)],
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

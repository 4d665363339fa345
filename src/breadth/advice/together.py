"""``advise together``: would several models do better than the best one?

Majority votes and routing, with the gain that new items would show. ``answers`` [models, items] are right (1) or wrong
(0); models are in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.advice.figures import gains_figure
from breadth.comparison import (
    describe_left_out,
    final_groups,
    item_clusters,
    levels_for_comparison,
    models_with_common_items,
)
from breadth.errors import InputError
from breadth.inference import NORMAL, Floats
from breadth.irt import cut_levels
from breadth.records import ROUND_SHARES, Study
from breadth.results import Answer, Column, Columns, Question, Result, Shown, Verdict, as_chart, times_more
from breadth.results.words import count, distance_text, joined, number_word, rounded_up, size_text
from breadth.sources import open_answers

if TYPE_CHECKING:
    import altair as alt

Indices = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

#: The best models, among which pairs and triples are searched.
MOST_SEARCHED = 15

#: Folds of the nested cross-validation over items.
FOLDS = 10

#: Standard errors by which a model must lead on a group of items before they are routed to it.
SURE = 2.0

#: Ways of cutting items into folds over which honest gains are averaged, and cells beyond which one must do.
REPEATS, MOST_CELLS = 4, 2_000_000

#: Sizes of the votes of the best models.
TOP = (3, 5, 7)

#: Levels of difficulty for routing, where none are stored.
LEVELS = 5

#: An honest gain that is worth the cost of several models.
WORTH = 0.01

#: Members of a vote that a sentence names.
MOST_MEMBERS = 3

#: Combinations as a sentence names them; ``{}`` is their models.
PHRASES = {
    "best pair": "a vote of {}",
    "best triple": "a vote of {}",
    "route by test set": "asking for every test set the model that is best on it",
    "route by level": "asking for every level of difficulty the model that is best on it",
}

GAINS = Columns(
    Column("combination", priority=1, meaning="Who votes, or how questions are sent to models."),
    Column("honest", format="points", header="better by", priority=1, meaning="On questions it was not chosen on."),
    Column("ci_low", "ci_high", format="points", priority=1, meaning="Where that lies in 95 of 100 cases."),
    Column("naive", format="points", header="seems", priority=2, meaning="On the questions that it was chosen on."),
    Column("members", priority=3, words=True, meaning="The models, chosen on all questions."),
    Column("se", format="percent", priority=4, meaning="Standard error of the honest difference, in points."),
)


class Gain(NamedTuple):
    """Gain over the best single model: as the data show it, as items that were held out show it, and its error."""

    naive: float
    honest: float
    se: float
    members: tuple[int, ...]


def best_first(answers: Floats) -> Indices:
    """Models from the best to the worst."""
    return np.argsort(-answers.mean(axis=1), kind="stable")


def vote(answers: Floats, members: Sequence[int]) -> Floats:
    """Whether the majority of the members is right, item by item; a tie goes to the first, which is the best.

    With more than two possible answers this is a lower bound: those who are wrong may disagree with each other.
    """
    cells = answers[list(members)]
    right = cells.sum(axis=0)
    half = len(members) / 2
    return np.asarray(np.where(right == half, cells[0], right > half), dtype=np.float64)


def route(answers: Floats, group: Indices) -> dict[int, int]:
    """The model for every group of items: the best overall, unless another leads by more than two standard errors.

    Leads are shrunk towards the lead on all items by how much groups differ beyond chance (empirical Bayes).
    """
    order = best_first(answers)[:MOST_SEARCHED]
    base = int(order[0])
    lead = answers[order] - answers[base]
    chosen = {}
    labels = np.unique(group)
    mean, variance = np.empty((2, len(order), len(labels)))
    for k, label in enumerate(labels):
        inside = lead[:, group == label]
        mean[:, k] = inside.mean(axis=1)
        variance[:, k] = inside.var(axis=1) / max(inside.shape[1] - 1, 1)
    whole = lead.mean(axis=1)
    between = np.maximum(((mean - whole[:, None]) ** 2 - variance).mean(axis=1), 0.0)
    keep = between[:, None] / np.maximum(between[:, None] + variance, 1e-12)
    shrunk, error = whole[:, None] + keep * (mean - whole[:, None]), np.sqrt(keep * variance)
    for k, label in enumerate(labels):
        best = int(np.argmax(shrunk[:, k]))
        sure = shrunk[best, k] > SURE * error[best, k] and shrunk[best, k] > 0
        chosen[int(label)] = base
        if sure:
            chosen[int(label)] = int(order[best])
    return chosen


def routed(answers: Floats, group: Indices, chosen: dict[int, int], base: int) -> Floats:
    """Right or wrong, item by item, if every group of items goes to its model; unknown groups go to ``base``."""
    model = np.array([chosen.get(int(label), base) for label in group], dtype=np.intp)
    return answers[model, np.arange(answers.shape[1])]


def make_folds(items: int, cluster: Indices | None, repeats: int = 1, seed: int = 0) -> Indices:
    """The fold of every item [repeats, items]; items of a cluster share it."""
    groups = np.arange(items)
    if cluster is not None:
        groups = np.unique(cluster, return_inverse=True)[1]
    number = int(groups.max(initial=0)) + 1
    generator = np.random.default_rng(seed)
    return np.stack([(generator.permutation(number) % min(FOLDS, number))[groups] for _ in range(repeats)])


def honest_gain(answers: Floats, combined: Callable[[Bools, Bools], Floats], folds: Indices) -> tuple[float, float]:
    """Gain over the best single model on items that neither was chosen on, and its standard error.

    ``combined`` takes the items to choose a combination on, and others that it then answers. In every fold, both the
    combination and the single model are chosen on the other folds (nested cross-validation).
    """
    gain = np.zeros(answers.shape[1])
    for fold_of in folds:
        for fold in np.unique(fold_of):
            out = fold_of == fold
            single = int(best_first(answers[:, ~out])[0])
            gain[out] += (combined(~out, out) - answers[single, out]) / len(folds)
    return float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))


def vote_gain(answers: Floats, folds: Indices, size: int, search: bool, margins: Floats | None = None) -> Gain:
    """Gain of a vote of ``size`` models: the best group that is found by search, or simply the best models.

    With ``margins``, a vote is right where the sum of the members' log-odds favours the right answer.
    """
    cells = answers if margins is None else margins

    def right(group: tuple[int, ...], own: Floats) -> Floats:
        return vote(own, group) if margins is None else np.asarray(own[list(group)].sum(axis=0) > 0, dtype=np.float64)

    def members(on: Bools) -> tuple[int, ...]:
        order = tuple(map(int, best_first(answers[:, on])))
        if not search:
            return order[:size]
        own = cells[:, on]
        return max(itertools.combinations(order[:MOST_SEARCHED], size), key=lambda group: right(group, own).mean())

    group = members(np.ones(answers.shape[1], dtype=np.bool_))
    naive = float(right(group, cells).mean() - answers.mean(axis=1).max())
    honest = honest_gain(answers, lambda on, out: right(members(on), cells[:, out]), folds)
    return Gain(naive, *honest, group)


def route_gain(answers: Floats, folds: Indices, group: Indices) -> Gain:
    """Gain of sending every group of items to the model that is best on it."""

    def combined(on: Bools, out: Bools) -> Floats:
        chosen, base = route(answers[:, on], group[on]), int(best_first(answers[:, on])[0])
        return routed(answers[:, out], group[out], chosen, base)

    naive = np.stack([answers[:, group == label].sum(axis=1) for label in np.unique(group)])
    members = tuple(dict.fromkeys(route(answers, group).values()))
    best = float(naive.max(axis=1).sum() / answers.shape[1] - answers.mean(axis=1).max())
    return Gain(best, *honest_gain(answers, combined, folds), members)


@dataclass(frozen=True)
class TogetherAdvice(Result):
    """Gains of combinations over the best single model.

    ``gains``: ``combination, members, naive, honest, se, ci_low, ci_high``. ``naive`` is what the data show for the
    best combination; ``honest`` what items show that neither the combination nor the single model was chosen on. The
    last row is the oracle: the share of items that at least one model gets right. No rule can reach it.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"gains": GAINS}

    gains: pl.DataFrame
    best: str
    accuracy: float
    n_models: int
    n_items: int
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The gains."""
        return {"gains": self.gains}

    def verdict(self) -> Verdict:
        """Would several models do better than the best one?

        Yes: the interval of the largest honest gain lies above 0. No: that of none reaches one point. Not enough data:
        otherwise.
        """
        known = self.gains.drop_nulls("honest").sort("honest", descending=True)
        row = known.row(0, named=True)
        facts: dict[str, float | str] = {"questions": self.n_items, "accuracy of the best": f"{self.accuracy:.1%}"}
        single = f"{self.best} alone ({self.accuracy:.1%} of {count(self.n_items, 'question')} right)"
        if row["ci_low"] > 0:
            what = _phrase(row)
            reason = f"{what[0].upper()}{what[1:]} is {_compared(row)} than {single}."
            advice = "Use it where that is worth the cost of several models."
            return Verdict(
                Answer.YES, reason, _luck(row, facts), question=Question.TOGETHER, advice=advice, facts=facts
            )
        undecided = known.filter(pl.col("ci_high") >= WORTH)
        if not undecided.height:
            facts["worth having, in points"] = f"{100 * WORTH:g}"
            facts["ways of combining them"] = known.height
            gain = f"{size_text(WORTH)} better than {single}"
            reason = f"Combining these models does not pay: none of the {known.height} ways tried is at least {gain}."
            if known.height == 1:
                reason = f"Combining these models does not pay: it is not at least {gain}."
            closest = f"The best, {_phrase(row)}, is {_compared(row)}."
            advice = f"Use {self.best} alone."
            return Verdict(Answer.NO, reason, closest, question=Question.TOGETHER, advice=advice, facts=facts)
        # Not the best one, which may be the best model itself: one that may turn out better.
        row = undecided.row(0, named=True)
        reason = (
            f"Whether several models do better than {single} is not decided: {_phrase(row)} is {_compared(row)} on "
            "questions that it was not chosen on."
        )
        return Verdict(
            Answer.UNKNOWN, reason, _luck(row, facts), self._needed(row, facts), question=Question.TOGETHER,
            advice=f"Use {self.best} alone for now.", facts=facts,
        )  # fmt: skip

    def _needed(self, row: Mapping[str, Any], facts: dict[str, float | str]) -> str:
        """How many questions would show a difference that is worth having."""
        times = times_more(row["se"], WORTH)
        if times <= 1:
            return "More questions would tell."
        number = rounded_up(self.n_items * times)
        facts["questions that would be enough"] = number
        facts["worth having, in points"] = f"{100 * WORTH:g}"
        return f"About {number} questions would show a difference of {size_text(WORTH)}."

    def shown(self) -> Sequence[Shown]:
        """How much better every combination is than the best model; the oracle, which knows who is right, is not."""
        frame = self.gains.drop_nulls("honest")
        title = f"How many points better than {self.best} alone"
        note = "better by: on questions it was not chosen on; seems: on those it was."
        return [Shown(title, frame, GAINS, note=note)]

    def details(self) -> str:
        """How differences were measured, and what no rule can reach."""
        oracle = self.gains.filter(pl.col("combination") == "oracle")["naive"][0]
        return (
            f"{count(self.n_models, 'model')}. Differences come from nested cross-validation over questions: the "
            "combination and the single model are chosen on some questions and compared on others. If one always knew "
            f"which model is right (the oracle), it would be {distance_text(oracle)} better; no rule can."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Naive and honest gains."""
        return as_chart(gains_figure(self.gains), tables={"gains": self.gains})


together_verdict = TogetherAdvice.verdict


def _phrase(row: Mapping[str, Any]) -> str:
    """A combination as the middle of a sentence."""
    combination = row["combination"]
    if combination in PHRASES:
        return PHRASES[combination].format(joined(row["members"].split(", "), MOST_MEMBERS))
    members = row["members"].split(", ")
    if len(members) <= MOST_MEMBERS:
        return f"a vote of {joined(members)}"
    return f"a vote of the best {number_word(len(members))}"


def _compared(row: Mapping[str, Any]) -> str:
    """By how much a combination is better or worse than the best model, with the interval, seen from the better one."""
    by, low, high = row["honest"], row["ci_low"], row["ci_high"]
    word, other = "better", "worse"
    if by < 0:
        word, other = other, word
        by, low, high = -by, -high, -low
    ends = f"{100 * low:.1f} to {100 * high:.1f}"
    if low < 0:
        ends = f"{distance_text(low)} {other} to {100 * high:.1f} {word}"
    return f"{distance_text(by)} {word} (95% interval {ends})"


def _luck(row: Mapping[str, Any], facts: dict[str, float | str]) -> str:
    """How much better a combination seems on what it was chosen on; its number is added to ``facts``."""
    luck = row["naive"] - row["honest"]
    if luck < WORTH:
        return ""
    facts["luck, in points"] = f"{100 * luck:.1f}"
    return f"On the questions that it was chosen on it seems {distance_text(luck)} better than that, which is luck."


def advise_together(
    responses: Any, *, cluster: str | None = None, seed: int = 0, round_shares: bool = False
) -> TogetherAdvice:
    """Gain of the best pair, triple and top-k by majority vote, and of routing by test set or level.

    The best of many combinations looks good by chance. So the honest gain is shown beside the naive one: by nested
    cross-validation over items, the combination and the single model it is compared with are chosen on some items and
    compared on others. Routing switches to another model only if that leads by more than two standard errors, after
    shrinkage.

    Votes are on right and wrong, so where there are many possible answers the gain of a vote is a lower bound; pairs
    need margins (log-odds of the right answer). Levels are those stored with the items; without them nothing is routed
    by level, because the share of models that get an item right is not known before they answer.

    Do not use it where models share their training data and fail on the same items: the table then says so.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes, with at least three models that answered the same items.
    cluster
        Column of the items that says which of them belong together; folds keep them together.
    seed
        Seeds the folds.
    round_shares
        Whether to count shares from 0.5 on (ties, means of several tries) as right and others as wrong.

    Examples
    --------
    >>> import breadth, numpy as np
    >>> answers = np.random.default_rng(0).random((3, 900)) < 0.7
    >>> result = breadth.advise_together(answers)
    >>> result.gains["combination"].to_list()
    ['best triple', 'top 3', 'oracle']
    """
    study = open_answers(responses).comparable().by_name()
    if round_shares:
        study = study.rounded()
    answers, names, columns, margins, warnings = _common_answers(study)
    clusters = item_clusters(study, cluster)
    repeats = REPEATS if answers.size <= MOST_CELLS else 1
    folds = make_folds(answers.shape[1], None if clusters is None else clusters[columns], repeats, seed)
    rows: list[tuple[str, Gain]] = []
    if margins is not None:
        rows.append(("best pair", vote_gain(answers, folds, 2, True, margins)))
    else:
        warnings.append("a pair cannot vote without margins (the column margin), so there is none")
    rows.append(("best triple", vote_gain(answers, folds, 3, True)))
    for size in TOP:
        if size <= len(answers):
            rows.append((f"top {size}", vote_gain(answers, folds, size, False)))
    place = study.set_index[columns]
    if len(np.unique(place)) > 1:
        rows.append(("route by test set", route_gain(answers, folds, place)))
    if "level" in study.items.columns:  # else none: what all models get right is not known before they answer
        level = levels_for_comparison(study, None, [])[columns]
        if not np.isnan(level).any() and len(np.unique(level)) > 1:
            rows.append(("route by level", route_gain(answers, folds, cut_levels(level, LEVELS))))
    best = int(best_first(answers)[0])
    accuracy = float(answers[best].mean())
    oracle = float(answers.max(axis=0).mean()) - accuracy
    table = []
    for name, gain in rows:
        members = ", ".join(names[k] for k in gain.members)
        reach = NORMAL * gain.se
        table.append((name, members, gain.naive, gain.honest, gain.se, gain.honest - reach, gain.honest + reach))
    table.append(("oracle", "all", oracle, None, None, None, None))  # type: ignore[arg-type]
    numeric = ("naive", "honest", "se", "ci_low", "ci_high")
    schema: dict[str, Any] = {"combination": pl.String, "members": pl.String, **dict.fromkeys(numeric, pl.Float64)}
    frame = pl.DataFrame(table, schema=schema, orient="row")
    return TogetherAdvice(frame, names[best], accuracy, len(answers), answers.shape[1], (*study.warnings, *warnings))


def _common_answers(study: Study) -> tuple[Floats, list[str], Any, Floats | None, list[str]]:
    """Answers of all models that answered enough, to the items that all of them answered; margins if all are known."""
    groups = final_groups(study)
    if study.matrix.dtype != np.int8:
        raise InputError(
            f"{study.name}: answers are shares; votes take answers that are right or wrong (1 or 0). {ROUND_SHARES}"
        )
    rows = np.array([group.rows[0] for group in groups], dtype=np.intp)
    keep = models_with_common_items(study.answered[rows])
    columns = np.flatnonzero(study.answered[rows[keep]].all(axis=0))
    warnings = []
    if not keep.all():
        left_out = [group.name for group, kept in zip(groups, keep, strict=True) if not kept]
        warnings.append(describe_left_out(study, left_out))
    if keep.sum() < 3 or len(columns) < 20:
        raise InputError(
            f"{study.name}: {int(keep.sum())} models share {len(columns):,} questions; combining takes at least 3 "
            "models and 20 questions that all of them answered"
        )
    names = []
    for group, kept in zip(groups, keep, strict=True):
        if kept:
            # Votes take single answers: a model with several runs is its first one here, and is called that.
            names.append(group.name if len(group.rows) == 1 else f"{group.name} (run 1 of {len(group.rows)})")
    cells = np.ix_(rows[keep], columns)
    margins = None
    if study.margin is not None and not np.isnan(study.margin[cells]).any() and study.margin[cells].any():
        margins = study.margin[cells].astype(np.float64)
    answers = study.matrix[cells].astype(np.float64)
    if answers.mean(axis=1).max() <= 0:
        raise InputError(f"{study.name}: no model gets any question right")
    return answers, names, columns, margins, warnings

"""``advise together``: would several models do better than the best one?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from breadth.advice.combining import MOST_CELLS, REPEATS, Gain, best_first, make_folds, route_gain, vote_gain
from breadth.comparison import final_groups, item_clusters, item_levels
from breadth.errors import InputError, listed
from breadth.inference import NORMAL, Floats
from breadth.irt import cut_levels
from breadth.records import Study, open_answers
from breadth.results import Result, Verdict, as_chart

if TYPE_CHECKING:
    import altair as alt

#: Sizes of the votes of the best models.
TOP = (3, 5, 7)

#: Levels of difficulty for routing, where none are stored.
LEVELS = 5

#: Share of items that a model must have answered to be considered.
LEAST_ANSWERED = 0.9


@dataclass(frozen=True)
class TogetherAdvice(Result):
    """Gains of combinations over the best single model.

    ``gains``: ``combination, members, naive, honest, se, ci_low, ci_high``. ``naive`` is what the data show for the
    best combination; ``honest`` what items show that neither the combination nor the single model was chosen on. The
    last row is the oracle: the share of items that at least one model gets right. No rule can reach it.
    """

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
        """Would several models do better? See :func:`breadth.advice.together_verdict`."""
        from breadth.advice.together_words import together_verdict

        return together_verdict(self)

    def details(self) -> str:
        """What the gains are measured against, and how far the naive ones are off."""
        from breadth.advice.together_words import together_details

        return together_details(self)

    def figure(self) -> alt.TopLevelMixin:
        """Naive and honest gains."""
        from breadth.advice.figures import gains_figure

        return as_chart(gains_figure(self.gains), tables={"gains": self.gains})


def advise_together(responses: Any, *, cluster: str | None = None, seed: int = 0) -> TogetherAdvice:
    """Gain of the best pair, triple and top-k by majority vote, and of routing by test set or level.

    The best of many combinations looks good by chance. So the honest gain is shown beside the naive one: by nested
    cross-validation over items, the combination and the single model it is compared with are chosen on some items and
    compared on others. Routing switches to another model only if that leads by more than two standard errors, after
    shrinkage.

    Votes are on right and wrong, so where there are many possible answers the gain of a vote is a lower bound; pairs
    need margins (log-odds of the right answer). Levels are those stored with the items; else by the share of models
    that get an item right, which a router would have to guess: routing by such levels is a bound, not a plan.

    Do not use it where models share their training data and fail on the same items: the table then says so.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes, with at least three models that answered the same items.
    cluster
        Column of the items that says which of them belong together; folds keep them together.
    seed
        Seeds the folds.

    Examples
    --------
    >>> import breadth, numpy as np
    >>> answers = np.random.default_rng(0).random((3, 900)) < 0.7
    >>> result = breadth.advise_together(answers)
    >>> result.gains["combination"].to_list()
    ['best triple', 'top 3', 'oracle']
    """
    study = open_answers(responses)
    answers, names, columns, margins, warnings = _models(study)
    clusters = item_clusters(study, cluster)
    repeats = REPEATS if answers.size <= MOST_CELLS else 1
    folds = make_folds(answers.shape[1], None if clusters is None else clusters[columns], repeats, seed)
    rows: list[tuple[str, Gain]] = []
    if margins is not None:
        rows.append(("best pair", vote_gain(answers, folds, 2, True, margins)))
    else:
        warnings.append("a pair cannot vote without margins (the column margin), so there is none")
    rows.append(("best triple", vote_gain(answers, folds, 3, True)))
    rows += [(f"top {size}", vote_gain(answers, folds, size, False)) for size in TOP if size <= len(answers)]
    place = study.set_index[columns]
    if len(np.unique(place)) > 1:
        rows.append(("route by test set", route_gain(answers, folds, place)))
    level = _levels(study, columns)
    if level is not None:
        rows.append(("route by level", route_gain(answers, folds, level)))
    best = int(best_first(answers)[0])
    accuracy = float(answers[best].mean())
    oracle = float(answers.max(axis=0).mean()) - accuracy
    table = [
        (name, ", ".join(names[k] for k in gain.members), gain.naive, gain.honest, gain.se,
         gain.honest - NORMAL * gain.se, gain.honest + NORMAL * gain.se)
        for name, gain in rows
    ]  # fmt: skip
    table.append(("oracle", "all", oracle, None, None, None, None))  # type: ignore[arg-type]
    numeric = ("naive", "honest", "se", "ci_low", "ci_high")
    schema: dict[str, Any] = {"combination": pl.String, "members": pl.String, **dict.fromkeys(numeric, pl.Float64)}
    frame = pl.DataFrame(table, schema=schema, orient="row")
    return TogetherAdvice(frame, names[best], accuracy, len(answers), answers.shape[1], (*study.warnings, *warnings))


def _models(study: Study) -> tuple[Floats, list[str], Any, Floats | None, list[str]]:
    """Answers of all models that answered enough, to the items that all of them answered; margins if all are known."""
    groups = final_groups(study)
    if study.matrix.dtype != np.int8:
        raise InputError(f"{study.name}: answers are shares; votes take answers that are right or wrong (1 or 0)")
    rows = np.array([group.rows[0] for group in groups], dtype=np.intp)
    count = study.answered[rows].sum(axis=1)
    keep = count >= LEAST_ANSWERED * np.median(count)
    columns = np.flatnonzero(study.answered[rows[keep]].all(axis=0))
    warnings = []
    if not keep.all():
        left = listed([group.name for group, kept in zip(groups, keep, strict=True) if not kept], 3)
        warnings.append(f"{int((~keep).sum())} models that answered few items are left out: {left}")
    if keep.sum() < 3 or len(columns) < 20:
        raise InputError(
            f"{study.name}: {int(keep.sum())} models share {len(columns):,} items; combining takes at least 3 models "
            "and 20 items that all of them answered"
        )
    names = [group.name for group, kept in zip(groups, keep, strict=True) if kept]
    cells = np.ix_(rows[keep], columns)
    margins = None
    if study.margin is not None and not np.isnan(study.margin[cells]).any() and study.margin[cells].any():
        margins = study.margin[cells].astype(np.float64)
    answers = study.matrix[cells].astype(np.float64)
    if answers.mean(axis=1).max() <= 0:
        raise InputError(f"{study.name}: no model gets any item right")
    return answers, names, columns, margins, warnings


def _levels(study: Study, columns: Any) -> Any:
    """Stored levels of the items; else none: what all models get right is not known before they answer."""
    if "level" not in study.items.columns:
        return None
    level = item_levels(study, None, [])[columns]
    return None if np.isnan(level).any() or len(np.unique(level)) < 2 else cut_levels(level, LEVELS)

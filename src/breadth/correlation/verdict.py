"""Does one test set speak for another, once in-domain performance is taken into account? How the answer is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.intervals import to_z
from breadth.correlation.panel import Floats
from breadth.correlation.units import MODEL_COLUMNS, STRONGEST, noun_of_groups
from breadth.inference import LEVEL, NORMAL
from breadth.results import ALMOST_ALL, ALMOST_NONE, POWER, Answer
from breadth.results.words import FINDING

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

#: The correlation that data must be able to show before its absence says anything.
WORTH_SEEING = 0.3

#: Share of the pairs that must be known before anything is said of all.
LEAST_KNOWN = 0.5

#: Most groups that are worth recommending, and most times as many rows.
MOST_GROUPS, MOST_TIMES = 1000, 20

#: Columns that say that a row is a training run, where a table has no groups.
RUN_NAMES = ("run", "Run", "run_name", "seed")


class Counts(NamedTuple):
    """How many correlations are positive and negative findings (q < 0.05), undecided, and not known.

    ``known`` is the sum of the first three.
    """

    positive: int
    negative: int
    undecided: int
    unknown: int
    known: int


def count_findings(frame: pl.DataFrame) -> Counts:
    """Count the rows of a frame with ``r`` and ``q`` that remain with the false discovery rate at 5 %, by sign."""
    found = frame.filter(pl.col("q") < FINDING)["r"]
    positive, negative = int((found > 0).sum()), int((found < 0).sum())
    known = frame.height - frame["q"].null_count()
    return Counts(positive, negative, known - positive - negative, frame.height - known, known)


class Assessment(NamedTuple):
    """What the verdict rests on: counts of findings, pairs on which units contradict each other, what could be seen."""

    answer: Answer
    counts: Counts
    opposed: pl.DataFrame
    contradictory: int
    seen: Sensitivity


def assess(result: Correlation) -> Assessment:
    """Count findings and contradictions, and decide.

    A *finding* is a row of ``pooled`` with q < 0.05: Benjamini and Hochberg (1995) over all pairs of the call. These
    are means over units (models where runs are their seeds, else runs), corrected for the noise of finite test sets
    where it is known. With one or two units, each counts on its own and the answer is about them alone. Units
    *contradict* each other on a pair if their own correlations (``by_unit``) are findings of both signs, or if they
    differ by Cochran's test (``q_differ`` < 0.05).

    - Yes: at least 90 % of pairs are positive findings, and units contradict each other in sign on at most 10 %.
    - No: at least 90 % are negative findings; or at most 10 % are findings, and a correlation of 0.3 would have been
      seen: the median pair would show it with a probability of 80 %.
    - Mixed: more than 10 % are findings, or units contradict each other on more than 10 % of pairs.
    - Not enough data: otherwise, and where test sets are too small for half of the pairs.

    The probability is for a single test at 5 %. The false discovery rate asks for more where few pairs are correlated,
    but hardly more where most are, which is the case that the question is about.
    """
    pooled = result.pooled
    counts = count_findings(pooled)
    opposed, contradictory = contradictions(result)
    seen = Sensitivity(1.0)
    if counts.known:
        seen = sensitivity(result)
    found = counts.positive + counts.negative
    if counts.known < LEAST_KNOWN * pooled.height or not counts.known:
        answer = Answer.UNKNOWN
    elif counts.positive >= ALMOST_ALL * counts.known and opposed.height <= ALMOST_NONE * counts.known:
        answer = Answer.YES
    elif counts.negative >= ALMOST_ALL * counts.known and opposed.height <= ALMOST_NONE * counts.known:
        answer = Answer.NO
    elif max(found, contradictory) > ALMOST_NONE * counts.known:
        answer = Answer.MIXED
    elif seen.smallest <= WORTH_SEEING:
        answer = Answer.NO
    else:
        answer = Answer.UNKNOWN
    return Assessment(answer, counts, opposed, contradictory, seen)


def answer_of(result: Correlation) -> Answer:
    """The answer alone."""
    return assess(result).answer


def group_noun(result: Correlation) -> str:
    """What a group is called."""
    return noun_of_groups(result.by)


def group_count(result: Correlation) -> int:
    """Groups that have a correlation."""
    if not result.by:
        return 1
    return result.pairs.drop_nulls("ci_low").select(result.by).n_unique()


def row_noun(result: Correlation) -> str:
    """What a row of scores is called: a checkpoint, or a model or run of a table that has no groups."""
    if result.trajectories.order is not None:
        return "checkpoint"
    about = result.trajectories.about
    if about is None:
        return "row"
    for noun, names in (("model", MODEL_COLUMNS), ("run", RUN_NAMES)):
        for name in names:
            # A column that is the same in many rows does not say what a row is.
            if name in about.columns and 2 * about[name].n_unique() > about.height:
                return noun
    return "row"


def pair_keys(result: Correlation) -> list[str]:
    """Columns that name a pair of test sets: the training set as well, where there are several."""
    return [name for name in ("train_set", "a", "b") if name in result.pooled.columns]


def differing_pairs(result: Correlation) -> pl.DataFrame:
    """Pairs on which units differ by Cochran's test with the false discovery rate at 5 %."""
    return result.heterogeneity.filter(pl.col("q_differ") < FINDING).select(pair_keys(result))


def contradictions(result: Correlation) -> tuple[pl.DataFrame, int]:
    """Pairs on which units have findings of both signs (``low`` to ``high``); on how many pairs units contradict."""
    keys = pair_keys(result)
    if not result.by:
        return result.pairs.select(*keys, low="r", high="r").clear(), 0
    found = result.by_unit.filter(pl.col("q") < FINDING).group_by(keys, maintain_order=True)
    opposed = found.agg(low=pl.col("r").min(), high=pl.col("r").max()).filter(
        (pl.col("low") < 0) & (pl.col("high") > 0)
    )
    return opposed, pl.concat([opposed.select(keys), differing_pairs(result)]).n_unique()


class HalfWidths(NamedTuple):
    """Half the widths of intervals on Fisher's scale: the mean of both sides, and the narrower side."""

    mean: Floats
    narrow: Floats


def _half_widths(known: pl.DataFrame) -> HalfWidths:
    """How wide intervals are.

    Where noise is only known to be at most so large, the side away from 0 allows for all of it: what would have been
    seen is judged by both sides, because a true correlation may lie far out there. How much more data would help is
    judged by the narrower side. A corrected correlation beyond 1 is given as 1, infinitely far away on this scale: of
    these, the other pairs' widths count.
    """
    ends = (known[name].to_numpy().clip(-STRONGEST, STRONGEST) for name in ("r", "ci_low", "ci_high"))
    r, low, high = (to_z(end) for end in ends)
    mean: Floats = (high - low) / 2
    narrow: Floats = np.minimum(high - r, r - low)
    cut_off = np.abs(known["r"].to_numpy()) > STRONGEST
    if cut_off.all():
        return HalfWidths(mean, mean)
    narrow[cut_off] = np.median(narrow[~cut_off])
    return HalfWidths(mean, narrow)


class Sensitivity(NamedTuple):
    """The smallest correlation that the median pair would show with a probability of 80 %, and what 0.3 would take.

    ``enough`` of ``noun`` would show a correlation of 0.3, ``now`` is how many there are, and ``times`` as many rows in
    each would do as well; None where no number would, or where it is not worth recommending. ``dependent`` says that
    neighbouring checkpoints are so alike that more of them tell nothing.
    """

    smallest: float
    noun: str = ""
    now: int = 0
    enough: float | None = None
    times: float | None = None
    dependent: bool = False


def sensitivity(result: Correlation) -> Sensitivity:
    """How small a correlation would have been seen, and how many groups or rows would show one of 0.3?

    On Fisher's scale a correlation is seen with a probability of 80 % if it is half the width of its interval plus 0.84
    standard errors. With k groups that are s apart (standard deviation, sampling included), the standard error is
    s / sqrt(k) and the half-width its product with the quantile of t with k - 1 degrees of freedom.
    """
    known = result.pooled.drop_nulls("q")
    widths, k = _half_widths(known), known["k"].to_numpy()
    quantile = np.where(k > 1, special.stdtrit(np.maximum(k - 1, 1), (1 + LEVEL) / 2), NORMAL)
    smallest = float(np.tanh(np.median(widths.mean * (1 + POWER / quantile))))
    visible = float(np.median(widths.narrow * (1 + POWER / quantile)))
    target = float(np.arctanh(WORTH_SEEING))
    groups, noun = int(np.median(k)), result.units.noun
    if result.few_units:
        # Means over the runs of a unit, if it has several; the runs are what there can be more of.
        noun = group_noun(result)
    if groups < 2:
        rows = row_noun(result)
        now = int(result.pairs.drop_nulls("q")["n"].median() or 0)  # type: ignore[arg-type]
        more_rows = (visible / target) ** 2
        if more_rows > MOST_TIMES and rows == "checkpoint":
            return Sensitivity(smallest, rows, now, dependent=True)
        return Sensitivity(smallest, rows, now, now * more_rows)
    apart = float(np.median(widths.narrow / quantile * np.sqrt(k)))
    more = np.arange(groups + 1, MOST_GROUPS + 1)
    reached = (special.stdtrit(more - 1, (1 + LEVEL) / 2) + POWER) * apart / np.sqrt(more) <= target
    enough = float(more[reached.argmax()]) if reached.any() else None
    # More rows in every group narrow only what is sampling error.
    between = float(result.heterogeneity["tau2"].median() or 0)  # type: ignore[arg-type]
    allowed = groups * (target / (special.stdtrit(groups - 1, (1 + LEVEL) / 2) + POWER)) ** 2 - between
    times = None
    if allowed > 0 and 1 < (apart**2 - between) / allowed <= MOST_TIMES:
        times = float((apart**2 - between) / allowed)
    return Sensitivity(smallest, noun, groups, enough, times)

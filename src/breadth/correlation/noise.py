"""What the sampling noise of finite test sets means for the answer: how many items would do, and what if it is unknown.

Noise in a test set hides a correlation; noise in the control makes all test sets look alike. So an answer rests on the
correction for both, or says that it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from breadth.correlation.attenuation import LEAST_RELIABILITY, MOST_LEAK
from breadth.correlation.panel import make_panel
from breadth.correlation.partial import partial_correlations
from breadth.correlation.units import pool_units
from breadth.results import Answer

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

#: The share of signal that makes a test set large enough, and the one below which no number of items can be named.
ENOUGH, NEXT_TO_NOTHING = 0.5, 0.02

#: Items per test set for which it is tried whether noise would change an answer, from many to few.
TRIED_ITEMS = (100_000, 50_000, 20_000, 10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50)

#: Above this many correlations, trying them again takes longer than a reader waits for a remark.
MOST_TRIED = 20_000


def deciding(pairs: pl.DataFrame) -> pl.DataFrame:
    """Pairs with ``r`` and its interval being those that decide: corrected for noise where it is known."""
    if "r_corrected" not in pairs.columns:
        return pairs
    return pairs.with_columns(pl.col(f"{name}_corrected").alias(name) for name in ("r", "ci_low", "ci_high"))


class TooSmall(NamedTuple):
    """Test sets whose scores are mostly noise once the control is accounted for, and what would be enough.

    ``share`` is the share of the pairs of test sets that have one of them. ``enough`` has the questions that would be
    enough by test set, ``now`` those that there are; where no number can be named, a test set is in ``now`` alone.
    ``counted`` says that noise follows from the number of questions, not from answers.
    """

    names: tuple[str, ...] = ()
    share: float = 0.0
    enough: Mapping[str, float] = MappingProxyType({})
    now: Mapping[str, int] = MappingProxyType({})
    counted: bool = False


def find_too_small(result: Correlation) -> TooSmall:
    """Which test sets, or controls, have too few items for a corrected correlation, and how many would be enough.

    The signal in the residual of a test set stays as it is with more items; its own noise falls as one over its items,
    and what leaks in from the control as one over the control's. Enough is where half of the variance is signal.
    """
    names: list[str] = []
    share, counted = 0.0, False
    enough: dict[str, float] = {}
    now: dict[str, int] = {}
    for analysis in result.analyses:
        if not analysis.corrected:
            continue
        part = _too_small_sets(analysis)
        names += part.names
        share, counted = max(share, part.share), counted or part.counted
        now |= part.now
        for name, questions in part.enough.items():
            enough[name] = max(enough.get(name, 0.0), questions)
    return TooSmall(tuple(dict.fromkeys(names)), share, enough, now, counted)


def _too_small_sets(result: Correlation) -> TooSmall:
    """The same for one training set."""
    testsets, controls = result.trajectories.testsets, result.trajectories.controls
    pooled = pool_units(result._partial, result.units.of_group, predict=False)
    a, b = np.triu_indices(len(testsets), 1)
    sizes = dict(result.trajectories.sizes)
    if result.settings.counts is not None:
        for name, questions in zip((*testsets, *controls), result.settings.counts, strict=True):
            if not np.isnan(questions):
                sizes[name] = int(questions)
    small: list[str] = []
    ways: dict[str, float] = {}
    for index, name in enumerate(testsets):
        mine = np.concatenate([pooled.reliability_a[a == index], pooled.reliability_b[b == index]])
        noise = np.concatenate([pooled.noise_a[a == index], pooled.noise_b[b == index]])
        signal, own = float(np.median(mine)), float(np.median(noise))
        leak = max(1 - signal - own, 0.0)
        if signal >= LEAST_RELIABILITY and leak <= MOST_LEAK:
            continue
        small.append(name)
        # Whichever of the two sources of noise is the larger one is worth reducing first.
        guilty: Sequence[str] = controls
        if own >= leak:
            guilty = [name]
        times = np.inf
        if signal > NEXT_TO_NOTHING:
            times = max(own, leak) / signal
        for each in guilty:
            if each in sizes:
                ways[each] = max(ways.get(each, 0.0), times)
    if float(np.median(pooled.reliability_control)) < LEAST_RELIABILITY - 1e-9:
        small += list(controls)
        for name in controls:
            if name in sizes:
                ways[name] = np.inf
    enough = {}
    for name, times in ways.items():
        if np.isfinite(times):
            enough[name] = sizes[name] * times
    now = {name: sizes[name] for name in enough or ways}
    places = [place for place, name in enumerate(testsets) if name in small]
    share = float((np.isin(a, places) | np.isin(b, places)).mean())
    if set(small) & set(controls):
        share = 1.0
    return TooSmall(tuple(small), share, enough, now, result.settings.counts is not None)


def has_accuracies(result: Correlation) -> bool:
    """Whether test sets and controls are shares of right answers, so that items would determine their noise."""
    trajectories = result.trajectories
    for name in (*trajectories.testsets, *trajectories.controls):
        values = trajectories.frame[name]
        low, high = values.min(), values.max()
        if low is None or high is None or float(low) < 0 or float(high) > 100:  # type: ignore[arg-type]
            return False
        if 1 < float(high) <= 2:  # type: ignore[arg-type]
            return False
    return True


class Doubt(NamedTuple):
    """What the answer takes for granted where the noise of scores is not known.

    ``items`` each or fewer would change the answer to ``answer``; None where no number would, or where none was tried.
    """

    text: str = ""
    items: int | None = None
    answer: Answer | None = None


def doubt_noise(result: Correlation, answer: Answer) -> Doubt:
    """What the answer takes for granted where the noise of scores is not known; empty where that changes nothing.

    The items that would change the answer are found by asking again for several sizes of all test sets and the control,
    as if their scores were accuracies of so many items.
    """
    known = result.trajectories.halves is not None
    if result.corrected:
        return Doubt()
    if result.settings.rank and known:
        return Doubt("Correlations of ranks do not account for the noise of small test sets; those of values do.")
    if known or not has_accuracies(result):
        return Doubt("The noise of small test sets is not accounted for.")
    if result._partial.r.size > MOST_TRIED or result.settings.rank:
        return Doubt("How many questions the test sets have is not known, so their noise is not accounted for.")
    for items in TRIED_ITEMS:
        changed = answer_with_items(result, items)
        if changed is not answer:
            text = f"If each test set has more than {items:,} questions (with fewer, the answer is “{changed}”): "
            return Doubt(text, items, changed)
    return Doubt()


def answer_with_items(result: Correlation, items: int) -> Answer:
    """The answer if every score were the accuracy on so many items."""
    from breadth.correlation.correlate import perfect_score
    from breadth.correlation.result import pairs_frame
    from breadth.correlation.verdict import answer_of

    trajectories = result.trajectories
    columns = (*trajectories.testsets, *trajectories.controls)
    settings = replace(
        result.settings,
        counts=np.full(len(columns), float(items)),
        scale=np.array([perfect_score(trajectories, name) for name in columns]),
    )
    panel, labels = make_panel(trajectories)
    partial = partial_correlations(panel, settings)
    pairs = pairs_frame(partial, labels, trajectories, settings)
    other = replace(result, pairs=pairs, settings=settings, _partial=partial)
    return answer_of(other)

"""What the sampling noise of finite test sets means for the answer: how many items would do, and what if it is unknown.

Noise in a test set hides a correlation; noise in the control makes all test sets look alike. So an answer rests on the
correction for both, or says that it does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from breadth.correlation.attenuation import LEAST_RELIABILITY, MOST_LEAK
from breadth.correlation.panel import make_panel
from breadth.correlation.partial import partial_correlations
from breadth.correlation.units import pool_units
from breadth.results import Answer, about
from breadth.results.words import joined

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

    ``share`` is the share of the pairs of test sets that have one of them, ``signal`` what is not noise at worst.
    """

    names: tuple[str, ...]
    share: float
    signal: float
    needed: str


def find_too_small(result: Correlation) -> TooSmall:
    """Which test sets, or controls, have too few items for a corrected correlation, and how many would be enough.

    The signal in the residual of a test set stays as it is with more items; its own noise falls as one over its items,
    and what leaks in from the control as one over the control's. Enough is where half of the variance is signal.
    """
    each = [_too_small_sets(part) for part in result.analyses if part.corrected]
    names = tuple(dict.fromkeys(name for part in each for name in part.names))
    signal = min((part.signal for part in each), default=1.0)
    share = max((part.share for part in each), default=0.0)
    return TooSmall(names, share, signal, " ".join(dict.fromkeys(part.needed for part in each if part.needed)))


def _too_small_sets(result: Correlation) -> TooSmall:
    """The same for one training set."""
    testsets, controls = result.trajectories.testsets, result.trajectories.controls
    pooled = pool_units(result._partial, result.units.of_group, predict=False)
    a, b = np.triu_indices(len(testsets), 1)
    sizes = dict(result.trajectories.sizes)
    if result.settings.counts is not None:
        columns = (*testsets, *controls)
        sizes |= {name: int(n) for name, n in zip(columns, result.settings.counts, strict=True) if not np.isnan(n)}
    small, shares, ways = [], [], dict[str, float]()
    for index, name in enumerate(testsets):
        mine = np.concatenate([pooled.reliability_a[a == index], pooled.reliability_b[b == index]])
        noise = np.concatenate([pooled.noise_a[a == index], pooled.noise_b[b == index]])
        signal, own = float(np.median(mine)), float(np.median(noise))
        leak = max(1 - signal - own, 0.0)
        if signal >= LEAST_RELIABILITY and leak <= MOST_LEAK:
            continue
        small.append(name)
        shares.append(max(signal, 0.0))
        # Whichever of the two sources of noise is the larger one is worth reducing first.
        guilty = [name] if own >= leak else [each for each in controls if each in sizes]
        times = max(own, leak) / signal if signal > NEXT_TO_NOTHING else np.inf
        ways |= {each: max(ways.get(each, 0.0), times) for each in guilty if each in sizes}
    if float(np.median(pooled.reliability_control)) < LEAST_RELIABILITY - 1e-9:
        small += list(controls)
        ways |= dict.fromkeys((name for name in controls if name in sizes), np.inf)
    known = {name: times for name, times in ways.items() if np.isfinite(times)}
    needed = ""
    if known:
        named = [f"{about(sizes[name] * times)} in {name} (now {sizes[name]:,})" for name, times in known.items()]
        needed = f"This many questions would be about enough: {joined(named, 4)}."
    elif ways:
        named = [f"{name} (now {sizes[name]:,})" for name in ways]
        needed = f"It takes many more questions, at least ten times as many, in {joined(named, 4)}."
    if needed and result.settings.counts is not None:
        needed += " With answers question by question, noise would be measured and may turn out smaller."
    touched = np.isin(a, [testsets.index(name) for name in small if name in testsets])
    touched |= np.isin(b, [testsets.index(name) for name in small if name in testsets])
    share = 1.0 if set(small) & set(controls) else float(touched.mean())
    return TooSmall(tuple(small), share, min(shares, default=0.0), needed)


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


def unknown_noise_words(result: Correlation, answer: Answer) -> str:
    """What the answer takes for granted where the noise of scores is not known; empty where it is.

    The items that would change the answer are found by asking again for several sizes of all test sets and the control,
    as if their scores were accuracies of so many items.
    """
    known = result.trajectories.halves is not None
    if result.corrected:
        return ""
    if result.settings.rank and known:
        return "Ranks are not corrected for the noise of finite test sets; --method pearson is."
    if known or not has_accuracies(result):
        return "These scores are not corrected for the noise of finite test sets."
    start = "How many questions the test sets have is not known, so their noise is not corrected for"
    if result._partial.r.size > MOST_TRIED or result.settings.rank:
        return f"{start} (--item-counts)."
    changes = [items for items in TRIED_ITEMS if answer_with_items(result, items) is not answer][:1]
    if not changes:
        return f"{start}; even {TRIED_ITEMS[-1]} each would give the same answer."
    changed = answer_with_items(result, changes[0])
    return f"{start}. With {changes[0]:,} each or fewer the answer would be “{changed.value}”: give --item-counts."


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

"""Does a gain on one test set go with a gain on another, after controlling for in-domain performance? The answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.intervals import to_z
from breadth.correlation.partial import Flag, rows_needed
from breadth.inference import LEVEL, NORMAL
from breadth.results import ALMOST_ALL, ALMOST_NONE, POWER, Answer, Verdict, about
from breadth.results.words import FINDING, count

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

#: The correlation that data must be able to show before its absence says anything.
WORTH_SEEING = 0.3

#: Findings that the verdict names.
MOST_NAMED = 3

#: Most groups that are worth recommending, and most times as many rows.
MOST_GROUPS, MOST_TIMES = 1000, 20

#: Columns that say what a group is.
GROUPS = ("run", "model", "seed", "subject")

#: Why pairs have no interval, for a sentence.
REASONS = {
    Flag.TOO_FEW_ROWS: "too few complete rows",
    Flag.CONSTANT_A: "a test set is constant",
    Flag.CONSTANT_B: "a test set is constant",
    Flag.CONSTANT_CONTROL: "the control is constant",
    Flag.CONTROL_EXPLAINS_A: "the control explains a test set fully",
    Flag.CONTROL_EXPLAINS_B: "the control explains a test set fully",
    Flag.IDENTICAL_RESIDUALS: "the residuals are identical",
}


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


def correlation_verdict(result: Correlation) -> Verdict:
    """Does a gain on one test set go with a gain on another, given the control?

    A *finding* is a pair of test sets whose correlation, as the mean over groups (``heterogeneity``) or, without
    groups, as it is (``pairs``), has q < 0.05: Benjamini and Hochberg (1995) over all pairs of the call. Groups
    *contradict* each other on a pair if their own correlations (``pairs``) are findings of both signs, or if they
    differ by Cochran's test (``q_differ`` < 0.05).

    - Yes: at least 90 % of pairs are positive findings, and groups contradict each other in sign on at most 10 %.
    - No: at least 90 % are negative findings; or at most 10 % are findings, and a correlation of 0.3 would have been
      seen: the median pair would show it with a probability of 80 %.
    - It depends: more than 10 % are findings, or groups contradict each other on more than 10 % of pairs.
    - Not enough data: otherwise. ``needed`` then says how many groups or rows would show a correlation of 0.3.

    The probability is for a single test at 5 %. The false discovery rate asks for more where few pairs are correlated,
    but hardly more where most are, which is the case that the question is about.
    """
    counts, given = count_findings(result.pooled), result.given
    if not counts.known:
        return _nothing(result)
    groups, noun = group_count(result), group_noun(result)
    over = f" (mean over {count(groups, noun)})" if groups > 1 else ""
    pairs = f"{count(counts.known, 'pair')} of test sets{over}"
    opposed, contradictory = contradictions(result)
    strongest, seen = _named(result), sensitivity(result)
    mostly = {sign: share >= ALMOST_ALL * counts.known for sign, share in (("gain", counts[0]), ("loss", counts[1]))}
    if any(mostly.values()) and opposed.height <= ALMOST_NONE * counts.known:
        which, number = ("gain", counts.positive) if mostly["gain"] else ("loss", counts.negative)
        reason = f"{given}, a gain on one test set goes with a {which} on another: {number} of {pairs}."
        return Verdict(Answer.YES if mostly["gain"] else Answer.NO, reason, strongest)
    found = counts.positive + counts.negative
    if max(found, contradictory) > ALMOST_NONE * counts.known:
        reason = f"{given}, a gain on one test set goes with a gain on another for {counts.positive} of {pairs}"
        reason += f" and with a loss for {counts.negative}" if counts.negative else ""
        reason += f"; {noun}s contradict each other on {contradictory}" if contradictory else ""
        if not found:
            reason = f"{given}, {noun}s contradict each other on {contradictory} of {count(counts.known, 'pair')}"
        return Verdict(Answer.DEPENDS, f"{reason}.", _named(result, opposed))
    none = f"{found} of {pairs} {'is a finding' if found == 1 else 'are findings'} (q < {FINDING})"
    if seen.smallest <= WORTH_SEEING:
        reason = (
            f"{given}, a gain on one test set says almost nothing about another: {none}, although a correlation of "
        )
        return Verdict(Answer.NO, f"{reason}{short(seen.smallest)} would have been seen.", strongest)
    strong = f"only correlations of {short(seen.smallest)} or more" if seen.smallest < 0.995 else "not even strong ones"
    return Verdict(Answer.UNKNOWN, f"{given}, {none}, and {strong} would have been seen.", strongest, seen.needed)


def why_not_computed(pairs: pl.DataFrame) -> str:
    """Why pairs have no interval, the commonest reason first, with the number of pairs if there are several reasons."""
    flags = pairs.filter(pl.col("ci_low").is_null())["flag"].replace_strict(REASONS, default=None).drop_nulls()
    numbers = flags.value_counts().sort(["count", "flag"], descending=[True, False])
    if numbers.height == 1:
        return str(numbers["flag"].item())
    return ", ".join(f"{reason} ({count(number, 'pair')})" for reason, number in numbers.iter_rows())


def _nothing(result: Correlation) -> Verdict:
    """No pair has an interval: why, and how many rows are needed if they are too few."""
    needed = ""
    if (result.pairs["flag"] == Flag.TOO_FEW_ROWS).any():
        adjust, rows = result.settings.adjust, "row" if result.trajectories.order is None else "checkpoint"
        least = rows_needed(adjust, len(result.trajectories.controls))
        needed = (
            f"--adjust {adjust} needs at least {least} {rows}s{' in a ' + group_noun(result) if result.by else ''}."
        )
    reason = f"no correlation {result.given} could be computed: {why_not_computed(result.pairs)}."
    return Verdict(Answer.UNKNOWN, reason, "", needed, computed=False)


def group_noun(result: Correlation) -> str:
    """What a group is called."""
    names = [name for name in result.by if name != "train_set"]
    return names[0] if len(names) == 1 and names[0] in GROUPS else "group"


def group_count(result: Correlation) -> int:
    """Groups that have a correlation."""
    return result.pairs.drop_nulls("q").select(result.by).n_unique() if result.by else 1


def short(r: float, sign: bool = False) -> str:
    """A correlation without its leading zero."""
    return f"{r:{'+' if sign else ''}.2f}".replace("0.", ".", 1).replace("-", "−")


def contradictions(result: Correlation) -> tuple[pl.DataFrame, int]:
    """Pairs on which groups have findings of both signs (``low`` to ``high``); on how many pairs groups contradict."""
    keys = [name for name in ("train_set", "a", "b") if name in result.pooled.columns]
    if not result.by:
        return result.pairs.select(*keys, low="r", high="r").clear(), 0
    found = result.pairs.filter(pl.col("q") < FINDING).group_by(keys, maintain_order=True)
    opposed = found.agg(low=pl.col("r").min(), high=pl.col("r").max()).filter(
        (pl.col("low") < 0) & (pl.col("high") > 0)
    )
    differ = result.heterogeneity.filter(pl.col("q_differ") < FINDING).select(keys)
    return opposed, pl.concat([opposed.select(keys), differ]).n_unique()


def _named(result: Correlation, opposed: pl.DataFrame | None = None) -> str:
    """The strongest findings with intervals, in how many groups they have their sign, and how many hold in all.

    Then, of pairs on which groups have findings of both signs, the one on which they are farthest apart.
    """
    noun, several, texts = group_noun(result), group_count(result) > 1, []
    pair = pl.format("{} and {}", "a", "b").alias("pair")
    if "train_set" in result.pooled.columns:
        pair = pl.format("{} and {} (trained on {})", "a", "b", "train_set").alias("pair")
    frame = result.heterogeneity.rename({"r_mean": "r"}) if result.by else result.pooled
    found = frame.filter(pl.col("q") < FINDING).sort(pl.col("r").abs(), descending=True, maintain_order=True)
    for row in found.head(MOST_NAMED).with_columns(pair).iter_rows(named=True):
        text = f"{row['pair']} {short(row['r'], sign=True)} ({short(row['ci_low'])} to {short(row['ci_high'])})"
        if several:
            agree = round(row["sign_agreement"] * row["k"])
            text += f" in all {count(agree, noun)}" if agree == row["k"] else f" in {agree} of {count(row['k'], noun)}"
        texts.append(text)
    sentences = [f"Strongest: {'; '.join(texts)}."] if texts else []
    if several and found.height > 1:
        everywhere = found.filter(pl.col("sign_agreement") == 1).height
        sentences.append(f"{everywhere} of {count(found.height, 'finding')} have the same sign in every {noun}.")
    if opposed is not None and opposed.height:
        apart = opposed.sort(pl.col("high") - pl.col("low"), descending=True, maintain_order=True)
        row, ends = apart.with_columns(pair).row(0, named=True), []
        for end in ("high", "low"):
            group = result.pairs.filter(pl.col("r") == row[end], a=row["a"], b=row["b"]).row(0, named=True)
            name = " / ".join(str(group[column]) for column in result.by if column != "train_set")
            ends.append(f"{short(row[end], sign=True)} in {name}")
        sentences.append(f"{noun.capitalize()}s are farthest apart on {row['pair']}: {ends[0]}, {ends[1]}.")
    return " ".join(sentences)


class Sensitivity(NamedTuple):
    """The smallest correlation that the median pair would show with a probability of 80 %, and what 0.3 would take."""

    smallest: float
    needed: str


def sensitivity(result: Correlation) -> Sensitivity:
    """How small a correlation would have been seen, and how many groups or rows would show one of 0.3?

    On Fisher's scale a correlation is seen with a probability of 80 % if it is half the width of its interval plus 0.84
    standard errors. With k groups that are s apart (standard deviation, sampling included), the standard error is
    s / sqrt(k) and the half-width its product with the quantile of t with k - 1 degrees of freedom.
    """
    known = result.pooled.drop_nulls("q")
    width = (to_z(known["ci_high"].to_numpy()) - to_z(known["ci_low"].to_numpy())) / 2
    k = known["k"].to_numpy()
    quantile = np.where(k > 1, special.stdtrit(np.maximum(k - 1, 1), (1 + LEVEL) / 2), NORMAL)
    visible = float(np.median(width * (1 + POWER / quantile)))
    smallest, target = float(np.tanh(visible)), float(np.arctanh(WORTH_SEEING))
    groups, noun = int(np.median(k)), group_noun(result)
    rows = "row" if result.trajectories.order is None else "checkpoint"
    ways = []
    if groups < 2:
        now, times = int(result.pairs.drop_nulls("q")["n"].median() or 0), (visible / target) ** 2  # type: ignore[arg-type]
        if times > MOST_TIMES and rows == "checkpoint":
            return Sensitivity(smallest, "Checkpoints this dependent tell little, however many: add runs.")
        ways.append(f"{about(now * times)} {rows}s (now {now:,})")
    else:
        apart = float(np.median(width / quantile * np.sqrt(k)))
        more = np.arange(groups + 1, MOST_GROUPS + 1)
        enough = (special.stdtrit(more - 1, (1 + LEVEL) / 2) + POWER) * apart / np.sqrt(more) <= target
        ways += [f"{about(float(more[enough.argmax()]))} {noun}s (now {groups})"] if enough.any() else []
        # More rows in every group narrow only what is sampling error.
        between = float(result.heterogeneity["tau2"].median() or 0)  # type: ignore[arg-type]
        allowed = groups * (target / (special.stdtrit(groups - 1, (1 + LEVEL) / 2) + POWER)) ** 2 - between
        times = float((apart**2 - between) / allowed) if allowed > 0 else np.inf
        ways += [f"{about(times)} times as many {rows}s in each"] if 1 < times <= MOST_TIMES else []
    text = f"Seeing a correlation of {short(WORTH_SEEING)} takes about {', or '.join(ways)}." if ways else ""
    return Sensitivity(smallest, text)

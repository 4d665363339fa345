"""Does a gain on one test set go with a gain on another, after controlling for in-domain performance? The answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.intervals import to_z
from breadth.correlation.noise import TooSmall, find_too_small, unknown_noise_words
from breadth.correlation.panel import Floats
from breadth.correlation.partial import Flag, rows_needed
from breadth.correlation.units import FEWEST_UNITS, MODEL_COLUMNS, STRONGEST, noun_of_groups
from breadth.inference import LEVEL, NORMAL
from breadth.results import ALMOST_ALL, ALMOST_NONE, POWER, Answer, Verdict, about
from breadth.results.words import FINDING, count, joined

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

#: The correlation that data must be able to show before its absence says anything.
WORTH_SEEING = 0.3

#: Share of the pairs that must be known before anything is said of all.
LEAST_KNOWN = 0.5

#: Median correlation without a control from which test sets are said to rise together.
RISE_TOGETHER = 0.5

#: Findings that the verdict names.
MOST_NAMED = 3

#: Units below which the verdict says how many new ones may contradict those that were seen.
FEW_UNITS = 6

#: Most groups that are worth recommending, and most times as many rows.
MOST_GROUPS, MOST_TIMES = 1000, 20

#: Why pairs have no interval, for a sentence.
REASONS = {
    Flag.TOO_FEW_ROWS: "too few complete rows",
    Flag.CONSTANT_A: "a test set is constant",
    Flag.CONSTANT_B: "a test set is constant",
    Flag.CONSTANT_CONTROL: "the control is constant",
    Flag.CONTROL_EXPLAINS_A: "the control explains a test set fully",
    Flag.CONTROL_EXPLAINS_B: "the control explains a test set fully",
    Flag.IDENTICAL_RESIDUALS: "the residuals are identical",
    Flag.LOW_RELIABILITY: "a test set or the control is too small",
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


class Assessment(NamedTuple):
    """What the verdict rests on: counts of findings, pairs on which units contradict each other, what could be seen."""

    answer: Answer
    counts: Counts
    opposed: pl.DataFrame
    contradictory: int
    smallest: float
    needed: str


def assess(result: Correlation) -> Assessment:
    """Count findings and contradictions, and decide."""
    pooled = result.pooled
    counts = count_findings(pooled)
    opposed, contradictory = contradictions(result)
    seen = sensitivity(result) if counts.known else Sensitivity(1.0, "")
    found = counts.positive + counts.negative
    if counts.known < LEAST_KNOWN * pooled.height or not counts.known:
        answer = Answer.UNKNOWN
    elif counts.positive >= ALMOST_ALL * counts.known and opposed.height <= ALMOST_NONE * counts.known:
        answer = Answer.YES
    elif counts.negative >= ALMOST_ALL * counts.known and opposed.height <= ALMOST_NONE * counts.known:
        answer = Answer.NO
    elif max(found, contradictory) > ALMOST_NONE * counts.known:
        answer = Answer.DEPENDS
    elif seen.smallest <= WORTH_SEEING:
        answer = Answer.NO
    else:
        answer = Answer.UNKNOWN
    return Assessment(answer, counts, opposed, contradictory, seen.smallest, seen.needed)


def answer_of(result: Correlation) -> Answer:
    """The answer alone."""
    return assess(result).answer


def correlation_verdict(result: Correlation) -> Verdict:
    """Does a gain on one test set go with a gain on another, given the control?

    A *finding* is a row of ``pooled`` with q < 0.05: Benjamini and Hochberg (1995) over all pairs of the call. These
    are means over units (models where runs are their seeds, else runs), corrected for the noise of finite test sets
    where it is known. With one or two units, each counts on its own and the answer is about them alone. Units
    *contradict* each other on a pair if their own correlations (``by_unit``) are findings of both signs, or if they
    differ by Cochran's test (``q_differ`` < 0.05).

    - Yes: at least 90 % of pairs are positive findings, and units contradict each other in sign on at most 10 %.
    - No: at least 90 % are negative findings; or at most 10 % are findings, and a correlation of 0.3 would have been
      seen: the median pair would show it with a probability of 80 %.
    - It depends: more than 10 % are findings, or units contradict each other on more than 10 % of pairs.
    - Not enough data: otherwise, and where test sets are too small for half of the pairs. ``needed`` then says how many
      units, rows or items would show a correlation of 0.3.

    The probability is for a single test at 5 %. The false discovery rate asks for more where few pairs are correlated,
    but hardly more where most are, which is the case that the question is about.
    """
    if not result.pairs["ci_low"].is_not_null().any():
        return _nothing(result)
    given, small = result.given, find_too_small(result)
    assessment = assess(result)
    counts = assessment.counts
    unclear = assessment.answer is Answer.UNKNOWN and small.share >= LEAST_KNOWN
    if unclear or (counts.known < LEAST_KNOWN * result.pooled.height and small.names):
        return _too_small_verdict(result, small, assessment)
    if not counts.known:
        return _nothing(result)
    noun = result.units.noun
    pairs = f"{count(counts.known, 'pair')} of test sets{describe_scope(result)}"
    found = counts.positive + counts.negative
    needed = [unknown_noise_words(result, assessment.answer)]
    judged = result.pooled.drop_nulls("q")
    silent = [name for name in small.names if name not in {*judged["a"], *judged["b"]}]
    if silent:
        needed.append(f"Too small to say anything about: {joined(silent, 4)}. {small.needed}")
    if result.few_units:
        needed.append(f"It takes {FEWEST_UNITS} {noun}s or more to say what a new one would show.")
    elif found and result.by:
        needed.append(_few_units_words(result))
    opposed = None
    none = f"{found} of {pairs} {'is a finding' if found == 1 else 'are findings'} (q < {FINDING})"
    if assessment.answer is Answer.YES:
        reason = f"{given}, a gain on one test set goes with a gain on another: {counts.positive} of {pairs}."
    elif assessment.answer is Answer.NO and counts.negative >= ALMOST_ALL * counts.known:
        reason = f"{given}, a gain on one test set goes with a loss on another: {counts.negative} of {pairs}."
    elif assessment.answer is Answer.NO:
        reason = (
            f"{given}, a gain on one test set says almost nothing about another: {none}, although a correlation of "
            f"{short(assessment.smallest)} would have been seen."
        )
    elif assessment.answer is Answer.DEPENDS:
        reason = _mixed(result, assessment, pairs)
        opposed = assessment.opposed
    else:
        strong = f"only correlations of {short(assessment.smallest)} or more"
        if assessment.smallest >= 0.995:
            strong = "not even strong ones"
        reason = f"{given}, {none}, and {strong} would have been seen."
        needed.append(assessment.needed)
    findings = " ".join(line for line in (_raw_words(result), _name_findings(result, opposed)) if line)
    return Verdict(assessment.answer, reason, findings, " ".join(line for line in needed if line))


def _few_units_words(result: Correlation) -> str:
    """How many new units may contradict the few that were seen; empty where there are enough.

    If all of k units show one sign, the share of units with the other sign is below 1 - 0.05^(1/k) with 95 %
    confidence, whatever their distribution. No model of how units differ can know more: units of two kinds look alike
    in one study of four with three of them.
    """
    k = int(result.pooled["k"].max() or 0)  # type: ignore[arg-type]
    if not k or k >= FEW_UNITS:
        return ""
    noun, contradict = result.units.noun, 1 - (1 - LEVEL) ** (1 / k)
    return f"Even where all {count(k, noun)} agree, up to {contradict:.0%} of new {noun}s may show the opposite sign."


def _mixed(result: Correlation, assessment: Assessment, pairs: str) -> str:
    """Some pairs go together, or units contradict each other."""
    counts, noun, contradictory = assessment.counts, result.units.noun, assessment.contradictory
    if not counts.positive + counts.negative:
        total = count(counts.known, "pair")
        return f"{result.given}, {noun}s contradict each other on {contradictory} of {total}."
    reason = f"{result.given}, a gain on one test set goes with a gain on another for {counts.positive} of {pairs}"
    if counts.negative:
        reason += f" and with a loss for {counts.negative}"
    if contradictory:
        reason += f"; {noun}s contradict each other on {contradictory}"
    return f"{reason}."


def _too_small_verdict(result: Correlation, small: TooSmall, assessment: Assessment) -> Verdict:
    """Most of what is left of the scores is noise, so no correlation can be told from none."""
    signal = f"{small.signal:.0%}" if small.signal > 0.005 else "next to nothing"
    if result.settings.counts is None:
        share = f"{signal} of what is left of {joined(small.names, 4)} is signal; the rest is noise."
    else:
        share = f"what is left of {joined(small.names, 4)} may be noise for the most part."
    reason = f"the test sets are too small. {result.given[0].upper()}{result.given[1:]}, {share}"
    counts, rest = assessment.counts, ""
    if counts.positive + counts.negative:
        rest = (
            f"Of {count(counts.known, 'pair')} that could be judged, {counts.positive + counts.negative} are findings."
        )
    return Verdict(Answer.UNKNOWN, reason, " ".join(line for line in (_raw_words(result), rest) if line), small.needed)


def _raw_words(result: Correlation) -> str:
    """How test sets move together before anything is controlled for: that is true as well."""
    if not result.trajectories.controls or result.settings.adjust == "none":
        return ""
    raw = result.pairs["r_raw"].drop_nulls()
    if not raw.len():
        return ""
    middle = float(raw.median())  # type: ignore[arg-type]
    if middle < RISE_TOGETHER:
        return f"Without controlling for anything, the median correlation is {short(middle, sign=True)}."
    along = "rise and fall together"
    if result.trajectories.order is not None:
        along = "rise together as training goes on"
    return f"Without controlling for anything, the test sets {along} (median correlation {short(middle, sign=True)})."


def describe_scope(result: Correlation) -> str:
    """What the counted correlations are means over, and what they can be expected of."""
    units, groups = result.units, group_count(result)
    if not result.by:
        return ""
    number = len(units.names)
    if result.few_units:
        which = f"in this {units.noun}" if number == 1 else f"in {count(number, units.noun)}, each on its own"
        return f" {which}"
    if units.nested:
        return f" (mean over {count(number, units.noun)} with {groups} runs: what to expect of a new {units.noun})"
    models = [name for name in MODEL_COLUMNS if name in result.groups.columns]
    if models and result.groups[models[0]].n_unique() == 1 and units.noun == "run":
        return f" (mean over {count(groups, 'run')} of {result.groups[models[0]][0]}: another model may differ)"
    return f" (mean over {count(groups, units.noun)})" if groups > 1 else ""


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
    return noun_of_groups(result.by)


def group_count(result: Correlation) -> int:
    """Groups that have a correlation."""
    return result.pairs.drop_nulls("ci_low").select(result.by).n_unique() if result.by else 1


def short(r: float, sign: bool = False) -> str:
    """A correlation without its leading zero."""
    return f"{r:{'+' if sign else ''}.2f}".replace("0.", ".", 1).replace("-", "−")


def contradictions(result: Correlation) -> tuple[pl.DataFrame, int]:
    """Pairs on which units have findings of both signs (``low`` to ``high``); on how many pairs units contradict."""
    keys = [name for name in ("train_set", "a", "b") if name in result.pooled.columns]
    if not result.by:
        return result.pairs.select(*keys, low="r", high="r").clear(), 0
    found = result.by_unit.filter(pl.col("q") < FINDING).group_by(keys, maintain_order=True)
    opposed = found.agg(low=pl.col("r").min(), high=pl.col("r").max()).filter(
        (pl.col("low") < 0) & (pl.col("high") > 0)
    )
    differ = result.heterogeneity.filter(pl.col("q_differ") < FINDING).select(keys)
    return opposed, pl.concat([opposed.select(keys), differ]).n_unique()


def _name_findings(result: Correlation, opposed: pl.DataFrame | None = None) -> str:
    """The strongest findings with intervals, in how many units they have their sign, and how many hold in all.

    Then, of pairs on which units have findings of both signs, the one on which they are farthest apart.
    """
    noun, several = result.units.noun, bool(result.by) and not result.few_units
    pair = pl.format("{} and {}", "a", "b").alias("pair")
    if "train_set" in result.pooled.columns:
        pair = pl.format("{} and {} (trained on {})", "a", "b", "train_set").alias("pair")
    frame = result.heterogeneity.rename({"r_mean": "r"}) if several else result.pooled
    found = frame.filter(pl.col("q") < FINDING).sort(pl.col("r").abs(), descending=True, maintain_order=True)
    texts = []
    for row in found.head(MOST_NAMED).with_columns(pair).iter_rows(named=True):
        text = f"{row['pair']} {short(row['r'], sign=True)} ({short(row['ci_low'])} to {short(row['ci_high'])})"
        if several:
            agree = round(row["sign_agreement"] * row["k"])
            text += f" in all {count(agree, noun)}" if agree == row["k"] else f" in {agree} of {count(row['k'], noun)}"
        elif len(result.units.names) > 1:
            text += f" in {row['unit']}"
        texts.append(text)
    sentences = [f"Strongest: {'; '.join(texts)}."] if texts else []
    if several and found.height > 1:
        everywhere = found.filter(pl.col("sign_agreement") == 1).height
        sentences.append(f"{everywhere} of {count(found.height, 'finding')} have the same sign in every {noun}.")
    if opposed is not None and opposed.height:
        apart = opposed.sort(pl.col("high") - pl.col("low"), descending=True, maintain_order=True)
        row, ends = apart.with_columns(pair).row(0, named=True), []
        same = {name: row[name] for name in ("train_set", "a", "b") if name in row}
        for end in ("high", "low"):
            unit = result.by_unit.filter(pl.col("r") == row[end], **same)["unit"][0]
            ends.append(f"{short(row[end], sign=True)} in {unit}")
        sentences.append(f"{noun.capitalize()}s are farthest apart on {row['pair']}: {ends[0]}, {ends[1]}.")
    return " ".join(sentences)


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
    widths, k = _half_widths(known), known["k"].to_numpy()
    quantile = np.where(k > 1, special.stdtrit(np.maximum(k - 1, 1), (1 + LEVEL) / 2), NORMAL)
    smallest = float(np.tanh(np.median(widths.mean * (1 + POWER / quantile))))
    visible = float(np.median(widths.narrow * (1 + POWER / quantile)))
    target = float(np.arctanh(WORTH_SEEING))
    groups, noun = int(np.median(k)), result.units.noun
    if result.few_units:
        # Means over the runs of a unit, if it has several; the runs are what there can be more of.
        noun = group_noun(result)
    rows = "row" if result.trajectories.order is None else "checkpoint"
    ways = []
    if groups < 2:
        now, times = int(result.pairs.drop_nulls("q")["n"].median() or 0), (visible / target) ** 2  # type: ignore[arg-type]
        if times > MOST_TIMES and rows == "checkpoint":
            return Sensitivity(smallest, "Checkpoints this dependent tell little, however many: add runs.")
        ways.append(f"{about(now * times)} {rows}s (now {now:,})")
    else:
        apart = float(np.median(widths.narrow / quantile * np.sqrt(k)))
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

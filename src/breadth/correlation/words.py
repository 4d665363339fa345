"""A correlation analysis in words: the verdict, and the statistics behind it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from breadth.correlation.moderator_words import moderator_words
from breadth.correlation.noise import Doubt, TooSmall, deciding, doubt_noise, find_too_small
from breadth.correlation.partial import Flag, rows_needed
from breadth.correlation.units import FEWEST_UNITS, MODEL_COLUMNS
from breadth.correlation.unmeasured import unmeasured_words
from breadth.correlation.verdict import (
    LEAST_KNOWN,
    WORTH_SEEING,
    Assessment,
    Sensitivity,
    assess,
    count_findings,
    differing_pairs,
    group_noun,
    pair_keys,
    row_noun,
)
from breadth.inference import LEVEL
from breadth.results import ALMOST_ALL, Answer, Question, Verdict, about, as_many
from breadth.results.words import FINDING, correlation_text, count, joined

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

Facts = dict[str, float | str]

#: Median correlation without a control from which test sets are said to rise together.
RISE_TOGETHER = 0.5

#: Groups of test sets, and opposite pairs, that the verdict names: more are a wall of names, and stand in the table.
MOST_NAMED = 2

#: Test sets of a group that the verdict names.
MOST_MEMBERS = 5

#: Test sets with too few questions that the verdict names.
MOST_SMALL = 4

#: Units below which the verdict says how many new ones may contradict those that were seen.
FEW_UNITS = 6

#: A smallest visible correlation from which not even strong ones would be noticed.
BLIND = 0.995

#: A smallest visible correlation from which saying it tells nothing that "undecided" does not.
STRONG = 0.9

#: What to do where one test set does not speak for another.
REPORT_ALL = "Report every test set; do not use one as a stand-in for the others."

#: What to do where nothing is taken into account, so that scores rise together whatever the test sets measure.
NAME_CONTROL = (
    "Name the in-domain test set (the one most like the training data) as the control and ask again; "
    "until then, report every test set."
)

#: What questions of test sets that are too small for a correlation can be replaced by.
SINGLE_ANSWERS = "Per-question results may settle it."

#: Where the rest is found.
SEE_TABLE = "The table lists every pair."

#: Why pairs have no interval, for a sentence.
REASONS = {
    Flag.TOO_FEW_ROWS: "too few rows in which both were measured",
    Flag.CONSTANT_A: "a test set is constant",
    Flag.CONSTANT_B: "a test set is constant",
    Flag.CONSTANT_CONTROL: "the in-domain score is constant",
    Flag.CONTROL_EXPLAINS_A: "the in-domain score explains a test set fully",
    Flag.CONTROL_EXPLAINS_B: "the in-domain score explains a test set fully",
    Flag.IDENTICAL_RESIDUALS: "two test sets are the same up to scale",
    Flag.LOW_RELIABILITY: "a test set, or the in-domain one, has too few questions",
}


def correlation_verdict(result: Correlation) -> Verdict:
    """Can one shifted test set be read for the others, once in-domain performance is taken into account?

    How the answer is decided: :func:`breadth.correlation.verdict.assess`. Test sets of which every two are positive
    findings are named together.
    """
    if not result.pairs["ci_low"].is_not_null().any():
        return _nothing_computed(result)
    small, assessment = find_too_small(result), assess(result)
    counts, answer = assessment.counts, assessment.answer
    unclear = answer is Answer.UNKNOWN and small.share >= LEAST_KNOWN
    if unclear or (counts.known < LEAST_KNOWN * result.pooled.height and small.names):
        return _too_small_verdict(result, small, assessment)
    if not counts.known:
        return _nothing_computed(result)
    facts: Facts = {}
    divided = None
    if assessment.contradictory and answer is Answer.MIXED:
        divided = assessment.opposed
    found = _found_words(result, facts, divided)
    findings: list[str] = []
    opposite = counts.negative >= ALMOST_ALL * counts.known
    unproven = not result.control_name and counts.positive > 0
    if answer is Answer.UNKNOWN or (answer is Answer.NO and not opposite):
        unproven = False
        reason = _little_found(result, assessment, facts)
        if found:
            findings.append(f"The exceptions: {' '.join(found)}")
    else:
        if divided is not None:
            found.append(_disagreement(result, assessment, facts, first=not found))
        reason = _opened(result, found[0])
        findings += found[1:]
        if _more_found(result, facts, divided):
            findings.append(SEE_TABLE)
    if result.moderators.height:
        findings.append(moderator_words(result.moderators, result.moderator_means))
    if len(findings) < 2:
        findings.append(_raw_words(result, facts))
    advice = REPORT_ALL
    if answer is Answer.YES:
        advice = _stand_in(result)
    needed = ""
    if unproven:
        # Undecided pairs, and what another run might show, are of no interest before a control is named.
        reason = f"{reason.removesuffix('.')}, but this shows nothing yet: {_common_cause(result)}."
        advice = NAME_CONTROL
    else:
        doubt = doubt_noise(result, answer)
        if doubt.items is not None:
            facts["questions with which the answer would change"] = doubt.items
            # In front of everything else: at the end it would come as a surprise to whoever believed the rest. In one
            # sentence with the answer, because a card may have room for no more.
            reason = f"{doubt.text}{_continued(reason)}"
            advice = f"Enter the number of questions of each test set first. {advice}"
        needed = _open_questions(result, assessment, small, doubt, facts)
    return Verdict(
        answer,
        reason,
        " ".join(filter(None, findings)),
        needed,
        question=Question.SPEAKS_FOR,
        advice=advice,
        facts=facts,
    )


def _continued(sentence: str) -> str:
    """A sentence behind a clause: names that it begins with keep their letters."""
    for start in ("Once ", "No "):
        if sentence.startswith(start):
            return f"{start[0].lower()}{sentence[1:]}"
    return sentence


# What is taken into account


def once(result: Correlation) -> str:
    """What correlations are adjusted for, as the beginning of a sentence; empty without a control."""
    name = result.control_name
    if not name:
        return ""
    if len(result.trajectories.controls) > 1 and len(result.analyses) == 1:
        return f"Once {name} are taken into account"
    return f"Once {name} is taken into account"


def _opened(result: Correlation, sentence: str) -> str:
    """A sentence with what was taken into account in front of it."""
    start = once(result)
    if start:
        return f"{start}, {sentence}"
    return sentence


def _capitalised(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _move_together(result: Correlation) -> str:
    """What test sets do that are positively correlated: scores of checkpoints move, those of models do not."""
    if result.trajectories.order is None:
        return "go together"
    return "rise and fall together"


def _suggests(result: Correlation) -> str:
    """What better or worse is judged by, for a sentence about rows; empty without a control."""
    if not result.control_name:
        return ""
    controls = result.trajectories.controls
    if len(controls) == 1 and len(result.analyses) == 1:
        return f" than {controls[0]} suggests"
    return " than expected"


def _stand_in(result: Correlation) -> str:
    """What one test set may be read for, where it speaks for the others."""
    rows = f"{row_noun(result)}s"
    return (
        f"To see which {rows} do better{_suggests(result)}, one of these test sets is enough. "
        "By how much they do so, only each test set itself can tell."
    )


def _common_cause(result: Correlation) -> str:
    """Why all test sets may go together, though none speaks for another."""
    if result.trajectories.order is None:
        return f"good {row_noun(result)}s are good at everything"
    return "training improves everything"


# What was found


class Together(NamedTuple):
    """Test sets of which every two are positively correlated, or two that are negatively.

    ``lowest`` is the row of the pair that is correlated the least, and ``agree`` in how many units every pair of them
    has the sign of its mean. ``everywhere`` says that this is so in each of several units that are judged one by one.
    """

    names: tuple[str, ...]
    lowest: dict[str, Any]
    agree: int
    everywhere: bool = False

    def pairs(self) -> set[tuple[Any, ...]]:
        """Every two of them, with the training set or the unit that they are of."""
        where = (self.lowest.get("train_set"), self._unit)
        return {(*where, a, b) for a, b in combinations(self.names, 2)}

    def apart(self, other: Together) -> bool:
        """Whether no test set is in both groups, as far as both are of the same training set and unit."""
        if self.lowest.get("train_set") != other.lowest.get("train_set"):
            return True
        if None not in (self._unit, other._unit) and self._unit != other._unit:
            return True
        return not set(self.names) & set(other.names)

    @property
    def _unit(self) -> str | None:
        """The unit that this is of; None where it is of all of them."""
        if self.everywhere:
            return None
        return self.lowest.get("unit")


def find_groups(found: pl.DataFrame, order: Sequence[str]) -> list[Together]:
    """Test sets of which every two are among ``found``, positively correlated pairs of one analysis; largest first.

    From the strongest pair on, that test set joins which is correlated with all members, and most with the one with
    which it is correlated least. Those that are left make further groups: no test set is in two of them.
    """
    rows: dict[frozenset[str], dict[str, Any]] = {}
    for row in found.iter_rows(named=True):
        rows[frozenset((row["a"], row["b"]))] = row
    left = sorted(rows, key=lambda pair: -rows[pair]["r"])
    groups = []
    free = [name for name in order if any(name in pair for pair in left)]
    while left:
        members = set(left[0])
        while (joining := _closest(members, rows, free)) is not None:
            members.add(joining)
        used = []
        for pair, row in rows.items():
            if pair <= members:
                used.append(row)
        left = [pair for pair in left if not pair & members]
        free = [name for name in free if name not in members]
        names = tuple(name for name in order if name in members)
        lowest = min(used, key=lambda row: row["r"])
        groups.append(Together(names, lowest, min(map(_agreeing, used))))
    return sorted(groups, key=lambda group: (-len(group.names), -group.lowest["r"]))


def _closest(members: set[str], rows: dict[frozenset[str], dict[str, Any]], order: Sequence[str]) -> str | None:
    """The test set that is correlated with all members, and most with the one with which it is correlated least."""
    closest, most = None, 0.0
    for name in order:
        if name in members:
            continue
        weakest = 1.0
        for member in members:
            row = rows.get(frozenset((name, member)))
            if row is None:
                weakest = 0.0
                break
            weakest = min(weakest, row["r"])
        if weakest > most:
            closest, most = name, weakest
    return closest


def _agreeing(row: dict[str, Any]) -> int:
    """In how many units a pair has the sign of the mean."""
    runs, share = int(row["k"]), row.get("sign_agreement")
    if share is None:
        return runs
    return round(float(share) * runs)


def _found_pairs(result: Correlation) -> pl.DataFrame:
    """The findings."""
    frame = result.pooled
    if _over_units(result):
        frame = result.heterogeneity.rename({"r_mean": "r"})
    return frame.filter(pl.col("q") < FINDING)


def _named_groups(result: Correlation) -> list[Together]:
    """The groups that the verdict names: what all units share is said once, and no test set is in two groups."""
    positive = _found_pairs(result).filter(pl.col("r") > 0)
    order = result.trajectories.testsets
    parts = [positive]
    if "train_set" in positive.columns:
        parts = positive.partition_by("train_set", maintain_order=True)
    groups = []
    for part in parts:
        if "unit" not in part.columns or len(result.units.names) < 2:
            groups += find_groups(part, order)
            continue
        for group in find_groups(_in_every_unit(part, len(result.units.names)), order):
            groups.append(group._replace(everywhere=True))
        for alone in part.partition_by("unit", maintain_order=True):
            groups += find_groups(alone, order)
    groups.sort(key=lambda group: (not group.everywhere, -len(group.names), -group.lowest["r"]))
    named: list[Together] = []
    for group in groups:
        if len(named) < MOST_NAMED and all(group.apart(other) for other in named):
            named.append(group)
    return named


def _in_every_unit(found: pl.DataFrame, units: int) -> pl.DataFrame:
    """Pairs that are findings in each of the units; of every pair, the row of the unit where it is weakest."""
    weakest = found.sort("r", maintain_order=True).filter(pl.len().over("a", "b") == units)
    return weakest.unique(["a", "b"], keep="first", maintain_order=True)


def _named_opposites(result: Correlation, divided: pl.DataFrame | None) -> list[Together]:
    """The pairs that are correlated most negatively, without those of which it is said that units are divided."""
    rows = _found_pairs(result).filter(pl.col("r") < 0)
    if divided is not None:
        keys = pair_keys(result)
        rows = rows.join(divided.select(keys), on=keys, how="anti", maintain_order="left")
    named = []
    for row in rows.sort("r", maintain_order=True).head(MOST_NAMED).iter_rows(named=True):
        named.append(Together((row["a"], row["b"]), row, _agreeing(row)))
    return named


def _more_found(result: Correlation, facts: Facts, divided: pl.DataFrame | None) -> bool:
    """Whether there are findings that the verdict does not name."""
    named: set[tuple[Any, ...]] = set()
    for group in (*_named_groups(result), *_named_opposites(result, divided)):
        named |= group.pairs()
    more = 0
    for row in _found_pairs(result).iter_rows(named=True):
        where, pair = row.get("train_set"), (row["a"], row["b"])
        # What all units share is named without a unit.
        if not {(where, row.get("unit"), *pair), (where, None, *pair)} & named:
            more += 1
    if more:
        facts["more pairs that are findings"] = more
    return more > 0


def _found_words(result: Correlation, facts: Facts, divided: pl.DataFrame | None = None) -> list[str]:
    """Which test sets go together, and which go against each other; sentences that start with a name or a capital."""
    sentences = []
    groups = _named_groups(result)
    for place, group in enumerate(groups):
        names, evidence = _named(group.names, MOST_MEMBERS, facts), _evidence(result, group, place == 0, True, facts)
        text = f"{names} {_move_together(result)} ({evidence})."
        if place:
            text = f"Separately, {text}"
        sentences.append(text)
    opposite = _named_opposites(result, divided)
    if opposite:
        sentences.append(_opposite_words(result, opposite, not groups, facts))
    return sentences


def _opposite_words(result: Correlation, opposite: Sequence[Together], first: bool, facts: Facts) -> str:
    """Pairs of test sets of which models that do well on one do badly on the other."""
    names = joined(opposite[0].names)
    text = (
        f"{names} go against each other ({_evidence(result, opposite[0], True, first, facts)}): "
        f"{row_noun(result)}s that do better{_suggests(result)} on one do worse on the other."
    )
    others = []
    for pair in opposite[1:]:
        others.append(f"{joined(pair.names)} ({_evidence(result, pair, False, False, facts)})")
    if others:
        text += f" The same holds for {joined(others)}."
    return text


def _over_units(result: Correlation) -> bool:
    """Whether the rows that are judged are means over units."""
    return bool(result.by) and not result.few_units


def _named(names: Sequence[str], most: int, facts: Facts) -> str:
    """Some names, and how many there are beyond."""
    if len(names) > most:
        facts[f"more besides {', '.join(names[:most])}"] = len(names) - most
    return joined(names, most)


def _evidence(result: Correlation, group: Together, interval: bool, first: bool, facts: Facts) -> str:
    """The correlation of the pair that is correlated least, its interval, and where it was seen."""
    row = group.lowest
    number = correlation_text(row["r"], sign=True)
    where = _where(result, group, row, facts)
    lowest = ""
    if len(group.names) > 2:
        lowest = "lowest "
    if not interval:
        # What the first group said need not be said again.
        if "unit" not in row and "train_set" not in row:
            where = ""
        _remember(result, row, ("r",), facts)
        return ", ".join(filter(None, (f"{lowest}{number}", where)))
    ends = f"interval {correlation_text(row['ci_low'])} to {correlation_text(row['ci_high'])}"
    if first:
        ends = f"95% {ends}"
    _remember(result, row, ("r", "ci_low", "ci_high"), facts)
    return ", ".join(filter(None, (f"{lowest}correlation {number}", ends, where)))


def _remember(result: Correlation, row: dict[str, Any], columns: Sequence[str], facts: Facts) -> None:
    """Note numbers of means over a unit's runs, which stand in no table."""
    if result.few_units and result.units.nested:
        for name in columns:
            facts[f"{name} of {row['a']} and {row['b']} in {row['unit']}"] = round(row[name], 2)


def _where(result: Correlation, group: Together, row: dict[str, Any], facts: Facts) -> str:
    """In how many units, in which unit, or trained on what."""
    parts = []
    if "train_set" in row:
        parts.append(f"trained on {row['train_set']}")
    if group.everywhere:
        parts.append(f"in both {result.units.noun}s")
    elif "unit" in row:
        if len(result.units.names) > 1:
            parts.append(f"in {row['unit']}")
    elif _over_units(result):
        units = count(row["k"], result.units.noun)
        if group.agree < row["k"]:
            facts[f"{result.units.noun}s that agree on {row['a']} and {row['b']}"] = group.agree
            parts.append(f"in {group.agree} of {units}")
        else:
            parts.append(f"in all {units}")
    return ", ".join(parts)


def _disagreement(result: Correlation, assessment: Assessment, facts: Facts, first: bool) -> str:
    """On which pair units are farthest apart, where they are findings of opposite signs or surely differ."""
    keys = pair_keys(result)
    pairs = assessment.opposed.select(keys)
    if not pairs.height:
        pairs = differing_pairs(result)
    own = result.by_unit.join(pairs, on=keys, how="semi").drop_nulls("r")
    ends = own.group_by(keys, maintain_order=True).agg(
        low=pl.col("r").min(), high=pl.col("r").max(), least=pl.col("unit").sort_by("r").first(),
        most=pl.col("unit").sort_by("r").last(),
    )  # fmt: skip
    row = ends.sort(pl.col("high") - pl.col("low"), descending=True, maintain_order=True).row(0, named=True)
    pair = f"{row['a']} and {row['b']}"
    trained = ""
    if "train_set" in row:
        trained = f" (trained on {row['train_set']})"
    for end, unit in (("high", row["most"]), ("low", row["least"])):
        facts[f"correlation of {pair} in {unit}"] = round(row[end], 2)
    noun = f"{result.units.noun}s"
    if not (first and once(result)):
        noun = _capitalised(noun)
    where = f"{pair}{trained}"
    if assessment.contradictory > 1:
        facts["pairs on which they disagree"] = assessment.contradictory
        where = f"{count(assessment.contradictory, 'pair')}, most of all on {where}"
    extremes = (
        f"correlation {correlation_text(row['high'], sign=True)} in {row['most']}, "
        f"{correlation_text(row['low'], sign=True)} in {row['least']}"
    )
    return f"{noun} disagree on {where} ({extremes})."


def _little_found(result: Correlation, assessment: Assessment, facts: Facts) -> str:
    """No pair or hardly any is a finding: whether one would have been noticed."""
    counts, smallest = assessment.counts, assessment.seen.smallest
    who = "no two test sets"
    if counts.positive + counts.negative:
        who = "hardly any two test sets"
    if not once(result):
        who = _capitalised(who)
    noticed = correlation_text(smallest)
    if assessment.answer is Answer.NO:
        facts["smallest correlation that would have been noticed"] = round(smallest, 2)
        sentence = (
            f"{who} {_move_together(result)}, although a correlation of {noticed} would have been noticed: one says "
            "almost nothing about another."
        )
        return _opened(result, sentence)
    sentence = f"{who} clearly {_move_together(result)}, but "
    if smallest >= BLIND:
        sentence += "not even a strong correlation would have been noticed."
    else:
        facts["smallest correlation that would have been noticed"] = round(smallest, 2)
        sentence += f"a correlation below {noticed} may have been missed."
    return _opened(result, sentence)


def _raw_words(result: Correlation, facts: Facts) -> str:
    """How test sets move together before anything is taken into account, where they do: that is true as well."""
    if not result.control_name or result.trajectories.order is None:
        return ""
    raw = result.pairs["r_raw"].drop_nulls()
    middle = raw.median()
    if middle is None or float(middle) < RISE_TOGETHER:  # type: ignore[arg-type]
        return ""
    facts["median correlation before anything is taken into account"] = round(float(middle), 2)  # type: ignore[arg-type]
    number = correlation_text(float(middle), sign=True)  # type: ignore[arg-type]
    return f"Without that, all scores simply rise together as training goes on (median correlation {number})."


# What cannot be answered


def _open_questions(result: Correlation, assessment: Assessment, small: TooSmall, doubt: Doubt, facts: Facts) -> str:
    """What the answer leaves open, and what would be enough."""
    answer, noun = assessment.answer, result.units.noun
    found = assessment.counts.positive + assessment.counts.negative
    lines = []
    if answer in (Answer.YES, Answer.MIXED):
        lines.append(_undecided(result, assessment, facts))
    if doubt.items is None:
        lines.append(doubt.text)
    lines.append(_silent_words(result, small, facts))
    if result.few_units:
        facts[f"{noun}s that it takes"] = FEWEST_UNITS
        lines.append(f"To say what another {noun} would show takes {FEWEST_UNITS} {noun}s or more.")
    elif found and result.by:
        lines.append(_room_for_surprise(result, facts))
        lines.append(_one_model(result))
    if answer is Answer.UNKNOWN:
        lines.append(_enough(assessment.seen, facts))
    return " ".join(filter(None, lines))


def _silent_words(result: Correlation, small: TooSmall, facts: Facts) -> str:
    """Test sets that are too small to be judged, or too close to the control, and what would be enough."""
    judged = result.pooled.drop_nulls("q")
    named = {*judged["a"], *judged["b"]}
    silent = [name for name in small.names if name not in named]
    if not silent:
        return ""
    start = f"{_named(silent, MOST_SMALL, facts)} cannot be judged"
    limiting = [name for name in small.now if name in silent]
    if limiting or not small.now:
        return f"{start}: too few questions. {_questions_needed(small, facts)}".strip()
    it, tracks = "it", "tracks"
    if len(silent) > 1:
        it, tracks = "they", "track"
    parts = []
    for name, now in small.now.items():
        facts[f"questions in {name}"] = now
        need = "more than ten times as many"
        if name in small.enough:
            facts[f"questions in {name} that would be enough"] = _as_written(small.enough[name])
            need = f"about {about(small.enough[name])}"
        parts.append(f"{name} itself ({now:,} questions) would need {need}")
    text = f"{start}: {it} {tracks} {joined(list(small.now))} so closely that {joined(parts)}."
    if small.counted:
        text += f" {SINGLE_ANSWERS}"
    return text


def _undecided(result: Correlation, assessment: Assessment, facts: Facts) -> str:
    """Which pairs neither are findings nor divide the units."""
    keys = pair_keys(result)
    rows = result.pooled.filter(pl.col("q") >= FINDING)
    divided = assessment.opposed.select(keys)
    if result.by:
        divided = pl.concat([divided, differing_pairs(result)])
    rows = rows.join(divided, on=keys, how="anti", maintain_order="left")
    if not rows.height:
        return ""
    if rows.height <= 2 and "unit" not in rows.columns:
        names = [f"{a} and {b}" for a, b in rows.select("a", "b").iter_rows()]
        return f"Undecided: {'; '.join(names)}."
    facts["undecided pairs"] = rows.height
    text = f"{count(rows.height, 'pair is', 'pairs are')} undecided"
    if assessment.seen.smallest >= STRONG:
        return f"{text}."
    facts["smallest correlation that would have been noticed"] = round(assessment.seen.smallest, 2)
    return f"{text}: correlations below {correlation_text(assessment.seen.smallest)} may have been missed."


def _room_for_surprise(result: Correlation, facts: Facts) -> str:
    """How many new units may contradict the few that were seen; empty where there are enough.

    If all of k units show one sign, the share of units with the other sign is below 1 - 0.05^(1/k) with 95 %
    confidence, whatever their distribution. No model of how units differ can know more: units of two kinds look alike
    in one study of four with three of them.
    """
    k = int(result.pooled["k"].max() or 0)  # type: ignore[arg-type]
    if not k or k >= FEW_UNITS:
        return ""
    noun, contradict = result.units.noun, round(100 * (1 - (1 - LEVEL) ** (1 / k)))
    facts[f"of 100 further {noun}s, how many may go the other way"] = contradict
    facts[f"{noun}s"] = k
    facts["further"] = 100
    return f"With only {count(k, noun)}, up to {contradict} of 100 further ones could still go the other way."


def _one_model(result: Correlation) -> str:
    """Whether all runs are of one model, of which alone the answer then is."""
    if result.units.noun != "run":
        return ""
    for name in MODEL_COLUMNS:
        if name in result.groups.columns:
            models = result.groups[name].unique()
            return f"All runs are of {models[0]}; another model may differ." if len(models) == 1 else ""
    return ""


def _enough(seen: Sensitivity, facts: Facts) -> str:
    """What it would take to notice a correlation that is worth seeing."""
    if seen.dependent:
        return "More checkpoints would tell little, as neighbouring ones are alike; more runs would."
    ways = []
    if seen.enough is not None:
        facts[f"{seen.noun}s that would be enough"] = _as_written(seen.enough)
        facts[f"{seen.noun}s now"] = seen.now
        ways.append(f"about {about(seen.enough)} {seen.noun}s (now {seen.now:,})")
    if seen.times is not None:
        facts["times as many checkpoints that would be enough"] = _as_written(seen.times)
        ways.append(as_many(seen.times, "checkpoints in each"))
    if not ways:
        return ""
    facts["correlation worth noticing"] = WORTH_SEEING
    return f"To notice a correlation of {correlation_text(WORTH_SEEING)} takes {', or '.join(ways)}."


def _as_written(number: float) -> float:
    """A number that is not known exactly, rounded as a sentence does."""
    return float(about(number).replace(",", ""))


def _questions_needed(small: TooSmall, facts: Facts) -> str:
    """How many questions would be enough, where test sets have too few and a number can be named."""
    names = []
    for name, now in small.now.items():
        facts[f"questions in {name}"] = now
    for name, questions in small.enough.items():
        facts[f"questions in {name} that would be enough"] = _as_written(questions)
        names.append(f"{about(questions)} questions in {name} (now {small.now[name]:,})")
    if not names:
        return ""
    return f"About {_named(names, MOST_SMALL, facts)} would be enough."


def _small_advice(small: TooSmall) -> str:
    """What to do where test sets have too few questions."""
    advice = REPORT_ALL
    if small.counted:
        advice = "Use per-question results if you have them; if not, report every test set."
    if small.now and not small.enough:
        advice = f"You cannot fix this by adding questions (more than ten times as many are needed). {advice}"
    return advice


def _too_small_verdict(result: Correlation, small: TooSmall, assessment: Assessment) -> Verdict:
    """Most of what is left of the scores is noise, so no correlation can be told from none."""
    facts: Facts = {}
    controls = [name for name in small.names if name in result.trajectories.controls]
    testsets = [name for name in small.names if name not in controls]
    if testsets:
        differ = f"{row_noun(result)}s differ on {_named(testsets, MOST_SMALL, facts)} mostly by chance"
        reason = f"The test sets have too few questions: {differ}."
        if result.control_name:
            reason = f"The test sets have too few questions: o{once(result)[1:]}, {differ}."
    elif len(controls) > 1:
        reason = f"{_named(controls, MOST_SMALL, facts)} have too few questions to take them into account."
    else:
        reason = f"{controls[0]} has too few questions to take it into account."
    findings = []
    counts = assessment.counts
    if counts.positive + counts.negative:
        findings.append(f"Of those that could be judged, {' '.join(_found_words(result, facts))}")
    if result.moderators.height:
        findings.append(moderator_words(result.moderators, result.moderator_means))
    if len(findings) < 2:
        findings.append(_raw_words(result, facts))
    return Verdict(
        Answer.UNKNOWN,
        reason,
        " ".join(filter(None, findings)),
        _questions_needed(small, facts),
        question=Question.SPEAKS_FOR,
        advice=_small_advice(small),
        facts=facts,
    )


def why_not_computed(pairs: pl.DataFrame) -> str:
    """Why pairs have no interval, the commonest reason first, with the number of pairs if there are several reasons."""
    flags = pairs.filter(pl.col("ci_low").is_null())["flag"].replace_strict(REASONS, default=None).drop_nulls()
    numbers = flags.value_counts().sort(["count", "flag"], descending=[True, False])
    if numbers.height == 1:
        return str(numbers["flag"].item())
    return ", ".join(f"{reason} ({count(number, 'pair')})" for reason, number in numbers.iter_rows())


def _nothing_computed(result: Correlation) -> Verdict:
    """No pair has an interval: why, and how many rows are needed if they are too few."""
    facts: Facts = {}
    needed = ""
    if (result.pairs["flag"] == Flag.TOO_FEW_ROWS).any():
        least = rows_needed(result.settings.adjust, len(result.trajectories.controls))
        facts[f"{row_noun(result)}s that it takes"] = least
        needed = f"It takes at least {least} {row_noun(result)}s."
        if result.by:
            needed = f"It takes at least {least} {row_noun(result)}s in a {group_noun(result)}."
    for number, reason in result.pairs["flag"].value_counts().select("count", "flag").iter_rows():
        facts[f"pairs with {reason}"] = number
    reason = f"No two test sets can be compared: {why_not_computed(result.pairs)}."
    return Verdict(
        Answer.UNKNOWN,
        reason,
        needed=needed,
        computed=False,
        question=Question.SPEAKS_FOR,
        advice=REPORT_ALL,
        facts=facts,
    )


# The statistics behind the verdict


def correlation_details(result: Correlation) -> str:
    """How correlations were computed, how many are findings, how much units differ, and what changed in training."""
    pairs, windows, by = deciding(result.pairs), deciding(result.windows), result.by
    counts, noun = count_findings(pairs), result.units.noun
    if not counts.known:
        return "The column note has the reason for every pair."
    each = ""
    if by:
        each = f" in single {group_noun(result)}s"
    parts = [
        f"Correlations between test sets {result.given}; a finding has q < {FINDING} (false discovery rate over all "
        f"pairs). Correlations{each}: {counts.positive} positive findings, {counts.negative} negative, "
        f"{counts.undecided} undecided."
    ]
    if counts.unknown:
        parts.append(f"{count(counts.unknown, 'pair')} could not be computed: {why_not_computed(pairs)}.")
    if result.corrected:
        shares = result.pairs.select("reliability_a", "reliability_b").to_numpy()
        middle = float(np.median(np.clip(shares[~np.isnan(shares)], 0, 1)))
        left = "how a score varies"
        if result.control_name:
            left = "what the control leaves of a score"
        parts.append(
            f"They are corrected for the noise of finite test sets: of {left}, {middle:.0%} is signal (median)."
        )
    if result.trajectories.turned:
        parts.append(f"Lower is better on {joined(result.trajectories.turned, 6)}: its sign is reversed here.")
    if "r_plain" in pairs.columns:
        parts.append(_robust_words(pairs))
    if by:
        parts.append(_heterogeneity_words(result, noun))
    if windows.height:
        parts.append(_change_words(result))
    text = " ".join(filter(None, parts))
    return "\n\n".join(filter(None, (text, unmeasured_words(result.unmeasured))))


def _heterogeneity_words(result: Correlation, noun: str) -> str:
    """How much units differ, and for how many pairs the sign in a new one can be predicted."""
    several = result.heterogeneity.filter(pl.col("k") > 1).drop_nulls("r_mean")
    if not several.height:
        return ""
    i2 = float(several["i2"].median() or 0)  # type: ignore[arg-type]
    differ = int((several["q_differ"] < FINDING).sum())
    text = (
        f"In the median pair, {i2:.0%} of the variation between {noun}s exceeds sampling error (I2); {differ} of "
        f"{count(several.height, 'pair')} differ between {noun}s (Cochran's test)."
    )
    predicted = several.drop_nulls("predict_low")
    if predicted.height:
        same = int(((predicted["predict_low"] > 0) | (predicted["predict_high"] < 0)).sum())
        text += f" The sign in a new {noun} can be predicted for {same} of them (95% prediction interval)."
    return text


def _change_words(result: Correlation) -> str:
    """How many correlations changed from the first part of training to the last, and which most clearly."""
    changes = result.changes.drop_nulls("p")
    if not changes.height:
        return "The first and the last part of training have too few rows to compare them."
    found = changes.filter(pl.col("q") < FINDING).sort("p", maintain_order=True)
    text = (
        f"From the first part of training to the last, {found.height} of {count(changes.height, 'correlation')} "
        "changed (false discovery rate 5%)."
    )
    if found.height:
        row = found.row(0, named=True)
        where = ""
        if "unit" in row:
            where = f" in {row['unit']}"
        ends = f"from {correlation_text(row['early'], sign=True)} to {correlation_text(row['late'], sign=True)}"
        text += f" Clearest: {row['a']} and {row['b']}{where}, {ends}."
    return text


def _robust_words(pairs: pl.DataFrame) -> str:
    """On how many pairs the robust and the plain correlation disagree, and on which most."""
    known = pairs.drop_nulls(["ci_low", "ci_low_plain"])
    robust, plain = (
        (pl.col(f"ci_low{end}") > 0).cast(pl.Int8) - (pl.col(f"ci_high{end}") < 0).cast(pl.Int8)
        for end in ("", "_plain")
    )
    outside = ~pl.col("r_plain").is_between("ci_low", "ci_high")
    disputed = known.filter((robust != plain) | outside)
    start = "Outliers count little here (robust correlations); "
    if not disputed.height:
        return f"{start}the plain ones say the same."
    # The two that are farthest apart.
    row = disputed.sort((pl.col("r") - pl.col("r_plain")).abs(), descending=True).row(0, named=True)
    text = (
        f"{start}the plain ones disagree on {count(disputed.height, 'pair')} of {known.height}, most of all on "
        f"{row['a']} and {row['b']} ({correlation_text(row['r'], sign=True)} robust, "
        f"{correlation_text(row['r_plain'], sign=True)} plain)."
    )
    if rest := known.filter(outside).height:
        text += f" On {count(rest, 'pair')}, a few rows decide the plain correlation: look at `residuals` for them."
    return text

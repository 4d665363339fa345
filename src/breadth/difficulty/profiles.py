"""``profile``: how accurate subjects are at every level of difficulty, and where two of them differ."""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.errors import InputError, did_you_mean, listed
from breadth.inference import LEVEL, Floats, benjamini_hochberg
from breadth.irt import (
    ABOUT_EQUAL,
    DEFAULT_LEVELS,
    PARTS,
    Calibration,
    accuracy_by_level,
    accuracy_by_level_figure,
    evenly,
    level_name,
    numbers,
)
from breadth.records import Study
from breadth.results import (
    ALMOST_ALL,
    Answer,
    Column,
    Columns,
    Question,
    Result,
    Shown,
    State,
    Verdict,
    about,
    as_chart,
    times_more,
)
from breadth.results.words import FINDING, amount_text, bracketed, capitalised, count, interval_words, joined
from breadth.sources import Table, open_study

if TYPE_CHECKING:
    import altair as alt

#: Decimals in which abilities must differ for subjects to be ranked by them rather than by name.
ABILITY_DIGITS = 6

#: Subjects that are compared with each other: with more, the table of differences is too long to read.
MOST_COMPARED = 12


LEVELS = Columns(
    Column("subject", header="model", priority=1, meaning="the model, or the checkpoint of a run"),
    Column("level", format="d", priority=1, meaning="level of difficulty; 0 is the easiest"),
    Column("n", header="questions", format=",d", priority=2, meaning="questions of the level that it answered"),
    Column("accuracy", header="% right", format="percent", priority=1, meaning="share of its answers that are right"),
    Column("ci_low", "ci_high", format="percent", priority=2, meaning="95% interval of the accuracy"),
    Column(
        "expected",
        header="% expected",
        format="percent",
        priority=3,
        meaning="accuracy that its ability on the difficulty scale leads to expect",
    ),
)
DIFFERENCES = Columns(
    Column("subject_1", header="model", priority=2, meaning="the first of two models"),
    Column("subject_2", header="minus", priority=2, meaning="the second of them"),
    Column("level", format="d", priority=1, meaning="level of difficulty, 0 is the easiest; empty for all questions"),
    Column("n", header="questions", format=",d", priority=3, meaning="questions that both answered"),
    Column(
        "difference",
        header="points",
        format="points",
        priority=1,
        meaning="points of accuracy by which the first is ahead",
    ),
    Column("ci_low", "ci_high", format="points", priority=1, meaning="95% interval of the difference"),
    Column("se", header="error", format="points", priority=4, meaning="standard error of the difference"),
    Column("p", format="p", priority=4, meaning="p-value of the difference"),
    Column("q", format="p", priority=3, meaning="p-value that allows for all pairs and levels"),
    Column("share", header="share of the whole", format="share", priority=3, meaning="part of the whole difference"),
)

#: What is said of two models that differ clearly on the levels named.
EVERYWHERE, HARD, EASY = "On every level", "On hard questions", "On easy questions"
NOT_EASIEST, NOT_HARDEST = "On all but the easiest questions", "On all but the hardest questions"
SOME, BOTH, OVERALL, NOWHERE = "On some levels", "Both ways", "Overall only", "Nowhere"

#: Places that are an answer, where others only say that it depends on the level.
CLEAR_PLACES = (EVERYWHERE, HARD, EASY, NOT_EASIEST, NOT_HARDEST)

#: How many parts are easier (or harder) than a part, as its name says it.
RANKS = ("", "second ", "third ", "fourth ", "fifth ")

#: Pairs of models that a verdict names.
MOST_PAIRS = 3


@dataclass(frozen=True, repr=False)
class Profile(Result):
    """Accuracy by level, and differences between every two of the chosen subjects.

    ``levels``: ``subject, level, n, accuracy, ci_low, ci_high, expected``. ``differences``: ``subject_1, subject_2,
    level, n, difference, se, ci_low, ci_high, p, q, share``, where a null level is all items and ``share`` is the part
    of the whole difference that comes from the level. There is no interval for a single item, or where all items
    differ by the same.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"levels": LEVELS, "differences": DIFFERENCES}

    levels: pl.DataFrame
    differences: pl.DataFrame
    warnings: tuple[str, ...] = ()
    #: What is compared: models, or checkpoints of training runs.
    noun: str = "model"

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Accuracy by level, and the differences."""
        return {"levels": self.levels, "differences": self.differences}

    def verdict(self) -> Verdict | None:
        """Where do models differ: on easy or on hard questions? None for a single model.

        A difference, over all questions or on a level, is a finding if q < 0.05 over the whole frame. The answer is a
        place: hard questions, if models differ on the hardest level and not on the easiest; easy ones, if the reverse;
        every level; both ways, if one is ahead on some levels and behind on others. Of several pairs of models, the
        levels on which at least half of those that differ at all do. Nowhere: no finding, and the median pair would
        have shown a difference of 5 points with a probability of 80 %. Not enough data: the same, if it would not.
        """
        if not self.differences.height:
            return None
        parts = self.differences.partition_by("subject_1", "subject_2", maintain_order=True)
        pairs = [_Pair.of(part) for part in parts]
        differ = [pair for pair in pairs if pair.place != NOWHERE]
        if not differ:
            return self._none_differ(pairs)
        if len(pairs) == 1:
            pair = pairs[0]
            state = State.MIXED
            if pair.place in CLEAR_PLACES or (pair.place == SOME and pair.whole_is_clear):
                state = State.YES
            facts: dict[str, float | str] = {"questions": pair.questions}
            return Verdict(
                pair.place, pair.sentence(), pair.overall(), question=Question.PROFILE, advice=pair.advice(),
                state=state, facts=facts,
            )  # fmt: skip
        return self._several(pairs, differ)

    def _several(self, pairs: Sequence[_Pair], differ: Sequence[_Pair]) -> Verdict:
        """The verdict on several pairs, some of which differ: where most do, and the largest difference."""
        names = {name for pair in pairs for name in (pair.first, pair.second)}
        facts: dict[str, float | str] = {
            f"{self.noun}s": len(names),
            "pairs": len(pairs),
            "pairs that differ": len(differ),
        }
        number = dict.fromkeys(pairs[0].sizes, 0)
        for pair in differ:
            for level in pair.clear:
                number[level] = number.get(level, 0) + 1
        common = [level for level, count_of in number.items() if 2 * count_of >= len(differ)]
        place = _place(common, list(number))
        largest = max(differ, key=lambda pair: abs(pair.largest["difference"]))
        where = place[:1].lower() + place[1:]
        every = self.levels["subject"].n_unique()
        who = f"these {len(names)} {self.noun}s"
        if every > len(names):
            facts[f"all {self.noun}s"] = every
            who = f"the {len(names)} of {every} {self.noun}s that were compared"
        reason = f"{capitalised(who)} differ {where}: {largest.ahead()}."
        if not common:
            place, reason = SOME, f"No level stands out on which {who} differ. {capitalised(largest.ahead())}."
        sentences = []
        if len(differ) == len(pairs):
            sentences.append(f"All {len(pairs)} pairs differ clearly.")
        else:
            alike = [f"{pair.first} and {pair.second}" for pair in pairs if pair.place == NOWHERE]
            facts["other pairs alike"] = len(alike) - MOST_PAIRS
            verb = "differs" if len(differ) == 1 else "differ"
            named = ", ".join(alike[:MOST_PAIRS])
            if len(alike) > MOST_PAIRS:
                named = f"for example {named}"
            sentences.append(f"{len(differ)} of {len(pairs)} pairs {verb} clearly; no clear difference: {named}.")
        crossing = [pair for pair in differ if pair.place == BOTH]
        if crossing:
            facts["pairs that differ both ways"] = len(crossing)
            verb = "crosses" if len(crossing) == 1 else "cross"
            sentences.append(f"{count(len(crossing), 'pair')} {verb}: {crossing[0].sentence(level=False)}")
        most = len(differ) >= ALMOST_ALL * len(pairs) and place in CLEAR_PLACES
        state = State.YES if most and not crossing else State.MIXED
        advice = "Choose by the level that is like your own questions: the table of differences has every pair."
        return Verdict(
            place, reason, " ".join(sentences), question=Question.PROFILE, advice=advice, state=state, facts=facts
        )

    def _none_differ(self, pairs: Sequence[_Pair]) -> Verdict:
        """The verdict where no difference is clear: is that for want of questions?"""
        who = f"These {self.noun}s do not clearly differ"
        if len(pairs) == 1:
            who = f"{pairs[0].first} and {pairs[0].second} do not clearly differ"
        facts: dict[str, float | str] = {"worth seeing": 5, "questions": pairs[0].questions}
        advice = "Choose by cost, or by another test set."
        error = self.differences.filter(pl.col("level").is_null())["se"].median()
        if error is None:
            return Verdict(
                NOWHERE, f"{who}, on any level or overall.", question=Question.PROFILE, advice=advice, state=State.NO,
                facts=facts,
            )  # fmt: skip
        times = times_more(float(error))  # type: ignore[arg-type]
        if times <= 1:
            reason = f"{who}, on any level or overall, although a difference of 5 points overall would have been seen."
            return Verdict(NOWHERE, reason, question=Question.PROFILE, advice=advice, state=State.NO, facts=facts)
        facts["questions needed"] = about(times * pairs[0].questions)
        needed = (
            f"About {facts['questions needed']} questions would show a difference of 5 points overall; there are "
            f"{pairs[0].questions:,}."
        )
        reason = f"{who}, on any level or overall."
        advice = "Do not choose between them by these questions."
        return Verdict(Answer.UNKNOWN, reason, needed=needed, question=Question.PROFILE, advice=advice, facts=facts)

    def shown(self) -> Sequence[Shown]:
        """A row per model and a column per level; of two models also their differences."""
        title = "% right by level of difficulty, 0 is the easiest"
        tables = [_by_level(self.levels, title)]
        if self.levels["subject"].n_unique() == 2 and self.differences.height:
            first, second = self.differences.select("subject_1", "subject_2").row(0)
            words = pl.col("level").cast(pl.String).fill_null("all").alias("level")
            columns = DIFFERENCES.without("subject_1", "subject_2")
            frame = self.differences.with_columns(words)
            tables.append(Shown(f"{first} minus {second}, in points of accuracy", frame, _as_names(columns, "level")))
        return tables

    def details(self) -> str:
        """How accuracies and differences were computed."""
        return (
            "Intervals of accuracies are Wilson's. Differences are paired by question, with t intervals; one is clear "
            f"where q < {FINDING} over all pairs and levels (Benjamini and Hochberg)."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Accuracy by difficulty, a colour per subject."""
        return as_chart(accuracy_by_level_figure(self.levels, "levels"), tables={"levels": self.levels})


def _by_level(levels: pl.DataFrame, title: str) -> Shown:
    """A row per model, a column per level: accuracy, and half the width of its interval."""
    names = [str(level) for level in levels["level"].unique().sort()]
    wide: dict[str, dict[str, Any]] = {}
    for row in levels.iter_rows(named=True):
        cells = wide.setdefault(row["subject"], {"subject": row["subject"]})
        cells[str(row["level"])] = row["accuracy"]
        if row["ci_low"] is not None:
            cells[f"± {row['level']}"] = (row["ci_high"] - row["ci_low"]) / 2
    schema = {"subject": pl.String}
    columns = [Column("subject", header="model", priority=1, meaning="the model, or the checkpoint of a run")]
    for name in names:
        schema |= {name: pl.Float64, f"± {name}": pl.Float64}  # type: ignore[dict-item]
        meaning = f"share of the questions of level {name} that it gets right"
        columns.append(Column(name, format="percent0", margin=f"± {name}", meaning=meaning))
    frame = pl.DataFrame(list(wide.values()), schema=schema)
    return Shown(title, frame, Columns(*columns), note="± is half of the 95% interval.")


def _as_names(columns: Columns, name: str) -> Columns:
    """Columns of which one holds words instead of numbers."""
    return Columns(*(replace(column, format="name") if column.name == name else column for column in columns))


def _part_name(level: int, sizes: Mapping[int, int]) -> str:
    """A level as the part of all questions that it is: test sets have levels of their own, such as MATH level 5.

    >>> [_part_name(k, dict.fromkeys(range(5), 40)) for k in (0, 1, 2, 4)]
    ['the easiest fifth', 'the second easiest fifth', 'the middle fifth', 'the hardest fifth']
    """
    ordered = sorted(sizes)
    equal = sum(sizes.values()) / len(ordered)
    alike = all(abs(size - equal) <= ABOUT_EQUAL * equal for size in sizes.values())
    if len(ordered) not in PARTS or not alike:
        return level_name(level, sizes)
    place = ordered.index(level)
    from_end = len(ordered) - 1 - place
    if place == from_end:
        return f"the middle {PARTS[len(ordered)]}"
    end, rank = ("easiest", place) if place < from_end else ("hardest", from_end)
    return f"the {RANKS[rank]}{end} {PARTS[len(ordered)]}"


class _Pair(NamedTuple):
    """Two models: their whole difference, that on every level, those levels on which it is clear, and their sizes."""

    first: str
    second: str
    whole: Mapping[str, Any]
    levels: Mapping[int, Mapping[str, Any]]
    clear: Mapping[int, Mapping[str, Any]]
    sizes: Mapping[int, int]
    whole_is_clear: bool

    @classmethod
    def of(cls, rows: pl.DataFrame) -> _Pair:
        """From the differences of the two: the first row is that of all questions."""
        whole: Mapping[str, Any] = {}
        levels, clear, sizes = {}, {}, {}
        for row in rows.iter_rows(named=True):
            found = row["q"] is not None and row["q"] < FINDING
            if row["level"] is None:
                whole, whole_is_clear = row, found
                continue
            sizes[row["level"]] = row["n"]
            levels[row["level"]] = row
            if found:
                clear[row["level"]] = row
        return cls(whole["subject_1"], whole["subject_2"], whole, levels, clear, sizes, whole_is_clear)

    @property
    def questions(self) -> int:
        """Questions that both answered."""
        return int(self.whole["n"])

    @property
    def place(self) -> str:
        """Where the two differ."""
        signs = {row["difference"] > 0 for row in self.clear.values()}
        if len(signs) == 2:
            return BOTH
        if signs:
            return _place(list(self.clear), list(self.sizes))
        return OVERALL if self.whole_is_clear else NOWHERE

    @property
    def largest(self) -> Mapping[str, Any]:
        """The largest difference on a level that is clear, else the whole one."""
        if not self.clear:
            return self.whole
        return max(self.clear.values(), key=lambda row: abs(row["difference"]))

    def _who(self, row: Mapping[str, Any]) -> tuple[str, str, int]:
        """The one that is ahead, the other, and the sign that makes the difference positive."""
        if row["difference"] >= 0:
            return self.first, self.second, 1
        return self.second, self.first, -1

    def _by(self, row: Mapping[str, Any], level: bool = False) -> str:
        sign = 1 if row["difference"] >= 0 else -1
        within = interval_words(row["ci_low"], row["ci_high"], level=level, sign=sign)
        return amount_text(row["difference"]) + bracketed(within)

    def ahead(self) -> str:
        """Who is ahead of whom, by how much and where, as a part of a sentence."""
        row = self.largest
        leader, other, _ = self._who(row)
        where = "over all questions" if row["level"] is None else f"on {self._part(row['level'])}"
        return f"{leader} is ahead of {other} by {self._by(row, level=True)} {where}"

    def sentence(self, level: bool = True) -> str:
        """Where the two differ, with the largest difference; ``level`` says which interval it is."""
        row, place = self.largest, self.place
        leader, other, _ = self._who(row)
        if place == OVERALL:
            return f"{self.ahead()}, but on no single level clearly."
        if place == BOTH:
            return self._crossing(row, level)
        at = f"{self._by(row, level)} on {self._part(row['level'])}"
        if at.endswith(tuple(PARTS.values())):
            at += " of the questions"
        if place == EVERYWHERE:
            return f"{leader} is ahead of {other} on every level, most of all by {at}."
        if len(self.clear) == 1:
            return f"{leader} is ahead of {other} by {at}. {self._open_words(leader)}"
        where = place[:1].lower() + place[1:]
        return f"{leader} is ahead of {other} {where}, most of all by {at}. {self._open_words(leader)}"

    def _part(self, level: int) -> str:
        return _part_name(level, self.sizes)

    def _open(self) -> list[int]:
        """Levels on which no difference is clear."""
        return [level for level in self.sizes if level not in self.clear]

    def _open_words(self, leader: str) -> str:
        """On which levels the data cannot tell who is better, and by how much the leader may be behind or ahead."""
        levels = self._open()
        text = f"On {joined([self._part(level) for level in levels], 4)} these questions do not show which is better"
        within = self._either_way(self.levels[levels[0]], leader)
        if len(levels) == 1 and within:
            text += f": {leader} may be {within}"
        return f"{text}."

    def _either_way(self, row: Mapping[str, Any], leader: str) -> str:
        """The interval of a difference that may go either way, as in "from 3 points behind to 9 ahead"."""
        if row["ci_low"] is None:
            return ""
        sign = 1 if leader == self.first else -1
        low, high = sorted((sign * row["ci_low"], sign * row["ci_high"]))
        if low < 0 < high:
            return f"anywhere from {amount_text(low)} behind to {100 * high:.0f} ahead"
        # Alone it would be clear; it is not with all levels allowed for.
        return ""

    def advice(self) -> str:
        """Which of the two to use, and for which questions."""
        if self.place == BOTH:
            parts = []
            for name, sign in ((self.first, 1), (self.second, -1)):
                levels = [level for level, row in self.clear.items() if sign * row["difference"] > 0]
                parts.append(f"{name} on {joined([self._part(level) for level in levels], 4)}")
            return f"Choose by how hard your questions are: {' and '.join(parts)}."
        leader, _, _ = self._who(self.largest)
        open_ = [self._part(level) for level in self._open()]
        if not open_:
            return f"Choose {leader}, however hard your questions are."
        if self.place == OVERALL:
            return f"Choose {leader}; on which questions it is better takes more of them to tell."
        if not self.whole_is_clear:
            these = joined([self._part(level) for level in self.clear], 4)
            return f"Choose {leader} for questions like {these}; over all questions ask more of them first."
        these = joined(open_, 4)
        return f"Choose {leader}. If only questions like {these} matter to you, ask more of these first."

    def _crossing(self, row: Mapping[str, Any], level: bool) -> str:
        """One is ahead on some levels and behind on others: the largest difference of each kind."""
        leader, other, sign = self._who(row)
        back = [one for one in self.clear.values() if sign * one["difference"] < 0]
        behind = max(back, key=lambda one: abs(one["difference"]))
        return (
            f"{leader} is ahead of {other} by {self._by(row, level)} on {self._part(row['level'])}, but "
            f"behind by {self._by(behind)} on {self._part(behind['level'])}."
        )

    def overall(self) -> str:
        """How the two differ over all questions, where that is not all that was said."""
        if not self.clear:
            return ""
        if not self.whole_is_clear:
            return "Over all questions no difference is clear."
        leader, _, _ = self._who(self.whole)
        return f"Over all questions {leader} is ahead by {self._by(self.whole)}."


def _place(clear: Sequence[int], levels: Sequence[int]) -> str:
    """In words, on which of the levels there is a clear difference; every one that is clear is among the levels."""
    if len(clear) == len(levels):
        return EVERYWHERE
    ordered = sorted(levels)
    half = len(ordered) / 2
    places = [ordered.index(level) for level in clear]
    easiest, hardest = 0 in places, len(ordered) - 1 in places
    if hardest and not easiest:
        return HARD if all(place + 1 > half for place in places) else NOT_EASIEST
    if easiest and not hardest:
        return EASY if all(place < half for place in places) else NOT_HARDEST
    return SOME


class Scale(NamedTuple):
    """Level of every item (NaN: none), ability of every subject, chance of a right answer, and subjects to choose from.

    Without a calibration nothing is expected of a subject: ``probability`` is None. ``used`` are the items that are not
    left out, and ``have`` says in what they differ from the others.
    """

    level: Floats
    ability: Floats
    probability: Callable[[Floats], Floats] | None
    ranked: pl.Series
    used: npt.NDArray[np.bool_]
    have: str


def profile(
    responses: Any,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    subjects: str | Sequence[str] | None = None,
    *,
    levels: int = DEFAULT_LEVELS,
) -> Profile:
    """Accuracy of subjects by difficulty level, and how much of a difference comes from which levels.

    Intervals of accuracies are Wilson's. A difference between two subjects is paired: its standard error comes from the
    item-by-item differences over the items that both answered, with t quantiles. Up to twelve subjects are compared
    with each other.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes.
    calibration
        Where the levels of the items come from, and what is expected of a subject. By default levels are those stored
        with the items, and nothing is expected.
    subjects
        Names of subjects; by default five, spread over ability. In a study's directory: runs, models or RUN/STEP (also
        RUN/first, RUN/last), with wildcards; by default the first and last checkpoint of every run. There, differences
        are later minus earlier.
    levels
        Number of levels to cut the calibration into.

    Examples
    --------
    >>> import breadth, polars as pl
    >>> items = {"item": list("abcd"), "level": [0, 0, 1, 1]}
    >>> answers = [pl.DataFrame({"subject": name, **items, "correct": [1, 1, 0, k]}) for k, name in enumerate("xy")]
    >>> breadth.profile(pl.concat(answers)).levels["accuracy"].to_list()
    [1.0, 1.0, 0.0, 0.5]
    """
    study = open_study(responses)
    scale = _stored_levels(study) if calibration is None else _calibrated(study, calibration, levels)
    # Names are given one by one or joined by commas; a subject whose name holds a comma is taken as it is.
    names: list[str] = []
    for entry in [subjects] if isinstance(subjects, str) else subjects or ():
        whole = entry in study.subject_names
        names += [entry] if whole else [part.strip() for part in entry.split(",") if part.strip()]
    keys = study.subjects
    trained = {"run", "model", "step"} <= set(keys.columns) and not keys["step"].null_count()
    if trained:
        chosen = choose_checkpoints(study, None if subjects is None else names)
    else:
        chosen = evenly(scale.ranked) if subjects is None else _check_subjects(study, names)
    frame = accuracy_by_level(study, scale.level, subjects=chosen, ability=scale.ability, probability=scale.probability)
    compared = chosen[::-1] if trained else chosen
    warnings = study.warnings
    if not scale.used.all():
        sizes = f"{scale.used.sum():,} of {scale.used.size:,} items"
        warnings += (f"{sizes} {scale.have}; the others are left out",)
    noun = "checkpoint" if trained else "model"
    return Profile(frame, _subject_differences(study, scale.level, compared), warnings, noun)


def _stored_levels(study: Study) -> Scale:
    """The levels that the items have in the study."""
    has_level = "level" in study.items.columns
    level = (
        Table(study.items, study.name).numbers("level").to_numpy() if has_level else np.full(study.items.height, np.nan)
    )
    if np.isnan(level).all():
        raise InputError(
            f"{study.name}: its items have no level; name a calibration with --calibration (`breadth calibrate` makes "
            "one)"
        )
    accuracy, count = study.scores
    score = np.nansum(accuracy * count, axis=1) / np.maximum(count.sum(axis=1), 1)
    ranked = _rank_subjects(pl.DataFrame({"subject": study.subject_names, "ability": score}))
    return Scale(level, np.empty(0), None, ranked, ~np.isnan(level), "have a level")


def _calibrated(study: Study, calibration: str | os.PathLike[str] | Calibration, levels: int) -> Scale:
    """Levels and abilities on the scale of a calibration; items that it does not have are left out."""
    known = Calibration.of(calibration)
    abilities = known.score(study)
    place = {name: index for index, name in enumerate(known.items["item"])}
    column = np.array([place.get(name, -1) for name in study.item_names])
    level = np.where(column >= 0, numbers(known.levels(levels), "level")[column], np.nan)

    def probability(ability: Floats) -> Floats:
        return np.where(column >= 0, known.parameters.probability(ability)[:, column], np.nan)

    ranked = _rank_subjects(abilities.filter(pl.col("n") > 0))
    ability = numbers(abilities, "ability")
    return Scale(level, ability, probability, ranked, ~np.isnan(level), "have a level in the calibration")


def _rank_subjects(abilities: pl.DataFrame) -> pl.Series:
    """Names of subjects from the least able on; equal ones, whose abilities may differ by rounding, by name."""
    return abilities.sort(pl.col("ability").round(ABILITY_DIGITS), "subject")["subject"]


def choose_checkpoints(study: Study, patterns: Sequence[str] | None) -> list[str]:
    """Subjects of a study by run, model or step, in order; by default the first and last checkpoint of every run.

    A pattern (with wildcards) that matches runs or models means their first and last checkpoint; RUN/STEP or
    MODEL/STEP, where STEP is a number, ``first``, ``last`` or ``*``, means those checkpoints.
    """
    run, model, step = pl.col("run"), pl.col("model"), pl.col("step")
    rows = study.subjects.with_columns(first=step == step.min().over("run"), last=step == step.max().over("run"))
    rows = rows.sort("run", "step", maintain_order=True).with_columns(step.cast(pl.String))
    ends = rows.filter(pl.col("first") | pl.col("last"))
    if patterns is None:
        return ends["subject"].to_list()
    words = {"first", "last", *rows["run"], *rows["model"].drop_nulls(), *rows["step"]}
    chosen: list[str] = []
    for pattern in patterns:
        front, _, end = pattern.rpartition("/")
        whole, fronts, steps = (
            [word for word in words if word == part or fnmatch.fnmatchcase(word, part)]
            for part in (pattern, front, end)
        )
        matches = ends.filter(run.is_in(whole) | model.is_in(whole))
        if not matches.height:
            at = pl.any_horizontal(step.is_in(steps), *({"first", "last"} & {*steps}))
            matches = rows.filter(at & (run.is_in(fronts) | model.is_in(fronts)))
        if not matches.height:
            runs = ends["run"].unique(maintain_order=True)
            near = did_you_mean([pattern], [*runs, *ends["model"].unique().drop_nulls().sort(), *study.subject_names])
            raise InputError(
                f"{study.name}: no run, model or checkpoint matches {pattern!r}.{near} Runs: {listed(runs, 5)}; a "
                "checkpoint is RUN/STEP, RUN/first or RUN/last"
            )
        chosen += matches["subject"].to_list()
    return list(dict.fromkeys(chosen))


def _check_subjects(study: Study, names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in study.subject_names]
    if unknown:
        hint = did_you_mean(unknown, study.subject_names)
        raise InputError(
            f"{study.name}: there is no subject {listed(unknown)}.{hint} Subjects: {listed(study.subject_names, 5)}"
        )
    return list(dict.fromkeys(names))


def _subject_differences(study: Study, level: Floats, subjects: Sequence[str]) -> pl.DataFrame:
    """Mean difference of every two subjects, on all items and by level, with its t interval.

    There is no interval for fewer than two items or without any variation.
    """
    place = {name: index for index, name in enumerate(study.subject_names)}
    rows: list[dict[str, Any]] = []
    for first, second in itertools.combinations(subjects[:MOST_COMPARED], 2):
        one, two = (study.matrix[place[name]].astype(np.float64) for name in (first, second))
        both = (one >= 0) & (two >= 0) & ~np.isnan(level)
        gap = one - two
        whole = float(gap[both].sum())
        for k in (None, *np.unique(level[both])):
            inside = gap[both] if k is None else gap[both & (level == k)]
            n = len(inside)
            mean = float(inside.mean()) if n else None
            se = float(inside.std(ddof=1) / np.sqrt(n)) if n > 1 else None
            row: dict[str, Any] = {"subject_1": first, "subject_2": second, "level": None if k is None else int(k)}
            row |= {"n": n, "difference": mean, "se": se, "share": float(inside.sum()) / whole if whole else None}
            if mean is not None and se:
                half = float(special.stdtrit(n - 1, (1 + LEVEL) / 2)) * se
                p = float(2 * special.stdtr(n - 1, -abs(mean) / se))
                row |= {"ci_low": mean - half, "ci_high": mean + half, "p": p}
            rows.append(row)
    schema = {"subject_1": pl.String, "subject_2": pl.String, "level": pl.Int64, "n": pl.Int64}
    names = ("difference", "se", "ci_low", "ci_high", "p", "share")
    frame = pl.DataFrame(rows, schema={**schema, **dict.fromkeys(names, pl.Float64)})
    q = benjamini_hochberg(frame["p"].fill_null(float("nan")).to_numpy())
    return frame.insert_column(frame.columns.index("share"), pl.Series("q", q, nan_to_null=True))

"""The result of ``compare``: differences with their verdict, the columns that readers see, and the figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import polars as pl

from breadth.comparison.groups import ONE_RUN_EACH, describe_runs
from breadth.errors import InputError, did_you_mean, listed
from breadth.inference import NORMAL, benjamini_hochberg
from breadth.irt import ABOUT_EQUAL, PARTS
from breadth.results import (
    SEEN,
    WORTH_SEEING,
    Answer,
    Column,
    Columns,
    Figure,
    Question,
    Result,
    Shown,
    State,
    Verdict,
    as_chart,
    times_more,
)
from breadth.results.figures import Spec, nominal, tooltip
from breadth.results.words import (
    FINDING,
    agree,
    capitalised,
    count,
    distance_text,
    joined,
    number_word,
    rounded_up,
    sentences,
    size_text,
)

if TYPE_CHECKING:
    import altair as alt


class By(StrEnum):
    """What the items of a cell have in common: values of the column ``by``."""

    ALL = "all"
    TESTSET = "testset"
    SHIFT = "shift"
    LEVEL = "level"


class ComparisonFlag(StrEnum):
    """Why a cell has no interval."""

    NO_VARIATION = "no_variation"
    ONE_CLUSTER = "one_cluster"


class Within(StrEnum):
    """What an interval says about a margin: values of the column ``within``."""

    BETTER = "better"
    EQUIVALENT = "equivalent"
    NO_WORSE = "no worse"
    WORSE = "worse"
    OPEN = "open"


#: It is said that few runs widen an interval if they make it so many times as wide, and if runs make up so much of the
#: squared standard error.
MUCH_WIDER, MUCH_RUNS = 1.25, 0.1

#: Runs of a model up to which their spread is called badly known.
FEW_RUNS = 3

#: Test sets, levels and pairs of models that a sentence names, the largest differences first.
MOST_NAMED = 3

#: Models that may be the best which a verdict names.
MOST_MODELS = 5

#: Test sets that are named where a model is worse than it may be.
MOST_FAILED = 4

#: Times as many questions beyond which nobody asks more of them to settle a small difference.
MOST_TIMES = 20

#: How a sentence counts levels of difficulty from the hardest one down.
FROM_THE_TOP = ("hardest", "second hardest", "third hardest", "fourth hardest")

#: Letters of a model's name up to which it stands above a column.
SHORT_NAME = 14

#: The answer where no model is better: because none is by much, or because the answers do not tell.
NEITHER, NOT_DECIDED = "Neither", "Not decided"

#: What is printed in bold below tables of differences.
SURE = "Bold: surely different, even with so many rows to look at."

CELLS = Columns(
    Column("first", priority=4, meaning="The model that is compared with."),
    Column("second", priority=4, meaning="The model that is compared: a difference above 0 says that it is ahead."),
    Column("by", priority=4, meaning="What the questions of this row have in common: all, testset, shift or level."),
    Column("value", priority=4, meaning="Which test set, kind of shift or level of difficulty it is."),
    Column("within", header="margin", meaning="What the interval says about the margin that was given."),
    Column("n_items", format=",d", header="questions", priority=2, meaning="Questions that both models answered."),
    Column("runs_first", format="d", priority=4, meaning="Training runs of the first model."),
    Column("runs_second", format="d", priority=4, meaning="Training runs of the second model."),
    Column("accuracy_first", format="share1", header="first", priority=3, meaning="Share the first gets right."),
    Column("accuracy_second", format="share1", header="second", priority=3, meaning="Share the second gets right."),
    Column(
        "difference", format="points", header="points", priority=1, bold="sure",
        meaning="How many more points of accuracy the second model has than the first; below 0, the first is ahead.",
    ),
    Column("ci_low", "ci_high", format="points", priority=1, meaning="Where the difference lies in 95 of 100 cases."),
    Column("q", format="p", priority=3, meaning="p-value after allowing for all the differences that are looked at."),
    Column("p", format="p", priority=4, meaning="p-value of this difference alone."),
    Column("only_first", format=",.0f", priority=4, meaning="Questions that only the first model gets right."),
    Column("only_second", format=",.0f", priority=4, meaning="Questions that only the second model gets right."),
)  # fmt: skip
TESTSETS = Columns(
    Column("first", priority=1, meaning="The model that is compared with."),
    Column("second", priority=1, meaning="The model that is compared."),
    Column("n_testsets", format="d", header="test sets", meaning="Test sets that both models answered."),
    Column("ahead", format="d", meaning="Test sets on which the second model has the higher accuracy."),
    Column("difference", format="points", header="points", priority=1, meaning="Mean difference over test sets."),
    Column("ci_low", "ci_high", format="points", meaning="Interval of that mean, for test sets like these."),
    Column(
        "predict_low", "predict_high", format="points", header="new test set",
        meaning="Where the difference on a test set that is not among these is expected to lie; takes three test sets.",
    ),
    Column("tau", format="percent", header="spread", priority=4, meaning="Points by which test sets differ in it."),
    Column("p", format="p", priority=4, meaning="p-value of the mean difference."),
)  # fmt: skip
ITEMS = Columns(
    Column("first", priority=2, meaning="The model that is compared with."),
    Column("second", priority=2, meaning="The model that is compared."),
    Column("testset", header="test set", meaning="The test set of the question."),
    Column("level", format="d", priority=3, meaning="Its level of difficulty; the higher the harder."),
    Column("item", header="question", priority=1, meaning="The question on which the two models differ."),
    Column(
        "right_first", format="share", header="first right", priority=1, meaning="Share of its runs that are right."
    ),
    Column(
        "right_second", format="share", header="second right", priority=1, meaning="Share of its runs that are right."
    ),
)

#: A column that tables of one pair begin with; it stands for ``by`` and ``value``.
WHERE = Column("where", priority=1, meaning="All questions, or those of a test set, kind of shift or level.")


class Lead(NamedTuple):
    """A difference as seen by the model that is ahead: how far, and its interval, whose lower end may be below 0."""

    ahead: str
    behind: str
    by: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any], name: str = "difference", low: str = "ci_low", high: str = "ci_high") -> Lead:
        """The lead in a row of the cells, or of the means over test sets."""
        if row[name] >= 0:
            return cls(row["second"], row["first"], row[name], row[low], row[high])
        turned = (None, None)
        if row[low] is not None and row[high] is not None:
            turned = (-row[high], -row[low])
        return cls(row["first"], row["second"], -row[name], *turned)

    @property
    def interval(self) -> str:
        """Its interval in words: "95% interval 2.1 to 5.7", or "0.4 behind to 1.3 ahead"; empty where there is none."""
        if self.low is None or self.high is None:
            return ""
        high = f"{100 * self.high:.1f}"
        if self.low >= 0:
            return f"95% interval {100 * self.low:.1f} to {high}"
        return f"95% interval {100 * -self.low:.1f} behind to {high} ahead"

    @property
    def with_interval(self) -> str:
        """How far, and the interval."""
        said = distance_text(self.by)
        if not self.interval:
            return said
        return f"{said} ({self.interval})"

    def in_words(self, data: str) -> str:
        """A difference that may be none, as a clause; ``data`` says what it was measured on."""
        if round(100 * self.by, 1) > 0:
            return f"{self.ahead} is ahead of {self.behind} by {self.with_interval} {data}"
        alike = f"{self.ahead} and {self.behind} get equally many right {data}"
        if self.low is None or self.high is None:
            return alike
        return f"{alike} (95% interval: either may be {distance_text(max(self.high, -self.low))} ahead)"


def data_text(questions: int, runs: Sequence[int]) -> str:
    """What two models were compared on: questions, and runs of each where there are several.

    >>> data_text(1319, (1, 1)), data_text(960, (2, 2)), data_text(960, (2, 3))
    ('on 1,319 questions', 'on 960 questions with 2 runs of each', 'on 960 questions with 2 and 3 runs')
    """
    text = f"on {count(questions, 'question')}"
    first, second = runs
    if first != second:
        return f"{text} with {first} and {second} runs"
    if first > 1:
        return f"{text} with {first} runs of each"
    return text


def questions_to_settle(questions: int, difference: float, se: float | None) -> str:
    """How many questions would show a difference of this size; empty where no reasonable number would.

    Only for single runs: more questions do not make runs of a model more alike.
    """
    if not se or not abs(difference) > 0:
        return ""
    times = times_more(se, abs(difference))
    if not 1 < times <= MOST_TIMES:
        return ""
    return rounded_up(questions * times)


def how_to_settle(questions: int, difference: float, se: float | None, facts: dict[str, float | str]) -> str:
    """A sentence on how many questions would settle a small difference; empty where no reasonable number would."""
    number = questions_to_settle(questions, difference, se)
    if not number:
        return ""
    facts["questions that would settle the difference"] = number
    return f"About {number} questions like these would settle so small a difference."


def cell_names(cells: pl.DataFrame) -> list[str]:
    """What every row of the differences is about, as a table names it."""
    names = []
    for by, value in cells.select("by", "value").iter_rows():
        if by == By.ALL:
            names.append("all questions")
        elif by == By.SHIFT:
            names.append(f"{value} test sets")
        elif by == By.LEVEL:
            names.append(f"level {value}")
        else:
            names.append(value)
    return names


@dataclass(frozen=True)
class Comparison(Result):
    """Differences between every two of the chosen models; differences are second minus first.

    ``cells``: ``first, second, by, value, n_items, runs_first, runs_second, accuracy_first, accuracy_second,
    difference, se, ci_low, ci_high, p, q, exact, only_first, only_second, flag`` and, with a margin, ``within``; ``by``
    is all, testset, shift or level, and ``value`` which one. ``q`` is over the rows with ``all`` (for two models the
    same as ``p``), and over all other rows. ``only_first`` is the
    number of items that only the first got right (for several runs: the sum of the shares by which it is ahead).
    ``testsets``: per pair the mean over test sets as a sample of test sets, with its interval, and the interval of a
    new test set's difference (``predict_low, predict_high``; from three test sets on). ``items``: the items on which
    the first model and another differ, with the share of runs that got them right.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"cells": CELLS, "testsets": TESTSETS, "items": ITEMS}

    cells: pl.DataFrame
    testsets: pl.DataFrame
    items: pl.DataFrame
    margin: float | None = None
    cluster: str | None = None
    warnings: tuple[str, ...] = ()
    #: Whether the models are results of training runs, so that another run of a recipe is conceivable.
    trained: bool = False

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Differences by cell, means over test sets, and items on which models differ."""
        return {"cells": self.cells, "testsets": self.testsets, "items": self.items}

    @property
    def whole(self) -> pl.DataFrame:
        """The differences on all items, a row per pair of models."""
        return self.cells.filter(pl.col("by") == By.ALL)

    def verdict(self) -> Verdict:
        """Which of the models is better?

        A difference is a finding if q < 0.05 (those on all items are one family of tests, the other cells another). Of
        two models: the name of the better one, if the difference on all items is a finding; mixed, if one is ahead on
        some cells only, or each on some; neither, if a difference of the margin, or else of 5 points, would have been
        seen with a probability of 80 %; else it is not decided. Of several models: the name of one that is better than
        each of the others. Trained models with one run each stand for themselves: the last line says so.
        """
        whole = self.whole
        if whole.height > 1:
            return _verdict_of_several(self)
        return _verdict_of_two(self)

    def shown(self) -> Sequence[Shown]:
        """Of two models, a row per cell; of several, a row per pair."""
        sure = self.cells.with_columns((pl.col("q") < FINDING).fill_null(False).alias("sure"))
        if self.whole.height > 1:
            pairs = sure.filter(pl.col("by") == By.ALL)
            names = []
            for name in ("first", "second"):
                names.append(Column(name, priority=1, meaning=f"The {name} model."))
            shown = Columns(*names) + CELLS.without("first", "second", "accuracy_first", "accuracy_second")
            note = f"Above 0, the second is ahead. {SURE}"
            return [Shown("Second minus first, in points", pairs, shown.filled(pairs), note=note)]
        first, second = sure.row(0)[:2]
        frame = sure.with_columns(pl.Series("where", cell_names(sure)))
        columns = [WHERE]
        for column in CELLS:
            named = {"accuracy_first": first, "accuracy_second": second}.get(column.name, "")
            header = column.header
            if 0 < len(named) <= SHORT_NAME:
                header = named
            columns.append(replace(column, header=header))
        note = f"Above 0, {second} is ahead; below 0, {first} is. {SURE}"
        title = f"{second} (second) minus {first} (first), in points"
        return [Shown(title, frame, Columns(*columns).filled(frame), note=note)]

    def details(self) -> str:
        """How differences are tested, what is treated as a sample, and what runs add to the intervals."""
        whole = self.whole
        row = whole.row(0, named=True)
        test, sample = "paired t test", "Questions"
        if whole["exact"].all():
            test = "McNemar's exact test"
        if self.cluster:
            sample += f" (in clusters by {self.cluster})"
        if whole.select(pl.max_horizontal("runs_first", "runs_second")).max().item() > 1:
            sample += " and runs"
        parts = [f"{sample} are treated as a sample ({test} on all questions)."]
        families = []
        if whole.height > 1:
            families.append(f"over the {whole.height} pairs of models")
        cells = self.cells.filter(pl.col("by") != By.ALL, pl.col("n_items") < row["n_items"]).height
        if cells:
            families.append(f"over the {count(cells, 'difference')} on parts of the questions")
        if families:
            parts.append(
                f"A difference counts if q < {FINDING:g}: the false discovery rate is controlled "
                f"{' and '.join(families)}."
            )
        if self.testsets["ci_low"].is_not_null().any():
            parts.append("Means over test sets, and what to expect on a new one, come from a random-effects model.")
        return sentences(*parts, self._runs_words(whole))

    def _runs_words(self, whole: pl.DataFrame) -> str:
        """How many runs there are, and what that does to the intervals."""
        runs: dict[str, int] = {}
        for row in whole.iter_rows(named=True):
            runs |= {row["first"]: row["runs_first"], row["second"]: row["runs_second"]}
        words = describe_runs(runs)
        several = whole.filter((pl.col("runs_first") > 1) | (pl.col("runs_second") > 1), pl.col("se") > 0)
        if not several.height:
            return words
        share = several.select((pl.col("runs_se") ** 2 / pl.col("se") ** 2).mean()).item()
        words += f" Runs make up {share:.0%} of the squared standard error"
        if several.select(pl.max_horizontal("runs_first", "runs_second")).max().item() <= FEW_RUNS:
            words += ", as far as so few runs tell"
        words += "."
        # Half the width of the interval, in those of an interval with a standard error that is known well.
        half = (pl.col("ci_high") - pl.col("ci_low")) / 2
        wider = several.select((half / pl.col("se")).median()).item() / NORMAL
        if wider >= MUCH_WIDER and share >= MUCH_RUNS:
            words += (
                " How far runs lie apart is known from few of them; with more runs, intervals would be up to "
                f"{wider:.1f} times narrower for that alone."
            )
        return words.strip()

    def figure(self) -> alt.TopLevelMixin:
        """Differences with their intervals, a panel per pair of models."""
        return as_chart(differences_figure(self.cells), tables={"cells": self.cells})

    def worse(self, threshold: float, on: str | Sequence[str] | None = None) -> str | None:
        """A sentence if a model is worse than the first by more than ``threshold``; None if none is.

        Checked are the test sets ``on``, or all items. A model is worse on a test set if it is behind by more than the
        threshold, and the difference is a finding (q < 0.05 over the differences that are checked).
        """
        if not 0 <= threshold < 1:
            raise InputError(f"--fail-if-worse is {threshold:g}; choose a share from 0 to 1, 0.02 for 2 points")
        cells = self.cells.filter(pl.col("first") == self.cells["first"][0])
        if not on:
            cells = cells.filter(pl.col("by") == By.ALL)
        else:
            cells = cells.filter(pl.col("by") == By.TESTSET)
            entries = on if isinstance(on, str) else ",".join(on)
            names = [part.strip() for part in entries.split(",")]
            known = cells["value"].unique(maintain_order=True).to_list()
            if not known:
                raise InputError("--on: the data name no test sets; leave it out to check all items")
            if unknown := [name for name in names if name not in known]:
                raise InputError(
                    f"--on: there is no test set {listed(unknown)}.{did_you_mean(unknown, known)} Test sets: "
                    f"{listed(known)}"
                )
            cells = cells.filter(pl.col("value").is_in(names))
        q = benjamini_hochberg(cells["p"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        failed = cells.with_columns(pl.Series("q", q)).filter(pl.col("q") < FINDING, pl.col("difference") < -threshold)
        if not failed.height:
            return None
        parts = []
        for row in failed.iter_rows(named=True):
            place = "overall"
            if on:
                place = f"on {row['value']}"
            parts.append(f"{place} by {Lead.of(row).with_interval}")
        if len(parts) > MOST_FAILED:
            parts[MOST_FAILED:] = ["..."]
        told = "; ".join(parts)
        models = failed["second"].unique(maintain_order=True).to_list()
        who = f"{joined(models, 3)} {agree(len(models), 'is', 'are')}"
        return f"{who} worse than {failed['first'][0]} by more than {100 * threshold:g} points: {told}."


comparison_verdict = Comparison.verdict


#: What to do with a difference that is sure, with one that depends on the questions, and with one that is open.
PREFER = "Prefer {} for questions like these."
BY_USE = "Choose by the questions that are closest to your use."
BY_COST = "Choose by cost for now."


def _verdict_of_two(result: Comparison) -> Verdict:
    """Who is ahead and by how much; then where; then whether it carries over; last, what would decide it."""
    row = result.whole.row(0, named=True)
    lead = Lead.of(row)
    first, second, n = row["first"], row["second"], row["n_items"]
    facts: dict[str, float | str] = {"questions": n}
    # A cell that holds all items, such as the only test set, says nothing that the whole does not.
    parts = result.cells.filter(pl.col("by") != By.ALL, pl.col("n_items") < n)
    clear = row["q"] is not None and row["q"] < FINDING
    ahead, behind = _where_it_differs(parts, lead)
    carries, open_question = _carries_over(result.testsets, lead, clear)
    needed = []
    if clear:
        needed.append(open_question)
    if result.trained and row["runs_first"] == row["runs_second"] == 1:
        needed.append(ONE_RUN_EACH)
    data = data_text(n, (row["runs_first"], row["runs_second"]))

    def answered(answer: str, state: State, reason: str, advice: str, *findings: str) -> Verdict:
        return Verdict(
            answer, reason, sentences(*findings), sentences(*needed), question=Question.BETTER, advice=advice,
            state=state, facts=facts,
        )  # fmt: skip

    if clear:
        reason = f"{lead.ahead} is better than {lead.behind} by {lead.with_interval} {data}."
        if behind:
            yet = f"Yet {lead.behind} is ahead {_on(behind, facts)}."
            return answered(lead.ahead, State.MIXED, reason, BY_USE, yet, carries)
        where = ""
        if ahead:
            where = f"Its lead is largest {_on(ahead, facts)}{_undecided_testsets(parts)}."
        return answered(lead.ahead, State.YES, reason, PREFER.format(lead.ahead), where, carries)
    overall = lead.in_words(data)
    if ahead and behind:
        reason = f"{lead.ahead} is ahead {_on(ahead, facts)}, {lead.behind} {_on(behind, facts)}."
        return answered(Answer.MIXED, State.MIXED, reason, BY_USE, f"Over all, {overall}.", carries)
    if ahead or behind:
        somewhere = f"{lead.ahead} is ahead {_on(ahead, facts)}"
        if behind:
            somewhere = f"{lead.behind} is ahead {_on(behind, facts)}"
        reason = f"{somewhere}, but which one is better on all questions is not decided."
        return answered(Answer.MIXED, State.MIXED, reason, BY_USE, f"Over all, {overall}.", carries)
    effect, within = result.margin or WORTH_SEEING, row.get("within")
    said = size_text(effect)
    if within == Within.EQUIVALENT:
        reason = f"{second} and {first} are within {said} of each other: {overall}."
        return answered(NEITHER, State.NO, reason, "Choose by cost: either will do.", carries)
    if within == Within.NO_WORSE:
        reason = f"{second} is no more than {said} worse than {first}, and may be better: {overall}."
        advice = f"{second} can replace {first} where a loss of {said} does not matter."
        return answered(NOT_DECIDED, State.MIXED, reason, advice)
    if row["ci_low"] is None or times_more(_error(row), effect) <= 1:
        reason = f"Neither is clearly better: {overall}."
        return answered(NEITHER, State.NO, reason, _by_cost_or_more(row, facts), carries)
    more, more_facts = _enough(row, effect)
    facts |= more_facts
    needed.insert(0, more)
    return answered(NOT_DECIDED, State.OPEN, f"Either may be better: {overall}.", BY_COST)


def _by_cost_or_more(row: Mapping[str, Any], facts: dict[str, float | str]) -> str:
    """What to do with a difference that is too small to be sure of: how many questions would settle it."""
    settled = ""
    if row["runs_first"] == row["runs_second"] == 1:
        settled = how_to_settle(row["n_items"], row["difference"], row["se"], facts)
    return sentences("Choose by cost.", settled)


def _where_it_differs(parts: pl.DataFrame, lead: Lead) -> tuple[list[str], list[str]]:
    """The places where the one that leads overall is clearly ahead, and those where the other is, largest first."""
    found = parts.filter(pl.col("q") < FINDING).sort(pl.col("difference").abs(), descending=True, maintain_order=True)
    sides: dict[str, list[str]] = {lead.ahead: [], lead.behind: []}
    levels = _level_names(parts)
    # Test sets say most to a reader; kinds of shift and levels are named where no test set stands out.
    for by in (By.TESTSET, By.SHIFT, By.LEVEL):
        for row in found.filter(pl.col("by") == by).iter_rows(named=True):
            own = Lead.of(row)
            sides[own.ahead].append(f"{_place(row, levels)} ({distance_text(own.by)})")
        if any(sides.values()):
            break
    return sides[lead.ahead], sides[lead.behind]


def _on(places: Sequence[str], facts: dict[str, float | str]) -> str:
    """Places in a sentence, the first few by name; the number of others is added to ``facts``."""
    if len(places) > MOST_NAMED:
        facts["places where it is ahead, besides those named"] = len(places) - MOST_NAMED
    return f"on {joined(places, MOST_NAMED)}"


def _place(row: Mapping[str, Any], levels: Mapping[str, str]) -> str:
    """A part of the questions, as a sentence names it."""
    if row["by"] == By.SHIFT:
        return f"{row['value']} test sets"
    if row["by"] == By.LEVEL:
        return levels[row["value"]]
    return str(row["value"])


def _level_names(parts: pl.DataFrame) -> dict[str, str]:
    """Levels of difficulty as a sentence names them, by their number: by their place among all levels."""
    sizes = dict(parts.filter(pl.col("by") == By.LEVEL).select("value", "n_items").iter_rows())
    ordered = sorted(sizes, key=float, reverse=True)
    names = {}
    for place, value in enumerate(ordered):
        name = f"level {value}"
        if value == ordered[-1]:
            name = "the easiest"
        elif place < len(FROM_THE_TOP):
            name = f"the {FROM_THE_TOP[place]}"
        equal = sum(sizes.values()) / len(sizes)
        if name.startswith("the "):
            # Levels that ties or their maker made unequal are no thirds or fifths of the whole.
            if len(sizes) in PARTS and abs(sizes[value] - equal) <= ABOUT_EQUAL * equal:
                name += f" {PARTS[len(sizes)]}"
            else:
                name += " questions"
        names[value] = name
    return names


def _undecided_testsets(parts: pl.DataFrame) -> str:
    """The test sets on which nothing is decided, as the end of a sentence that names those where something is."""
    testsets = parts.filter(pl.col("by") == By.TESTSET)
    sure = (pl.col("q") < FINDING).fill_null(False)
    left = testsets.filter(~sure)["value"].to_list()
    if not left or len(left) == testsets.height:
        return ""
    return f"; on {joined(left, MOST_NAMED)} it may be chance"


def _carries_over(testsets: pl.DataFrame, lead: Lead, clear: bool) -> tuple[str, str]:
    """What to expect on a new test set; and else what would tell."""
    row = testsets.row(0, named=True)
    if row["predict_low"] is None:
        if row["n_testsets"] == 1:
            return "", "One test set cannot show whether this carries over to another."
        return "", "Two test sets cannot show whether this carries over to another; three or more can."
    new = Lead.of(row, low="predict_low", high="predict_high")
    if new.low is not None and new.high is not None and new.low > 0:
        expected = (
            f"on a new test set expect {new.ahead} to be {100 * new.low:.1f} to {100 * new.high:.1f} points ahead"
        )
        if not clear:
            return capitalised(f"{expected}."), ""
        if new.ahead == lead.ahead:
            return f"This carries over: {expected}.", ""
        return f"This does not carry over: {expected}.", ""
    if clear:
        return "This may not carry over: on a new test set, either may be ahead.", ""
    return "On a new test set, either may be ahead.", ""


def _enough(row: Mapping[str, Any], effect: float) -> tuple[str, dict[str, float | str]]:
    """How many questions, or runs, would show a difference of this size; with the numbers by name.

    More runs also tell better how far runs lie apart, so the wide quantile of few runs is not what more data keep. But
    the estimated error of models that answer a few items alike is 0, and then the interval tells more.
    """
    error = row["se"] or 0.0
    if times_more(error, effect) <= 1:
        error = _error(row)
    allowed = (effect / SEEN) ** 2
    runs_part = min(row["runs_se"] ** 2, error**2)
    items_part = error**2 - runs_part
    runs = max(row["runs_first"], row["runs_second"])
    facts: dict[str, float | str] = {}
    parts = []
    # More questions are enough with the runs there are, or the other way round; or else each may take half the room.
    room_for_items, room_for_runs = allowed - runs_part, allowed - items_part
    both = room_for_items <= 0 and room_for_runs <= 0
    if both:
        room_for_items = room_for_runs = allowed / 2
    if both or room_for_items > 0:
        questions = rounded_up(row["n_items"] * items_part / room_for_items)
        facts["questions that would be enough"] = questions
        parts.append(f"{questions} questions")
    if both or room_for_items <= 0:
        wanted = rounded_up(runs * runs_part / room_for_runs)
        facts["runs that would be enough"] = wanted
        parts.append(f"{wanted} runs of each model")
    facts["difference to see, in points"] = f"{100 * effect:g}"
    return f"About {' and '.join(parts)} would show a difference of {size_text(effect)}.", facts


def _error(row: Mapping[str, Any]) -> float:
    """The standard error that an interval amounts to.

    Not the estimated one: that of two models which answer five items alike is 0, and that of two runs is badly known.
    """
    return float(row["ci_high"] - row["ci_low"]) / 2 / NORMAL


def _verdict_of_several(result: Comparison) -> Verdict:
    """The model that is better than each of the others, if there is one; which pairs are decided, and which are not."""
    whole = result.whole
    models = list(dict.fromkeys([*whole["first"], *whole["second"]]))
    facts: dict[str, float | str] = {"models": len(models), "pairs": whole.height}
    sure = (pl.col("q") < FINDING).fill_null(False)
    clear = whole.filter(sure).sort(pl.col("difference").abs(), descending=True, maintain_order=True)
    leads = [Lead.of(row) for row in clear.iter_rows(named=True)]
    still_open, needed = _undecided_pairs(whole.filter(~sure), facts), []
    if result.trained and whole.select(pl.max_horizontal("runs_first", "runs_second")).max().item() == 1:
        needed.append(ONE_RUN_EACH)

    def answered(answer: str, state: State, reason: str, advice: str, findings: str = "") -> Verdict:
        return Verdict(
            answer, reason, findings, sentences(*needed), question=Question.BETTER, advice=advice, state=state,
            facts=facts,
        )  # fmt: skip

    wins = Counter(lead.ahead for lead in leads)
    for winner, won in wins.items():
        if won == len(models) - 1:
            # The rival that comes closest says how safe the first place is; the largest leads come first.
            closest = next(lead for lead in reversed(leads) if lead.ahead == winner)
            facts["other models"] = won
            reason = (
                f"{winner} is better than the other {number_word(won)}; the closest, {closest.behind}, is behind by "
                f"{closest.with_interval}."
            )
            return answered(winner, State.YES, reason, PREFER.format(winner), still_open)
    if leads:
        largest, best = leads[0], list(models)
        for lead in leads:
            if lead.behind in best:
                best.remove(lead.behind)
        reason = f"{largest.ahead} is better than {largest.behind} by {largest.with_interval}."
        advice = BY_COST
        if best:
            reason = f"{joined(best, MOST_MODELS)} may be the best of these {len(models)}; {reason}"
            word = agree(len(best) - 1, "between", "among")
            advice = f"Choose {word} {joined(best, MOST_MODELS)} by cost, or compare them on another test set."
        return answered(Answer.MIXED, State.MIXED, reason, advice, still_open)
    largest = Lead.of(whole.sort(pl.col("difference").abs(), descending=True).row(0, named=True))
    chance = (
        f"the largest of {whole.height} differences, {largest.ahead} ahead of {largest.behind} by "
        f"{largest.with_interval}, may be chance"
    )
    # What the pair in the middle takes, the others take roughly.
    known = whole.drop_nulls("ci_low").sort(pl.col("ci_high") - pl.col("ci_low"))
    effect = result.margin or WORTH_SEEING
    if known.height:
        middle = known.row(known.height // 2, named=True)
        if times_more(_error(middle), effect) > 1:
            more, more_facts = _enough(middle, effect)
            facts |= more_facts
            needed.insert(0, more)
            reason = f"Which of the {len(models)} models is best is not decided: {chance}."
            return answered(NOT_DECIDED, State.OPEN, reason, BY_COST)
    reason = f"None of the {len(models)} models is clearly better than another: {chance}."
    return answered("None", State.NO, reason, "Choose by cost.")


def _undecided_pairs(pairs: pl.DataFrame, facts: dict[str, float | str]) -> str:
    """The pairs of which nothing is known; empty where there is none."""
    if not pairs.height:
        return ""
    names = pairs.select(pl.format("{} vs {}", "first", "second")).to_series().to_list()
    facts["pairs that are not decided, besides those named"] = max(len(names) - MOST_NAMED, 0)
    return f"Not decided: {joined(names, MOST_NAMED)}."


def differences_figure(cells: pl.DataFrame, table: str = "cells") -> Figure:
    """Difference of accuracy with its interval, a row per cell and a panel per pair; findings are filled."""
    order = []
    for by, value in cells.select("by", "value").unique(keep="first", maintain_order=True).iter_rows():
        name = "all questions"
        if value is not None:
            name = f"{by}: {value}"
        order.append(name)
    computed = [
        {"calculate": f"isValid(datum.q) && datum.q < {FINDING}", "as": "sure"},
        {"calculate": f"datum.by == '{By.ALL}' ? 'all questions' : datum.by + ': ' + datum.value", "as": "cell"},
        {"calculate": "datum.second + ' minus ' + datum.first", "as": "pair"},
    ]
    tips = tooltip(
        ("pair", "models"), ("cell", "questions"), ("difference", "difference", "+.1%"), ("ci_low", "from", "+.1%"),
        ("ci_high", "to", "+.1%"), ("accuracy_first", "first", ".1%"), ("accuracy_second", "second", ".1%"),
        ("n_items", "questions", ",d"), ("q", "q", ".2g"),
    )  # fmt: skip
    labels = "datum.value ? format(datum.value, '+.0%') : '0'"
    axis = {"title": "difference of accuracy", "labelExpr": labels, "tickCount": 6}
    x = {"field": "difference", "type": "quantitative", "axis": axis}
    y = nominal("cell", order, labelLimit=220)

    def points(shown: str, colour: str) -> Spec:
        mark = {"type": "point", "filled": True, "opacity": 1, "size": 60, "stroke": "@ink", "cursor": "pointer"}
        return {
            "transform": [{"filter": shown}],
            "mark": mark | {"color": colour},
            "encoding": {"x": x, "y": y, "tooltip": tips},
        }

    view: Spec = {
        "height": {"step": 20},
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 0}}},
            {
                "transform": [{"filter": "isValid(datum.ci_low)"}],
                "mark": {"type": "rule", "color": "@ink", "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "ci_low"}, "x2": {"field": "ci_high"}, "y": y, "tooltip": tips},
            },
            points("datum.sure", "@ink"),
            points("!datum.sure", "@paper"),
        ],
    }  # fmt: skip
    caption = "Second minus first, with 95% intervals. Filled: surely different (false discovery rate below 5%)."
    pairs = cells.select("first", "second").n_unique()
    spec: Spec = {"data": {"name": table}, "transform": computed}
    if pairs == 1:
        spec |= {"width": "container", "usermeta": {"most": 620}} | view
    else:
        facet = {"field": "pair", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}}
        spec |= {"facet": facet, "spec": view, "usermeta": {"pad": 160, "least": 220, "panels": pairs}}
    return Figure("compare", "Differences between models", caption, spec, table)

"""The verdict of a report on training: on which test sets did it help, and on which not?

A change counts if it remains with the false discovery rate at 5 %, over all models and test sets but the one that was
trained on. Sentences name test sets; where models differ, they say in which of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median
from typing import Any

import polars as pl

from breadth.reporting.accuracy import ALL_MODELS, LEAST_OF_RECIPE
from breadth.reporting.data import ReportData
from breadth.results import ALMOST_ALL, ALMOST_NONE, WORTH_SEEING, Answer, Question, Verdict, about, times_more
from breadth.results.words import FINDING, change_text, count, ends_text, joined

#: Test sets that a sentence names if they fit; of more it names the strongest three and says how many more there are.
MOST_NAMED, MOST_CHARACTERS, STRONGEST = 8, 160, 3

#: Models up to which a sentence says in which of them a test set improved; with more, in how many.
MOST_MODELS = 3


class Change(StrEnum):
    """What training did to a test set in a model."""

    BETTER = "better"
    WORSE = "worse"
    #: Clearly less than half the gain on the test set of the training set.
    BEHIND = "behind"
    UNDECIDED = "undecided"


def carried_over_verdict(data: ReportData) -> Verdict | None:
    """Did training on one set help on the others? None where nothing was trained, or no interval is known.

    Yes: almost all changes on other test sets are gains. No: more losses than gains are found; or hardly any change is
    found, while at least half are clearly less than half the in-domain gain, or although 5 points would have been seen.
    """
    gains = data.table("gains")
    if not gains.height:
        return None
    known = gains.filter(~pl.col("in_domain"), pl.col("testset").is_in(data.about.comparable)).drop_nulls("p")
    if not known.height:
        return None
    home = gains.filter("in_domain")["testset"].unique(maintain_order=True).to_list()
    study = _Changes(data, known.with_columns(change=pl.Series([change_of(row) for row in known.to_dicts()])), home)
    better, worse = study.number(Change.BETTER), study.number(Change.WORSE)
    total = known.height
    if better + worse < ALMOST_NONE * total:
        return _hardly_any(study)
    if worse > better:
        return study.verdict(Answer.NO, study.worse_words(), [study.better_words(), study.open_words()])
    if better >= ALMOST_ALL * total:
        return study.verdict(Answer.YES, study.better_words(), [study.worse_words("It"), study.open_words()])
    others = [study.worse_words("It"), study.behind_words(), study.open_words()]
    return study.verdict(Answer.MIXED, study.better_words(), others, needed=study.needed())


def change_of(row: Mapping[str, Any]) -> Change:
    """What happened on one test set in one model."""
    if row["q"] is not None and row["q"] < FINDING:
        return Change.BETTER if row["gain"] > 0 else Change.WORSE
    if row["behind"] is not None and row["behind"] < 0 and row["q_behind"] is not None and row["q_behind"] < FINDING:
        return Change.BEHIND
    return Change.UNDECIDED


class _Changes:
    """Changes on the test sets that were not trained on, and the sentences about them."""

    def __init__(self, data: ReportData, changes: pl.DataFrame, home: Sequence[str]) -> None:
        self.data, self.changes, self.home = data, changes, home
        self.share = data.about.share
        self.models = changes["model"].n_unique()

    def number(self, change: Change) -> int:
        return self.changes.filter(change=change.value).height

    def of(self, change: Change) -> pl.DataFrame:
        """Changes of a kind, the largest first."""
        found = self.changes.filter(change=change.value)
        return found.sort(pl.col("gain").abs(), descending=True, maintain_order=True)

    @property
    def trained(self) -> str:
        """Training, as a sentence begins with it."""
        if self.home:
            return f"Training on {self.homes}"
        return "Training"

    @property
    def homes(self) -> str:
        """The test sets of what was trained on, as a sentence names them."""
        return join_testsets([self.named(name) for name in self.home])

    def named(self, testset: str) -> str:
        """A test set as a sentence names it.

        The sets of a study have names such as plain or chains: without quotes, "training on plain" is no sentence.
        Benchmarks of a table of scores are known by their names.
        """
        return f"“{testset}”" if self.home else testset

    @property
    def question(self) -> str:
        if len(self.home) == 1:
            return f"Did training on {self.homes} carry over?"
        return Question.CARRIED_OVER if self.home else Question.IMPROVED

    def verdict(
        self, answer: Answer, reason: str, others: Sequence[str], needed: str = "", advice: str = ""
    ) -> Verdict:
        findings = " ".join(text for text in others if text)
        facts: dict[str, float | str] = {"changes": self.changes.height}
        for change in Change:
            facts[change.value] = self.number(change)
        fell = self.models_below()
        if fell:
            facts["models below their start"] = fell
        advice = advice or self.one_run_words() or self.advice(answer)
        return Verdict(answer, reason, findings, needed, question=self.question, advice=advice, facts=facts)

    def names(self, change: Change) -> list[str]:
        """Test sets with a change of a kind; with the models, where it is not that of all of them."""
        names = []
        for (testset,), rows in self.of(change).group_by("testset", maintain_order=True):
            every = self.changes.filter(testset=testset).height
            name = self.named(str(testset))
            if rows.height == every:
                names.append(name)
            elif self.models <= MOST_MODELS:
                names.append(f"{name} in {joined(rows['model'].to_list(), MOST_MODELS)}")
            else:
                names.append(f"{name} in {rows.height} of {every} models")
        return names

    def largest(self, change: Change) -> str:
        """The largest change of a kind with its interval, and its model where there are several."""
        row = self.of(change).row(0, named=True)
        return f"{change_text(row['gain'], self.share)}{self.where(row)}, {self.interval(row)}"

    def where(self, row: Mapping[str, Any]) -> str:
        """In which model a change is, or over how many it is the mean."""
        if self.models > 1:
            return f" in {row['model']}"
        if row["model"] == ALL_MODELS:
            return f" on average over {count(row['runs'], 'model')}"
        return ""

    def interval(self, row: Mapping[str, Any]) -> str:
        if self.share:
            return f"95% interval {ends_text(row['ci_low'], row['ci_high'])}"
        return f"95% interval {row['ci_low']:.3g} to {row['ci_high']:.3g}".replace("-", "−")

    def better_words(self) -> str:
        """On which test sets scores rose, and by how much on the one where they rose most."""
        names = self.names(Change.BETTER)
        if not names:
            return ""
        verb = "also improved" if self.home else "improved"
        strongest = self.named(self.of(Change.BETTER)["testset"][0])
        every = self.changes["testset"].n_unique()
        if len(names) == every > STRONGEST and self.number(Change.BETTER) == self.changes.height:
            which = f"all {every} {'other ' if self.home else ''}test sets"
            if self.models > 1:
                which += f" in {'both' if self.models == 2 else f'all {self.models}'} models"
            return f"{self.trained} {verb} {which}, most of all {strongest} ({self.largest(Change.BETTER)})."
        if len(names) == 1:
            return f"{self.trained} {verb} {strongest} ({self.largest(Change.BETTER)})."
        return f"{self.trained} {verb} {join_testsets(names)}, most of all {strongest} ({self.largest(Change.BETTER)})."

    def worse_words(self, who: str = "") -> str:
        """On which test sets scores fell, by how much on the one where they fell most, and in how many models."""
        names = self.names(Change.WORSE)
        if not names:
            return ""
        size = self.largest(Change.WORSE)
        below = self.models_below()
        if below:
            size += f", lower in {below} of them"
        fell = f"{who or self.trained} made {join_testsets(names)} worse"
        if len(names) == 1:
            return f"{fell} ({size})."
        return f"{fell}, most of all {self.named(self.of(Change.WORSE)['testset'][0])} ({size})."

    def models_below(self) -> int | None:
        """In how many models the test set that fell most ended lower; None where changes are those of single models."""
        fallen = self.of(Change.WORSE)
        if not fallen.height or fallen["model"][0] != ALL_MODELS:
            return None
        gains = self.data.table("gains").filter(pl.col("model") != ALL_MODELS, testset=fallen["testset"][0])
        return gains.filter(pl.col("gain") < 0).height

    def behind_words(self) -> str:
        """Which test sets gained clearly less than half as much as the one that was trained on."""
        names = self.names(Change.BEHIND)
        if not names:
            return ""
        return f"It hardly carried over to {join_testsets(names)} (clearly less than half the gain on {self.homes})."

    def open_words(self) -> str:
        names = self.names(Change.UNDECIDED)
        return f"Undecided: {join_testsets(names)}." if names else ""

    def advice(self, answer: Answer) -> str:
        """What to do: about test sets that fell, then about those that gained little."""
        worse, behind = self.names(Change.WORSE), self.names(Change.BEHIND)
        if worse:
            return f"Where {join_testsets(worse)} counts, try an earlier checkpoint."
        if behind:
            return f"To improve {join_testsets(behind)}, train on examples like those."
        if answer is Answer.YES:
            from_these = f" from {self.homes}" if self.home else ""
            return f"Next, try test sets that differ more{from_these}, to see where training stops helping."
        if answer is Answer.NO:
            return "To improve other test sets, train on examples like those."
        return "Do not report the undecided ones as improved."

    def needed(self) -> str:
        """What would decide the changes that are open: a gain of 5 points is worth seeing."""
        undecided = self.changes.filter(change=Change.UNDECIDED.value)
        error = undecided["se"].median()
        if error is None or not self.share:
            return ""
        times = times_more(float(error))  # type: ignore[arg-type]
        if times <= 1:
            return ""
        questions, runs = undecided["n_items"].drop_nulls().to_list(), undecided["runs"].drop_nulls().to_list()
        points = f"a gain of {100 * WORTH_SEEING:.0f} points there"
        if not questions or max(runs, default=2) > 1:
            more = "questions or runs" if questions else "runs"
            return f"About {about(times)} times as many {more} would show {points}."
        return f"About {about(times * median(questions))} questions per test set would show {points}."

    def one_run_words(self) -> str:
        """Where models have one run, the answer is about these trained models and not about their recipe."""
        if not self.data.has_answers or self.changes["runs"].max() != 1:
            return ""
        which = "This one run is" if self.models == 1 else "These are single runs:"
        return f"{which} no proof for the recipe; train again with other seeds to see how far runs differ."


def _hardly_any(study: _Changes) -> Verdict:
    """The verdict where hardly any change is found: is that for want of data?"""
    changes = study.changes
    behind = study.number(Change.BEHIND)
    row = changes.sort(pl.col("gain").abs(), descending=True, maintain_order=True).row(0, named=True)
    size = f"{change_text(row['gain'], study.share)}{study.where(row)}, {study.interval(row)}"
    largest = f"the largest change is that of {study.named(row['testset'])} ({size})"
    other = "other " if study.home else ""
    if behind > ALMOST_NONE * changes.height:
        answer = Answer.NO if 2 * behind >= changes.height else Answer.MIXED
        less = f"clearly less than half the gain on {study.homes}"
        names = join_testsets(study.names(Change.BEHIND))
        reason = f"{study.trained} hardly carried over to {names} ({less}); {largest}."
        return study.verdict(answer, reason, [study.open_words()], study.needed())
    if study.share and times_more(float(changes["se"].median() or 0)) <= 1:  # type: ignore[arg-type]
        shown = f"a gain of {100 * WORTH_SEEING:.0f} points would have shown"
        return study.verdict(Answer.NO, f"No {other}test set clearly changed, although {shown}; {largest}.", [])
    if changes["runs"].max() == LEAST_OF_RECIPE:
        # Two runs give an interval wider than all accuracies there are, which reads like a mistake.
        size = f"{change_text(row['gain'], study.share)} for {study.named(row['testset'])}{study.where(row)}"
        reason = (
            f"With {LEAST_OF_RECIPE} runs per model nothing can be concluded about {other}test sets: even the largest "
            f"change, {size}, may be chance."
        )
        advice = "Train a third seed of each model: that helps most."
        return study.verdict(Answer.UNKNOWN, reason, [], advice=advice)
    reason = f"No {other}test set clearly changed; {largest}."
    return study.verdict(Answer.UNKNOWN, reason, [], study.needed())


def join_testsets(names: Sequence[str]) -> str:
    """Names in a sentence: all of them if they fit, else the strongest three and how many more there are."""
    if len(names) <= MOST_NAMED and len(", ".join(names)) <= MOST_CHARACTERS:
        return joined(names, MOST_NAMED)
    return joined(names, STRONGEST)


def settled_words(gains: pl.DataFrame) -> str:
    """How many changes there are of every kind, for the statistics behind the verdict."""
    known = gains.filter(~pl.col("in_domain")).drop_nulls("p")
    if not known.height:
        return ""
    kinds = [change_of(row) for row in known.to_dicts()]
    better, worse, behind = (kinds.count(change) for change in (Change.BETTER, Change.WORSE, Change.BEHIND))
    return (
        f"Of {count(known.height, 'change')} (a model on a test set that it was not trained on), {better} are above 0 "
        f"and {worse} below with the false discovery rate at 5%; of the others, {behind} are clearly less than half "
        "the gain on the test set of the training set."
    )

"""The result of ``stability``: fluctuation of runs and models with its verdict, words, columns and figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from breadth.inference import NORMAL
from breadth.results import (
    ALMOST_ALL,
    ALMOST_NONE,
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
)
from breadth.results.columns import MOST_ROWS
from breadth.results.figures import MODEL_COLOURS, Spec, model_colour, nominal, tooltip
from breadth.results.words import FINDING, agree, count, joined, number_word
from breadth.sources import ScoreTable

if TYPE_CHECKING:
    import altair as alt

#: What runs are called together where nothing says which model they are of.
ALL_RUNS = "all runs"

#: What the rows of all test sets together are called.
ALL_TESTSETS = "all test sets"

#: A fluctuation, in points, that is worth knowing of: as much as most differences between models that are reported.
WORTH_KNOWING = 1.0

#: How standard deviations are written: losses need more digits than points.
FORMAT_OF_UNIT = {"points": ".1f", "score": ".3g"}

#: The largest standard deviation, in points, of scores between 0 and 100.
MOST_POSSIBLE = 50.0

#: How many times as large the fluctuation around farther checkpoints must be to be mentioned.
SLOWER = 1.5

#: Models and comparisons that sentences name.
MOST_NAMED = 3

#: Checkpoints in a row that a run needs, and runs of a model before anything can be said of another run.
FEWEST_CHECKPOINTS, ENOUGH_RUNS = 8, 3

#: Last checkpoints whose mean is recommended: it moves half as much as one of them.
AVERAGED = 4

#: Rows that a figure shows.
MOST_SHOWN = 40


class StabilityFlag(StrEnum):
    """Why a fluctuation has no number, or no interval."""

    TOO_FEW_CHECKPOINTS = "too_few_checkpoints"
    CONSTANT = "constant"
    NOISE_UNKNOWN = "noise_unknown"
    ONE_RUN = "one_run"


class NoiseSource(StrEnum):
    """Where the noise of finite test sets is known from."""

    HALVES = "answers"
    COUNTS = "item_counts"
    UNKNOWN = "unknown"


def _model_columns(format: str, interval_of: str = "") -> Columns:
    """Columns of models, or of runs; sizes are written in a format, since losses need more digits than points."""
    another = interval_of or "95% for another run"
    return Columns(
        Column("model", priority=1, meaning="the model"),
        Column("testset", header="test set", priority=1, meaning="the test set; empty for all of them together"),
        Column("sd", header="moves by", format=format, priority=1,
               meaning="how far a score typically lies off the line between its neighbours, beyond chance (a standard "
               "deviation)"),
        Column("ci_low", "ci_high", header=another, format=format, priority=1, meaning="interval of it"),
        Column("least", "most", header="95% interval", format=format, priority=2,
               meaning="interval for the runs that were seen"),
        Column("sure", header="not chance", format="flag", priority=1,
               meaning="whether it is more than the luck of the questions makes"),
        Column("sd_total", header="seen", format=format, priority=2, meaning="the same with chance in it"),
        Column("sd_noise", header="chance", format=format, priority=3,
               meaning="what the luck of the questions makes of it"),
        Column("runs", format="d", priority=3, meaning="training runs behind it"),
        Column("checkpoints", format="d", priority=3, meaning="checkpoints of the run"),
        Column("jumps", format="d", priority=4, meaning="checkpoints left out because the score changed for good"),
        Column("p", format="p", priority=4, meaning="p-value of no movement beyond chance"),
        Column("q", format="p", priority=4, meaning="false discovery rate of it over all test sets"),
        Column("unit", priority=4, meaning="points of accuracy, or the unit of the score"),
        Column("flag", priority=4, meaning="why there is no number or no interval, as a code"),
    )  # fmt: skip


COMPARISONS = Columns(
    Column("testset", header="test set", priority=3, meaning="the test set; empty for all of them together"),
    Column("a", header="first", priority=1, meaning="a model"),
    Column("b", header="second", priority=1, meaning="another model"),
    Column("ratio", header="times", format=".1f", priority=1, meaning="how many times as much the first moves"),
    Column("interval", header="95% interval", priority=1, meaning="interval of that"),
    Column("sure", header="not chance", format="flag", priority=1, meaning="whether the two surely differ"),
    Column("sd_a", format=".2f", priority=4, meaning="how far the first moves"),
    Column("sd_b", format=".2f", priority=4, meaning="how far the second moves"),
    Column("runs_a", format="d", priority=4, meaning="runs of the first"),
    Column("runs_b", format="d", priority=4, meaning="runs of the second"),
    Column("ci_low", format=".2f", priority=4, meaning="lower end of the interval"),
    Column("ci_high", format=".2f", priority=4, meaning="upper end; empty where there is no limit"),
    Column("p", format="p", priority=4, meaning="p-value of no difference"),
    Column("q", format="p", priority=4, meaning="false discovery rate of it"),
    Column("unit", priority=4, meaning="points of accuracy, or the unit of the score"),
)
SCALES = Columns(
    Column("model", priority=1, meaning="the model"),
    Column("testset", header="test set", priority=1, meaning="the test set; empty for all of them together"),
    Column("distance", format="d", priority=1, meaning="how many checkpoints away the neighbours are"),
    Column("sd", header="moves by", priority=1, meaning="how far a score lies off the line between them"),
    Column("unit", priority=4, meaning="points of accuracy, or the unit of the score"),
)


@dataclass(frozen=True)
class Stability(Result):
    """Result of :func:`stability`. Standard deviations are in points where scores are shares (column ``unit``).

    ``models``: ``model, testset, runs, sd_total, sd_noise, sd, ci_low, ci_high, least, most, p, q, unit, flag``, with a
    null ``testset`` for all of them together. ``sd`` is what a typical run of the model fluctuates by, beyond the noise
    of items, with ``ci_low`` to ``ci_high`` for another run: null with a single run, of which ``sd`` then is. These
    very runs fluctuated by ``least`` to ``most``; ``p`` tests that they do not fluctuate beyond noise. ``runs`` has the
    same per run. ``comparisons``: every two models with two runs or more, ``ratio`` of their ``sd`` with its interval
    (null: no upper limit). ``scales``: the fluctuation around checkpoints that are 1, 2 and 4 away, over a model's
    runs. ``q`` is over the test sets of a frame.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {
        "models": _model_columns(""),
        "runs": _model_columns("", "95% interval"),
        "comparisons": COMPARISONS,
        "scales": SCALES,
    }

    models: pl.DataFrame
    runs: pl.DataFrame
    comparisons: pl.DataFrame
    scales: pl.DataFrame
    trajectories: ScoreTable
    noun: str
    noise: NoiseSource
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Every frame by name: models, runs, comparisons, scales."""
        return {"models": self.models, "runs": self.runs, "comparisons": self.comparisons, "scales": self.scales}

    def figure(self) -> alt.TopLevelMixin:
        """Fluctuation of every model and test set with its interval."""
        return as_chart(fluctuation_figure(self.models), tables={"stability": self.models})

    def columns(self, name: str | None = None) -> Columns:
        """What readers see of a frame; columns that name a run follow the model."""
        chosen = name or "models"
        declared = super().columns(chosen)
        if chosen != "runs":
            return declared
        model, *others = declared
        named = [Column(each, priority=1) for each in self.trajectories.by if each != "model"]
        return Columns(model, *named, *others)

    def shown(self) -> Sequence[Shown]:
        """A row per model and test set; then how many times as much one model moves as another."""
        shown = []
        for unit in ("points", "score"):
            frame = self.models.filter(pl.col("unit") == unit)
            if frame.height:
                shown.append(self._sizes_shown(frame, unit))
        whole = self.comparisons.filter(pl.col("testset").is_null())
        if whole.height:
            shown.append(_comparisons_shown(whole))
        return shown

    def _sizes_shown(self, frame: pl.DataFrame, unit: str) -> Shown:
        ordered = frame
        if frame.height > MOST_ROWS:
            # All test sets together first; then where it is largest.
            first = pl.col("testset").is_not_null()
            ordered = frame.sort([first, pl.col("sd")], descending=[False, True], nulls_last=True)
        intervals = []
        for row in ordered.iter_rows(named=True):
            intervals.append(_interval_text(row))
        ignored = []
        for row in ordered.iter_rows(named=True):
            ignored.append(None if row["sd_total"] is None else meaningless_difference(row))
        ordered = ordered.with_columns(
            pl.col("testset").fill_null(ALL_TESTSETS),
            pl.Series("ignored", ignored, dtype=pl.Float64),
            pl.Series("interval", intervals, dtype=pl.String),
            sure=pl.col("q") < FINDING,
        )
        declared = _model_columns(FORMAT_OF_UNIT[unit])
        model, testset, size, *others = declared.without("ci_low", "least")
        header, meaning = "95% interval", "interval for the runs that were seen"
        if ordered["ci_low"].is_not_null().any():
            header, meaning = "95% for another run", "interval for another run; for the one that was seen, if only one"
        interval = Column("interval", header=header, priority=1, meaning=meaning)
        below = Column("ignored", header="ignore below", format=FORMAT_OF_UNIT[unit], priority=1,
                       meaning="differences between two single checkpoints of a run that mean nothing")  # fmt: skip
        columns = Columns(model, testset, below, size, interval, *others).filled(ordered)
        if not self.several:
            columns = columns.without("model")
        title = "How far scores move from one checkpoint to the next"
        if unit == "points":
            title += ", in points"
        return Shown(title, ordered, columns)

    def verdict(self) -> Verdict:
        """How much do scores move from one checkpoint to the next, beyond what the luck of the questions explains?

        The answer is how far two single checkpoints of a run may differ by chance on a typical test set (all of them
        together) of the model that moves most: see :func:`meaningless_difference`. How sure it is that scores move
        follows from single test sets of models (null ``testset`` aside). Such a cell fluctuates if q < 0.05. Decided
        (``State.YES``): at least 90 % do. Hardly at all (``State.NO``): at most 10 % do, and half of the cells
        fluctuate by at most 1 point with 95 % confidence. Open: at most 10 % do, but they might by more; or the noise
        of items is not known. Mixed: otherwise.
        """
        cells = self.models.filter(pl.col("testset").is_not_null())
        known = cells.drop_nulls("q")
        facts: dict[str, float | str] = {}
        if not cells["sd_total"].is_not_null().any():
            facts["checkpoints that it takes"] = FEWEST_CHECKPOINTS
            reason = "No run has enough checkpoints in a row to tell how far its scores move."
            needed = f"It takes {FEWEST_CHECKPOINTS} or more."
            return Verdict(
                Answer.UNKNOWN, reason, needed=needed, computed=False, question=Question.FLUCTUATION, facts=facts
            )
        found = known.filter(pl.col("q") < FINDING)
        quiet = known.height and found.height <= ALMOST_NONE * known.height
        if quiet and float(known["most"].median() or 0) <= WORTH_KNOWING:  # type: ignore[arg-type]
            return self._hardly(known, facts)
        needed = ""
        if not known.height:
            state = State.OPEN
            chance = "How much of it is the luck of the questions is not known."
            needed = "The number of questions of every test set, or single answers, would tell."
        elif found.height >= ALMOST_ALL * known.height:
            state = State.YES
            chance = "The luck of the questions cannot explain this."
        elif quiet:
            state = State.OPEN
            chance = "This may be the luck of the questions alone."
            needed = "More questions per test set would tell."
        else:
            state = State.MIXED
            chance = self._named(found, facts)
        findings = (
            self._who(facts),
            self._where_most(facts),
            chance,
            self._differences(facts),
            self._about_runs(facts),
        )
        return Verdict(
            self._answer(facts),
            self._reason(facts),
            " ".join(filter(None, findings)),
            needed,
            question=Question.FLUCTUATION,
            advice=self._advice(facts),
            state=state,
            facts=facts,
        )

    def _hardly(self, known: pl.DataFrame, facts: dict[str, float | str]) -> Verdict:
        """Hardly any test set moves by more than chance, and one that did would have been seen."""
        most = float(known["most"].median() or 0)  # type: ignore[arg-type]
        facts["half of the test sets move by at most"] = round(most, 1)
        size = f"{most:.1f} points"
        return Verdict(
            f"At most {size}",
            f"Beyond the luck of the questions, scores hardly move from one checkpoint to the next: at most {size} "
            "in half of the test sets (with 95% confidence).",
            self._about_runs(facts),
            question=Question.FLUCTUATION,
            advice="A single checkpoint tells as much as the mean of several.",
            state=State.NO,
            facts=facts,
        )

    @property
    def _whole(self) -> pl.DataFrame:
        """All test sets together, the model that moves most first; what was seen counts, luck of questions included."""
        whole = self.models.filter(pl.col("testset").is_null()).drop_nulls(["sd", "sd_total"])
        return whole.sort("sd_total", descending=True, maintain_order=True)

    def _answer(self, facts: dict[str, float | str]) -> str:
        """How far two checkpoints may differ by chance, in the model that moves most."""
        return f"Up to {self._largest(facts)}"

    def _largest(self, facts: dict[str, float | str]) -> str:
        """The difference that means nothing, in the model that moves most."""
        row = self._whole.row(0, named=True)
        facts["largest difference between single checkpoints that may be mere movement"] = meaningless_difference(row)
        return difference_text(row)

    def _reason(self, facts: dict[str, float | str]) -> str:
        """Which differences between checkpoints mean nothing."""
        where = ""
        if self.models["testset"].drop_nulls().n_unique() > 1:
            where = "on a typical test set, "
        return (
            f"Differences below about {self._largest(facts)} between two single checkpoints mean nothing: "
            f"{where}scores move that much by themselves (in 95% of cases)."
        )

    def _who(self, facts: dict[str, float | str]) -> str:
        """Which model moves most, of which this was said, and which least."""
        whole = self._whole
        if whole.height < 2:
            return ""
        first, last = whole.row(0, named=True), whole.row(-1, named=True)
        if difference_text(first) == difference_text(last):
            every = f"all {self.noun}s"
            if whole.height == 2:
                every = f"both {self.noun}s"
            return f"This holds for {every} alike."
        facts[f"the same in {last['model']}"] = meaningless_difference(last)
        return (
            f"This limit is for {first['model']}, which moves most; for {last['model']}, which moves least, it is "
            f"{difference_text(last)}. The table has the limit of every {self.noun}."
        )

    def _where_most(self, facts: dict[str, float | str]) -> str:
        """On which test set scores move most, and how far two checkpoints may differ there."""
        cells = self.models.filter(pl.col("testset").is_not_null()).drop_nulls("sd_total")
        unit = self._whole["unit"][0]
        cells = cells.filter(pl.col("unit") == unit).sort("sd_total", descending=True, maintain_order=True)
        if cells["testset"].n_unique() < 2:
            return ""
        row = cells.row(0, named=True)
        facts[f"the same on {self._place(row)}"] = meaningless_difference(row)
        return f"On {self._place(row)} it is {difference_text(row)}, the most of all."

    def _named(self, found: pl.DataFrame, facts: dict[str, float | str]) -> str:
        """Where scores surely move by more than chance, where they do not everywhere."""
        names = found.sort("sd", descending=True)["testset"].unique(maintain_order=True).to_list()
        facts["more test sets that move by more than chance"] = max(len(names) - MOST_NAMED, 0)
        return f"The choice of questions alone cannot explain this on {joined(names, MOST_NAMED)}; elsewhere it may."

    def _place(self, row: Mapping[str, Any]) -> str:
        """A test set, and the model where there are several."""
        return f"{row['testset']} in {row['model']}" if self.several else str(row["testset"])

    def _differences(self, facts: dict[str, float | str]) -> str:
        """Which models differ, over all test sets."""
        whole = self.comparisons.filter(pl.col("testset").is_null())
        if not whole.height:
            return ""
        found = whole.filter(pl.col("q") < FINDING).sort("p")
        if not found.height:
            return ""
        parts = []
        for row in found.head(MOST_NAMED).iter_rows(named=True):
            parts.append(ratio_text(row, facts))
        more = found.height - len(parts)
        if more:
            facts["more pairs that differ"] = more
            parts.append(f"{count(more, 'more pair')} of {self.noun}s differ as well")
        return f"{'; '.join(parts)}."

    def _advice(self, facts: dict[str, float | str]) -> str:
        """How many checkpoints to average, and which differences mean nothing even then."""
        row = self._whole.row(0, named=True)
        if self._slower():
            # Neighbouring checkpoints then move together, so that averaging them removes less than half.
            return (
                "Compare runs only by differences above the limit of their model. Averaging neighbouring checkpoints "
                "hardly lowers it here, because scores swing slowly; more runs of each model would."
            )
        facts["checkpoints to average"] = AVERAGED
        facts["the same between averages"] = meaningless_difference(row, sqrt(AVERAGED))
        return (
            f"Average the last {AVERAGED} checkpoints of a run before you compare. Then only differences below "
            f"{difference_text(row, sqrt(AVERAGED))} mean nothing."
        )

    def _about_runs(self, facts: dict[str, float | str]) -> str:
        """What cannot be said of another run of a model of which there are one or two."""
        whole = self._whole.filter(pl.col("runs") < ENOUGH_RUNS)
        if not whole.height:
            return ""
        facts["runs that it takes"] = ENOUGH_RUNS
        most = int(whole["runs"].max())  # type: ignore[arg-type]
        number = "one run"
        if most > 1:
            number = f"only {number_word(most)} runs"
        if whole["runs"].n_unique() > 1:
            number = f"only one or {number_word(most)} runs"
        of = ""
        if self.several:
            of = f" of {joined(whole['model'].to_list(), MOST_NAMED)}"
            if whole.height == self.models["model"].n_unique():
                of = f" of each {self.noun}"
        verb = agree(most, "is", "are")
        enough = number_word(ENOUGH_RUNS)
        return f"There {verb} {number}{of}, so another run may move much more or less; {enough} or more would tell."

    @property
    def read_as(self) -> tuple[str, ...]:
        """How the table was read, where that was not given."""
        trajectories = self.trajectories
        if not trajectories.reading.lines():
            return ()
        runs, names = self.runs.select(trajectories.by).n_unique(), trajectories.testsets
        by = f" ({', '.join(trajectories.by)})" if trajectories.by else ""
        return (
            f"{count(runs if by else 1, 'run')}{by} over {trajectories.order}; test sets: {joined(names, 6)}",
            "wrong? --by, --order, --testsets",
        )

    @property
    def several(self) -> bool:
        """Whether there are several models."""
        return bool(self.models["model"].n_unique() > 1)

    def details(self) -> str:
        """What was measured, how noise is known, whether there are slower swings, and what was left out."""
        parts = [
            "How far scores move is the standard deviation of a score around the line between the checkpoints before "
            "and after it; a steady rise counts as none."
        ]
        share = self.models.filter(pl.col("testset").is_null()).drop_nulls(["sd_total", "sd_noise"])
        if share.height:
            part = float(((share["sd_noise"] / share["sd_total"]) ** 2).median())  # type: ignore[arg-type]
            parts.append(f"Of the variance that is seen, {min(part, 1):.0%} is noise of the questions (median).")
        if self.noise is NoiseSource.COUNTS:
            parts.append(
                "That noise follows from the number of questions, as if they were other ones at every checkpoint. With "
                "the same ones it is smaller, so scores may move more than said here; intervals allow for it."
            )
            parts += self._too_quiet()
        slower = self._slower()
        if slower:
            parts.append(slower)
        jumps = int(self.runs.filter(pl.col("testset").is_null())["jumps"].sum() or 0)
        if jumps:
            parts.append(
                f"{count(jumps, 'checkpoint')} (test sets counted one by one) at which a score changed its level for "
                "good are left out: that is learning."
            )
        return " ".join(parts)

    def _too_quiet(self) -> list[str]:
        """Test sets that move less than fresh questions would: then the same ones were used throughout."""
        cells = self.models.filter(pl.col("testset").is_not_null(), pl.col("sd_total") < 0.8 * pl.col("sd_noise"))
        names = cells["testset"].unique(maintain_order=True).to_list()
        if not names:
            return []
        return [f"It is clearly smaller for {joined(names, 4)}, which move less than it alone would make them."]

    def _slower(self) -> str:
        """Whether scores move more around checkpoints that are farther away."""
        whole = self.scales.filter(pl.col("testset").is_null()).drop_nulls("sd")
        wide = whole.pivot(on="distance", index="model", values="sd")
        if "1" not in wide.columns or wide.columns[-1] == "1":
            return ""
        far = wide.columns[-1]
        times = wide.filter(pl.col("1") > 0).select((pl.col(far) / pl.col("1")).alias("times"))["times"].median()
        if times is None or float(times) < SLOWER:  # type: ignore[arg-type]
            return ""
        return (
            f"Around checkpoints {far} apart, scores move {float(times):.1f} times as much (median): there are slower "  # type: ignore[arg-type]
            "swings, or bends of the learning curve, which do not count here (`scales`)."
        )


def meaningless_difference(row: Mapping[str, Any], divided: float = 1.0) -> float:
    """The largest difference between two checkpoints that movement alone makes, as it is written: with two digits.

    Two checkpoints of a run that moves by sd differ by at most 1.96 sqrt(2) sd with a probability of 95 %, though
    neither is better. What was seen counts, with the luck of the questions. Means of n checkpoints differ by sqrt(n)
    less (``divided``).
    """
    return float(f"{NORMAL * sqrt(2) * row['sd_total'] / divided:.2g}")


def difference_text(row: Mapping[str, Any], divided: float = 1.0) -> str:
    """The same with its unit."""
    size = _difference_size(meaningless_difference(row, divided), row)
    if row["unit"] == "points":
        return "1 point" if size == "1" else f"{size} points"
    return size


def _difference_size(value: float, row: Mapping[str, Any]) -> str:
    """A difference with two digits; points have no more than one decimal."""
    if row["unit"] == "points" and value >= 1:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:g}"


def _interval_text(row: Mapping[str, Any]) -> str | None:
    """The interval for another run, or of the only one; without an upper end that no score can reach."""
    low, high = row["ci_low"], row["ci_high"]
    if low is None:
        low, high = row["least"], row["most"]
    if low is None or high is None:
        return None
    if row["unit"] == "points" and high > MOST_POSSIBLE:
        return f"{_size(low, row)} or more"
    return f"{_size(low, row)} to {_size(high, row)}"


def _size(value: float, row: Mapping[str, Any]) -> str:
    """A standard deviation in the digits of its unit."""
    return format(value, FORMAT_OF_UNIT[row["unit"]])


def ratio_text(row: Mapping[str, Any], facts: dict[str, float | str]) -> str:
    """How many times as much one model moves as the other, the larger one first."""
    first, second = row["a"], row["b"]
    ratio, low, high = row["ratio"], row["ci_low"], row["ci_high"]
    if row["sd_a"] < row["sd_b"]:
        first, second = second, first
        ratio, low, high = _inverse(ratio), _inverse(high), _inverse(low)
    pair = f"times as much as {second}"
    if ratio is not None and high is not None:
        facts[f"{first}: {pair}"] = round(ratio, 1)
        facts[f"{first}: {pair}, at least"] = round(low or 0, 1)
        facts[f"{first}: {pair}, at most"] = round(high, 1)
        return f"{first} moves {ratio:.1f} {pair} ({low or 0:.1f} to {high:.1f})"
    if low:
        facts[f"{first}: {pair}, at least"] = round(low, 1)
        return f"{first} moves at least {low:.1f} {pair}"
    return f"{first} moves more than {second}"


def _inverse(ratio: float | None) -> float | None:
    """How many times as large the other one is; None where that has no limit."""
    if not ratio:
        return None
    return 1 / ratio


def _comparisons_shown(whole: pl.DataFrame) -> Shown:
    """A row per two models, over all test sets, the clearest first where there are many."""
    ordered = whole
    if whole.height > MOST_ROWS:
        ordered = whole.sort("p", nulls_last=True)
    intervals: list[str | None] = []
    for low, high in ordered.select("ci_low", "ci_high").iter_rows():
        if low is None and high is None:
            intervals.append(None)
        elif high is None:
            intervals.append(f"{low or 0:.1f} or more")
        else:
            intervals.append(f"{low or 0:.1f} to {high:.1f}")
    ordered = ordered.with_columns(pl.Series("interval", intervals, dtype=pl.String), sure=pl.col("q") < FINDING)
    title = "How many times as much the first moves as the second, all test sets"
    return Shown(title, ordered, COMPARISONS.without("testset").filled(ordered))


def fluctuation_figure(models: pl.DataFrame, table: str = "stability") -> Figure:
    """Standard deviation with its interval per test set, a colour per model; per model alone where there are many."""
    names = models["model"].unique(maintain_order=True).to_list()
    many = len(names) > MODEL_COLOURS
    testsets = [name or ALL_TESTSETS for name in models["testset"].unique(maintain_order=True)]
    tips = tooltip(
        ("model", "model"), ("cell", "test set"), ("sd", "beyond noise", ".2f"), ("ci_low", "from", ".2f"),
        ("ci_high", "to", ".2f"), ("sd_total", "seen", ".2f"), ("sd_noise", "noise", ".2f"), ("runs", "runs", "d"),
        ("q", "q", ".2g"),
    )  # fmt: skip
    unit = "points" if "points" in set(models["unit"]) else "units of the score"
    x = {
        "field": "sd",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"title": f"standard deviation, {unit}", "tickCount": 8},
    }
    transform: list[Spec] = [
        {"calculate": f"datum.testset == null ? '{ALL_TESTSETS}' : datum.testset", "as": "cell"},
        {"calculate": f"isValid(datum.q) && datum.q < {FINDING}", "as": "sure"},
        {"filter": f"datum.unit == '{'points' if unit == 'points' else 'score'}'"},
    ]
    if many:
        whole = models.filter(pl.col("testset").is_null()).sort("sd", descending=True, nulls_last=True)
        shown = whole["model"].to_list()[:MOST_SHOWN]
        encoding: Spec = {"y": nominal("model", shown, labelLimit=220)}
        transform.append({"filter": "datum.testset == null"})
        transform.append({"filter": {"field": "model", "oneOf": shown}})
        height: Spec = {"step": 18}
    else:
        encoding = {"y": nominal("cell", testsets, labelLimit=220), "color": model_colour(names)}
        if len(names) > 1:
            encoding["yOffset"] = {"field": "model", "type": "nominal", "sort": names}
        height = {"step": max(18, 11 * len(names) + 4), "for": "position"}
    spec: Spec = {
        "data": {"name": table},
        "transform": transform,
        "usermeta": {"most": 620},
        "width": "container",
        "height": height,
        "encoding": encoding,
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "ci_low"}, "x2": {"field": "ci_high"}, "tooltip": tips},
            },
            *(
                {
                    "transform": [{"filter": "datum.sure" if sure else "!datum.sure"}],
                    "mark": {"type": "point", "filled": sure, "opacity": 1, "size": 55},
                    "encoding": {"x": x, "tooltip": tips},
                }
                for sure in (True, False)
            ),
        ],
    }
    caption = (
        "How far scores lie from the line between the checkpoints before and after, beyond the luck of the questions; "
        "95% intervals for another run, where there are several. Filled: more than chance."
    )
    return Figure("stability", "Fluctuation during training", caption, spec, table)

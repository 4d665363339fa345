"""The result of ``stability``: fluctuation of runs and models with its verdict, words, terminal tables and figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.results import ALMOST_ALL, ALMOST_NONE, Answer, Figure, Result, Verdict, as_chart
from breadth.results.figures import MODEL_COLOURS, Spec, model_colour, nominal, tooltip
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, number_text, probability_text
from breadth.results.words import FINDING, count, joined
from breadth.sources import ScoreTable

if TYPE_CHECKING:
    import altair as alt

#: What runs are called together where nothing says which model they are of.
ALL_RUNS = "all runs"

#: What the rows of all test sets together are called.
ALL_TESTSETS = "all test sets"

#: A fluctuation, in points, that is worth knowing of: as much as most differences between models that are reported.
WORTH_KNOWING = 1.0

#: How many times as large the fluctuation around farther checkpoints must be to be mentioned.
SLOWER = 1.5

#: Models and comparisons that sentences name.
MOST_NAMED = 3

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

    def verdict(self) -> Verdict:
        """Do scores fluctuate during training by more than the choice of items explains?

        From single test sets of models (null ``testset`` aside). Such a cell fluctuates if q < 0.05. Yes: at least 90 %
        do. No: at most 10 % do, and half of the cells fluctuate by at most 1 point with 95 % confidence. Not enough
        data: at most 10 % do, but they might by more; or the noise of items is not known. It depends: otherwise.
        """
        cells = self.models.filter(pl.col("testset").is_not_null())
        known = cells.drop_nulls("q")
        needed = self._about_runs()
        if not cells["sd_total"].is_not_null().any():
            reason = "no run has enough checkpoints in a row to tell how far its scores fluctuate (8 are needed)."
            return Verdict(Answer.UNKNOWN, reason, computed=False)
        lines = " ".join(line for line in (self._sizes(), self._differences()) if line)
        if not known.height:
            reason = (
                "scores move up and down, but how many questions the test sets have is not known, so this may be noise."
            )
            return Verdict(
                Answer.UNKNOWN, reason, lines, f"Give --item-counts, or answers question by question. {needed}"
            )
        found = known.filter(pl.col("q") < FINDING).height
        cell = "test sets" if cells["model"].n_unique() == 1 else f"cells ({self.noun} x test set)"
        counted = f"{found} of {known.height} {cell}"
        more = "from one checkpoint to the next by more than the choice of questions explains"
        if found >= ALMOST_ALL * known.height:
            return Verdict(Answer.YES, f"scores fluctuate {more}: {counted}.", lines, needed)
        if found > ALMOST_NONE * known.height:
            return Verdict(Answer.DEPENDS, f"scores fluctuate {more} in {counted}.", lines, needed)
        most = float(known["most"].median() or 0)  # type: ignore[arg-type]
        if most <= WORTH_KNOWING:
            reason = f"scores hardly fluctuate {more}: {counted}, and half of them by at most {most:.1f} points."
            return Verdict(Answer.NO, reason, lines, needed)
        reason = (
            f"whether scores fluctuate {more} is open: {counted} do, but half of the others might by {most:.1f} points "
            "or more."
        )
        return Verdict(Answer.UNKNOWN, reason, lines, f"More questions per test set would tell. {needed}".strip())

    def _sizes(self) -> str:
        """How far every model fluctuates over all test sets, the most first, and where it is most."""
        whole = self.models.filter(pl.col("testset").is_null()).drop_nulls("sd").sort("sd", descending=True)
        parts = []
        for row in whole.head(MOST_NAMED).iter_rows(named=True):
            size = f"{fluctuation_text(row)}"
            if row["ci_low"] is not None:
                size += f" ({row['ci_low']:.1f} to {row['ci_high']:.1f})"
            parts.append(f"{row['model']} {size}" if self.several else size)
        if not parts:
            return ""
        rest = f", and {whole.height - MOST_NAMED} more" if whole.height > MOST_NAMED else ""
        text = f"Standard deviation around neighbouring checkpoints, over all test sets: {'; '.join(parts)}{rest}."
        single = self.models.filter(pl.col("testset").is_not_null(), pl.col("q") < FINDING).sort("sd", descending=True)
        if single.height > 1:
            row = single.row(0, named=True)
            text += f" Most: {row['testset']}{' in ' + row['model'] if self.several else ''} ({fluctuation_text(row)})."
        return text

    def _differences(self) -> str:
        """Which models differ, over all test sets."""
        whole = self.comparisons.filter(pl.col("testset").is_null())
        if not whole.height:
            return ""
        found = whole.filter(pl.col("q") < FINDING).sort("p")
        if not found.height:
            return f"No two {self.noun}s clearly differ in this."
        parts = [ratio_text(row) for row in found.head(MOST_NAMED).iter_rows(named=True)]
        rest = f" {count(found.height, 'pair')} of {whole.height} differ." if whole.height > 1 else ""
        return f"{'; '.join(parts)}.{rest}"

    def _about_runs(self) -> str:
        """What cannot be said of a model of which there is one run."""
        whole = self.models.filter(pl.col("testset").is_null())
        alone = whole.filter(pl.col("runs") == 1)["model"].to_list()
        if not alone:
            return ""
        if len(alone) == whole.height:
            which = "the run" if whole.height == 1 else f"single runs of {count(whole.height, self.noun)}"
            return f"This is about {which}: another run may fluctuate more or less. It takes 3 runs or more to say."
        return f"Of {joined(alone, 4)} there is a single run; another may fluctuate more or less."

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
            "A fluctuation is how far a score lies from the line between the checkpoints before and after it; a steady "
            "rise is none."
        ]
        share = self.models.filter(pl.col("testset").is_null()).drop_nulls(["sd_total", "sd_noise"])
        if share.height:
            part = float(((share["sd_noise"] / share["sd_total"]) ** 2).median())  # type: ignore[arg-type]
            parts.append(
                f"Of the squared fluctuation that is seen, {min(part, 1):.0%} is noise of the questions (median)."
            )
        if self.noise is NoiseSource.COUNTS:
            parts.append(
                "That noise follows from the number of questions, as if they were other ones at every checkpoint. With "
                "the same ones it is smaller, so scores may fluctuate by more than said here; intervals allow for it."
            )
            parts += self._too_quiet()
        slower = self._slower()
        if slower:
            parts.append(slower)
        jumps = int(self.runs.filter(pl.col("testset").is_null())["jumps"].sum() or 0)
        if jumps:
            parts.append(
                f"{count(jumps, 'checkpoint')} (test sets counted one by one) at which a score changed its level for "
                "good are left out: that is learning, not fluctuation."
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
            "swings, or bends of the learning curve, that the figures above do not count (`scales`)."
        )


stability_verdict = Stability.verdict


def fluctuation_text(row: Mapping[str, Any]) -> str:
    """A standard deviation with its unit."""
    return f"{row['sd']:.1f} points" if row["unit"] == "points" else f"{row['sd']:.3g}"


def ratio_text(row: Mapping[str, Any]) -> str:
    """How many times as much one model fluctuates as the other, the larger one first."""
    first, second, ratio, low, high = (row[name] for name in ("a", "b", "ratio", "ci_low", "ci_high"))
    if row["sd_a"] < row["sd_b"]:
        first, second = second, first
        ratio = 1 / ratio if ratio else None
        low, high = (1 / high if high else None), (1 / low if low else None)
    if ratio is not None and high is not None:
        return f"{first} fluctuates {ratio:.1f} times as much as {second} ({low or 0:.1f} to {high:.1f})"
    if low:
        return f"{first} fluctuates at least {low:.1f} times as much as {second}"
    return f"{first} fluctuates more than {second}"


def models_table(models: pl.DataFrame, width: int = WIDTH, noun: str = "model") -> Table:
    """A row per model and test set: the standard deviation beyond noise in bold where it is a finding."""
    title = "Fluctuation around neighbouring checkpoints, standard deviation"
    if set(models["unit"]) == {"points"}:
        title += " in points"
    shown = models
    if models.height > MOST_ROWS:
        # All test sets together first; then where it is largest.
        shown = models.sort([pl.col("testset").is_not_null(), pl.col("sd")], descending=[False, True], nulls_last=True)
        shown = shown.head(MOST_ROWS)
        title += f": {MOST_ROWS} of {models.height:,} rows"
    numbers = ["runs", "seen", "noise", "beyond", "95% interval", "q"]
    table = make_table(title, [noun, "test set"], numbers, width, least=["runs", "noise", "seen"])
    for row in shown.iter_rows(named=True):
        sure = row["q"] is not None and row["q"] < FINDING
        digits = 1 if row["unit"] == "points" else 3
        ends = "-"
        if row["ci_low"] is not None:
            ends = f"{row['ci_low']:.{digits}f} to {row['ci_high']:.{digits}f}"
        table.add_row(
            Text(row["model"]),
            Text(row["testset"] or ALL_TESTSETS),
            str(row["runs"]),
            number_text(row["sd_total"], digits),
            number_text(row["sd_noise"], digits),
            Text(number_text(row["sd"], digits), style="bold" if sure else ""),
            ends,
            probability_text(row["q"]),
        )
    return table


def comparisons_table(comparisons: pl.DataFrame, width: int = WIDTH) -> Table:
    """A row per two models, over all test sets: how many times as much the first fluctuates."""
    whole = comparisons.filter(pl.col("testset").is_null())
    title = "How many times as much the first fluctuates as the second, all test sets"
    if whole.height > MOST_ROWS:
        whole = whole.sort("p", nulls_last=True).head(MOST_ROWS)
        title += f": the {MOST_ROWS} clearest"
    table = make_table(title, ["first", "second"], ["times", "95% interval", "q"], width)
    for row in whole.iter_rows(named=True):
        sure = row["q"] is not None and row["q"] < FINDING
        high = "any" if row["ci_high"] is None else f"{row['ci_high']:.1f}"
        low = "0.0" if row["ci_low"] is None else f"{row['ci_low']:.1f}"
        table.add_row(
            Text(row["a"]),
            Text(row["b"]),
            Text(number_text(row["ratio"], 1), style="bold" if sure else ""),
            f"{low} to {high}",
            probability_text(row["q"]),
        )
    return table


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
        "axis": {"title": f"standard deviation, {unit}"},
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
        "How far scores lie from the line between the checkpoints before and after, beyond the noise of the questions; "
        "95% intervals for another run, where there are several. Filled: a finding (false discovery rate below 5%)."
    )
    return Figure("stability", "Fluctuation during training", caption, spec, table)

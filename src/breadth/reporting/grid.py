"""The first table of a page: models x test sets with gains of training runs, or with levels of what was evaluated once.

Every cell has its interval, its colour, and what is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from breadth.reporting.accuracy import ALL_MODELS, with_same_start
from breadth.reporting.data import ReportData
from breadth.reporting.names import short_names
from breadth.reporting.sources import PLAIN_SCORE
from breadth.reporting.standings import row_noun, set_columns
from breadth.results.words import FINDING, count
from breadth.sources import UNNAMED

#: Rows that a reader sees at first, and those that the page holds: a leaderboard may have thousands.
FIRST_ROWS, MOST_ROWS = 12, 100

#: Test sets that the table has: the page holds the others as a file.
MOST_COLUMNS = 40

#: Models up to which more test sets than this stand below each other.
FEW_MODELS, MANY_SETS = 3, 10

#: A gain of which a cell is as strong as cells get, and the least strength of a cell that is not clear.
STRONG_GAIN = 0.3

#: A lead over the worst of a column of which a cell is as strong as cells get.
STRONG_DIFFERENCE = 0.25


@dataclass(frozen=True)
class Cell:
    """A number as the page writes it; ``heat`` from -1 to 1 is its colour, ``value`` what sorts it."""

    text: str = ""
    interval: str = ""
    value: float | None = None
    heat: float = 0.0
    clear: bool = False
    panel: Mapping[str, str] | None = None
    words: str = ""


@dataclass(frozen=True)
class GridRow:
    """A model, or the mean of all."""

    name: str
    cells: Sequence[Cell]
    label: str = ""
    is_mean: bool = False


@dataclass(frozen=True)
class Head:
    """A test set above its column, with the kind of its shift."""

    name: str
    label: str
    shift: str = ""


@dataclass(frozen=True)
class ScoreGrid:
    """The table with its heading and the line that says how to read it."""

    title: str
    hint: str
    heads: Sequence[Head]
    rows: Sequence[GridRow]
    noun: str = "model"
    left_out: Sequence[str] = field(default_factory=tuple)

    @property
    def first_rows(self) -> int:
        """Rows that are seen before the reader asks for all."""
        return FIRST_ROWS if len(self.rows) > FIRST_ROWS + 3 else len(self.rows)


def score_grid(data: ReportData) -> ScoreGrid | None:
    """The table of a report; None where there are no scores, as for a calibration."""
    if "profile" not in data.tables:
        return None
    if "standings" in data.page_tables:
        return _standings_grid(data)
    gains = data.table("gains")
    if gains.height:
        return _gains_grid(data, gains)
    return _levels_grid(data)


def _heads(data: ReportData, testsets: Sequence[str]) -> list[Head]:
    short = short_names(testsets)
    short |= {UNNAMED: "% right"} if data.about.measure == "accuracy" else {}
    return [Head(name, short[name], data.about.shifts.get(name) or "") for name in testsets]


def _panel(data: ReportData, model: str | None, testset: str) -> dict[str, str] | None:
    """What a cell opens: the items of the test set, those that the model fails first; else its course."""
    if data.table("items").height:
        panel = {"panel": "items", "testset": testset}
        return panel | {"first": model} if model else panel
    if "trajectories" in data.tables:
        panel = {"panel": "course", "testset": testset}
        return panel | {"model": model} if model else panel
    return None


def _change_text(value: float, share: bool) -> str:
    text = f"{100 * value:+.0f}" if share else f"{value:+.2g}"
    return _with_minus(text)


def _with_minus(text: str) -> str:
    """A number with the sign of a sentence; nothing is less or more than 0 by 0."""
    if text in ("+0", "-0"):
        return "0"
    return text.replace("-", "−")


def _gain_cell(data: ReportData, row: Mapping[str, Any], strong: float) -> Cell:
    share = data.about.share and row["testset"] in data.about.comparable
    gain, low, high = row["gain"], row["ci_low"], row["ci_high"]
    if gain is None:
        return Cell()
    interval, clear = "", False
    if low is not None:
        ends = (f"{100 * low:.0f}", f"{100 * high:.0f}") if share else (f"{low:.2g}", f"{high:.2g}")
        interval = " to ".join(map(_with_minus, ends))
        clear = low > 0 or high < 0
    # The same rule as that of the verdict: on test sets that were not trained on, all cells are judged together.
    if row.get("q") is not None and not row["in_domain"]:
        clear = row["q"] < FINDING
    heat = max(-1.0, min(1.0, gain / strong)) if share else 0.0
    if low is not None and not clear:
        heat *= 0.35
    model = None if row["model"] == ALL_MODELS or not data.facts["models"] else row["model"]
    text = _change_text(gain, share)
    words = f"{row['model']} on {row['testset']}: {text}" + (f", 95% interval {interval}" if interval else "")
    return Cell(text, interval, gain, heat, clear, _panel(data, model, row["testset"]), words)


def _gains_grid(data: ReportData, gains: pl.DataFrame) -> ScoreGrid:
    """Points gained from the first to the last checkpoint; a row per model, and per training set."""
    testsets = [name for name in data.about.testsets if name in gains["testset"]]
    several = gains.select("model", "train_set").n_unique() > gains["model"].n_unique()
    comparable = gains.filter(pl.col("testset").is_in(data.about.comparable))
    strong = max(STRONG_GAIN, float(comparable["gain"].abs().max() or 0))  # type: ignore[arg-type]
    rows: list[GridRow] = []
    means: list[GridRow] = []
    for (model, train_set), own in gains.group_by(["model", "train_set"], maintain_order=True):
        cells = {row["testset"]: _gain_cell(data, row, strong) for row in own.iter_rows(named=True)}
        is_mean = model == ALL_MODELS
        name = f"{model} · {train_set or 'untrained'}" if several else str(model)
        if is_mean:
            name = f"mean of {count(own['runs'].max() or 0, 'model')}"  # type: ignore[arg-type]
        elif not data.facts["models"]:
            name = _unnamed(data)
            rows += _run_rows(data, testsets, strong)
            is_mean = len(rows) > 0
        row = GridRow(name, [cells.get(testset, Cell()) for testset in testsets], name, is_mean)
        (means if is_mean else rows).append(row)
    measure = "score" if data.about.measure == PLAIN_SCORE else data.about.measure_words
    unit = f"Points of {measure}" if data.about.share else measure
    if measure == "score" and data.about.share:
        unit = "Points"
    intervals = any(cell.interval for row in (*rows, *means) for cell in row.cells)
    sure = " Small: 95% interval. Bold: clearly different from 0." if intervals else ""
    behind = " Choose a cell for what is behind it." if rows and rows[0].cells and rows[0].cells[0].panel else ""
    title = "What changed from the first to the last checkpoint"
    noun = "model" if data.facts["models"] else "run"
    return _finished(data, ScoreGrid(title, f"{unit} gained.{sure}{behind}", (), [*means, *rows], noun), testsets)


def _run_rows(data: ReportData, testsets: Sequence[str], strong: float) -> list[GridRow]:
    """What every run of a table gained that names no models: those that begin together, so that they compare."""
    curves = data.table("trajectories").drop_nulls("step").sort("step", maintain_order=True)
    score = pl.col(data.about.measure)
    ends = curves.group_by("run", "testset", maintain_order=True).agg(
        first_step=pl.col("step").first(), checkpoints=pl.len(), gain=score.last() - score.first()
    )
    ends = with_same_start(ends.filter(pl.col("checkpoints") > 1))
    if not 1 < ends["run"].n_unique() <= MOST_ROWS:
        return []
    known = {"ci_low": None, "ci_high": None, "q": None, "in_domain": False}
    rows = []
    for (run,), own in ends.group_by("run", maintain_order=True):
        cells = {}
        for row in own.iter_rows(named=True):
            cell = _gain_cell(data, {**row, **known, "model": str(run)}, strong)
            # What lies behind it is the course of all runs: the panel has no single one.
            cells[row["testset"]] = replace(cell, panel=_panel(data, None, row["testset"]))
        rows.append(GridRow(str(run), [cells.get(testset, Cell()) for testset in testsets], str(run)))
    return rows


def _unnamed(data: ReportData) -> str:
    if data.facts["runs"] > 1:
        return f"mean of {count(data.facts['runs'], 'run')}"
    for name in data.scores.by if not data.has_answers else ():
        return str(data.scores.frame[name][0])
    return "run"


def _level_cell(value: float | None, low: float | None, high: float | None, share: bool, **known: Any) -> Cell:
    if value is None:
        return Cell()
    text = f"{100 * value:.1f}" if share else f"{value:.3g}".replace("-", "−")
    interval = ""
    if low is not None and high is not None and share:
        interval = f"{100 * low:.0f} to {100 * high:.0f}"
    return Cell(text, interval, value, **known)


def _levels_grid(data: ReportData) -> ScoreGrid:
    """How many answers are right, for what was evaluated once."""
    profile, measure = data.table("profile").filter(when="after"), data.about.measure
    testsets = [name for name in data.about.testsets if name in profile["testset"]]
    best, worst = _extremes(profile.select("testset", pl.col(measure).alias("score")))
    several = profile.select("model", "train_set").n_unique() > profile["model"].n_unique()
    ranked = profile.group_by("model", "train_set", maintain_order=True).agg(pl.col(measure).mean().alias("mean"))
    ranked = ranked.sort("mean", descending=True, nulls_last=True, maintain_order=True).head(MOST_ROWS)
    known = profile.join(ranked.select("model", "train_set"), on=["model", "train_set"], nulls_equal=True)
    parts = known.partition_by("model", "train_set", as_dict=True)
    rows = []
    for key in ranked.select("model", "train_set").iter_rows():
        model, train_set = key
        cells = {}
        for row in parts[key].iter_rows(named=True):
            share = data.about.share and row["testset"] in data.about.comparable
            value, testset = row[measure], row["testset"]
            words = f"{model} on {testset}"
            cells[testset] = _level_cell(
                value, row["ci_low"], row["ci_high"], share, heat=_place(value, worst.get(testset), best.get(testset)),
                clear=_is_best(value, testset, best, ranked.height), panel=_panel(data, model, testset), words=words,
            )  # fmt: skip
        name = f"{model} · {train_set or 'untrained'}" if several else str(model)
        rows.append(GridRow(name, [cells.get(testset, Cell()) for testset in testsets], name))
    unit = "% right" if measure == "accuracy" else data.about.measure_words
    total = profile.select("model", "train_set").n_unique()
    return _finished(data, ScoreGrid("Scores", _levels_hint(unit, rows, total), (), rows), testsets)


def _standings_grid(data: ReportData) -> ScoreGrid:
    """The models of a table of scores, the best mean first."""
    frame = data.page_tables["standings"]
    columns = set_columns(data.scores)
    testsets = [name for name in data.about.comparable if name in columns]
    # What is no accuracy comes last, and its numbers have no colour that would compare them with the others.
    testsets += [name for name in data.about.others if name in columns]
    long = frame.select(columns.values()).unpivot(variable_name="testset", value_name="score")
    best, worst = _extremes(long)
    rows = []
    for row in frame.head(MOST_ROWS).iter_rows(named=True):
        cells = []
        for testset in testsets:
            column = columns[testset]
            value, share = row[column], data.about.share and testset in data.about.comparable
            worst_score = worst.get(column) if share or not data.about.share else None
            heat, clear = _place(value, worst_score, best.get(column)), _is_best(value, column, best, 2)
            cells.append(_level_cell(value, None, None, share, heat=heat, clear=clear))
        rows.append(GridRow(row["model"], cells, row["model"]))
    unit = "Scores in %" if data.about.share else "Scores"
    hint = _levels_hint(unit, rows, frame.height)
    return _finished(data, ScoreGrid("Scores", hint, (), rows, row_noun(data.scores)), testsets)


def _levels_hint(unit: str, rows: Sequence[GridRow], total: int) -> str:
    hint = f"{unit[0].upper()}{unit[1:]}."
    if any(cell.interval for row in rows for cell in row.cells):
        hint += " Small: 95% interval."
    if len(rows) > 1:
        hint += " The darker, the better within a column; bold: the best of it."
    if rows and rows[0].cells and rows[0].cells[0].panel:
        hint += " Choose a cell for its questions."
    if total > len(rows):
        hint += f" The best {len(rows)} of {total:,} by their mean."
    return hint


def _extremes(long: pl.DataFrame) -> tuple[dict[str, float], dict[str, float]]:
    """The best and the worst score of every test set."""
    ends = long.drop_nulls("score").group_by("testset").agg(pl.col("score").max().alias("best"), pl.col("score").min())
    return dict(ends.select("testset", "best").iter_rows()), dict(ends.select("testset", "score").iter_rows())


def _place(value: float | None, worst: float | None, best: float | None) -> float:
    """Where a score is between the worst and the best of its test set."""
    if value is None or worst is None or best is None or best <= worst:
        return 0.0
    return (value - worst) / max(best - worst, STRONG_DIFFERENCE)


def _is_best(value: float | None, key: str, best: Mapping[str, float], rows: int) -> bool:
    return rows > 1 and value is not None and value == best.get(key)


def _finished(data: ReportData, grid: ScoreGrid, testsets: Sequence[str]) -> ScoreGrid:
    """The table with its heads and with short names; few models on many test sets stand in columns."""
    short = short_names([row.name for row in grid.rows if not row.is_mean])
    heads = _heads(data, testsets)
    if len(grid.rows) <= FEW_MODELS and len(testsets) > MANY_SETS:
        columns = [Head(row.name, short.get(row.name, row.name)) for row in grid.rows]
        rows = []
        for place, head in enumerate(heads[:MOST_ROWS]):
            rows.append(GridRow(head.name, [row.cells[place] for row in grid.rows], head.label))
        rows.sort(key=lambda row: -(row.cells[0].value if row.cells[0].value is not None else -float("inf")))
        return ScoreGrid(grid.title, grid.hint, columns, rows, "test set", testsets[MOST_ROWS:])
    rows = []
    for row in grid.rows:
        rows.append(GridRow(row.name, row.cells[:MOST_COLUMNS], short.get(row.name, row.name), row.is_mean))
    return ScoreGrid(grid.title, grid.hint, heads[:MOST_COLUMNS], rows, grid.noun, testsets[MOST_COLUMNS:])

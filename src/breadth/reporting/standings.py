"""Models of a table of scores that were evaluated once: who leads, and where everybody stands.

Without single answers nobody can tell a lead from chance, so ranks have no intervals here; a study has them
(:class:`breadth.comparison.Ranking`).
"""

from __future__ import annotations

import json

import polars as pl

from breadth.reporting.accuracy import MODEL_COLUMNS
from breadth.reporting.data import ReportData
from breadth.reporting.sources import ScoreKind, kinds_of_scores
from breadth.results import Control, Figure, Question, State, Verdict
from breadth.results.figures import Spec, tooltip
from breadth.results.words import count, joined
from breadth.sources import ScoreTable

#: Models that the figures name: the best ones.
MOST_SHOWN = 30

#: Names that are written beside the dots of the scatter.
MOST_WRITTEN = 12

#: Models from which a histogram says more than a list.
MANY = 40

#: Columns by which a row that is no model may be named.
NAME_COLUMNS = (*MODEL_COLUMNS, "run", "name", "system", "subject")


def row_names(scores: ScoreTable) -> pl.Series:
    """What a person calls every row: its model or run, with what tells it from others of that name; else its number."""
    numbers = pl.Series("model", [f"row {number}" for number in range(1, scores.frame.height + 1)], dtype=pl.String)
    for frame in (scores.frame, scores.about):
        if frame is None:
            continue
        for column in NAME_COLUMNS:
            if column not in frame.columns or frame[column].null_count():
                continue
            names = frame[column].cast(pl.String)
            if names.n_unique() < names.len() and "seed" in frame.columns:
                names = names + " / " + frame["seed"].cast(pl.String).fill_null("")
            if names.n_unique() == names.len():
                return names.alias("model")
    return numbers


def are_models(scores: ScoreTable) -> bool:
    """Whether rows are models, as far as the table says; runs of one recipe have no best one."""
    known = [*scores.frame.columns, *(scores.about.columns if scores.about is not None else ())]
    return any(name in known for name in (*MODEL_COLUMNS, "name", "system"))


def row_noun(scores: ScoreTable) -> str:
    """What a row is."""
    return "model" if are_models(scores) else "row"


def standings(scores: ScoreTable) -> pl.DataFrame:
    """A row per model, the best first: ``rank, model, mean``, and a column of scores per test set (``s0``, ``s1`` ...).

    The mean is over the test sets that hold accuracies, of models that have all of them; others come last.
    """
    kinds = kinds_of_scores(scores)
    columns, compared = [], []
    for number, name in enumerate((*scores.controls, *scores.testsets)):
        value = pl.col(name).cast(pl.Float64)
        if kinds[name] is ScoreKind.PERCENT:
            value = value / 100
        columns.append(value.alias(f"s{number}"))
        if kinds[name] is not ScoreKind.OTHER:
            compared.append(f"s{number}")
    compared = compared or [f"s{number}" for number in range(len(columns))]
    known = pl.sum_horizontal(pl.col(*compared).is_not_null())
    mean = pl.when(known == len(compared)).then(pl.mean_horizontal(*compared)).alias("mean")
    frame = scores.frame.select(columns).with_columns(row_names(scores)).with_columns(mean)
    frame = frame.sort("mean", descending=True, nulls_last=True, maintain_order=True)
    rank = pl.col("mean").rank("min", descending=True).cast(pl.Int64).alias("rank")
    return frame.select(rank, "model", "mean", pl.all().exclude("model", "mean"))


def set_columns(scores: ScoreTable) -> dict[str, str]:
    """The column of every test set in :func:`standings`."""
    return {name: f"s{number}" for number, name in enumerate((*scores.controls, *scores.testsets))}


def leader_verdict(data: ReportData) -> Verdict | None:
    """Which model is best? By the mean over test sets; whether that is more than chance, only answers could tell."""
    frame = data.page_tables["standings"].drop_nulls("mean")
    if frame.height < 2 or not data.about.share or not are_models(data.scores):
        return None
    columns = set_columns(data.scores)
    compared = [name for name in data.about.comparable if name in columns]
    first, second = frame.row(0, named=True), frame.row(1, named=True)
    total = count(frame.height, "model")
    sets = count(len(compared), "test set")
    lead = 100 * (first["mean"] - second["mean"])
    ahead = f"{lead:.1f} points more than {second['model']}"
    if f"{lead:.1f}" == "0.0":
        ahead = f"as much as {second['model']}"
    reason = f"{first['model']} has the highest mean of {total} over {sets}: {first['mean']:.1%}, {ahead}."
    if len(compared) == 1:
        reason = f"{first['model']} has the highest score of {total}: {first['mean']:.1%}, {ahead}."
    leads = [name for name in compared if first[columns[name]] == frame[columns[name]].max()]
    findings = ""
    if len(compared) > 1:
        findings = f"It is first on {joined(leads, 3)}." if leads else "It is first on none of them."
    if len(compared) == len(leads) > 1:
        findings = "It is first on every one of them."
    needed = "Answers question by question would tell whether such a lead is more than chance."
    advice = "Compare the first few on your own questions before you choose."
    facts: dict[str, float | str] = {"models": frame.height, "test sets": len(compared), "mean": first["mean"]}
    facts["points ahead"] = first["mean"] - second["mean"]
    return Verdict(
        f"{first['model']} leads", reason, findings, needed, question=Question.BEST, advice=advice, state=State.MIXED,
        facts=facts,
    )  # fmt: skip


def standings_figures(data: ReportData) -> list[Figure]:
    """How many models have which score, who the best are, and two test sets against each other with names."""
    frame = data.page_tables["standings"].drop_nulls("mean")
    if frame.height < 3:
        return []
    figures = [_best(data, frame)]
    if frame.height >= MANY:
        figures.insert(0, _distribution(data, frame))
    if len(data.about.comparable) > 1:
        figures.append(_scatter(data, frame))
    return figures


def _mean_words(data: ReportData) -> str:
    many = len(data.about.comparable) > 1
    return f"mean of {len(data.about.comparable)} test sets" if many else data.about.measure_words


def _distribution(data: ReportData, frame: pl.DataFrame) -> Figure:
    """A histogram of the scores; the best ones are marked."""
    form = data.about.value_format
    x: Spec = {
        "field": "mean", "type": "quantitative", "bin": {"maxbins": 60}, "scale": {"zero": False},
        "axis": {"title": _mean_words(data), "format": form.replace(".1%", ".0%"), "grid": False},
    }  # fmt: skip
    spec: Spec = {
        "data": {"name": "standings"},
        "transform": [{"filter": "isValid(datum.mean)"}],
        "width": "container",
        "height": 170,
        "mark": {"type": "bar", "color": "@muted", "opacity": 0.75},
        "encoding": {
            "x": x,
            "y": {"aggregate": "count", "type": "quantitative", "axis": {"title": "models", "tickCount": 4}},
            "tooltip": [
                {"field": "mean", "bin": {"maxbins": 60}, "title": "score", "format": form},
                {"aggregate": "count", "title": "models", "format": ",d"},
            ],
        },
    }
    middle = float(frame["mean"].median())  # type: ignore[arg-type]
    caption = f"Half of the {frame.height:,} models have {middle:.1%} or more." if data.about.share else ""
    return Figure("distribution", "How the models are spread", caption, spec, "standings")


def _best(data: ReportData, frame: pl.DataFrame) -> Figure:
    """The best models by their mean, with the scores that it is the mean of."""
    shown = frame.head(MOST_SHOWN)
    form = data.about.value_format
    columns = set_columns(data.scores)
    sets = {columns[name]: name for name in data.about.comparable if name in columns}
    axis = {"title": "score", "format": form.replace(".1%", ".0%"), "tickCount": 6, "orient": "top"}
    y: Spec = {
        "field": "model", "type": "nominal", "sort": shown["model"].to_list(),
        "axis": {"title": None, "ticks": False, "domain": False, "labelLimit": 260, "labelPadding": 6},
    }  # fmt: skip
    x: Spec = {"type": "quantitative", "scale": {"zero": False}, "axis": axis}
    layers: list[Spec] = [
        {
            "transform": [
                {"fold": list(sets), "as": ["column", "score"]},
                {"calculate": f"{json.dumps(sets)}[datum.column]", "as": "testset"},
            ],
            "mark": {"type": "tick", "color": "@muted", "thickness": 2, "size": 11, "opacity": 0.55},
            "encoding": {
                "y": y,
                "x": {**x, "field": "score"},
                "tooltip": tooltip(("model", "model"), ("testset", "test set"), ("score", "score", form)),
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "color": "@ink"},
            "encoding": {
                "y": y,
                "x": {**x, "field": "mean"},
                "tooltip": tooltip(("model", "model"), ("rank", "rank", ",d"), ("mean", _mean_words(data), form)),
            },
        },
    ]
    spec: Spec = {
        "data": {"name": "standings"},
        "transform": [{"filter": {"field": "model", "oneOf": shown["model"].to_list()}}],
        "width": "container",
        "height": {"step": 20},
        "layer": layers if len(sets) > 1 else layers[1:],
    }
    ticks = " Ticks: the single test sets." if len(sets) > 1 else ""
    noun = row_noun(data.scores)
    which = f"The best {shown.height} of {frame.height:,} {noun}s" if frame.height > shown.height else f"All {noun}s"
    caption = f"{which}, from best to worst. Dot: {_mean_words(data)}.{ticks}"
    title = f"The best {noun}s" if frame.height > shown.height else f"All {noun}s by their score"
    return Figure("standings", title, caption, spec, "standings")


def _scatter(data: ReportData, frame: pl.DataFrame) -> Figure:
    """Two test sets that the reader chooses against each other; the best models have their names beside their dots."""
    columns = set_columns(data.scores)
    options = tuple((columns[name], name) for name in data.about.comparable if name in columns)
    form = data.about.value_format
    axis = {"format": form.replace(".1%", ".0%"), "tickCount": 6}
    scale = {"zero": False}
    x: Spec = {"field": "x", "type": "quantitative", "scale": scale, "axis": axis | {"title": "across"}}
    y: Spec = {"field": "y", "type": "quantitative", "scale": scale, "axis": axis | {"title": "up"}}
    many = frame.height > 10 * MOST_WRITTEN
    named = frame.head(MOST_WRITTEN)["model"].to_list()
    chosen = f"indexof({json.dumps(named)}, datum.model) >= 0"
    if many:
        # The best by their mean lie on top of each other: only the best of the two chosen test sets have their names.
        best = {column: frame.sort(column, descending=True, nulls_last=True)["model"][0] for column, _ in options}
        chosen = f"indexof([{json.dumps(best)}[across], {json.dumps(best)}[up]], datum.model) >= 0"
    spec: Spec = {
        "data": {"name": "standings"},
        "params": [{"name": "across", "value": options[0][0]}, {"name": "up", "value": options[1][0]}],
        "transform": [
            {"calculate": "datum[across]", "as": "x"},
            {"calculate": "datum[up]", "as": "y"},
            {"filter": "isValid(datum.x) && isValid(datum.y)"},
        ],
        "usermeta": {"renderer": "canvas"} if many else {},
        "width": "container",
        "height": 420,
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": 14 if many else 55, "color": "@model0"},
                "encoding": {
                    "x": x,
                    "y": y,
                    "opacity": {"value": 0.35 if many else 0.9},
                    "tooltip": tooltip(
                        ("model", "model"), ("rank", "rank", ",d"), ("x", "across", form), ("y", "up", form)
                    ),
                },
            },
            {
                "transform": [{"filter": chosen}],
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1, "color": "@ink"},
                "encoding": {"x": x, "y": y},
            },
            {
                "transform": [{"filter": chosen}],
                "mark": {"type": "text", "align": "right", "dx": -7, "fontSize": 10, "limit": 220},
                "encoding": {"x": x, "y": y, "text": {"field": "model"}},
            },
        ],
    }
    controls = (
        Control("across", "Across", options, "select"),
        Control("up", "Up", (options[1], options[0], *options[2:]), "select"),
    )
    marked = " Named: the best of either test set." if many else ""
    caption = f"A dot is a {row_noun(data.scores)}; point at it for its name.{marked}"
    return Figure("scatter", "Two test sets against each other", caption, spec, "standings", controls)

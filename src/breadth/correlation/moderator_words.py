"""What makes test sets agree, in words, as a table of the terminal, and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.correlation.moderators import ANY, KIND, ModeratorFlag
from breadth.results import Figure
from breadth.results.figures import Spec, tooltip
from breadth.results.terminal import WIDTH, interval_text, make_table, probability_text
from breadth.results.words import FINDING, count, joined

#: Names of levels that a sentence gives.
MOST_LEVELS = 3


def moderator_words(frame: pl.DataFrame, means: pl.DataFrame) -> str:
    """A sentence per moderator: whether correlations depend on it, from where to where, and by how much at most."""
    alone = frame.filter((pl.col("given") == "") | (pl.col("moderator") == KIND))
    sentences = []
    for part in alone.partition_by("moderator", maintain_order=True):
        rows = part.to_dicts()
        ends = means.filter(pl.col("moderator") == rows[0]["moderator"], pl.col("what") == "fit").sort("value")
        sentences.append(_sentence(rows, ends))
    return " ".join(sentences)


def _sentence(rows: Sequence[dict[str, Any]], ends: pl.DataFrame) -> str:
    name, last = rows[0]["moderator"], rows[-1]
    if last["p"] is None:
        return f"Whether correlations depend on {name} cannot be said: {last['note']}."
    sure = last["q"] < FINDING
    observed = ""
    if last["flag"] == ModeratorFlag.LOW_RELIABILITY:
        observed = " These are correlations as observed: there is too little signal to correct them for noise."
    over = f"over {count(last['k'], last['over'])}"
    if last["over"] == "run" and last["k"] < last["n"]:
        # Too few models, so that their runs are the units.
        over = f"over {count(last['n'], 'run')}, for these models only"
    if name == KIND:
        start = "Test sets of one kind of shift agree"
        words = (
            f"{start} {'more' if last['estimate'] > 0 else 'less'} than others"
            if sure
            else ("Whether two test sets are of one kind of shift makes no clear difference")
        )
        change = (
            f"mean r {_short_correlation(last['r_from'])} for two kinds, {_short_correlation(last['r_to'])} for one"
        )
        return f"{words}: {change} ({_range(last)}).{observed}"
    if last["contrast"] == ANY:
        contrasts = [row for row in rows if row["q"] is not None and row["q"] < FINDING and row["contrast"] != ANY]
        if not sure:
            return f"Correlations do not clearly depend on {name} ({over}, p {probability_text(last['p'])}).{observed}"
        named = [f"{row['contrast'].removesuffix(' - others')} {_short_correlation(row['r_to'])}" for row in contrasts]
        text = f"Correlations depend on {name} ({over}, p {probability_text(last['p'])})"
        if named:
            text += f": mean r {joined(named, MOST_LEVELS)}"
        return f"{text}.{observed}"
    first_level, last_level = (ends["level"][0], ends["level"][-1]) if ends.height else ("lowest", "highest")
    first, second = _short_correlation(last["r_from"]), _short_correlation(last["r_to"])
    change = f"mean r {first} at {first_level}, {second} at {last_level}"
    if not sure:
        return f"Correlations do not clearly depend on {name}: {change} ({_range(last)}; {over}).{observed}"
    numeric = last["contrast"].startswith("per ")
    words = f"Correlations depend on {name}"
    if numeric:
        words = f"Correlations {'grow' if last['estimate'] > 0 else 'fall'} with {name}"
    return f"{words}: {change} ({_range(last)}; {over}).{observed}"


def _range(row: dict[str, Any]) -> str:
    """The interval of an estimate, which is on Fisher's scale."""
    what = row["contrast"] if row["contrast"].startswith("per ") else "difference"
    return f"{what} {row['estimate']:+.2f}, {row['ci_low']:+.2f} to {row['ci_high']:+.2f} in Fisher's z".replace(
        "-", "−"
    )


def _short_correlation(r: float) -> str:
    """A correlation without its leading zero."""
    return f"{r:+.2f}".replace("0.", ".", 1).replace("-", "−")


def moderators_table(frame: pl.DataFrame, width: int = WIDTH) -> Table:
    """Moderators with their slopes or differences; a star marks findings."""
    numbers = ["mean r", "change in z", "95% interval", "p", "p (shuffled)", "over"]
    names = ["moderator", "contrast"]
    if (frame["given"] != "").any():
        names.append("given")
    table = make_table(
        "What makes test sets agree? (*: q < 0.05)", names, numbers, width, least=["p (shuffled)", "over"]
    )
    for row in frame.iter_rows(named=True):
        cells = [Text(str(row[name])) for name in names]
        if row["p"] is None:
            cells += [Text("-"), Text("-"), Text("see note", style="dim italic"), Text("-"), Text("-"), Text("-")]
            table.add_row(*cells)
            continue
        sure = row["q"] < FINDING
        style = "bold" if sure else ""
        if row["estimate"] is None:
            cells += [Text("-"), Text("any" + "*" * sure, style=style), Text("-")]
        else:
            cells.append(Text(f"{row['r_from']:+.2f} → {row['r_to']:+.2f}"))
            cells.append(Text(f"{row['estimate']:+.2f}{'*' if sure else ' '}", style=style))
            cells.append(interval_text(row["ci_low"], row["ci_high"]))
        shuffled = "-" if row["p_permutation"] is None else probability_text(row["p_permutation"])
        number = row["n"] if row["over"] not in ("model",) and row["moderator"] == KIND else row["k"]
        if row["over"] == "run":
            number = row["n"]
        cells += [Text(probability_text(row["p"])), Text(shuffled), Text(count(number, row["over"]))]
        table.add_row(*cells)
    return table


def moderators_figure(means: pl.DataFrame, name: str, *, given: str, noun: str) -> Figure:
    """Mean correlation of every unit against one moderator, with intervals, and what the regression expects."""
    shown = means.filter(pl.col("moderator") == name)
    numeric = shown["level"].n_unique() > 1 and shown.filter(pl.col("what") == "fit")["ci_low"].is_not_null().any()
    values = shown["value"]
    low, high = float(values.min() or 0), float(values.max() or 0)  # type: ignore[arg-type]
    x: Spec = {"field": "value", "type": "quantitative", "title": name, "scale": {"zero": False}}
    if numeric and low > 0 and high >= 8 * low:
        # Billions are B for models, and G for a physicist.
        label = "replace(format(datum.value, '~s'), 'G', 'B')"
        x["scale"] = {"type": "log", "nice": False, "domain": [low / 1.3, high * 1.3]}
        x["axis"] = {"labelExpr": label, "tickCount": 6, "grid": False}
    if not numeric:
        levels = shown.sort("value")["level"].unique(maintain_order=True).to_list()
        x = {"field": "level", "type": "nominal", "title": name, "sort": levels, "axis": {"labelAngle": 0}}
    y: Spec = {"field": "r", "type": "quantitative", "title": "mean r over pairs", "scale": {"zero": False}}
    tips = tooltip(
        ("unit", noun), ("level", name), ("r", "mean r", ".2f"), ("ci_low", "from", ".2f"), ("ci_high", "to", ".2f"),
        ("runs", "runs", "d"),
    )  # fmt: skip
    unit, fit = {"filter": "datum.what == 'unit'"}, {"filter": "datum.what == 'fit'"}
    ends = {"y": {**y, "field": "ci_low"}, "y2": {"field": "ci_high"}}
    expected: list[Spec] = [
        {
            "transform": [fit],
            "mark": {"type": "tick", "color": "@ink", "thickness": 2, "width": 40},
            "encoding": {"x": x, "y": y},
        }
    ]
    if numeric:
        expected = [
            {
                "transform": [fit],
                "mark": {"type": "area", "color": "@muted", "opacity": 0.15},
                "encoding": {"x": x, **ends},
            },
            {"transform": [fit], "mark": {"type": "line", "color": "@ink"}, "encoding": {"x": x, "y": y}},
        ]
    offset: Spec = {} if numeric else {"xOffset": {"field": "unit", "type": "nominal"}}
    spec: Spec = {
        "data": {"name": "moderator_means"},
        "usermeta": {"most": 620},
        "width": "container",
        "height": 300,
        "transform": [{"filter": f"datum.moderator == '{_quoted(name)}'"}],
        "layer": [
            {"data": {"values": [{"zero": 0}]}, "mark": {"type": "rule", "strokeDash": [4, 4], "color": "@muted"},
             "encoding": {"y": {"datum": 0}}},
            *expected,
            {"transform": [unit], "mark": {"type": "rule", "color": "@muted"}, "encoding": {"x": x, **ends, **offset}},
            {
                "transform": [unit],
                "mark": {"type": "circle", "color": "@ink", "size": 50, "opacity": 1},
                "encoding": {"x": x, "y": y, "tooltip": tips, **offset},
            },
        ],
    }  # fmt: skip
    caption = f"Dot: mean correlation over pairs of test sets {given}, of one {noun}; line: its 95% interval. " + (
        "Band: where the fitted line may turn within the 95% interval of its slope."
        if numeric
        else f"Bar: what is expected of a {noun} with that value."
    )
    return Figure("moderators", f"Do correlations depend on {name}?", caption, spec, "moderator_means")


def _quoted(text: str) -> str:
    """A text within single quotes of a Vega expression."""
    return text.replace("\\", "\\\\").replace("'", "\\'")

"""Heatmaps of correlations: the mean over groups first, then groups, models or runs.

Each is a Vega-Lite specification over a table of the analysis, for files, notebooks, the report and the live page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from breadth.correlation.moderator_words import moderators_figure
from breadth.correlation.noise import deciding
from breadth.results import Control, Figure, as_chart
from breadth.results.figures import SHORT_R, Spec, heat_layers, nominal, tooltip
from breadth.results.words import FINDING, count

if TYPE_CHECKING:
    import altair as alt

    from breadth.correlation.result import Correlation

#: Panels of a heatmap: the mean first, then at most so many less one groups or models.
MOST_PANELS = 12

#: Tooltips of a correlation: column, words, format. A figure shows those that its table has.
TIPS = (
    ("panel", "shown"), ("a", "a"), ("b", "b"), ("r_raw", "plain r", ".3f"), ("r", "r", ".3f"),
    ("ci_low", "from", ".3f"), ("ci_high", "to", ".3f"), ("n", "rows", "d"), ("n_eff", "effective rows", ".1f"),
    ("k", "mean over", "d"), ("p", "p", ".2g"), ("q", "q", ".2g"), ("note", "note"),
)  # fmt: skip

#: Expression: a correlation is a finding.
FOUND = f"isValid(datum.q) && datum.q < {FINDING}"

#: What a cell needs besides r: whether it is a finding, which also makes it bold, and its text.
CELL: tuple[Spec, ...] = (
    {"calculate": FOUND, "as": "sure"},
    {"calculate": "datum.sure", "as": "bold"},
    {"calculate": f"isValid(datum.r) ? {SHORT_R} : ''", "as": "text"},
    {"calculate": "datum.note || ''", "as": "note"},
)

#: A panel per value of the column ``panel``, in the order of the column ``place``: Vega-Lite would sort them by name.
PANELS: Spec = {
    "field": "panel", "type": "nominal", "title": None, "sort": {"field": "place", "op": "min"},
    "header": {"labelAnchor": "start"},
}  # fmt: skip

#: A click on a mark chooses the items of its two test sets.
DRILL = {"testset": "b", "testset2": "a"}

COLOURS = "Strong and bold: more than chance; faded: undecided. Grey: not computed."


def result_figure(result: Correlation) -> alt.TopLevelMixin:
    """Lower-triangle heatmaps as an Altair chart: the mean over groups, then groups by the strength of correlations."""
    pairs, by, noun = deciding(result.pairs), result.by, result.units.noun
    corrected = ", corrected for the noise of finite test sets" if result.corrected else ""
    caption = f"Correlation r of two test sets {result.given}{corrected}. {COLOURS}"
    if by:
        # Seeds of a model share a panel: the mean over them.
        columns = list(by)
        if result.units.nested:
            pairs = result.by_unit
            columns = [column for column in pairs.columns if column in ("unit", "train_set")]
        name = pl.concat_str([pl.col(column).cast(pl.String) for column in columns], separator=" / ")
        pairs = pairs.with_columns(panel=name)
        order = by_strength(pairs, "panel")
        shown = order[: MOST_PANELS - 1]
        ranks = {panel: rank for rank, panel in enumerate(shown)}
        pairs = pairs.filter(pl.col("panel").is_in(shown)).sort(
            pl.col("panel").replace_strict(ranks, return_dtype=pl.Int64), maintain_order=True
        )
        if not result.few_units:
            trained = "train_set" in result.pooled.columns
            title = pl.format("all {}s trained on {}", pl.lit(noun), "train_set") if trained else pl.lit(f"all {noun}s")
            pairs = pl.concat([result.pooled.with_columns(panel=title), pairs], how="diagonal_relaxed")
            caption += f" All {noun}s: the mean over {count(len(order), noun)}."
        if len(order) > len(shown):
            caption += f" Shown: the {len(shown)} {noun}s with the strongest correlations; the tables have all."
    cells = pairs.select(*dict.fromkeys(tip[0] for tip in TIPS if tip[0] in pairs.columns))
    figure = heatmap(
        cells,
        result.trajectories.testsets,
        table="pairs",
        title="Does doing better on one test set go with doing better on another?",
        caption=caption,
    )
    moderators = result.moderator_means["moderator"].unique(maintain_order=True).to_list()
    further = [
        moderators_figure(result.moderator_means, name, given=result.given, noun=result.units.noun)
        for name in moderators
    ]
    return as_chart(figure, *further, tables={"pairs": cells, "moderator_means": result.moderator_means})


def by_strength(frame: pl.DataFrame, column: str) -> list[str]:
    """Values of a column from the largest mean size of r down."""
    sizes = frame.group_by(column, maintain_order=True).agg(pl.col("r").abs().mean())
    return sizes.sort("r", descending=True, nulls_last=True, maintain_order=True)[column].to_list()


def heatmap(
    cells: pl.DataFrame,
    testsets: Sequence[str],
    *,
    table: str,
    title: str,
    caption: str,
    params: Sequence[Spec] = (),
    choose: Sequence[Spec] = (),
    controls: tuple[Control, ...] = (),
) -> Figure:
    """A lower triangle of correlations per panel: colour and text are r.

    Orange is positive and blue negative, which readers with any kind of colour vision can tell apart. Hovering shows
    the numbers behind a cell.

    Parameters
    ----------
    cells
        A row per pair: ``a, b, r, ci_low, ci_high`` and, where known, ``q``, ``note`` and other numbers; and per
        ``panel``, if there are several.
    testsets
        Test sets in the order of the pairs.
    table
        What the figure calls its table.
    params, choose, controls
        Parameters, the transforms that choose rows by them, and what a reader can switch.
    """
    panels = cells["panel"].n_unique() if "panel" in cells.columns else 1
    size = 44 if len(testsets) <= 8 else 38 if len(testsets) <= 12 else 32 if len(testsets) <= 20 else 28
    size = size if panels <= 6 else max(28, size - 8)
    layers = heat_layers("r", "text", tooltip(*(tip for tip in TIPS if tip[0] in cells.columns)), 1.0, "r", ".0f")
    for layer in layers:
        if layer["mark"]["type"] == "text":
            layer["mark"]["fontSize"] = 11 if size >= 36 else 9
    labels = 7 * max((len(name) for name in testsets), default=0)
    spec: Spec = {
        "data": {"name": table},
        "usermeta": {"panel": size * (len(testsets) - 1) + min(labels, 150) + 20},
        "params": list(params),
        "transform": [*choose, *CELL, {"window": [{"op": "row_number", "as": "place"}]}],
        "facet": PANELS,
        "spec": {
            "width": {"step": size},
            "height": {"step": round(0.8 * size)},
            "encoding": {"x": nominal("a", testsets, labelAngle=-45), "y": nominal("b", testsets)},
            "layer": layers,
        },
        "resolve": {"axis": {"x": "independent", "y": "independent"}},
    }
    if "panel" not in cells.columns:
        del spec["facet"], spec["resolve"]
        spec |= spec.pop("spec")
    return Figure("correlations", title, caption, spec, table, controls, DRILL)


def correlations_figure(
    correlations: pl.DataFrame, testsets: Sequence[str], *, given: str, measure: str = "accuracy"
) -> Figure:
    """Heatmaps of a study: the mean over all models, then of each (of each run where there is one model), or of runs.

    ``given`` names the control in words, ``measure`` what is correlated. The table has its rows in the order of the
    panels (:func:`breadth.correlation.carry_over`).
    """
    known = set(correlations.filter(pl.col("r").is_not_null())["kind"])
    kinds = [kind for kind in ("corrected", "partial", "raw") if kind in known]
    models, runs = (correlations[name].drop_nulls().unique(maintain_order=True).to_list() for name in ("model", "run"))
    unit, units = ("model", models) if len(models) > 1 else ("run", runs)
    shown = units[: MOST_PANELS - 1]
    # Python writes a list of texts as Vega's expressions do.
    own = f"isValid(datum.{unit}) ? indexof({shown}, datum.{unit}) >= 0 : !isValid(datum.model)"
    chosen = "datum.model == of && isValid(datum.run)" if unit == "model" else "datum.run == of"
    keep = f"of ? {chosen} : {'!isValid(datum.run) && ' if unit == 'model' else ''}({own})"
    several = [(name, f"single runs of {name}" if unit == "model" else name) for name in units]
    first = f"all {unit}s, then " + (f"the {len(shown)} strongest" if len(units) > len(shown) else "each")
    explained = {
        "partial": f"Partial: {given}.",
        "raw": "Raw: without a control.",
        "corrected": "Corrected: partial, and corrected for the sampling noise of the test sets.",
    }
    caption = " ".join(
        [
            f"Correlation of {measure} on two test sets.",
            *(explained[kind] for kind in kinds),
            COLOURS,
            f"The rate is over the pairs of the mean, and over those of all {unit}s together." if units else "",
        ]
    )
    if len(units) > len(shown):
        caption += f" Shown: {len(shown)} of {len(units)} {unit}s, those with the strongest correlations."
    controls = [Control("kind", "Correlation", tuple((kind, kind) for kind in kinds))] if len(kinds) > 1 else []
    if unit == "model" or len(units) > len(shown):
        controls.append(Control("of", "Panels", (("", first), *several), "select"))
    return heatmap(
        correlations.filter(pl.col("run").is_null()),
        testsets,
        table="correlations",
        title=f"Correlations between test sets, {given}",
        caption=caption,
        params=[{"name": "kind", "value": kinds[0]}, {"name": "of", "value": ""}],
        choose=[{"filter": f"datum.kind == kind && ({keep})"}],
        controls=tuple(controls),
    )

"""Section 1, at a glance: what was studied, where every model stands, and whether the results generalise."""

from __future__ import annotations

import polars as pl

from breadth.report.contents import Figure, Gathered, Section
from breadth.report.vega import Spec, model_colour, model_scale, nominal, tooltip
from breadth.report.words import count, interval, joined, points, verdict


def glance(gathered: Gathered) -> Section:
    """Build the section."""
    once = gathered.table("profile").filter(pl.col("when") == "before").height == 0
    caption = (
        "Dot: mean accuracy over runs; line: 95% interval, which counts both the items and the runs as samples. "
        + ("" if once else "Hollow: at the first checkpoint; filled: at the last. ")
        + "Grey tick: what always giving the commonest label would reach. Click a dot for the items behind it."
    )
    figure = Figure(
        "profile",
        "Accuracy on every test set" if once else "Accuracy on every test set, before and after training",
        caption,
        _profile(gathered),
        "profile",
        drill={"testset": "testset", "model": "model"},
    )
    return Section("glance", "At a glance", generalise(gathered), (figure,), (studied(gathered), *_per_model(gathered)))


def studied(gathered: Gathered) -> str:
    """What was studied, in one sentence or two."""
    facts = gathered.facts
    trained = f", trained on {joined(facts['train_sets'])}" if facts["train_sets"] else ""
    shots = f" ({', '.join(map(str, facts['shots']))} examples)" if facts["shots"] and trained else ""
    text = (
        f"{count(len(gathered.models), 'model')} ({joined(gathered.models)}){trained}{shots}: "
        f"{count(facts['runs'], 'run')}, "
        f"{count(facts['checkpoints'], 'checkpoint')} in all, measured on {count(facts['items'], 'item')} of "
        f"{count(len(gathered.testsets), 'test set')}; {facts['responses']:,} answers."
    )
    unfinished = gathered.table("runs").filter(pl.col("checkpoints") < pl.col("planned")).height
    if unfinished:
        verb = "is" if unfinished == 1 else "are"
        text += f" {count(unfinished, 'run')} {verb} not finished; the last checkpoint so far stands for the end."
    return text


def generalise(gathered: Gathered) -> str:
    """The answer to "do these results generalise?", from gains on shifted sets and correlations between them."""
    gains = gathered.table("gains")
    if not gains.height:
        return (
            "Do these results generalise? Undecided: every run was measured once, so there is no gain "
            "whose spread over "
            "test sets could be looked at. The picture shows where each model stands."
        )
    shifted = gains.filter(~pl.col("in_domain"))
    if not shifted.height:
        return "Do these results generalise? Undecided: only the in-domain test set was measured."
    signs = [verdict(row["ci_low"], row["ci_high"]) for row in shifted.iter_rows(named=True)]
    up, down, total = signs.count(1), signs.count(-1), len(signs)
    pairs = gathered.table("pairs")
    together = (
        [verdict(low, high) for low, high in pairs.select("ci_low", "ci_high").iter_rows()] if pairs.height else []
    )
    positive = together.count(1) / len(together) if together else None
    opening = _answer(up, down, total, positive)
    text = (
        f"Do these results generalise? {opening} Of {count(total, 'gain')} on shifted test sets (model x set), {up} "
        f"{'is' if up == 1 else 'are'} above 0, {down} below and {total - up - down} undecided (95% "
        "interval covers 0). " + _carried(gains)
    )
    if positive is not None:
        text += (
            f" Beyond what in-domain accuracy says, doing better on one test set goes with doing better on another in "
            f"{together.count(1)} of {len(together):,} correlations, with doing worse in {together.count(-1)}; "
            f"{together.count(0)} are undecided or could not be computed."
        )
    return text


def _answer(up: int, down: int, total: int, positive: float | None) -> str:
    if up + down < 0.1 * total:
        return "Undecided: almost no gain on a shifted set can be told from 0."
    if down > up:
        return "No: more shifted sets lost than gained."
    if up >= 0.9 * total:
        if positive is None:
            return "Gains do, on the sets measured here; whether one set speaks for another was not computed."
        if positive >= 0.9:
            return "Yes, on the sets measured here."
        return "Gains do, on the sets measured here; beyond in-domain accuracy, one set does not speak for another."
    return "In part."


def _carried(gains: pl.DataFrame) -> str:
    """How much of the in-domain gain shows on shifted sets, per model."""
    parts = []
    for (model,), group in gains.group_by(["model"], maintain_order=True):
        home = group.filter(pl.col("in_domain") & (pl.col("ci_low") > 0))["gain"].mean()
        away = group.filter(~pl.col("in_domain"))["gain"].mean()
        if isinstance(home, float) and isinstance(away, float):
            parts.append(f"{model} {points(away)} (in-domain {points(home)})")
    if len(parts) > 3:
        mean = gains.filter(~pl.col("in_domain")).group_by("model").agg(pl.col("gain").mean()).sort("gain", "model")
        low, high = mean.row(0), mean.row(-1)
        return f"Mean gain on shifted sets: from {points(low[1])} ({low[0]}) to {points(high[1])} ({high[0]})."
    return f"Mean gain on shifted sets: {'; '.join(parts)}." if parts else ""


def _per_model(gathered: Gathered) -> tuple[str, ...]:
    lines = []
    for (model, train_set), group in gathered.table("gains").group_by(["model", "train_set"], maintain_order=True):
        if group.height == 1:
            (row,) = group.iter_rows(named=True)
            lines.append(
                f"{model}, trained on {train_set}: {points(row['gain'])} on {row['testset']} ({interval(row)})."
            )
            continue
        best, worst = group.sort("gain").row(-1, named=True), group.sort("gain").row(0, named=True)
        named = [
            f"{word} on {row['testset']} ({points(row['gain'])}{', ' + interval(row) if interval(row) else ''})"
            for word, row in (("most", best), ("least", worst))
        ]
        lines.append(f"{model}, trained on {train_set}: gained {' and '.join(named)}.")
    return tuple(lines)


def panel(gathered: Gathered) -> Spec:
    """A panel per model, or per model and training set where there are several."""
    several = gathered.table("profile").select("model", "train_set").unique().height > len(gathered.models)
    trained = " + ' · ' + (datum.train_set || 'untrained')" if several else ""
    return {"calculate": f"datum.model{trained}", "as": "panel"}


def _profile(gathered: Gathered) -> Spec:
    shifts = {name: kind or "" for name, kind in gathered.facts["shifts"].items()}
    words = "{" + ",".join(f"{_quoted(name)}:{_quoted(kind)}" for name, kind in shifts.items()) + "}"
    y = nominal(
        "testset",
        gathered.testsets,
        labelExpr=f"[datum.label, {words}[datum.label]]",
        labelLineHeight=12,
        labelOffset=-6,
    )
    x = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"zero": False, "nice": True},
        "axis": {"title": "accuracy", "format": ".0%", "tickCount": 5},
    }
    base = {
        "y": y,
        "yOffset": {"field": "when", "sort": ["before", "after"]},
        "color": model_colour(gathered.models, legend=False),
    }
    tips = tooltip(
        ("model", "model"),
        ("testset", "test set"),
        ("shift", "shift"),
        ("when", "when"),
        ("runs", "runs", "d"),
        ("n_items", "items", ",d"),
        ("accuracy", "accuracy", ".1%"),
        ("ci_low", "from", ".1%"),
        ("ci_high", "to", ".1%"),
        ("chance", "commonest label", ".1%"),
    )
    rules = {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": base | {"x": x | {"field": "ci_low"}, "x2": {"field": "ci_high"}, "tooltip": tips},
    }
    dots = {
        "mark": {"type": "point", "size": 62, "strokeWidth": 2, "opacity": 1, "cursor": "pointer"},
        "encoding": base
        | {
            "x": x,
            "fill": {
                "condition": {"test": "datum.when == 'before'", "value": "@paper"},
                "field": "model",
                "type": "nominal",
                "scale": model_scale(gathered.models),
                "legend": None,
            },
            "tooltip": tips,
        },
    }
    chance = {
        "transform": [{"filter": "datum.when == 'after'"}],
        "mark": {"type": "tick", "color": "@muted", "thickness": 2, "size": 26, "opacity": 0.6},
        "encoding": {"y": y, "x": x | {"field": "chance"}, "tooltip": tips},
    }
    return {
        "data": {"name": "profile"},
        "usermeta": {"pad": 100, "least": 230},
        "transform": [panel(gathered)],
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}},
        "spec": {"height": {"step": 34, "for": "position"}, "layer": [chance, rules, dots]},
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

"""Sections 5 and 6: what the table of items says, and how the report was made."""

from __future__ import annotations

import polars as pl

from breadth.report.contents import Gathered, Section
from breadth.report.words import count

#: What each table of a report holds, for the list of downloads.
TABLES = {
    "runs": "runs: what determines each, and how far it is",
    "profile": "accuracy per model and test set, before and after training",
    "gains": "gain per model and test set, paired by run and item",
    "trajectories": "accuracy of every run at every checkpoint",
    "pairs": "correlations of every run (as breadth correlate gives it)",
    "heterogeneity": "per pair of test sets: mean over runs and how much runs differ",
    "correlations": "raw, partial and corrected correlations, per run and as means per model",
    "similarity": "how alike the correlations of two runs are",
    "windows": "correlations in consecutive parts of training, per run",
    "window_means": "the same, mean over a model's runs",
    "subjects": "ability of every checkpoint (as breadth calibrate gives it)",
    "scale_map": "counts of subjects and items along the scale",
    "by_level": "accuracy per model and difficulty level",
    "profile_by_run": "accuracy by level of runs' last checkpoints (as breadth profile gives it)",
    "cross_cells": "gain per training level and test level (as breadth cross gives it)",
    "cross_effects": "fading with distance, and direction",
    "cross_breaks": "where accuracy breaks off",
    "cross_best": "best training per test level",
    "strategy_cells": "gain per strategy and test level (as breadth cross gives it)",
    "strategy_breaks": "where accuracy breaks off, per strategy",
    "strategy_best": "best strategy per test level",
    "items": "items: text, label, difficulty, who fails them, doubts",
}

#: What each statistic is, what it is not, and where it is explained.
STATISTICS = (
    (
        "Accuracy and its interval",
        "The mean over items and runs. The 95% interval counts both as samples: other items of the same kind and other "
        "runs of the same recipe could have come out. With one run, only the items count, and the interval is too "
        "narrow for a claim about the recipe. In trajectories, the interval is Wilson's for one checkpoint of one run.",
        "docs/cross.md",
    ),
    (
        "Partial correlation",
        "Over the checkpoints of one run: do two test sets rise and fall together once in-domain accuracy (by a smooth "
        "curve) is taken out of both? Neighbouring checkpoints resemble each other, so intervals use an effective "
        "number of checkpoints. It is not a statement about different runs or models, and not about cause.",
        "docs/correlate.md",
    ),
    (
        "Corrected correlation",
        "The same, freed of the noise that test sets of finite size add, as estimated from random halves of their "
        "items. Not computed where a set's fluctuation is mostly noise. Its mean over runs takes variances from the "
        "intervals of the runs.",
        "docs/correlate.md",
    ),
    (
        "q",
        "Significance after control of the false discovery rate (Benjamini and Hochberg) over all pairs, runs "
        "and training sets.",
        "docs/correlate.md",
    ),
    (
        "Difficulty and ability",
        "A Rasch model of who got what right. Subjects are checkpoints; those of one run are no independent subjects, "
        "so standard errors are too small, and the scale belongs to this study.",
        "docs/calibrate.md",
    ),
    (
        "Gain by level",
        "After training minus before, paired by item, per training and test level. Test items must not have been "
        "trained on.",
        "docs/cross.md",
    ),
    (
        "Doubted labels",
        "Items that able checkpoints get wrong more often (also within their own test set), or that at least 80% of "
        "the runs end up answering otherwise with odds beyond 7 to 1. A reason to look, not a verdict: very hard items "
        "look the same.",
        "docs/report.md",
    ),
)


def items(gathered: Gathered) -> Section:
    """What the table of items shows; the table itself is part of the page."""
    sheet = gathered.table("items")
    facts = gathered.facts
    doubted = sheet.filter(pl.col("doubt").is_not_null())
    never = sheet.filter(pl.col("right") == 0).height
    whole = facts["items_shown"] == facts["items"]
    scope = "" if whole else f" (of the {facts['items_shown']:,} shown)"
    text = (
        f"{count(facts['items'], 'item')}: {never:,}{scope} {'is' if never == 1 else 'are'} wrong at the "
        f"end of every run, and the label of {doubted.height:,} should be looked at."
    )
    if doubted.height:
        where = doubted["testset"].value_counts().sort(["count", "testset"], descending=[True, False])
        text += f" Most doubts are in {where['testset'][0]} ({where['count'][0]:,})."
    details = () if whole else (
        f"The table holds a random sample of {facts['items_shown']:,} of {facts['items']:,} items, with "
        "every doubted one in it; "
        "all other numbers of this report use every item.",
    )  # fmt: skip
    return Section("items", "Items", text, details=details)


def making(gathered: Gathered) -> Section:
    """How this was made."""
    from importlib import import_module

    facts = gathered.facts
    seeds = ", ".join(map(str, facts["seeds"])) or "not recorded"
    text = (
        f"Made by breadth {import_module('breadth').__version__} from {facts['responses']:,} answers. "
        f"Seeds of the runs: {seeds}; seed of the split halves "
        "and random relabellings: 0. The same directory gives the same numbers."
    )
    return Section("making", "How this was made", text, details=gathered.warnings)

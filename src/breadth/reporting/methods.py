"""Sections Truth and Methods: of a simulated study, which findings are true; of all, how the report was made.

Methods says what each statistic means, and has the study file, environments and downloads.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import polars as pl

from breadth.datasets.simulated import TRUTH_FILE
from breadth.level_transfer import Effect
from breadth.records import Study, StudyStore, unsealed
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.results.words import FINDING, count


class Statistic(NamedTuple):
    """A statistic of the page: what it is known by in the tables, its name, words, and page of the documentation."""

    needs: str
    name: str
    text: str
    page: str


#: Every statistic: what it is, what it is not, and the page of the documentation that explains it.
STATISTICS = (
    Statistic(
        "profile",
        "Accuracy and its interval",
        "The mean over questions and runs. The 95% interval treats both as samples: other questions, or another run "
        "of the same recipe, would give another value. With a single run only the questions count, so the interval is "
        "too narrow for a claim about the recipe. In trajectories, the interval is Wilson's for one checkpoint of a "
        "run.",
        "Gains by level",
    ),
    Statistic(
        "auc",
        "Sensitivity and bias",
        "For test sets with two answers: the area under the ROC curve of the log-odds of one answer (0.5 is chance), "
        "which does not depend on the answer that the model leans to, and the share of that answer. A change of "
        "accuracy is called one of bias where the share clearly changed and the area did not; paired by question, with "
        "DeLong's variance.",
        "Ability and answer bias",
    ),
    Statistic(
        "partial",
        "Partial correlation",
        "Over the checkpoints of one run: do two test sets rise and fall together after controlling for in-domain "
        "accuracy with a smooth curve? Neighbouring checkpoints are similar, so intervals use an effective number of "
        "checkpoints. It says nothing about differences between runs or models, nor about cause.",
        "Partial correlation",
    ),
    Statistic(
        "corrected",
        "Corrected correlation",
        "The partial correlation, corrected for the sampling noise of finite test sets, which random halves of their "
        "questions reveal. It is not computed where a set's fluctuation is mostly noise. Its mean over runs takes the "
        "variances from the intervals of the runs.",
        "Partial correlation",
    ),
    Statistic(
        "q",
        "q",
        "The smallest false discovery rate (Benjamini and Hochberg), over all pairs, runs and training sets, at which "
        "the correlation is a discovery.",
        "Partial correlation",
    ),
    Statistic(
        "subjects",
        "Difficulty and ability",
        "One scale for both, from who answered which question correctly (a Rasch model). A model counts once per "
        "checkpoint. Checkpoints of one run are not independent, so standard errors are too small, and the scale "
        "belongs to this study.",
        "Item response theory",
    ),
    Statistic(
        "transfer_cells",
        "Gain by level",
        "Accuracy after training minus accuracy before, paired by question, per training level and test level. Test "
        "questions must not have been trained on.",
        "Gains by level",
    ),
    Statistic(
        "doubt",
        "Doubted labels",
        "Questions that abler models get wrong more often (also within their own test set), or that at least 80% of "
        "the runs end up answering differently with odds above 7 to 1, the more so the better they do on the rest of "
        "the set. A reason to check, not a verdict: a few very hard questions look the same.",
        "Report and live page",
    ),
)


#: Columns of the table: how many effects there are, how many findings, how many of these are true.
COLUMNS = {"about": pl.String, "effects": pl.Int64, "findings": pl.Int64, "true": pl.Int64, "missed": pl.Int64}


class TruthSection(Section):
    """What was simulated against what was found."""

    key, title, short = "truth", "Which findings are true?", "Truth"
    headline = True
    needs = (Study,)
    tables: ClassVar[Mapping[str, str]] = {"truth": "simulated effects, findings, and how many of these are true"}
    template = "truth.html"

    def applies(self, data: ReportData) -> bool:
        """Only for studies that were simulated."""
        return bool(_truth(data))

    def write(self, data: ReportData) -> SectionContent:
        """How many findings are true. The table is made here because it needs those of all other sections."""
        truth = _truth(data)
        means = data.table("correlations")
        if means.height:
            means = means.filter(pl.col("run").is_null() & (pl.col("kind") == "partial") & (pl.col("q") < FINDING))
            means = means.with_columns(sign=pl.col("r").sign().cast(pl.Int64)).select("model", "a", "b", "sign")
        found = set(means.iter_rows())
        own = {key for key in found if key[0] is not None}
        pooled = {key[1:] for key in found - own}
        gains = data.table("gains").filter((pl.col("q") < FINDING) & ~pl.col("in_domain"))
        gains = gains.with_columns(sign=pl.col("gain").sign().cast(pl.Int64)).select("model", "testset", "sign")
        items, effects = data.table("items"), data.table("transfer_effects")
        doubted = items.drop_nulls("doubt_flag")["item"].to_list() if items.height else []
        fades: set[Any] = set()
        if effects.height:
            fades = set(effects.filter((pl.col("effect") == Effect.FADING) & (pl.col("ci_high") < 0))["model"])
        signs = {(row["model"], row["a"], row["b"], row["sign"]) for row in truth["correlations"]}
        every = {(a, b, sign) for _, a, b, sign in signs if all((m, a, b, sign) in signs for m in truth["gains"])}
        rows = [
            _row("correlations between test sets (mean over all models, with their sign)", every, pooled),
            _row("correlations between test sets (per model, with their sign)", signs, own),
            _row("gains on shifted test sets (per model, with their sign)", {
                (model, testset, 1) for model, testsets in truth["gains"].items() for testset in testsets
            }, set(gains.iter_rows())),
            _row("wrong labels", set(truth["wrong_labels"]), set(doubted)),
        ]  # fmt: skip
        if truth["fading"]:
            rows.append(_row("models whose gains fade with distance", set(truth["gains"]), fades))
        table = data.tables["truth"] = pl.DataFrame(rows, schema=COLUMNS, orient="row")
        tested = table.filter(pl.col("about") != "wrong labels")
        said, right, missed = (int(tested[name].sum()) for name in ("findings", "true", "missed"))
        labels = table.row(by_predicate=pl.col("about") == "wrong labels", named=True)
        finding = (
            f"{right} of {count(said, 'finding')} in this report are true; {missed} of {int(tested['effects'].sum())} "
            f"effects that were simulated were missed. Of {count(labels['effects'], 'wrong label')}, {labels['true']} "
            f"were found, with {count(labels['findings'] - labels['true'], 'false alarm')}."
        )
        details = (
            "The answers were simulated, so the truth is known. A finding remains with the false discovery rate at 5%: "
            "about one finding in twenty may be false. Labels are doubted, not tested; a doubt asks you to look.",
        )
        return SectionContent(finding, details=details, shown={"Found and true": table})


def _row(about: str, effects: Set[Any], found: Set[Any]) -> tuple[str, int, int, int, int]:
    right = len(effects & found)
    return about, len(effects), len(found), right, len(effects) - right


def _truth(data: ReportData) -> dict[str, Any]:
    folder = data.study.folder
    content = StudyStore(folder).store.read(TRUTH_FILE) if folder else None
    try:
        truth = unsealed(content) or {}
        keys = [(row["model"], row["a"], row["b"], row["sign"]) for row in truth["correlations"]]
        keys += [(model, *testsets) for model, testsets in truth["gains"].items()]
        known = len({*keys, *truth["wrong_labels"], bool(truth["fading"])})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}  # a file of this name that breadth did not write
    return truth if known else {}


def used_statistics(data: ReportData) -> list[tuple[str, str, str]]:
    """The statistics that a page holds, with their words: what it does not use, nobody needs to read."""
    gains, correlations, items = (data.table(name) for name in ("gains", "correlations", "items"))
    kinds = set(correlations["kind"]) if correlations.height else set()
    used = {
        "profile": data.has_answers,
        "auc": gains.height > 0 and bool(gains["auc"].is_not_null().any()),
        "partial": "partial" in kinds,
        "corrected": "corrected" in kinds,
        "q": bool(kinds),
        "subjects": data.table("subjects").height > 0,
        "transfer_cells": data.table("transfer_cells").height > 0,
        "doubt": "doubt" in items.columns and bool(items["doubt"].is_not_null().any()),
    }
    return [(entry.name, entry.text, entry.page) for entry in STATISTICS if used[entry.needs]]


class MethodsSection(Section):
    """How the report was made; the page adds the study file, environments, statistics and downloads."""

    key, title = "methods", "Methods"
    template = "methods.html"

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
        seeds = ", ".join(map(str, data.facts["seeds"])) or "not recorded"
        source = "a table of scores"
        if data.facts["items"] is not None:
            source = f"a difficulty scale of {data.facts['items']:,} questions"
        if data.has_answers:
            source = f"{data.facts['responses']:,} answers. Seeds of the runs: {seeds}"
        return SectionContent(
            f"Made by breadth {import_module('breadth').__version__} from {source}. Seed of the split halves and "
            "random relabellings: 0. The same input gives the same numbers."
        )

"""Section Truth, for simulated studies: which of the report's findings are true, and what they missed."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar

import polars as pl

from breadth.datasets.simulated import TRUTH_FILE
from breadth.level_transfer import Effect
from breadth.records import Study, StudyStore, unsealed
from breadth.reporting.data import Content, ReportData, Section
from breadth.results.words import FINDING, count

#: Columns of the table: how many effects there are, how many findings, how many of these are true.
COLUMNS = {"about": pl.String, "effects": pl.Int64, "findings": pl.Int64, "true": pl.Int64, "missed": pl.Int64}


class Truth(Section):
    """What was simulated against what was found."""

    key, title = "truth", "Which findings are true?"
    headline = True
    needs = (Study,)
    tables: ClassVar[Mapping[str, str]] = {"truth": "simulated effects, findings, and how many of these are true"}
    template = "truth.html"

    def applies(self, data: ReportData) -> bool:
        """Only for studies that were simulated."""
        return bool(_truth(data))

    def write(self, data: ReportData) -> Content:
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
        return Content(finding, details=details, shown={"Found and true": table})


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

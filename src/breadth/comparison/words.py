"""Comparisons and rankings for people: verdicts, details in words, and tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.comparison.compare import By, Comparison, Within
from breadth.comparison.ranking import Ranking
from breadth.results import ALMOST_ALL, ALMOST_NONE, WORTH_SEEING, Answer, Verdict, about, times_more
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, probability_text
from breadth.results.words import FINDING, count, joined

#: How the column ``by`` is written in front of a value.
PLACES = {By.TESTSET: "on {}", By.SHIFT: "on {} test sets", By.LEVEL: "on level {}", By.ALL: "overall"}


def points(value: float) -> str:
    """A difference of accuracy in points with one decimal, and its sign."""
    return f"{100 * value:+.1f} points".replace("-", "−")


def reach(row: Mapping[str, Any], low: str = "ci_low", high: str = "ci_high") -> str:
    """The ends of an interval in points; empty where there is none."""
    if row[low] is None:
        return ""
    return f"{100 * row[low]:+.1f} to {100 * row[high]:+.1f}".replace("-", "−")


def _with_interval(row: Mapping[str, Any]) -> str:
    inside = reach(row)
    return f"{points(row['difference'])} ({inside})" if inside else points(row["difference"])


def _place(row: Mapping[str, Any]) -> str:
    return PLACES[By(row["by"])].format(row["value"])


def comparison_verdict(result: Comparison) -> Verdict:
    """Is the second model better than the first?

    A difference is a finding if q < 0.05 over all cells. For two models: It depends, where one is ahead on some cells
    and the other on others. Yes and No: the second is better, or worse, on all items. No, where it is neither, the
    interval covers 0 and a difference of 5 points would have been seen with a probability of 80 %, or where a margin
    was given and the interval lies within it. Not enough data: otherwise. For several models: Yes, if at least 90 % of
    pairs differ on all items; No, if at most 10 % do.
    """
    whole = result.cells.filter(pl.col("by") == By.ALL)
    if whole.height > 1:
        return _many(whole)
    row, parts = whole.row(0, named=True), result.cells.filter(pl.col("by") != By.ALL)
    first, second = row["first"], row["second"]
    found = parts.filter(pl.col("q") < FINDING)
    up, down = found.filter(pl.col("difference") > 0), found.filter(pl.col("difference") < 0)
    clear = row["q"] is not None and row["q"] < FINDING
    lines = " ".join(line for line in (_strongest(found), _carries(result)) if line)
    overall = f"{_with_interval(row)} on {count(row['n_items'], 'item')}"
    if up.height and down.height:
        sides = f"{second} is ahead {_where(up)} and behind {_where(down)}; overall {overall}."
        return Verdict(Answer.DEPENDS, sides, lines)
    if clear:
        better = row["difference"] > 0
        word = "better" if better else "worse"
        return Verdict(Answer.YES if better else Answer.NO, f"{second} is {word} than {first}: {overall}.", lines)
    if found.height:
        side, word = (up, "ahead of") if up.height else (down, "behind")
        reason = f"{second} is {word} {first} {_where(side)}, but not clearly overall: {overall}."
        return Verdict(Answer.DEPENDS, reason, lines)
    return _undecided(row, result, overall, lines)


def _undecided(row: Mapping[str, Any], result: Comparison, overall: str, lines: str) -> Verdict:
    """Nothing was found: because there is nothing, or because there is too little data?"""
    first, second, within, margin = row["first"], row["second"], row.get("within"), result.margin
    if within in (Within.EQUIVALENT, Within.NO_WORSE):
        said = f"{100 * (margin or 0):g} points"
        what = f"within {said} of" if within == Within.EQUIVALENT else f"no more than {said} worse than"
        return Verdict(Answer.NO, f"{second} is not clearly better than {first}, and {what} it: {overall}.", lines)
    effect = margin or WORTH_SEEING
    if row["q"] is not None and not row["ci_low"] <= 0 <= row["ci_high"]:
        tests = f"{count(result.cells.height, 'comparison')} (q = {row['q']:.2f})"
        needed = f"The interval excludes 0, but not after correction for {tests}. More items or runs would decide it."
        return Verdict(Answer.UNKNOWN, f"whether {second} differs from {first} is open: {overall}.", lines, needed)
    if row["se"] is None or (times := times_more(row["se"], effect)) <= 1:
        return Verdict(Answer.NO, f"{second} is neither clearly better nor worse than {first}: {overall}.", lines)
    needed = f"To see a difference of {100 * effect:g} points takes about {about(times)} times as many items"
    needed += " or runs." if row["runs_se"] and row["runs_se"] ** 2 > row["se"] ** 2 / 2 else "."
    return Verdict(Answer.UNKNOWN, f"whether {second} is better than {first} is open: {overall}.", lines, needed)


def _many(whole: pl.DataFrame) -> Verdict:
    clear = whole.filter(pl.col("q") < FINDING)
    reason = f"{clear.height} of {whole.height} pairs of models differ on all items."
    largest = clear.sort(pl.col("difference").abs(), descending=True)
    lines = ""
    if largest.height:
        row = largest.row(0, named=True)
        lines = f"Largest: {row['second']} minus {row['first']}, {_with_interval(row)}."
    share = clear.height / whole.height
    answer = Answer.YES if share >= ALMOST_ALL else Answer.NO if share <= ALMOST_NONE else Answer.DEPENDS
    if answer is Answer.NO and (times := times_more(float(whole["se"].median() or 0))) > 1:  # type: ignore[arg-type]
        needed = f"To see a difference of 5 points takes about {about(times)} times as many items."
        return Verdict(Answer.UNKNOWN, reason, lines, needed)
    return Verdict(answer, reason, lines)


def _where(cells: pl.DataFrame) -> str:
    """Test sets, else shifts, else levels, on which something was found."""
    for by, word in ((By.TESTSET, "on "), (By.SHIFT, "on shift "), (By.LEVEL, "on level ")):
        names = cells.filter(pl.col("by") == by).sort(pl.col("difference").abs(), descending=True)["value"].to_list()
        if names:
            return word + joined(names, 4)
    return ""


def _strongest(found: pl.DataFrame) -> str:
    if not found.height:
        return ""
    row = found.sort(pl.col("difference").abs(), descending=True, maintain_order=True).row(0, named=True)
    return f"Largest: {_with_interval(row)} {_place(row)}."


def _carries(result: Comparison) -> str:
    """Whether the sign of the difference carries over to a new test set."""
    row = result.testsets.row(0, named=True)
    if row["predict_low"] is None:
        return ""
    inside = reach(row, "predict_low", "predict_high")
    sure = row["predict_low"] > 0 or row["predict_high"] < 0
    said = "so this carries over" if sure else "so it may not carry over"
    return f"On a new test set expect {inside} points, {said}."


def comparison_details(result: Comparison) -> str:
    """What the items are treated as, means over test sets, items on which models differ, and what runs add."""
    whole = result.cells.filter(pl.col("by") == By.ALL)
    row = whole.row(0, named=True)
    parts = []
    if whole.height == 1:
        counts = (row["only_second"], row["second"]), (row["only_first"], row["first"])
        if row["runs_first"] == row["runs_second"] == 1:
            parts.append(" ".join(f"{count(round(number), 'item')} only {name} gets right." for number, name in counts))
        sets = result.testsets.row(0, named=True)
        if sets["ci_low"] is not None:
            parts.append(
                f"Mean over {sets['n_testsets']} test sets, as a sample of test sets: {_with_interval(sets)}; "
                f"{row['second']} is ahead on {sets['ahead']}."
            )
            if sets["predict_low"] is None:
                parts.append("What to expect on a new test set takes at least three.")
    test = "exact paired test" if whole["exact"].all() else "paired t test"
    clustered = f" (in clusters by {result.cluster})" if result.cluster else ""
    several = whole.filter((pl.col("runs_first") > 1) | (pl.col("runs_second") > 1)).height
    sampled = f"Items{clustered}{' and runs' if several else ''} are treated as a sample ({test} on all items)"
    parts.append(f"{sampled}; q controls the false discovery rate over {count(result.cells.height, 'difference')}.")
    if not several:
        parts.append("With one run each, how much training runs vary is not in the intervals.")
    elif row["se"]:
        share = whole.select((pl.col("runs_se") ** 2 / pl.col("se") ** 2).mean()).item()
        parts.append(f"Runs make up {share:.0%} of the squared standard error.")
    if result.margin is not None:
        tally = result.cells["within"].value_counts(sort=True).rows()
        parts.append(
            f"With a margin of {100 * result.margin:g} points, cells are "
            f"{joined([f'{word} ({number})' for word, number in tally])}."
        )
    return " ".join(parts)


def worse_words(failed: pl.DataFrame, threshold: float) -> str:
    """One sentence that says who is worse where."""
    parts = [f"{_place(row)} by {_with_interval(row)}".replace("by −", "by ") for row in failed.iter_rows(named=True)]
    models = failed["second"].unique(maintain_order=True).to_list()
    told = "; ".join(parts[:4]) + ("; ..." if len(parts) > 4 else "")
    verb = "is" if len(models) == 1 else "are"
    return (
        f"{joined(models, 3)} {verb} worse than {failed['first'][0]} by more than {100 * threshold:g} points: {told}."
    )


def ranking_verdict(result: Ranking) -> Verdict:
    """Is there a best model? Yes: the interval of the first one's rank holds no other. It depends: otherwise.

    Not enough data, where every model may be the best.
    """
    ranks = result.ranks
    best = ranks.filter(pl.col("rank_low") == 1)
    first = ranks.row(0, named=True)
    on = f"{first['accuracy']:.1%} on {count(result.n_items, 'item')}"
    if best.height == 1:
        return Verdict(Answer.YES, f"{first['model']} is the best of {ranks.height} models, {on}.", _spread(ranks))
    if best.height == ranks.height:
        return Verdict(Answer.UNKNOWN, f"each of the {ranks.height} models may be the best.", _spread(ranks))
    return Verdict(
        Answer.DEPENDS,
        f"{best.height} of {ranks.height} models may be the best; {first['model']} leads with {on}.",
        _spread(ranks),
    )


def _spread(ranks: pl.DataFrame) -> str:
    width = ranks.select((pl.col("rank_high") - pl.col("rank_low") + 1).median()).item()
    return f"The interval of a rank spans {width:g} ranks in the median." if ranks.height > 2 else ""


def ranking_details(result: Ranking) -> str:
    """Which neighbours cannot be told apart."""
    near = result.neighbours
    tied = near.filter(~pl.col("apart"))
    said = f"{tied.height} of {count(near.height, 'pair')} of neighbours cannot be told apart (q at least 0.05)"
    names = joined([f"{row['model']} and {row['next']}" for row in tied.head(3).iter_rows(named=True)], 3)
    return f"{said}{': ' + names if names else ''}{' and others' if tied.height > 3 else ''}."


def cells_table(cells: pl.DataFrame, width: int = WIDTH) -> Table:
    """A row per cell of one pair, in points; bold if the difference is a finding."""
    first, second = cells.row(0)[:2]
    within = ["margin"] if "within" in cells.columns else []
    numbers = ["items", "first", "second", "points", "interval", "q"]
    title, least = f"{second} (second) minus {first} (first)", ["items", "first", "second"]
    table = make_table(title, ["where", *within], numbers, width, least=least)
    for row in cells.head(MOST_ROWS).iter_rows(named=True):
        sure = row["q"] is not None and row["q"] < FINDING
        ends = [Text(row["within"])] if within else []
        table.add_row(
            Text(_place(row).removeprefix("on ")), *ends, f"{row['n_items']:,}", f"{row['accuracy_first']:.1%}",
            f"{row['accuracy_second']:.1%}", Text(f"{100 * row['difference']:+.1f}", style="bold" if sure else ""),
            reach(row).replace("−", "-") or "-", probability_text(row["q"]),
        )  # fmt: skip
    return table


def pairs_table(cells: pl.DataFrame, width: int = WIDTH) -> Table:
    """A row per pair of models, on all items."""
    whole = cells.filter(pl.col("by") == By.ALL)
    title = "Differences on all items: second minus first" + (
        f", {MOST_ROWS} of {whole.height}" if whole.height > MOST_ROWS else ""
    )
    numbers = ["items", "points", "interval", "q"]
    table = make_table(title, ["first", "second"], numbers, width, least=["items"])
    for row in whole.head(MOST_ROWS).iter_rows(named=True):
        sure = row["q"] is not None and row["q"] < FINDING
        gap = Text(f"{100 * row['difference']:+.1f}", style="bold" if sure else "")
        shown = (Text(row[key]) for key in ("first", "second"))
        table.add_row(
            *shown, f"{row['n_items']:,}", gap, reach(row).replace("−", "-") or "-", probability_text(row["q"])
        )
    return table


def ranks_table(ranking: Ranking, width: int = WIDTH) -> Table:
    """A row per model, the best first; = marks a model that cannot be told apart from the next."""
    ranks = ranking.ranks
    title = "Ranks (=: cannot be told apart from the next)"
    title += f": the first {MOST_ROWS} of {ranks.height}" if ranks.height > MOST_ROWS else ""
    table = make_table(title, ["model"], ["rank", "95% ranks", "accuracy", "interval", "runs"], width)
    apart = [*ranking.neighbours["apart"], True]
    for row, alone in zip(ranks.head(MOST_ROWS).iter_rows(named=True), apart, strict=False):
        ends = (
            f"{row['rank_low']} to {row['rank_high']}" if row["rank_low"] < row["rank_high"] else f"{row['rank_low']}"
        )
        span = f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}"
        table.add_row(Text(row["model"]), f"{row['rank']}{' ' if alone else '='}", ends,
                      f"{100 * row['accuracy']:.1f}", span, str(row["runs"]))  # fmt: skip
    return table

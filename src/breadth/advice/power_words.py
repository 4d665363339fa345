"""What ``advise power`` says."""

from __future__ import annotations

import math

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.advice.power import PowerAdvice
from breadth.advice.seeds import MEAN, PLANNED, SeedAdvice
from breadth.results import Answer, Verdict
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import count

WRONG_SIGN = "With a true difference of that size, the measured one has the wrong sign in {:.1%} of cases."


def rounded(items: float) -> str:
    """A number of items with two digits."""
    digits = max(0, len(str(int(items))) - 2)
    return f"{math.ceil(items / 10**digits) * 10**digits:,}"


def said_points(share: float) -> str:
    """A difference in points, as a sentence names it."""
    return "1 point" if share == 0.01 else f"{100 * share:g} points"


def power_verdict(result: PowerAdvice) -> Verdict:
    """Is there enough to see the difference? Yes: with a probability of at least 80 %."""
    said = said_points(result.difference)
    have = count(result.n_items, "item") + (f" and {result.n_runs} runs per model" if result.n_runs > 1 else "")
    chance = f"{have} show a difference of {said} with a probability of {result.power:.0%}"
    wrong = WRONG_SIGN.format(result.wrong_sign)
    first = result.plan.drop_nulls("items_paired").head(1)
    if result.power >= 0.8:
        return Verdict(Answer.YES, f"{chance}.", wrong)
    if not first.height:
        return Verdict(Answer.NO, f"{chance}.", wrong, "No number of items is enough: runs vary too much. Add seeds.")
    row = first.row(0, named=True)
    seeds = f" with {count(row['seeds'], 'seed')} per model" if row["seeds"] > 1 else ""
    needed = (
        f"It takes {rounded(row['items_paired'])} items{seeds}, answered by both models; "
        f"{rounded(row['items_unpaired'])} each if they answer different ones."
    )
    return Verdict(Answer.NO, f"{chance}.", wrong, needed)


def power_details(result: PowerAdvice) -> str:
    """Where the numbers come from."""
    noise = result.noise.row(0, named=True)
    apart = 2 * noise["accuracy"] * (1 - noise["accuracy"])
    parts = [
        f"Models that are close disagree on {noise['disagreement']:.0%} of items (10% to 90% of pairs: "
        f"{noise['low']:.0%} to {noise['high']:.0%})."
    ]
    if apart > 0:
        parts.append(f"Pairing needs {noise['disagreement'] / apart:.0%} of the items that different items would take.")
    if noise["design"] > 1:
        parts.append(f"Clusters multiply the items needed by {noise['design']:.1f}.")
    if noise["run"] is not None:
        parts.append(f"Runs of a model differ by {100 * math.sqrt(noise['run']):.1f} points (sd).")
    if noise["checkpoint"] is not None:
        parts.append(f"Neighbouring checkpoints differ by {100 * math.sqrt(noise['checkpoint']):.1f} points (sd).")
    parts.append("Power is 80% at 5% two-sided.")
    return " ".join(parts)


def plan_table(plan: pl.DataFrame, width: int = WIDTH) -> Table:
    """Items by seeds and checkpoints; a dash where no number of items is enough."""
    numbers = ["seeds", "checkpoints averaged", "paired", "unpaired"]
    table = make_table("Items needed (-: no number is enough)", [], numbers, width)
    for row in plan.iter_rows(named=True):
        sizes = (row["items_paired"], row["items_unpaired"])
        shown = ("-" if size is None else rounded(size) for size in sizes)
        table.add_row(str(row["seeds"]), str(row["checkpoints"]), *shown)
    return table


def seeds_verdict(result: SeedAdvice) -> Verdict:
    """Are there enough runs to see the difference? Yes: with a probability of at least 80 %, on the mean of all."""
    said = said_points(result.difference)
    whole = {row["checkpoints"]: row for row in result.plan.filter(testset=MEAN).iter_rows(named=True)}
    if result.power is None or result.wrong_sign is None:
        noise = result.noise.row(0, named=True)
        reason = "every model has one run, so how many seeds it takes is not known."
        line = (
            f"Neighbouring checkpoints of a run differ by {noise['checkpoint_sd']:.2f} points (sd), mean of test sets."
        )
        return Verdict(Answer.UNKNOWN, reason, line, "Add runs of one model, told apart by a column `seed`.")
    chance = (
        f"{result.n_runs} runs per model show a difference of {said} in the mean of all test sets with a probability"
    )
    wrong = WRONG_SIGN.format(result.wrong_sign)
    if result.power >= PLANNED:
        return Verdict(Answer.YES, f"{chance} of {result.power:.0%}.", wrong)
    needed = "No number of seeds up to 1,000 is enough."
    if whole[1]["seeds"] is not None:
        needed = f"It takes {whole[1]['seeds']} seeds per model"
        last = max(whole)
        saved = whole[last]["seeds"] is not None and whole[last]["seeds"] < whole[1]["seeds"]
        needed += f", or {whole[last]['seeds']} if the last {last} checkpoints are averaged." if saved else "."
    return Verdict(Answer.NO, f"{chance} of {result.power:.0%}.", wrong, needed)


def seeds_details(result: SeedAdvice) -> str:
    """Where the numbers come from, and what scores cannot tell."""
    noise = result.noise.row(0, named=True)
    parts = []
    if noise["run_sd"] is not None:
        parts.append(f"In the mean of all test sets, runs of a model differ by {noise['run_sd']:.2f} points (sd).")
    if noise["checkpoint_sd"] is not None:
        parts.append(f"Neighbouring checkpoints differ by {noise['checkpoint_sd']:.2f} points (sd).")
    if result.n_models == 1:
        parts.append("All runs are taken as repeats of one model, since no column tells models apart.")
    parts.append("Power is 80% at 5% two-sided, for new runs on the same items. Scores do not show how many items are "
                 "needed; that takes answers to single items.")  # fmt: skip
    return " ".join(parts)


def seeds_table(result: SeedAdvice, width: int = WIDTH) -> Table:
    """Seeds per model by test set and checkpoints averaged; a dash where no number is enough.

    Where no model has several runs, how far neighbouring checkpoints differ.
    """
    if result.power is None:
        table = make_table("Neighbouring checkpoints of a run differ by", ["test set"], ["sd in points"], width)
        for name, _, sd in result.noise.head(MOST_ROWS).iter_rows():
            table.add_row(Text(name), "-" if sd is None else f"{sd:.2f}")
        return table
    numbers = ["checkpoints averaged", "sd in points", "seeds"]
    table = make_table(f"Seeds per model to see {said_points(result.difference)}", ["test set"], numbers, width)
    for row in result.plan.head(MOST_ROWS).iter_rows(named=True):
        table.add_row(Text(row["testset"]), str(row["checkpoints"]), f"{row['sd']:.2f}", str(row["seeds"] or "-"))
    return table
